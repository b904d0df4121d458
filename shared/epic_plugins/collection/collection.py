"""Collection of documents, in one durable file or in RAM.

Unlike a memory, a collection decides nothing: it keeps every record it is given. With preferences a search ranks as a
memory's does.
"""

from __future__ import annotations

import threading
from collections.abc import Collection as Several
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import TypedDict

import numpy as np
from typing_extensions import Unpack

from epic_memory.encoders.base import Embed, Encoder, checked_vector, described
from epic_memory.encoders.by_name import bundled_encoder_of, encoder_of
from epic_memory.errors import EncoderMismatchError, EpicError
from epic_memory.filters import Filter
from epic_memory.retention import budget_in
from epic_memory.runtime.batching import unique_preferences
from epic_memory.runtime.effects import Clock, Effects, arun, run
from epic_memory.steering.query_steering import QuerySteering, Steerings
from epic_memory.storage.additions import memory_schema
from epic_memory.storage.codecs import packed, rounded
from epic_memory.storage.sqlite.files import encoder_in
from epic_memory.storage.sqlite.locking import Passphrase, key_of
from epic_memory.storage.store import Store
from epic_memory.types import FloatArray, Preference, checked_k, checked_string
from epic_memory.types.metadata import dumped_metadata
from epic_memory.types.modes import Mode, checked_mode
from epic_plugins.collection.file import CollectionFile
from epic_plugins.collection.loaded import Condition, LoadedCollection, Match, Matches
from epic_plugins.tables import Key, Record, Records, keys_of
from epic_plugins.wrong_arguments import check_options

__all__ = ["Collection", "Condition", "Key", "Match", "Matches", "Record", "holds_memory"]

_STALE = -1


class _CollectionStore(Store):
    """The file of a collection, which is that of a memory; its errors speak of a vector store."""

    make_schema = staticmethod(partial(memory_schema, "vector store", "open it without must_exist"))


class How(TypedDict, total=False):
    """Arguments of a search; what is missing or None is as the collection has it.

    Attributes:
        embedding: The embedding of the query, shape `(d,)`, if known; then nothing is embedded.
        where: A condition that records have to satisfy.
        ids: The ids that records have to be among.
        preferences: Used in place of the collection's own.
        steering: Used in place of the collection's own mode.
    """

    embedding: Sequence[float] | FloatArray | None
    where: Condition | None
    ids: Iterable[str] | None
    preferences: Iterable[str | Preference] | None
    steering: Mode | None


