"""The instruction-centric index (Eq. 6): FAISS IndexIDMap2(IndexFlatIP) behind stable row ids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epic_core.errors import InvalidInputError
from epic_core.types import FloatArray


class EntryIndex:
    """Unit vectors under int64 row ids that the caller hands out once and never again.

    Args:
        dimension: Length d of a vector.
    """

    def __init__(self, dimension: int) -> None:
        import faiss

        self._faiss: Any = faiss
        self._index: Any = faiss.IndexIDMap2(faiss.IndexFlatIP(dimension))
        self.dimension = dimension

    def __len__(self) -> int:
        return int(self._index.ntotal)

    def add(self, rows: Sequence[int] | NDArray[np.int64], vectors: FloatArray) -> None:
        """Add vectors `(n, d)` under `n` new row ids.

        Raises:
            InvalidInputError: for shapes that do not fit or vectors that are not finite.
        """
        ids = np.ascontiguousarray(rows, dtype=np.int64)
        if vectors.shape != (len(ids), self.dimension):
            raise InvalidInputError(f"The index takes ({len(ids)}, {self.dimension}) vectors, not {vectors.shape}.")
        if not np.isfinite(vectors).all():
            raise InvalidInputError("The index takes finite vectors only.")
        if len(ids):
            self._index.add_with_ids(np.ascontiguousarray(vectors, dtype=np.float32), ids)

    def remove(self, rows: Sequence[int] | NDArray[np.int64]) -> None:
        """Remove rows; those that are not there are ignored."""
        ids = np.ascontiguousarray(rows, dtype=np.int64)
        if len(ids):
            self._index.remove_ids(self._faiss.IDSelectorBatch(ids))

    def search(
        self, vector: FloatArray, k: int, *, allowed: NDArray[np.int64] | None = None
    ) -> tuple[NDArray[np.int64], FloatArray]:
        """The k nearest rows and their cosines, best first; fewer where the index holds fewer.

        Args:
            vector: A unit vector, shape `(d,)`.
            k: At least one.
            allowed: Rows that may be found; the restriction is part of the search, so k stays k.
        """
        size = len(self) if allowed is None else len(allowed)
        k = min(k, size)
        if k < 1:
            return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.float32)
        query = np.ascontiguousarray(vector, dtype=np.float32).reshape(1, -1)
        if allowed is None:
            scores, rows = self._index.search(query, k)
        else:
            selector = self._faiss.IDSelectorBatch(np.ascontiguousarray(allowed, dtype=np.int64))
            scores, rows = self._index.search(query, k, params=self._faiss.SearchParameters(sel=selector))
        found = rows[0] >= 0
        return rows[0][found], scores[0][found]
