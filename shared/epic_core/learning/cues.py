"""Cues: statements of a user about themselves, found in their own turns by words alone; precision before recall.

A turn is read in three steps. First what is not the user's own word about today's world is masked: quoted lines, code,
quotations, pasted texts, what is played or made up. Then sentences with a question, a condition, reported speech or
irony in front of the statement are passed over (`boundaries.py`). What is left is looked through for a first person
with a cue (`grammar.py`, `rules.py`, `wishes.py`, `changes.py`). What is passed over is told with the reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import Literal, NamedTuple, TypeAlias

from epic_core.learning import boundaries, changes, durations, grammar, manners, rules, wishes
from epic_core.learning.conversations import Turn
from epic_core.learning.pastes import doubtful_from, told_by_others, without_pastes
from epic_core.text.statements import statement_of
from epic_core.types.validation import local_time

Change: TypeAlias = Literal["none", "undo", "stop", "turn", "update", "shift", "news"]
About: TypeAlias = Literal["preference", "fact"] | None

_LONGEST_TURN = 4000
_LONGEST_PARAGRAPH = 120  # words; people do not say so much of themselves at once
_LONGEST_QUOTE = 240
_AROUND = 12  # characters around a statement that say nothing, such as "please"
_PERHAPS = 0.8  # confidence in what may be meant for once
DOUBTFUL = 0.5  # confidence in what may have been pasted: for the user to decide
_APOSTROPHES = str.maketrans("\u2018\u2019\u201b\u02bc\u201c\u201d\u201e", "''''\"\"\"")
_UNSEEN = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]")
_SENTENCE = re.compile(
    r"(?<!\bMr\.)(?<!\bMrs\.)(?<!\bMs\.)(?<!\bDr\.)(?<!\bSt\.)(?<=[.!?\u2026])[)\"']*\s+|(?<!\s)\s*\n\s*"
)
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
# What follows from what a sentence says before it, and what says of whom it speaks.
_FOLLOWS = re.compile(r"\b(?:so|hence|therefore)\b[,\s]*$", re.I)
_OWN_SUBJECT = re.compile(r"(?:i|we|my|our)\b", re.I)
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
# Why something does not count.
_ASKED = "asked or supposed"
_CORRECTED = "put right at once"
_FOR_ONCE = "wished for once"
_OF_OTHERS = "quoted, pasted or made up"
_AT_THE_FRONT = (grammar.THING_FIRST, rules.TOLD, manners.MANNER)


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
        left_out: Why it does not count; empty if it does.
    """

    quote: str
    about: About
    change: Change = "none"
    confidence: float = 0.9
    until: datetime | None = None
    left_out: str = ""


class _Found(NamedTuple):
    """Where a statement begins and ends, what it is about, and why it does not count, if so."""

    first: int
    last: int
    about: About
    change: Change
    left_out: str = ""


def statements(turn: Turn, now: datetime, *, every: bool = False) -> list[Statement]:
    """Return what a user says of themselves in a turn; nothing for the turns of others.

    Args:
        turn: The turn.
        now: The time at which it was said, with its zone, from which "today" is reckoned.
        every: Whether also those are returned that do not count.
    """
    if turn.role != "user":
        return []
    if len(turn.text) > _LONGEST_TURN:
        start = turn.text[:_LONGEST_QUOTE]
        return [Statement(quote=start, about=None, left_out="in a turn that is too long")] if every else []
    plain = _plain(turn.text)
    masked = without_pastes(own_words(turn.text))
    made = [*_read(masked, turn.text, now)]
    if not every:
        return [each for _, each in made if not each.left_out]
    if masked != plain:
        spans = [span for span, _ in made]
        made += [
            (span, replace(each, left_out=_OF_OTHERS))
            for span, each in _read(plain, turn.text, now)
            if all(span.stop <= other.start or other.stop <= span.start for other in spans)
        ]
        made.sort(key=lambda one: one[0].start)
    return [each for _, each in made]


