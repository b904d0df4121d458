"""Bundled library of expanded preferences, from which a new preference borrows phrases of similar ones.

It holds some 2,300 preferences of everyday life, each with questions for which it matters, things that follow it and
things that break it. A preference without an expansion borrows from the nearest two, if they are near enough and point
the same way: "I love casinos" borrows nothing from "I avoid hotels with casinos", and nobody borrows from a preference
that likes what the own one avoids. Nearness is measured with the bundled static encoder, whatever the memory's own
encoder is.

`data/library.txt.xz` has four lines for each: the preference, questions, follows, breaks, with phrases separated by
"|". `shared/tools/make_library.py` makes it.
"""

from __future__ import annotations

import lzma
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from itertools import product
from typing import NamedTuple

import numpy as np

from epic_memory.encoders.base import embed
from epic_memory.encoders.static import default_encoder
from epic_memory.preferences.parser import aspects_of, english_aspects
from epic_memory.text.stems import content_stems
from epic_memory.types import FloatArray, Preference
from epic_memory.types.preferences import Aspects, Expansion
from epic_memory.types.weights import StageWeights

_LOOKED_AT = 8
_REMEMBERED = 4096


@dataclass(frozen=True, kw_only=True)
class BorrowingWeights(StageWeights):
    """From which preferences of the library one borrows."""

    nearest: int  # how many at most
    least_similar: float  # smallest cosine at which one is near enough
    least_agreeing: float  # tolerance for phrases that lean towards the other side


class Known(NamedTuple):
    """A preference of the library with its phrases."""

    text: str
    questions: tuple[str, ...]
    follows: tuple[str, ...]
    breaks: tuple[str, ...]


class Library:
    """Expanded preferences, found by nearness and direction.

    Args:
        known: The preferences in it.
    """

    def __init__(self, known: Sequence[Known]) -> None:
        self.known = known
        self._vectors = embed(default_encoder(), [one.text for one in known])
        self._sides: dict[int, FloatArray] = {}
        self._lent: dict[Preference, Expansion | None] = {}

    def borrow(self, preferences: Sequence[Preference]) -> list[Expansion | None]:
        """Return an expansion for each preference, or None if no preference near enough points the same way."""
        lent = self._lent  # the filter, the verifier and the steering of a memory ask for the same preferences
        if new := [one for one in dict.fromkeys(preferences) if self.known and one not in lent]:
            near = embed(default_encoder(), [preference.text for preference in new]) @ self._vectors.T
            lent = lent | {one: self._borrowed(one, row) for one, row in zip(new, near, strict=True)}
            self._lent = lent if len(lent) <= _REMEMBERED else {}
        return [lent.get(preference) for preference in preferences]

    def _borrowed(self, preference: Preference, near: FloatArray) -> Expansion | None:
        weights = BorrowingWeights.shipped()
        aspects = aspects_of(preference)
        if not aspects.understood:
            return None  # it is unknown which phrases are liked and which are avoided
        phrases = embed(default_encoder(), [*aspects.liked, *aspects.avoided])
        liked, avoided = phrases[: len(aspects.liked)], phrases[len(aspects.liked) :]
        chosen: list[int] = []
        for place in np.argsort(-near, kind="stable")[:_LOOKED_AT].tolist():
            if near[place] < weights.least_similar or len(chosen) == weights.nearest:
                break
            if _opposed(aspects, english_aspects(self.known[place].text)):
                continue
            follows, breaks = self._sides_at(place)
            agreeing = 0.0
            if len(liked):
                agreeing += float((liked @ follows).mean() - (liked @ breaks).mean())
            if len(avoided):
                agreeing += float((avoided @ breaks).mean() - (avoided @ follows).mean())
            if agreeing > weights.least_agreeing:
                chosen.append(place)
        if not chosen:
            return None
        from_ = [self.known[place] for place in chosen]
        breaks_too = {phrase.casefold() for one in from_ for phrase in one.breaks}
        follows_too = {phrase.casefold() for one in from_ for phrase in one.follows}
        return Expansion(
            questions=tuple(phrase for one in from_ for phrase in one.questions),
            follows=tuple(phrase for one in from_ for phrase in one.follows if phrase.casefold() not in breaks_too),
            breaks=tuple(phrase for one in from_ for phrase in one.breaks if phrase.casefold() not in follows_too),
            source="bundled",
        )

    def _sides_at(self, place: int) -> FloatArray:
        """Return the embeddings of the phrases that follow a preference and of those that break it, `(2, d)`."""
        if place not in self._sides:
            one = self.known[place]
            self._sides[place] = embed(default_encoder(), [", ".join(one.follows), ", ".join(one.breaks)])
        return self._sides[place]


def _opposed(one: Aspects, other: Aspects) -> bool:
    """Tell whether one preference likes what the other avoids: "loud places" and "loud, noisy places"."""
    for mine, theirs in ((one.liked, other.avoided), (one.avoided, other.liked)):
        for phrase, another in product(mine, theirs):
            words, others = set(content_stems(phrase)), set(content_stems(another))
            if words and others and (words <= others or others <= words):
                return True
    return False


@lru_cache(maxsize=1)
def default_library() -> Library:
    """Return the bundled library, loaded once for each process."""
    packed = (files("epic_memory") / "data" / "library.txt.xz").read_bytes()
    parts = [tuple(line.split("|")) for line in lzma.decompress(packed).decode().splitlines()]
    return Library([Known(parts[start][0], *parts[start + 1 : start + 4]) for start in range(0, len(parts), 4)])


def borrowed(preferences: Sequence[Preference]) -> list[Expansion | None]:
    """Return the expansion that the bundled library lends each preference, or None if it has none near enough."""
    return default_library().borrow(preferences)