class Collection(CollectionFile):
    """Records under the embeddings of their keys.

        collection = Collection(path="notes.vectors")
        collection.add([Record(id="1", text="A vegan stew.")])
        for match in collection.search("dinner", k=3):
            print(match.score, match.record.text)

    Safe to use from several threads; another process's changes are noticed.

    Args:
        encoder: Embeds keys and queries; also the name of an encoder, as for `EpicMemory`. The file remembers it.
        path: The file; None for RAM.
        preferences: Steer searches; without any, searches are by plain similarity.
        steering: "signed", "paper" (Eq. 7-8) or "off".
        namespace: The name of the collection in its file, which can hold several, and memories.
        must_exist: Refuse to make a new file.
        read_only: Never write into the file.
        key: What the file is locked with, as in `Settings`.

    Raises:
        StoreError: if the file cannot be opened, or is not one of epic-memory.
        DamagedError: if it is not as it was written.
        EncoderMismatchError: if it was made with another encoder; when something is first embedded, if finding that out
            takes a call to a model.
    """

    def __init__(
        self,
        encoder: Encoder | str | None = None,
        path: str | Path | None = None,
        *,
        preferences: Iterable[str | Preference] = (),
        steering: Mode = "signed",
        namespace: str = "documents",
        must_exist: bool = False,
        read_only: bool = False,
        key: Passphrase | None = None,
    ) -> None:
        locked = key_of(key)
        if encoder is None and path is not None:
            encoder = bundled_encoder_of(encoder_in(Path(path), locked))
        self.encoder = encoder = encoder_of(encoder)
        self.namespace = checked_string(namespace, "The namespace")
        self.steering = checked_mode(steering)
        self._preferences = _preferences(preferences)
        self._steerings = Steerings(encoder)
        self._store = _CollectionStore(path, must_exist=must_exist, read_only=read_only, key=locked)
        self._records = Records(self._store, self.namespace)
        self._lock = threading.RLock()
        try:
            self._load()
            made = self._loaded.made
            if made is not None and made.get("name") != encoder.name and self._store.holds_anything():
                raise self._mismatch(str(made.get("name")))
        except BaseException:
            self._store.close()
            raise

    def _file(self) -> Store:
        return self._store

    @property
    def preferences(self) -> tuple[Preference, ...]:
        """The preferences that steer searches; a change takes effect at the next search."""
        return self._preferences

    @preferences.setter
    def preferences(self, preferences: Iterable[str | Preference]) -> None:
        self._preferences = _preferences(preferences)

    @property
    def dimension(self) -> int | None:
        """The dimension of the vectors it holds; None without any."""
        with self._searching(checked=False):
            return self._loaded.dimension

    # loading the file into RAM

    def _load(self) -> None:
        with self._store.reading():
            # Until all of it is read, RAM counts as stale.
            change, self._change = self._store.changed_elsewhere(), _STALE
            meta = self._store.meta()
            budget = budget_in(meta)
            self._store.limit_pages(0 if budget is None else budget.pages(self._store.pages()[2]))
            self._loaded = LoadedCollection(self._records, meta.get("encoder"))
            self._change = change

    def _refresh(self) -> None:
        """Load changes that another process has written. The caller has to hold the lock."""
        if self._store.changed_elsewhere() != self._change:
            self._load()

    def _check_encoder(self) -> None:
        """Refuse an encoder other than the file's; call it once something was embedded."""
        made = self._loaded.made
        if made is not None and made != described(self.encoder) and self._store.holds_anything():
            raise self._mismatch(f"{made.get('name')} ({made.get('dimension')} dimensions)")

    def _mismatch(self, made: str) -> EncoderMismatchError:
        return EncoderMismatchError(
            f"{self.path or 'This vector store'} was made with the encoder {made}, and is used with"
            f" {self.encoder.name}. Use that encoder, or make a new vector store with this one."
        )

    # writing

    def add(self, records: Iterable[Record]) -> list[str]:
        """Write records, all of them or none; one with a known id replaces the earlier one.

        Returns:
            Their ids, in order.

        Raises:
            InvalidInputError: for metadata that is not JSON.
            EncoderError: if the encoder fails.
            EncoderMismatchError: for an embedding of another dimension than the encoder's.
        """
        return run(self._add(records), Clock())

    async def aadd(self, records: Iterable[Record]) -> list[str]:
        """Do the same as `add` without blocking the event loop."""
        return await arun(self._add(records), Clock())

    def _add(self, records: Iterable[Record]) -> Effects[list[str]]:
        given = list(records)
        said = {record.id: dumped_metadata(record.metadata, record.id, "document", ordered=True) for record in given}
        latest = {record.id: record for record in given}
        keys = {record.id: keys_of(record) for record in latest.values()}
        every = [key for several in keys.values() for key in several]
        texts = list(dict.fromkeys(key.text for key in every if key.vector is None))
        self._store.check_writable()
        embedded: Iterable[FloatArray] = (yield Embed(self.encoder, texts, "embedding")) if texts else ()
        vector_of = dict(zip(texts, embedded, strict=True))
        # Only with keys: a description of the encoder may ask a model for its dimension.
        made = described(self.encoder) if every else None
        for key in every:
            if key.vector is not None and len(key.vector) != self.encoder.dimension:
                raise _other_dimension(key.vector, f"{self.encoder.name} makes {self.encoder.dimension}")
        vectors = np.asarray([vector_of[key.text] if key.vector is None else key.vector for key in every], np.float32)
        codes = packed(vectors) if every else []
        with self._lock:
            written: dict[str, int] = {}
            rows: list[int] = []
            owners: list[int] = []
            with self._changing() as change:
                if made is not None:
                    self._check_encoder()
                    if self._loaded.made != made:
                        self._loaded.begin(made)
                        self._store.set_meta(encoder=made)
                for record in latest.values():
                    its = codes[len(rows) : len(rows) + len(keys[record.id])]
                    written[record.id], new = self._records.put(record, said[record.id], its)
                    rows += new
                    owners += [written[record.id]] * len(new)
            # RAM follows once the file is committed.
            self._loaded.put(written, said, rows, owners, [key.stance for key in every], rounded(vectors))
            self._change = change
        return [record.id for record in given]

    def delete(self, ids: Iterable[str] | None = None) -> int:
        """Remove records by their ids, or all of them; return how many there were."""
        chosen = None if ids is None else list(dict.fromkeys(ids))
        with self._lock:
            with self._changing() as change:
                there = self._loaded.row_of
                held = list(there) if chosen is None else [one for one in chosen if one in there]
                self._records.drop(held)
            self._loaded.drop(held)
            self._change = change
            self._store.give_back()
        return len(held)

    @contextmanager
    def _changing(self) -> Iterator[int]:
        """Open a transaction over the file's current state.

        It yields the number of the change; until the caller sets `_change` to it, RAM counts as stale.
        """
        with self._store.transaction():
            self._refresh()
            change, self._change = self._change, _STALE
            yield change

    # reading

    def get(self, ids: Iterable[str]) -> list[Record]:
        """Return the records with these ids, in order; unknown ids are left out."""
        with self._searching(checked=False):
            rows = [self._loaded.row_of[record_id] for record_id in ids if record_id in self._loaded.row_of]
            found = self._records.at(list(dict.fromkeys(rows)))
        return [found[row] for row in rows]

    def ids(self, where: Condition | None = None) -> list[str]:
        """Return the ids of all records that satisfy a condition, in the order they were written."""
        with self._searching(checked=False):
            if where is None:
                return list(self._loaded.row_of)
            rows = set(self._loaded.satisfying(where, None))
            return [record_id for record_id, row in self._loaded.row_of.items() if row in rows]

    def having(self, key: str, values: Several[str]) -> list[str]:
        """Return the ids of records whose metadata has one of some texts under a key, in the order they were written.

        Faster than a filter if the same key is asked for repeatedly with other values.
        """
        with self._searching(checked=False):
            return self._loaded.having(key, values)

    def records(self, where: Condition | None = None, *, ids: Iterable[str] | None = None) -> list[Record]:
        """Return all records that satisfy a condition, optionally among some ids, in the order they were written."""
        with self._searching(checked=False):
            if ids is None and not isinstance(where, Filter):
                return [record for _, record in self._records.all() if where is None or where(record)]
            rows = sorted(self._loaded.satisfying(where, ids))
            found = self._records.at(rows)
        return [found[row] for row in rows]

    def search(self, query: str | None = None, k: int = 4, **how: Unpack[How]) -> Matches:
        """Return the k records that fit a query best.

        Args:
            query: Any text; it may be left out if its embedding is given.
            k: At least 1; as many distinct records are found, if there are so many.
            **how: What else there is to say, see `How`.

        Raises:
            InvalidInputError: for a k below 1, an unknown mode, or an embedding that is none.
            EncoderMismatchError: if the vectors are another encoder's, or the embedding has another dimension.
            TypeError: for another argument.
        """
        return run(self._search(query, k, how), Clock())

    async def asearch(self, query: str | None = None, k: int = 4, **how: Unpack[How]) -> Matches:
        """Do the same as `search` without blocking the event loop."""
        return await arun(self._search(query, k, how), Clock())

    def _search(self, query: str | None, k: int, how: How) -> Effects[Matches]:
        check_options(how, tuple(How.__annotations__))
        checked_k(k)
        steering, preferences = how.get("steering"), how.get("preferences")
        mode = self.steering if steering is None else checked_mode(steering)
        chosen = self.preferences if preferences is None else _preferences(preferences)
        embedding, where, ids = how.get("embedding"), how.get("where"), how.get("ids")
        only = None if ids is None else set(ids)
        if embedding is None:
            text = checked_string(query, "The query")
            vector: FloatArray = (yield Embed(self.encoder, [text], "embedding", query=True))[0]
        else:
            with self._searching(checked=False):
                vector, dimension = checked_vector(embedding, None, "it"), self._loaded.dimension
                if dimension is not None and len(vector) != dimension:  # an empty collection takes any vector
                    raise _other_dimension(vector, f"those of {self.path or 'this vector store'} have {dimension}")
                if not self._loaded.vectors:  # an empty collection has no dimension to steer in
                    return Matches([], vector)
        chosen = tuple(preference for preference in chosen if not preference.expired)
        if mode == "off" or not chosen:
            with self._searching(checked=embedding is None):
                return Matches(self._loaded.nearest(vector, k, (where, only)), vector)
        steerer: QuerySteering = yield from self._steerings.steering(chosen, mode)
        with self._searching(checked=True):
            return self._loaded.steered(steerer, query or "", vector, k, (where, only))

    @contextmanager
    def _searching(self, *, checked: bool) -> Iterator[None]:
        """Hold one state of the file, loaded into RAM; `checked` if the encoder was used and has to be the file's."""
        with self._lock, self._store.reading():
            self._refresh()
            if checked:
                self._check_encoder()
            yield

    def __len__(self) -> int:
        with self._searching(checked=False):
            return len(self._loaded.row_of)

    def __bool__(self) -> bool:
        return True


def holds_memory(path: Path) -> bool:
    """Tell whether an existing file has to be kept: it is not one of collections alone."""
    try:
        with closing(_CollectionStore(path, read_only=True)) as store:
            return bool(store.namespaces())
    except EpicError:
        return True


def _other_dimension(given: Sequence[float] | FloatArray, right: str) -> EncoderMismatchError:
    return EncoderMismatchError(
        f"There is an embedding of {len(given)} dimensions, and {right}. Use the same embedding model (embed_model) for"
        " the store and for the index over it."
    )


def _preferences(preferences: Iterable[str | Preference]) -> tuple[Preference, ...]:
    return tuple(unique_preferences(preferences))
