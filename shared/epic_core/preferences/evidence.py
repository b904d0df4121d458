"""Evidence in a text for and against a preference, for steering and for the embedded verifier.

Liked phrases, the kinds of what is liked, and what one takes instead of what is avoided speak for it; avoided phrases,
their kinds, and what a liked thing rules out speak against it (`lexicon`). Each is looked for in two ways: by cosine,
which knows that *fiery* is near *spicy*, and by words (`words`), which knows that "gluten-free" has no gluten.

An expansion says more than both: what follows the preference in practice, and what breaks it. With F and B its phrases,
a text x leans by

    mean of the two highest Sim(x, f in F) - mean of the two highest Sim(x, b in B).

A preference that brings no expansion borrows one from the bundled library (`preferences.library`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epic_core.encoders.base import Encoder, aembed, embed
from epic_core.preferences.library import borrowed
from epic_core.preferences.parser import aspects_of
from epic_core.text.lexicon import default_lexicon, opposites
from epic_core.text.stems import LONGEST_RUN, Words, content_stems, stems, words_of
from epic_core.types import FloatArray, Preference
from epic_core.types.preferences import Aspects, Expansion

GROUPS = ("liked_kinds", "avoided_kinds", "liked_instead", "avoided_instead")
FEATURES = (
    # Cosines: the nearest phrase of each side, and the lexicon's groups.
    "liked", "avoided", *GROUPS,
    # Words: the share of a phrase's that a text says plainly, or negated; then how many of the lexicon's.
    "liked_said", "liked_denied", "avoided_said", "avoided_denied",
    *(f"{group}_{how}" for group in GROUPS for how in ("said", "denied")),
)  # fmt: skip
# The first of these are cosines.
COSINES = 2 + len(GROUPS)
BY_WORDS = FEATURES[COSINES:]
# More words of the lexicon than these say nothing more.
_ENOUGH = 2
# for_p less against_p is the sum of the features times these, where a text's cosine with the query counts 1.
# `shared/tools/fit_evidence.py` chose them on texts of our own.
_WEIGHTS = {
    "liked": 3.50, "avoided": -4.23, "liked_kinds": 2.72, "avoided_kinds": -3.54, "liked_instead": -2.65,
    "avoided_instead": 3.76, "liked_said": 0.52, "liked_denied": -3.89, "avoided_said": -1.38, "avoided_denied": 3.86,
    "liked_kinds_said": 0.26, "liked_kinds_denied": 0.0, "avoided_kinds_said": -0.49, "avoided_kinds_denied": 1.02,
    "liked_instead_said": -0.22, "liked_instead_denied": 0.0, "avoided_instead_said": 0.76,
    "avoided_instead_denied": 0.0,
}  # fmt: skip
WEIGHTS = np.array([_WEIGHTS[name] for name in FEATURES], dtype=np.float32)
_WORD_WEIGHTS = WEIGHTS[COSINES:]
# What an expansion's lean counts beside these, and how much of these is left beside it: one that was written for the
# preference itself, and one that was borrowed.
_WRITTEN = (10.0, 0.5)
_BORROWED = (4.0, 1.0)


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
        questions: Embeddings of the expansion's questions, shape `(q, d)`.
        expanded: Of what follows the preference, then of what breaks it, shape `(f + b, d)`.
        follows: How many of these rows follow it, f.
        borrowed: Whether the expansion was borrowed from the bundled library.
    """

    aspects: Aspects
    phrases: tuple[tuple[tuple[str, bool], ...], ...]
    kinds: tuple[frozenset[str], ...]
    vectors: FloatArray
    group_rows: tuple[int, ...]
    questions: FloatArray
    expanded: FloatArray
    follows: int
    borrowed: bool = False

    @property
    def liked(self) -> FloatArray:
        """Embeddings of the liked phrases, shape `(len(aspects.liked), d)`."""
        return self.vectors[: len(self.aspects.liked)]

    @property
    def avoided(self) -> FloatArray:
        """Embeddings of the avoided phrases, shape `(len(aspects.avoided), d)`."""
        return self.vectors[len(self.aspects.liked) : len(self.phrases)]


