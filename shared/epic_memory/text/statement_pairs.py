"""Pairs of statements: whether a new one denies, changes or ends an older one, or each is about a thing of its own.

Two statements may share nearly all their words and still both hold: "I'm allergic to nuts" and "... to eggs", "My
dentist" and "My daughter's dentist". Or only one of them can: "I am allergic to penicillin", "I am not".

"The door code is now 9902" changes "The door code is 4471": all words are the same but one value of the same kind, and
it says that this has changed. "Seat 12A" does not change "ticket 7731", nor "Invoice 18 is paid" "Invoice 17 is paid".
Where that does not show, it is not sure.
"""

from __future__ import annotations

import re
from functools import lru_cache

from epic_memory.text.statements import CHANGES, Statement, statement_of, thing_of, without_signs
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


_OTHERS = re.compile(r"\b(?:he|she|they|his|her|their|him|them|you|your|\w+'s)\b(?<!i's)", re.I)
# "My boss is Dutch" gives no other name than "My boss is Ruth" does.
_ADJECTIVE = re.compile(r"(?:ish|ese|[ai]an|ch|eek|iss)$")
# What was may have been over before, and what stands elsewhere is another thing: "at 3", "from 3".
_PAST = re.compile(r"\b(?:was|were|had|worked|lived|drove)\b", re.I)
_JOINING = re.compile(r"\b(?:in|on|at|from|with|for|by|of|under|over|near|behind|before|after)\b", re.I)
_TO = re.compile(r"\b(?:to|until|into)\b", re.I)
_SECRETS = frozenset({thing_of("password")})
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


def replaces(new: str, old: str) -> bool:
    """Tell whether a statement surely gives another value for what an older one says, which does not hold then."""
    told, before = statement_of(new), statement_of(old)
    if of_others(new, old):
        return False
    if denies(new, old):
        return same_words(new, old) and told.values == before.values and told.all_names == before.all_names
    # Else there may be two: "My son is called Emil", "My son is called Max"; "my new colleague", "our new cat".
    if (CHANGES - {"new"}).isdisjoint(told.signs) or "ended" in told.signs or "also" in told.signs | before.signs:
        return False
    if of_several(new, old) or _PAST.search(new) or _PAST.search(old) or not _is_joined_alike(new, old):
        return False
    now, then = _things(told), _things(before)
    if len(now - then) == len(then - now) == 1 and not told.values | before.values:
        # "My safe's combination is marble": no other words are values for sure.
        return not _SECRETS.isdisjoint(now & then) and told.all_names == before.all_names
    return bool(now) and now == then and _has_another_value(told, before)


def ends(new: str, old: str) -> bool:
    """Tell whether a statement surely says that what an older one says is over, and nothing besides."""
    if not _OVER.search(new) or _OTHERS.search(new) or _IN_PART.search(new):
        return False
    over, held = statement_of(without_signs(new)), statement_of(without_signs(old))
    named, told = over.stems | over.all_names, held.stems | held.all_names
    subject = _SUBJECT.match(old)
    about = statement_of(f"is {subject[1]}") if subject else held
    least = about.stems | about.all_names
    return bool(named) and least <= named <= told and over.values <= held.values


def _things(statement: Statement) -> frozenset[str]:
    """Return what a statement speaks of, other words for one thing being the same."""
    return frozenset(thing_of(word) or stem(word) for word in statement.topic)


def _is_joined_alike(new: str, old: str) -> bool:
    """Tell whether the same words join two statements to their values; what moved "to" somewhere may leave one out."""
    now, then = (set(_JOINING.findall(without_signs(text).lower())) for text in (new, old))
    return now == then or (now < then and _TO.search(new) is not None)


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
