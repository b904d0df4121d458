"""Pairs of statements: whether a new one denies or repeats an older one, or each is about another relative.

Two statements may share nearly all their words and still both hold: "I'm allergic to nuts" and "... to eggs". Or only
one of them can: "I am allergic to penicillin", "I am not".
"""

from __future__ import annotations

import re

from epic_memory.text.statements import statement_of
from epic_memory.text.stems import content_stems

_DENIAL = re.compile(r"\b(?:not|no|never|without|cannot|cant|dont|wont|none|neither|nor)\b|n't\b", re.I)
_MARKS = ".,;:!?()\"'"
RELATIVES = frozenset(
    content_stems(
        "daughter son husband wife partner mother father mum dad sister brother friend boss child kid dog cat"
    )
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
    """Tell whether two statements name other relatives: "my brother's birthday", "my sister's birthday"."""
    return statement_of(one).stems & RELATIVES != statement_of(other).stems & RELATIVES


def _plain(text: str) -> str:
    return text.replace("\u2019", "'")


def _words(text: str) -> set[str]:
    return set(content_stems(_DENIAL.sub(" ", _plain(text))))
