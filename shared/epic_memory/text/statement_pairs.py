"""Pairs of statements: whether a new one denies, changes or ends an older one.

Two statements may share nearly all their words and still both hold: "I'm allergic to nuts" and "... to eggs". Or only
one of them can: "I am allergic to penicillin", "I am not".

"The door code is now 9902" changes "The door code is 4471": all words are the same but one value of the same kind, and
it says that this has changed. "Seat 12A" does not change "ticket 7731", nor "Invoice 18 is paid" "Invoice 17 is paid".
Where that does not show, it is not sure.
"""

from __future__ import annotations

import re

from epic_memory.text.statements import CHANGES, Statement, statement_of, thing_of, without_signs
from epic_memory.text.stems import content_stems, stem

_DENIAL = re.compile(r"\b(?:not|no|never|without|cannot|cant|dont|wont|none|neither|nor)\b|n't\b", re.I)
_MARKS = ".,;:!?()\"'"
RELATIVES = frozenset(
    content_stems(
        "daughter son husband wife partner mother father mum dad sister brother friend boss child kid dog cat"
    )
)
# "My boss is Dutch" gives no other name than "My boss is Ruth" does.
_ADJECTIVE = re.compile(r"(?:ish|ese|[ai]an|ch|eek|iss)$")
# Whom or what a statement is about, unless it is the speaker.
_SUBJECT = re.compile(
    r"(?!(?:i|we)\b)(.{1,60}?)(?:'s| (?:is|are|was|has|have|costs?|lives?|works?|starts?|opens?|closes?)) ", re.I
)
# "Helen left", "the boiler is off" and "I lost my keys" may end nothing.
_OVER = re.compile(
    r"\b(?:no longer|any ?more|stopped|quit|sold|cancell?ed|died|rid of|"
    r"g(?:ave|iven?) (?:[\w' ]{1,30} )?(?:up|away))\b",
    re.I,
)
# So do "one of the cats died" and "I cancelled my yoga class this week".
_IN_PART = re.compile(r"\b(?:(?:one|two|three|some|most|half|part) of|today|tonight|tomorrow|this \w+)\b", re.I)


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


def replaces(new: str, old: str) -> bool:
    """Tell whether a statement surely gives another value for what an older one says, which does not hold then."""
    told, before = statement_of(new), statement_of(old)
    if of_others(new, old):
        return False
    if denies(new, old):
        return same_words(new, old) and told.values == before.values and told.all_names == before.all_names
    # Else there may be two: "My son is called Emil", "My son is called Max"; "my new colleague", "our new cat".
    if (CHANGES - {"new"}).isdisjoint(told.signs) or "ended" in told.signs:
        return False
    now, then = _things(told), _things(before)
    return bool(now) and now == then and _has_another_value(told, before)


def ends(new: str, old: str) -> bool:
    """Tell whether a statement surely says that what an older one says is over, and nothing besides."""
    if not _OVER.search(new) or _IN_PART.search(new):
        return False
    over, held = statement_of(without_signs(new)), statement_of(without_signs(old))
    named, told = over.stems | over.all_names, held.stems | held.all_names
    subject = _SUBJECT.match(old)
    about = statement_of(f"is {subject[1]}") if subject else held
    least = about.stems | about.all_names
    return bool(named) and least <= named <= told and over.values <= held.values


def _plain(text: str) -> str:
    return text.replace("\u2019", "'")


def _words(text: str) -> set[str]:
    return set(content_stems(_DENIAL.sub(" ", _plain(text))))


def _things(statement: Statement) -> frozenset[str]:
    """Return what a statement speaks of, other words for one thing being the same."""
    return frozenset(thing_of(word) or stem(word) for word in statement.topic)


def _has_another_value(new: Statement, old: Statement) -> bool:
    """Tell whether two statements have values of the same kinds, of which those of one kind are others."""
    kinds = ((new.when, old.when), (new.numbers, old.numbers), (new.names, old.names))
    changed = [kind for kind, (now, then) in enumerate(kinds) if now != then]
    if len(changed) != 1 or any(len(now) != len(then) for now, then in kinds):
        return False
    now, then = kinds[changed[0]]
    if now is new.names and any(map(_ADJECTIVE.search, new.names | old.names)):
        return False
    # A day and an hour move together.
    return len(now - then) == 1 or now is new.when