def _read(masked: str, text: str, now: datetime) -> Iterator[tuple[range, Statement]]:
    """Yield where a text has statements, and these, also those that do not count."""
    doubtful = doubtful_from(masked)
    start = 0
    for boundary in [*_SENTENCE.finditer(masked), None]:
        end = len(masked) if boundary is None else boundary.start()
        limit = durations.SENTENCE_LIMIT.match(masked, start, end)
        lasting = durations.end_of(limit.group(), now) if limit else None
        every = [*_in_sentence(masked, start, end)]
        found = [each for each in every if not each.left_out] or [*_shifted(masked, start, end)]
        for each in every:
            if each.left_out and all(each.last <= other.first or other.last <= each.first for other in found):
                found.append(each)
        for first, last, about, change, reason in found:
            quote, left_out, most = text[first:last], reason, DOUBTFUL if first >= doubtful else 1.0
            time_behind = durations.TIME_BEHIND.match(masked, last, end)
            scope = masked[first : time_behind.end() if time_behind else last]
            if len(quote.split()) < 2:
                continue
            if len(quote) > _LONGEST_QUOTE:
                quote, left_out = quote[:_LONGEST_QUOTE], reason or "too long for a statement"
            if not left_out and manners.MANNER.match(quote) and not manners.LASTING.search(masked, start, end):
                # How one text is to be written is said for once, beside a question perhaps for good.
                others = text[:first] + text[last:]
                if manners.TASK.search(others):
                    left_out = _FOR_ONCE
                elif len(others) > _AROUND or not manners.FORBIDDEN.match(quote):
                    most = min(most, _PERHAPS)
            if left_out:
                statement = Statement(quote=quote, about=about, change=change, left_out=left_out)
            else:
                # "I'm on antibiotics for the next two weeks, so no dairy for me": that holds as long.
                behind = about == "fact" and limit is not None and not masked[limit.end() : first].strip(" ,")
                goes_on = _FOLLOWS.search(masked, start, first) or behind or not _OWN_SUBJECT.match(quote)
                statement = _timed(quote, scope, about, change, now, lasting if goes_on else None, most)
                lasting = statement.until
            yield range(first, last), statement
        start = 0 if boundary is None else boundary.end()


def sentence_of(text: str, quote: str) -> str:
    """Return the sentence of a turn in which a quote stands; the sentences, if those are several."""
    first = text.find(quote)
    start = max((cut.end() for cut in _SENTENCE.finditer(text) if cut.end() <= first), default=0)
    end = min((cut.start() for cut in _SENTENCE.finditer(text) if cut.start() >= first + len(quote)), default=len(text))
    return text[start:end].strip()


def only_asks(text: str) -> bool:
    """Tell whether a text is questions alone, in which the user says nothing of themselves."""
    sentences = [sentence.strip() for sentence in _SENTENCE.split(text) if sentence.strip()]
    asks = all(each.endswith("?") and boundaries.QUESTION.match(each) for each in sentences)
    turn = Turn(role="user", speaker="user", text=text)
    return bool(sentences) and asks and not statements(turn, datetime.now(timezone.utc))


def said_at(turn: Turn) -> datetime:
    """Return when a turn was said, in local time; now if it is not known."""
    return local_time(datetime.now(timezone.utc) if turn.time is None else datetime.fromisoformat(turn.time))


def _plain(text: str) -> str:
    # A format character, which nobody sees, hides no label.
    return _UNSEEN.sub(" ", text.translate(_APOSTROPHES))


def own_words(text: str) -> str:
    """Return a text, cut at what is pasted, in which places stay and all that is not the user's own word is blank."""
    text = _plain(text)
    if boundaries.NO_TURN.search(text):
        return ""
    for masked in (boundaries.MASKED, boundaries.REQUESTED):
        text = masked.sub(lambda match: re.sub(r"[^\n]", "\x00", match.group()), text)
    for others in (boundaries.PLAYED, boundaries.PASTED):
        if found := others.search(text):
            text = text[: found.start()]
    position = 0
    for paragraph in re.split(r"(\n\s*\n)", text):
        if len(paragraph.split()) > _LONGEST_PARAGRAPH:
            text = text[:position] + "\n" * len(paragraph) + text[position + len(paragraph) :]
        position += len(paragraph)
    return text


def _in_sentence(text: str, start: int, end: int) -> Iterator[_Found]:
    """Yield the statements of a sentence, also those that do not count."""
    sentence = text[start:end]
    if _QUOTED.search(sentence) or not sentence.strip():
        return
    pasted = len(sentence.split()) > _LONGEST_PARAGRAPH
    if pasted or told_by_others(sentence):
        if found := _first(sentence, 0):
            yield _Found(start + found[0], end, *found[1:], _OF_OTHERS if pasted else "said by somebody else")
        return
    if given := _to_remember(sentence):
        first, last, about = given
        yield _Found(start + first, start + last, about, "none")
        return
    asks = sentence.rstrip(" )\"'").endswith("?")
    place = done = 0
    while (found := _first(sentence, place)) is not None:
        begin, about, change = found
        place = begin + 2
        front = sentence[:begin]
        if reason := _not_stated(front):
            yield _Found(start + begin, end, about, change, reason)
            continue
        stop = _end_of(sentence, begin, change)
        words = sentence[begin:stop]
        asked = asks and stop == len(sentence) and not rules.ASKED.match(sentence, begin)
        begin += len(words) - len(words.lstrip())
        words = words.strip(" .,;:!-\u2013\u2014(")
        if boundaries.CORRECTED.match(sentence, stop):
            reason = _CORRECTED
        else:
            reason = _ASKED if asked else _not_meant(words, about, change)
        if reason not in (_ASKED, _CORRECTED):
            place = max(place, begin + len(words))
        if reason:
            yield _Found(start + begin, start + begin + len(words), about, change, reason)
            continue
        fronted = durations.TIME_IN_FRONT.search(front) or boundaries.CONDITION.search(front)
        if fronted and fronted.start() >= done:
            begin, words = fronted.start(), sentence[fronted.start() : begin] + words
        done = begin + len(words)
        yield _Found(start + begin, start + done, about, change)


