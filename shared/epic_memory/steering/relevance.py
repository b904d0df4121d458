"""Relevance of preferences to a query: rel(p), the log-odds that p matters to the person who asks.

Similarity alone is a poor measure. "Where should I stay in Las Vegas?" is not near "I avoid hotels with casinos", but
it is near the questions of its expansion, and the things that follow or break it. And some preferences are near to
anything: "I try to keep Sundays free" to whatever names a day. So the nearness of a preference to a direction z is

    near(p, z) = n(p, z) - mean of n(p, b) over a background of everyday texts b,
    n(p, z) = (Sim(z, p) + a top2 Sim(z, questions) + b top2 Sim(z, follows and breaks)) / (1 + a + b),

where top2 is the mean of the two highest. It is computed for the query and, if the texts to choose from are known, for
the mean direction c of the candidates near to the query, whose share is a little larger:

    rel(p) = w0 + w1 near(p) + w2 choice(q),

where choice(q) is the chance that the question is a choice (`question_kind`). `shared/tools/fit_relevance.py` fitted
the weights on queries and preferences of our own.
Nearness alone decides which of several preferences is the heaviest.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from weakref import ReferenceType, ref

import numpy as np

from epic_memory.encoders.base import Calibration, Embed, Encoder
from epic_memory.encoders.static import BUNDLED_NAME
from epic_memory.preferences.evidence import AspectEmbeddings, highest_two
from epic_memory.runtime.effects import Effects
from epic_memory.steering.question_kind import KINDS, QuestionKind, any_kind
from epic_memory.text.phrases import sections
from epic_memory.types import FloatArray
from epic_memory.types.weights import StageWeights

FEATURES = ("near", "choice")
# near(p), by how much it is below that of the nearest preference, the log-odds of what kind of question it is, and the
# chance of a choice times near(p).
MATTERS = ("near", "behind", *KINDS, "choosing")
# Everyday texts.
SAMPLES = sections("samples")["background"]


@dataclass(frozen=True, kw_only=True)
class RelevanceWeights(StageWeights):
    """Numbers of rel(p)."""

    static_query: Mapping[str, float]  # of `FEATURES` and "bias"; bundled encoder, options unknown
    static_choice: Mapping[str, float]  # the same where they are known
    other_query: Mapping[str, float]  # as `static_query`, for other encoders
    other_choice: Mapping[str, float]  # as `static_choice`, for other encoders
    written: tuple[float, float]  # of an expansion's questions and other phrases, if written for the preference
    borrowed: tuple[float, float]  # the same of a borrowed expansion
    apart: float  # how much further than the nearest a candidate may be that tells what a query is about
    choice: float  # share of the texts to choose from in near(p), the rest being the query's
    matters: Mapping[str, float]  # of `MATTERS`, the log-odds that a preference is needed for the answer, and "bias"
    unknown: float  # the chance of a choice where the kind of a question is unknown


# Keyed by the encoder's id, for as long as the encoder lives.
_known: dict[int, tuple[ReferenceType[Encoder], FloatArray]] = {}


def known_samples(encoder: Encoder) -> FloatArray | None:
    """Return an encoder's embeddings of everyday texts if they were kept, else None."""
    found = _known.get(id(encoder))
    return found[1] if found is not None and found[0]() is encoder else None


def encoding_samples(encoder: Encoder) -> Effects[FloatArray]:
    """Return an encoder's embeddings of everyday texts, shape `(b, d)`, encoded once for as long as it lives."""
    known = known_samples(encoder)
    if known is not None:
        return known
    vectors: FloatArray = yield Embed(encoder, SAMPLES, "steering")
    key = id(encoder)
    with suppress(TypeError):  # the encoder cannot be referred to weakly
        _known[key] = (ref(encoder, lambda _: _known.pop(key, None)), vectors)
    return vectors


def default_relevant(encoder: object) -> float:
    """Return the cosine with a query from which a text is relevant: the encoder's own, else 0.05 above its floor."""
    return float(getattr(encoder, "relevant", default_floor(encoder) + Calibration.shipped().above_floor))


def default_floor(encoder: object) -> float:
    """Return the similarity below which a query matches no preference: the encoder's own `floor`, else 0.2."""
    return float(getattr(encoder, "floor", Calibration.shipped().floor))


