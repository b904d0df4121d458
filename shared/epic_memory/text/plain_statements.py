"""Plain statements: a subject, what is said of it, a value; whether one surely changes or ends what an older one says.

"The door code is now 9902" changes "The door code is 4471": the subject has the same words, and so has what is said of
it, but for one value of the same kind, and it says that this has changed. "Seat 12A" does not change "ticket 7731", nor
"Invoice 18 is paid" "Invoice 17 is paid", nor "I live in Bergen" "My sister lives in Oslo". Where that does not show,
it is not sure.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from epic_memory.text.slots import relation_of
from epic_memory.text.statement_pairs import denies, of_several, same_words
from epic_memory.text.statements import CHANGES, DAYS, Statement, statement_of, without_signs
from epic_memory.text.stems import stem

_WORD = re.compile(r"[^\W_]+(?:[-/'.:@][^\W_]+)*")
_DETERMINERS = frozenset({"my", "our", "the", "a", "an", "new"})
_SPEAKER = frozenset({"i", "we"})
# Another sentence tells whom or what these mean.
_ELSEWHERE = frozenset(
    {"he", "she", "it", "they", "this", "that", "these", "those", "there", "his", "her", "their", "its", "it's"}
)
_OTHERS = re.compile(r"\b(?:he|she|they|his|her|their|him|them|you|your|\w+'s)\b(?<!i's)", re.I)
# "My boss is Dutch" gives no other name than "My boss is Ruth" does.
_ADJECTIVE = re.compile(r"(?:ish|ese|[ai]an|ch|eek|iss)$")
_JOINING = re.compile(r"\b(?:in|on|at|from|with|for|by|of|under|over|near|behind|to|into|until|till|before|after)\b")
_CHANGED_TO = re.compile(r"\b(?:to|until)$")
_PAST = re.compile(r"(?:was|were|had|worked|lived|drove)\b")
# "Helen left", "the boiler is off" and "I lost my keys" may end nothing.
_OVER = re.compile(
    r"\b(?:no longer|any ?more|stopped|quit|sold|cancell?ed|died|rid of|"
    r"g(?:ave|iven?) (?:[\w' ]{1,30} )?(?:up|away))\b",
    re.I,
)
# So do "one of the cats died" and "I cancelled my yoga class this week".
_IN_PART = re.compile(r"\b(?:(?:one|two|three|some|most|half|part) of|today|tonight|tomorrow|this \w+)\b", re.I)
_SECRETS = frozenset({"password", "passcode", "pin", "code", "combination"})
_LAST_HOUR = 24


@dataclass(frozen=True, kw_only=True)
class _Plain:
    """A statement taken apart.

    Attributes:
        subject: The words of whom or what it is about; "i" alone for the speaker.
        relation: The name of what is said of it.
        verb: The words for that, small letters.
        value: The rest.
        kinds: What kinds of values are in that, in order; names together count as one.
    """

    subject: tuple[str, ...]
    relation: str
    verb: str
    value: Statement
    kinds: tuple[str, ...]


def replaces(new: str, old: str) -> bool:
    """Tell whether a statement surely gives another value for what an older one says, which does not hold then."""
    told, before = statement_of(new), statement_of(old)
    if denies(new, old):
        return same_words(new, old) and told.values == before.values and _subject_of(new) == _subject_of(old)
    # Else there may be two: "My son is called Emil", "My son is called Max"; "my new colleague", "our new cat".
    if (CHANGES - {"new"}).isdisjoint(told.signs) or "ended" in told.signs or "also" in told.signs | before.signs:
        return False
    if of_several(new, old):
        return False
    one, other = _plain(new), _plain(old)
    if one is None or other is None or (one.subject, one.relation) != (other.subject, other.relation):
        return False
    if not one.kinds and not other.kinds:
        # "My safe's combination is marble": no other words are values for sure.
        secret = not _SECRETS.isdisjoint(one.subject)
        return secret and len(one.value.topic) == len(other.value.topic) == 1
    return _same_kinds(one.kinds, other.kinds) and one.value.stems == other.value.stems and _same_verb(one, other)


def ends(new: str, old: str) -> bool:
    """Tell whether a statement surely says that what an older one says is over, and nothing besides."""
    if not _OVER.search(new) or _OTHERS.search(new) or _IN_PART.search(new):
        return False
    over, held = statement_of(without_signs(new)), statement_of(without_signs(old))
    named, told = over.stems | over.all_names, held.stems | held.all_names
    if not named or not named <= told or not over.values <= held.values:
        return False
    values = held.values | held.names
    whole = _subject_of(old) == ("i",) and bool(values) and values <= over.values | over.all_names
    return whole or _subject_words(old, told) <= named


def _subject_words(text: str, told: frozenset[str]) -> frozenset[str]:
    """Return the stems and names of whom or what a statement is about; all of them if it is about the speaker."""
    subject = _subject_of(text)
    return (
        told if not subject or subject == ("i",) else frozenset(w for w in told if w in {*subject, *map(stem, subject)})
    )


def _same_kinds(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Tell whether values are of the same kinds, where "at 3" and "to 4" may both be hours."""
    if "hour" in one + other:
        one, other = (tuple("hour" if kind == "small" else kind for kind in kinds) for kinds in (one, other))
    one, other = (tuple("number" if kind == "small" else kind for kind in kinds) for kinds in (one, other))
    return sorted(one) == sorted(other)


