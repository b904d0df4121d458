"""Growing arrays, the slots of ids in them, and rows of different lengths stored one after the other."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

Ids: TypeAlias = NDArray[np.int64]
Weights: TypeAlias = NDArray[np.float64]

_ROOM = 1.2


class Column:
    """An array that grows at its end, with some spare room there."""

    def __init__(self, values: NDArray[Any]) -> None:
        self._held = values
        self._size = len(values)

    def __len__(self) -> int:
        return self._size

    @property
    def values(self) -> NDArray[Any]:
        """The values: a view, which is outdated once the array grows."""
        return self._held[: self._size]

    @property
    def nbytes(self) -> int:
        """Size in bytes, spare room included."""
        return self._held.nbytes

    def append(self, values: ArrayLike) -> None:
        """Append values."""
        added = np.asarray(values, dtype=self._held.dtype)
        size = self._size + len(added)
        if size > len(self._held):
            larger = np.empty(int(_ROOM * size) + 16, dtype=self._held.dtype)
            larger[: self._size] = self.values
            self._held = larger
        self._held[self._size : size] = added
        self._size = size


class Slots:
    """The slots of ids. Ids that come in ascending order, as a file's rows do, need no table."""

    def __init__(self, ids: Ids) -> None:
        self.ids = Column(ids)
        self._ascending = len(ids)
        self.others: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self.ids)

    def find(self, ids: Ids) -> Ids:
        """Return the slots of ids; -1 for an unknown id."""
        found = positions(self.ids.values[: self._ascending], ids)
        if self.others:
            keys = np.fromiter(self.others, dtype=np.int64, count=len(self.others))
            order = np.argsort(keys)
            slots = np.fromiter(self.others.values(), dtype=np.int64, count=len(keys))[order]
            place = positions(keys[order], ids)
            found = np.where(place >= 0, slots[place], found)
        return found

    def add(self, ids: Ids) -> Ids:
        """Make slots for new ids, which have to be distinct and ascending, and return them."""
        slots = np.arange(len(self), len(self) + len(ids))
        last = self.ids.values[-1] if len(self) else None
        if len(self) == self._ascending and len(ids) and (last is None or ids[0] > last):
            self._ascending += len(ids)
        else:
            self.others.update(zip(ids.tolist(), slots.tolist(), strict=True))
        self.ids.append(ids)
        return slots


def positions(held: NDArray[np.int64], wanted: Ids) -> Ids:
    """Return the position of each id among ascending ids; -1 for an id that is not there."""
    if not len(held):
        return np.full(len(wanted), -1, dtype=np.int64)
    found = np.minimum(np.searchsorted(held, wanted), len(held) - 1)
    return np.where(held[found] == wanted, found, -1)


def distinct(values: Ids) -> Ids:
    """Return the distinct values, ascending. `np.unique` hashes before it sorts, which is far slower here."""
    ascending = np.sort(values, kind="stable")
    new = np.ones(len(values), dtype=bool)
    new[1:] = ascending[1:] != ascending[:-1]
    return ascending[new]


def summed(counts: ArrayLike) -> Ids:
    """Return where rows of these lengths start, and where the last one ends."""
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def counted(rows: Ids, count: int) -> Ids:
    """Return where each row starts, given the ascending row numbers of all elements."""
    return summed(np.bincount(rows, minlength=count))


def places_of(starts: Ids, rows: Ids) -> Ids:
    """Return the positions of all elements of rows, row after row."""
    counts = starts[rows + 1] - starts[rows]
    return np.arange(counts.sum()) + np.repeat(starts[rows] - summed(counts)[:-1], counts)


def distinct_facts(rows: Ids, pairs: Ids, size: int) -> tuple[Ids, Ids]:
    """Return the distinct unordered pairs of each row, without pairs of an entity with itself; by ascending row."""
    proper = pairs[:, 0] != pairs[:, 1]
    low, high = pairs[proper].min(axis=1), pairs[proper].max(axis=1)
    # Row, entity and entity in one number could be too large for 64 bits.
    first = rows[proper] * size + low
    order = np.lexsort((high, first))
    first, high = first[order], high[order]
    new = np.ones(len(first), dtype=bool)
    new[1:] = (first[1:] != first[:-1]) | (high[1:] != high[:-1])
    rows, low = np.divmod(first[new], size)
    return rows, np.stack([low, high[new]], axis=1)


def distinct_links(pairs: Ids, weights: Weights) -> tuple[Ids, Weights]:
    """Return the distinct unordered pairs, ascending, each with its last weight; drop pairs of an id with itself."""
    proper = np.flatnonzero(pairs[:, 0] != pairs[:, 1])[::-1]
    pairs, weights = np.sort(pairs[proper], axis=1), weights[proper]
    _, first = np.unique(pairs[:, 0] * (int(pairs.max(initial=0)) + 1) + pairs[:, 1], return_index=True)
    return pairs[first], weights[first]
