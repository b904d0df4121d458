"""Cues: what a user says of themselves, found in their own turns clause by clause.

What is not the user's own word is masked, and clauses with a condition, reported speech or irony are passed over
(`boundaries.py`). What is left is read by a linear classifier of words and pairs of words, which
`shared/tools/fit_cues.py` fitted on turns written by people who saw no code. A clause of which it is not sure is told
as such, and not proposed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from functools import lru_cache
from importlib.resources import files
from itertools import pairwise
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from epic_learn import boundaries, durations
from epic_learn.boundaries import SENTENCE, own_words, without_pastes
from epic_learn.conversations import Turn
from epic_learn.references import topic
from epic_learn.times import local_time
from epic_memory.types import FloatArray
from epic_memory.types.weights import StageWeights

Saying: TypeAlias = Literal["nothing", "preference", "fact", "replace", "remove", "news"]
About: TypeAlias = Literal["preference", "fact"]
SAYINGS: tuple[Saying, ...] = ("nothing", "preference", "fact", "replace", "remove", "news")


@dataclass(frozen=True, kw_only=True)
class CueWeights(StageWeights):
    """Bounds and values of the confidence in a statement of a turn."""

    least_known: float  # share of known words below which a clause is in another language
    sure: float  # chance from which a clause says something of the user
    perhaps: float  # chance from which it is told among what was left out
    doubtful: float  # most confidence in what may have been pasted: for the user to decide
    plain: float  # least chance of a plain statement of the user
    hedged: float  # most confidence in what is hedged
    changing: float  # most confidence in what ends, or changes what was said
    lasting: float  # most confidence in anything else


_LONGEST_TURN, _LONGEST_QUOTE = 4000, 240
_LONGEST_CLAUSE = 60  # words
_ASKS = (
    r"wh(?:at|ich|ere|o|y)(?:'?s|'?re|'?d)?|how(?:'?s|'?d)?|when (?:do|can|should|will|does|is|are)|is|are|do|does|did|"
    r"can|could|would|will|should|any(?:thing)?|please|pls|plz|tell|give|find|show|suggest|recommend|plan|book|let's|"
    r"help|need|want|looking|thanks|thx|ideas?|you|make|write|if"
)
_BEGINS = r"i|we|i'\w+|im|ive|we're|we've|my|our|no|never|always|keep|don't|dont|until|till|for the next"
_JOINS = r"so|and|but|then|or|ok|also|because|cos|cause|since|as"
# Where another clause begins.
_CUT = re.compile(
    rf"(?:\s{{0,9}}[;:(\u2013\u2014]|\s-|,)\s{{1,9}}(?=(?:(?:{_JOINS})\s)?(?:{_ASKS}|{_BEGINS})\b)|"
    rf"\s{{0,9}}[;(\u2013\u2014]|\s-\s|,?\s(?:{_JOINS}|anyway)\s{{1,9}}(?=(?:{_ASKS}|{_BEGINS})\b)|,\sso\s|"
    r"\sthat\s(?=(?:i|we|i'\w+|my|our)\b)|,\s(?=(?:by the way|btw|fyi|just so you know|as i said)\b)",
    re.I,
)
_LEAD = re.compile(
    r"[\s,]*(?:(?:just so you know|so|and|but|also|ok|okay|oh|well|hi|hey|hello|fyi|btw|by the way|honestly|just|look|"
    r"yes|no(?=,)|yeah|because|cos|since|then|now(?=,)|that(?= (?:i|we|my|our)\b)|for the record|as i said|"
    r"remember that|ps|p\.s\.|fun fact|fwiw|tbh|thanks|please note|good (?:morning|evening|day))\b"
    r"[ ,.:!\u2013\u2014-]*)*",
    re.I,
)
# What goes with the clause behind it: "When I ask for code, give me Python", "My wife and I live in Rome".
_CONDITION = re.compile(
    r"\s*(?:(?:when(?:ever)?|every time|if|for|in|with|on|at|as|before|after|while) [^,]+|(?:my|our) \w+(?: \w+)?)",
    re.I,
)
# "I love jazz", "I don't eat pork", "I'm allergic to nuts".
_PLAIN = re.compile(
    r"(?:(?:i|we) (?:(?:really|do|also|never|always|usually) )?(?:love|like|hate|avoid|prefer|dislike|enjoy|adore|"
    r"(?:can't|cannot) stand|(?:don't|do not|never) (?:eat|drink|like|touch))|(?:i'm|im|i am) (?:allergic to|not into))"
    r" (?!it\b|this|that|these|those|to\b|you|how|when|what|all\b|him\b|her\b|them\b)[\w'-]+(?: [\w'-]+){0,3}"
    r"(?=[,.;:(]|$)",
    re.I,
)
_SUBJECT = re.compile(r"\b(?:i|we|im|ive|my|our)\b", re.I)
_JOINED = re.compile(r"[.!?]|\b(?:and|but|also)\b", re.I)
_HEDGED = re.compile(r"\b(?:i think|kind of|sort of|probably|sometimes|a bit|mostly|usually|often|tend to)\b", re.I)
_SOME_DAY = datetime(2026, 5, 6, 9, tzinfo=timezone.utc)
_QUOTED = re.compile("\x00{24}")
_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?|\d+")
_MARKS = " .,;:!?-\u2013\u2014("
_ASKED, _OF_OTHERS = "asked or supposed", "quoted, pasted or made up"


@dataclass(frozen=True, kw_only=True)
class Statement:
    """A statement of the user about themselves.

    Attributes:
        quote: The user's words.
        about: Whether it says a preference or a fact.
        change: Whether it changes what was said before: "replace" and "remove" a preference, "news" a fact.
        confidence: In (0, 1].
        until: Until when it holds; None for always.
        left_out: Why it does not count; empty if it does.
    """

    quote: str
    about: About = "fact"
    change: Literal["none", "replace", "remove", "news"] = "none"
    confidence: float = 0.9
    until: datetime | None = None
    left_out: str = ""


class Clause(NamedTuple):
    """A part of a sentence.

    Attributes:
        first, last: Its place in the turn.
        words: Its words, without what leads to it.
        front: What stands before it in its sentence.
        gap: What leads to it from the clause before: "and", a comma.
        asks: Whether a question mark follows it.
        left_out: Why it can state nothing; empty if it can.
    """

    first: int
    last: int
    words: str
    front: str
    gap: str
    asks: bool
    left_out: str


def statements(turn: Turn, now: datetime, known: Iterable[str] = (), *, every: bool = False) -> list[Statement]:
    """Return what a user says of themselves in a turn; nothing for the turns of others.

    Args:
        turn: The turn.
        now: The time at which it was said, with its zone, from which "today" is reckoned.
        known: The texts of what is known, which a change may be about.
        every: Whether also those are returned that do not count.
    """
    if turn.role != "user":
        return []
    if len(turn.text) > _LONGEST_TURN:
        start = turn.text[:_LONGEST_QUOTE]
        return [Statement(quote=start, left_out="in a turn that is too long")] if every else []
    plain, own = boundaries.plain(turn.text), without_pastes(own_words(turn.text))
    topics = frozenset[str]().union(*map(topic, known))
    made = _read(own, turn.text, now, topics)
    if every and own != plain:
        spans = [span for span, _ in made]
        made += [
            (span, replace(each, left_out=_OF_OTHERS))
            for span, each in _read(plain, turn.text, now, topics)
            if not each.left_out and all(span.stop <= one.start or one.stop <= span.start for one in spans)
        ]
        made.sort(key=lambda one: one[0].start)
    return [each for _, each in made if every or not each.left_out]


def clauses(own: str) -> Iterator[Clause]:
    """Yield the clauses of a text, of which what is not the user's own word is blank."""
    start = 0
    for boundary in [*SENTENCE.finditer(own), None]:
        end = len(own) if boundary is None else boundary.start()
        sentence = own[start:end]
        if sentence.strip() and not _QUOTED.search(sentence):
            yield from _in_sentence(sentence, start)
        start = len(own) if boundary is None else boundary.end()


