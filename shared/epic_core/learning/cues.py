"""Cues: statements of a user about themselves, found in their own turns by words alone; precision before recall.

A turn is read in three steps. First what is not the user's own word about today's world is masked: quoted lines, code,
quotations, pasted texts, role play, fiction. Then sentences with a question, a condition, reported speech or irony in
front of the statement are passed over (`boundaries.py`). What is left is looked through for a first person with a cue
(`grammar.py`, `rules.py`, `wishes.py`, `changes.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Literal, TypeAlias

from epic_core.learning import boundaries, changes, durations, grammar, rules, wishes
from epic_core.learning.conversations import Turn
from epic_core.learning.pastes import doubtful_from, told_by_others, without_pastes
from epic_core.text.statements import statement_of

Change: TypeAlias = Literal["none", "undo", "stop", "turn", "update", "shift", "news"]
About: TypeAlias = Literal["preference", "fact"] | None

_LONGEST_TURN = 4000
_LONGEST_PARAGRAPH = 120  # words; people do not say so much of themselves at once
_LONGEST_QUOTE = 240
DOUBTFUL = 0.5  # confidence in what may have been pasted: for the user to decide
_APOSTROPHES = str.maketrans("\u2018\u2019\u201b\u02bc\u201c\u201d\u201e", "''''\"\"\"")
_UNSEEN = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]")
_SENTENCE = re.compile(r"(?<!\bMr\.)(?<!\bMrs\.)(?<!\bMs\.)(?<!\bDr\.)(?<!\bSt\.)(?<=[.!?\u2026])[)\"']*\s+|\s*\n\s*")
_LEAD = re.compile(
    r"\s*(?:(?:so|and|but|also|ok|okay|oh|well|hi|fyi|honestly|really|just|look|yes|no(?=,)),? |for the record,? )*",
    re.I,
)
# Where a rule may begin within a sentence: "I get seasick, so no boats, ever".
_PLEASE = re.compile(r",? (?:please|ok|okay|thanks|will you|would you)$", re.I)
_RULE = re.compile(r"(?:[,;:\u2013\u2014]|\s-)\s+|\b(?:so|because|but|and|since)\s+")
# A quotation longer than a few words; a shorter one may stand in a statement: "I never sign off with 'Best'".
_QUOTED = re.compile("\x00{24}")
# The end of a statement of which a part is missing.
_STUB = re.compile(
    r"\b(?:to|be|feel|(?<!i )(?<!we )can|is|are|was|it's|the|an?|and|or|but|my|your|(?<!or )so|very|those|these)$", re.I
)
# What follows holds for a time of which nobody can say the end.
_WHILE = re.compile(r"\b(?:while|as long as) (?:i'm|i am|we're|we are)\b", re.I)
_POINTS = re.compile(
    r"\b(?:(?:this|these|those)\b(?! (?:kinds?|sorts?|types?|time|week\w*|month|year|morning|evening|afternoon|summer|"
    r"winter|spring|autumn|january|february|march|april|may|june|july|august|september|october|november|december|term|"
    r"trip|once|one|house|home|family|household|flat|kitchen|who|with|of|in need)\b)|"
    r"(?:of|to|in|for|with|on|at|like) that) ?(?!is\b|i\b|we\b)",
    re.I,
)
_BOTH = re.compile(r"my \w+(?: \w+)? and i\b|me and (?:the|my) \w+", re.I)
# Signs of something that may change a fact.
_NEWS = frozenset({"now", "changed", "ended", "instead"})
# Of several at one place, the first counts.
_CUES: tuple[tuple[re.Pattern[str], About, Change], ...] = (
    (changes.UNDO, None, "undo"),
    (changes.TURN, None, "turn"),
    (changes.STOP, None, "stop"),
    (changes.UPDATE, "fact", "update"),
    (grammar.PREFERENCE, "preference", "none"),
    (grammar.FACT, "fact", "none"),
    (wishes.WISH, "preference", "none"),
)
_AT_THE_FRONT = (grammar.THING_FIRST, rules.TOLD)


@dataclass(frozen=True, kw_only=True)
class Statement:
    """A statement of the user about themselves.

    Attributes:
        quote: The user's words.
        about: Whether it says a preference or a fact; None if only what it changes can tell.
        change: Whether and how it changes what was said before: "undo" takes it back, "stop" ends it, "turn" says
            something else, "update" brings a fact up to date, "shift" may be any of these where it shares words with
            something known, "news" may change a fact that is known.
        confidence: In (0, 1].
        until: Until when it holds; None for always.
    """

    quote: str
    about: About
    change: Change = "none"
    confidence: float = 0.9
    until: datetime | None = None


def statements(turn: Turn, now: datetime) -> list[Statement]:
    """Return what a user says of themselves in a turn; nothing for the turns of others.

    Args:
        turn: The turn.
        now: The time at which it was said, with its zone, from which "today" is reckoned.
    """
    if turn.role != "user" or len(turn.text) > _LONGEST_TURN:
        return []
    masked = without_pastes(own_words(turn.text))
    doubtful = doubtful_from(masked)
    made: list[Statement] = []
    start = 0
    for boundary in [*_SENTENCE.finditer(masked), None]:
        end = len(masked) if boundary is None else boundary.start()
        found = [*_in_sentence(masked, start, end)] or [*_shifted(masked, start, end)]
        for first, last, about, change in found:
            quote = turn.text[first:last]
            behind = durations.TIME_BEHIND.match(masked, last, end)
            if len(quote.split()) > 1 and len(quote) <= _LONGEST_QUOTE:
                scope = masked[first : behind.end() if behind else last]
                made += _timed(quote, scope, about, change, now, DOUBTFUL if first >= doubtful else 1.0)
        start = 0 if boundary is None else boundary.end()
    return made


def only_asks(text: str) -> bool:
    """Tell whether a text is questions alone, in which the user says nothing of themselves."""
    sentences = [sentence.strip() for sentence in _SENTENCE.split(text) if sentence.strip()]
    asks = all(each.endswith("?") and boundaries.QUESTION.match(each) for each in sentences)
    turn = Turn(role="user", speaker="user", text=text)
    return bool(sentences) and asks and not statements(turn, datetime.now(timezone.utc))


def said_at(turn: Turn) -> datetime:
    """Return when a turn was said, in local time; now if it is not known."""
    return (datetime.now(timezone.utc) if turn.time is None else datetime.fromisoformat(turn.time)).astimezone()


def own_words(text: str) -> str:
    """Return a text, cut at what is pasted, in which places stay and all that is not the user's own word is blank."""
    # A format character, which nobody sees, hides no label.
    text = _UNSEEN.sub(" ", text.translate(_APOSTROPHES))
    if boundaries.NO_TURN.search(text):
        return ""
    text = boundaries.MASKED.sub(lambda match: re.sub(r"[^\n]", "\x00", match.group()), text)
    if pasted := boundaries.PASTED.search(text):
        text = text[: pasted.start()]
    position = 0
    for paragraph in re.split(r"(\n\s*\n)", text):
        if len(paragraph.split()) > _LONGEST_PARAGRAPH:
            text = text[:position] + "\n" * len(paragraph) + text[position + len(paragraph) :]
        position += len(paragraph)
    return text


