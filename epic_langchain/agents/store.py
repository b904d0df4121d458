"""LangGraph store in one durable file, whose searches follow the user's preferences."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from datetime import datetime, timedelta, timezone
from numbers import Integral
from pathlib import Path
from typing import Any, TypeAlias

from langchain_core.embeddings import Embeddings
from langgraph.store.base import (
    BaseStore,
    GetOp,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    get_text_at_path,
)

from epic_langchain.models import encoder_of
from epic_memory import Preference
from epic_memory.encoders import Encoder
from epic_memory.errors import InvalidInputError, decoding
from epic_memory.runtime.effects import Call, Effects, arun, run
from epic_memory.steering import Mode
from epic_memory.types.metadata import dumped_metadata
from epic_plugins.collection import Collection, Key, Matches, Record
from epic_plugins.collection.file import OpenCollection
from epic_plugins.wrong_arguments import explained

Namespace: TypeAlias = tuple[str, ...]
PreferencesOf: TypeAlias = Callable[[Namespace], Iterable[str | Preference]]
"""Function from the namespace prefix that is searched to the preferences that steer the search."""


_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "$eq": lambda value, operand: bool(value == operand),
    "$ne": lambda value, operand: bool(value != operand),
    "$gt": lambda value, operand: float(value) > float(operand),
    "$gte": lambda value, operand: float(value) >= float(operand),
    "$lt": lambda value, operand: float(value) < float(operand),
    "$lte": lambda value, operand: float(value) <= float(operand),
}


@explained(index="What other stores take in it are embedding= and fields= here.")
class EpicStore(OpenCollection, BaseStore):
    """A store for LangGraph's agents: in one file or in RAM, searched by meaning, steered by preferences.

        store = EpicStore("agent.store", preferences=["I follow a strict vegan diet."])
        store.put(("users", "anna"), "dinner", {"text": "She cooked a lentil stew."})
        store.search(("users",), query="What should I cook tonight?", limit=3)
        agent = create_agent(model, tools, store=store)

    It behaves like LangGraph's `InMemoryStore` with an index. Where that store leaves something open: searches without
    a query return the oldest items first; `created_at` stays when an item is put again; only namespaces that hold items
    are listed; a value that a `$gt`, `$gte`, `$lt` or `$lte` cannot compare does not satisfy it; items without an
    embedding come after all items that have one, page after page. Items that are read are copies. A batch reads before
    it writes; its puts are written together, and so are its deletions. As `InMemoryStore`, it knows no time to live.

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

    Raises:
        InvalidInputError: if an argument is invalid; on use, for values that are not JSON, filters with unknown
            operators, a limit or an offset below 0.
        StoreError: if the file cannot be opened, or is not one of epic-memory.
        DamagedError: on use, if the file holds data that no EpicStore writes.
        EncoderMismatchError: if it was made with another embedding model; at the first use, if checking needs a call to
            the model.
    """

    def __init__(
        self,
        path: str | Path | None = None,
        *,
        embedding: Embeddings | Encoder | str | None = None,
        preferences: Iterable[str | Preference] | PreferencesOf = (),
        fields: Sequence[str] = ("$",),
        steering: Mode = "signed",
    ) -> None:
        self._fields = _checked_fields(fields)
        self._preferences_of = preferences if callable(preferences) else None
        self._collection = Collection(
            encoder_of(embedding),
            path,
            preferences=() if callable(preferences) else preferences,
            steering=steering,
            namespace="items",
        )
        self._latest = datetime.min.replace(tzinfo=timezone.utc)
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
        results: list[Result] = [self._read(op) for op in asked]
        for place, op in enumerate(asked):
            if isinstance(op, SearchOp) and op.query:
                search = self._search(op)
                found: Matches = yield Call(self._collection.search, self._collection.asearch, **search)
                results[place] = self._found(op, found)
        # Of several operations on an item the last counts.
        puts = {_id_of(op.namespace, op.key): op for op in asked if isinstance(op, PutOp)}
        records = self._records({record_id: op for record_id, op in puts.items() if op.value is not None})
        if records:
            yield Call(self._collection.add, self._collection.aadd, records)
        gone = [record_id for record_id, op in puts.items() if op.value is None]
        if gone:
            self._collection.delete(gone)
        return results

    # reading

    def _read(self, op: Op) -> Result:
        """Return the result of an operation that needs no embedding; None for the others."""
        if isinstance(op, GetOp):
            found = self._items(self._collection.get([_id_of(op.namespace, op.key)]))
            return found[0] if found else None
        if isinstance(op, SearchOp) and not op.query:
            return self._listed(op)[_page(op)]
        return self._namespaces(op) if isinstance(op, ListNamespacesOp) else None

    def _items(self, records: Iterable[Record]) -> list[SearchItem]:
        """Return the items of records; damage is reported with the file's path."""
        with decoding(self.path):
            return list(map(_item_of, records))

    def _places(self) -> dict[str, Namespace]:
        """Return the namespace of each item by the id of its record."""
        with decoding(self.path):
            return {record_id: _place_of(record_id)[0] for record_id in self._collection.ids()}

    def _under(self, prefix: Sequence[str]) -> list[str]:
        """Return the ids of the items under a prefix."""
        wanted = tuple(prefix)
        return [record_id for record_id, place in self._places().items() if place[: len(wanted)] == wanted]

    def _listed(self, op: SearchOp, without: Set[str] = frozenset()) -> list[SearchItem]:
        """Return the items under the prefix of a search that satisfy its filter, oldest first."""
        ids = [record_id for record_id in self._under(op.namespace_prefix) if record_id not in without]
        found = [item for item in self._items(self._collection.get(ids)) if _passes(item.value, op)]
        return sorted(found, key=lambda item: item.created_at)

    def _search(self, op: SearchOp) -> dict[str, Any]:
        """Return the arguments of the collection's search."""
        ids = self._under(op.namespace_prefix)
        # The filter is applied to the matches afterwards, so with a filter all records have to be found.
        search: dict[str, Any] = {"query": op.query, "ids": ids}
        search["k"] = max(1, len(ids) if op.filter else op.offset + op.limit)
        if self._preferences_of is not None:
            search["preferences"] = self._preferences_of(tuple(op.namespace_prefix))
        return search

    def _found(self, op: SearchOp, matched: Matches) -> list[SearchItem]:
        """Return the page of a search: the matches, then items without an embedding."""
        with decoding(self.path):
            best = [_item_of(match.record, match.score) for match in matched]
        found = [item for item in best if _passes(item.value, op)]
        if len(found) < op.offset + op.limit:
            found += self._listed(op, {match.record.id for match in matched})
        return found[_page(op)]

    def _namespaces(self, op: ListNamespacesOp) -> list[Namespace]:
        names = dict.fromkeys(self._places().values())
        if op.match_conditions:
            names = dict.fromkeys(name for name in names if all(_matches(name, one) for one in op.match_conditions))
        if op.max_depth is not None:
            names = dict.fromkeys(name[: op.max_depth] for name in names)
        return sorted(names)[_page(op)]

    # writing

    def _records(self, puts: Mapping[str, PutOp]) -> list[Record]:
        held = {record.id: record for record in self._collection.get(puts)} if puts else {}
        return [self._record(record_id, op, held.get(record_id)) for record_id, op in puts.items()]

    def _record(self, record_id: str, op: PutOp, held: Record | None) -> Record:
        now = self._now()
        assert op.value is not None  # it would be a deletion
        value = dumped_metadata(op.value, op.key, "item", ordered=True)
        with decoding(self.path):
            created = now if held is None else _moment_of(held, "created_at").isoformat(timespec="microseconds")
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
            _check_filter([*(op.filter or {}).values()])
        if isinstance(getattr(op, "namespace", getattr(op, "namespace_prefix", None)), str):
            raise InvalidInputError("A namespace is a tuple of labels, such as ('users', 'anna'), not a text.")
        if isinstance(op, (GetOp, PutOp)) and not all(isinstance(label, str) for label in (*op.namespace, op.key)):
            raise InvalidInputError(f"Namespaces and keys are strings; not {op.namespace!r} and {op.key!r}.")
        if isinstance(op, PutOp):
            if op.value is not None and not isinstance(op.value, Mapping):
                raise InvalidInputError(f"The value of {op.key!r} must be a mapping, not {type(op.value).__name__}.")
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


