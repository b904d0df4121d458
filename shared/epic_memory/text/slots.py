"""Slots: what a statement says about whom, so that one which answers a question is recognised.

A slot is a subject and a relation ("my dentist's number" and "is", "I" and "live"). All of this is English; a statement
in another language has no slot.
"""

from __future__ import annotations

import re
from typing import NamedTuple, TypeAlias

from epic_memory.text.stems import content_stems

Slot: TypeAlias = tuple[frozenset[str], str]
"""The stems of whom or what a statement is about, "i" for the speaker, and the name of the relation."""

_NOW = r"(?:now|currently|recently|just|already|finally|actually|also|still)"
_SUBJECT = (
    r"(?P<subject>i|we|(?:my|our|the|his|her|their|this|that)\s[\w'’ -]{1,60}?|[a-z][\w'’.-]*(?:\s[\w'’.-]+){0,5}?)"
)
# Each relation: its name, whether it holds one value at a time, and the words that express it.
_RELATIONS: tuple[tuple[str, bool, str], ...] = (
    ("live", True, r"(?:lives?|living|resides?|(?:is|am|are|'m|'s|'re) based)(?: \w+ly)? (?:in|at|on|with)"),
    ("live", True, r"(?:have |has |'ve |'s )?(?:moved|relocated)(?: house| flat| back| again)? (?:to|in with|into)"),
    ("work", True, r"(?:works?|working|(?:have |has )?(?:started|began)(?: working| a job)?)(?: \w+ly)? (?:at|for)"),
    ("work", True, r"(?:have |has |'ve )?(?:joined|got a (?:new )?job (?:at|with))"),
    ("job", True, r"works? as|(?:have |has |'ve )?(?:became|been promoted to|was promoted to)"),
    ("age", True, r"(?:am|'m|is|'s|turned|are)(?= (?:\d+|[a-z]+ty(?:-\w+)?)(?: years old)?$)"),
    ("drive", True, r"drives?"),
    ("use", True, r"(?:have |has |'ve )?switched (?:over )?to"),
    ("cost", True, r"costs?|goes for"),
    ("time", True, r"(?:starts?|begins?|leaves?|departs?|opens?|closes?|arrives?|ends?|finish(?:es)?)(?: on| at)?"),
    ("be", True, r"(?:have |has |was |were |is |are |been )*(?:moved|rescheduled|postponed|changed|shifted|put back"
     r"|brought forward|renamed|updated|set|raised|lowered|cut)(?: from .+?)? (?:to|for|until)"),
    ("be", True, r"(?:is|am|are|'m|'re|was|were|'s(?= (?:an?|the|my|our|in|on|at|not|now|called|number|dr|mrs?|ms)\b))"
     r"(?: scheduled| due| called| named)?(?: for| on| at)?"),
    ("have", False, r"(?:has|have|'ve|owns?|keeps?)(?: got)?"),
    ("like", False, r"(?:likes?|loves?|enjoys?|prefers?|hates?|dislikes?|plays?|speaks?|eats?|drinks?|collects?)"),
    ("study", True, r"(?:studies|study|is studying|am studying|goes to)"),
)  # fmt: skip
_STATEMENTS = [
    (name, single, re.compile(rf"{_SUBJECT}(?:\s{_NOW})*(?:\s|(?='))(?:{verb})\b(?:\s{_NOW})*\s*(?P<value>.*)", re.I))
    for name, single, verb in _RELATIONS
]
_OPENING = re.compile(
    r"^(?:(?:correction|update|change of plan|news|by the way|fyi|ps|note|actually|well|so|ok|and|but)\b[\s:,.-]*"
    r"|(?:since|from|as of) [\w ]{2,30}?, )+",
    re.I,
)
_ENDING = re.compile(r"\b(?:no longer|stopped|quit|gave up|left|sold|any ?more)\b\s*", re.I)
# Questions about relations whose statements need share no word with them: "Where do I live?", "We moved to Braga".
_QUESTIONS = tuple(
    (relation, re.compile(pattern, re.I))
    for relation, pattern in (
        ("live", r"\bwhere (?:do|does|did|is|am|are) (.+?) (?:live|living|based|reside|staying|moved?)\b"),
        ("live", r"\b(my|our) (?:current )?(?:home )?(?:town|city|address|place of residence)\b"),
        ("work", r"\b(?:where|(?:what|which) (?:company|firm|place)) (?:do|does|did) (.+?) work\b"),
        ("work", r"\bwho (?:do|does) (.+?) work for\b"),
        ("work", r"\bwho(?:'s| is) (my|our) employer\b|\b(my|our) (?:current )?(?:employer|company|workplace)\b"),
        (
            "job",
            r"\bwhat (?:do|does) (.+?) do(?: for (?:a living|work))?\s*\?*$|\b(my|our) (?:job|profession|occupation)\b",
        ),
        ("age", r"\bhow old (?:is|am|are) (.+?)\s*\?*$|\b(my|our) age\b"),
        ("drive", r"\b(?:what|which) (?:car|bike|van) (?:do|does) (.+?) drive\b"),
    )
)
_PERSONS = frozenset({"i", "we"})
# A subject of more words than this is no name of a thing.
_LONGEST_SUBJECT = 8
# More characters than a statement or a question has, and more than can be taken apart in a moment.
_LONGEST = 500


