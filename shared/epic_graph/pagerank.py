"""Network of passages and entities in RAM, with personalised PageRank (HippoRAG 2) over it in numpy alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from epic_memory.types import FloatArray

Ids: TypeAlias = NDArray[np.int64]
Places: TypeAlias = NDArray[np.int32]
Weights: TypeAlias = NDArray[np.float64]

# The walk is over once a step changes all scores together by less than this.
_TOLERANCE = 1e-5


class Network:
    """Passages and entities in RAM.

    Edges are undirected: between a passage and an entity it mentions (weight 1); between two entities of a fact
    (weight: how many passages have such a fact). Ids are the caller's, any int64. A passage may mention no entity. Not
    safe to use from several threads at once.
    """

    def __init__(self) -> None:
        # By passage: its id, how many entities it mentions, how many facts it has. Mentions and facts are in the same
        # order, as places of entities.
        self._passages: Ids = np.empty(0, dtype=np.int64)
        self._counts: Places = np.empty(0, dtype=np.int32)
        self._fact_counts: Places = np.empty(0, dtype=np.int32)
        self._mentions: Places = np.empty(0, dtype=np.int32)
        self._facts: Places = np.empty((0, 2), dtype=np.int32)
        # Ascending.
        self._entities: Ids = np.empty(0, dtype=np.int64)

    # contents

    @property
    def edges(self) -> int:
        """Number of pairs of neighbours; counted anew each time."""
        return len(self._mentions) + len(np.unique(self._facts, axis=0))

    @property
    def mentioned(self) -> Ids:
        """Entities that passages mention, ascending, shape `(m,)`."""
        return self._entities[np.unique(self._mentions)]

    def mentions(self, entities: Iterable[int]) -> list[int]:
        """Return how many passages mention each entity; 0 for an unknown one."""
        places = _places(self._entities, np.fromiter(entities, dtype=np.int64))
        # One more count than there are entities, for the unknown ones at -1.
        counts: list[int] = np.bincount(self._mentions, minlength=len(self._entities) + 1)[places].tolist()
        return counts

    def neighbours(self, entity: int) -> dict[int, int]:
        """Return the entities that share a fact with an entity, each with the number of passages that have one."""
        source, target = self._between()
        others, counts = np.unique(target[source == _places(self._entities, np.array([entity]))], return_counts=True)
        return dict(zip(self._entities[others].tolist(), counts.tolist(), strict=True))

    # changes

    def add(self, passages: Ids, mentions: Ids, facts: Ids) -> None:
        """Add passages, in place of earlier versions.

        Each unordered pair counts once for a passage; a pair of an entity with itself is ignored.

        Args:
            passages: Distinct ids, shape `(p,)`.
            mentions: Distinct pairs of passage and entity, shape `(m, 2)`.
            facts: Passage, and two entities that it mentions, shape `(f, 3)`.
        """
        self.remove(passages)
        self._make(mentions[:, 1])
        passages = np.sort(passages)
        owners = np.searchsorted(passages, mentions[:, 0])
        mentioned = _places(self._entities, mentions[np.argsort(owners, kind="stable"), 1])
        pairs = np.sort(_places(self._entities, facts[:, 1:]), axis=1)
        facts = np.unique(np.column_stack([np.searchsorted(passages, facts[:, 0]), pairs]), axis=0)
        facts = facts[facts[:, 1] != facts[:, 2]]
        self._passages = np.concatenate([self._passages, passages])
        self._counts = _appended(self._counts, np.bincount(owners, minlength=len(passages)))
        self._mentions = _appended(self._mentions, mentioned)
        self._fact_counts = _appended(self._fact_counts, np.bincount(facts[:, 0], minlength=len(passages)))
        self._facts = _appended(self._facts, facts[:, 1:])

    def remove(self, passages: Iterable[int]) -> None:
        """Remove passages, with their mentions and facts; ignore unknown ids."""
        kept = ~np.isin(self._passages, np.fromiter(passages, dtype=np.int64))
        if not kept.all():
            self._mentions = self._mentions[np.repeat(kept, self._counts)]
            self._facts = self._facts[np.repeat(kept, self._fact_counts)]
            self._passages = self._passages[kept]
            self._counts, self._fact_counts = self._counts[kept], self._fact_counts[kept]

    def _make(self, ids: Ids) -> None:
        """Make places for those entities that have none."""
        new = np.unique(ids[_places(self._entities, ids) < 0])
        if not len(new):
            return
        before, self._entities = self._entities, np.concatenate([self._entities, new])
        if len(before) and new[0] < before[-1]:
            self._entities.sort()
            places = np.searchsorted(self._entities, before).astype(np.int32)
            self._mentions, self._facts = places[self._mentions], places[self._facts]

    def _between(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Return the edges between entities in both directions: from, to."""
        one, other = self._facts.T.astype(np.intp)
        return np.concatenate([one, other]), np.concatenate([other, one])

    # the walk

    def pagerank(
        self, entities: Mapping[int, float], passages: Mapping[int, float], *, damping: float = 0.5
    ) -> tuple[Ids, FloatArray]:
        """Compute the personalised PageRank of all passages.

        A walk on an undirected graph has real eigenvalues, so that Chebyshev's polynomials accelerate the power
        iteration (Golub and Varga, 1961): it takes half as many steps.

        Args:
            entities: The entities where the walk starts, with weights of at least 0.
            passages: The passages where it starts, with weights; unknown ones are without entities. All weights
                together are normalised to a sum of one; unknown entities are ignored, and those without an edge.
            damping: The probability that the walk goes on along an edge instead of restarting, in [0, 1).

        Returns:
            The ids of all passages (P,), unknown ones included, and their scores (P,); the scores of passages and
            entities together sum to one. All scores are zero if the walk can start nowhere.
        """
        source, target = self._between()
        # As numpy needs them for indexing: otherwise it would convert them in each step.
        mentions, size = self._mentions.astype(np.intp), len(self._entities)
        degrees = np.bincount(mentions, minlength=size) + np.bincount(target, minlength=size)
        given = np.fromiter(passages, dtype=np.int64)
        unknown = given[~np.isin(given, self._passages)]
        ids, counts = np.concatenate([self._passages, unknown]), np.pad(self._counts, (0, len(unknown)))
        by_passage, by_entity = _weights(ids, passages), _weights(self._entities, entities)
        by_entity[degrees == 0] = 0.0
        if not by_passage.any() and not by_entity.any():
            return ids, np.zeros(len(ids), dtype=np.float32)
        # Passages without an entity are left out of the walk: there it only starts and restarts.
        inside = counts > 0
        counts = counts[inside]
        count, starts = len(counts), np.cumsum(counts) - counts
        start = np.concatenate([by_passage[inside], by_entity])
        per_edge = damping / np.concatenate([counts, np.maximum(degrees, 1)])

        def step(scores: Weights) -> Weights:
            """Return where the walk starts or goes to from where it is; first passages, then entities."""
            shares = scores * per_edge
            moved: Weights = start.copy()
            moved[:count] += np.add.reduceat(shares[count:].take(mentions), starts)
            moved[count:] += np.bincount(mentions, np.repeat(shares[:count], counts), size)
            moved[count:] += np.bincount(target, shares[count:].take(source), size)
            return moved

        before, scores, factor = start, step(start), 1.0 / (1.0 - damping**2 / 2.0)
        while np.abs(scores - before).sum() > _TOLERANCE * start.sum():
            before, scores = scores, before + factor * (step(scores) - before)
            factor = 1.0 / (1.0 - factor * damping**2 / 4.0)
        by_passage[inside] = scores[:count]
        # Where the walk cannot go on it restarts, which only scales the scores.
        return ids, (by_passage / (by_passage.sum() + scores[count:].sum())).astype(np.float32)


def _places(held: Ids, wanted: Ids) -> NDArray[np.intp]:
    """Return the place of each id among ascending ids; -1 for an id that is not there."""
    if not len(held):
        return np.full(wanted.shape, -1, dtype=np.intp)
    found = np.minimum(np.searchsorted(held, wanted), len(held) - 1)
    return np.where(held[found] == wanted, found, -1)


def _weights(ids: Ids, weights: Mapping[int, float]) -> Weights:
    """Return the weight of each id; 0 for those without one."""
    given = np.array(sorted(weights), dtype=np.int64)
    # The last weight is that of the unknown ones at -1.
    return np.array([*(weights[one] for one in given.tolist()), 0.0])[_places(given, ids)]


def _appended(column: NDArray[Any], values: NDArray[Any]) -> NDArray[Any]:
    return np.concatenate([column, values.astype(column.dtype)])
