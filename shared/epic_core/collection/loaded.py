"""State of a collection's file in RAM: the rows of records, the vectors, and the results of filters."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from epic_core.errors import DamagedError, StoreError
from epic_core.filters import Filter
from epic_core.storage.tables.collections import CollectionTables, Record
from epic_core.storage.vector_index import EntryIndex
from epic_core.types import FloatArray, Stance
from epic_core.types.verdicts import PENALTY

Condition: TypeAlias = Filter | Callable[[Record], bool]
"""A condition on records: a filter over their metadata, or any function of a record."""
Only: TypeAlias = tuple[Condition | None, Collection[str] | None]
"""A restriction of a search: a condition, and ids."""

_FILTERS_KEPT = 64


@dataclass(frozen=True, kw_only=True)
class Match:
    """A record that a search found.

    Attributes:
        record: The record, without its keys.
        score: The score that matches are ordered by, higher is better: a cosine, in a steered search less a penalty for
            its stance.
        vector: The vector of the key that was found, shape `(d,)`.
    """

    record: Record
    score: float
    vector: FloatArray = field(repr=False, compare=False)


class LoadedCollection:
    """The state of a collection's file; a changed file needs a new one. The user has to hold a lock.

    Args:
        tables: The file, within one transaction.
        kind: The kind that its records have to be of.

    Attributes:
        row_of: Id to row of every record, in the order they were written.
        made: The encoder of the vectors, as the file remembers it; None if there has been none yet.

    Raises:
        StoreError: if the records are of another kind.
        DamagedError: for a file that is not as it was written.
    """

    def __init__(self, tables: CollectionTables, kind: str) -> None:
        self._tables = tables
        self.row_of = tables.ids()
        meta = tables.meta()
        if meta.get("kind", kind) != kind:
            raise StoreError(f"{tables.path} holds {meta['kind']}, not {kind}. Give another file name.")
        self.made: dict[str, Any] | None = meta.get("encoder")
        self._index: EntryIndex | None = None
        self._record_of: dict[int, int] = {}
        self._keys_of: dict[int, list[int]] = {}
        self._judged: dict[int, Stance] = {}
        # For the filters used last, the rows of the records that satisfy them.
        self._filtered: dict[Hashable, tuple[Filter, dict[int, None]]] = {}
        # For each metadata key that `having` was asked for, row to text.
        self._said: dict[str, dict[int, str]] = {}
        if self.made is not None:
            self._enter(*tables.keys(_dimension(tables.path, self.made)))

    @property
    def vectors(self) -> int:
        """How many vectors there are."""
        return len(self._record_of)

    @property
    def instructions(self) -> int:
        """How many of the vectors are of instructions."""
        return len(self._judged)

    @property
    def dimension(self) -> int | None:
        """The dimension of the vectors; None without any."""
        return self._index.dimension if self._index is not None and len(self._index) else None

    # committed changes

    def begin(self, made: dict[str, Any]) -> None:
        """Prepare for the first vectors of an encoder."""
        self.made, self._index = made, None

    def put(
        self,
        written: Mapping[str, int],
        said: Mapping[str, str],
        rows: Sequence[int],
        records: Sequence[int],
        stances: Sequence[Stance | None],
        vectors: FloatArray,
    ) -> None:
        """Enter records that were written.

        Args:
            written: Id to row of the records.
            said: Their metadata as JSON, by their ids.
            rows: The rows of their keys.
            records: For each key, the row of its record.
            stances: For each key, its stance; None for a text.
            vectors: The keys' vectors, shape `(n, d)`, as the file returns them.
        """
        self.drop(written)
        self.row_of.update(written)
        for record_id, row in written.items() if self._filtered or self._said else ():
            metadata = json.loads(said[record_id])
            for where, satisfying in self._filtered.values():
                if where.matches(metadata):
                    satisfying[row] = None
            for key, texts in self._said.items():
                if isinstance(metadata.get(key), str):
                    texts[row] = metadata[key]
        if rows:
            self._enter(rows, records, stances, vectors)

    def drop(self, ids: Iterable[str]) -> None:
        """Remove records that were deleted; unknown ids are ignored."""
        records = [self.row_of.pop(record_id) for record_id in ids if record_id in self.row_of]
        for _, satisfying in self._filtered.values():
            for record in records:
                satisfying.pop(record, None)
        for texts in self._said.values():
            for record in records:
                texts.pop(record, None)
        gone = [row for record in records for row in self._keys_of.pop(record, ())]
        if self._index is not None:
            self._index.remove(gone)
        for row in gone:
            del self._record_of[row]
            self._judged.pop(row, None)

    def _enter(
        self, rows: Sequence[int], records: Sequence[int], stances: Sequence[Stance | None], vectors: FloatArray
    ) -> None:
        if self._index is None:
            self._index = EntryIndex(vectors.shape[1])
        # The penalty of a text is its record's: that of the worst stance.
        worst: dict[int, float] = {}
        for record, stance in zip(records, stances, strict=True):
            worst[record] = max(worst.get(record, 0.0), 0.0 if stance is None else PENALTY[stance])
        penalties = [
            worst[record] if stance is None else PENALTY[stance]
            for record, stance in zip(records, stances, strict=True)
        ]
        self._index.add(rows, vectors, penalties)
        self._record_of.update(zip(rows, records, strict=True))
        for row, record in zip(rows, records, strict=True):
            self._keys_of.setdefault(record, []).append(row)
        self._judged.update((row, stance) for row, stance in zip(rows, stances, strict=True) if stance is not None)

    # searching

    def satisfying(self, where: Condition | None, ids: Iterable[str] | None) -> Iterable[int]:
        """Return the rows of the records that satisfy a condition, optionally among some ids."""
        rows = None if ids is None else {self.row_of[one] for one in ids if one in self.row_of}
        if where is None:
            return self.row_of.values() if rows is None else rows
        if isinstance(where, Filter):
            found = self._filtered_by(where)
            return found if rows is None else rows & found.keys()
        records = self._tables.all() if rows is None else self._tables.at(list(rows)).items()
        return [row for row, record in records if where(record)]

    def _filtered_by(self, where: Filter) -> dict[int, None]:
        """Return the rows of the records that satisfy a filter."""
        key = where.identity()
        if key in self._filtered:
            return self._filtered[key][1]
        found = dict.fromkeys(row for row, metadata in self._tables.all_metadata() if where.matches(metadata))
        if len(self._filtered) >= _FILTERS_KEPT:
            self._filtered.clear()
        if key is not None:
            self._filtered[key] = where, found
        return found

    def having(self, key: str, values: Collection[str]) -> list[str]:
        """Return the ids of the records whose metadata has one of some texts under a key."""
        if key not in self._said:
            self._said[key] = {
                row: metadata[key]
                for row, metadata in self._tables.all_metadata()
                if isinstance(metadata.get(key), str)
            }
        texts = self._said[key]
        return [record_id for record_id, row in self.row_of.items() if texts.get(row) in values]

    def nearest(self, vector: FloatArray, k: int, only: Only, *, judged: bool | None = None) -> list[Match]:
        """Return the k best records, each by its best key.

        By default all keys are searched, and scores are cosines. With `judged`, only instructions (True) or only texts
        (False) are searched, and scores are cosines less a penalty for the stance.
        """
        if self._index is None:
            return []
        allowed = self._rows_allowed(only, judged)
        penalised = judged is not None
        size = len(self._index) if allowed is None else len(allowed)
        fetch = min(size, k)
        while True:
            rows, scores = self._index.search(vector, fetch, allowed=allowed, penalised=penalised)
            best: dict[int, tuple[int, float]] = {}
            for row, score in zip(rows.tolist(), scores.tolist(), strict=True):
                best.setdefault(self._record_of[row], (row, score))
            if len(best) >= k or fetch >= size:
                return self._matches(list(best.values())[:k])
            fetch = min(size, 4 * fetch)

    def _matches(self, best: Sequence[tuple[int, float]]) -> list[Match]:
        """Turn key rows with their scores into matches."""
        assert self._index is not None
        records = self._tables.at(list({self._record_of[row] for row, _ in best}))
        return [
            Match(record=records[self._record_of[row]], score=score, vector=self._index.vector(row))
            for row, score in best
        ]

    def _rows_allowed(self, only: Only, judged: bool | None) -> NDArray[np.int64] | None:
        """Return the rows of the keys that a search may find; None for all."""
        if judged is not None and len(self._judged) == (len(self._record_of) if judged else 0):
            judged = None
        free = only == (None, None)
        if free and judged is None:
            return None
        if free:
            rows: Iterable[int] = self._record_of
        else:
            rows = (row for record in self.satisfying(*only) for row in self._keys_of.get(record, ()))
        return np.array([row for row in rows if judged is None or (row in self._judged) is judged], dtype=np.int64)


def _dimension(path: Path | None, made: object) -> int:
    """Return the dimension of a file's vectors from its description of the encoder."""
    if isinstance(made, dict) and {"name", "fingerprint"} <= made.keys() and isinstance(made.get("dimension"), int):
        return int(made["dimension"])
    raise DamagedError(path, "it does not say which encoder it was made with")
