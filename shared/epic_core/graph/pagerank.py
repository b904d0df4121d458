"""Network of passages and entities in RAM, with personalised PageRank (HippoRAG 2) over it in numpy alone.

The walk on an undirected graph is a symmetric linear system. No two passages are neighbours, so they are eliminated,
and conjugate gradients on the entities take about eight passes over the edges where power iteration takes twenty.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epic_core.errors import InvalidInputError
from epic_core.graph.arrays import (
    Column,
    Ids,
    Slots,
    Weights,
    counted,
    distinct,
    distinct_facts,
    distinct_links,
    places_of,
    positions,
    summed,
)
from epic_core.types import FloatArray

Seeds: TypeAlias = Mapping[int, float] | tuple[ArrayLike, ArrayLike]
"""Ids with their weights: a mapping, or two arrays."""

# Slot 0 of the entities means "none": removed entities point there, and its degree is always zero.
_NOBODY = 0
_TOLERANCE = 1e-5
_ROUNDS = 10_000
_PADDING = 4_096
_LOOSE = 1_000
_LOOSE_SHARE = 0.2


class Network:
    """Passages and entities in RAM.

    Edges are undirected: between a passage and an entity it mentions (weight 1); between two entities of a fact
    (weight: how many passages have such a fact); between two entities that are synonyms (weight: their cosine). Ids are
    the caller's, any int64. A passage may mention no entity; an entity exists as long as it has an edge. Not safe to
    use from several threads at once.
    """

    def __init__(self) -> None:
        none = np.empty(0, dtype=np.int64)
        self._fill(none, none, np.zeros(1, np.int64), none, np.zeros(1, np.int64), none.reshape(0, 2))
        self._set_synonyms(none.reshape(0, 2), np.empty(0))

    @classmethod
    def of(
        cls,
        passages: ArrayLike,
        mentions: tuple[ArrayLike, ArrayLike],
        facts: tuple[ArrayLike, ArrayLike],
        synonyms: tuple[ArrayLike, ArrayLike],
    ) -> Network:
        """Make a network in one go.

        Args:
            passages: P distinct ids.
            mentions: `starts` (P + 1,) and entity ids (M,): passage i mentions `entities[starts[i]:starts[i + 1]]`.
            facts: `starts` (P + 1,) and pairs of entity ids (F, 2), in the same way.
            synonyms: Pairs of entity ids (n, 2) and weights (n,), as `link` takes them.

        Raises:
            InvalidInputError: for shapes that do not fit, or a passage that is given twice.
        """
        said = _Said.of(passages, mentions, facts)
        linked = _pairs(synonyms[0])
        weights = _weights(synonyms[1], len(linked))
        entities = distinct(np.concatenate([said.named, linked.ravel()]))
        made = cls()
        starts, inside, fact_starts, inner = said.laid_out(_numbered(entities, said.named), len(entities) + 1)
        made._fill(said.ids, entities, starts, inside, fact_starts, inner)
        made._set_synonyms(*distinct_links(_numbered(entities, linked), weights))
        return made

    def _fill(
        self, passages: Ids, entities: Ids, starts: Ids, mentions: NDArray[Any], fact_starts: Ids, facts: NDArray[Any]
    ) -> None:
        """Store rows whose entities are given as slots; passages ascend, `entities` have the slots from 1 on."""
        self._passages = Slots(passages)
        self._entities = Slots(np.concatenate([[np.iinfo(np.int64).min], entities]))
        self._alive = Column(np.ones(len(passages), dtype=bool))
        self._dead = 0
        # Removed mentions are still there as slot 0; drop them here.
        named = mentions != _NOBODY
        starts = summed(named)[starts]
        self._mentions, self._starts = Column(mentions[named].astype(np.int32)), Column(starts)
        self._held = Column(np.diff(starts).astype(np.int32))
        self._mentioned = Column(np.bincount(self._mentions.values, minlength=len(self._entities)).astype(np.int32))
        self._mentioned.values[_NOBODY] = 0
        self._fact_starts = Column(fact_starts)
        self._left, self._right = (Column(facts[:, side].astype(np.int32)) for side in (0, 1))

    def _set_synonyms(self, pairs: NDArray[Any], weights: NDArray[Any]) -> None:
        self._near, self._far = (Column(pairs[:, side].astype(np.int32)) for side in (0, 1))
        self._weights = Column(weights.astype(np.float32))

    # contents

    @property
    def passages(self) -> int:
        """How many passages there are."""
        return len(self._alive) - self._dead

    @property
    def entities(self) -> int:
        """How many entities have an edge."""
        return int(np.count_nonzero(self._degrees()))

    @property
    def edges(self) -> int:
        """How many pairs of neighbours there are; counted anew each time."""
        keys = [
            np.minimum(one, other).astype(np.int64) * len(self._entities) + np.maximum(one, other)
            for one, other in self._between()
        ]
        between = distinct(np.concatenate(keys))
        return int(self._held.values.sum()) + int(np.count_nonzero(between))

    @property
    def nbytes(self) -> int:
        """Bytes held between two calls."""
        columns = (held for held in vars(self).values() if isinstance(held, Column))
        slots = (self._passages, self._entities)
        # A dictionary's entry with its two numbers takes about 150 bytes.
        return sum(column.nbytes for column in columns) + sum(s.ids.nbytes + 150 * len(s.others) for s in slots)

    def degree(self, entity: int) -> int:
        """Return how many passages mention an entity; 0 for an unknown one."""
        slot = self._entities.find(_ids([entity]))[0]
        return int(self._mentioned.values[slot]) if slot >= 0 else 0

    def neighbours(self, entity: int) -> tuple[Ids, Weights]:
        """Return the entities that share a fact with an entity or are its synonyms, and the weights of these edges.

        The heaviest first, equal weights by ascending id. Empty for an unknown entity.
        """
        slot = self._entities.find(_ids([entity]))[0]
        weights = np.zeros(len(self._entities))
        if slot > _NOBODY:
            for one, other, weight in self._directed():
                met = one == slot
                weights += np.bincount(other[met], None if weight is None else weight[met], len(weights))
        found = np.flatnonzero(weights)
        ids, weights = self._entities.ids.values[found], weights[found]
        order = np.lexsort((ids, -weights))
        return ids[order], weights[order]

    # changes

    def add(self, passage: int, entities: Sequence[int], facts: Sequence[tuple[int, int]]) -> None:
        """Add a passage with the entities it mentions and the pairs of entities of its facts.

        An earlier version of the passage is replaced. Each entity and each unordered pair counts once; a pair of an
        entity with itself is ignored.
        """
        self.extend([passage], ([0, len(entities)], entities), ([0, len(facts)], facts))

    def extend(
        self, passages: ArrayLike, mentions: tuple[ArrayLike, ArrayLike], facts: tuple[ArrayLike, ArrayLike]
    ) -> None:
        """Add passages as `add` does, all at once, which is much faster; arguments and errors are those of `of`."""
        said = _Said.of(passages, mentions, facts)
        self.remove(said.ids)
        slots = self._known(said.named)
        starts, inside, fact_starts, inner = said.laid_out(slots, len(self._entities))
        self._passages.add(said.ids)
        self._alive.append(np.ones(len(said.ids), dtype=bool))
        self._starts.append(len(self._mentions) + starts[1:])
        self._mentions.append(inside)
        self._held.append(np.diff(starts))
        np.add.at(self._mentioned.values, inside, 1)
        self._fact_starts.append(len(self._left) + fact_starts[1:])
        self._left.append(inner[:, 0])
        self._right.append(inner[:, 1])
        self._tidy()

    def remove(self, passages: Iterable[int]) -> None:
        """Remove passages, with their mentions and facts; unknown ids are ignored.

        Entities stay as long as they have another edge.
        """
        slots = np.unique(self._passages.find(_ids(np.fromiter(passages, dtype=np.int64))))
        slots = slots[slots >= 0]
        slots = slots[self._alive.values[slots]]
        if not len(slots):
            return
        places = places_of(self._starts.values, slots)
        np.subtract.at(self._mentioned.values, self._mentions.values[places], 1)
        self._mentioned.values[_NOBODY] = 0
        self._mentions.values[places] = _NOBODY
        self._held.values[slots] = 0
        self._alive.values[slots] = False
        self._dead += len(slots)
        places = places_of(self._fact_starts.values, slots)
        self._left.values[places] = self._right.values[places] = _NOBODY
        self._tidy()

    def link(self, pairs: Sequence[tuple[int, int]], weights: Sequence[float]) -> None:
        """Make pairs of entities synonyms, with a weight each; a pair that is linked already gets the new weight.

        If an unordered pair is given twice, the last weight counts; a pair of an entity with itself is ignored.

        Raises:
            InvalidInputError: for weights that are not positive, or not as many as the pairs.
        """
        given = _pairs(pairs)
        values = _weights(weights, len(given))
        inner, values = distinct_links(self._known(given.ravel()).reshape(-1, 2), values)
        touched = np.zeros(len(self._entities), dtype=bool)
        touched[inner] = True
        again = np.flatnonzero(touched[self._near.values] & touched[self._far.values])
        held = np.stack([self._near.values[again], self._far.values[again]], axis=1).astype(np.int64)
        held.sort(axis=1)
        size = len(self._entities)
        keys = inner[:, 0] * size + inner[:, 1]
        place = positions(keys, held[:, 0] * size + held[:, 1])
        self._weights.values[again[place >= 0]] = values[place[place >= 0]]
        new = np.ones(len(inner), dtype=bool)
        new[place[place >= 0]] = False
        self._near.append(inner[new, 0])
        self._far.append(inner[new, 1])
        self._weights.append(values[new])

    def drop_entities(self, entities: Iterable[int]) -> None:
        """Remove entities from the passages, facts and synonyms they are in; unknown ids are ignored."""
        slots = self._entities.find(_ids(list(entities)))
        gone = np.zeros(len(self._entities), dtype=bool)
        gone[slots[slots >= 0]] = True
        gone[_NOBODY] = False
        if not gone.any():
            return
        places = np.flatnonzero(gone[self._mentions.values])
        rows = np.searchsorted(self._starts.values, places, side="right") - 1
        np.subtract.at(self._held.values, rows, 1)
        self._mentions.values[places] = _NOBODY
        self._mentioned.values[gone] = 0
        for one, other in self._between():
            lost = gone[one] | gone[other]
            one[lost] = other[lost] = _NOBODY
        self._tidy()

    def _known(self, ids: Ids) -> Ids:
        """Return the slots of entities; make slots for new ones."""
        slots = self._entities.find(ids)
        missing = np.unique(ids[slots < 0])
        if not len(missing):
            return slots
        self._entities.add(missing)
        self._mentioned.append(np.zeros(len(missing)))
        return self._entities.find(ids)

    def _tidy(self) -> None:
        """Free the memory of removed rows, and sort ids again, once there is much of either."""
        loose = self._dead + len(self._passages.others) + len(self._entities.others)
        idle = np.count_nonzero(self._near.values == _NOBODY)
        if loose + idle <= _LOOSE + _LOOSE_SHARE * (len(self._alive) + len(self._near)):
            return
        live = np.flatnonzero(self._alive.values)
        rows = live[np.argsort(self._passages.ids.values[live])]
        used = np.flatnonzero(self._degrees())
        used = used[np.argsort(self._entities.ids.values[used])]
        number = np.zeros(len(self._entities), dtype=np.int32)
        number[used] = np.arange(1, len(used) + 1)
        starts, fact_starts = self._starts.values, self._fact_starts.values
        places, fact_places = places_of(starts, rows), places_of(fact_starts, rows)
        facts = np.stack([number[side.values[fact_places]] for side in (self._left, self._right)], axis=1)
        linked = np.flatnonzero(self._near.values)
        synonyms = np.stack([number[side.values[linked]] for side in (self._near, self._far)], axis=1)
        weights = self._weights.values[linked]
        self._fill(
            self._passages.ids.values[rows],
            self._entities.ids.values[used],
            summed(np.diff(starts)[rows]),
            number[self._mentions.values[places]],
            summed(np.diff(fact_starts)[rows]),
            facts,
        )
        self._set_synonyms(synonyms, weights)

    # the walk

    def pagerank(self, entities: Seeds, passages: Seeds, *, damping: float = 0.5) -> tuple[Ids, FloatArray]:
        """Compute the personalised PageRank of all passages.

        Args:
            entities: The entities where the walk starts, with weights.
            passages: The passages where it starts, with weights. All weights together are normalised to a sum of one;
                unknown ids are ignored.
            damping: The probability that the walk goes on along an edge instead of restarting, in [0, 1).

        Returns:
            The ids of all passages (P,), in no particular order, and their scores (P,); the scores of passages and
            entities together sum to one. All scores are zero if the walk can start nowhere.

        Raises:
            InvalidInputError: for weights that are negative or not finite, or a damping out of its range.
        """
        if not 0.0 <= damping < 1.0:
            raise InvalidInputError(f"The damping has to be at least 0 and below 1, not {damping}.")
        by_entity, by_passage = self._reset(entities, self._entities), self._reset(passages, self._passages)
        live, degrees = self._alive.values, self._degrees()
        by_passage *= live
        by_entity *= degrees > 0.0
        ids = self._passages.ids.values[live]
        largest = max(by_entity.max(), by_passage.max(initial=0.0))
        if not largest:
            return ids, np.zeros(len(ids), dtype=np.float32)
        total = (by_entity / largest).sum() + (by_passage / largest).sum()
        by_entity, by_passage = by_entity / largest / total, by_passage / largest / total
        scores = self._walked(by_entity, by_passage, degrees, damping)
        # At a passage without an entity the walk restarts, which only scales the scores.
        idle = float(by_passage[self._held.values == 0].sum())
        scores *= (1.0 - damping) / (1.0 - damping * idle)
        return ids, scores[live].astype(np.float32)

    def _reset(self, seeds: Seeds, slots: Slots) -> Weights:
        """Return the weight of each slot."""
        if isinstance(seeds, Mapping):
            given = np.fromiter(seeds, dtype=np.int64, count=len(seeds))
            weights = np.fromiter(seeds.values(), dtype=np.float64, count=len(seeds))
        else:
            given, weights = _ids(seeds[0]), np.asarray(seeds[1], dtype=np.float64)
        if weights.shape != given.shape or not (np.isfinite(weights).all() and (weights >= 0.0).all()):
            raise InvalidInputError("A walk starts at ids with weights: one for each, finite, and none negative.")
        found = slots.find(given)
        return _gathered(found[found >= 0], weights[found >= 0], len(slots))

    def _walked(self, by_entity: Weights, by_passage: Weights, degrees: Weights, damping: float) -> Weights:
        """Return the scores of the passages' slots, up to a factor.

        With the adjacency A, the degrees D and the start r, the scores are D u with (D - damping A) u = r.
        """
        held = self._held.values
        inverse = np.divide(1.0, degrees, out=np.zeros_like(degrees), where=degrees > 0.0)
        blocks = [(rows, inside.shape, inside.ravel()) for rows, inside in self._blocks()]
        mentions = np.concatenate([inside for _, _, inside in blocks] or [np.empty(0, dtype=np.intp)])
        room = np.empty(len(mentions))
        # Converted once to the type that numpy needs for indexing: otherwise it converts them in each round.
        directed = [(one.astype(np.intp), other.astype(np.intp), weight) for one, other, weight in self._directed()]
        parts, first = [], 0
        for rows, shape, inside in blocks:
            parts.append((rows, damping / held[rows], room[first : first + len(inside)].reshape(shape)))
            first += len(inside)

        def back(values: Weights) -> Weights:
            """Pass values from entities to the passages that mention them, and from these to their entities."""
            values.take(mentions, out=room, mode="clip")
            for _, share, part in parts:
                part[:] = share * part.sum(axis=0)
            return _gathered(mentions, room, len(degrees))

        def system(values: Weights) -> Weights:
            """Apply (D - damping A) to values of the entities, with the passages eliminated."""
            flow = back(values)
            for one, other, weight in directed:
                pulled = values.take(other)
                if weight is not None:
                    pulled *= weight
                flow += _gathered(one, pulled, len(degrees))
            flow *= -damping
            flow += degrees * values
            return flow

        for rows, share, part in parts:
            part[:] = share * by_passage[rows]
        solved = _solved(system, by_entity + _gathered(mentions, room, len(degrees)), inverse)
        scores: Weights = by_passage.copy()
        solved.take(mentions, out=room, mode="clip")
        for rows, _, part in parts:
            scores[rows] += damping * part.sum(axis=0)
        return scores

    def _blocks(self) -> Iterator[tuple[Ids, NDArray[np.intp]]]:
        """Yield slots of passages (n,) with about equally many entities, and these (most, n), padded with slot 0.

        With its entities in a column, many passages are summed at once, which numpy does fast.
        """
        counts = np.where(self._held.values > 0, np.diff(self._starts.values), 0)
        # Numbers of one or two bytes are sorted much faster.
        small = counts.astype(np.min_scalar_type(counts.max(initial=0)))
        order = np.argsort(small, kind="stable")[::-1][: np.count_nonzero(counts)]
        counts = counts[order]
        begin = end = padding = 0
        for after in [*(np.flatnonzero(np.diff(counts)) + 1), len(order)]:
            padding += (counts[begin] - counts[after - 1]) * (after - end) if len(order) else 0
            if padding > _PADDING:
                yield self._block(order[begin:end], counts[begin:end])
                begin, padding = end, 0
            end = after
        if end:
            yield self._block(order[begin:end], counts[begin:end])

    def _block(self, rows: Ids, counts: Ids) -> tuple[Ids, NDArray[np.intp]]:
        depth = np.arange(counts[0])[:, None]
        inside = self._mentions.values.take(self._starts.values[rows] + depth, mode="clip").astype(np.intp)
        if counts[0] > counts[-1]:
            inside[depth >= counts] = _NOBODY
        return rows, inside

    def _between(self) -> list[tuple[NDArray[np.int32], NDArray[np.int32]]]:
        """Return the ends of the edges between entities: of facts, of synonyms."""
        return [(self._left.values, self._right.values), (self._near.values, self._far.values)]

    def _directed(self) -> Iterator[tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float32] | None]]:
        """Yield the edges between entities in both directions, with their weights (None: all are 1)."""
        for (one, other), weight in zip(self._between(), (None, self._weights.values), strict=True):
            if len(one):
                yield one, other, weight
                yield other, one, weight

    def _degrees(self) -> Weights:
        """Return the sum of the edge weights of each entity."""
        degrees = self._mentioned.values.astype(np.float64)
        for one, _, weight in self._directed():
            degrees += np.bincount(one, weight, len(degrees))
        degrees[_NOBODY] = 0.0
        return degrees


@dataclass(frozen=True)
class _Said:
    """Passages with their mentions and facts, sorted by passage.

    Attributes:
        ids: The passages' ids, ascending.
        named: Ids of entities: one for each mention, then two for each fact.
        rows, fact_rows: The passage of each mention and of each fact, as a position in `ids`.
    """

    ids: Ids
    named: Ids
    rows: Ids
    fact_rows: Ids

    @classmethod
    def of(
        cls, passages: ArrayLike, mentions: tuple[ArrayLike, ArrayLike], facts: tuple[ArrayLike, ArrayLike]
    ) -> _Said:
        ids, mentioned, pairs = _ids(passages), _ids(mentions[1]), _pairs(facts[1])
        starts = _starts(mentions[0], len(ids), len(mentioned), "mentions")
        fact_starts = _starts(facts[0], len(ids), len(pairs), "facts")
        order = np.argsort(ids)
        if (np.diff(ids[order]) == 0).any():
            raise InvalidInputError("A network takes each passage once; a passage id is there twice.")
        rank = np.empty(len(ids), dtype=np.int64)
        rank[order] = np.arange(len(ids))
        return cls(
            ids=ids[order],
            named=np.concatenate([mentioned, pairs.ravel()]),
            rows=np.repeat(rank, np.diff(starts)),
            fact_rows=np.repeat(rank, np.diff(fact_starts)),
        )

    def laid_out(self, slots: Ids, size: int) -> tuple[Ids, Ids, Ids, Ids]:
        """Return starts and slots of mentions, and starts and pairs of facts; by passage, each once.

        Args:
            slots: The slots of `named`, all below `size`.
        """
        count = len(self.rows)
        keys = distinct(self.rows * size + slots[:count])
        fact_rows, inner = distinct_facts(self.fact_rows, slots[count:].reshape(-1, 2), size)
        return counted(keys // size, len(self.ids)), keys % size, counted(fact_rows, len(self.ids)), inner


def _solved(system: Any, right: Weights, inverse: Weights) -> Weights:
    """Solve by conjugate gradients, preconditioned by the diagonal (`inverse`; zero for rows without an equation)."""
    solved = np.zeros_like(right)
    step = inverse * right
    error = first = _dot(right, step)
    residual, scaled = right.copy(), np.empty_like(right)
    for _ in range(_ROUNDS):
        if error <= _TOLERANCE**2 * first:
            break
        image = system(step)
        length = error / _dot(step, image)
        solved += np.multiply(length, step, out=scaled)
        residual -= np.multiply(length, image, out=image)
        np.multiply(inverse, residual, out=scaled)
        before, error = error, _dot(residual, scaled)
        step *= error / before
        step += scaled
    return solved


def _gathered(places: NDArray[Any], weights: Weights, size: int) -> Weights:
    """Return the sum of the weights at each place; always floats, unlike `np.bincount` for empty input."""
    sums: Weights = np.bincount(places, weights, size).astype(np.float64, copy=False)
    return sums


def _dot(one: Weights, other: Weights) -> float:
    """Return the dot product; `@` would wake the threads of a BLAS library, which costs more than it saves here."""
    return float(np.einsum("i,i", one, other))


def _ids(values: ArrayLike) -> Ids:
    """Check ids and return them as an array (n,)."""
    ids = np.asarray(values)
    if ids.ndim != 1 or (ids.size and ids.dtype.kind not in "iu"):
        raise InvalidInputError("A network takes ids as a flat list of whole numbers.")
    return ids.astype(np.int64)


def _pairs(values: ArrayLike) -> Ids:
    """Check pairs of ids and return them as an array (n, 2)."""
    pairs = np.asarray(values)
    if not pairs.size:
        return np.empty((0, 2), dtype=np.int64)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
        raise InvalidInputError("A network takes pairs of entities as pairs of whole numbers, shape (n, 2).")
    return pairs.astype(np.int64)


def _weights(values: ArrayLike, count: int) -> Weights:
    weights = np.asarray(values, dtype=np.float64)
    if weights.shape != (count,) or not (np.isfinite(weights).all() and (weights > 0.0).all()):
        raise InvalidInputError(f"{count} pairs of synonyms take as many weights, all finite and above zero.")
    return weights


def _starts(values: ArrayLike, rows: int, size: int, what: str) -> Ids:
    starts = _ids(values)
    if len(starts) != rows + 1 or starts[0] != 0 or starts[-1] != size or (np.diff(starts) < 0).any():
        raise InvalidInputError(
            f"The starts of the {what} of {rows} passages have to be {rows + 1} numbers that go up from 0 to {size}."
        )
    return starts


def _numbered(entities: Ids, ids: Ids) -> Ids:
    """Return the slots of ids, all of which are in `entities`, ascending."""
    return np.searchsorted(entities, ids) + 1