def _in_sentence(sentence: str, start: int) -> Iterator[Clause]:
    others = "said by somebody else" if boundaries.told_by_others(sentence) else ""
    asks = sentence.rstrip(" )\"'").endswith("?")
    place = 0
    for cut in [*_CUT.finditer(sentence), None]:
        end = len(sentence) if cut is None else cut.start()
        piece = sentence[place:end]
        if cut is not None and _CONDITION.fullmatch(piece):
            continue
        lead = _LEAD.match(piece)
        first = place + (lead.end() if lead else 0)
        words = sentence[first:end].strip(_MARKS)
        if len(words.split()) < 2:
            continue
        first = sentence.index(words, first)
        front, gap = sentence[:first], sentence[place:first]
        reason = others or _not_meant(front, words)
        at = start + first
        yield Clause(at, at + len(words), words, front, gap, asks and cut is None, reason)
        place = end


def _not_meant(front: str, words: str) -> str:
    """Return why a clause states nothing of the user, by its words and those before it; empty if it may."""
    if len(words.split()) > _LONGEST_CLAUSE:
        return _OF_OTHERS
    if ": " in front and not boundaries.OWN_LABEL.match(front):
        return _OF_OTHERS
    if boundaries.NOT_MEANT.search(f"{front}{words}"):
        return _ASKED
    own = _SUBJECT.search(words)
    told = f"{front}{words[: own.start()] if own else ''}"
    return "reported of somebody" if boundaries.REPORTED.search(told) else ""


