"""The durable file: one SQLite database; one transaction for each change.

Tables: `meta` (what the memory was made with), `preferences`, `items`, `entries` (the memory M of Eq. 6, one
row for each item and preference) and `pending` (undecided items, the retry queue). Entry rows are
numbered by AUTOINCREMENT, so a number is never given twice, and FAISS uses it as its id. Vectors are raw
little-endian float32; nothing is pickled.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from epic_core.errors import InvalidInputError, MemoryClosedError, StoreError
from epic_core.types import FloatArray, Item, MemoryEntry, Preference, Stance

APPLICATION_ID = 0x45504943  # "EPIC"
SCHEMA_VERSION = 1
_BUSY_SECONDS = 10.0
_VARIABLES = 900

_SCHEMA = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE preferences (
    row INTEGER PRIMARY KEY AUTOINCREMENT, namespace TEXT NOT NULL, position INTEGER NOT NULL,
    id TEXT NOT NULL, text TEXT NOT NULL, vector BLOB NOT NULL, UNIQUE (namespace, id)
);
CREATE TABLE items (
    row INTEGER PRIMARY KEY AUTOINCREMENT, namespace TEXT NOT NULL, id TEXT NOT NULL,
    text TEXT NOT NULL, metadata TEXT NOT NULL, second_tier BLOB, UNIQUE (namespace, id)
);
CREATE TABLE entries (
    row INTEGER PRIMARY KEY AUTOINCREMENT,
    item INTEGER NOT NULL REFERENCES items (row) ON DELETE CASCADE,
    preference INTEGER REFERENCES preferences (row) ON DELETE CASCADE,
    instruction TEXT NOT NULL, stance TEXT NOT NULL, rationale TEXT NOT NULL,
    confidence REAL, similarity REAL NOT NULL, vector BLOB NOT NULL, UNIQUE (item, preference)
);
CREATE INDEX entries_preference ON entries (preference);
CREATE TABLE pending (
    row INTEGER PRIMARY KEY AUTOINCREMENT, namespace TEXT NOT NULL, id TEXT NOT NULL,
    text TEXT NOT NULL, metadata TEXT NOT NULL, reason TEXT NOT NULL, preferences TEXT NOT NULL,
    UNIQUE (namespace, id)
);
"""


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
    stances: list[str]
    vectors: FloatArray


def _blob(vector: FloatArray) -> bytes:
    return np.ascontiguousarray(vector, dtype="<f4").tobytes()


