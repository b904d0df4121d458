"""Function words of languages other than English, which identify a text's language."""

from __future__ import annotations

from epic_graph.extraction.word_lists import read_lists

LANGUAGES = read_lists("function_words.txt")