@dataclass(frozen=True, kw_only=True)
class _Unembedded:
    aspects: Aspects
    groups: tuple[tuple[str, ...], ...]
    expansion: Expansion | None

    @property
    def texts(self) -> list[str]:
        # A group is encoded as one text: a mean of its words, at the cost of one.
        texts = [*self.aspects.liked, *self.aspects.avoided, *(", ".join(group) for group in self.groups if group)]
        more = self.expansion
        return texts if more is None else [*texts, *more.questions, *more.follows, *more.breaks]


def borrows(encoder: object) -> bool:
    """Tell whether preferences borrow expansions with an encoder: unless it says that phrases cost it too much."""
    return bool(getattr(encoder, "borrow", True))


def sides_of(encoder: Encoder, preferences: Sequence[str | Preference], *, borrow: bool = True) -> list[Sides]:
    """Return the sides of each preference, everything encoded in one call.

    Args:
        encoder: Encodes phrases.
        preferences: Whose sides are asked for.
        borrow: Whether one without an expansion borrows from the bundled library.
    """
    read = _read_all(encoder, preferences, borrow)
    return _embedded(read, embed(encoder, [text for one in read for text in one.texts]))


async def asides_of(encoder: Encoder, preferences: Sequence[str | Preference], *, borrow: bool = True) -> list[Sides]:
    """As `sides_of`, without blocking the event loop."""
    read = _read_all(encoder, preferences, borrow)
    return _embedded(read, await aembed(encoder, [text for one in read for text in one.texts]))


def _read_all(encoder: Encoder, preferences: Sequence[str | Preference], borrow: bool) -> list[_Unembedded]:
    given = [Preference.of(preference) for preference in preferences]
    borrow = borrow and borrows(encoder)
    wanting = [preference for preference in given if preference.expansion is None] if borrow else []
    # The library takes a while to load: only where somebody borrows.
    lent = iter(borrowed(wanting) if wanting else ())
    return [_read(preference, preference.expansion or (next(lent) if borrow else None)) for preference in given]


