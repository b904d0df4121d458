"""The items of a LangGraph store in RAM, by their namespaces and in the order of their age."""

from __future__ import annotations

import threading
from collections.abc import Collection as Several
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from itertools import islice
from typing import Any

from langgraph.store.base import SearchItem, SearchOp

from epic_langchain.agents.items import (
    Lifetime,
    Namespace,
    is_item,
    item_id,
    lifetime_of,
    moment_of,
    passes,
    place_of,
    value_of,
)
from epic_memory.collection import Collection, Record
from epic_memory.errors import decoding


@dataclass
class Held:
    """An item as it is held: its record, and what a filter reads of it."""

    namespace: Namespace
    key: str
    record: Record

    @cached_property
    def value(self) -> dict[str, Any]:
        """Its value, decoded once, and not to be given away."""
        return value_of(self.record)

    @cached_property
    def times(self) -> tuple[datetime, datetime]:
        """Times at which it was created and last updated."""
        return moment_of(self.record, "created_at"), moment_of(self.record, "updated_at")

    def found(self) -> SearchItem:
        """Return a copy of the item, as a search returns it."""
        return SearchItem(self.namespace, self.key, value_of(self.record), *self.times)


class HeldItems:
    """The items of a collection, as it is at each call; thread-safe. Nothing else may ask the collection for news."""

    def __init__(self, collection: Collection) -> None:
        self._collection = collection
        self._lock = threading.Lock()
        # By id, oldest first.
        self._items: dict[str, Held] = {}
        self._lifetimes: dict[str, Lifetime] = {}
        # What is not entered yet.
        self._news: dict[str, Record | None] = {}

    def search(self, op: SearchOp, without: Several[str], begin: int, end: int) -> list[SearchItem]:
        """Return items under the prefix of a search that satisfy its filter, oldest first, without those left out."""
        with self._current():
            under = self._under(op.namespace_prefix)
            allowed = (held for held in under if held.record.id not in without)
            fitting = (held for held in allowed if not op.filter or passes(held.value, op))
            return [held.found() for held in islice(fitting, begin, end)]

    def ids(self, prefix: Sequence[str]) -> list[str]:
        """Return the ids of the items under a prefix."""
        with self._current():
            return [held.record.id for held in self._under(prefix)]

    def namespaces(self, without: Several[str]) -> list[Namespace]:
        """Return the namespaces that hold an item other than those left out."""
        with self._current():
            return list({held.namespace: None for held in self._items.values() if held.record.id not in without})

    def lifetimes(self, ids: Iterable[str] | None = None) -> dict[str, Lifetime]:
        """Return the lifetimes of those of some items, or of all, that have one."""
        with self._current():
            if ids is None or not self._lifetimes:
                return dict(self._lifetimes)
            return {one: self._lifetimes[one] for one in ids if one in self._lifetimes}

    def _under(self, prefix: Sequence[str]) -> Iterator[Held]:
        wanted = tuple(prefix)
        return (held for held in self._items.values() if held.namespace[: len(wanted)] == wanted)

    @contextmanager
    def _current(self) -> Iterator[None]:
        """Hold the items of the collection's current state; what is damaged is reported with the file's path."""
        with self._lock, decoding(self._collection.path):
            everything, news = self._collection.news()
            if everything:
                self._items, self._lifetimes, self._news = {}, {}, {}
            self._news |= news
            for record_id, record in self._news.items():
                self._enter(record_id, record)
            if self._news:  # an item that is put again keeps its place
                self._items = dict(sorted(self._items.items(), key=lambda pair: _age(pair[1])))
            # Not before: after an error they are to be entered again.
            self._news = {}
            yield

    def _enter(self, record_id: str, record: Record | None) -> None:
        if not is_item(record_id):
            self._lifetimes.pop(item_id(record_id), None)
            if record is not None and (lifetime := lifetime_of(record)):
                self._lifetimes.update([lifetime])
            return
        namespace, key = place_of(record_id)
        if record is None:
            self._items.pop(record_id, None)
        else:
            self._items[record_id] = Held(namespace, key, record)


def _age(held: Held) -> str:
    # ISO 8601 texts of one form sort in the order of their times.
    return str(held.record.metadata.get("created_at"))
