"""Pairs of statements that look alike: whether one denies the other, or each is about a thing of its own.

Two statements may share nearly all their words and still both hold: "I'm allergic to nuts" and "... to eggs", "My
dentist" and "My daughter's dentist". Or only one of them can: "I am allergic to penicillin", "I am not".
"""

from __future__ import annotations

import re
from functools import lru_cache

from epic_memory.text.stems import content_stems, stem

_DENIAL = re.compile(r"\b(?:not|no|never|without|cannot|cant|dont|wont|none|neither|nor)\b|n't\b", re.I)
_WORD = re.compile(r"[^\W_]+")
_MARKS = ".,;:!?()\"'"
# "Hepatitis A", "vitamin D"; not "row R seat 43".
_LETTER = re.compile(r"(?<=[a-z] )[A-HJ-Z](?=[.,;!?]|$)")
RELATIVES = frozenset(
    content_stems(
        "daughter son husband wife partner mother father mum dad sister brother friend boss child kid dog cat"
    )
)
# Whose a thing is: "Mila's dentist", but not "Mila's six" and "it's Monday"; which one it is: "my work email".
_OWNED = (
    re.compile(
        r"\b(?!(?i:it|that|there|he|she|what|who|where|here|let|how|this|today|every\w+|nobody)')([\w-]{1,60})'s?\s+"
        r"(?!(?:an?|the|my|our|his|her|their|not|no|now|been|got|gone|on|in|at|to|with|from|just|very|so|too|really|still"
        r"|over|closed|done|off|back|dead|sold|away|out|down|up|\w+ing|\w+ed)\b)([a-z][\w-]*)"
    ),
    re.compile(
        r"\b(?i:my|our|the|his|her|their|\w+'s)\s+(work|second(?! half| floor)|ex|private|personal|business|mobile)"
        r"[\s-]+([a-z][\w-]*)"
    ),
)
# What somebody can have, or be, of several things at a time.
_SEVERAL = re.compile(
    r"\b(?:allerg\w+|intoleran\w+|vaccinat\w+|immune|afraid|scared|speaks?|plays?|collects?|likes?|loves?|enjoys?|hates?"
    r"|eats?|drinks?|member|trained|qualified|interested|good at)\b",
    re.I,
)


def denies(one: str, other: str) -> bool:
    """Tell whether one of two statements has a negation more than the other."""
    return (len(_DENIAL.findall(_plain(one))) - len(_DENIAL.findall(_plain(other)))) % 2 == 1


def same_words(one: str, other: str) -> bool:
    """Tell whether two statements have the same content words, negations apart."""
    return _words(one) == _words(other)


def says_again(one: str, other: str) -> bool:
    """Tell whether two statements have the same words in the same order, whatever their case and marks."""
    words, others = ([word.strip(_MARKS) for word in _plain(each).casefold().split()] for each in (one, other))
    return words == others


def of_others(one: str, other: str) -> bool:
    """Tell whether two statements are about things that are called the same, of two owners or of two kinds."""
    one, other = _plain(one), _plain(other)
    letters = set(_LETTER.findall(one)), set(_LETTER.findall(other))
    return (all(letters) and letters[0] != letters[1]) or _has_its_own(one, other) or _has_its_own(other, one)


def _has_its_own(one: str, other: str) -> bool:
    if not (owned_by := _owned(one)):
        return False
    words = _stems(other)
    return any(owner not in words if owned in words else owned in RELATIVES for owner, owned in owned_by)


@lru_cache(maxsize=4096)
def _owned(text: str) -> tuple[tuple[str, str], ...]:
    """Return the stems of the owners that a text names, each with that of what is owned."""
    found = [pair for pattern in _OWNED for pair in pattern.findall(text)]
    return tuple((stem(whose.casefold()), stem(thing.casefold())) for whose, thing in found)


@lru_cache(maxsize=4096)
def _stems(text: str) -> frozenset[str]:
    return frozenset(stem(word) for word in _WORD.findall(text.casefold()))


def of_several(one: str, other: str) -> bool:
    """Tell whether two statements name what somebody can have several of at a time."""
    return bool(_SEVERAL.search(one) and _SEVERAL.search(other))


def _plain(text: str) -> str:
    return text.replace("\u2019", "'")


def _words(text: str) -> set[str]:
    return set(content_stems(_DENIAL.sub(" ", _plain(text))))
