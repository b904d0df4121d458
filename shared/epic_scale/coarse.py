"""Coarse filter for many people at once: one product of a block of chunks with all preferences and their phrases.

The similarity of a chunk and an expanded preference is a mean over its nearest phrases and questions, which is at most
the nearest phrase's and the nearest question's: what is above tau by this bound is compared exactly afterwards, by the
core's own filter. So nothing is lost, and no array is larger than a block.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from epic_memory.pipeline.coarse_filter import broken_in, coarse_filter
from epic_memory.types import FloatArray
from epic_scale.people import People

# Floats of a block: 64 MB.
_BLOCK = 1 << 24
# What the product's order of summation can change.
_ROUNDING = 1e-4


class CoarseFilter:
    """The filter of some people.

    Args:
        people: The people.
    """

    def __init__(self, people: People) -> None:
        self._people = people
        expanded: dict[tuple[int, int], list[int]] = {}
        plain: list[int] = []
        for number in range(len(people.preferences)):
            one = people.expanded[number] if people.expanded else None
            if one is not None and len(one.phrases):
                expanded.setdefault((id(one.phrases), id(one.questions)), []).append(number)
            else:
                plain.append(number)
        # Preferences that share phrases and questions are compared once, by the lowest of their thresholds.
        firsts = [people.expanded[numbers[0]] for numbers in expanded.values()]
        self._groups = _Groups([one.phrases for one in firsts]), _Groups([one.questions for one in firsts])
        parts = [people.vectors[plain], *(groups.vectors for groups in self._groups)]
        self._vectors = np.ascontiguousarray(np.concatenate([part for part in parts if len(part)]), dtype=np.float32)
        taus = people.taus - np.float32(_ROUNDING)
        self._plain, self._plain_taus = np.array(plain, dtype=np.intp), taus[plain]
        self._taus = 2.0 * taus
        self._lowest = np.array([self._taus[numbers].min() for numbers in expanded.values()], dtype=np.float32)
        self._sharing = np.array([number for numbers in expanded.values() for number in numbers], dtype=np.intp)
        self._sizes = np.array([len(numbers) for numbers in expanded.values()], dtype=np.intp)
        self._own = [n for n, one in enumerate(people.preferences) if one.expansion is not None]

    @property
    def vectors(self) -> FloatArray:
        """All vectors with which chunks are compared, shape `(v, d)`."""
        return self._vectors

    def passing(self, embeddings: FloatArray) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
        """Yield the pairs of a chunk and a preference that may pass, block by block: rows, and places of preferences.

        Args:
            embeddings: E(x) of the chunks, shape `(n, d)`.
        """
        size, plain = max(1, _BLOCK // len(self._vectors)), len(self._plain)
        for start in range(0, len(embeddings), size):
            # A row for each vector: the rows of a group lie together, and are compared at the speed of memory.
            near = self._vectors @ embeddings[start : start + size].T
            places, rows = _at_least(near[:plain], self._plain_taus)
            yield rows + start, self._plain[places]
            if len(self._sizes):
                places, rows = self._passing_expanded(near[plain:])
                yield rows + start, places

    def _passing_expanded(self, near: FloatArray) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        phrases, questions = self._groups
        bound = phrases.highest(near[: len(phrases.vectors)])
        bound += questions.highest(near[len(phrases.vectors) :])
        groups, rows = _at_least(bound, self._lowest)
        counts = self._sizes[groups]
        # The places of a group's preferences in `_sharing`: from its first one on.
        firsts = (np.cumsum(self._sizes) - self._sizes)[groups] - (np.cumsum(counts) - counts)
        places = self._sharing[np.repeat(firsts, counts) + np.arange(counts.sum())]
        passes = np.repeat(bound[groups, rows], counts) >= self._taus[places]
        return places[passes], np.repeat(rows, counts)[passes]

    def pairs(self, texts: Sequence[str], embeddings: FloatArray) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Return the pairs of a chunk and a preference that pass: rows, and places of preferences, by place and row."""
        people, count = self._people, len(embeddings)
        if not count or not people.preferences:
            return np.empty(0, dtype=np.intp), np.empty(0, dtype=np.intp)
        rows, places = (np.concatenate(parts) for parts in zip(*self.passing(embeddings), strict=True))
        order = np.argsort(places, kind="stable")
        rows, places = rows[order], places[order]
        passing = [np.empty(0, dtype=np.intp)]
        for mine in np.split(np.arange(len(rows)), np.flatnonzero(np.diff(places)) + 1) if len(rows) else ():
            own = slice(places[mine[0]], places[mine[0]] + 1)
            near = embeddings[rows[mine]], people.vectors[own], people.taus[own]
            exact = coarse_filter(*near, expanded=people.expanded[own])[:, 0]
            passing.append(places[mine[exact]] * count + rows[mine[exact]])
        named = broken_in(texts, [people.preferences[place] for place in self._own]) if self._own else None
        if named is not None:
            more, columns = np.nonzero(named)
            passing.append(np.array(self._own, dtype=np.intp)[columns] * count + more)
        keys = np.unique(np.concatenate(passing))
        return keys % count, keys // count


def _at_least(near: FloatArray, taus: FloatArray) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return where rows of numbers are not below their thresholds: rows and columns."""
    rows, columns = np.divmod(np.flatnonzero(near >= taus[:, None]), max(1, near.shape[1]))
    return rows, columns


class _Groups:
    """Vectors in groups, of which equal ones are there once.

    Args:
        parts: The vectors of each group, shape `(n, d)`, n >= 1; equal ones are the same object.
    """

    def __init__(self, parts: Sequence[FloatArray]) -> None:
        groups = list({id(part): part for part in parts}.values())
        places = {id(part): place for place, part in enumerate(groups)}
        self.vectors = np.concatenate(groups) if groups else np.empty((0, 1), dtype=np.float32)
        self._ends = np.cumsum([len(part) for part in groups]).tolist()
        self._place = np.array([places[id(part)] for part in parts], dtype=np.intp)

    def highest(self, near: FloatArray) -> FloatArray:
        """Return the highest of each group's rows, shape `(groups as they were given, n)`."""
        if len(self._ends) == len(near):  # a row each
            return near[self._place]
        highest = np.empty((len(self._ends), near.shape[1]), dtype=np.float32)
        for place, (start, end) in enumerate(zip([0, *self._ends], self._ends, strict=False)):
            np.maximum.reduce(near[start:end], axis=0, out=highest[place])
        return highest[self._place]
