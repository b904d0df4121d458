"""Database: one SQLite file as a whole, made, opened, checked, migrated, compacted and copied."""

from __future__ import annotations

import json
import os
import sqlite3
import time
import weakref
from collections.abc import Iterable, Sequence
from contextlib import closing, suppress
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar

from epic_memory.errors import AlreadyThereError, DamagedError, InvalidInputError, StoreError, decoding
from epic_memory.storage.sqlite.connection import Connection
from epic_memory.storage.sqlite.files import SIDE_FILES, check_path, new_file
from epic_memory.storage.sqlite.locking import Key, check_key, connect, salt_in, sqlite_errors
from epic_memory.storage.sqlite.tables import Schema

_BUSY_SECONDS = 10.0
# A row is some hundred bytes, and there are a dozen tables: small pages waste the least space in a small file.
_PAGE = 512
# A file of at most this many bytes is rewritten without gaps when it is closed, which takes milliseconds.
_TIDIED = 2_000_000


class Database(Connection):
    """One SQLite file, or a database in memory.

    Args:
        path: The file, made if it does not exist; None for memory.
        must_exist: Whether to refuse to make a new file.
        read_only: Whether never to write into it.
        key: What the file is locked with.

    Raises:
        StoreError: if the file cannot be opened, is not of this kind, or has another schema version.
        DamagedError: if it is not as it was written.
    """

    def __init__(
        self,
        path: str | Path | None,
        *,
        must_exist: bool = False,
        read_only: bool = False,
        key: Key | None = None,
    ) -> None:
        if path is not None and not isinstance(path, (str, PathLike)):
            raise InvalidInputError(f"Give the name of a file, not {type(path).__name__}.")
        super().__init__(None if path is None else Path(path), read_only=read_only, key=key)
        self._made = False
        if self.path is not None and "\x00" in str(self.path):
            raise StoreError("The name of a file cannot hold a NUL character. Give another name.")
        try:
            target = ":memory:" if self.path is None else self._target(self.path, must_exist or read_only)
        except (OSError, ValueError) as error:
            raise StoreError(f"{str(path)[:200]!r} cannot be a file: {error}. Give another name.") from None
        try:
            with self.explaining():
                self._connect(target)
        except BaseException:
            self.close()
            raise

    def _connect(self, target: str) -> None:
        # Few statements are kept ready: those that only check a file when it is opened would take RAM ever after.
        options = {"uri": True, "timeout": _BUSY_SECONDS, "check_same_thread": False, "cached_statements": 32}
        self._connection = connect(target, self.key, self._salt, **options)
        weakref.finalize(self, self._connection.close)
        if self.key is not None and self.place is not None:
            check_key(self._connection, self.place)
        self._prepare()

    def _target(self, path: Path, must_exist: bool) -> str:
        """Return the file's address for SQLite, after making the file if necessary."""
        check_path(path, self.schema if must_exist else None)
        self.place = place = path.resolve()
        if not place.exists():
            self._made = _make(place, self.schema, self.key)
        if place.stat().st_size == 0:
            raise StoreError(
                f"{path} is empty: it is no {self.schema.noun}, or it was cut. Remove it to begin anew, or go back to a"
                " copy."
            )
        self._salt = salt_in(place, self.key)
        return self._address(place)

    def _address(self, place: Path) -> str:
        found = place.stat()
        self._identity = (found.st_dev, found.st_ino)
        # A file without write permission can still be searched.
        mode = "rw" if self.writable else "ro"
        return f"{place.as_uri()}?mode={mode}"

    def _prepare(self) -> None:
        """Configure the connection, and check the file."""
        db = self.connection
        for pragma in (
            "trusted_schema = OFF",
            "foreign_keys = ON",
            "recursive_triggers = ON",
            "secure_delete = ON",
            "synchronous = FULL",
            "temp_store = MEMORY",
            # A large change stays in RAM until it is committed, so that others can read meanwhile.
            "cache_spill = OFF",
        ):
            db.execute(f"PRAGMA {pragma}")
        if self.path is None:
            _found(db, self.schema)
        else:
            if self.schema.check_version(db, self.path) < self.schema.version:
                self._upgrade()
            with self.reading():
                self._check()
            if self.writable and Path(f"{self.place}-journal").exists():
                # SQLite leaves it if a change is interrupted before it changed anything. If another process is writing
                # now, it belongs to that.
                with suppress(StoreError), self.transaction(wait=False):
                    db.execute(f"PRAGMA user_version = {self.schema.version}")
            if self.writable and self.scalar("PRAGMA journal_mode") != "delete":
                # Another program chose another mode, which would leave side files and defeat a byte budget.
                with suppress(*sqlite_errors()):
                    db.execute("PRAGMA journal_mode = DELETE")
        if not self.read_only:
            self.schema.keep_sums(db)

    def _upgrade(self) -> None:
        if not self.writable:
            raise StoreError(
                f"{self.path} was made by an older epic-memory (schema version"
                f" {self.scalar('PRAGMA user_version')}), and has to be written once to be brought up to date."
                " Open it for writing, change its permissions, or copy it."
            )
        self._check_structure()
        self.connection.execute("PRAGMA foreign_keys = OFF")
        with self.transaction():
            # Another process may have migrated the file in the meantime.
            version = self.schema.check_version(self.connection, self.path)
            if version < self.schema.version:
                self.schema.migrate(self.connection, version, self.path)
        self.connection.execute("PRAGMA foreign_keys = ON")
        self.give_back()

    def _check(self) -> None:
        """Check everything that can be read quickly."""
        schema = self.schema
        schema.check_version(self.connection, self.path)
        schema.check_schema(self.connection, self.path)
        self._check_structure()
        schema.check_sums(self.connection, self.path)
        schema.check_rows(self.connection, self.path, schema.small)
        dangling = self.read("PRAGMA foreign_key_check")
        if dangling:
            raise DamagedError(self.path, f"a row of its table {dangling[0][0]} refers to one that is not there")

    def _check_structure(self) -> None:
        found = self.scalar("PRAGMA integrity_check(1)")
        if found != "ok":
            raise DamagedError(self.path, str(found)[:200])

    def verify(self) -> int:
        """Check structure, tables and every row, and return the number of rows; damage is a `DamagedError`."""
        with self.reading(), self.explaining():
            self._check()
            return self.check_rows()

    def check_rows(self) -> int:
        """Compare every row with its checksums, and return how many there are; damage is a `DamagedError`."""
        with self.reading(), self.explaining():
            return self.schema.check_rows(self.connection, self.path)

    def close(self) -> None:
        """Close the file; closing twice is fine. A small file that was written is left without gaps."""
        with self._lock:
            if self._connection is not None:
                with suppress(StoreError, *sqlite_errors()):
                    count, _, size = self.pages()
                    if self._written and self.path is not None and self.writable and count * size <= _TIDIED:
                        self.check_place()
                        # Do not wait for readers: if there are any, the file is not compacted now.
                        self.connection.execute("PRAGMA busy_timeout = 0")
                        self.connection.execute("VACUUM")
                self._connection.close()
                self._connection = None

    def discard_if_new(self, *, whatever: bool = False) -> None:
        """Close, and remove the file if this object made it and it is empty; with `whatever`, even if it is not."""
        with self._lock:
            if self._made and self.place is not None and self._connection is not None:
                with suppress(StoreError, *sqlite_errors()):
                    empty = whatever or not self.scalar("SELECT sum(rows) FROM sums")
                    self._written = False
                    self.close()
                    if empty:
                        self.place.unlink(missing_ok=True)
            self.close()

    # the description of the file

    def meta(self) -> dict[str, Any]:
        """Return what is in `meta`, decoded."""
        with decoding(self.path):
            return {str(row["key"]): json.loads(row["value"]) for row in self.rows(self.schema.tables["meta"])}

    def meta_of(self, key: str) -> Any:
        """Return what is in `meta` under a key, decoded; None if nothing is."""
        with decoding(self.path):
            found = self.rows(self.schema.tables["meta"], "WHERE key = ?", key)
            return json.loads(found[0]["value"]) if found else None

    def set_meta(self, **values: Any) -> None:
        """Write some keys of `meta`; None removes a key."""
        for key, value in values.items():
            self.connection.execute("DELETE FROM meta WHERE key = ?", (key,))
            if value is not None:
                self.insert(self.schema.tables["meta"], key=key, value=json.dumps(value, separators=(",", ":")))

    # the whole file

    def give_back(self) -> None:
        """Return freed pages to the file system."""
        with self._lock:
            try:
                # `execute` would free only one page for each call.
                self.connection.executescript("PRAGMA incremental_vacuum;")
            except sqlite_errors() as error:
                # The change itself is committed; if another process is reading now, the space is returned another time.
                if "locked" not in str(error) and "busy" not in str(error):
                    raise self._explained(error) from error

    def limit_pages(self, pages: int) -> None:
        """Limit the number of pages of the file; 0 for any number."""
        self.page_limit = pages
        self.scalar(f"PRAGMA max_page_count = {pages or 2**31 - 2}")

    def file_bytes(self) -> int:
        """Return the bytes on disk, including side files; for a database in memory, the bytes its file would have."""
        if self.place is None:
            count, _, size = self.pages()
            return count * size
        files = [self.place, *(Path(f"{self.place}{suffix}") for suffix in SIDE_FILES)]
        total = 0
        for file in files:
            with suppress(OSError):
                total += file.stat().st_size
        return total

    def compact(self) -> None:
        """Rewrite the whole file without gaps; if a budget leaves no room for that, return free pages."""
        with self._lock:
            self.check_place()
            self.check_writable()
            if self.page_limit:
                self.give_back()
                return
            with self.explaining():
                self.connection.execute("VACUUM")

    def check_other(self, path: Path) -> None:
        """Raise a `StoreError` if another file is to be written over this one."""
        if self.place is not None and path.exists() and self.place.exists() and path.samefile(self.place):
            raise StoreError(f"{path} is the {self.schema.noun} itself. Give another name.")

    def copy_to(self, path: Path, *, overwrite: bool, key: Key | None = None) -> None:
        """Write a copy of the last committed state, completely or not at all; with another key if one is given.

        Raises:
            StoreError: if it cannot be written, or exists and `overwrite` is off.
        """
        check_path(path)
        self.check_other(path)
        try:
            there = self.place is not None and self.place.exists()
            mode = self.place.stat().st_mode & 0o777 if self.place is not None and there else 0o600
            salt = None if key else self._salt
            with (
                new_file(path, overwrite=overwrite, mode=mode) as made,
                self._lock,
                closing(connect(made, key or self.key, salt)) as copy,
            ):
                if key is None:
                    self.connection.backup(copy)
                else:
                    self._copy_into(copy, locked=True)
        except sqlite_errors() as error:
            raise StoreError(f"{path} cannot be written: {error}") from error

    def rekey(self, key: Key | None) -> None:
        """Lock the file with another key, or unlock it for None: it is written anew, and replaced when it is whole.

        Raises:
            StoreError: if it cannot be written, or is in RAM; it is then as it was.
        """
        if self.place is None:
            raise StoreError(f"This {self.schema.noun} is in RAM: backup('me.epic', key=...) makes a locked file.")
        with self._lock, self.explaining():
            self.check_writable()
            # Nobody else writes until the new file is in place; who has the old one open is told then.
            self.connection.execute("BEGIN IMMEDIATE")
            try:
                with new_file(self.place, overwrite=True) as made:
                    with closing(connect(made, key)) as copy:
                        self._copy_into(copy, locked=key is not None)
                    if os.name == "nt":
                        self.connection.close()  # Windows replaces no file that is open.
                self.key, self._salt = key, salt_in(self.place, key)
            finally:
                with suppress(*sqlite_errors()):
                    self.connection.close()
                self._connect(self._address(self.place))

    def _copy_into(self, copy: sqlite3.Connection, *, locked: bool) -> None:
        """Write all rows into an empty file with another key, or none, under their numbers."""
        _found(copy, self.schema, locked=locked)
        with self.reading():
            copy.execute("BEGIN")
            for name in (*self.schema.tables, "sums", "sqlite_sequence"):
                copy.execute(f"DELETE FROM {name}")
                rows = self.connection.execute(f"SELECT * FROM {name}")
                copy.executemany(f"INSERT INTO {name} VALUES ({', '.join('?' * len(rows.description))})", rows)
            copy.execute("COMMIT")
        self.schema.check_sums(copy, self.path)
        self.schema.check_rows(copy, self.path)


