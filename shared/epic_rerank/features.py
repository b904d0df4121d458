"""Features of search results in view of each other: what a reranker is told of each candidate.

No feature holds text. All are about -1 to 1, and candidates are in the order of retrieval.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from epic_memory.text.stems import content_stems
from epic_memory.types import FloatArray, Hit, Preference, Stance
from epic_rerank.policy import Floats

NAMES = (
    "score",  # of retrieval
    "behind best",  # how far the score is behind the best one's
    "behind previous",  # and behind that of the candidate before
    "rank",  # 1 / (1 + rank)
    "cosine",  # of E(q) and E(x)
    "instruction",  # the largest cosine of an instruction with the query
    "preference",  # the largest Sim(E(x), E(p)) of its preferences
    "confidence",  # of the first verdict
    "supports",
    "neutral",
    "mixed",
    "conflicts",
    "matters",  # how much the preference it is held for matters to the query
    "words",  # share of the query's words that it has
    "length",  # logarithm of its number of words
    "unverified",  # kept for its text only
    "nearest",  # the largest cosine with another candidate
    "mean near",  # the mean cosine with the others
    "repeats",  # the largest cosine with a candidate of a better rank
    "same preference",  # share of the others that are held for one of its preferences
)
"""The names of the features, in order; weights are for these."""

_STANCES = (Stance.SUPPORTS, Stance.NEUTRAL, Stance.MIXED, Stance.CONFLICTS)


@lru_cache(maxsize=2048)
def word_set(text: str) -> frozenset[str]:
    """Return the stems of a text's content words."""
    return frozenset(content_stems(text))


def features_of(
    query: str,
    vector: FloatArray | None,
    hits: Sequence[Hit],
    vectors: Sequence[FloatArray],
    matters: Sequence[tuple[Preference, float]] = (),
) -> Floats:
    """Return the features of candidates, shape `(n, len(NAMES))`.

    Args:
        query: Its words; empty for a search by vector.
        vector: E(q), shape `(d,)`; None if the query has none.
        hits: The candidates, best first.
        vectors: Their embeddings, each shape `(d,)`; empty if they have none.
        matters: The preferences with the chance that each matters to the query.
    """
    n = len(hits)
    made = np.zeros((n, len(NAMES)))
    if not n:
        return made
    column = {name: place for place, name in enumerate(NAMES)}
    scores = np.array([hit.score for hit in hits])
    made[:, column["score"]] = scores
    made[:, column["behind best"]] = scores.max() - scores
    made[1:, column["behind previous"]] = scores[:-1] - scores[1:]
    made[:, column["rank"]] = 1.0 / (1.0 + np.arange(n))
    chance = {preference.id: value for preference, value in matters}
    asked = word_set(query)
    held_for = [{entry.preference_id for entry in hit.entries} for hit in hits]
    for row, hit in enumerate(hits):
        if hit.entries:
            first = hit.entries[0]
            made[row, column["instruction"]] = max(entry.score or 0.0 for entry in hit.entries)
            made[row, column["preference"]] = max(entry.similarity for entry in hit.entries)
            made[row, column["confidence"]] = 0.0 if first.confidence is None else first.confidence
            made[row, column["supports"] + _STANCES.index(first.stance)] = 1.0
            made[row, column["matters"]] = max(chance.get(entry.preference_id or "", 0.0) for entry in hit.entries)
            others = sum(bool(held_for[row] & held) for held in held_for) - 1
            made[row, column["same preference"]] = others / max(1, n - 1)
        else:
            made[row, column["unverified"]] = 1.0
        words = word_set(hit.item.text)
        made[row, column["words"]] = len(asked & words) / len(asked) if asked else 0.0
        made[row, column["length"]] = math.log1p(hit.item.text.count(" ")) / 5.0
    if len(vectors) == n:
        every = np.stack(vectors).astype(np.float64)
        if vector is not None:
            made[:, column["cosine"]] = every @ vector
        if n > 1:
            near = every @ every.T
            made[:, column["mean near"]] = (near.sum(axis=1) - near.diagonal()) / (n - 1)
            np.fill_diagonal(near, -1.0)
            made[:, column["nearest"]] = near.max(axis=1)
            made[1:, column["repeats"]] = [near[row, :row].max() for row in range(1, n)]
    return made
