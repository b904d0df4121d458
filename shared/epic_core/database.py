"""One SQLite database: how it is opened, its schema, its transactions, and what its errors mean."""

from __future__ import annotations

import os
import sqlite3
import threading
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from epic_core.errors import MemoryClosedError, StoreError

APPLICATION_ID = 0x45504943  # "EPIC"
_BUSY_SECONDS = 10.0
_VARIABLES = 900

_FIRST = """
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
# What models answered, by hashes of what they were asked; and items rewritten for a set of preferences.
_MODELS_WORK = """
CREATE TABLE verdicts (
    chunk BLOB NOT NULL, preference BLOB NOT NULL, version BLOB NOT NULL, written INTEGER NOT NULL,
    kept INTEGER NOT NULL, stance TEXT, instruction TEXT, rationale TEXT, confidence REAL,
    PRIMARY KEY (chunk, preference, version)
) WITHOUT ROWID;
CREATE TABLE rewrites (
    chunk BLOB NOT NULL, preferences BLOB NOT NULL, version BLOB NOT NULL, written INTEGER NOT NULL,
    text TEXT NOT NULL, PRIMARY KEY (chunk, preferences, version)
) WITHOUT ROWID;
ALTER TABLE items ADD COLUMN rewrite TEXT;
ALTER TABLE items ADD COLUMN rewritten_for BLOB;
"""
# A file of schema version n was made by the first n of these.
_MIGRATIONS = (_FIRST, _MODELS_WORK)
SCHEMA_VERSION = len(_MIGRATIONS)


class Database:
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
        self._made = False
        if self.path is not None and "\x00" in str(self.path):
            raise StoreError("The name of a file cannot hold a NUL character. Give another name.")
        try:
            existed = self.path is not None and self.path.exists()
            new = self.path is None or not existed or self.path.stat().st_size == 0
            if self.path is not None:
                self._check_path(self.path, must_exist)
            # A file without write permission can be searched all the same.
            mode = "rwc" if new or self.path is None or os.access(self.path, os.W_OK) else "ro"
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
            self._made = self._prepare(new or (not must_exist and self._is_being_made())) and not existed
            weakref.finalize(self, self._connection.close)
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

    def _is_being_made(self) -> bool:
        """Whether the file holds nothing yet: another process has just begun, or has given up and removed it."""
        pages = self._scalar("PRAGMA page_count")
        # What is shorter than a page is no database, and not ours to write into.
        return bool(pages == 1 or (self.path is not None and self.path.stat().st_size == 0)) and not self._scalar(
            "SELECT count(*) FROM sqlite_master"
        )

    def _prepare(self, new: bool) -> bool:
        """Set the connection up, and the schema of a new file; whether this made the schema."""
        db = self._db
        made = False
        for pragma in (
            "trusted_schema = OFF",
            "foreign_keys = ON",
            "secure_delete = ON",
            "synchronous = FULL",
            "temp_store = MEMORY",
        ):
            db.execute(f"PRAGMA {pragma}")
        if new:
            # Rows are about a kilobyte; small pages waste least of a small file.
            db.execute("PRAGMA page_size = 1024")
            db.execute("PRAGMA auto_vacuum = INCREMENTAL")
            with self.transaction():
                # Another process may have made the file in the meantime.
                if not self._scalar("SELECT count(*) FROM sqlite_master"):
                    db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                    self._migrate(0)
                    made = True
        if self._scalar("PRAGMA application_id") != APPLICATION_ID:
            raise StoreError(f"{self.path} is not a memory of epic-memory. Give another file name.")
        version = self._scalar("PRAGMA user_version")
        if 0 < version < SCHEMA_VERSION:
            if not self.writable:
                raise StoreError(
                    f"{self.path} was made by an older epic-memory (schema version {version}), and has to be written"
                    " once to be brought up to date. Change its permissions, or copy it."
                )
            with self.transaction():
                self._migrate(self._scalar("PRAGMA user_version"))
        elif version != SCHEMA_VERSION:
            raise StoreError(
                f"{self.path} has schema version {version}, this epic-memory reads {SCHEMA_VERSION}."
                " Use the version of epic-memory that made it, or a newer one."
            )
        # Ours has no triggers and no views: nothing in a file is executed.
        foreign = self._scalar("SELECT name FROM sqlite_master WHERE type NOT IN ('table', 'index') LIMIT 1")
        if foreign is not None:
            raise StoreError(f"{self.path} holds {foreign!r}, which no memory holds. Do not trust this file.")
        return made

    def _migrate(self, version: int) -> None:
        """Bring the schema from a version to the newest, inside a transaction."""
        for statements in _MIGRATIONS[version:]:
            for statement in statements.split(";\n"):
                if statement.strip():
                    self._db.execute(statement)
        self._db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")

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
        """Close, and remove the file if this made it and nobody has written into it since."""
        with self._lock:
            if self._made and self.path is not None and self._connection is not None:
                tables = ("meta", "preferences", "items", "entries", "pending", "verdicts", "rewrites")
                if not any(self._scalar(f"SELECT EXISTS (SELECT 1 FROM {table})") for table in tables):
                    self.path.unlink(missing_ok=True)
            self.close()

    @property
    def writable(self) -> bool:
        """Whether the file may be written."""
        return self.path is None or os.access(self.path, os.W_OK)

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

    def _among(self, sql: str, values: Sequence[Any], *before: Any) -> Iterator[Any]:
        """Rows of a statement that ends in IN, in blocks: SQLite takes so many variables and no more."""
        for start in range(0, len(values), _VARIABLES):
            block = values[start : start + _VARIABLES]
            yield from self._read(f"{sql} ({','.join('?' * len(block))})", (*before, *block))

    _ENTRY = (
        "SELECT e.row, i.namespace, i.id, p.id, coalesce(p.text, ''), e.instruction, e.stance, e.rationale,"
        " e.confidence, e.similarity, coalesce(i.rewrite, '') FROM entries e JOIN items i ON i.row = e.item"
        " LEFT JOIN preferences p ON p.row = e.preference"
    )

    def give_back(self) -> None:
        """Return freed pages to the file system."""
        with self._lock:
            try:
                # Not `execute`: it would free one page a call.
                self._db.executescript("PRAGMA incremental_vacuum;")
            except sqlite3.Error as error:
                raise self._explained(error) from error
