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
    (weight: how many passages have such a fact); between two entities that are synonyms (weight: their cosine). Ids are
    the caller's, any int64. A passage may mention no entity. Not safe to use from several threads at once.
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
        self._synonyms: Places = np.empty((0, 2), dtype=np.int32)
        self._cosines: FloatArray = np.empty(0, dtype=np.float32)

    # contents

    @property
    def edges(self) -> int:
        """Number of pairs of neighbours; counted anew each time."""
        pairs = np.concatenate([self._facts, self._synonyms]).astype(np.int64)
        return len(self._mentions) + len(np.unique(pairs[:, 0] * len(self._entities) + pairs[:, 1]))

    def mentions(self, entities: Iterable[int]) -> list[int]:
        """Return how many passages mention each entity; 0 for an unknown one."""
        places = _places(self._entities, np.fromiter(entities, dtype=np.int64))
        # One more count than there are entities, for the unknown ones at -1.
        counts: list[int] = np.bincount(self._mentions, minlength=len(self._entities) + 1)[places].tolist()
        return counts

    def neighbours(self, entity: int) -> dict[int, float]:
        """Return the entities that share a fact with an entity or are its synonyms, with the weights of these edges."""
        (place,) = _places(self._entities, np.array([entity]))
        weights: dict[int, float] = {}
        for one, other, weight in zip(*(column.tolist() for column in self._between()), strict=True):
            if one == place:
                neighbour = int(self._entities[other])
                weights[neighbour] = weights.get(neighbour, 0.0) + weight
        return weights

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
        fact_owners = np.searchsorted(passages, facts[:, 0])
        pairs = np.sort(_places(self._entities, facts[:, 1:]), axis=1)
        order = np.lexsort((pairs[:, 1], pairs[:, 0], fact_owners))
        fact_owners, pairs = fact_owners[order], pairs[order]
        new = pairs[:, 0] != pairs[:, 1]
        new[1:] &= (np.diff(fact_owners) != 0) | (np.diff(pairs, axis=0) != 0).any(axis=1)
        self._passages = np.concatenate([self._passages, passages])
        self._counts = _appended(self._counts, np.bincount(owners, minlength=len(passages)))
        self._mentions = _appended(self._mentions, mentioned)
        self._fact_counts = _appended(self._fact_counts, np.bincount(fact_owners[new], minlength=len(passages)))
        self._facts = _appended(self._facts, pairs[new])

    def remove(self, passages: Iterable[int]) -> None:
        """Remove passages, with their mentions and facts; ignore unknown ids."""
        kept = ~np.isin(self._passages, np.fromiter(passages, dtype=np.int64))
        if not kept.all():
            self._mentions = self._mentions[np.repeat(kept, self._counts)]
            self._facts = self._facts[np.repeat(kept, self._fact_counts)]
            self._passages = self._passages[kept]
            self._counts, self._fact_counts = self._counts[kept], self._fact_counts[kept]

    def link(self, pairs: Ids, cosines: FloatArray) -> None:
        """Make pairs of entities synonyms that are none yet: ids `(n, 2)`, and their cosines above 0 `(n,)`."""
        self._make(pairs.ravel())
        self._synonyms = _appended(self._synonyms, np.sort(_places(self._entities, pairs), axis=1))
        self._cosines = _appended(self._cosines, cosines)

    def drop_entities(self, entities: Iterable[int]) -> None:
        """Remove entities that no passage mentions, with their synonyms; ignore unknown ids."""
        kept = ~np.isin(self._entities, np.fromiter(entities, dtype=np.int64))
        if not kept.all():
            linked = kept[self._synonyms].all(axis=1)
            self._synonyms, self._cosines = self._synonyms[linked], self._cosines[linked]
            self._entities = self._entities[kept]
            self._renumber(np.cumsum(kept) - 1)

    def _make(self, ids: Ids) -> None:
        """Make places for those entities that have none."""
        new = np.unique(ids[_places(self._entities, ids) < 0])
        if not len(new):
            return
        before, self._entities = self._entities, np.concatenate([self._entities, new])
        if len(before) and new[0] < before[-1]:
            self._entities.sort()
            self._renumber(np.searchsorted(self._entities, before))

    def _renumber(self, places: NDArray[np.intp]) -> None:
        numbers: Places = places.astype(np.int32)
        self._mentions = numbers[self._mentions]
        self._facts, self._synonyms = numbers[self._facts], numbers[self._synonyms]

    def _between(self) -> tuple[NDArray[np.intp], NDArray[np.intp], Weights]:
        """Return the edges between entities in both directions: from, to, weight."""
        pairs = np.concatenate([self._facts, self._synonyms]).astype(np.intp)
        weights = np.concatenate([np.ones(len(self._facts)), self._cosines])
        one, other = pairs.T
        return np.concatenate([one, other]), np.concatenate([other, one]), np.tile(weights, 2)

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
        source, target, weights = self._between()
        # As numpy needs them for indexing: otherwise it would convert them in each step.
        mentions, size = self._mentions.astype(np.intp), len(self._entities)
        degrees = np.bincount(mentions, minlength=size) + np.bincount(target, weights, size)
        given = np.fromiter(passages, dtype=np.int64)
        unknown = given[~np.isin(given, self._passages)]
        ids, counts = np.concatenate([self._passages, unknown]), np.pad(self._counts, (0, len(unknown)))
        by_passage, by_entity = _weights(ids, passages), _weights(self._entities, entities)
        by_entity[degrees == 0.0] = 0.0
        if not by_passage.any() and not by_entity.any():
            return ids, np.zeros(len(ids), dtype=np.float32)
        # Passages without an entity are left out of the walk: there it only starts and restarts.
        inside = counts > 0
        counts = counts[inside]
        count, starts = len(counts), np.cumsum(counts) - counts
        start = np.concatenate([by_passage[inside], by_entity])
        per_edge = damping / np.concatenate([counts, np.where(degrees > 0.0, degrees, 1.0)])

        def step(scores: Weights) -> Weights:
            """Return where the walk starts or goes to from where it is; first passages, then entities."""
            shares = scores * per_edge
            moved: Weights = start.copy()
            moved[:count] += np.add.reduceat(shares[count:].take(mentions), starts)
            moved[count:] += np.bincount(mentions, np.repeat(shares[:count], counts), size)
            moved[count:] += np.bincount(target, weights * shares[count:].take(source), size)
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
