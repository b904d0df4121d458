"""What speaks in a text for a preference, and what against it: the evidence of steering and of the embedded verifier.

Liked phrases, the kinds of what is liked, and what one takes instead of what is avoided speak for it; avoided phrases,
their kinds, and what a liked thing rules out speak against it (`lexicon`). Each is looked for in two ways: by cosine,
which knows that *fiery* is near *spicy*, and by words (`words`), which knows that "gluten-free" has no gluten.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epic_core.aspect_parser import aspects_of
from epic_core.aspects import Aspects
from epic_core.encoders.base import Encoder, aembed, embed
from epic_core.lexicon import default_lexicon, opposites
from epic_core.types import FloatArray, Preference
from epic_core.words import LONGEST_RUN, Words, content_stems, stems, words_of

GROUPS = ("liked_kinds", "avoided_kinds", "liked_instead", "avoided_instead")
FEATURES = (
    # Cosines: the nearest phrase of each side, and the lexicon's groups.
    "liked", "avoided", *GROUPS,
    # Words: the share of a phrase's that a text says plainly, or negated; then how many of the lexicon's.
    "liked_said", "liked_denied", "avoided_said", "avoided_denied",
    *(f"{group}_{how}" for group in GROUPS for how in ("said", "denied")),
)  # fmt: skip
BY_WORDS = FEATURES[2 + len(GROUPS) :]
# More words of the lexicon than these say nothing more.
_ENOUGH = 2
# for_p less against_p is the sum of the features times these, where a text's cosine with the query counts 1.
# `shared/tools/fit_evidence.py` chose them on texts of our own.
_WEIGHTS = {
    "liked": 3.40, "avoided": -4.02, "liked_kinds": 2.38, "avoided_kinds": -3.47, "liked_instead": -2.31,
    "avoided_instead": 3.73, "liked_said": 0.47, "liked_denied": -3.83, "avoided_said": -1.35, "avoided_denied": 3.59,
    "liked_kinds_said": 0.38, "liked_kinds_denied": 0.0, "avoided_kinds_said": -0.39, "avoided_kinds_denied": 0.84,
    "liked_instead_said": -0.24, "liked_instead_denied": 0.0, "avoided_instead_said": 0.76,
    "avoided_instead_denied": 0.0,
}  # fmt: skip
WEIGHTS = np.array([_WEIGHTS[name] for name in FEATURES], dtype=np.float32)


@dataclass(frozen=True, kw_only=True)
class Sides:
    """A preference, ready to be looked for in texts.

    Attributes:
        aspects: What it likes and avoids.
        phrases: For each phrase of the liked, then of the avoided side, its content stems; each with whether the phrase
            itself denies it, as "gluten-free" does gluten.
        kinds: For each of `GROUPS`, the lexicon's words as runs of stems.
        vectors: Of the liked phrases, the avoided phrases, and the groups that have words, shape `(n, d)`.
        group_rows: Which rows of `vectors` the groups have, -1 for none.
    """

    aspects: Aspects
    phrases: tuple[tuple[tuple[str, bool], ...], ...]
    kinds: tuple[frozenset[str], ...]
    vectors: FloatArray
    group_rows: tuple[int, ...]

    @property
    def liked(self) -> FloatArray:
        """Embeddings of the liked phrases, shape `(len(aspects.liked), d)`."""
        return self.vectors[: len(self.aspects.liked)]

    @property
    def avoided(self) -> FloatArray:
        """Embeddings of the avoided phrases, shape `(len(aspects.avoided), d)`."""
        return self.vectors[len(self.aspects.liked) : len(self.phrases)]

    def liked_stems(self, place: int) -> frozenset[str]:
        """The content stems of a liked phrase."""
        return _stems_of(self.phrases[place])

    def avoided_stems(self, place: int) -> frozenset[str]:
        """Those of an avoided one."""
        return _stems_of(self.phrases[len(self.aspects.liked) + place])


@dataclass(frozen=True, kw_only=True)
class _Unembedded:
    aspects: Aspects
    groups: tuple[tuple[str, ...], ...]

    @property
    def texts(self) -> list[str]:
        # A group is encoded as one text: a mean of its words, at the cost of one.
        return [*self.aspects.liked, *self.aspects.avoided, *(", ".join(group) for group in self.groups if group)]


def _stems_of(phrase: tuple[tuple[str, bool], ...]) -> frozenset[str]:
    return frozenset(word for word, _ in phrase)


def sides_of(encoder: Encoder, preferences: Sequence[str | Preference]) -> list[Sides]:
    """The sides of each preference, everything encoded in one call."""
    read = [_read(preference) for preference in preferences]
    return _embedded(read, embed(encoder, [text for one in read for text in one.texts]))


async def asides_of(encoder: Encoder, preferences: Sequence[str | Preference]) -> list[Sides]:
    """As `sides_of`, without blocking the event loop."""
    read = [_read(preference) for preference in preferences]
    return _embedded(read, await aembed(encoder, [text for one in read for text in one.texts]))


def _read(preference: str | Preference) -> _Unembedded:
    aspects = aspects_of(preference)
    lexicon = default_lexicon()
    liked = [concept for phrase in aspects.liked for concept in lexicon.concepts(phrase)]
    avoided = [concept for phrase in aspects.avoided for concept in lexicon.concepts(phrase)]
    return _Unembedded(
        aspects=aspects,
        groups=(
            _joined(concept.kinds for concept in liked),
            _joined(concept.kinds for concept in avoided),
            _joined((opposites(aspects.liked), *(concept.instead for concept in liked))),
            _joined((opposites(aspects.avoided), *(concept.instead for concept in avoided))),
        ),
    )


def _joined(parts: Iterable[Iterable[str]]) -> tuple[str, ...]:
    """Several lists as one, each word once."""
    return tuple(dict.fromkeys(word for part in parts for word in part))


def _words_of_phrase(phrase: str) -> tuple[tuple[str, bool], ...]:
    negated = words_of(phrase).negated
    return tuple((word, word in negated) for word in content_stems(phrase))


def _embedded(read: Sequence[_Unembedded], vectors: FloatArray) -> list[Sides]:
    found, start = [], 0
    for one in read:
        row = len(one.aspects.liked) + len(one.aspects.avoided)
        rows = []
        for group in one.groups:
            rows.append(row if group else -1)
            row += bool(group)
        found.append(
            Sides(
                aspects=one.aspects,
                phrases=tuple(map(_words_of_phrase, (*one.aspects.liked, *one.aspects.avoided))),
                kinds=tuple(
                    frozenset(run for word in group if (run := " ".join(stems(word)[:LONGEST_RUN])))
                    for group in one.groups
                ),
                vectors=vectors[start : start + row],
                group_rows=tuple(rows),
            )
        )
        start += row
    return found


def features(sides: Sides, words: Sequence[Words], cosines: FloatArray) -> NDArray[np.float32]:
    """`FEATURES` of each text, shape `(n, len(FEATURES))`.

    Args:
        sides: A preference's.
        words: Of the texts.
        cosines: Of each text with each of `sides.vectors`, shape `(n, len(sides.vectors))`.
    """
    found = np.zeros((len(words), len(FEATURES)), dtype=np.float32)
    likes = len(sides.aspects.liked)
    phrases = len(sides.phrases)
    if likes:
        found[:, 0] = cosines[:, :likes].max(axis=1)
    if phrases > likes:
        found[:, 1] = cosines[:, likes:phrases].max(axis=1)
    for place, row in enumerate(sides.group_rows):
        if row >= 0:
            found[:, 2 + place] = cosines[:, row]
    start = 2 + len(GROUPS)
    for text, said in enumerate(words):
        found[text, start:] = by_words(sides, said)
    return found


def leanings(
    sides: Sides, words: Sequence[Words], cosines: FloatArray, to_query: FloatArray, sides_to_query: FloatArray
) -> FloatArray:
    """for_p(x) - against_p(x) of each text under one preference, shape `(n,)`.

    Both sides are about the topic of the query; only what they have beside it tells texts about it apart. So the
    query's direction is taken out of them: Sim(x, s - (s q) q) for the cosine of a text x with a phrase s.

    Args:
        sides, words, cosines: As `features` takes them.
        to_query: cos(q, x) of each text, shape `(n,)`.
        sides_to_query: That of each of `sides.vectors`, shape `(len(sides.vectors),)`.
    """
    beside = cosines - np.outer(to_query, sides_to_query)
    found: FloatArray = features(sides, words, beside) @ WEIGHTS
    return found


def by_words(sides: Sides, said: Words) -> list[float]:
    """Those of `FEATURES` that words give, of a text's."""
    likes = len(sides.aspects.liked)
    values = [
        max((_share(phrase, said, denied) for phrase in phrases), default=0.0)
        for phrases in (sides.phrases[:likes], sides.phrases[likes:])
        for denied in (False, True)
    ]
    plain, negated = said
    for kinds in sides.kinds:
        values.append(float(min(_ENOUGH, len(kinds & plain))))
        values.append(float(min(_ENOUGH, len(kinds & negated))) if negated else 0.0)
    return values


def _share(phrase: tuple[tuple[str, bool], ...], said: Words, denied: bool) -> float:
    """The share of a phrase's words that a text says as the phrase does, or denies."""
    plain, negated = said
    there = 0
    for word, negates in phrase:
        if word in (negated if negates is not denied else plain):
            there += 1
    return there / len(phrase) if phrase else 0.0
