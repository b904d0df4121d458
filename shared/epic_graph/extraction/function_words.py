"""Function words of languages other than English, which identify a text's language."""

from __future__ import annotations

from epic_memory.text.phrases import sections, word_set

LANGUAGES = {code: word_set(*lines) for code, lines in sections("function_words", "epic_graph").items()}
