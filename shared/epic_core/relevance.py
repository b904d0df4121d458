"""How much a preference matters to a query: rel(p), log-odds, above what it takes to steer.

Similarity alone says it badly. "Where should I stay in Las Vegas?" is not near "I avoid hotels with casinos"; and who
wonders why something is as it is has nothing to choose. So more is weighed:

    rel(p) = w0 + w1 Sim(q, p) + w2 asks(q) + w3 explains(q, p)

asks(q) is how much the query sounds like one that asks for a choice, rather than for an explanation; explains(q, p) how
much it sounds like the latter, where p is about explanations and values itself. If it is known what there is to choose
from, that says more than the query does. With c the mean direction of the candidates nearest to it, and other weights,

    rel(p) = ... + w4 Sim(c, p) + w5 max Sim(c, phrase of p) + w6 max Sim(c, group of p).

A phrase is one that p likes or avoids, a group one of the lexicon's for p, such as what is taken instead of what is
avoided (`evidence`). `shared/tools/fit_relevance.py` fitted the weights on queries and preferences of our own.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple
from weakref import ReferenceType, ref

import numpy as np
from numpy.typing import NDArray

from epic_core.encoders.base import Encoder, aembed, aembed_query, embed, embed_query
from epic_core.encoders.static import BUNDLED_NAME
from epic_core.evidence import Sides
from epic_core.types import FloatArray

DEFAULT_FLOOR = 0.2
# How many of the candidates say what a query is about.
NEAREST = 8
BY_QUERY = ("query", "asks", "explains")
FEATURES = (*BY_QUERY, "candidates", "candidates_phrase", "candidates_group", "no_group")
# Where Sim(c, p) is among them.
CANDIDATES = FEATURES.index("candidates")
_GROUP, _NO_GROUP = FEATURES.index("candidates_group"), FEATURES.index("no_group")
_COSINES = (FEATURES.index("query"), CANDIDATES, FEATURES.index("candidates_phrase"), _GROUP)
# No question sounds more like one or the other than a whole one does: "Any suggestions?" says little.
_CLEAR = 0.4
# How one sounds who asks for a choice, and who wonders why; preferences about explanations, and about things.
SAMPLES = (
    ("Can you recommend something for me?", "What are some good options I should consider?",
     "Which one should I choose?", "Any suggestions for what I could try?"),
    ("Why does this happen?", "How does it work?", "What is the reason for this?", "Explain how this is possible."),
    ("I prefer explanations that focus on one thing rather than another.",
     "I believe in an approach that prioritizes principles.", "I value a perspective over arguments."),
    ("I don't like it.", "I avoid them because I dislike them.", "I love this and only buy that."),
)  # fmt: skip


class Weights(NamedTuple):
    """rel(p) is linear in some features.

    Attributes:
        features: What each counts, shape `(f,)`.
        bias: What is added.
    """

    features: FloatArray
    bias: float


def _weights(bias: float, **features: float) -> Weights:
    return Weights(np.array(list(features.values()), dtype=np.float32), bias)


# By the query, and with candidates: of the bundled encoder, and of others, for which they were fitted with
# all-MiniLM-L6-v2.
_STATIC = (
    _weights(-4.27, query=11.99, asks=2.35, explains=29.28),
    _weights(
        -4.77, query=1.13, asks=3.52, explains=33.67, candidates=6.86, candidates_phrase=2.13, candidates_group=3.01,
        no_group=0.97,
    ),
)  # fmt: skip
_OTHER = (
    _weights(-5.09, query=14.68, asks=4.04, explains=31.63),
    _weights(
        -5.99, query=2.14, asks=4.68, explains=38.39, candidates=8.39, candidates_phrase=2.82, candidates_group=3.96,
        no_group=1.31,
    ),
)  # fmt: skip


class Samples(NamedTuple):
    """Of an encoder: towards who asks for a choice, towards preferences about explanations; each shape `(d,)`."""

    choice: FloatArray
    explanation: FloatArray

    @classmethod
    def of(cls, vectors: FloatArray) -> Samples:
        """From the embeddings of all samples, in order, shape `(n, d)`."""
        means, start = [], 0
        for sample in SAMPLES:
            mean = vectors[start : start + len(sample)].mean(axis=0)
            means.append(mean / np.float32(max(float(np.linalg.norm(mean)), 1e-6)))
            start += len(sample)
        asking, wondering, explanations, things = means
        return cls(choice=asking - wondering, explanation=explanations - things)


# By the encoder's identity, as long as it lives.
_known: dict[int, tuple[ReferenceType[Encoder], Samples]] = {}


def known_samples(encoder: Encoder) -> Samples | None:
    """An encoder's, if they were kept."""
    found = _known.get(id(encoder))
    return found[1] if found is not None and found[0]() is encoder else None


def samples_of(encoder: Encoder) -> Samples:
    """An encoder's, encoded once for as long as it lives."""
    known = known_samples(encoder)
    if known is None:
        asked, said = _questions(), _statements()
        if hasattr(encoder, "encode_query"):
            vectors = np.concatenate([[embed_query(encoder, text) for text in asked], embed(encoder, said)])
        else:
            vectors = embed(encoder, sample_texts())
        known = _kept(encoder, vectors)
    return known