def _end_of(sentence: str, begin: int, change: Change) -> int:
    """Return where a statement of a sentence ends."""
    stop = len(sentence)
    # A cut stands behind the words by which the statement was found.
    opening = max(
        (len(cue.group()) for cue in (_BOTH.match(sentence, begin), _rule(sentence, begin)) if cue),
        default=0,
    )
    for mark in (boundaries.CUT, boundaries.NEXT):
        # "I've left Initech, I'm at Globex now" is one change, "keep it short, I hate scrolling" one rule.
        goes_on = (change == "stop" and changes.INSTEAD.match(sentence, begin)) or _is_told(sentence, begin)
        if not (goes_on and mark is boundaries.NEXT) and (cut := mark.search(sentence, begin + max(4, opening), stop)):
            stop = cut.start()
    return stop


def _not_stated(front: str) -> str:
    """Return why no statement of the user's own may begin behind these words of its sentence; empty if it may."""
    if boundaries.NOT_MEANT.search(front) or boundaries.QUESTION.match(front.lstrip()) or _WHILE.search(front):
        return _ASKED
    if boundaries.REPORTED.search(front) and not boundaries.I_SAID.search(front):
        return "reported of somebody"
    if ": " in front and not boundaries.COLON.match(front):
        return _OF_OTHERS
    begins = boundaries.BEGINNING.search(front) or boundaries.CONDITION.search(front)
    return "" if begins else "inside another clause"


def _not_meant(words: str, about: About, change: Change) -> str:
    """Return why a statement does not count, by its own words; empty if it does."""
    if change != "none":
        return ""
    if boundaries.NOT_MEANT.search(words):
        return _ASKED
    if about is None:
        return "the taste of somebody else"
    # "My job is", of what went on with a role that is played, states nothing.
    part = _is_part(words) if about == "preference" else len(words.split()) < 4 and _STUB.search(words)
    return "about what only the context names" if part else ""


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
    return _STUB.search(words) is not None or (_rule(words, 0) is None and _POINTS.search(words) is not None)


def _is_told(sentence: str, begin: int) -> bool:
    return not _LEAD.sub("", sentence[:begin], count=1) and _rule(sentence, begin) is not None


def _rule(sentence: str, begin: int) -> re.Match[str] | None:
    return rules.TOLD.match(sentence, begin) or manners.MANNER.match(sentence, begin)


def _shifted(text: str, start: int, end: int) -> Iterator[_Found]:
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
    yield _Found(start, start + len(words), None, change)


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
            # "No need for disclaimers" is a rule, and ends nothing.
            forbids = manners.FORBIDDEN.match(sentence, begin) and manners.MANNER.match(sentence, begin)
            rank = -1 if forbids else len(_CUES)
            found.append((begin, rank, "preference", "none"))
            break
    if not found:
        return None
    start, _, about, change = min(found, key=lambda one: one[:2])
    if about == "fact" and change == "none" and grammar.TASTE_OF_OTHERS.match(sentence, start):
        about = None
    return start, about, change


def _timed(
    quote: str, scope: str, about: About, change: Change, now: datetime, lasting: datetime | None, most: float
) -> Statement:
    """Return a statement with its end; it does not count if that is not known, or past.

    Args:
        scope: Where the end may be said.
        lasting: The end that the sentence gives it; None for none.
        most: The highest confidence that it can have.
    """
    plain = quote.translate(_APOSTROPHES)
    until = None if change != "none" else durations.end_of(scope, now) or lasting
    if about == "fact" and until is not None and until <= now:
        until = None  # "I have lived in Porto until 2019": that it was so still holds
    left_out = ""
    if until is None and change == "none" and about == "preference":
        if durations.OPEN_END.search(scope):
            left_out = "for a time of which the end is not known"
        elif _is_wish(plain):
            left_out = _FOR_ONCE
    elif until is not None and until <= now:
        left_out = "over already"
    if until is not None and wishes.STATE.search(plain):
        about = "fact"
    confidence = 0.95 if about == "preference" else 0.9
    if change != "none" or until is not None:
        confidence = 0.8
    if grammar.HEDGED.search(scope):
        confidence = min(confidence, 0.7)
    confidence = min(confidence, most)
    return Statement(quote=quote, about=about, change=change, confidence=confidence, until=until, left_out=left_out)


def _is_wish(quote: str) -> bool:
    """Tell whether nothing but a wish is said, which counts only where it is for once."""
    return not any(cue.search(quote) for cue, *_ in _CUES[:-1]) and not any(
        cue.match(quote) for cue in (grammar.ELLIPTIC, *_AT_THE_FRONT)
    )