def _in_sentence(text: str, start: int, end: int) -> Iterator[tuple[int, int, About, Change]]:
    """Yield where the statements of a sentence begin and end, and what they are about."""
    sentence = text[start:end]
    if _QUOTED.search(sentence) or not sentence.strip():
        return
    if told_by_others(sentence):
        return
    if given := _to_remember(sentence):
        first, last, about = given
        yield start + first, start + last, about, "none"
        return
    asks = sentence.rstrip(" )\"'").endswith("?")
    place = done = 0
    while (found := _first(sentence, place)) is not None:
        begin, about, change = found
        place = begin + 2
        front = sentence[:begin]
        if not _states(front):
            continue
        stop = len(sentence)
        # A cut stands behind the words by which the statement was found.
        opening = max(
            (len(cue.group()) for cue in (_BOTH.match(sentence, begin), rules.TOLD.match(sentence, begin)) if cue),
            default=0,
        )
        for mark in (boundaries.CUT, boundaries.NEXT):
            # "I've left Initech, I'm at Globex now" is one change, "keep it short, I hate scrolling" one rule.
            goes_on = (change == "stop" and changes.INSTEAD.match(sentence, begin)) or _is_told(sentence, begin)
            if not (goes_on and mark is boundaries.NEXT) and (
                cut := mark.search(sentence, begin + max(4, opening), stop)
            ):
                stop = cut.start()
        asked = asks and not rules.ASKED.match(sentence, begin)
        if (asked and stop == len(sentence)) or boundaries.CORRECTED.match(sentence, stop):
            continue
        words = sentence[begin:stop]
        if boundaries.NOT_MEANT.search(words) and change == "none":
            continue
        begin += len(words) - len(words.lstrip())
        words = words.strip(" .,;:!-\u2013\u2014(")
        place = max(place, begin + len(words))
        if (about is None and change == "none") or (change == "none" and about == "preference" and _is_part(words)):
            continue  # the taste of somebody else
        fronted = durations.TIME_IN_FRONT.search(front) or boundaries.CONDITION.search(front)
        if fronted and fronted.start() >= done:
            begin, words = fronted.start(), sentence[fronted.start() : begin] + words
        done = begin + len(words)
        yield start + begin, start + done, about, change


