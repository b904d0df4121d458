"""Labelled sentences of users, and texts: the rows of `labelled_sentences.jsonl`, by the test that reads them."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

_FILE = Path(__file__).with_suffix(".jsonl")


@cache
def _rows() -> list[dict[str, Any]]:
    return [json.loads(line) for line in _FILE.read_text(encoding="utf-8").splitlines()]


def labelled(name: str) -> list[Any]:
    """Return the rows of a test: a text, or a list of a text and its labels."""
    return [each["row"] for each in _rows() if each["of"] == name]