class Repository:
    """Reader and writer of one table, or of some that belong together. What changes it is called inside a transaction.

    Args:
        db: The file, or a database in memory.

    Attributes:
        table: The name of the table that the methods here work on.
    """

    table: ClassVar[str]

    def __init__(self, db: Database) -> None:
        self.db = db

    def row(self, namespace: str, row_id: str) -> int | None:
        """Return the number of the row with an id, or None."""
        return self.rows_of(namespace, [row_id]).get(row_id)

    def rows_of(self, namespace: str, ids: Sequence[str]) -> dict[str, int]:
        """Return id to the number of the row, for those of the ids that there are."""
        sql = f"SELECT id, row FROM {self.table} WHERE namespace = ? AND id IN"
        return dict(self.db.read(sql, (namespace,), among=ids))

    def count(self, namespace: str) -> int:
        """Return how many rows a namespace has."""
        return int(self.db.scalar(f"SELECT count(*) FROM {self.table} WHERE namespace = ?", (namespace,)))

    def delete(self, condition: str, *values: Any, table: str = "") -> int:
        """Delete the rows that satisfy a condition, and return how many."""
        sql = f"DELETE FROM {table or self.table} WHERE {condition}"
        return self.db.connection.execute(sql, values).rowcount

    def delete_rows(self, rows: Iterable[int]) -> None:
        """Delete rows by their numbers."""
        self.db.connection.executemany(f"DELETE FROM {self.table} WHERE row = ?", [(row,) for row in rows])

    def delete_ids(self, namespace: str, ids: Iterable[str], *, table: str = "") -> None:
        """Delete rows by their ids; unknown ids are ignored."""
        sql = f"DELETE FROM {table or self.table} WHERE namespace = ? AND id = ?"
        self.db.connection.executemany(sql, [(namespace, row_id) for row_id in ids])

    def drop_expired(self, namespace: str) -> None:
        """Delete the rows whose time is over."""
        self.delete("namespace = ? AND expires <= ?", namespace, time.time())

    def keep(self, most: int, order: str, condition: str, *values: Any, table: str = "") -> None:
        """Delete all but the first `most` rows, in an order, of those that satisfy a condition."""
        table = table or self.table
        some = f"SELECT row FROM {table} WHERE {condition} ORDER BY {order} LIMIT -1 OFFSET ?"
        self.delete(f"row IN ({some})", *values, most, table=table)


def _found(db: sqlite3.Connection, schema: Schema, *, locked: bool = False) -> None:
    """Make the tables in an empty database."""
    if not locked:
        db.execute(f"PRAGMA page_size = {_PAGE}")
    db.execute("PRAGMA auto_vacuum = INCREMENTAL")
    db.execute("BEGIN")
    schema.make(db)
    db.execute("COMMIT")


def _make(path: Path, schema: Schema, key: Key | None) -> bool:
    """Make an empty file, completely or not at all; return False if another process was faster."""
    try:
        with new_file(path, overwrite=False) as made, closing(connect(made, key)) as db:
            _found(db, schema, locked=key is not None)
    except AlreadyThereError:
        return False
    return True
