"""Synonymy: entities with similar names, by the embeddings of the names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from epic_core.types import FloatArray

MOST = 4
"""How many synonyms an entity gets at most when it is added."""
_AT_ONCE = 128
_HEAD = 96
# By rounding, a product of two heads may be this much too small.
_INEXACT = 1e-4
# Share of all pairs: with more candidates, one matrix product is faster than single products, and takes less memory.
_MANY = 1 / 128
_NUMBER = re.compile(r"\d+")

Near: TypeAlias = list[tuple[int, float]]
"""Places and cosines, the most similar first."""


class Called(NamedTuple):
    """Features of the names of n entities.

    Attributes:
        vectors: E(name), shape `(n, d)`.
        heads: The first components of the vectors, and the length of the rest: `(n, h)`. The product of two heads is at
            least that of the vectors (Cauchy-Schwarz), so that hardly any pair has to be computed in full.
        numbers: Hashes, shape `(n,)`; equal if the names contain the same numbers.
    """

    vectors: FloatArray
    heads: FloatArray
    numbers: NDArray[np.int64]

    def at(self, places: slice | NDArray[np.intp]) -> Called:
        """Return the features at some places."""
        return Called(self.vectors[places], self.heads[places], self.numbers[places])


def called(keys: Sequence[str], vectors: FloatArray) -> Called:
    """Return the features of names with these keys and embeddings."""
    rest = np.linalg.norm(vectors[:, _HEAD:], axis=1, keepdims=True)
    return Called(
        vectors=vectors,
        heads=np.concatenate([vectors[:, :_HEAD], rest], axis=1),
        numbers=np.array([hash(tuple(_NUMBER.findall(key))) for key in keys], dtype=np.int64),
    )


def synonyms(earlier: Called, new: Called, least: float) -> list[Near]:
    """Return, for each new entity, the entities before it with a similar name, at most `MOST`.

    Two names that differ in a number are no synonyms, however similar they are.

    Args:
        earlier: The m entities that exist already.
        least: The cosine from which two names are synonyms, in (0, 1].

    Returns:
        Places of synonyms: from 0 on among the earlier entities, from m on among the new ones. A cosine is a multiple
            of
        1/255, as it is stored.
    """
    count, size = len(earlier.vectors), len(new.vectors)
    found: list[Near] = []
    for start in range(0, size, _AT_ONCE):
        block = new.at(slice(start, start + _AT_ONCE))
        length = len(block.vectors)
        one, place, cosine = _alike(block, earlier, least)
        inner, among, like = _alike(block, new.at(slice(start + length)), least)
        before = among < start + inner
        ones = np.concatenate([one, inner[before]])
        places = np.concatenate([place, count + among[before]])
        cosines = np.concatenate([cosine, like[before]])
        order = np.lexsort((places, -cosines, ones))
        ones, places, cosines = ones[order], places[order], cosines[order]
        starts = np.searchsorted(ones, np.arange(length)).tolist()
        for first, end in zip(starts, [*starts[1:], len(ones)], strict=True):
            best = slice(first, min(end, first + MOST))
            levels = np.minimum(255, np.rint(255 * cosines[best].astype(np.float64)))
            found.append(list(zip(places[best].tolist(), (levels / 255).tolist(), strict=True)))
    return found


def _alike(block: Called, there: Called, least: float) -> tuple[NDArray[np.intp], NDArray[np.intp], FloatArray]:
    """Return the places of pairs with similar names, and their cosines."""
    bounds = there.heads @ block.heads.T
    others, ones = np.divmod(np.flatnonzero(bounds >= np.float32(least - _INEXACT)), len(block.heads))
    same = block.numbers[ones] == there.numbers[others]
    ones, others = ones[same], others[same]
    if len(ones) > _MANY * bounds.size:
        cosines = (there.vectors @ block.vectors.T).T[ones, others]
    else:
        cosines = np.einsum("nd,nd->n", block.vectors[ones], there.vectors[others])
    alike = cosines >= np.float32(least)
    return ones[alike], others[alike], cosines[alike]
