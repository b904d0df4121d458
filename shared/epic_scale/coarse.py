"""Coarse filter for many people at once: one product of a block of chunks with all preferences and their phrases.

The similarity of a chunk and an expanded preference is a mean over its nearest phrases and questions, which is at most
the nearest phrase's and the nearest question's: what is above tau by this bound is compared exactly afterwards, user by
user, by the core's own filter. So nothing is lost, and no array is larger than a block.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from epic_memory.pipeline.coarse_filter import broken_in
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
        expanded = [number for number, one in enumerate(people.expanded) if len(one.phrases)]
        plain = [number for number, one in enumerate(people.expanded) if not len(one.phrases)]
        if not people.expanded:
            plain = list(range(len(people.preferences)))
        # Those with phrases stand together, so that a block is worked on in place.
        self._order = np.array(plain + expanded, dtype=np.intp)
        self._plain = len(plain)
        phrases = _Groups([people.expanded[number].phrases for number in expanded])
        questions = _Groups([people.expanded[number].questions for number in expanded])
        self._groups = (phrases, questions)
        parts = [people.vectors[self._order[: self._plain]], phrases.vectors, questions.vectors]
        self._vectors = np.ascontiguousarray(np.concatenate([part for part in parts if len(part)]), dtype=np.float32)
        self._taus = people.taus[self._order] - np.float32(_ROUNDING)
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
        size = max(1, _BLOCK // len(self._vectors))
        phrases, questions = self._groups
        for start in range(0, len(embeddings), size):
            # A row for each vector: the rows of a group lie together, and are compared at the speed of memory.
            near = self._vectors @ embeddings[start : start + size].T
            found = [_at_least(near[: self._plain], self._taus[: self._plain], 0)]
            if phrases.count:
                between = self._plain + len(phrases.vectors)
                bound = phrases.highest(near[self._plain : between])
                bound += questions.highest(near[between:])
                found.append(_at_least(bound, 2.0 * self._taus[self._plain :], self._plain))
            places, rows = (np.concatenate(parts) for parts in zip(*found, strict=True))
            yield rows + start, self._order[places]

    def pairs(self, texts: Sequence[str], embeddings: FloatArray) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Return the pairs of a chunk and a user that may pass: rows and places of users, by user, each pair once."""
        held, count = self._people.holders, len(embeddings)
        if not count or not held:
            return np.empty(0, dtype=np.intp), np.empty(0, dtype=np.intp)
        rows, preferences = (np.concatenate(parts) for parts in zip(*self.passing(embeddings), strict=True))
        if self._own:
            named = broken_in(texts, [self._people.preferences[place] for place in self._own])
            if named is not None:
                more, columns = np.nonzero(named)
                rows = np.concatenate([rows, more])
                preferences = np.concatenate([preferences, np.array(self._own, dtype=np.intp)[columns]])
        if not len(rows):
            return rows, preferences
        users = [held[place] for place in preferences]
        keys = np.unique(np.concatenate(users) * count + np.repeat(rows, [len(each) for each in users]))
        return keys % count, keys // count


def _at_least(near: FloatArray, taus: FloatArray, first: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return where rows of numbers are not below their thresholds: rows, counted from `first`, and columns."""
    rows, columns = np.divmod(np.flatnonzero(near >= taus[:, None]), max(1, near.shape[1]))
    return rows + first, columns


class _Groups:
    """Vectors in groups, of which equal ones are there once.

    Args:
        parts: The vectors of each group, shape `(n, d)`, n >= 1; equal ones are the same object.
    """

    def __init__(self, parts: Sequence[FloatArray]) -> None:
        groups = list({id(part): part for part in parts}.values())
        places = {id(part): place for place, part in enumerate(groups)}
        self.count = len(groups)
        self.vectors = np.concatenate(groups) if groups else np.empty((0, 1), dtype=np.float32)
        self._ends = np.cumsum([len(part) for part in groups]).tolist()
        self._place = np.array([places[id(part)] for part in parts], dtype=np.intp)

    def highest(self, near: FloatArray) -> FloatArray:
        """Return the highest of each group's rows, shape `(groups as they were given, n)`."""
        highest = np.empty((self.count, near.shape[1]), dtype=np.float32)
        for place, (start, end) in enumerate(zip([0, *self._ends], self._ends, strict=False)):
            np.max(near[start:end], axis=0, out=highest[place])
        taken: FloatArray = highest[self._place]
        return taken
