"""Synonymy: entities that are called much alike, by the embeddings of their names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from epic_core.types import FloatArray

MOST = 4
"""Synonyms that one entity gets when it is added."""
_AT_ONCE = 128
_HEAD = 96
# A product of two heads may come out this much too small.
_INEXACT = 1e-4
# Of all pairs: with more that may be alike, all at once are faster than one by one, and take less room.
_MANY = 1 / 128
_NUMBER = re.compile(r"\d+")

Near: TypeAlias = list[tuple[int, float]]
"""Places and cosines, most alike first."""


class Called(NamedTuple):
    """How n entities are called.

    Attributes:
        vectors: E(name), shape `(n, d)`.
        heads: The first components of these, and the length of all others: `(n, h)`. The product of two heads is at
            least that of the vectors (Cauchy and Schwarz), so that hardly any pair has to be looked at in full.
        numbers: `(n,)`; equal where the same numbers are in the names.
    """

    vectors: FloatArray
    heads: FloatArray
    numbers: NDArray[np.int64]

    def at(self, places: slice | NDArray[np.intp]) -> Called:
        """Those of some places."""
        return Called(self.vectors[places], self.heads[places], self.numbers[places])


def called(keys: Sequence[str], vectors: FloatArray) -> Called:
    """As entities with these keys and embeddings are called."""
    rest = np.linalg.norm(vectors[:, _HEAD:], axis=1, keepdims=True)
    return Called(
        vectors=vectors,
        heads=np.concatenate([vectors[:, :_HEAD], rest], axis=1),
        numbers=np.array([hash(tuple(_NUMBER.findall(key))) for key in keys], dtype=np.int64),
    )


def synonyms(earlier: Called, new: Called, least: float) -> list[Near]:
    """For each new entity, those before it that are called much alike.

    Two names that differ in a number are no synonyms, however alike they are.

    Args:
        earlier: The m entities that are there.
        least: The cosine from which on two are synonyms, in (0, 1].

    Returns:
        Places of synonyms: from 0 on among the earlier ones, from m on among the new ones. A cosine is a multiple of
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
    """Places of two entities that are called alike, with the cosine."""
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