def dumped_metadata(metadata: Mapping[str, Any], item_id: str) -> str:
    """Metadata as it is stored.

    Raises:
        InvalidInputError: if it is not JSON.
    """
    try:
        dumped = json.dumps(dict(metadata), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        dumped.encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInputError(
            f"The metadata of item {item_id!r} is not JSON: {error}. Use strings, finite numbers, lists or mappings."
        ) from None
    return dumped


class Store:
    """One file, or a database in memory.

    Args:
        path: The file; None for memory. Made if it is not there.
        must_exist: Refuse to make a new file.

    Raises:
        StoreError: if the file cannot be opened, is no memory, or has another schema version.
    """

    def __init__(self, path: str | Path | None, *, must_exist: bool = False) -> None:
        self.path = None if path is None else Path(path)
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        if self.path is not None and "\x00" in str(self.path):
            raise StoreError("The name of a file cannot hold a NUL character. Give another name.")
        try:
            self.new = self.path is None or not self.path.exists() or self.path.stat().st_size == 0
            if self.path is not None:
                self._check_path(self.path, must_exist)
            # A file without write permission can be searched all the same.
            mode = "rwc" if self.new or self.path is None or os.access(self.path, os.W_OK) else "ro"
            target = ":memory:" if self.path is None else f"{self.path.absolute().as_uri()}?mode={mode}"
        except (OSError, ValueError) as error:
            raise StoreError(f"{str(path)[:200]!r} cannot be a file: {error}. Give another name.") from None
        try:
            self._connection = sqlite3.connect(
                target,
                uri=self.path is not None,
                timeout=_BUSY_SECONDS,
                isolation_level=None,
                check_same_thread=False,
            )
            self._prepare(self.new)
        except sqlite3.Error as error:
            self.close()
            raise self._explained(error) from error
        except BaseException:
            self.close()
            raise

    @staticmethod
    def _check_path(path: Path, must_exist: bool) -> None:
        if path.is_dir():
            raise StoreError(f"{path} is a folder. Give the name of a file, for instance {path / 'me.epic'}.")
        if must_exist and (not path.exists() or path.stat().st_size == 0):
            what = f"{path} is empty" if path.exists() else f"There is no memory at {path}"
            raise StoreError(f"{what}. Make one first: epic build --out {path} ...")
        folder = path.absolute().parent
        if not folder.is_dir():
            raise StoreError(f"There is no folder {folder}. Make it first.")
        if path.exists():
            if not os.access(path, os.R_OK):
                raise StoreError(f"No permission to read {path}. Change its permissions.")
        elif not os.access(folder, os.W_OK):
            raise StoreError(f"No permission to write in {folder}. Choose another place, or change its permissions.")

    def _prepare(self, new: bool) -> None:
        db = self._db
        for pragma in ("foreign_keys = ON", "secure_delete = ON", "synchronous = FULL", "temp_store = MEMORY"):
            db.execute(f"PRAGMA {pragma}")
        if new:
            # Rows are about a kilobyte; small pages waste least of a small file.
            db.execute("PRAGMA page_size = 1024")
            db.execute("PRAGMA auto_vacuum = INCREMENTAL")
            with self.transaction():
                # Another process may have made the file in the meantime.
                if not self._scalar("SELECT count(*) FROM sqlite_master"):
                    for statement in _SCHEMA.split(";\n"):
                        if statement.strip():
                            db.execute(statement)
                    db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                    db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        if self._scalar("PRAGMA application_id") != APPLICATION_ID:
            raise StoreError(f"{self.path} is not a memory of epic-memory. Give another file name.")
        version = self._scalar("PRAGMA user_version")
        if version != SCHEMA_VERSION:
            raise StoreError(
                f"{self.path} has schema version {version}, this epic-memory reads {SCHEMA_VERSION}."
                " Use the version of epic-memory that made it, or a newer one."
            )

    def _explained(self, error: sqlite3.Error) -> StoreError:
        text = str(error)
        if "locked" in text or "busy" in text:
            return StoreError(f"{self.path} is being written by another process. Try again when it has finished.")
        if "not a database" in text or "malformed" in text:
            return StoreError(f"{self.path} is not a memory of epic-memory, or it is damaged ({text}).")
        if "readonly" in text:
            return StoreError(f"No permission to write {self.path}. Change its permissions, or copy it.")
        if "full" in text:
            return StoreError(f"No space is left to write {self.path}. Its last state is intact; free some space.")
        return StoreError(f"{self.path or 'The memory'} cannot be read or written: {text}")

    @property
    def _db(self) -> sqlite3.Connection:
        if self._connection is None:
            raise MemoryClosedError("This memory is closed. Open it again with EpicMemory.open(path).")
        return self._connection

    def close(self) -> None:
        """Close the file; closing twice is fine."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def discard_if_new(self) -> None:
        """Close, and remove the file if it was made by this store: nothing but its frame is in it."""
        self.close()
        if self.new and self.path is not None:
            self.path.unlink(missing_ok=True)

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._connection is None

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All changes inside happen together or not at all; other threads wait."""
        with self._lock:
            try:
                self._db.execute("BEGIN IMMEDIATE")
            except sqlite3.Error as error:
                raise self._explained(error) from error
            try:
                yield
                self._db.execute("COMMIT")
            except sqlite3.Error as error:
                self._rollback()
                raise self._explained(error) from error
            except BaseException:
                self._rollback()
                raise

    def _rollback(self) -> None:
        if self._connection is not None and self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    def _read(self, sql: str, parameters: Sequence[Any] = ()) -> list[Any]:
        with self._lock:
            try:
                return self._db.execute(sql, parameters).fetchall()
            except sqlite3.Error as error:
                raise self._explained(error) from error

    def _scalar(self, sql: str, parameters: Sequence[Any] = ()) -> Any:
        rows = self._read(sql, parameters)
        return rows[0][0] if rows else None

    def changed_elsewhere(self) -> int:
        """A number that changes when another connection commits to the file."""
        return 0 if self.path is None else int(self._scalar("PRAGMA data_version"))

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
        self._db.execute("DELETE FROM preferences WHERE namespace = ? AND id = ?", (namespace, preference_id))
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
        for start in range(0, len(ids), 500):
            block = ids[start : start + 500]
            marks = ",".join("?" * len(block))
            for table, state in (("pending", "pending"), ("items", "held")):
                rows = self._read(
                    f"SELECT id, text, metadata FROM {table} WHERE namespace = ? AND id IN ({marks})",
                    (namespace, *block),
                )
                known.update((i, (text, metadata, state)) for i, text, metadata in rows)
        return known

    def same(self, known: tuple[str, str, str], item: Item) -> bool:
        """Whether an item is what is already held, text and metadata."""
        return known[0] == item.text and known[1] == dumped_metadata(item.metadata, item.id)

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

    def pieces(self, namespace: str, item_id: str) -> list[str]:
        """Ids held for an item or for chunks of it."""
        like = item_id.replace("[", "[[]").replace("*", "[*]").replace("?", "[?]") + "#[0-9]*"
        rows = self._read(
            "SELECT id FROM items WHERE namespace = ?1 AND (id = ?2 OR id GLOB ?3)"
            " UNION SELECT id FROM pending WHERE namespace = ?1 AND (id = ?2 OR id GLOB ?3)",
            (namespace, item_id, like),
        )
        return [found for (found,) in rows]

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

    def promote(self, item_row: int) -> None:
        """Take an item out of the second tier: it has entries now."""
        self._db.execute("UPDATE items SET second_tier = NULL WHERE row = ?", (item_row,))

    def put_pending(self, namespace: str, item: Item, reason: str, preferences: Sequence[str]) -> None:
        """Put an undecided item into the retry queue, with the ids of the preferences to verify it under."""
        waiting = self._scalar("SELECT preferences FROM pending WHERE namespace = ? AND id = ?", (namespace, item.id))
        preferences = list(dict.fromkeys([*json.loads(waiting or "[]"), *preferences]))
        self._db.execute(
            "INSERT OR REPLACE INTO pending (namespace, id, text, metadata, reason, preferences)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            (
                namespace,
                item.id,
                item.text,
                dumped_metadata(item.metadata, item.id),
                reason,
                json.dumps(preferences),
            ),
        )

    def drop_pending(self, namespace: str, item_id: str) -> None:
        """Take an item out of the retry queue."""
        self._db.execute("DELETE FROM pending WHERE namespace = ? AND id = ?", (namespace, item_id))

    def pending(self, namespace: str) -> list[tuple[Item, str, list[str]]]:
        """The retry queue, oldest first: item, reason, ids of its preferences."""
        rows = self._read(
            "SELECT id, text, metadata, reason, preferences FROM pending WHERE namespace = ? ORDER BY row", (namespace,)
        )
        return [(Item(id=i, text=t, metadata=json.loads(m)), r, json.loads(p)) for i, t, m, r, p in rows]

    def items(self, namespace: str) -> Iterator[Item]:
        """All held items, oldest first, read in blocks."""
        last = 0
        while rows := self._read(
            "SELECT row, id, text, metadata FROM items WHERE namespace = ? AND row > ? ORDER BY row LIMIT 256",
            (namespace, last),
        ):
            for _, item_id, text, metadata in rows:
                yield Item(id=item_id, text=text, metadata=json.loads(metadata))
            last = rows[-1][0]

    def items_at(self, rows: Sequence[int]) -> dict[int, Item]:
        """Item row to item."""
        found = self._among("SELECT row, id, text, metadata FROM items WHERE row IN", rows)
        return {row: Item(id=i, text=t, metadata=json.loads(m)) for row, i, t, m in found}

    def _among(self, sql: str, values: Sequence[Any]) -> Iterator[Any]:
        """Rows of a statement that ends in IN, in blocks: SQLite takes so many variables and no more."""
        for start in range(0, len(values), _VARIABLES):
            block = values[start : start + _VARIABLES]
            yield from self._read(f"{sql} ({','.join('?' * len(block))})", block)

    _ENTRY = (
        "SELECT e.row, i.namespace, i.id, p.id, coalesce(p.text, ''), e.instruction, e.stance, e.rationale,"
        " e.confidence, e.similarity FROM entries e JOIN items i ON i.row = e.item"
        " LEFT JOIN preferences p ON p.row = e.preference"
    )

    def entries_at(self, scores: Mapping[int, float]) -> dict[int, MemoryEntry]:
        """Entry row to entry, for rows with their scores in a search."""
        found = self._among(f"{self._ENTRY} WHERE e.row IN", list(scores))
        return {row: _entry(columns, scores[row]) for row, *columns in found}

    def entries_of(self, item_row: int) -> list[MemoryEntry]:
        """An item's entries, oldest first."""
        found = self._read(f"{self._ENTRY} WHERE e.item = ? ORDER BY e.row", (item_row,))
        return [_entry(columns) for _, *columns in found]

    def metadata(self, namespace: str) -> list[tuple[int, dict[str, Any]]]:
        """Item row and metadata of every held item."""
        rows = self._read("SELECT row, metadata FROM items WHERE namespace = ?", (namespace,))
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
        if any(len(blob) != 4 * dimension for blob in blobs):
            raise StoreError(f"{self.path} is damaged: a vector has not the length {dimension}.")
        return np.frombuffer(b"".join(blobs), dtype="<f4").reshape(-1, dimension).astype(np.float32, copy=False)

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
                    "SELECT e.row, CASE e.instruction WHEN '' THEN i.text ELSE e.instruction END"
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
            "pending": self._scalar("SELECT count(*) FROM pending WHERE namespace = ?", one),
        }

    def sizes(self) -> dict[str, int]:
        """Bytes of the whole database by part, as the paper's Table 6; "rest" makes up the total."""
        octets = "coalesce(sum(length(cast({} AS BLOB))), 0)"

        def size(table: str, *columns: str) -> int:
            return int(self._scalar(f"SELECT {' + '.join(octets.format(column) for column in columns)} FROM {table}"))

        parts = {
            "documents": size("items", "id", "text", "metadata") + size("pending", "text", "metadata"),
            "index": size("entries", "vector") + size("items", "second_tier"),
            "instructions": size("entries", "instruction", "rationale", "stance"),
            "preferences": size("preferences", "id", "text", "vector"),
        }
        total = int(self._scalar("PRAGMA page_count")) * int(self._scalar("PRAGMA page_size"))
        return {**parts, "rest": total - sum(parts.values()), "total": total}

    def give_back(self) -> None:
        """Return freed pages to the file system."""
        with self._lock:
            try:
                # Not `execute`: it would free one page a call.
                self._db.executescript("PRAGMA incremental_vacuum;")
            except sqlite3.Error as error:
                raise self._explained(error) from error


def _entry(columns: Sequence[Any], score: float | None = None) -> MemoryEntry:
    namespace, item_id, preference_id, preference, instruction, stance, rationale, confidence, similarity = columns
    return MemoryEntry(
        namespace=namespace,
        item_id=item_id,
        preference_id=preference_id,
        preference=preference,
        instruction=instruction,
        stance=Stance(stance),
        rationale=rationale,
        confidence=confidence,
        similarity=similarity,
        score=score,
    )
