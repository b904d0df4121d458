"""Plain statements: whether one surely changes or ends what an older one says.

"The door code is now 9902" changes "The door code is 4471": all words are the same but one value of the same kind, and
it says that this has changed. "Seat 12A" does not change "ticket 7731", nor "Invoice 18 is paid" "Invoice 17 is paid".
Where that does not show, it is not sure.
"""

from __future__ import annotations

import re

from epic_memory.text.statement_pairs import denies, of_others, of_several, same_words
from epic_memory.text.statements import CHANGES, Statement, statement_of, thing_of, without_signs
from epic_memory.text.stems import stem

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
