"""The tables of a memory; one transaction for each change.

Tables: `meta` (what the memory was made with), `preferences`, `items`, `entries` (the memory M of Eq. 6, one
row for each item and preference) and `pending` (undecided items, the retry queue). Entry rows are
numbered by AUTOINCREMENT, so a number is never given twice, and FAISS uses it as its id. Vectors are raw
little-endian float32; nothing is pickled.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from epic_core.errors import StoreError
from epic_core.retry_queue import RetryQueue
from epic_core.rows import decoding, dumped_metadata
from epic_core.types import FloatArray, Item, MemoryEntry, Preference, Stance
from epic_core.verdict_cache import digest


@dataclass(frozen=True, kw_only=True)
class NewEntry:
    """An entry to be written; see `types.MemoryEntry` for the fields."""

    preference_id: str | None
    instruction: str
    stance: Stance
    rationale: str
    confidence: float | None
    similarity: float
    vector: FloatArray


@dataclass(frozen=True, kw_only=True)
class SpaceRows:
    """What the index of one namespace is made of.

    Attributes:
        rows, items, preferences, stances: One for each entry: its row, its item's row, its preference's
            row (-1 without one) and its stance's name.
        vectors: Shape `(n, d)`.
    """

    rows: list[int]
    items: list[int]
    preferences: list[int]
    stances: list[Stance]
    vectors: FloatArray


def _blob(vector: FloatArray) -> bytes:
    return np.ascontiguousarray(vector, dtype="<f4").tobytes()


class Store(RetryQueue):
    """A memory's tables. Opened as a `Database` is."""

    # meta

    def meta(self) -> dict[str, Any]:
        """Everything in `meta`, decoded."""
        try:
            return {key: json.loads(value) for key, value in self._read("SELECT key, value FROM meta")}
        except ValueError as error:
            raise StoreError(f"{self.path} is damaged: its description cannot be read ({error}).") from None

    def set_meta(self, **values: Any) -> None:
        """Write some of `meta`; None removes a key."""
        for key, value in values.items():
            if value is None:
                self._db.execute("DELETE FROM meta WHERE key = ?", (key,))
            else:
                self._db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, json.dumps(value)))

    # preferences

    def preferences(self, namespace: str, dimension: int) -> tuple[list[int], list[Preference], FloatArray]:
        """Rows, preferences and their embeddings `(m, d)`, in the user's order."""
        found = self._read(
            "SELECT row, id, text, vector FROM preferences WHERE namespace = ? ORDER BY position, row", (namespace,)
        )
        vectors = self._vectors([vector for *_, vector in found], dimension)
        with decoding(self.path):
            return [row for row, *_ in found], [Preference(id=i, text=t) for _, i, t, _ in found], vectors

    def add_preference(
        self, namespace: str, preference: Preference, vector: FloatArray, *, position: int | None = None
    ) -> int:
        """Write a preference, last unless a position is given; its row."""
        if position is None:
            position = self._scalar(
                "SELECT coalesce(max(position), -1) + 1 FROM preferences WHERE namespace = ?", (namespace,)
            )
        cursor = self._db.execute(
            "INSERT INTO preferences (namespace, position, id, text, vector) VALUES (?, ?, ?, ?, ?)",
            (namespace, position, preference.id, preference.text, _blob(vector)),
        )
        return int(cursor.lastrowid or 0)

    def remove_preference(self, namespace: str, preference_id: str) -> int:
        """Remove a preference with its entries, and the items nothing else holds; its former position."""
        position = self._scalar(
            "SELECT position FROM preferences WHERE namespace = ? AND id = ?", (namespace, preference_id)
        )
        text = self._scalar("SELECT text FROM preferences WHERE namespace = ? AND id = ?", (namespace, preference_id))
        self._db.execute("DELETE FROM preferences WHERE namespace = ? AND id = ?", (namespace, preference_id))
        self.forget_preference(namespace, Preference(id=preference_id, text=text))
        self.stop_waiting_for(namespace, preference_id)
        self.drop_orphans(namespace)
        return int(position)

    def move_preference(self, namespace: str, preference_id: str, position: int) -> None:
        """Give a preference a place in the user's order."""
        self._db.execute(
            "UPDATE preferences SET position = ? WHERE namespace = ? AND id = ?", (position, namespace, preference_id)
        )

    def drop_orphans(self, namespace: str) -> None:
        """Remove items without entries that are not in the second tier either."""
        self._db.execute(
            "DELETE FROM items WHERE namespace = ? AND second_tier IS NULL AND row NOT IN (SELECT item FROM entries)",
            (namespace,),
        )

    # items and entries

    def texts(self, namespace: str, ids: Sequence[str]) -> dict[str, tuple[str, str, str]]:
        """Id to (text, metadata as JSON, "held" or "pending") of those ids that are known."""
        known: dict[str, tuple[str, str, str]] = {}
        # What is held comes last: it counts before what waits.
        for table, state in (("pending", "pending"), ("items", "held")):
            sql = f"SELECT id, text, metadata FROM {table} WHERE namespace = ? AND id IN"
            known.update((i, (text, metadata, state)) for i, text, metadata in self._among(sql, ids, namespace))
        return known

    def same(self, known: tuple[str, str, str], item: Item) -> bool:
        """Whether an item is what is already held, text and metadata."""
        return known[0] == item.text and known[1] == dumped_metadata(item.metadata, item.id)

    def is_current(self, namespace: str, item: Item) -> bool:
        """Whether an item is held, or waits in the retry queue, in this very form."""
        version = (item.text, dumped_metadata(item.metadata, item.id))
        return any(
            self._read(f"SELECT text, metadata FROM {table} WHERE namespace = ? AND id = ?", (namespace, item.id))
            == [version]
            for table in ("items", "pending")
        )

    def put_item(self, namespace: str, item: Item, *, second_tier: FloatArray | None = None) -> int:
        """Write an item in place of any earlier version of it; its row."""
        self.remove_items(namespace, [item.id])
        cursor = self._db.execute(
            "INSERT INTO items (namespace, id, text, metadata, second_tier) VALUES (?, ?, ?, ?, ?)",
            (
                namespace,
                item.id,
                item.text,
                dumped_metadata(item.metadata, item.id),
                None if second_tier is None else _blob(second_tier),
            ),
        )
        return int(cursor.lastrowid or 0)

    def remove_items(self, namespace: str, ids: Sequence[str]) -> None:
        """Remove items with their entries and their place in the retry queue."""
        for table in ("items", "pending"):
            self._db.executemany(
                f"DELETE FROM {table} WHERE namespace = ? AND id = ?", [(namespace, item_id) for item_id in ids]
            )

    def item_row(self, namespace: str, item_id: str) -> int | None:
        """The row of a held item."""
        row = self._scalar("SELECT row FROM items WHERE namespace = ? AND id = ?", (namespace, item_id))
        return None if row is None else int(row)

    def holds_chunks(self, namespace: str) -> bool:
        """Whether anything is held that could be a chunk of a document."""
        return bool(
            self._scalar("SELECT EXISTS (SELECT 1 FROM items WHERE namespace = ?)", (namespace,))
            or self._scalar("SELECT EXISTS (SELECT 1 FROM pending WHERE namespace = ?)", (namespace,))
        )

    def chunks_from(self, namespace: str, document: str, first: int) -> list[str]:
        """Ids of the held chunks of a document with numbers from `first`, and of the document held whole."""
        found: list[str] = []
        for table in ("items", "pending"):
            # '$' follows '#': the index on ids finds a document's chunks without looking at others.
            rows = self._read(
                f"SELECT id, metadata FROM {table} WHERE namespace = ? AND id > ? AND id < ?",
                (namespace, f"{document}#", f"{document}$"),
            )
            for item_id, metadata in rows:
                number = json.loads(metadata).get("chunk")
                # A user's own id may look like a chunk's.
                if isinstance(number, int) and number >= first and item_id == f"{document}#{number}":
                    found.append(item_id)
            if first and self._read(f"SELECT 1 FROM {table} WHERE namespace = ? AND id = ?", (namespace, document)):
                found.append(document)
        return found

    def entry_preferences(self, item_row: int) -> dict[str | None, int]:
        """Preference id to entry row, of an item's entries."""
        rows = self._read(
            "SELECT p.id, e.row FROM entries e LEFT JOIN preferences p ON p.row = e.preference WHERE e.item = ?",
            (item_row,),
        )
        return dict(rows)

    def remove_entries(self, rows: Sequence[int]) -> None:
        """Remove entries."""
        self._db.executemany("DELETE FROM entries WHERE row = ?", [(row,) for row in rows])

    def add_entry(self, namespace: str, item_row: int, entry: NewEntry) -> int:
        """Write an entry; its row."""
        cursor = self._db.execute(
            "INSERT INTO entries (item, preference, instruction, stance, rationale, confidence, similarity, vector)"
            " VALUES (?, (SELECT row FROM preferences WHERE namespace = ? AND id = ?), ?, ?, ?, ?, ?, ?)",
            (
                item_row,
                namespace,
                entry.preference_id,
                entry.instruction,
                str(entry.stance),
                entry.rationale,
                entry.confidence,
                entry.similarity,
                _blob(entry.vector),
            ),
        )
        return int(cursor.lastrowid or 0)

    def set_rewrite(self, item_row: int, rewrite: str, preferences: Iterable[str], vector: FloatArray) -> None:
        """Give an item a text rewritten for some preferences, by their ids: all of its entries are found by it."""
        self._db.execute(
            "UPDATE items SET rewrite = ?, rewritten_for = ? WHERE row = ?",
            (rewrite, _rewritten_for(preferences), item_row),
        )
        self._db.execute("UPDATE entries SET instruction = '', vector = ? WHERE item = ?", (_blob(vector), item_row))

    def take_back_rewrite(self, item_row: int, vector: FloatArray) -> None:
        """Let an item show its own text again; entries without an instruction are found by it."""
        self._db.execute("UPDATE items SET rewrite = NULL, rewritten_for = NULL WHERE row = ?", (item_row,))
        self._db.execute("UPDATE entries SET vector = ? WHERE item = ? AND instruction = ''", (_blob(vector), item_row))

    def stale_rewrites(self, namespace: str) -> list[int]:
        """Rows of the items that were rewritten for other preferences than those they have entries under."""
        rows = self._read(
            "SELECT row, rewritten_for FROM items WHERE namespace = ? AND rewrite IS NOT NULL ORDER BY row",
            (namespace,),
        )
        return [row for row, made_for in rows if _rewritten_for(self.entry_preferences(row)) != made_for]

    def promote(self, item_row: int) -> None:
        """Take an item out of the second tier: it has entries now."""
        self._db.execute("UPDATE items SET second_tier = NULL WHERE row = ?", (item_row,))

    def items(self, namespace: str) -> Iterator[Item]:
        """All held items, oldest first, read in blocks."""
        last = 0
        while rows := self._read(
            "SELECT row, id, text, metadata FROM items WHERE namespace = ? AND row > ? ORDER BY row LIMIT 256",
            (namespace, last),
        ):
            for _, item_id, text, metadata in rows:
                with decoding(self.path):
                    item = Item(id=item_id, text=text, metadata=json.loads(metadata))
                yield item
            last = rows[-1][0]

    def items_at(self, rows: Sequence[int]) -> dict[int, Item]:
        """Item row to item."""
        found = self._among("SELECT row, id, text, metadata FROM items WHERE row IN", rows)
        with decoding(self.path):
            return {row: Item(id=i, text=t, metadata=json.loads(m)) for row, i, t, m in found}

    def entries_at(self, scores: Mapping[int, float]) -> dict[int, MemoryEntry]:
        """Entry row to entry, for rows with their scores in a search."""
        found = self._among(f"{self._ENTRY} WHERE e.row IN", list(scores))
        with decoding(self.path):
            return {row: _entry(columns, scores[row]) for row, *columns in found}

    def entries_of(self, item_row: int) -> list[MemoryEntry]:
        """An item's entries, oldest first."""
        found = self._read(f"{self._ENTRY} WHERE e.item = ? ORDER BY e.row", (item_row,))
        with decoding(self.path):
            return [_entry(columns) for _, *columns in found]

    def metadata(self, namespace: str) -> list[tuple[int, dict[str, Any]]]:
        """Item row and metadata of every held item."""
        rows = self._read("SELECT row, metadata FROM items WHERE namespace = ?", (namespace,))
        with decoding(self.path):
            return [(row, json.loads(metadata)) for row, metadata in rows]

    def space(self, namespace: str, dimension: int) -> SpaceRows:
        """All entries of a namespace, for its index."""
        found = self._read(
            "SELECT e.row, e.item, coalesce(e.preference, -1), e.stance, e.vector FROM entries e"
            " JOIN items i ON i.row = e.item WHERE i.namespace = ? ORDER BY e.row",
            (namespace,),
        )
        rows, items, preferences, stances, blobs = (
            (list(column) for column in zip(*found, strict=True)) if found else ([],) * 5
        )
        with decoding(self.path):
            stances = [Stance(stance) for stance in stances]
        return SpaceRows(
            rows=rows, items=items, preferences=preferences, stances=stances, vectors=self._vectors(blobs, dimension)
        )

    def second_tier(self, namespace: str, dimension: int) -> tuple[list[int], FloatArray]:
        """Item rows and embeddings E(x) of the second tier."""
        found = self._read(
            "SELECT row, second_tier FROM items WHERE namespace = ? AND second_tier IS NOT NULL ORDER BY row",
            (namespace,),
        )
        return [row for row, _ in found], self._vectors([blob for _, blob in found], dimension)

    def _vectors(self, blobs: Sequence[bytes], dimension: int) -> FloatArray:
        if any(not isinstance(blob, bytes) or len(blob) != 4 * dimension for blob in blobs):
            raise StoreError(f"{self.path} is damaged: a vector has not the length {dimension}.")
        vectors = np.frombuffer(b"".join(blobs), dtype="<f4").reshape(-1, dimension).astype(np.float32, copy=False)
        if not np.isfinite(vectors).all():
            raise StoreError(f"{self.path} is damaged: a vector is not finite.")
        return vectors

    def namespaces(self) -> list[str]:
        """Every namespace that holds something, sorted."""
        rows = self._read(
            "SELECT namespace FROM preferences UNION SELECT namespace FROM items UNION SELECT namespace FROM pending"
        )
        return sorted(namespace for (namespace,) in rows)

    def embedded_texts(self) -> tuple[dict[int, str], dict[int, str], dict[int, str]]:
        """What every stored vector is the embedding of: by preference row, entry row and second-tier item row."""
        return (
            dict(self._read("SELECT row, text FROM preferences")),
            dict(
                self._read(
                    "SELECT e.row, CASE e.instruction WHEN '' THEN coalesce(i.rewrite, i.text) ELSE e.instruction END"
                    " FROM entries e JOIN items i ON i.row = e.item"
                )
            ),
            dict(self._read("SELECT row, text FROM items WHERE second_tier IS NOT NULL")),
        )

    def replace_vectors(
        self, preferences: Mapping[int, FloatArray], entries: Mapping[int, FloatArray], second: Mapping[int, FloatArray]
    ) -> None:
        """Write other embeddings: preference row, entry row and item row to vector."""
        for table, column, vectors in (
            ("preferences", "vector", preferences),
            ("entries", "vector", entries),
            ("items", "second_tier", second),
        ):
            self._db.executemany(
                f"UPDATE {table} SET {column} = ? WHERE row = ?", [(_blob(v), row) for row, v in vectors.items()]
            )

    # sizes

    def counts(self, namespace: str) -> dict[str, int]:
        """Numbers of items, second-tier items, entries, preferences and pending items."""
        one = (namespace,)
        return {
            "items": self._scalar("SELECT count(*) FROM items WHERE namespace = ? AND second_tier IS NULL", one),
            "second_tier": self._scalar("SELECT count(second_tier) FROM items WHERE namespace = ?", one),
            "entries": self._scalar(
                "SELECT count(*) FROM entries e JOIN items i ON i.row = e.item WHERE i.namespace = ?", one
            ),
            "preferences": self._scalar("SELECT count(*) FROM preferences WHERE namespace = ?", one),
            "pending": self.pending_count(namespace),
            "verdicts": self.verdicts_held(),
        }

    def sizes(self) -> dict[str, int]:
        """Bytes of the whole database by part, as the paper's Table 6; "rest" makes up the total."""
        octets = "coalesce(sum(length(cast({} AS BLOB))), 0)"

        def size(table: str, *columns: str) -> int:
            return int(self._scalar(f"SELECT {' + '.join(octets.format(column) for column in columns)} FROM {table}"))

        parts = {
            "documents": size("items", "id", "text", "metadata", "rewrite") + size("pending", "text", "metadata"),
            "index": size("entries", "vector") + size("items", "second_tier"),
            "instructions": size("entries", "instruction", "rationale", "stance"),
            "preferences": size("preferences", "id", "text", "vector"),
            "verdicts": size("verdicts", "chunk", "preference", "version", "instruction", "rationale")
            + size("rewrites", "chunk", "preferences", "version", "text"),
        }
        total = int(self._scalar("PRAGMA page_count")) * int(self._scalar("PRAGMA page_size"))
        return {**parts, "rest": total - sum(parts.values()), "total": total}


def _rewritten_for(preferences: Iterable[str | None]) -> bytes:
    return digest(*sorted(preference or "" for preference in preferences), size=8)


def _entry(columns: Sequence[Any], score: float | None = None) -> MemoryEntry:
    namespace, item_id, preference_id, preference, instruction, stance, rationale, confidence, similarity, rewrite = (
        columns
    )
    return MemoryEntry(
        namespace=namespace,
        item_id=item_id,
        preference_id=preference_id,
        preference=preference,
        instruction=str(instruction),
        stance=Stance(stance),
        rationale=str(rationale),
        confidence=None if confidence is None else float(confidence),
        similarity=float(similarity),
        rewrite=str(rewrite),
        score=score,
    )