def _page(op: SearchOp | ListNamespacesOp) -> slice:
    return slice(op.offset, op.offset + op.limit)


# items as records of the collection


def _id_of(namespace: Sequence[str], key: str) -> str:
    """Return the id of an item's record."""
    return json.dumps([*namespace, key])


def _place_of(record_id: str) -> tuple[Namespace, str]:
    """Return the namespace and the key of an item; raise a ValueError if it is no item's id."""
    labels = json.loads(record_id)
    if not isinstance(labels, list) or not labels or not all(isinstance(label, str) for label in labels):
        raise ValueError(f"{record_id!r} is no item's id")
    return tuple(labels[:-1]), labels[-1]


def _item_of(record: Record, score: float | None = None) -> SearchItem:
    """Return a new copy of the item of a record; raise a ValueError if no store wrote it so."""
    namespace, key = _place_of(record.id)
    value = json.loads(record.text)
    if not isinstance(value, dict):
        raise ValueError(f"the item {record.id!r} has no value")
    created, updated = (_moment_of(record, name) for name in ("created_at", "updated_at"))
    return SearchItem(namespace, key, value, created, updated, score)


def _moment_of(record: Record, name: str) -> datetime:
    """Return a time in a record's metadata; raise a ValueError if there is none."""
    text = record.metadata.get(name)
    moment = datetime.fromisoformat(text) if isinstance(text, str) else None
    if moment is None or moment.tzinfo is None:
        raise ValueError(f"the item {record.id!r} does not say when it was written")
    return moment


