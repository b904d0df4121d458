"""Items: the table in which each is stored once, however many entries it has; long texts are compressed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from epic_core.errors import decoding
from epic_core.storage.memory_schema import ITEMS
from epic_core.storage.row_codec import deflated, inflated
from epic_core.storage.sqlite.database import Database
from epic_core.storage.tables.graph import Graph
from epic_core.storage.tables.repository import Repository
from epic_core.storage.vector_codec import packed, unpacked
from epic_core.types import FloatArray, Item
from epic_core.types.digests import item_digest
from epic_core.types.metadata import dumped_metadata

_ITEM = ", ".join(f"i.{name}" for name in (*ITEMS.checked, "crc", *ITEMS.texts, "text_crc"))
_BLOCK = 256


@dataclass(frozen=True, kw_only=True)
class HeldItem:
    """An item as it is stored.

    Attributes:
        item: The item; its text may have been shortened.
        rewrite: x^, or empty.
        digest: Digest of the version that was added.
    """

    item: Item
    rewrite: str
    digest: bytes


@dataclass(frozen=True, kw_only=True)
class Known:
    """The stored state of an item's id.

    Attributes:
        text: The stored text.
        digest: Digest of the version that was added.
        stored: Digest of the version that is stored, which may be shorter.
        state: Whether it is held or waits in the retry queue.
    """

    text: str
    digest: bytes
    stored: bytes
    state: Literal["held", "pending"]

    def is_version(self, item: Item) -> bool:
        """Tell whether an item is this one, as it was added or as it is stored now."""
        return version_of(item) in (self.digest, self.stored)


def version_of(item: Item) -> bytes:
    """Return the digest of an item; the order of the keys in its metadata does not matter."""
    return item_digest(item.id, item.text, dumped_metadata(item.metadata, item.id))


def _version(item_id: str, text: str | bytes, metadata: str) -> bytes:
    """Return the digest of an item from the columns in which it is stored."""
    return item_digest(item_id, inflated(text), dumped_metadata(json.loads(metadata), item_id))


class Items(Repository):
    """Repository of the items of a memory."""

    def __init__(self, db: Database, graph: Graph) -> None:
        super().__init__(db)
        self.graph = graph

    def known(self, namespace: str, ids: Sequence[str]) -> dict[str, Known]:
        """Return id to its stored state, for ids that are held or wait; held items take precedence over waiting."""
        known: dict[str, Known] = {}
        with decoding(self.path):
            for item_id, stored, metadata in self.db.among(
                "SELECT id, text, metadata FROM pending WHERE namespace = ? AND id IN", ids, namespace
            ):
                version = _version(item_id, stored, metadata)
                known[item_id] = Known(text=inflated(stored), digest=version, stored=version, state="pending")
            for row in self.db.among(f"SELECT {_ITEM} FROM items i WHERE namespace = ? AND id IN", ids, namespace):
                held = self._held_item(row)
                known[held.item.id] = Known(
                    text=held.item.text, digest=held.digest, stored=version_of(held.item), state="held"
                )
        return known

    def _held_item(self, row: Sequence[Any]) -> HeldItem:
        *checked, crc, text, rewrite, text_crc = row
        ITEMS.verify(self.path, crc, *checked)
        ITEMS.verify(self.path, text_crc, text, rewrite)
        _, item_id, version, metadata, _, _ = checked
        return HeldItem(
            item=Item(id=item_id, text=inflated(text), metadata=json.loads(metadata)),
            rewrite="" if rewrite is None else inflated(rewrite),
            digest=version,
        )

    def is_current(self, namespace: str, item: Item) -> bool:
        """Tell whether exactly this version of an item is held, or waits in the retry queue."""
        waiting = self.db.read(
            "SELECT text, metadata FROM pending WHERE namespace = ? AND id = ?", (namespace, item.id)
        )
        known = self.known(namespace, [item.id]).get(item.id)
        with decoding(self.path):
            waits = any(_version(item.id, *columns) == version_of(item) for columns in waiting)
        return waits or (known is not None and known.is_version(item))

    def put(self, namespace: str, item: Item, vector: FloatArray | None = None) -> int:
        """Write an item in place of any earlier version of it, with E(x) if it is known; return its row."""
        self.remove(namespace, [item.id])
        return self.db.insert(
            ITEMS,
            namespace=namespace,
            id=item.id,
            digest=version_of(item),
            metadata=dumped_metadata(item.metadata, item.id, ordered=True),
            embedding=None if vector is None else packed(vector.reshape(1, -1), small=True)[0],
            rewritten_for=None,
            text=deflated(item.text),
            rewrite=None,
        )

    def restore(self, namespace: str, held: HeldItem, vector: FloatArray) -> int:
        """Write an item as it was stored elsewhere; return its row."""
        row = self.put(namespace, held.item, vector)
        self.db.update(ITEMS, row, digest=held.digest)
        return row

    def remove(self, namespace: str, ids: Sequence[str]) -> None:
        """Remove items with their entries, their passages in the graph, and their place in the retry queue."""
        found = self.db.among("SELECT row FROM items WHERE namespace = ? AND id IN", ids, namespace)
        self.graph.leave([row for (row,) in found])
        for table in ("items", "pending"):
            self.db.connection.executemany(
                f"DELETE FROM {table} WHERE namespace = ? AND id = ?", [(namespace, item_id) for item_id in ids]
            )

    def row(self, namespace: str, item_id: str) -> int | None:
        """Return the row of a held item, or None."""
        row = self.db.scalar("SELECT row FROM items WHERE namespace = ? AND id = ?", (namespace, item_id))
        return None if row is None else int(row)

    def raw_bytes(self) -> int:
        """Return about how many bytes of the file all items and entries take, in every namespace."""
        items = self.db.scalar(
            "SELECT coalesce(sum(length(CAST(text AS BLOB)) + coalesce(length(CAST(rewrite AS BLOB)), 0)"
            " + length(CAST(metadata AS BLOB)) + 2 * length(CAST(id AS BLOB))"
            " + coalesce(length(embedding), 0) + 120), 0) FROM items"
        )
        entries = self.db.scalar(
            "SELECT coalesce(sum(length(vector) + length(CAST(instruction AS BLOB))"
            " + length(CAST(rationale AS BLOB)) + 120), 0) FROM entries"
        )
        return int(items) + int(entries)

    def holds_chunks(self, namespace: str) -> bool:
        """Tell whether any item is held or waits, which could be a chunk of a document."""
        return bool(
            self.db.scalar("SELECT EXISTS (SELECT 1 FROM items WHERE namespace = ?)", (namespace,))
            or self.db.scalar("SELECT EXISTS (SELECT 1 FROM pending WHERE namespace = ?)", (namespace,))
        )

    def chunks_from(self, namespace: str, document: str, first: int) -> list[str]:
        """Return the ids of a document's held chunks with numbers from `first`, and of the document held whole."""
        found: list[str] = []
        for table in ("items", "pending"):
            # '$' follows '#', so the index on ids finds a document's chunks without reading others.
            rows = self.db.read(
                f"SELECT id, metadata FROM {table} WHERE namespace = ? AND id > ? AND id < ?",
                (namespace, f"{document}#", f"{document}$"),
            )
            for item_id, metadata in rows:
                with decoding(self.path):
                    number = json.loads(metadata).get("chunk")
                # A user's own id may look like a chunk's.
                if isinstance(number, int) and number >= first and item_id == f"{document}#{number}":
                    found.append(item_id)
            if first and self.db.read(f"SELECT 1 FROM {table} WHERE namespace = ? AND id = ?", (namespace, document)):
                found.append(document)
        return found

    def promote(self, item_row: int) -> None:
        """Record that an item of the light tier has entries now."""
        self.graph.hints.add(items=[item_row])

    def all(self, namespace: str) -> Iterator[Item]:
        """Yield all held items, oldest first, read in blocks."""
        for _, held in self.held(namespace):
            yield held.item

    def held(self, namespace: str) -> Iterator[tuple[int, HeldItem]]:
        """Yield rows and items as they are stored, oldest first, read in blocks."""
        last = 0
        while rows := self.db.read(
            f"SELECT i.row, {_ITEM} FROM items i WHERE namespace = ? AND row > ? ORDER BY row LIMIT ?",
            (namespace, last, _BLOCK),
        ):
            with decoding(self.path):
                block = [(int(row), self._held_item(columns)) for row, *columns in rows]
            yield from block
            last = rows[-1][0]

    def held_at(self, rows: Sequence[int]) -> dict[int, HeldItem]:
        """Return item row to item as it is stored."""
        with decoding(self.path):
            found = self.db.among(f"SELECT i.row, {_ITEM} FROM items i WHERE row IN", rows)
            return {int(row): self._held_item(columns) for row, *columns in found}

    def at(self, rows: Sequence[int]) -> dict[int, Item]:
        """Return item row to item."""
        return {row: held.item for row, held in self.held_at(rows).items()}

    def present(self, rows: Sequence[int]) -> set[int]:
        """Return those of the rows that are held."""
        return {int(row) for (row,) in self.db.among("SELECT row FROM items WHERE row IN", list(rows))}

    def metadata(self, namespace: str) -> list[tuple[int, dict[str, Any]]]:
        """Return item row and metadata of every held item."""
        made = []
        columns = ", ".join(ITEMS.checked)
        with decoding(self.path):
            for row, crc, *values in self.db.read(
                f"SELECT row, crc, {columns} FROM items WHERE namespace = ?", (namespace,)
            ):
                ITEMS.verify(self.path, crc, *values)
                made.append((int(row), json.loads(values[3])))
        return made

    def light_rows(self, namespace: str) -> list[int]:
        """Return the rows of the items of the light tier, oldest first.

        The tables are read without their indexes: an item whose entries an index has lost to a changed byte must not
        count as light.
        """
        held = {item for (item,) in self.db.read("SELECT item FROM entries NOT INDEXED")}
        sql = "SELECT row FROM items NOT INDEXED WHERE namespace = ? AND embedding IS NOT NULL ORDER BY row"
        return [int(row) for (row,) in self.db.read(sql, (namespace,)) if row not in held]

    def light_sizes(self, rows: Sequence[int]) -> dict[int, int]:
        """Return about how many bytes of the file items take, without their entries."""
        size = (
            "length(CAST(text AS BLOB)) + coalesce(length(CAST(rewrite AS BLOB)), 0) + length(CAST(metadata AS BLOB))"
            " + 2 * length(CAST(id AS BLOB)) + coalesce(length(embedding), 0) + 160"
        )
        return {
            int(row): int(octets) for row, octets in self.db.among(f"SELECT row, {size} FROM items WHERE row IN", rows)
        }

    def light_bytes(self, namespace: str) -> int:
        """Return about how many bytes of the file the light tier takes."""
        return sum(self.light_sizes(self.light_rows(namespace)).values())

    def crc(self, row: int) -> int:
        """Return the checksum of an item."""
        return int(self.db.scalar("SELECT crc FROM items WHERE row = ?", (row,)))

    def text_crcs(self, namespace: str) -> dict[int, int]:
        """Return row to checksum, for the items of a namespace whose E(x) is stored."""
        sql = "SELECT row, crc FROM items WHERE namespace = ? AND embedding IS NOT NULL"
        return {int(row): crc for row, crc in self.db.read(sql, (namespace,))}

    def text_vectors(self, rows: Sequence[int], dimension: int) -> FloatArray:
        """Return the embeddings E(x) of items, shape `(len(rows), d)`."""
        codes = {}
        columns = ", ".join(ITEMS.checked)
        for row, crc, *values in self.db.among(f"SELECT row, crc, {columns} FROM items WHERE row IN", rows):
            ITEMS.verify(self.path, crc, *values)
            codes[row] = dict(zip(ITEMS.checked, values, strict=True))["embedding"]
        with decoding(self.path):
            return unpacked([codes[row] for row in rows], dimension)