def _read(own: str, text: str, now: datetime, topics: frozenset[str]) -> list[tuple[range, Statement]]:
    """Return where a text has statements, and these, also those that do not count."""
    weights = CueWeights.shipped()
    doubtful = boundaries.doubtful_from(own)
    made: list[tuple[range, Statement]] = []
    for clause in clauses(own):
        chances = _chances(clause, topics)
        sure = 1.0 - float(chances[0])
        if not clause.asks and _PLAIN.fullmatch(clause.words) and " the " not in clause.words:
            sure = max(sure, weights.plain)
        if sure < weights.perhaps:
            continue
        place = range(clause.first, clause.last)
        follows = bool(made) and not own[made[-1][0].stop : clause.first].replace(clause.gap, "", 1).strip()
        saying = SAYINGS[1 + int(np.argmax(chances[1:]))]
        about: About = "fact" if saying in ("fact", "news") else "preference"
        is_joined = _JOINED.search(clause.gap) is not None
        goes_on = follows and clause.gap.strip() and about == made[-1][1].about and not is_joined
        if goes_on and not made[-1][1].left_out:
            # "Keep it short, I hate scrolling" is one statement.
            (whole, first), until = made.pop(), durations.end_of(clause.words, now)
            quote = text[whole.start : clause.last][:_LONGEST_QUOTE]
            made.append((range(whole.start, clause.last), replace(first, quote=quote, until=first.until or until)))
            continue
        lasting = made[-1][1].until if follows and not is_joined else None
        statement = _timed(clause, text[clause.first : clause.last], about, saying, sure, now, lasting)
        if clause.first >= doubtful:
            statement = replace(statement, confidence=min(statement.confidence, weights.doubtful))
        made.append((place, statement))
    return made


def _timed(
    clause: Clause, quote: str, about: About, saying: Saying, sure: float, now: datetime, lasting: datetime | None
) -> Statement:
    """Return a statement with its end; it does not count if that is not known, or past."""
    weights = CueWeights.shipped()
    change = saying if saying in ("replace", "remove", "news") else "none"
    until = None if change != "none" else durations.end_of(quote, now) or lasting
    left_out = clause.left_out
    if about == "fact" and until is not None and until <= now:
        until = None  # "I have lived in Porto until 2019": that it was so still holds
    if not left_out and sure < weights.sure:
        left_out = _ASKED if clause.asks else "not sure enough"
    elif not left_out and until is not None and until <= now:
        left_out = "over already"
    elif not left_out and until is None and change == "none" and about == "preference":
        left_out = "for a time of which the end is not known" if durations.OPEN_END.search(quote) else ""
    ends = until is not None or change != "none"
    most = weights.hedged if _HEDGED.search(quote) else weights.changing if ends else weights.lasting
    return Statement(
        quote=quote[:_LONGEST_QUOTE],
        about=about,
        change=change,
        confidence=min(sure, most),
        until=until,
        left_out=left_out,
    )


