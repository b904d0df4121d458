"""Evidence in a text for and against a preference, for steering and for the embedded verifier.

Evidence for a preference: liked phrases, the kinds of liked things, and what one takes instead of avoided things.
Evidence against it: avoided phrases, their kinds, and what a liked thing rules out (kinds and alternatives are from
`text.lexicon`). Each is looked for in two ways: by cosine, which knows that *fiery* is near *spicy*, and by words
(`text.stems`), which know that "gluten-free" has no gluten.

An expansion adds the things that follow the preference in practice, and those that break it. With F and B its phrases,
a text x leans by

    mean of the two highest Sim(x, f in F) - mean of the two highest Sim(x, b in B).

A preference without an expansion borrows one from the bundled library (`preferences.library`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from epic_memory.encoders.base import Embed, Encoder
from epic_memory.preferences.library import borrowed
from epic_memory.preferences.parser import aspects_of
from epic_memory.runtime.effects import Effects, run
from epic_memory.text.lexicon import default_lexicon, opposites
from epic_memory.text.stems import LONGEST_RUN, Words, content_stems, stems, words_of
from epic_memory.types import FloatArray, Preference
from epic_memory.types.preferences import Aspects, Expansion
from epic_memory.types.weights import StageWeights

F = TypeVar("F", bound=np.floating[Any])
GROUPS = ("liked_kinds", "avoided_kinds", "liked_instead", "avoided_instead")
FEATURES = (
    # Cosines: the nearest liked and avoided phrase, and the lexicon's groups.
    "liked", "avoided", *GROUPS,
    # Words: the share of a phrase's words that are plain in a text, or negated, squared; the number of the lexicon's.
    "liked_said", "liked_denied", "avoided_said", "avoided_denied",
    *(f"{group}_{how}" for group in GROUPS for how in ("said", "denied")),
)  # fmt: skip
# The first features are cosines.
COSINES = 2 + len(GROUPS)
BY_WORDS = FEATURES[COSINES:]
_AS = re.compile(r"\s+as\s+", re.I)
_ARTICLE = re.compile(r"^\s*(?:an?|the)\s+", re.I)


@dataclass(frozen=True, kw_only=True)
class EvidenceWeights(StageWeights):
    """Numbers of the evidence for and against a preference."""

    features: Mapping[str, float]  # of `FEATURES`; a text's cosine with the query has weight 1
    enough: int  # more words of the lexicon than this are no further evidence
    written: tuple[float, float]  # of an expansion's lean, if written for the preference; of all else beside it
    borrowed: tuple[float, float]  # the same of a borrowed expansion

    @cached_property
    def vector(self) -> FloatArray:
        """The weights of `FEATURES`, in their order."""
        return np.array([self.features[name] for name in FEATURES], dtype=np.float32)


@dataclass(frozen=True, kw_only=True)
class AspectEmbeddings:
    """A preference's phrases and their embeddings, ready to be looked for in texts.

    Attributes:
        aspects: The liked and avoided phrases.
        phrases: For each liked, then each avoided phrase, its content stems; each with whether the phrase itself
            negates it, as "gluten-free" does gluten.
        kinds: For each of `GROUPS`, the lexicon's words as runs of stems.
        vectors: Embeddings of the liked phrases, the avoided phrases, and the groups that have words, shape `(n, d)`.
        group_rows: The row of `vectors` for each group, -1 for none.
        questions: Embeddings of the expansion's questions, shape `(q, d)`.
        expanded: Embeddings of the phrases that follow the preference, then of those that break it, shape `(f + b, d)`.
        keys: `vectors` and `expanded` in one, shape `(n + f + b, d)`.
        follows: The number of phrases that follow it, f.
        borrowed: Whether the expansion was borrowed from the bundled library.
    """

    aspects: Aspects
    phrases: tuple[tuple[tuple[str, bool], ...], ...]
    kinds: tuple[frozenset[str], ...]
    vectors: FloatArray
    group_rows: tuple[int, ...]
    questions: FloatArray
    expanded: FloatArray
    keys: FloatArray
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
        # A group is encoded as one text: the mean of its words for the cost of one embedding.
        texts = [*self.aspects.liked, *self.aspects.avoided, *(", ".join(group) for group in self.groups if group)]
        more = self.expansion
        return texts if more is None else [*texts, *more.follows, *more.breaks, *more.questions]


def borrows(encoder: object) -> bool:
    """Tell whether preferences borrow expansions with this encoder: unless it declares that phrases are too costly."""
    return bool(getattr(encoder, "borrow", True))


def embed_aspects(
    encoder: Encoder, preferences: Sequence[str | Preference], *, borrow: bool = True
) -> list[AspectEmbeddings]:
    """Return the phrases and embeddings of each preference, all encoded in one call.

    Args:
        encoder: Encodes phrases.
        preferences: The preferences.
        borrow: Whether a preference without an expansion borrows from the bundled library.
    """
    return run(embedding_aspects(encoder, preferences, borrow=borrow))


def embedding_aspects(
    encoder: Encoder, preferences: Sequence[str | Preference], *, borrow: bool = True
) -> Effects[list[AspectEmbeddings]]:
    """Embed aspects as `embed_aspects` does, in an effect."""
    given = [Preference.of(preference) for preference in preferences]
    borrow = borrow and borrows(encoder)
    wanting = [preference for preference in given if preference.expansion is None] if borrow else []
    # The library takes a while to load, so it is left alone if no preference borrows.
    lent = iter(borrowed(wanting) if wanting else ())
    read = [_read(preference, preference.expansion or (next(lent) if borrow else None)) for preference in given]
    vectors = yield Embed(encoder, [text for one in read for text in one.texts], "steering")
    return _embedded(read, vectors)


def _read(preference: Preference, expansion: Expansion | None) -> _Unembedded:
    aspects = aspects_of(preference)
    lexicon = default_lexicon()
    # Of "fish as pets" the kinds are those of fish.
    liked, avoided = (
        [concept for phrase in side for concept in lexicon.concepts(_AS.split(phrase)[0])]
        for side in (aspects.liked, aspects.avoided)
    )
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
    """Return several lists as one, each word once."""
    return tuple(dict.fromkeys(word for part in parts for word in part))


def phrase_words(phrase: str) -> tuple[tuple[str, bool], ...]:
    """Return a phrase's content stems, each with whether the phrase itself negates it, as "gluten-free" does gluten."""
    negated = words_of(phrase).negated
    return tuple((word, word in negated) for word in content_stems(phrase))


