"""Translations of what a user and their model read: for each language a JSON object, from the English to its own."""

from __future__ import annotations

import json
from functools import lru_cache
from importlib.resources import files

from epic_memory.text.language import ENGLISH

LANGUAGES = (ENGLISH, "de", "es", "fr", "ja", "zh")
"""ISO 639-1 codes of the languages with translations; docs/contributing.md says how to add one."""


def translated(message: str, language: str, package: str = "epic_memory") -> str:
    """Return an English message in a language, by a package's `data/translations/LANGUAGE.json`."""
    return message if language == ENGLISH else translations(language, package).get(message, message)


@lru_cache
def translations(language: str, package: str = "epic_memory") -> dict[str, str]:
    """Return a package's messages in a language, by their English."""
    file = files(package) / "data" / "translations" / f"{language}.json"
    found: dict[str, str] = json.loads(file.read_text(encoding="utf-8"))
    return found