def features(clause: Clause, topics: frozenset[str]) -> list[str]:
    """Return what a clause is read by: its words and their pairs, what surrounds it, and what it refers to."""
    words = _words(clause.words)
    ends = ["^", *words, "$"]
    front = _words(clause.front)
    asks = boundaries.QUESTION.match(clause.words) is not None
    return list(
        dict.fromkeys(
            [
                *words,
                *map(" ".join, pairwise(ends)),
                *(f"{place} {word}" for place, word in enumerate(words[:3])),
                f"< {' '.join(front[:1])}",
                f"<< {' '.join(front[-1:])}",
                f"# {min(len(words) // 4, 5)}",
                *(["plain"] if _PLAIN.match(clause.words) else []),
                *(["?"] if clause.asks else []),
                *(["asks"] if asks else []),
                *(["open"] if durations.OPEN_END.search(clause.words) else []),
                *(["ends"] if durations.end_of(clause.words, _SOME_DAY) else []),
                *(["known"] if topics & topic(clause.words) else []),
            ]
        )
    )


def _words(text: str) -> list[str]:
    """Return the words of a text, small, with "0" for each number and "Cap" for what is a name."""
    found = _WORD.findall(text)
    return [
        "0"
        if word.isdigit()
        else "Cap"
        if place and word[0].isupper() and word[:2] not in ("I", "I'")
        else word.lower()
        for place, word in enumerate(found)
    ]


@lru_cache(maxsize=1)
def _weights() -> Mapping[str, FloatArray]:
    shipped = json.loads((files("epic_learn") / "data" / "cues.json").read_text(encoding="utf-8"))
    return {name: np.array(row, dtype=np.float32) / np.float32(100) for name, row in shipped.items()}


def _chances(clause: Clause, topics: frozenset[str]) -> FloatArray:
    """Return the chances of each of `SAYINGS`; surely nothing for words that are not known."""
    weights, words = _weights(), _words(clause.words)
    if sum(word in weights for word in words) < CueWeights.shipped().least_known * len(words):
        nothing: FloatArray = np.eye(len(SAYINGS), dtype=np.float32)[0]
        return nothing
    rows = [weights[""], *(weights[name] for name in features(clause, topics) if name in weights)]
    odds: FloatArray = np.sum(rows, axis=0)
    chances: FloatArray = np.exp(odds - odds.max())
    chances /= chances.sum()
    return chances


def sentence_of(text: str, quote: str) -> str:
    """Return the sentence of a turn in which a quote stands; the sentences, if those are several."""
    first = text.find(quote)
    start = max((cut.end() for cut in SENTENCE.finditer(text) if cut.end() <= first), default=0)
    end = min((cut.start() for cut in SENTENCE.finditer(text) if cut.start() >= first + len(quote)), default=len(text))
    return text[start:end].strip()


def only_asks(text: str) -> bool:
    """Tell whether a text is questions alone, in which the user says nothing of themselves."""
    sentences = [sentence.strip() for sentence in SENTENCE.split(text) if sentence.strip()]
    asks = all(each.endswith("?") and boundaries.QUESTION.match(each) for each in sentences)
    turn = Turn(role="user", speaker="user", text=text)
    return bool(sentences) and asks and not statements(turn, datetime.now(timezone.utc))


def said_at(turn: Turn) -> datetime:
    """Return when a turn was said, in local time; now if it is not known."""
    return local_time(datetime.now(timezone.utc) if turn.time is None else datetime.fromisoformat(turn.time))