def _embedded(read: Sequence[_Unembedded], vectors: FloatArray) -> list[AspectEmbeddings]:
    found, start = [], 0
    for one in read:
        row = len(one.aspects.liked) + len(one.aspects.avoided)
        rows = []
        for group in one.groups:
            rows.append(row if group else -1)
            row += bool(group)
        more = one.expansion
        follows, breaks = (0, 0) if more is None else (len(more.follows), len(more.breaks))
        whole, keys = len(one.texts), row + follows + breaks
        part = vectors[start : start + whole]
        found.append(
            AspectEmbeddings(
                aspects=one.aspects,
                phrases=tuple(map(phrase_words, (*one.aspects.liked, *one.aspects.avoided))),
                kinds=tuple(
                    frozenset(run for word in group if (run := " ".join(stems(word)[:LONGEST_RUN])))
                    for group in one.groups
                ),
                vectors=part[:row],
                group_rows=tuple(rows),
                questions=part[keys:],
                expanded=part[row:keys],
                keys=part[:keys],
                follows=follows,
                borrowed=more is not None and more.source == "bundled",
            )
        )
        start += whole
    return found


def broken_by(expansion: Expansion | None) -> frozenset[str]:
    """Return what breaks a preference by its own expansion, as runs of up to three stems; none for a borrowed one."""
    if expansion is None or expansion.source == "bundled":
        return frozenset()
    runs = (stems(_ARTICLE.sub("", phrase)) for phrase in expansion.breaks)
    return frozenset(" ".join(run) for run in runs if 0 < len(run) <= LONGEST_RUN)


def features(sides: AspectEmbeddings, words: Sequence[Words], cosines: FloatArray) -> NDArray[np.float32]:
    """Return `FEATURES` of each text, shape `(n, len(FEATURES))`.

    Args:
        sides: The phrases and embeddings of a preference.
        words: The words of each text.
        cosines: Cosines of each text with each of `sides.vectors`, shape `(n, len(sides.vectors))`.
    """
    found = np.zeros((len(words), len(FEATURES)), dtype=np.float32)
    found[:, :COSINES] = by_cosines(sides, cosines)
    for text, of_text in enumerate(words):
        found[text, COSINES:] = by_words(sides, of_text)
    return found