def _same_verb(one: _Plain, other: _Plain) -> bool:
    """Tell whether both say the same of their subject, not where it is and whose it is."""
    if any(_PAST.match(each.verb) for each in (one, other)):
        return False
    if one.relation != "be":
        return one.relation in ("live", "work") or stem(one.verb.split()[0]) == stem(other.verb.split()[0])
    joined = [(_JOINING.findall(each.verb) or [""])[-1] for each in (one, other)]
    if "name" not in one.kinds:
        timed = all({"hour", "day"} & {*each.kinds} for each in (one, other))
        return joined[0] == joined[1] or timed or _CHANGED_TO.search(one.verb) is not None
    return joined[0] == joined[1] and not any(map(_ADJECTIVE.search, one.value.names | other.value.names))


@lru_cache(maxsize=4096)
def _plain(text: str) -> _Plain | None:
    relation = relation_of(without_signs(text))
    if relation is None or not relation.single or relation.name == "use":
        return None
    subject = _words_of(relation.subject)
    # A word in front, so that a name with which the value begins counts as one.
    value = statement_of(f"is {relation.value}")
    kinds = [*map(_kind, value.when), *map(_kind, value.numbers), *(["name"] if value.names else [])]
    name = relation.name
    if name == "live" and subject != ("i",) and _CHANGED_TO.search(relation.verb.casefold().rstrip()):
        name = "be" if not value.names else name  # a meeting moves to another hour
    person = subject == ("i",) or (relation.subject[:1].isupper() and len(relation.subject.split()) == 1)
    if not subject or (name == "be" and person and set(kinds) - {"number", "small"}):
        return None
    first = relation.value.casefold().split(maxsplit=1)[:1]
    verb = " ".join([*relation.verb.casefold().split(), *(first if first and _JOINING.fullmatch(first[0]) else [])])
    return _Plain(subject=subject, relation=name, verb=verb, value=value, kinds=tuple(sorted(kinds)))


def _subject_of(text: str) -> tuple[str, ...]:
    relation = relation_of(without_signs(text))
    return () if relation is None else _words_of(relation.subject)


def _words_of(subject: str) -> tuple[str, ...]:
    """Return the words of a subject, none if another sentence tells what they mean."""
    words = tuple(word.casefold() for word in _WORD.findall(subject))
    if not _ELSEWHERE.isdisjoint(words):
        return ()
    return ("i",) if len(words) == 1 and words[0] in _SPEAKER else tuple(w for w in words if w not in _DETERMINERS)


def _kind(value: str) -> str:
    """Return of which kind a value is: an hour, a day of the week, a date, a small number, or any other."""
    if ":" in value:
        return "hour"
    if value in DAYS:
        return "day"
    if value.isdigit():
        return "small" if int(value) <= _LAST_HOUR else "number"
    return "date" if " " in value or value.isalpha() else "number"