def _states(front: str) -> bool:
    """Tell whether a statement of the user's own may begin behind these words of its sentence."""
    begins = boundaries.BEGINNING.search(front) or boundaries.CONDITION.search(front)
    if not begins or boundaries.NOT_MEANT.search(front):
        return False
    if boundaries.QUESTION.match(front.lstrip()) or (": " in front and not boundaries.COLON.match(front)):
        return False
    if _WHILE.search(front):
        return False
    return not boundaries.REPORTED.search(front) or boundaries.I_SAID.search(front) is not None


def _to_remember(sentence: str) -> tuple[int, int, About] | None:
    """Return where what the user asks to be remembered begins and ends, and what it is about."""
    given = boundaries.REMEMBER.match(sentence)
    if (
        given is None
        or (sentence.rstrip().endswith("?") and " you " not in given.group())
        or boundaries.NOT_MEANT.search(sentence)
    ):
        return None
    words = _PLEASE.sub("", sentence[given.end() :].rstrip(" .,;:!?-\u2013\u2014("))
    cue = _first(words, 0)
    return given.end(), given.end() + len(words), (cue[1] if cue else None) or "fact"


def _is_part(words: str) -> bool:
    """Tell whether a statement lacks a part, or is about something that only its context names."""
    return _STUB.search(words) is not None or (rules.TOLD.match(words) is None and _POINTS.search(words) is not None)


def _is_told(sentence: str, begin: int) -> bool:
    return not _LEAD.sub("", sentence[:begin], count=1) and rules.TOLD.match(sentence, begin) is not None


def _shifted(text: str, start: int, end: int) -> Iterator[tuple[int, int, About, Change]]:
    """Yield the first part of a sentence as a statement if it has a word of change."""
    sentence = text[start:end]
    stop = cut.start() if (cut := boundaries.CUT.search(sentence, 4)) else len(sentence)
    words = sentence[:stop].rstrip(" .,;:!-\u2013\u2014(")
    asks = stop == len(sentence) and sentence.rstrip(" )\"'").endswith("?")
    change: Change = "shift" if changes.SHIFT.search(words) else "news"
    if asks or "\x00" in words or ": " in words:
        return
    if change == "news" and statement_of(words).signs.isdisjoint(_NEWS):
        return
    if (
        boundaries.NOT_MEANT.search(words)
        or boundaries.REPORTED.search(words)
        or boundaries.QUESTION.match(words.lstrip())
    ):
        return
    yield start, start + len(words), None, change


def _first(sentence: str, place: int) -> tuple[int, About, Change] | None:
    """Return where the first statement from a place on begins, and its kind."""
    found: list[tuple[int, int, About, Change]] = []
    for rank, (cue, about, change) in enumerate(_CUES):
        if match := cue.search(sentence, place):
            found.append((match.start(), rank, about, change))
    places = [0] if place == 0 else []
    for after in [*places, *(rule.end() for rule in _RULE.finditer(sentence, place))]:
        lead = _LEAD.match(sentence, after)
        begin = lead.end() if lead else after
        cues = (grammar.ELLIPTIC, *_AT_THE_FRONT) if after == 0 else _AT_THE_FRONT
        if any(cue.match(sentence, begin) for cue in cues):
            found.append((begin, len(_CUES), "preference", "none"))
            break
    if not found:
        return None
    start, _, about, change = min(found, key=lambda one: one[:2])
    if about == "fact" and change == "none" and grammar.TASTE_OF_OTHERS.match(sentence, start):
        about = None
    return start, about, change


def _timed(quote: str, scope: str, about: About, change: Change, now: datetime, most: float) -> Iterator[Statement]:
    """Yield a statement with its end if it holds for good or its end is known.

    Args:
        scope: Where the end may be said.
        most: The highest confidence that it can have.
    """
    plain = quote.translate(_APOSTROPHES)
    until = None if change != "none" else durations.end_of(scope, now)
    if until is None and change == "none":
        if about == "preference" and (durations.OPEN_END.search(scope) or _is_wish(plain)):
            return
    elif until is not None and until <= now:
        return
    if until is not None and wishes.STATE.search(plain):
        about = "fact"
    confidence = 0.95 if about == "preference" else 0.9
    if change != "none" or until is not None:
        confidence = 0.8
    if grammar.HEDGED.search(scope):
        confidence = min(confidence, 0.7)
    confidence = min(confidence, most)
    yield Statement(quote=quote, about=about, change=change, confidence=confidence, until=until)


def _is_wish(quote: str) -> bool:
    """Tell whether nothing but a wish is said, which counts only where it is for once."""
    return not any(cue.search(quote) for cue, *_ in _CUES[:-1]) and not any(
        cue.match(quote) for cue in (grammar.ELLIPTIC, *_AT_THE_FRONT)
    )
