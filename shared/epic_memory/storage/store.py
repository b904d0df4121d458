"""Store of a memory: one file, a repository for each table, and operations on several tables."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from epic_memory.errors import StoreError, decoding
from epic_memory.storage.additions import additions, memory_schema
from epic_memory.storage.codecs import inflated, packed
from epic_memory.storage.memory_schema import ENTRIES, ITEMS, PREFERENCES
from epic_memory.storage.mentions import Mentions
from epic_memory.storage.sqlite.database import Database, Repository
from epic_memory.storage.sqlite.tables import Table
from epic_memory.storage.tables.entries import Entries
from epic_memory.storage.tables.items import Items, RetryQueue
from epic_memory.storage.tables.preferences import Preferences
from epic_memory.storage.tables.seen import Seen
from epic_memory.storage.tables.verdicts import Verdicts
from epic_memory.types import FloatArray, Preference
from epic_memory.types.items import content_of, searched_of

Contents: TypeAlias = dict[str, tuple[int, int, int]]


class Store(Database):
    """A memory's file. It is opened as a `Database` is.

    Attributes:
        preferences, items, entries, verdicts, retry_queue, seen: The repositories of its tables.
        additions: Those of other packages' tables.
        apart: The tables on which no search depends.
    """

    make_schema = staticmethod(memory_schema)

    def __init__(self, path: str | Path | None, **how: Any) -> None:
        self.schema = self.make_schema()
        self.additions = tuple(made(self) for made in additions())
        self.apart = {"not_kept", *(name for one in self.additions if not one.is_searched for name in one.tables)}
        self.items = Items(self, self.additions)
        self.preferences = Preferences(self, self.additions)
        self.entries = Entries(self, self.items, self.preferences)
        self.verdicts = Verdicts(self)
        self.retry_queue = RetryQueue(self)
        self.seen = Seen(self, self.verdicts)
        own = [one for one in self.additions if "expires" in self.schema.tables[one.table].checked]
        self._expiring: list[Repository] = [self.retry_queue, *own]
        one = "SELECT 1 FROM {} WHERE namespace = ?1 AND expires <= ?2"
        self._expired = " UNION ALL ".join(one.format(each.table) for each in self._expiring) + " LIMIT 1"
        super().__init__(path, **how)

    def take_out(self, namespace: str, row: int, preference_id: str) -> tuple[int, list[int]]:
        """Remove a preference with its entries, and what mentions it; return its position and the items it held."""
        position, text = self.read("SELECT position, text FROM preferences WHERE row = ?", (row,))[0]
        items = self.entries.items_under(row)
        self.preferences.delete_rows([row])
        self.verdicts.forget_preference(namespace, Preference(id=preference_id, text=text))
        self.retry_queue.stop_waiting_for(namespace, preference_id)
        self.seen.forget_records(namespace, preference=row)
        self.forget(namespace, (), [text])
        staying = [other for (other,) in self.read("SELECT text FROM preferences WHERE namespace = ?", (namespace,))]
        mentions = Mentions(text, staying)
        self.entries.forget_mentions(namespace, mentions)
        self.seen.forget_mentions(namespace, mentions)
        self.verdicts.forget_mentions(namespace, mentions, staying, (item.text for item in self.items.all(namespace)))
        return int(position), items

    def drop_orphans(self, items: Sequence[int], *, keep_texts: bool = False) -> None:
        """Remove those of the items that have no entries; or keep them in the light tier."""
        held = "NOT EXISTS (SELECT 1 FROM entries WHERE item = items.row)"
        orphans = [row for (row,) in self.read(f"SELECT row FROM items WHERE {held} AND row IN", among=items)]
        for addition in self.additions:
            addition.leave(orphans)
        if not keep_texts:
            self.items.delete_rows(orphans)

    def forget(self, namespace: str, ids: Sequence[str], texts: Sequence[str]) -> None:
        """Have the additions remove what names forgotten items, or preferences."""
        for addition in self.additions:
            addition.forget(namespace, ids, texts)

    def texts_of(self, namespace: str, ids: Sequence[str]) -> dict[str, str]:
        """Return id to text, for those of the ids whose texts additions keep."""
        return {key: text for each in self.additions for key, text in each.texts_of(namespace, ids).items()}

    def set_preference(self, namespace: str, preference: Preference, vector: FloatArray) -> None:
        """Update a held preference's text, embedding and time of expiry."""
        row = self.preferences.row(namespace, preference.id)
        if row is not None:
            entries = self.entries.texts_under(row)
            self.preferences.write(row, preference, vector)
            self.entries.compress_anew(entries)

    def has_expired(self, namespace: str) -> bool:
        """Tell whether an item of the retry queue or a row of an addition has expired."""
        return self.scalar(self._expired, (namespace, time.time())) is not None

    def drop_expired(self, namespace: str) -> None:
        """Remove the items of the retry queue and the rows of additions that have expired."""
        for expiring in self._expiring:
            expiring.drop_expired(namespace)

    def namespaces(self) -> list[str]:
        """Return every namespace that holds something, sorted."""
        tables = ("preferences", "items", "pending", *(one.table for one in self.additions if one.is_listed))
        rows = self.read(" UNION ".join(f"SELECT namespace FROM {table}" for table in tables))
        return sorted(namespace for (namespace,) in rows)

    def embedded_texts(self) -> dict[Table, dict[int, str]]:
        """Return the text of every stored embedding of a memory, by table and row.

        Raises:
            StoreError: if there are embeddings of an addition, whose texts are not known.
        """
        vectors = [name for one in self.additions for name, table in one.tables.items() if "vector" in table.checked]
        if any(self.scalar(f"SELECT 1 FROM {name} LIMIT 1") for name in vectors):
            raise StoreError(
                f"{self.path} holds a vector store, which cannot be embedded anew. Make it again elsewhere."
            )
        with decoding(self.path):
            items = {
                row: (inflated(text), json.loads(metadata))
                for row, text, metadata in self.read("SELECT row, text, metadata FROM items")
            }
            contents = {row: content_of(text, metadata) for row, (text, metadata) in items.items()}
            searched = {row: searched_of(text, metadata) for row, (text, metadata) in items.items()}
            preferences = dict(self.read("SELECT row, text FROM preferences"))
            entries = {
                row: inflated(instruction, items[item][0], preferences.get(preference, "")) or contents[item]
                for row, item, preference, instruction in self.read(
                    "SELECT row, item, preference, instruction FROM entries"
                )
            }
        return {PREFERENCES: preferences, ENTRIES: entries, ITEMS: searched}

    def replace_vectors(self, vectors: Mapping[Table, Mapping[int, FloatArray]]) -> None:
        """Replace the stored embeddings: by table, row to vector."""
        for table, new in vectors.items():
            codes = packed(np.stack(list(new.values())), small=table is ITEMS) if new else []
            for row, code in zip(new, codes, strict=True):
                self.update(table, row, **{"embedding" if table is ITEMS else "vector": code})

    def counts(self, namespace: str) -> dict[str, int]:
        """Count items, facts, light items, entries, preferences, pending items, verdicts and items in the ledger."""
        light = len(self.items.light_rows(namespace))
        facts = len(self.items.marks(namespace)[0])
        return {
            "items": self.items.count(namespace) - light - facts,
            "facts": facts,
            "light": light,
            "entries": self.entries.count(namespace),
            "preferences": self.preferences.count(namespace),
            "pending": self.retry_queue.count(namespace),
            "verdicts": self.verdicts.total(),
            "seen": self.seen.count(namespace),
        }

    def sums(self) -> tuple[tuple[str, int, int, int], ...]:
        """Return the `contents` of the tables on which searches depend."""
        return tuple((name, *found) for name, found in self.contents().items() if name not in self.apart)

    def contents(self) -> Contents:
        """Return row count, sum of checksums and highest row by table: if equal, the contents are equal."""
        sql = (
            "SELECT sums.name, rows, total, coalesce(seq, 0) FROM sums"
            " LEFT JOIN sqlite_sequence ON sqlite_sequence.name = sums.name ORDER BY 1"
        )
        return {name: (rows, total, last) for name, rows, total, last in self.read(sql)}

    def holds_anything(self) -> bool:
        """Tell whether there is any row besides the description."""
        return bool(self.scalar("SELECT sum(rows) FROM sums WHERE name != 'meta'"))
