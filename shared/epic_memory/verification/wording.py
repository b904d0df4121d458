"""Wording of the embedded verifier's instructions: the user's own words, and the sentence of the text to look at."""

from __future__ import annotations

import re
from functools import lru_cache

from epic_memory.text.language import ENGLISH
from epic_memory.text.translations import LANGUAGES, translated
from epic_memory.types import Stance

# Instructions by stance, around the preference and the sentence.
_TEMPLATES = {
    Stance.SUPPORTS: 'Suits what the user said: "{}" Here: "{}"',
    Stance.CONFLICTS: 'Steer clear: the user said: "{}" Here: "{}"',
    Stance.MIXED: 'Some of this suits and some does not: the user said: "{}" Here: "{}"',
    Stance.NEUTRAL: 'Check before recommending: the user said: "{}" Here: "{}"',
}
_STEER_CLEAR = "Steer clear"
_QUOTED_WORDS = 30
_QUOTED_CHARACTERS = 240


def worded_instruction(stance: Stance, sentence: str, preference: str, language: str = ENGLISH) -> str:
    """Return what to do with a text under a preference, with the sentence to look at, in one of `LANGUAGES`."""
    return translated(_TEMPLATES[stance], language).format(_cut(preference), _cut(sentence))


def is_worded(instruction: str) -> bool:
    """Tell whether `worded_instruction` may have written an instruction: it only quotes the preference and the text."""
    return any(_worded(language).fullmatch(instruction) for language in LANGUAGES)


def is_warning(instruction: str, stance: Stance) -> bool:
    """Tell whether an instruction begins with the warning that its stance calls for, in any of `LANGUAGES`."""
    return instruction.lower().startswith(_warnings(stance))


@lru_cache
def _warnings(stance: Stance) -> tuple[str, ...]:
    beginnings = (_STEER_CLEAR,) if stance is not Stance.MIXED else (_STEER_CLEAR, _TEMPLATES[stance])
    return tuple(translated(one, each).partition("{}")[0].lower() for one in beginnings for each in LANGUAGES)


@lru_cache
def _worded(language: str) -> re.Pattern[str]:
    """Return a pattern for all instructions in a language."""
    templates = (translated(one, language) for one in _TEMPLATES.values())
    return re.compile("|".join(".+".join(map(re.escape, one.split("{}"))) for one in templates), re.S)


def _cut(sentence: str) -> str:
    words = sentence.split()
    cut = " ".join(words[:_QUOTED_WORDS])[:_QUOTED_CHARACTERS]
    return cut if cut == " ".join(words) else cut + " ..."
