"""Vectors in RAM under row ids: the instruction-centric index (Eq. 6) by FAISS, and a table of vectors.

A large table has an approximate index besides: FAISS's product quantizer finds what may be near, in a few bits. Two
components of a vector become four bits, in the layout that FAISS compares by table look-ups of the processor's
registers (`IndexPQFastScan`). It is trained in a second and no random access is made, which is why it stands here and
neither IVF nor HNSW (docs/scale.md has the figures). Exact cosines decide among what it finds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epic_memory.errors import InvalidInputError
from epic_memory.types import FloatArray

_LARGE = 10_000
_FIRST = 0.6
_SPARE = 4
_MANY = 30_000
# The number of rows is padded to a multiple of this, so that a product computes all rows in the same way.
_ROWS = 16
PAYS_AFTER = 300
"""Number of searches of a large table after which its approximate index is made: by then it would have paid."""
# An approximate index finds the k nearest if it looks at so many times as many.
_LOOKED_AT_FOR_ONE = 10

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


class EntryIndex:
    """Unit vectors under int64 row ids, each of which the caller uses only once.

    Each row also has a penalty. It is stored as one more component, so that the inner product with a query extended by
    -1 is the cosine minus the penalty, and the k best by that are found exactly.

    Args:
        dimension: Length d of a vector.
    """

    def __init__(self, dimension: int) -> None:
        import faiss

        self._faiss: Any = faiss
        self._index: Any = faiss.IndexIDMap2(faiss.IndexFlatIP(dimension + 1))
        self.dimension = dimension

    def __len__(self) -> int:
        return int(self._index.ntotal)

    def add(
        self,
        rows: Sequence[int] | NDArray[np.int64],
        vectors: FloatArray,
        penalties: Sequence[float] | FloatArray | None = None,
    ) -> None:
        """Add vectors `(n, d)` under `n` new row ids, with `n` penalties (default: none).

        Raises:
            InvalidInputError: for shapes that do not fit or vectors that are not finite.
        """
        ids = np.ascontiguousarray(rows, dtype=np.int64)
        if vectors.shape != (len(ids), self.dimension):
            raise InvalidInputError(f"The index takes ({len(ids)}, {self.dimension}) vectors, not {vectors.shape}.")
        if not np.isfinite(vectors).all():
            raise InvalidInputError("The index takes finite vectors only.")
        if len(ids):
            extended = np.zeros((len(ids), self.dimension + 1), dtype=np.float32)
            extended[:, :-1] = vectors
            if penalties is not None:
                extended[:, -1] = penalties
            # A large index is filled in two steps so that it has spare room from the start; otherwise the next addition
            # would wait for it to grow.
            first = int(_FIRST * len(ids)) if len(self) == 0 and len(ids) > _LARGE else 0
            for part in (slice(0, first), slice(first, None)) if first else (slice(None),):
                self._index.add_with_ids(extended[part], ids[part])

    def remove(self, rows: Sequence[int] | NDArray[np.int64]) -> None:
        """Remove rows; unknown rows are ignored."""
        ids = np.ascontiguousarray(rows, dtype=np.int64)
        if len(ids):
            self._index.remove_ids(self._faiss.IDSelectorBatch(ids))

    def vector(self, row: int) -> FloatArray:
        """Return the vector of a row, shape `(d,)`; an unknown row is FAISS's RuntimeError."""
        found: FloatArray = self._index.reconstruct(row)[:-1]
        return found

    def search(
        self, vector: FloatArray, k: int, *, allowed: NDArray[np.int64] | None = None, penalised: bool = False
    ) -> tuple[NDArray[np.int64], FloatArray]:
        """Return the k best rows and their scores, best first; fewer if the index holds fewer.

        Args:
            vector: A unit vector, shape `(d,)`.
            k: At least one.
            allowed: Rows that may be found; the restriction is part of the search, so there are still k results.
            penalised: Score by cosine minus penalty; else by cosine.
        """
        size = len(self) if allowed is None else len(allowed)
        k = min(k, size)
        if k < 1:
            return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.float32)
        query = np.empty((1, self.dimension + 1), dtype=np.float32)
        query[0, :-1] = vector
        query[0, -1] = -1.0 if penalised else 0.0
        selector = (
            None if allowed is None else self._faiss.IDSelectorBatch(np.ascontiguousarray(allowed, dtype=np.int64))
        )
        parameters = None if selector is None else self._faiss.SearchParameters(sel=selector)
        with one_thread():
            scores, rows = self._index.search(query, k, params=parameters)
        found = rows[0] >= 0
        # In float32 the cosine of a vector with itself can be a little more than one.
        return rows[0][found], np.clip(scores[0][found], None if penalised else -1.0, 1.0)


