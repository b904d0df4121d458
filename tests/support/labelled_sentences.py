"""Labelled sentences of users, and texts: the rows of `labelled_sentences.jsonl`, by the test that reads them."""

from __future__ import annotations

from functools import partial

from tables import table

labelled = partial(table, __file__)
"""Rows of a test: a text, or a list of a text and its labels."""
