"""Parser of preferences: what one likes and avoids, how firmly and in which scope, from its words alone.

A text is split into statements (`grammar.statements`) and each is walked from left to right (`grammar.walk`). Cues
("avoid", "prefer", "don't", "over", "except") determine whether the words after them are liked or avoided, until the
next cue. Adjacent cues multiply ("don't dislike", "prefer not to"). A contrast ("rather than"), an exception ("unless")
and a negation inside a phrase ("hotels that aren't quiet", "gyms without a pool") turn the side around.

All of this is English. A preference in another language is not read at all: it has no phrases, rather than wrong ones.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from epic_core.preferences.grammar import statements as shapes
from epic_core.preferences.grammar.cues import ADVERB, CUE, firmness_of
from epic_core.preferences.grammar.phrases import PUNCTUATION, trimmed
from epic_core.preferences.grammar.walk import AVOIDED, LIKED, NEITHER, Found, Walk, cues_of
from epic_core.text.language import ENGLISH, language_of
from epic_core.types.preferences import Aspects, Expansion

if TYPE_CHECKING:
    from epic_core.types import Preference

__all__ = ["aspects_of", "firmness_of", "language_not_read", "parse_aspects"]

_LONGEST = 1000
_APOSTROPHES = str.maketrans("\u2018\u2019\u201b\u02bc", "''''")
# A subject after "when I": "when I travel I avoid".
_SECOND_SUBJECT = re.compile(r"\s(?=(?:i|i'm|i'd|im|we|please)\s)", re.I)
# Subjects other than the speaker, of which only a reason can be stated: "they are noisy".
_THIRD_PERSON = re.compile(
    r"[\s,]*(?:it|they|this|that|these|those|everything|people|he|she|you|there|who|nobody|my \w+ (?:gets?|has|is))\b"
    r"(?!.{0,20}\b(?:must|has to|have to|should|needs? to)\b)",
    re.I,
)
# After a reason the preference may continue.
_RESUMED = re.compile(
    rf"\b(?:and|but|so)(?: (?:{ADVERB}|i|try to|tend to))* "
    r"(?=(?:avoid|prefer|dislike|refuse|only|never|hate|love|choose|opt for|cannot|can't|don't)\b)",
    re.I,
)
# After a scope it may continue too, on the same side as before.
_CONTINUED = re.compile(
    r"[\s,]*(?:especially|particularly|such as|like|including|even|or|and|over|rather|instead|except|unless|as opposed"
    r"|to|than)\b",
    re.I,
)
_CAN = re.compile(r"\b(?:(?:i|you|we) can|can be) \w+ (?:\w+ )?$", re.I)
# Cues of a speaker who refuses what follows.
_UNWILLING = ("not", "avoided", "avoided_phrase")
# Cues that make it unlikely that a text is liked as a whole; before a pronoun, they are about what stands before them.
_NEGATIVE = ("not", "no", "less", "without", "avoided", "avoided_phrase")
_AVOIDED_BEFORE = re.compile(
    rf"(?: {ADVERB}| use| eat| buy| drink| wear| do| go)* (?:it|them|that|those|there)\b", re.I
)
_LEFT_OUT = re.compile(r"\b(?:leave|keep|cut|count) (?:it|them|that|those) (?:out|away)\b", re.I)
_NEUTRAL = re.compile(r"(?:i|we) (?:do not|don't|never|wouldn't) mind ", re.I)
_EXCEPTION = re.compile(r"\b(?:except(?: for)?|unless(?: there(?:'s| is| are))?|apart from|other than)\s", re.I)
_PREFERS, _TO = re.compile(r"\bprefer", re.I), re.compile(r" to \w+ing\b", re.I)
_GOES_ON = re.compile(r"[\s,]*(?:(?:and|but)\s|(?=in favou?r of\s))", re.I)


def aspects_of(preference: str | Preference) -> Aspects:
    """Return the aspects that a preference has; if it has none, those read from its words.

    If the parser does not know the language, an expansion that the user or a model wrote provides the phrases.
    """
    given = getattr(preference, "aspects", None)
    if isinstance(given, Aspects) and given.understood:
        return given
    read = parse_aspects(str(preference))
    expansion = getattr(preference, "expansion", None)
    if read.understood or not isinstance(expansion, Expansion) or expansion.source == "bundled":
        return read
    if not (expansion.follows or expansion.breaks):
        return read
    return Aspects(liked=expansion.follows, avoided=expansion.breaks, source=expansion.source)


def language_not_read(preference: str | Preference) -> str | None:
    """Return the language of a preference that was not read, else None."""
    return None if aspects_of(preference).understood else language_of(str(preference)) or ENGLISH


@lru_cache(maxsize=4096)
def parse_aspects(preference: str) -> Aspects:
    """Return the aspects of a preference; without phrases, and with the source "unread", if it could not be read.

    An English text without a cue is liked as a whole, as in the paper's steering, unless something is negated in it.
    """
    if (language_of(preference) or ENGLISH) != ENGLISH:
        return Aspects(source="unread")
    text = " ".join(preference[:_LONGEST].split())
    # Both texts have the same length, so that positions in one hold for the other.
    plain = text.translate(_APOSTROPHES)
    reading = _Reading(text, plain)
    liked, avoided = reading.sides()
    if not liked and not avoided:
        whole = _whole(text, plain) or preference.strip()
        negative = [cue for cue in CUE.finditer(plain) if cue.lastgroup in _NEGATIVE]
        if not negative and not _LEFT_OUT.search(plain):
            liked = (whole,)
        elif not negative or _AVOIDED_BEFORE.match(plain, negative[-1].end()):
            avoided = (whole,)
        else:
            return Aspects(source="unread")
    return Aspects(liked=liked, avoided=avoided, firmness=firmness_of(text), scope=reading.scope, source="parser")


def _whole(text: str, plain: str) -> str:
    """Return the first statement of a text without a cue, without its reason."""
    reason, boundary = shapes.REASON.search(plain, 1), shapes.STATEMENT.search(plain, 1)
    start = neutral.end() if (neutral := _NEUTRAL.match(plain)) else 0
    end = min(found.start() for found in (reason, boundary) if found) if reason or boundary else len(plain)
    return text[slice(*trimmed(plain, start, max(start, end)))]


class _Reading:
    """The reading of a text, statement by statement."""

    def __init__(self, text: str, plain: str) -> None:
        self.scope = ""
        self._text, self._plain = text, plain
        self._found = Found(text, plain)
        start = 0
        for boundary in shapes.STATEMENT.finditer(plain):
            self._statement(start, boundary.start())
            self._done(start, boundary.start())
            start = boundary.end()
        self._statement(start, len(plain))

    def sides(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the liked and the avoided phrases."""
        return self._found.sides()

    def _statement(self, start: int, end: int) -> None:
        if not self._plain[start:end].strip(PUNCTUATION):
            return
        if condition := shapes.CONDITION.search(self._plain, start, end):
            self._found.enter_whole(AVOIDED, *condition.span("what"))
        if diet := shapes.DIET.search(self._plain, start, end):
            self._found.enter_whole(LIKED, *diet.span("what"))
            start = diet.end()
        if no_diet := shapes.NO_DIET.search(self._plain, start, end):
            start = no_diet.end()
        if self._found.named and _THIRD_PERSON.match(self._plain, start, end):
            return
        reason = shapes.REASON.search(self._plain, start, end)
        stop = reason.start() if reason else end
        start = self._after_scope_in_front(start, stop)
        readings = (self._judged, self._exchanged, self._kept_out, self._compared, self._named_first, self._wished)
        if not any(reading(start, stop) for reading in readings):
            self._around_scope(start, stop)
        if resumed := _RESUMED.search(self._plain, stop, end):
            self._statement(resumed.end(), end)

    # --- scopes

    def _after_scope_in_front(self, start: int, end: int) -> int:
        place = shapes.SCOPE.match(self._plain, start, end) or shapes.SCOPE_IN_FRONT.match(self._plain, start)
        if place is None or shapes.FRONTED.match(self._plain, place.end() + 1, end):
            return start
        subject = _SECOND_SUBJECT.search(self._plain, start + len("when i "), place.end())
        return self._keep_scope(start, subject.start() if subject else place.end())

    def _around_scope(self, start: int, end: int) -> None:
        """Walk over the parts of a statement before and after its scope, and keep the scope."""
        place = shapes.SCOPE.search(self._plain, start, end)
        if place and _PREFERS.search(self._plain, start, place.start()) and _TO.match(self._plain, place.end()):
            place = None  # "I prefer cooking at home to eating out"
        # "an experiment I can do in my kitchen" has no scope.
        of_a_clause = place and _CAN.search(self._plain[max(start, place.start() - 30) : place.start()])
        if place is None or of_a_clause or not next(cues_of(self._plain, start, end), None):
            Walk(self._found, start, end).run()
            return
        Walk(self._found, start, place.start()).run()
        self._keep_scope(*place.span())
        continued = self._found.named and _CONTINUED.match(self._plain, place.end(), end)
        Walk(self._found, place.end(), end, self._found.base if continued else NEITHER).run()

    def _keep_scope(self, start: int, end: int) -> int:
        self.scope = self.scope or self._text[start:end].strip(PUNCTUATION)
        return end

    # --- statements without a verb of liking

    def _judged(self, start: int, end: int) -> bool:
        """Read a judgement: "I find opera dull"."""
        match = shapes.FIND.search(self._plain, start, end)
        if match:
            self._around_scope(start, match.start())
            self._found.enter(AVOIDED if match["avoided"] else LIKED, *match.span("what"))
        return bool(match)

    def _exchanged(self, start: int, end: int) -> bool:
        """Read an exchange: "I swapped coffee for tea"; a speaker who would never do so likes the coffee."""
        match = shapes.EXCHANGED.search(self._plain, start, end)
        if match:
            cues = cues_of(self._plain, start, match.start())
            side = AVOIDED if any(cue.lastgroup in _UNWILLING for cue in cues) else LIKED
            place = shapes.SCOPE.search(self._plain, match.start("new"), match.end())
            for old in ("swapped", "replaced", "left"):
                if match[old]:
                    self._found.enter(-side, *match.span(old))
            self._found.enter(side, match.start("new"), place.start() if place else match.end())
            if place:
                self._keep_scope(*place.span())
        return bool(match)

    def _kept_out(self, start: int, end: int) -> bool:
        """Read a thing that is to stay away: "keep coriander out of it", "keep my desk free of clutter"."""
        match = shapes.KEPT_OUT.search(self._plain, start, end)
        if match and match["free"]:
            self._found.enter(AVOIDED, *match.span("free"))
            return True
        if not match or next(cues_of(self._plain, *match.span("what")), None):
            return False
        negated = any(cue.lastgroup == "not" for cue in cues_of(self._plain, start, match.start()))
        self._found.enter(LIKED if negated else AVOIDED, *match.span("what"))
        return True

    def _wished(self, start: int, end: int) -> bool:
        """Read a wish without a verb: "Table service every time"."""
        match = shapes.WISHED.fullmatch(self._plain, start, end)
        if not match or next(cues_of(self._plain, start, end), None):
            return False
        self._found.enter(LIKED, *match.span("what"))
        return True

    def _done(self, start: int, end: int) -> None:
        """Read a habit: "I eat fish but no meat"."""
        if self._found.named or not shapes.BUT_NOT.match(self._plain, end):
            return
        if done := shapes.DONE.match(self._plain, start, end):
            self._found.enter(LIKED, *done.span("what"))

    def _compared(self, start: int, end: int) -> bool:
        """Read a comparison: "Fairness matters more to me than winning"."""
        match = shapes.COMPARED.search(self._plain, start, end)
        if match:
            side = LIKED if match["more"] else AVOIDED
            subject = shapes.SUBJECT_IN_FRONT.match(self._plain, start, match.start())
            self._found.enter(side, subject.end() if subject else start, match.start())
            self._found.enter(-side, match.end(), end)
        return bool(match)

    def _named_first(self, start: int, end: int) -> bool:
        """Read a statement that names the thing first: "Crowds stress me out"."""
        subject = shapes.SUBJECT_IN_FRONT.match(self._plain, start, end)
        match = subject and shapes.FRONTED.search(self._plain, subject.end(), end)
        if not subject or not match or not 0 < match.start() - subject.end() <= shapes.LONGEST_SUBJECT:
            return False
        if next(cues_of(self._plain, subject.end(), match.start()), None):
            return False
        self._found.enter(AVOIDED if match["avoided"] else LIKED, subject.end(), match.start())
        if place := shapes.SCOPE.search(self._plain, match.end(), end):
            self._keep_scope(*place.span())
        if more := _GOES_ON.match(self._plain, match.end(), end):
            self._statement(more.end(), end)
        elif more := _EXCEPTION.search(self._plain, match.end(), end):
            self._found.enter(LIKED if match["avoided"] else AVOIDED, more.end(), end)
        return True