def by_cosines(sides: AspectEmbeddings, cosines: NDArray[F]) -> NDArray[F]:
    """Return the first `COSINES` of `FEATURES`, from the cosines with `sides.vectors` along the last axis."""
    found = np.zeros((*cosines.shape[:-1], COSINES), dtype=cosines.dtype)
    likes, phrases = len(sides.aspects.liked), len(sides.phrases)
    if likes:
        found[..., 0] = cosines[..., :likes].max(axis=-1)
    if phrases > likes:
        found[..., 1] = cosines[..., likes:phrases].max(axis=-1)
    for place, row in enumerate(sides.group_rows):
        if row >= 0:
            found[..., 2 + place] = cosines[..., row]
    return found


def worded(sides: AspectEmbeddings, words: Words) -> float:
    """Return the weight of a text's words for a preference and against it, whatever the query."""
    return float(EvidenceWeights.shipped().vector[COSINES:] @ np.array(by_words(sides, words), dtype=np.float32))


def stance_scores(
    sides: AspectEmbeddings,
    words: Sequence[Words] | FloatArray,
    cosines: FloatArray,
    to_query: FloatArray,
    sides_to_query: FloatArray,
    expanded: FloatArray | None = None,
) -> FloatArray:
    """Return for_p(x) - against_p(x) of each text under one preference, shape `(n,)`.

    Liked and avoided phrases share the topic of the query; only the rest of their meaning distinguishes texts about
    that topic. So the query's direction is removed from them: Sim(x, s - (s q) q) replaces the cosine of a text x with
    a phrase s.

    Args:
        sides, cosines: As `features` takes them.
        words: The words of each text; or their weight as `worded` returns it, shape `(n,)`.
        to_query: cos(q, x) of each text, shape `(n,)`.
        sides_to_query: The cosine of the query with each of `sides.vectors`, shape `(len(sides.vectors),)`.
        expanded: The cosine of each text with each of `sides.expanded`, with the query's direction already removed from
            the latter, shape `(n, f + b)`; None ignores the expansion.
    """
    weights = EvidenceWeights.shipped()
    beside = cosines - to_query[:, None] * sides_to_query
    by_words_alone = (
        words if isinstance(words, np.ndarray) else np.array([worded(sides, one) for one in words], dtype=np.float32)
    )
    scores: FloatArray = by_cosines(sides, beside) @ weights.vector[:COSINES] + by_words_alone
    if expanded is not None and len(sides.expanded):
        counts, left = weights.borrowed if sides.borrowed else weights.written
        lean = highest_two(expanded[:, : sides.follows]) - highest_two(expanded[:, sides.follows :])
        scores = np.float32(left) * scores + np.float32(counts) * lean
    return scores


def highest_two(cosines: NDArray[F]) -> NDArray[F]:
    """Return the mean of the two highest values along the last axis; a single value itself, and 0 for none."""
    width = cosines.shape[-1]
    if width < 2:
        found: NDArray[F] = cosines.sum(axis=-1)
        return found
    highest = np.partition(cosines, width - 2, axis=-1)
    mean: NDArray[F] = (highest[..., -2] + highest[..., -1]) / cosines.dtype.type(2.0)
    return mean


def by_words(sides: AspectEmbeddings, words: Words) -> list[float]:
    """Return the features of one text that come from its words."""
    weights = EvidenceWeights.shipped()
    plain, negated = words
    if not plain and not negated:
        return [0.0] * len(BY_WORDS)
    values: list[float] = []
    likes = len(sides.aspects.liked)
    for phrases in (sides.phrases[:likes], sides.phrases[likes:]):
        most = most_denied = 0.0
        for phrase in phrases:
            there = denied = 0
            for word, negates in phrase:
                # A text may state a word as the phrase does, or negate it, or both.
                there += word in (negated if negates else plain)
                denied += word in (plain if negates else negated)
            if phrase:
                most, most_denied = max(most, there / len(phrase)), max(most_denied, denied / len(phrase))
        # Squared, because a part of a phrase is less evidence than its share: "books" of "paperback books".
        values += most**2, most_denied**2
    for kinds in sides.kinds:
        values.append(float(min(weights.enough, len(kinds & plain))))
        values.append(float(min(weights.enough, len(kinds & negated))) if negated else 0.0)
    return values
