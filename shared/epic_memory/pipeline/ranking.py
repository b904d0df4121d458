"""Ranking of candidates: what they say for and against the preferences that matter, and what was judged of them.

The topic finds (`pipeline.candidates`); the evidence in the texts (`steering.signed`) and their stances
(`steering.ranking`) rank. A memory and a collection are ranked by the same functions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from epic_memory.pipeline.candidates import Candidates, Shelf
from epic_memory.steering.query_steering import Chosen, QuerySteering
from epic_memory.steering.question_kind import QuestionKind, recalls
from epic_memory.steering.ranking import Verdicts
from epic_memory.text.turns import SOURCE
from epic_memory.types import FloatArray
from epic_memory.types.weights import StageWeights


@dataclass(frozen=True, kw_only=True)
class RankingWeights(StageWeights):
    """Numbers of what repeats other hits."""

    same: float  # cosine from which texts say the same as a better hit
    others: int  # one in so many hits is of another source, where others are relevant, too


def verdicts_on(
    found: Candidates,
    steering: QuerySteering,
    chosen: Chosen,
    kind: QuestionKind | None,
    only: NDArray[np.intp] | None = None,
) -> Verdicts:
    """Return the stances of candidates to the preferences in the rows `only` (None for all), with what each counts."""
    weights = zip(chosen.rows, chosen.weights, strict=True)
    felt = {steering.preferences[row].id: chosen.strength * weight for row, weight in weights}
    return Verdicts.of(found.stances, steering.preferences, felt, not recalls(kind), only=only)


def ranked(
    shelf: Shelf,
    found: Candidates,
    steering: QuerySteering,
    query: FloatArray,
    chosen: Chosen,
    verdicts: Verdicts | None,
) -> FloatArray:
    """Return the score of each candidate for E(q), shape `(n,)`; without verdicts no stance and no evidence counts."""
    if verdicts is None or not found.rows:
        alone: FloatArray = found.topics + found.lifts.sum(axis=0)
        return alone
    topics = found.topics
    if shelf.facts:
        # How surely a fact answers does not tell how near the texts beside it are to the topic.
        facts = np.array([row in shelf.facts for row in found.rows], dtype=bool)
        most = topics[~facts].max(initial=-np.inf) if not facts.all() else np.inf
        topics = np.where(facts, np.minimum(topics, np.float32(most)), topics)
    worded = partial(shelf.texts.worded, found.rows)
    scores = steering.score_found(query, topics, found.vectors, worded, chosen, verdicts.bounds)
    mattering = chosen.strength * max(chosen.weights, default=0.0)
    lifts = np.float32(max(0.0, 1.0 - mattering)) * found.lifts[0] + found.lifts[1]
    total: FloatArray = scores + lifts + (found.topics - topics)
    return verdicts.ranked(total, topics)


def distinct(shelf: Shelf, found: Candidates, order: Sequence[int], k: int) -> list[int]:
    """Choose k of the candidates' places in an order, best first.

    What repeats a better one, or its source once too often, is chosen only if there is no other.
    """
    weights = RankingWeights.shipped()
    chosen: list[int] = []
    same: list[int] = []
    of_source: dict[str, int] = {}
    repeats = np.zeros(len(found.rows), dtype=bool)
    first = shelf.texts.metadata([found.rows[place] for place in order[:k]])
    for number, place in enumerate(order):
        if repeats[place]:
            same.append(place)
            continue
        metadata = first[number] if number < len(first) else shelf.texts.metadata([found.rows[place]])[0]
        source = metadata.get(SOURCE)
        if isinstance(source, str):
            of_source[source] = of_source.get(source, 0) + 1
            if of_source[source] > k - k // weights.others:
                same.append(place)
                continue
        repeats |= np.einsum("ij,j->i", found.vectors, found.vectors[place]) >= weights.same
        chosen.append(place)
        if len(chosen) == k:
            break
    shown = set((chosen + same)[:k])
    return [place for place in order if place in shown]
