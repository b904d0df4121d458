"""Pairs of statements that look alike: whether one denies the other, or each is about a thing of its own.

Two statements may share nearly all their words and still both hold: "I'm allergic to nuts" and "... to eggs", "My
dentist" and "My daughter's dentist". Or only one of them can: "I am allergic to penicillin", "I am not".
"""

from __future__ import annotations

import re

from epic_core.text.stems import content_stems, stem

_DENIAL = re.compile(r"\b(?:not|no|never|without|cannot|cant|dont|wont|none|neither|nor)\b|n't\b", re.I)
_WORD = re.compile(r"[^\W_]+")
# "Hepatitis A", "vitamin D".
_LETTER = re.compile(r"(?<=[a-z] )[A-HJ-Z]\b")
_RELATIVES = frozenset(
    content_stems(
        "daughter son husband wife partner mother father mum dad sister brother friend boss child kid dog cat"
    )
)
_NAME = re.compile(r"(?<![.!?] )(?<!^)\b[A-Z][\w-]+")
# Whose a thing is: "Mila's dentist"; which one it is: "my work email", "my second dog", "my ex-wife".
_OWNED = (
    re.compile(r"\b([\w-]+)'s?\s+([a-z][\w-]*)", re.I),
    re.compile(
        r"\b(?:my|our|the|his|her|their|\w+'s)\s+"
        r"(work|second|third|other|ex|spare|private|personal|business|mobile|late)[\s-]+([a-z][\w-]*)",
        re.I,
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


def in_another_order(one: str, other: str) -> bool:
    """Tell whether two statements name the same in another order: "Call Bob before Anna", "Call Anna before Bob"."""
    names, others = _NAME.findall(one), _NAME.findall(other)
    return names != others and sorted(names) == sorted(others)


def of_others(one: str, other: str) -> bool:
    """Tell whether two statements are about things that are called the same, of two owners or of two kinds."""
    one, other = _plain(one), _plain(other)
    letters = set(_LETTER.findall(one)), set(_LETTER.findall(other))
    return (all(letters) and letters[0] != letters[1]) or _has_its_own(one, other) or _has_its_own(other, one)


def _has_its_own(one: str, other: str) -> bool:
    words = {stem(word) for word in _WORD.findall(other.casefold())}
    for pattern in _OWNED:
        for whose, thing in pattern.findall(one):
            owner, owned = stem(whose.casefold()), stem(thing.casefold())
            if (owned in words and owner not in words) or (owned not in words and owned in _RELATIVES):
                return True
    return False


def of_several(one: str, other: str) -> bool:
    """Tell whether two statements name what somebody can have several of at a time."""
    return bool(_SEVERAL.search(one) and _SEVERAL.search(other))


def _plain(text: str) -> str:
    return text.replace("\u2019", "'")


def _words(text: str) -> set[str]:
    return set(content_stems(_DENIAL.sub(" ", _plain(text))))
