"""Vector table: vectors in one block of RAM under row ids, for the cosines of all of them with a query at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from epic_core.types import FloatArray

_LEAST = 64
# The number of rows is padded to a multiple of this, so that a product computes all rows in the same way.
_ROWS = 16


class VectorTable:
    """Unit vectors under int64 row ids.

    Unlike an index it returns the cosines of every row, for searches that combine several scores. The last row replaces
    a removed one, so that the block has no gaps.

    Args:
        dimension: Length d of a vector.
    """

    def __init__(self, dimension: int) -> None:
        self.dimension = dimension
        self._vectors: FloatArray = np.empty((0, dimension), dtype=np.float32)
        self._rows: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self._place: dict[int, int] = {}
        self._order: NDArray[np.intp] | None = None

    def __len__(self) -> int:
        return len(self._place)

    def __contains__(self, row: int) -> bool:
        return row in self._place

    @property
    def rows(self) -> NDArray[np.int64]:
        """The row ids in the order of `vectors`, shape `(n,)`."""
        return self._rows[: len(self)]

    @property
    def vectors(self) -> FloatArray:
        """The vectors, shape `(n, d)`; a view that the next change may overwrite."""
        return self._vectors[: len(self)]

    def cosines(self, vector: FloatArray) -> FloatArray:
        """Return the cosine of each row with a unit vector, shape `(n,)`, to the bit the same at any place."""
        whole = -(-len(self) // _ROWS) * _ROWS
        cosines: FloatArray = (self._vectors[:whole] @ vector)[: len(self)]
        return cosines

    def add(self, rows: Sequence[int], vectors: FloatArray) -> None:
        """Add vectors `(n, d)` under n row ids, in place of the vectors of rows that exist already."""
        self._order = None
        needed = len(self) + len(rows)
        if needed > len(self._vectors):
            size = -(-max(_LEAST, needed, 2 * len(self._vectors)) // _ROWS) * _ROWS
            self._vectors = np.concatenate([self.vectors, np.zeros((size - len(self), self.dimension), np.float32)])
            self._rows = np.concatenate([self.rows, np.empty(size - len(self), np.int64)])
        places = [self._place.setdefault(row, len(self._place)) for row in rows]
        self._vectors[places] = vectors
        self._rows[places] = rows

    def remove(self, rows: Sequence[int]) -> None:
        """Remove rows; unknown rows are ignored."""
        self._order = None
        for row in rows:
            place = self._place.pop(row, None)
            last = len(self._place)
            if place is not None and place != last:
                moved = int(self._rows[last])
                self._vectors[place], self._rows[place] = self._vectors[last], moved
                self._place[moved] = place

    def place(self, row: int) -> int:
        """Return the place of a row in `vectors`, -1 if it is unknown."""
        return self._place.get(row, -1)

    def places(self, rows: Sequence[int] | NDArray[np.int64]) -> NDArray[np.intp]:
        """Return the places of rows in `vectors`, shape `(len(rows),)`, -1 for unknown rows."""
        wanted, held = np.asarray(rows, dtype=np.int64), self.rows
        if not len(held):
            return np.full(len(wanted), -1, dtype=np.intp)
        if self._order is None:
            self._order = np.argsort(held)
        places = self._order.take(np.searchsorted(held, wanted, sorter=self._order), mode="clip")
        return np.where(held[places] == wanted, places, -1)
