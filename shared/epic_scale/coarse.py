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
        for start in range(0, len(embeddings), size):
            near = embeddings[start : start + size] @ self._vectors.T
            rows, columns = np.nonzero(near[:, : self._plain] >= self._taus[: self._plain])
            found = [(rows, columns)]
            first, (phrases, questions) = self._plain, self._groups
            if phrases.groups:
                between = first + len(phrases.vectors)
                bound = phrases.highest(near[:, first:between])
                bound += questions.highest(near[:, between:])
                rows, columns = np.nonzero(bound >= 2.0 * self._taus[first:])
                found.append((rows, columns + first))
            yield (
                np.concatenate([rows for rows, _ in found]) + start,
                self._order[np.concatenate([columns for _, columns in found])],
            )

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


class _Groups:
    """Vectors in groups, of which equal ones are there once.

    Args:
        parts: The vectors of each group, shape `(n, d)`, n >= 1.
    """

    def __init__(self, parts: Sequence[FloatArray]) -> None:
        groups: dict[int, FloatArray] = {id(part): part for part in parts}
        places = {key: place for place, key in enumerate(groups)}
        self.groups = len(groups)
        self.vectors = np.concatenate(list(groups.values())) if groups else np.empty((0, 1), dtype=np.float32)
        sizes = [len(part) for part in groups.values()]
        self._starts = np.cumsum([0, *sizes[:-1]]) if groups else np.empty(0, dtype=np.intp)
        self._place = np.array([places[id(part)] for part in parts], dtype=np.intp)
        self._single = all(size == 1 for size in sizes)

    def highest(self, near: FloatArray) -> FloatArray:
        """Return the highest cosine of each group, shape `(n, groups as they were given)`."""
        highest: FloatArray = near if self._single else np.maximum.reduceat(near, self._starts, axis=1)
        if self.groups == len(self._place):
            return highest.copy() if self._single else highest
        taken: FloatArray = highest[:, self._place]
        return taken
