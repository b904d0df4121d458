"""Entities by their names: synonyms of new entities, and the entities that a query names."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from epic_graph.pagerank import Network
from epic_memory.types import FloatArray
from epic_memory.types.weights import StageWeights

MOST_SYNONYMS = 4
"""Most synonyms that an entity gets when it is added."""
_AT_ONCE = 128
_ROOM = 1.25
_DEAD_SHARE = 0.2
_NUMBER = re.compile(r"\d+")

Near: TypeAlias = list[tuple[int, float]]
"""Places and cosines, the most similar first."""


@dataclass(frozen=True, kw_only=True)
class EntityWeights(StageWeights):
    """Bounds from which names of entities count as alike."""

    alike: float  # cosine from which a name of a query that the graph does not know is taken for one that it knows


class NameFeatures(NamedTuple):
    """Features of n names that synonymy compares.

    Attributes:
        vectors: E(name), shape `(n, d)`.
        numbers: Hashes, shape `(n,)`; equal if the names contain the same numbers.
    """

    vectors: FloatArray
    numbers: NDArray[np.int64]

    def at(self, places: slice | NDArray[np.intp]) -> NameFeatures:
        """Return the features at some places."""
        return NameFeatures(self.vectors[places], self.numbers[places])


def name_features(keys: Sequence[str], vectors: FloatArray) -> NameFeatures:
    """Return the features of names with these keys and embeddings."""
    return NameFeatures(vectors, np.array([hash(tuple(_NUMBER.findall(key))) for key in keys], dtype=np.int64))


class Names:
    """Entities with their names, keys and embeddings.

    A removed entity leaves its place behind: no key, and a zero vector, which resembles nothing.

    Attributes:
        row_of: Key to row.
        name_of: Row to name.
        keys: The keys by place.
    """

    def __init__(self, dimension: int) -> None:
        self.row_of: dict[str, int] = {}
        self.name_of: dict[int, str] = {}
        self.keys: list[str] = []
        self._place_of: dict[int, int] = {}
        # With spare room at the end.
        self._rows: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self._features = name_features([], np.empty((0, dimension), dtype=np.float32))

    def __len__(self) -> int:
        return len(self.name_of)

    @property
    def rows(self) -> NDArray[np.int64]:
        """The rows by place, shape `(n,)`."""
        return self._rows[: len(self.keys)]

    @property
    def features(self) -> NameFeatures:
        """The features of the names by place."""
        return self._features.at(slice(len(self.keys)))

    def add(self, rows: Sequence[int], names: Sequence[str], keys: Sequence[str], vectors: FloatArray) -> None:
        """Add new entities."""
        size, end = len(self.keys), len(self.keys) + len(rows)
        if end > len(self._rows):
            room = int(_ROOM * end) + 16 - size
            self._rows = _longer(self.rows, room)
            self._features = NameFeatures(*(_longer(column, room) for column in self.features))
        self._rows[size:end] = rows
        self._features.vectors[size:end], self._features.numbers[size:end] = name_features(keys, vectors)
        self.keys += keys
        self.row_of.update(zip(keys, rows, strict=True))
        self.name_of.update(zip(rows, names, strict=True))
        self._place_of.update(zip(rows, range(size, end), strict=True))

    def remove(self, rows: Collection[int]) -> None:
        """Remove entities, which have to be present."""
        for row in rows:
            place = self._place_of.pop(row)
            del self.row_of[self.keys[place]], self.name_of[row]
            self.keys[place], self._rows[place], self._features.vectors[place] = "", -1, 0.0
        if len(self.keys) - len(self) > _DEAD_SHARE * len(self.keys) + 16:
            kept = np.flatnonzero(self.rows >= 0)
            self.keys = [self.keys[place] for place in kept.tolist()]
            self._rows, self._features = self._rows[kept], self._features.at(kept)
            self._place_of = {row: place for place, row in enumerate(self._rows.tolist())}


def synonyms(earlier: NameFeatures, new: NameFeatures, least: float) -> list[Near]:
    """Return, for each new entity, the entities before it with a similar name, at most `MOST_SYNONYMS`.

    Two names that differ in a number are no synonyms, however similar they are.

    Args:
        earlier: The m entities that exist already.
        least: The cosine from which two names are synonyms, in (0, 1].

    Returns:
        Places of synonyms: from 0 on among the earlier entities, from m on among the new ones. A cosine is a multiple
        of 1/255, as it is stored.
    """
    found: list[Near] = []
    for start in range(0, len(new.vectors), _AT_ONCE):
        block = new.at(slice(start, start + _AT_ONCE))
        end = start + len(block.vectors)
        ones, places, cosines = _similar(block, earlier, least)
        inner, among, inner_cosines = _similar(block, new.at(slice(end)), least)
        before = among < start + inner
        ones = np.concatenate([ones, inner[before]])
        places = np.concatenate([places, len(earlier.vectors) + among[before]])
        cosines = np.concatenate([cosines, inner_cosines[before]])
        levels = np.minimum(255, np.rint(255 * cosines.astype(np.float64))) / 255
        order = np.lexsort((places, -cosines, ones))
        bounds = np.searchsorted(ones[order], np.arange(end - start + 1))
        for first, last in pairwise(bounds.tolist()):
            best = order[first:last][:MOST_SYNONYMS]
            found.append(list(zip(places[best].tolist(), levels[best].tolist(), strict=True)))
    return found


def _similar(
    block: NameFeatures, there: NameFeatures, least: float
) -> tuple[NDArray[np.intp], NDArray[np.intp], FloatArray]:
    """Return the places of pairs with similar names, and their cosines."""
    cosines = (there.vectors @ block.vectors.T).ravel()
    pairs = np.flatnonzero(cosines >= np.float32(least))
    others, ones = np.divmod(pairs, len(block.vectors))
    same = block.numbers[ones] == there.numbers[others]
    return ones[same], others[same], cosines[pairs[same]]


def entity_seeds(
    names: Names, network: Network, keys: Iterable[str], vectors: Mapping[str, FloatArray]
) -> dict[int, float]:
    """Return entity row to weight, for the entities at which the walk of a query starts.

    A name that the graph knows counts in full; any other name stands for the most similar entity, from a cosine of 0.6.
    An entity that many passages mention says little about which of them is meant: its weight is divided by their
    number.

    Args:
        keys: Keys of the names in the query.
        vectors: Embeddings of the names that the graph does not know, by key.
    """
    known = {key: names.row_of.get(key) for key in keys}
    weights = dict.fromkeys((row for row in known.values() if row is not None), 1.0)
    others = [key for key, row in known.items() if row is None and key in vectors]
    if others and len(names):
        cosines = names.features.vectors @ np.stack([vectors[key] for key in others], axis=1)
        places = cosines.argmax(axis=0)
        for row, cosine in zip(names.rows[places].tolist(), cosines.max(axis=0).tolist(), strict=True):
            if cosine >= EntityWeights.shipped().alike:
                weights[row] = max(min(1.0, cosine), weights.get(row, 0.0))
    counts = network.mentions(weights)
    return {row: weight / max(1, count) for (row, weight), count in zip(weights.items(), counts, strict=True)}


def _longer(column: NDArray[Any], room: int) -> Any:
    """Return an array with spare room at its end."""
    return np.concatenate([column, np.empty((room, *column.shape[1:]), dtype=column.dtype)])
