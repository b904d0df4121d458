"""Approximate index of a large table of vectors: FAISS's product quantizer finds what may be near, in a few bits.

Two components of a vector become four bits, in the layout that FAISS compares by table look-ups of the processor's
registers (`IndexPQFastScan`). It is trained in a second and no random access is made, which is why it stands here and
neither IVF nor HNSW (docs/scale.md has the figures). Exact cosines decide among what it finds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epic_memory.types import FloatArray

LEAST_ROWS = 50_000
"""Number of vectors from which on a table has such an index."""
LEAST_RECALL = 0.98
# How many vectors are looked at exactly: the first number with which the recall suffices.
_LOOKED_AT = (1_000, 2_000, 4_000, 8_000)
_TRAINED_ON = 16_384
_TRIED, _NEAREST = 64, 10
# Share of the vectors that may change before the index is made again.
_CHANGED = 0.05


@contextmanager
def one_thread() -> Iterator[None]:
    """Make FAISS use one thread: it spreads queries, not rows, over threads, and on a busy machine they are waited for.

    The setting belongs to the calling thread, and is restored.
    """
    import faiss

    threads = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(threads)


class ApproximateIndex:
    """An index of the first vectors of a table, by their places; vectors that change later are looked at exactly.

    Args:
        vectors: Unit vectors, shape `(n, d)`.

    Attributes:
        recall: Share of the nearest vectors that it found in a trial: queries between two vectors of the table, which
            are about as far from the nearest ones as questions are.
        looked_at: How many vectors it returns; 0 if no number was enough.
    """

    def __init__(self, vectors: FloatArray) -> None:
        import faiss

        count, dimension = vectors.shape
        self._indexed: int = count
        self._changed: set[int] = set()
        chance = np.random.default_rng(0)
        parts = dimension // 2 if dimension % 2 == 0 else dimension
        self._index: Any = faiss.IndexPQFastScan(dimension, parts, 4, faiss.METRIC_INNER_PRODUCT)
        with one_thread():
            self._index.train(vectors[np.sort(chance.choice(count, min(count, _TRAINED_ON), replace=False))])
            self._index.add(vectors)
        pairs = chance.integers(count, size=(2, _TRIED))
        tried = vectors[pairs[0]] + vectors[pairs[1]]
        nearest = [np.argpartition(-(vectors @ one), _NEAREST)[:_NEAREST] for one in tried]
        for self.looked_at in _LOOKED_AT:
            found = [np.isin(near, self.near(one)).mean() for near, one in zip(nearest, tried, strict=True)]
            self.recall = float(np.mean(found))
            if self.recall >= LEAST_RECALL:
                return
        self.looked_at = 0

    def change(self, places: Iterable[int]) -> None:
        """Take note of places whose vectors are other ones now."""
        self._changed.update(place for place in places if place < self._indexed)

    def is_outdated(self, count: int) -> bool:
        """Tell whether so much has changed, in a table of so many vectors now, that it should be made again."""
        changed = len(self._changed) + abs(count - self._indexed)
        return changed > _CHANGED * self._indexed

    def near(self, vector: FloatArray, count: int | None = None) -> NDArray[np.intp]:
        """Return the places of the vectors that may be the nearest, of the first `count`, ascending."""
        count = self._indexed if count is None else count
        with one_thread():
            found = self._index.search(vector.reshape(1, -1), self.looked_at)[1][0]
        places = np.union1d(found[found >= 0], np.fromiter(self._changed, dtype=np.int64))
        places = np.concatenate([places[places < count], np.arange(self._indexed, count)])
        return places.astype(np.intp)
