"""Items: the table in which each is stored once, however many entries it has, and the retry queue."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from epic_memory.errors import decoding
from epic_memory.storage.additions import Addition
from epic_memory.storage.codecs import deflated, inflated, packed, unpacked
from epic_memory.storage.memory_schema import ITEMS, PENDING
from epic_memory.storage.sqlite.database import Database, Repository
from epic_memory.types import FloatArray, Item
from epic_memory.types.digests import item_digest
from epic_memory.types.metadata import dumped_metadata
from epic_memory.types.validation import moment

ITEM_BYTES = (
    "length(CAST(items.text AS BLOB)) + length(CAST(items.metadata AS BLOB)) + 2 * length(CAST(items.id AS BLOB))"
)
"""About how many bytes the columns and the index of an item take, without its embedding, in SQL."""
_BLOCK = 256


@dataclass(frozen=True, kw_only=True)
class HeldItem:
    """An item as it is stored.

    Attributes:
        item: The item.
        digest: Digest of the version that was added.
        waits: Whether it waits in the retry queue and is not held.
    """

    item: Item
    digest: bytes
    waits: bool = False

    def is_version(self, item: Item) -> bool:
        """Tell whether an item is this one, as it was added."""
        return version_of(item) == self.digest


@dataclass(frozen=True, kw_only=True)
class TextRows:
    """Items of a namespace as columns, for its index.

    Attributes:
        rows, crcs: The row and the checksum of each.
        vectors: E(x) as it is stored, shape `(n, d)`.
        facts: Rows of those that are facts of the user.
        ends: When items expire, by row.
    """

    rows: list[int]
    crcs: list[int]
    vectors: FloatArray
    facts: set[int]
    ends: dict[int, float]


def version_of(item: Item) -> bytes:
    """Return the digest of an item; the order of the keys in its metadata does not matter."""
    metadata = dumped_metadata(item.metadata, item.id)
    marks = [f"until {item.ends!r}"] * (item.expires_at is not None) + ["fact"] * item.fact
    return item_digest(item.id, item.text, "\0".join([metadata, *marks]))


class Items(Repository):
    """Repository of the items of a memory."""

    table = "items"

    def __init__(self, db: Database, additions: Sequence[Addition]) -> None:
        super().__init__(db)
        self.additions = additions

    # writing

    def put_all(
        self, namespace: str, items: Sequence[Item], vectors: FloatArray, versions: Mapping[str, bytes] = {}
    ) -> TextRows:
        """Write items of which no other version is held, with E(x), shape `(n, d)`, and digests by id, where known."""
        for addition in self.additions:
            addition.mark(namespace, [f"item {item.id}" for item in items], gone=False)
        codes = packed(vectors, small=True)
        columns = [
            _columns(namespace, item, code, versions.get(item.id) or version_of(item))
            for item, code in zip(items, codes, strict=True)
        ]
        rows, crcs = self.db.insert_all(ITEMS, columns)
        return TextRows(
            rows=rows,
            crcs=crcs,
            vectors=unpacked(codes, vectors.shape[1]),
            facts={row for row, item in zip(rows, items, strict=True) if item.fact},
            ends={row: item.ends for row, item in zip(rows, items, strict=True) if item.expires_at is not None},
        )

    def remove(self, namespace: str, ids: Sequence[str], *, waiting: bool = True, marked: str = "") -> None:
        """Remove items with their entries and what additions hold of them, and with `waiting` from the retry queue.

        For merges they can be `marked` as forgotten ("item"), or as replaced by another version ("version").
        """
        if not ids:
            return
        found = list(self.rows_of(namespace, ids).values())
        for addition in self.additions:
            if marked:
                addition.mark(namespace, [f"{marked} {key}" for key in ids], gone=True if marked == "item" else None)
            addition.leave(found)
        for table in ("items", "pending") if waiting else ("items",):
            self.delete_ids(namespace, ids, table=table)

    # reading

    def known(self, namespace: str, ids: Sequence[str], *, waiting: bool = True) -> dict[str, HeldItem]:
        """Return id to item, for ids that are held or wait; held items take precedence over waiting.

        Without `waiting` only those that are held.
        """
        return {one.item.id: one for one in self._versions(namespace, ids, waiting=waiting)}

    def _versions(self, namespace: str, ids: Sequence[str], *, waiting: bool = True) -> list[HeldItem]:
        """Return the items with these ids, first those that wait, then those that are held."""
        mine = "WHERE namespace = ? AND id IN"
        with decoding(self.db.path):
            pending = [_item(row) for row in self.db.rows(PENDING, mine, namespace, among=ids)] if waiting else []
            found = [HeldItem(item=item, digest=version_of(item), waits=True) for item in pending]
            return found + [_held(row) for row in self.db.rows(ITEMS, mine, namespace, among=ids)]

    def is_current(self, namespace: str, item: Item) -> bool:
        """Tell whether exactly this version of an item is held, or waits in the retry queue."""
        return any(one.is_version(item) for one in self._versions(namespace, [item.id]))

    def ids(self, namespace: str) -> dict[int, str]:
        """Return row to id, for the items of a namespace, oldest first."""
        found = self.db.read("SELECT row, id FROM items WHERE namespace = ? ORDER BY row", (namespace,))
        return {int(row): str(item_id) for row, item_id in found}

    def all(self, namespace: str) -> Iterator[Item]:
        """Yield all held items, oldest first, read in blocks."""
        for _, held in self.held(namespace):
            yield held.item

    def held(self, namespace: str) -> Iterator[tuple[int, HeldItem]]:
        """Yield rows and items as they are stored, oldest first, read in blocks."""
        last = 0
        # The plus keeps SQLite from sorting the whole namespace for each block.
        while rows := self.db.rows(
            ITEMS, "WHERE +namespace = ? AND row > ? ORDER BY row LIMIT ?", namespace, last, _BLOCK
        ):
            with decoding(self.db.path):
                block = [(int(row["row"]), _held(row)) for row in rows]
            yield from block
            last = block[-1][0]

    def held_at(self, rows: Sequence[int]) -> dict[int, HeldItem]:
        """Return item row to item as it is stored."""
        with decoding(self.db.path):
            return {int(row["row"]): _held(row) for row in self.db.rows(ITEMS, "WHERE row IN", among=rows)}

    def at(self, rows: Sequence[int]) -> dict[int, Item]:
        """Return item row to item."""
        return {row: held.item for row, held in self.held_at(rows).items()}

    def present(self, rows: Sequence[int]) -> set[int]:
        """Return those of the rows that are held."""
        return {int(row) for (row,) in self.db.read("SELECT row FROM items WHERE row IN", among=rows)}

    def metadata(self, namespace: str) -> list[tuple[int, dict[str, Any]]]:
        """Return item row and metadata of every held item."""
        with decoding(self.db.path):
            return [
                (int(row["row"]), dict(json.loads(row["metadata"])))
                for row in self.db.rows(ITEMS, "WHERE namespace = ?", namespace, texts=False)
            ]

    def versions(self, namespace: str) -> dict[int, int]:
        """Return row to the checksum of the text, of all items but the facts of the user."""
        sql = "SELECT row, text_crc FROM items WHERE namespace = ? AND NOT fact ORDER BY row"
        return dict(self.db.read(sql, (namespace,)))

    def text_crcs(self, namespace: str) -> dict[int, int]:
        """Return row to checksum, for the items of a namespace."""
        return dict(self.db.read("SELECT row, crc FROM items WHERE namespace = ?", (namespace,)))

    def marks(self, namespace: str) -> tuple[set[int], dict[int, float]]:
        """Return the rows of the facts of a namespace, and the times at which items expire, by their rows."""
        marked = "WHERE namespace = ? AND (fact OR expires IS NOT NULL)"
        found = self.db.rows(ITEMS, marked, namespace, texts=False)
        ends = {int(row["row"]): float(row["expires"]) for row in found if row["expires"] is not None}
        return {int(row["row"]) for row in found if row["fact"]}, ends

    def texts(
        self, namespace: str, dimension: int, rows: Sequence[int] | None = None
    ) -> tuple[list[int], FloatArray, list[int]]:
        """Return the rows of all or some items, their E(x), shape `(n, d)`, and their checksums."""
        where = ("WHERE namespace = ?", namespace) if rows is None else ("WHERE row IN",)
        items, codes, crcs = self.db.columns(ITEMS, ("row", "embedding", "crc"), *where, among=rows)
        with decoding(self.db.path):
            return items, unpacked(codes, dimension), crcs

    # chunks of documents

    def chunks_from(self, namespace: str, firsts: Mapping[str, int], *, waiting: bool = True) -> list[str]:
        """Return the ids of documents' held chunks with numbers from `firsts` on, and of documents held whole.

        A document itself is returned only if its first number is above 0. Without `waiting`, the retry queue, in which
        they may wait, is not looked through.
        """
        found: list[str] = []
        for table in ("items", "pending") if waiting else ("items",):
            # '$' follows '#', so the index on ids finds a document's chunks without reading others.
            rows = self.db.read(
                f"SELECT value, held.id, metadata FROM json_each(?) CROSS JOIN {table} held ON namespace = ? AND"
                " (held.id > value || '#' AND held.id < value || '$' OR held.id = value)",
                (json.dumps(list(firsts)), namespace),
            )
            for document, item_id, metadata in rows:
                if item_id == document:
                    found += [item_id] if firsts[document] else []
                    continue
                with decoding(self.db.path):
                    number = json.loads(metadata).get("chunk")
                # A user's own id may look like a chunk's.
                if isinstance(number, int) and number >= firsts[document] and item_id == f"{document}#{number}":
                    found.append(item_id)
        return found

    # the light tier, and sizes

    def light_rows(self, namespace: str) -> list[int]:
        """Return the rows of the items of the light tier, oldest first.

        The tables are read without their indexes: an item whose entries an index has lost to a changed byte must not
        count as light.
        """
        held = {item for (item,) in self.db.read("SELECT item FROM entries NOT INDEXED")}
        held |= self.marks(namespace)[0]
        sql = "SELECT row FROM items NOT INDEXED WHERE namespace = ? ORDER BY row"
        return [int(row) for (row,) in self.db.read(sql, (namespace,)) if row not in held]

    def light_sizes(self, rows: Sequence[int]) -> dict[int, int]:
        """Return about how many bytes of the file items take, without their entries."""
        size = f"{ITEM_BYTES} + length(embedding) + 160"
        return dict(self.db.read(f"SELECT row, {size} FROM items WHERE row IN", among=rows))

    def raw_bytes(self) -> int:
        """Return about how many bytes of the file all items and entries take, in every namespace."""
        items = f"SELECT sum({ITEM_BYTES} + length(embedding) + 120) FROM items"
        texts = "length(CAST(instruction AS BLOB)) + length(CAST(rationale AS BLOB))"
        entries = f"SELECT sum(length(vector) + {texts} + 120) FROM entries"
        return int(self.db.scalar(items) or 0) + int(self.db.scalar(entries) or 0)


class RetryQueue(Repository):
    """Repository of the undecided items, which wait to be verified again."""

    table = "pending"

    def put(self, namespace: str, item: Item, reason: str, preferences: Sequence[str]) -> None:
        """Add an undecided item to the retry queue, with the ids of the preferences to verify it under."""
        known = [key for _, _, keys in self._pending("namespace = ? AND id = ?", namespace, item.id) for key in keys]
        self.db.insert(
            PENDING,
            namespace=namespace,
            id=item.id,
            text=deflated(item.text),
            metadata=dumped_metadata(item.metadata, item.id, ordered=True),
            reason=reason,
            preferences=json.dumps(list(dict.fromkeys([*known, *preferences]))),
            expires=None if item.expires_at is None else item.ends,
        )

    def rows(self, namespace: str) -> set[int]:
        """Return the rows of the held items that wait."""
        sql = "SELECT items.row FROM pending JOIN items USING (namespace, id) WHERE namespace = ?"
        return {row for (row,) in self.db.read(sql, (namespace,))}

    def waiting(self, namespace: str) -> list[tuple[Item, str, list[str]]]:
        """Return the retry queue, oldest first: item, reason, ids of its preferences."""
        return self._pending("namespace = ? ORDER BY row", namespace)

    def _pending(self, where: str, *values: str) -> list[tuple[Item, str, list[str]]]:
        with decoding(self.db.path):
            return [
                (_item(row), str(row["reason"]), list(json.loads(row["preferences"])))
                for row in self.db.rows(PENDING, f"WHERE {where}", *values)
            ]

    def stop_waiting_for(self, namespace: str, preference_id: str) -> None:
        """Remove a preference from the retry queue, and replace the reasons, which may name it."""
        sql = "SELECT row, preferences FROM pending WHERE namespace = ? AND instr(preferences, ?)"
        for row, waiting in self.db.read(sql, (namespace, json.dumps(preference_id))):
            left = json.dumps([other for other in json.loads(waiting) if other != preference_id])
            reason = "it is to be verified under the preferences that are held now"
            self.db.update(PENDING, row, preferences=left, reason=reason)


def _columns(namespace: str, item: Item, code: bytes, version: bytes) -> dict[str, Any]:
    return {
        "namespace": namespace,
        "id": item.id,
        "digest": version,
        "metadata": dumped_metadata(item.metadata, item.id, ordered=True),
        "embedding": code,
        "fact": int(item.fact),
        "expires": None if item.expires_at is None else item.ends,
        "text": deflated(item.text),
    }


def _item(row: sqlite3.Row, *, fact: bool = False) -> Item:
    ends = None if row["expires"] is None else moment(row["expires"])
    return Item(
        id=row["id"], text=inflated(row["text"]), metadata=dict(json.loads(row["metadata"])), expires_at=ends, fact=fact
    )


def _held(row: sqlite3.Row) -> HeldItem:
    return HeldItem(item=_item(row, fact=bool(row["fact"])), digest=row["digest"])
