"""A collection: documents found by their instructions or texts, in one durable file or in RAM.

What a memory decides, a collection takes as it is: it keeps every record it is given. Searches can be steered by
preferences as a memory's are.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence, Sized
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from epic_core.codes import packed, rounded
from epic_core.collection_table import CollectionTables, Key, Record, keys_of
from epic_core.encoders.base import Encoder
from epic_core.errors import DamagedError, EncoderMismatchError, StoreError
from epic_core.filters import Filter
from epic_core.index import EntryIndex
from epic_core.intake import unique_preferences
from epic_core.retrieval import checked_vector
from epic_core.rows import dumped_metadata
from epic_core.space import PENALTY
from epic_core.state import described
from epic_core.steering import Mode, QuerySteering, Steerings, checked_mode
from epic_core.steps import Clock, Encode, Steer, Steps, arun, run
from epic_core.types import FloatArray, Preference, Stance, checked_k, checked_string

__all__ = ["Collection", "Condition", "Key", "Match", "Matches", "Record"]

Condition: TypeAlias = Filter | Callable[[Record], bool]
"""What a record has to satisfy: a filter over its metadata, or any function of it."""

R = TypeVar("R")
_FILTERS_KEPT = 64
_STALE = -1


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


class Matches(list[Match]):
    """A list of matches, best first.

    Attributes:
        vector: What was searched for, shape `(d,)`.
        steered_by: The texts of the preferences that steered the query.
    """

    def __init__(self, matches: Iterable[Match], vector: FloatArray, steered_by: Sequence[str] = ()) -> None:
        super().__init__(matches)
        self.vector = vector
        self.steered_by = list(steered_by)


class Collection:
    """Records under the embeddings of their keys.

        collection = Collection(default_encoder(), path="notes.vectors")
        collection.add([Record(id="1", text="A vegan stew.")])
        for match in collection.search("dinner", k=3):
            print(match.score, match.record.text)

    Safe to use from several threads; another process's changes are noticed.

    Args:
        encoder: Embeds keys and queries. The file remembers it.
        path: The file; None for RAM.
        preferences: What steers searches; none for plain similarity.
        steering: "signed", "paper" (Eq. 7-8) or "off".
        kind: What the records are. The file remembers it, and is not opened as anything else.
        must_exist: Refuse to make a new file.
        read_only: Never write into the file.

    Raises:
        StoreError: if the file cannot be opened, or is none of a collection or one of another kind.
        DamagedError: if it is not as it was written.
        EncoderMismatchError: if it was made with another encoder. Where that takes a call to a model, it is noticed
            when something is embedded for the first time.
    """

    def __init__(
        self,
        encoder: Encoder,
        path: str | Path | None = None,
        *,
        preferences: Iterable[str | Preference] = (),
        steering: Mode = "signed",
        kind: str = "documents",
        must_exist: bool = False,
        read_only: bool = False,
    ) -> None:
        self.encoder = encoder
        self.kind = kind
        self.steering = checked_mode(steering)
        self.preferences = _preferences(preferences)
        self._steerings = Steerings(encoder)
        self._tables = CollectionTables(path, must_exist=must_exist, read_only=read_only)
        self._lock = threading.RLock()
        # Of the filters used last, the rows of the records that satisfy them.
        self._filtered: dict[Hashable, tuple[Filter, dict[int, None]]] = {}
        try:
            self._load()
            made = self._made
            if made is not None and self._record_of and made.get("name") != encoder.name:
                raise self._mismatch(str(made.get("name")))
        except BaseException:
            self._tables.close()
            raise

    # what the file holds, in RAM

    def _load(self) -> None:
        """Read which record is where, and the index."""
        with self._tables.reading():
            # Until all of it is read, it counts as stale: half of it must not be taken for the whole.
            change, self._change = self._tables.changed_elsewhere(), _STALE
            self._row_of = self._tables.ids()
            meta = self._tables.meta()
            if meta.get("kind", self.kind) != self.kind:
                raise StoreError(f"{self.path} holds {meta['kind']}, not {self.kind}. Give another file name.")
            self._made: dict[str, Any] | None = meta.get("encoder")
            self._index: EntryIndex | None = None
            self._record_of: dict[int, int] = {}
            self._keys_of: dict[int, list[int]] = {}
            self._judged: dict[int, Stance] = {}
            if self._made is not None:
                self._enter(*self._tables.keys(_dimension(self._tables.path, self._made)))
            self._filtered.clear()
            self._change = change

    def _enter(
        self, rows: Sequence[int], records: Sequence[int], stances: Sequence[Stance | None], vectors: FloatArray
    ) -> None:
        if self._index is None:
            self._index = EntryIndex(vectors.shape[1])
        self._index.add(rows, vectors, [0.0 if stance is None else PENALTY[stance] for stance in stances])
        self._record_of.update(zip(rows, records, strict=True))
        for row, record in zip(rows, records, strict=True):
            self._keys_of.setdefault(record, []).append(row)
        self._judged.update((row, stance) for row, stance in zip(rows, stances, strict=True) if stance is not None)

    def _leave(self, records: Sequence[int]) -> None:
        for _, satisfying in self._filtered.values():
            for record in records:
                satisfying.pop(record, None)
        gone = [row for record in records for row in self._keys_of.pop(record, ())]
        if self._index is not None:
            self._index.remove(gone)
        for row in gone:
            del self._record_of[row]
            self._judged.pop(row, None)

    def _refresh(self) -> None:
        """Take in what another process has written. Call it under the lock."""
        if self._tables.changed_elsewhere() != self._change:
            self._load()

    def _check_encoder(self) -> None:
        """Refuse vectors that do not belong to those in the file; call it once something was embedded."""
        if self._made is not None and self._record_of and self._made != described(self.encoder):
            raise self._mismatch(f"{self._made.get('name')} ({self._made.get('dimension')} dimensions)")

    def _mismatch(self, made: str) -> EncoderMismatchError:
        return EncoderMismatchError(
            f"{self.path or 'This vector store'} was made with the encoder {made}, and is used with"
            f" {self.encoder.name}. Use that encoder, or make a new vector store with this one."
        )

    # writing

    def add(self, records: Iterable[Record]) -> list[str]:
        """Write records, all of them or none; one with a known id takes the place of the earlier one.

        Returns:
            Their ids, in order.

        Raises:
            InvalidInputError: for metadata that is not JSON.
            EncoderError: if the encoder fails.
        """
        return run(self._add(records), Clock())

    async def aadd(self, records: Iterable[Record]) -> list[str]:
        """As `add`, without blocking the event loop."""
        return await arun(self._add(records), Clock())

    def _add(self, records: Iterable[Record]) -> Steps[list[str]]:
        given = list(records)
        said = {record.id: dumped_metadata(record.metadata, record.id, "document") for record in given}
        latest = {record.id: record for record in given}
        texts = list(dict.fromkeys(key.text for record in latest.values() for key in keys_of(record)))
        self._tables.check_writable()
        vectors: FloatArray = np.empty((0, 0), dtype=np.float32)
        if texts:  # without any, a model would be asked for its dimension
            vectors = yield Encode(self.encoder, texts, "embedding")
        place = {text: n for n, text in enumerate(texts)}
        codes = packed(vectors) if texts else []
        with self._lock:
            entered: list[tuple[int, int, Stance | None, int]] = []
            written: dict[str, int] = {}
            with self._changing() as change:
                self._tables.set_meta(kind=self.kind)
                if texts:
                    self._check_encoder()
                    if not self._record_of:
                        self._made, self._index = described(self.encoder), None
                        self._tables.set_meta(encoder=self._made)
                for record in latest.values():
                    keys = keys_of(record)
                    places = [place[key.text] for key in keys]
                    written[record.id], rows = self._tables.put(record, said[record.id], [codes[at] for at in places])
                    entered += [
                        (row, written[record.id], key.stance, at)
                        for row, key, at in zip(rows, keys, places, strict=True)
                    ]
            # Committed, then taken in.
            self._leave([self._row_of.pop(record_id) for record_id in written if record_id in self._row_of])
            self._row_of.update(written)
            for where, satisfying in self._filtered.values():
                found = (row for record_id, row in written.items() if where.matches(json.loads(said[record_id])))
                satisfying.update(dict.fromkeys(found))
            if entered:
                new, owners, stances, at = zip(*entered, strict=True)
                self._enter(new, owners, stances, rounded(vectors[list(at)]))
            self._change = change
        return [record.id for record in given]

    def delete(self, ids: Iterable[str] | None = None) -> int:
        """Remove records by their ids, or all of them; how many there were."""
        chosen = None if ids is None else list(dict.fromkeys(ids))
        with self._lock:
            with self._changing() as change:
                held = list(self._row_of) if chosen is None else [one for one in chosen if one in self._row_of]
                if chosen is None:
                    self._tables.drop_all()
                else:
                    self._tables.drop(held)
            self._leave([self._row_of.pop(record_id) for record_id in held])
            self._change = change
            self._tables.give_back()
        return len(held)

    @contextmanager
    def _changing(self) -> Iterator[int]:
        """One transaction, over what the file holds by now. Until `_change` is what this gives, RAM counts as stale."""
        with self._tables.transaction():
            self._refresh()
            change, self._change = self._change, _STALE
            yield change

    # reading

    def get(self, ids: Iterable[str]) -> list[Record]:
        """The records with these ids, in order; those that are not held are left out."""
        with self._searching(checked=False):
            rows = [self._row_of[record_id] for record_id in ids if record_id in self._row_of]
            found = self._tables.at(list(dict.fromkeys(rows)))
        return [found[row] for row in rows]

    def ids(self) -> list[str]:
        """The ids of all records, in the order in which they were written."""
        with self._searching(checked=False):
            return list(self._row_of)

    def records(self, where: Condition | None = None) -> list[Record]:
        """All records that satisfy a condition, in the order in which they were written."""
        with self._searching(checked=False):
            if not isinstance(where, Filter):
                return [record for _, record in self._tables.all() if where is None or where(record)]
            rows = [int(row) for row in self._satisfying(where)]
            found = self._tables.at(rows)
        return [found[row] for row in rows]

    def search(
        self,
        query: str,
        k: int = 4,
        *,
        where: Condition | None = None,
        preferences: Iterable[str | Preference] | None = None,
        steering: Mode | None = None,
    ) -> Matches:
        """The k records that suit a query best.

        Args:
            query: Any text.
            k: At least 1; as many distinct records are found, if there are so many.
            where: Only records that satisfy this.
            preferences: Others than the collection's own.
            steering: Another mode than the collection's own.

        Raises:
            InvalidInputError: for a k below 1, or an unknown mode.
            EncoderMismatchError: if the vectors are another encoder's.
        """
        return run(self._search(query, k, where, preferences, steering), Clock())

    async def asearch(
        self,
        query: str,
        k: int = 4,
        *,
        where: Condition | None = None,
        preferences: Iterable[str | Preference] | None = None,
        steering: Mode | None = None,
    ) -> Matches:
        """As `search`, without blocking the event loop."""
        return await arun(self._search(query, k, where, preferences, steering), Clock())

    def search_vector(
        self, vector: Sequence[float] | FloatArray, k: int = 4, *, where: Condition | None = None
    ) -> Matches:
        """The k records nearest to a vector by cosine; nothing steers.

        Args:
            vector: Shape `(d,)`, of any length other than zero.
            k: At least 1.
            where: Only records that satisfy this.

        Raises:
            InvalidInputError: for a k below 1, or a vector of another dimension.
        """
        checked_k(k)
        with self._searching(checked=False):
            if self._index is not None and len(self._index):
                dimension = self._index.dimension
            else:  # none yet, or none any more
                dimension = len(vector) if isinstance(vector, Sized) else 0
            unit = checked_vector(vector, dimension, self.path or "this vector store")
            return Matches(self._nearest(unit, k, where), unit)

    def _search(
        self,
        query: str,
        k: int,
        where: Condition | None,
        preferences: Iterable[str | Preference] | None,
        steering: Mode | None,
    ) -> Steps[Matches]:
        checked_k(k)
        mode = self.steering if steering is None else checked_mode(steering)
        chosen = self.preferences if preferences is None else _preferences(preferences)
        checked_string(query, "The query")
        vector: FloatArray = (yield Encode(self.encoder, [query], "embedding", query=True))[0]
        chosen = tuple(preference for preference in chosen if not preference.expired)
        if mode == "off" or not chosen:
            with self._searching(checked=True):
                return Matches(self._nearest(vector, k, where), vector)
        steerer: QuerySteering = yield Steer(self._steerings, chosen, mode)
        with self._searching(checked=True):
            return self._steered(steerer, vector, k, where)

    def _steered(self, steerer: QuerySteering, vector: FloatArray, k: int, where: Condition | None) -> Matches:
        """The k best records for a query embedding: texts on the right side of the preferences, and instructions.

        An instruction says itself how its record stands to its preference: there the topic is searched for, and what
        conflicts comes later.
        """
        steered = steerer.steer_vector(vector)
        steered_by = [one.preference.text for one in steered.preferences]
        if steerer.mode != "signed" or not self._judged:
            return Matches(self._nearest(steered.vector, k, where), steered.vector, steered_by)
        topic = steerer.steer_for_index(vector).vector
        instructed = self._nearest(topic, k, where, judged=True)
        if len(self._judged) == len(self._record_of):
            return Matches(instructed, topic, steered_by)
        best: dict[str, Match] = {}
        plain = self._nearest(steered.vector, k, where, judged=False)
        for match in sorted((*instructed, *plain), key=lambda match: -match.score):
            best.setdefault(match.record.id, match)
        return Matches(list(best.values())[:k], steered.vector, steered_by)

    @contextmanager
    def _searching(self, *, checked: bool) -> Iterator[None]:
        """One state of the file, taken in; `checked` if the encoder was used, and has to be the file's."""
        with self._lock, self._tables.reading():
            self._refresh()
            if checked:
                self._check_encoder()
            yield

    def _nearest(
        self, vector: FloatArray, k: int, where: Condition | None, *, judged: bool | None = None
    ) -> list[Match]:
        """The k best records, of each its best key.

        By all keys and their cosines; or by instructions only (`judged`), less what their stances take off; or by
        texts only.
        """
        if self._index is None:
            return []
        allowed = self._rows_allowed(where, judged)
        penalised = judged is True
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

    def _rows_allowed(self, where: Condition | None, judged: bool | None) -> NDArray[np.int64] | None:
        """Rows of the keys that a search may find; None for all."""
        if judged is not None and len(self._judged) == (len(self._record_of) if judged else 0):
            judged = None
        if where is None and judged is None:
            return None
        if where is None:
            rows: Iterable[int] = self._record_of
        else:
            records = self._satisfying(where)
            rows = (row for record in records for row in self._keys_of.get(record, ()))
        return np.array([row for row in rows if judged is None or (row in self._judged) is judged], dtype=np.int64)

    def _satisfying(self, where: Condition) -> Iterable[int]:
        """Rows of the records that satisfy a condition, in the order in which they were written."""
        if not isinstance(where, Filter):
            return [row for row, record in self._tables.all() if where(record)]
        key = where.identity()
        if key in self._filtered:
            return self._filtered[key][1]
        found = dict.fromkeys(row for row, metadata in self._tables.all_metadata() if where.matches(metadata))
        if len(self._filtered) >= _FILTERS_KEPT:
            self._filtered.clear()
        if key is not None:
            self._filtered[key] = where, found
        return found

    # the rest

    @property
    def path(self) -> Path | None:
        """The file; None for RAM."""
        return self._tables.path

    def __len__(self) -> int:
        with self._searching(checked=False):
            return len(self._row_of)

    def __bool__(self) -> bool:
        return True

    def verify(self) -> int:
        """Check every row of the file; how many there are.

        Raises:
            DamagedError: if one is not as it was written.
        """
        return self._tables.verify()

    def backup(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write a copy of the last committed state, whole or not at all.

        Raises:
            AlreadyThereError: if there is a file, and `overwrite` is off.
            StoreError: if it cannot be written.
        """
        self._tables.copy_to(Path(path), overwrite=overwrite)

    def close(self) -> None:
        """Close the file; closing twice is fine."""
        with self._lock:
            self._tables.close()

    def __enter__(self) -> Collection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        where = "in RAM" if self.path is None else str(self.path)
        return f"<Collection {where}{', closed' if self._tables.closed else ''}>"


def _dimension(path: Path | None, made: object) -> int:
    """Of the vectors in a file, by what it says of its encoder."""
    if isinstance(made, dict) and {"name", "fingerprint"} <= made.keys() and isinstance(made.get("dimension"), int):
        return int(made["dimension"])
    raise DamagedError(path, "it does not say which encoder it was made with")


def _preferences(preferences: Iterable[str | Preference]) -> tuple[Preference, ...]:
    return tuple(unique_preferences(preferences))