class Nearness:
    """The nearness of directions to preferences.

    Args:
        vectors: E(p) of each, shape `(m, d)`.
        sides: Their expansions.
        background: Everyday texts, shape `(b, d)`.
    """

    def __init__(self, vectors: FloatArray, sides: Sequence[AspectEmbeddings], background: FloatArray) -> None:
        weights = RelevanceWeights.shipped()
        self._vectors = vectors
        parts = [part for one in sides for part in (one.questions, one.expanded)]
        self._phrases = np.concatenate([vectors[:0], *parts])
        sizes = [len(part) for part in parts]
        # The rows of each group of phrases, padded to the longest; the padding refers to a cosine below any other.
        self._places = np.full((len(parts), max(2, *sizes, 2)), len(self._phrases), dtype=np.intp)
        start = 0
        for number, size in enumerate(sizes):
            self._places[number, :size] = np.arange(start, start + size)
            if size == 1:
                self._places[number, 1] = start
            start += size
        counts = [
            (weights.borrowed if one.borrowed else weights.written) if len(one.expanded) else (0.0, 0.0)
            for one in sides
        ]
        there = np.array([size > 0 for size in sizes], dtype=bool).reshape(-1, 2)
        self._shares = np.where(there, np.array(counts, dtype=np.float32).reshape(-1, 2), np.float32(0.0))
        self._whole = 1.0 + self._shares.sum(axis=1)
        self._expanded = bool(self._shares.any())
        self._common = np.zeros(len(vectors), dtype=np.float32)
        self._common = self.of(background).mean(axis=0)

    def of(self, directions: FloatArray) -> FloatArray:
        """Return near(p, z) of each preference for a unit vector z, shape `(m,)`; for several `(n, d)`, `(n, m)`."""
        near: FloatArray = directions @ self._vectors.T
        if self._expanded:
            cosines = np.empty((*directions.shape[:-1], len(self._phrases) + 1), dtype=np.float32)
            np.matmul(directions, self._phrases.T, out=cosines[..., :-1])
            cosines[..., -1] = -2.0
            highest = highest_two(cosines[..., self._places]).reshape(*near.shape, 2)
            near = (near + (highest * self._shares).sum(axis=-1)) / self._whole
        return near - self._common


def nearness(query: FloatArray, to: Nearness, candidates: FloatArray | None) -> FloatArray:
    """Return near(p) of each preference, shape `(m,)`: to the query, and to what there is to choose from."""
    if candidates is None or not len(candidates):
        return to.of(query)
    similar = candidates @ query
    # A candidate much further than the nearest is about something else.
    total = candidates[similar >= similar.max() - np.float32(RelevanceWeights.shipped().apart)].sum(axis=0)
    length = math.sqrt(float(total @ total))
    # Candidates that cancel each other out add nothing to the query.
    center = total / np.float32(length) if length > 1e-6 else query
    of_query, of_choice = to.of(np.stack([query, center]))
    choice = np.float32(RelevanceWeights.shipped().choice)
    near: FloatArray = (1.0 - choice) * of_query + choice * of_choice
    return near


def relevance(encoder: Encoder, near: FloatArray, kind: QuestionKind | None, *, candidates: bool) -> FloatArray:
    """Return rel(p) of each preference, shape `(m,)`, from near(p): a preference matters from 0 on.

    The weights depend on the encoder, and on whether the texts to choose from were known.
    """
    own, bundled = RelevanceWeights.shipped(), encoder.name == BUNDLED_NAME
    known = (own.static_query, own.static_choice) if bundled else (own.other_query, own.other_choice)
    weights = known[candidates]
    # Another model's cosines lie higher or lower.
    above = 0.0 if bundled else default_floor(encoder) - Calibration.shipped().floor
    by_kind = weights["choice"] * (own.unknown if kind is None else kind.choice) + weights["bias"]
    odds: FloatArray = np.float32(weights["near"]) * (near - np.float32(above)) + np.float32(by_kind)
    return odds


def chances_to_matter(encoder: Encoder, near: Sequence[float], kind: QuestionKind | None) -> list[float]:
    """Return the chance that each preference is needed for the answer, by near(p) of each and the question's kind."""
    asked = kind or any_kind()
    of, odds = RelevanceWeights.shipped().matters, asked.all_odds
    common = of["bias"] + sum(of[name] * one for name, one in odds.items())
    # Another model's cosines lie higher or lower.
    above = default_floor(encoder) - Calibration.shipped().floor
    by_near, nearest = of["near"] + of["choosing"] * asked.choice, max(near)
    # Preferences are few: plain numbers are faster than short arrays.
    return [1.0 / (1.0 + math.exp(-common - by_near * (one - above) - of["behind"] * (nearest - one))) for one in near]