def _read(preference: Preference, expansion: Expansion | None) -> _Unembedded:
    aspects = aspects_of(preference)
    lexicon = default_lexicon()
    liked = [concept for phrase in aspects.liked for concept in lexicon.concepts(phrase)]
    avoided = [concept for phrase in aspects.avoided for concept in lexicon.concepts(phrase)]
    return _Unembedded(
        aspects=aspects,
        expansion=expansion,
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


def phrase_words(phrase: str) -> tuple[tuple[str, bool], ...]:
    """The content stems of a phrase, each with whether the phrase itself denies it, as "gluten-free" does gluten."""
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
        more = one.expansion
        asked, follows = (0, 0) if more is None else (len(more.questions), len(more.follows))
        whole = len(one.texts)
        part = vectors[start : start + whole]
        found.append(
            Sides(
                aspects=one.aspects,
                phrases=tuple(map(phrase_words, (*one.aspects.liked, *one.aspects.avoided))),
                kinds=tuple(
                    frozenset(run for word in group if (run := " ".join(stems(word)[:LONGEST_RUN])))
                    for group in one.groups
                ),
                vectors=part[:row],
                group_rows=tuple(rows),
                questions=part[row : row + asked],
                expanded=part[row + asked :],
                follows=follows,
                borrowed=more is not None and more.source == "bundled",
            )
        )
        start += whole
    return found


def features(sides: Sides, words: Sequence[Words], cosines: FloatArray) -> NDArray[np.float32]:
    """`FEATURES` of each text, shape `(n, len(FEATURES))`.

    Args:
        sides: A preference's.
        words: Of the texts.
        cosines: Of each text with each of `sides.vectors`, shape `(n, len(sides.vectors))`.
    """
    found = np.zeros((len(words), len(FEATURES)), dtype=np.float32)
    found[:, :COSINES] = _by_cosines(sides, cosines)
    for text, said in enumerate(words):
        found[text, COSINES:] = by_words(sides, said)
    return found


def _by_cosines(sides: Sides, cosines: FloatArray) -> FloatArray:
    """Return the first of `FEATURES` of each text, shape `(n, COSINES)`."""
    found = np.zeros((len(cosines), COSINES), dtype=np.float32)
    likes = len(sides.aspects.liked)
    phrases = len(sides.phrases)
    if likes:
        found[:, 0] = cosines[:, :likes].max(axis=1)
    if phrases > likes:
        found[:, 1] = cosines[:, likes:phrases].max(axis=1)
    for place, row in enumerate(sides.group_rows):
        if row >= 0:
            found[:, 2 + place] = cosines[:, row]
    return found


def worded(sides: Sides, said: Words) -> float:
    """Return what the words of a text count for a preference and against it, whatever the query."""
    return float(_WORD_WEIGHTS @ np.array(by_words(sides, said), dtype=np.float32))


def leanings(
    sides: Sides,
    words: Sequence[Words] | FloatArray,
    cosines: FloatArray,
    to_query: FloatArray,
    sides_to_query: FloatArray,
    expanded: FloatArray | None = None,
) -> FloatArray:
    """Return for_p(x) - against_p(x) of each text under one preference, shape `(n,)`.

    Both sides are about the topic of the query; only what they have beside it tells texts about it apart. So the
    query's direction is taken out of them: Sim(x, s - (s q) q) for the cosine of a text x with a phrase s.

    Args:
        sides, cosines: As `features` takes them.
        words: Of the texts; or what they count, as `worded` gives it, shape `(n,)`.
        to_query: cos(q, x) of each text, shape `(n,)`.
        sides_to_query: That of each of `sides.vectors`, shape `(len(sides.vectors),)`.
        expanded: The cosine of each text with each of `sides.expanded`, from which the query's direction is taken out
            already, shape `(n, f + b)`; None leaves the expansion out of account.
    """
    beside = cosines - np.outer(to_query, sides_to_query)
    said = words if isinstance(words, np.ndarray) else np.array([worded(sides, one) for one in words], dtype=np.float32)
    found: FloatArray = _by_cosines(sides, beside) @ WEIGHTS[:COSINES] + said
    if expanded is not None and len(sides.expanded):
        counts, left = _BORROWED if sides.borrowed else _WRITTEN
        found = np.float32(left) * found + np.float32(counts) * expanded_lean(sides, expanded)
    return found


def expanded_lean(sides: Sides, cosines: FloatArray) -> FloatArray:
    """Return how much each text leans towards what follows a preference, by its expansion, shape `(n,)`.

    Args:
        sides: A preference's.
        cosines: Of each text with each of `sides.expanded`, shape `(n, f + b)`.
    """
    lean: FloatArray = highest_two(cosines[:, : sides.follows]) - highest_two(cosines[:, sides.follows :])
    return lean


def highest_two(cosines: FloatArray) -> FloatArray:
    """Return the mean of the two highest of each row of `(n, k)`; of one it is that one, of none 0."""
    if cosines.shape[1] < 2:
        found: FloatArray = cosines.sum(axis=1)
        return found
    highest = np.partition(cosines, cosines.shape[1] - 2, axis=1)
    mean: FloatArray = (highest[:, -1] + highest[:, -2]) * np.float32(0.5)
    return mean


def by_cosines(sides: Sides, cosines: Sequence[float]) -> list[float]:
    """Those of `FEATURES` that are cosines, from those of a text with each of `sides.vectors`."""
    likes, phrases = len(sides.aspects.liked), len(sides.phrases)
    return [
        max(cosines[:likes], default=0.0),
        max(cosines[likes:phrases], default=0.0),
        *(cosines[row] if row >= 0 else 0.0 for row in sides.group_rows),
    ]


def by_words(sides: Sides, said: Words) -> list[float]:
    """Those of `FEATURES` that words give, of a text's."""
    plain, negated = said
    if not plain and not negated:
        return [0.0] * len(BY_WORDS)
    likes = len(sides.aspects.liked)
    values: list[float] = []
    for phrases in (sides.phrases[:likes], sides.phrases[likes:]):
        most = most_denied = 0.0
        for phrase in phrases:
            there = denied = 0
            for word, negates in phrase:
                # A text may say it as the phrase does, or deny it, or both.
                there += word in (negated if negates else plain)
                denied += word in (plain if negates else negated)
            if phrase:
                most, most_denied = max(most, there / len(phrase)), max(most_denied, denied / len(phrase))
        values += most, most_denied
    for kinds in sides.kinds:
        values.append(float(min(_ENOUGH, len(kinds & plain))))
        values.append(float(min(_ENOUGH, len(kinds & negated))) if negated else 0.0)
    return values