# filters of a search


def _check_filter(condition: Any) -> None:
    """Refuse unknown operators in a filter, or in a part of one."""
    if isinstance(condition, (list, tuple)):
        for part in condition:
            _check_filter(part)
    elif isinstance(condition, Mapping) and _has_operators(condition):
        for name in condition:
            if name not in _OPERATORS:
                raise InvalidInputError(f"A filter knows {', '.join(_OPERATORS)}; not {name!r}.")
    elif isinstance(condition, Mapping):
        _check_filter(list(condition.values()))


def _passes(value: Mapping[str, Any], op: SearchOp) -> bool:
    """Tell whether the value of an item satisfies the filter of a search."""
    return all(_satisfies(value.get(key), condition) for key, condition in (op.filter or {}).items())


def _matches(namespace: Namespace, condition: MatchCondition) -> bool:
    """Tell whether a namespace begins or ends with a path, in which "*" matches any label."""
    path = tuple(condition.path)
    if condition.match_type not in ("prefix", "suffix"):
        raise InvalidInputError(f"Namespaces are matched by 'prefix' or 'suffix', not {condition.match_type!r}.")
    start = 0 if condition.match_type == "prefix" else len(namespace) - len(path)
    return len(path) <= len(namespace) and all(
        wanted in ("*", label) for label, wanted in zip(namespace[start:], path, strict=False)
    )


def _has_operators(condition: Mapping[Any, Any]) -> bool:
    return any(str(name).startswith("$") for name in condition)


def _satisfies(value: Any, condition: Any) -> bool:
    """Tell whether a value satisfies a filter: by equality, part by part, or by operators."""
    if isinstance(condition, Mapping):
        if _has_operators(condition):
            return all(_holds(value, name, operand) for name, operand in condition.items())
        return isinstance(value, Mapping) and all(_satisfies(value.get(name), part) for name, part in condition.items())
    if isinstance(condition, (list, tuple)):
        return isinstance(value, list) and len(value) == len(condition) and all(map(_satisfies, value, condition))
    return bool(value == condition)


def _holds(value: Any, name: str, operand: Any) -> bool:
    try:
        return _OPERATORS[name](value, operand)
    except (TypeError, ValueError):
        return False
