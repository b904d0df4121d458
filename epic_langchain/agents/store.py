"""LangGraph store in one durable file, whose searches follow the user's preferences."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from numbers import Integral
from pathlib import Path
from typing import Any, TypeAlias, cast

from langchain_core.embeddings import Embeddings
from langgraph.store.base import (
    BaseStore,
    GetOp,
    Item,
    ListNamespacesOp,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    TTLConfig,
    get_text_at_path,
)

from epic_langchain.agents.held import HeldItems
from epic_langchain.agents.items import (
    Lifetime,
    Namespace,
    check_filter,
    id_of,
    is_lifetime,
    item_of,
    lifetime_id,
    lifetime_record,
    matches,
    moment_of,
    passes,
    scored,
)
from epic_langchain.models import encoder_of
from epic_memory import Preference
from epic_memory.collection import Collection, Key, Matches, Record
from epic_memory.encoders import Encoder
from epic_memory.errors import InvalidInputError, decoding
from epic_memory.runtime.effects import Call, Effects, arun, run
from epic_memory.steering import Mode
from epic_memory.types.metadata import dumped_metadata
from epic_plugins.collection_file import CollectionFile
from epic_plugins.copies import checked_file
from epic_plugins.wrong_arguments import explained

PreferencesOf: TypeAlias = Callable[[Namespace], Iterable[str | Preference]]
"""Function from the namespace prefix that is searched to the preferences that steer the search."""


@explained(index="What other stores take in it are embedding= and fields= here.")
class EpicStore(CollectionFile, BaseStore):
    """A store for LangGraph's agents: in one file or in RAM, searched by meaning, steered by preferences.

        store = EpicStore("agent.store", preferences=["I follow a strict vegan diet."])
        store.put(("users", "anna"), "dinner", {"text": "She cooked a lentil stew."})
        store.search(("users",), query="What should I cook tonight?", limit=3)
        agent = create_agent(model, tools, store=store)

    It behaves like LangGraph's `InMemoryStore` with an index. Where that store leaves something open: searches without
    a query return the oldest items first; `created_at` stays when an item is put again; only namespaces that hold items
    are listed; a value that a `$gt`, `$gte`, `$lt` or `$lte` cannot compare does not satisfy it; items without an
    embedding come after all items that have one, page after page. Items that are read are copies. A batch reads before
    it writes; its puts are written together, and so are its deletions. Once something is listed, filtered or searched
    for, RAM holds all items beside the file.

    Items that were put with a time to live are deleted by `sweep_ttl`, and by sweeps that the configuration asks for,
    which run with the first batch after each interval. A read starts their time anew, unless `refresh_ttl=False`.

    Scores are cosines with the query, higher is better, steered if there are preferences. Safe to use from several
    threads; a file also from several processes.

    Args:
        path: A file of epic-memory, which memories and vector stores may share. None for RAM.
        embedding: LangChain's `Embeddings`, an encoder of epic_memory or its name, such as "ollama/nomic-embed-text";
            default: the embedded encoder. The file remembers it.
        preferences: Steer searches that have a query: preferences, or, to serve many users, a function from the
            namespace prefix that is searched to preferences. It can be called from several threads.
        fields: The parts of a value that are embedded, each by itself: paths as LangGraph writes them, such as "text",
            "profile.name" or "facts[*]"; "$" is the whole value, as JSON. `put(..., index=[...])` overrides it.
        steering: "signed", "paper" (Eq. 7-8) or "off".
        ttl: LangGraph's `TTLConfig`, in minutes: `default_ttl` of items, `refresh_on_read` (default: True),
            `omit_expired` (leave out items whose time is over even before a sweep; default: False) and
            `sweep_interval_minutes` (default: no sweeps but `sweep_ttl`'s).

    Raises:
        InvalidInputError: if an argument is invalid; on use, for values that are not JSON, filters with unknown
            operators, a limit or an offset below 0, a time to live that is not above 0.
        StoreError: if the file cannot be opened, or is not one of epic-memory.
        DamagedError: on use, if the file holds data that no EpicStore writes.
        EncoderMismatchError: if it was made with another embedding model; at the first use, if checking needs a call to
            the model.
    """

    supports_ttl = True

    def __init__(
        self,
        path: str | Path | None = None,
        *,
        embedding: Embeddings | Encoder | str | None = None,
        preferences: Iterable[str | Preference] | PreferencesOf = (),
        fields: Sequence[str] = ("$",),
        steering: Mode = "signed",
        ttl: TTLConfig | None = None,
    ) -> None:
        self._fields = _checked_fields(fields)
        self.ttl_config = None if ttl is None else _checked_ttl(ttl)
        self._embedding = embedding
        self._preferences_of = preferences if callable(preferences) else None
        self._collection = Collection(
            encoder_of(embedding),
            path,
            preferences=() if callable(preferences) else preferences,
            steering=steering,
            namespace="items",
        )
        self._items = HeldItems(self._collection)
        self._latest = self._swept = datetime.min.replace(tzinfo=timezone.utc)
        self._lock = threading.Lock()

    # LangGraph's interface

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Run operations and return their results in order; None for operations that write."""
        return run(self._run(ops))

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Do the same as `batch` without blocking the event loop."""
        return await arun(self._run(ops))

    def _run(self, ops: Iterable[Op]) -> Effects[list[Result]]:
        asked = _checked(ops)
        self._sweep_if_due()
        results: list[Result] = [self._read(op) for op in asked]
        for place, op in enumerate(asked):
            if isinstance(op, SearchOp) and op.query:
                search = self._search(op)
                found: Matches = yield Call(self._collection.search, self._collection.asearch, **search)
                results[place] = self._found(op, found)
        # Of several operations on an item the last counts.
        puts = {id_of(op.namespace, op.key): op for op in asked if isinstance(op, PutOp)}
        written = {record_id: op for record_id, op in puts.items() if op.value is not None}
        records = [*self._renewed(asked, results, puts), *self._records(written), *self._lifetime_records(written)]
        if records:
            yield Call(self._collection.add, self._collection.aadd, records)
        self._delete([record_id for record_id in puts if record_id not in written])
        return results

    def _delete(self, ids: Sequence[str]) -> None:
        if ids:
            self._collection.delete([*ids, *map(lifetime_id, ids)])

    # reading

    def _read(self, op: Op) -> Result:
        """Return the result of an operation that needs no embedding; None for the others."""
        if isinstance(op, GetOp):
            record_id = id_of(op.namespace, op.key)
            found = [] if record_id in self._left_out() else self._collection.get([record_id])
            return next(map(self._item, found), None)
        if isinstance(op, SearchOp) and not op.query:
            return self._items.search(op, self._left_out(), op.offset, op.offset + op.limit)
        return self._namespaces(op) if isinstance(op, ListNamespacesOp) else None

    def _left_out(self) -> set[str]:
        """Return the ids of the expired items, if these are to be left out."""
        omits = self.ttl_config and self.ttl_config.get("omit_expired")
        return set(self._expired()) if omits else set()

    def _item(self, record: Record) -> Item:
        """Return the item of a record; damage is reported with the file's path."""
        with decoding(self.path):
            return item_of(record)

    def _search(self, op: SearchOp) -> dict[str, Any]:
        """Return the arguments of the collection's search."""
        gone = self._left_out()
        ids = [record_id for record_id in self._items.ids(op.namespace_prefix) if record_id not in gone]
        # The filter is applied to the matches afterwards, so with a filter all records have to be found.
        search: dict[str, Any] = {"query": op.query, "ids": ids}
        search["k"] = max(1, len(ids) if op.filter else op.offset + op.limit)
        if self._preferences_of is not None:
            search["preferences"] = self._preferences_of(tuple(op.namespace_prefix))
        return search

    def _found(self, op: SearchOp, matched: Matches) -> list[SearchItem]:
        """Return the page of a search: the matches, then items without an embedding."""
        best = [scored(self._item(match.record), match.score) for match in matched]
        found = [item for item in best if passes(item.value, op)]
        missing = op.offset + op.limit - len(found)
        if missing > 0:
            shown = {match.record.id for match in matched} | self._left_out()
            found += self._items.search(op, shown, 0, missing)
        return found[_page(op)]

    def _namespaces(self, op: ListNamespacesOp) -> list[Namespace]:
        names = self._items.namespaces(self._left_out())
        if op.match_conditions:
            names = [name for name in names if all(matches(name, one) for one in op.match_conditions)]
        if op.max_depth is not None:
            names = list(dict.fromkeys(name[: op.max_depth] for name in names))
        return sorted(names)[_page(op)]

    # times to live

    def sweep_ttl(self) -> int:
        """Delete the items whose time to live is over, and return how many there were."""
        expired = self._expired()
        self._delete(expired)
        return len(expired)

    def _sweep_if_due(self) -> None:
        interval, now = (self.ttl_config or {}).get("sweep_interval_minutes"), datetime.now(timezone.utc)
        with self._lock:
            due = interval is not None and now - self._swept >= timedelta(minutes=interval)
            self._swept = now if due else self._swept
        if due:
            self.sweep_ttl()

    def _expired(self, ids: Iterable[str] | None = None) -> list[str]:
        """Return the ids of the expired items among some, or all."""
        now = datetime.now(timezone.utc)
        return [record_id for record_id, lifetime in self._items.lifetimes(ids).items() if lifetime.ends <= now]

    def _renewed(self, asked: Sequence[Op], results: Sequence[Result], puts: Mapping[str, PutOp]) -> Iterator[Record]:
        """Yield the new lifetimes of the items that were read, without those that the batch writes."""
        reads = any(isinstance(op, (GetOp, SearchOp)) and op.refresh_ttl for op in asked)
        if not reads or not self._items.lifetimes():
            return
        read: dict[str, None] = {}
        for op, result in zip(asked, results, strict=True):
            if isinstance(op, (GetOp, SearchOp)) and op.refresh_ttl:
                items: Any = result if isinstance(result, list) else [result] if result is not None else []
                read |= dict.fromkeys(id_of(item.namespace, item.key) for item in items)
        now = datetime.now(timezone.utc)
        for record_id, lifetime in self._items.lifetimes(one for one in read if one not in puts).items():
            yield lifetime_record(record_id, Lifetime.from_now(lifetime.minutes, now))

    def _lifetime_records(self, puts: Mapping[str, PutOp]) -> Iterator[Record]:
        """Yield the lifetimes of items that are put; one without any ends a lifetime that the item had before."""
        known, now = self._items.lifetimes(puts) if puts else {}, datetime.now(timezone.utc)
        for record_id, op in puts.items():
            if op.ttl is not None or record_id in known:
                yield lifetime_record(record_id, None if op.ttl is None else Lifetime.from_now(op.ttl, now))

    # writing

    def _records(self, puts: Mapping[str, PutOp]) -> list[Record]:
        held = {record.id: record for record in self._collection.get(puts)} if puts else {}
        return [self._record(record_id, op, held.get(record_id)) for record_id, op in puts.items()]

    def _record(self, record_id: str, op: PutOp, held: Record | None) -> Record:
        now = self._now()
        assert op.value is not None  # it would be a deletion
        value = dumped_metadata(op.value, op.key, "item", ordered=True)
        with decoding(self.path):
            created = now if held is None else moment_of(held, "created_at").isoformat(timespec="microseconds")
        fields = self._fields if op.index is None else op.index or ()
        texts = [text for field in fields for text in get_text_at_path(json.loads(value), field) if text.strip()]
        return Record(
            id=record_id,
            text=value,
            metadata={"created_at": created, "updated_at": now},
            keys=tuple(Key(text=text) for text in dict.fromkeys(texts)),
        )

    def _now(self) -> str:
        """Return the time, always later than the last one returned: items are ordered by it."""
        with self._lock:
            self._latest = max(datetime.now(timezone.utc), self._latest + timedelta(microseconds=1))
            return self._latest.isoformat(timespec="microseconds")

    # copies

    def _arguments(self) -> dict[str, Any]:
        return {
            "path": checked_file(self.path, self),
            "embedding": self._embedding,
            "preferences": self._preferences_of or self._collection.preferences,
            "fields": self._fields,
            "steering": self._collection.steering,
            "ttl": self.ttl_config,
        }

    def _shared(self) -> tuple[object, ...]:
        return (*super()._shared(), self._items, self._embedding, self._preferences_of, self._lock)


# checks of operations


def _checked(ops: Iterable[Op]) -> list[Op]:
    asked = list(ops)
    for op in asked:
        if not isinstance(op, (GetOp, SearchOp, PutOp, ListNamespacesOp)):
            raise InvalidInputError(f"A store knows GetOp, SearchOp, PutOp and ListNamespacesOp; not {op!r}.")
        if isinstance(op, (SearchOp, ListNamespacesOp)) and not all(map(_is_count, (op.limit, op.offset))):
            raise InvalidInputError(
                f"limit and offset must be whole numbers of at least 0, not {op.limit!r} and {op.offset!r}."
            )
        if isinstance(op, SearchOp):
            if op.filter is not None and not isinstance(op.filter, Mapping):
                raise InvalidInputError(f"A filter is a mapping from keys to values, not {type(op.filter).__name__}.")
            check_filter([*(op.filter or {}).values()])
        if isinstance(getattr(op, "namespace", getattr(op, "namespace_prefix", None)), str):
            raise InvalidInputError("A namespace is a tuple of labels, such as ('users', 'anna'), not a text.")
        if isinstance(op, (GetOp, PutOp)) and not all(isinstance(label, str) for label in (*op.namespace, op.key)):
            raise InvalidInputError(f"Namespaces and keys are strings; not {op.namespace!r} and {op.key!r}.")
        if isinstance(op, PutOp):
            if op.value is not None and not isinstance(op.value, Mapping):
                raise InvalidInputError(f"The value of {op.key!r} must be a mapping, not {type(op.value).__name__}.")
            if op.ttl is not None and not is_lifetime(op.ttl):
                raise InvalidInputError(f"A time to live is a number of minutes above 0, not {op.ttl!r}.")
            if op.index is not None and op.index is not False:
                _checked_fields(op.index)
    return asked


def _is_count(number: Any) -> bool:
    return isinstance(number, Integral) and not isinstance(number, bool) and int(number) >= 0


def _checked_fields(fields: Sequence[str]) -> tuple[str, ...]:
    several = isinstance(fields, Sequence) and not isinstance(fields, str)
    if not several or not all(isinstance(field, str) and field for field in fields):
        raise InvalidInputError(f"Fields are a list of paths, such as ['text', 'facts[*]'], not {fields!r}.")
    return tuple(fields)


def _checked_ttl(ttl: Any) -> TTLConfig:
    # Earlier versions of LangGraph do not know the last one.
    known = dict.fromkeys((*TTLConfig.__annotations__, "omit_expired"))
    if not isinstance(ttl, Mapping) or not ttl.keys() <= known.keys():
        raise InvalidInputError(f"ttl is a mapping with {', '.join(known)}; not {ttl!r}.")
    for name in ("default_ttl", "sweep_interval_minutes"):
        if ttl.get(name) is not None and not is_lifetime(ttl[name]):
            raise InvalidInputError(f"{name} must be a number of minutes above 0, not {ttl[name]!r}.")
    return cast(TTLConfig, dict(ttl))


def _page(op: SearchOp | ListNamespacesOp) -> slice:
    return slice(op.offset, op.offset + op.limit)