class VectorTable:
    """Unit vectors under int64 row ids.

    Unlike an index it returns the cosines of every row, for searches that combine several scores. The last row replaces
    a removed one, so that the block has no gaps.

    Args:
        dimension: Length d of a vector.

    Attributes:
        rows: The row ids in the order of `vectors`, shape `(n,)`.
        vectors: The vectors, shape `(n, d)`; a view that the next change may overwrite.
    """

    def __init__(self, dimension: int) -> None:
        self.dimension = dimension
        self._vectors: FloatArray = np.empty((0, dimension), dtype=np.float32)
        self._rows: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self._place: dict[int, int] = {}
        self._approximate: ApproximateIndex | None = None
        self._searches = 0  # since it was made
        self._changed()

    def __len__(self) -> int:
        return len(self._place)

    def __contains__(self, row: int) -> bool:
        return row in self._place

    def _changed(self) -> None:
        self.rows, self.vectors = self._rows[: len(self._place)], self._vectors[: len(self._place)]
        self._order: NDArray[np.intp] | None = None

    def cosines(self, vector: FloatArray) -> FloatArray:
        """Return the cosine of each row with a unit vector, shape `(n,)`, to the bit the same at any place."""
        if len(self) > _MANY:
            whole = -(-len(self) // _ROWS) * _ROWS
            cosines: FloatArray = (self._vectors[:whole] @ vector)[: len(self)]
        else:  # in this thread: on a busy machine a second one is waited for longer than the product takes
            cosines = np.einsum("ij,j->i", self.vectors, vector)
        return cosines

    def near(
        self, vector: FloatArray, k: int | None, also: Collection[int] = ()
    ) -> tuple[NDArray[np.intp] | None, FloatArray]:
        """Return the places that may hold the k nearest to a unit vector, ascending, and the cosines there.

        None for all places: if the table is not large, no k is given, few searches were asked yet, or an approximate
        index has not the recall.

        Args:
            vector: Shape `(d,)`.
            k: How many are wanted; None for all.
            also: Rows whose places are returned in any case.
        """
        if k is None or len(self) < LEAST_ROWS:
            return None, self.cosines(vector)
        self._searches += 1
        index = self._approximate
        if self._searches > PAYS_AFTER and (index is None or index.is_outdated(len(self))):
            index, self._searches = ApproximateIndex(self.vectors), 0
            self._approximate = index
        if index is None or k * _LOOKED_AT_FOR_ONE > index.looked_at:
            return None, self.cosines(vector)
        places = np.union1d(index.near(vector, len(self)), self.places(list(also)))
        return places, np.einsum("ij,j->i", self.vectors[places], vector)

    def described(self) -> str:
        """Return by which index the vectors are searched, and how many there are."""
        index = self._approximate if len(self) >= LEAST_ROWS else None
        how = f"approximate with recall {index.recall:.3f}" if index is not None and index.looked_at else "exact"
        return f"{how}, {len(self):,} vectors"

    def add(self, rows: Sequence[int], vectors: FloatArray) -> None:
        """Add vectors `(n, d)` under n row ids, in place of the vectors of rows that exist already."""
        held = len(self._place)
        needed = held + len(rows)
        if needed > len(self._vectors):
            # With room from the start: otherwise the first addition to a large table would wait for a copy.
            size = -(-(needed + needed // _SPARE) // _ROWS) * _ROWS
            grown, rows_grown = np.zeros((size, self.dimension), np.float32), np.zeros(size, np.int64)
            grown[:held], rows_grown[:held] = self.vectors, self.rows
            self._vectors, self._rows = grown, rows_grown
        if self._place.keys().isdisjoint(rows):
            places: slice | list[int] = slice(held, needed)
            self._place.update(zip(rows, range(held, needed), strict=True))
        else:
            places = [self._place.setdefault(row, len(self._place)) for row in rows]
        if self._approximate is not None:
            self._approximate.change(range(needed - len(rows), needed) if isinstance(places, slice) else places)
        self._vectors[places] = vectors
        self._rows[places] = rows
        self._changed()

    def remove(self, rows: Sequence[int]) -> None:
        """Remove rows; unknown rows are ignored."""
        for row in rows:
            place = self._place.pop(row, None)
            last = len(self._place)
            if place is not None and place != last:
                moved = int(self._rows[last])
                self._vectors[place], self._rows[place] = self._vectors[last], moved
                self._place[moved] = place
                if self._approximate is not None:
                    self._approximate.change([place])
        self._changed()

    def vector(self, row: int) -> FloatArray:
        """Return the vector of a row, shape `(d,)`."""
        vector: FloatArray = self._vectors[self._place[row]].copy()
        return vector

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