class Relation(NamedTuple):
    """Parts of a statement about a subject, in its own words: "My rent", "cost", " costs", "900 euros".

    Attributes:
        subject: Whom or what it is about.
        name: The name of the relation.
        single: Whether it holds one value at a time.
        verb: The words that express it.
        value: The rest.
    """

    subject: str
    name: str
    single: bool
    verb: str
    value: str


def slot_of(statement: str) -> Slot | None:
    """Return the slot of a statement, or None if it has none that is known."""
    found = relation_of(statement)
    if found is None:
        return None
    subject = _subject(found.subject)
    return (subject, found.name) if subject and content_stems(found.value) else None


def said_value(statement: str) -> str:
    """Return what a statement says of its subject, in its own words; empty if it has no slot that is known."""
    found = relation_of(statement)
    return "" if found is None else found.value.strip()


def relation_of(statement: str) -> Relation | None:
    """Return what a statement says of a subject, or None if that is none of the known relations."""
    text = " ".join(statement.replace("’", "'").split()).rstrip(".!; ")
    if len(text) > _LONGEST:
        return None
    plain = " ".join(_ENDING.sub("", _OPENING.sub("", text)).split())
    best: Relation | None = None
    for name, single, pattern in _STATEMENTS:
        match = pattern.fullmatch(plain)
        # The earliest verb is the statement's; of several readings at one place the first in the table counts.
        if (
            match
            and len(match["subject"].split()) <= _LONGEST_SUBJECT
            and (best is None or match.end("subject") < len(best.subject))
        ):
            is_thing = match["subject"].lower().startswith(("my ", "our ", "the ", "this ", "that "))
            called = "be" if name == "age" and is_thing else name
            verb = plain[match.end("subject") : match.start("value")]
            best = Relation(match["subject"], called, single, verb, match["value"])
    return best


def asked_slot(question: str) -> Slot | None:
    """Return the slot that a question asks about, or None if it is none of the known ones."""
    for relation, pattern in _QUESTIONS:
        if match := pattern.search(question[:_LONGEST].replace("’", "'")):
            subject = next((part for part in match.groups() if part), "i")
            return ("you" in subject.lower().split() and frozenset({"i"})) or _subject(subject), relation
    return None


def _subject(text: str) -> frozenset[str]:
    if text.lower() in (*_PERSONS, "my", "our"):
        return frozenset({"i"})
    return frozenset(content_stems(text.replace("'s", "")))


def is_same_subject(one: frozenset[str], other: frozenset[str]) -> bool:
    """Tell whether two subjects are one, or one names the other in fewer words."""
    if "i" in (*one, *other):
        return one == other
    return bool(one and other) and (one <= other or other <= one)
