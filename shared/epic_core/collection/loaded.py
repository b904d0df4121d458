"""What a collection's file holds, in RAM: where each record is, the vectors, and what filters let through."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from epic_core.collection.tables import CollectionTables, Record
from epic_core.errors import DamagedError, StoreError
from epic_core.filters import Filter
from epic_core.storage.vector_index import EntryIndex
from epic_core.types import FloatArray, Stance
from epic_core.types.verdicts import PENALTY

Condition: TypeAlias = Filter | Callable[[Record], bool]
"""What a record has to satisfy: a filter over its metadata, or any function of it."""
Only: TypeAlias = tuple[Condition | None, Collection[str] | None]
"""What restricts a search: a condition, and ids."""

_FILTERS_KEPT = 64


@dataclass(frozen=True, kw_only=True)
class Match:
    """A record that a search found.

    Attributes:
        record: The record, without its keys.
        score: What matches are ordered by, higher is better: a cosine, less what its stance takes off in a steered
            search.
        vector: Of the key that was found, shape `(d,)`.
    """

    record: Record
    score: float
    vector: FloatArray = field(repr=False, compare=False)


class Held:
    """The state of a collection's file; once the file is another, another is needed. Its user keeps the lock.

    Args:
        tables: The file, within one transaction.
        kind: What its records have to be.

    Attributes:
        row_of: Id to row of every record, in the order in which they were written.
        made: The encoder of the vectors, as the file remembers it; None before there was any.

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
        # Of the filters used last, the rows of the records that satisfy them.
        self._filtered: dict[Hashable, tuple[Filter, dict[int, None]]] = {}
        # Of the keys that records were asked for by `having`, row to text.
        self._said: dict[str, dict[int, str]] = {}
        if self.made is not None:
            self._enter(*tables.keys(_dimension(tables.path, self.made)))

    @property
    def vectors(self) -> int:
        """How many vectors there are."""
        return len(self._record_of)

    @property
    def instructions(self) -> int:
        """How many of them are of instructions."""
        return len(self._judged)

    @property
    def dimension(self) -> int | None:
        """Of the vectors; None without any."""
        return self._index.dimension if self._index is not None and len(self._index) else None

    # changes that were committed

    def begin(self, made: dict[str, Any]) -> None:
        """The first vectors will be another encoder's."""
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
        """Take in what was written.

        Args:
            written: Id to row of the records.
            said: Their metadata as JSON, by their ids.
            rows: Of the keys.
            records: The rows of the records they belong to.
            stances: Theirs.
            vectors: Theirs, shape `(n, d)`, as the file gives them back.
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
        """Take in that records were removed; those that are not held are ignored."""
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
        # A text stands to the preferences as its record does: by the worst of its stances.
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

    # what is found

    def satisfying(self, where: Condition | None, ids: Iterable[str] | None) -> Iterable[int]:
        """Rows of the records that satisfy a condition, of some ids only."""
        rows = None if ids is None else {self.row_of[one] for one in ids if one in self.row_of}
        if where is None:
            return self.row_of.values() if rows is None else rows
        if isinstance(where, Filter):
            found = self._filtered_by(where)
            return found if rows is None else rows & found.keys()
        records = self._tables.all() if rows is None else self._tables.at(list(rows)).items()
        return [row for row, record in records if where(record)]

    def _filtered_by(self, where: Filter) -> dict[int, None]:
        """Rows of the records that a filter lets through."""
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
        """The ids of the records whose metadata has one of some texts under a key."""
        if key not in self._said:
            self._said[key] = {
                row: metadata[key]
                for row, metadata in self._tables.all_metadata()
                if isinstance(metadata.get(key), str)
            }
        texts = self._said[key]
        return [record_id for record_id, row in self.row_of.items() if texts.get(row) in values]

    def nearest(self, vector: FloatArray, k: int, only: Only, *, judged: bool | None = None) -> list[Match]:
        """The k best records, of each its best key.

        By all keys and their cosines; or by instructions only (`judged`) or texts only, less what their stances take
        off.
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
        """Key rows with their scores as matches."""
        assert self._index is not None
        records = self._tables.at(list({self._record_of[row] for row, _ in best}))
        return [
            Match(record=records[self._record_of[row]], score=score, vector=self._index.vector(row))
            for row, score in best
        ]

    def _rows_allowed(self, only: Only, judged: bool | None) -> NDArray[np.int64] | None:
        """Rows of the keys that a search may find; None for all."""
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
    """Of the vectors in a file, by what it says of its encoder."""
    if isinstance(made, dict) and {"name", "fingerprint"} <= made.keys() and isinstance(made.get("dimension"), int):
        return int(made["dimension"])
    raise DamagedError(path, "it does not say which encoder it was made with")