async def asamples_of(encoder: Encoder) -> Samples:
    """As `samples_of`, without blocking the event loop."""
    known = known_samples(encoder)
    if known is None:
        asked, said = _questions(), _statements()
        if hasattr(encoder, "encode_query") or hasattr(encoder, "aencode_query"):
            queries = [await aembed_query(encoder, text) for text in asked]
            vectors = np.concatenate([queries, await aembed(encoder, said)])
        else:
            vectors = await aembed(encoder, sample_texts())
        known = _kept(encoder, vectors)
    return known


def sample_texts() -> list[str]:
    """What an encoder has to embed once."""
    return _questions() + _statements()


def _questions() -> list[str]:
    return [text for sample in SAMPLES[:2] for text in sample]


def _statements() -> list[str]:
    return [text for sample in SAMPLES[2:] for text in sample]


def _kept(encoder: Encoder, vectors: FloatArray) -> Samples:
    samples, key = Samples.of(vectors), id(encoder)
    with suppress(TypeError):  # it cannot be referred to weakly
        _known[key] = (ref(encoder, lambda _: _known.pop(key, None)), samples)
    return samples


def default_floor(encoder: object) -> float:
    """The similarity below which a query matches no preference: the encoder's own `floor`, else 0.2."""
    return float(getattr(encoder, "floor", DEFAULT_FLOOR))


class Phrases:
    """What the preferences like and avoid, and the lexicon's groups of it, to be compared with one vector at a time.

    Args:
        vectors: E(p), shape `(m, d)`.
        sides: Of each preference.
    """

    def __init__(self, vectors: FloatArray, sides: Sequence[Sides]) -> None:
        phrases = [one.vectors[: len(one.phrases)] for one in sides]
        groups = [one.vectors[len(one.phrases) :] for one in sides]
        self._phrases, self._phrase_starts = _joined(phrases, vectors)
        self._groups, self._group_starts = _joined([group for group in groups if len(group)], vectors)
        self._grouped = np.array([len(group) > 0 for group in groups], dtype=bool)

    def features(self, meant: FloatArray) -> list[FloatArray]:
        """The last three of `FEATURES`, each shape `(m,)`."""
        groups = np.zeros(len(self._grouped), dtype=np.float32)
        groups[self._grouped] = _highest(self._groups @ meant, self._group_starts)
        return [_highest(self._phrases @ meant, self._phrase_starts), groups, (~self._grouped).astype(np.float32)]


def by_query(query: FloatArray, vectors: FloatArray, samples: Samples) -> list[FloatArray]:
    """`BY_QUERY` of each preference, each shape `(m,)`.

    Args:
        query: E(q), shape `(d,)`.
        vectors: E(p), shape `(m, d)`.
        samples: The encoder's.
    """
    asks = max(-_CLEAR, min(float(query @ samples.choice), _CLEAR))
    return [
        vectors @ query,
        np.full(len(vectors), max(asks, 0.0), dtype=np.float32),
        np.float32(max(-asks, 0.0)) * (vectors @ samples.explanation),
    ]


def with_candidates(
    query: FloatArray, candidates: FloatArray, vectors: FloatArray, samples: Samples, phrases: Phrases
) -> list[FloatArray]:
    """`FEATURES` of each preference, each shape `(m,)`.

    Args:
        query, vectors, samples: As `by_query` takes them.
        candidates: Embeddings of what there is to choose from, shape `(n, d)`, n at least 1.
        phrases: Of the preferences.
    """
    meant = center(query, candidates)
    return [*by_query(query, vectors, samples), vectors @ meant, *phrases.features(meant)]


def relevance(encoder: Encoder, features: Sequence[FloatArray]) -> FloatArray:
    """rel(p) of each preference, shape `(m,)`: it steers from 0 on.

    Args:
        encoder: What everything was encoded with.
        features: `BY_QUERY` or `FEATURES`.
    """
    bundled = encoder.name == BUNDLED_NAME
    weights = (_STATIC if bundled else _OTHER)[len(features) > len(BY_QUERY)]
    found = np.stack(features)
    if not bundled:
        # Another model's cosines lie higher or lower; where there is no group, there is no cosine.
        shift = np.float32(default_floor(encoder) - DEFAULT_FLOOR)
        found[[row for row in _COSINES if row < len(found)]] -= shift
        if len(found) > _NO_GROUP:
            found[_GROUP] += shift * found[_NO_GROUP]
    odds: FloatArray = weights.features @ found + np.float32(weights.bias)
    return odds


def center(query: FloatArray, candidates: FloatArray) -> FloatArray:
    """The mean direction of the candidates nearest to a query, shape `(d,)`."""
    if len(candidates) > NEAREST:
        near = candidates @ query
        # All that are as near as the last: their order does not matter.
        candidates = candidates[near >= np.partition(near, -NEAREST)[-NEAREST]]
    total = candidates.sum(axis=0)
    length = float(np.linalg.norm(total))
    # Candidates that cancel each other out say nothing more than the query.
    return total / np.float32(length) if length > 1e-6 else query


def _joined(parts: Sequence[FloatArray], like: FloatArray) -> tuple[FloatArray, NDArray[np.intp]]:
    """Several arrays of rows as one, and where each begins."""
    starts = np.cumsum([0, *(len(part) for part in parts)])[:-1]
    return np.concatenate([like[:0], *parts]), starts


def _highest(cosines: FloatArray, starts: NDArray[np.intp]) -> FloatArray:
    """The highest of each part."""
    found: FloatArray = np.maximum.reduceat(cosines, starts) if len(starts) else cosines
    return found
