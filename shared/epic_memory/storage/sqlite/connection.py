"""Connection to one SQLite file: statements, transactions, and the meaning of its errors."""

from __future__ import annotations

import os
import sqlite3
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from epic_memory.errors import BudgetError, DamagedError, MemoryClosedError, ReadOnlyError, StoreError
from epic_memory.storage.codecs import checksums
from epic_memory.storage.sqlite.locking import Key, sqlite_errors
from epic_memory.storage.sqlite.tables import Schema, Table

_VARIABLES = 900
_AT_ONCE = 256


class Connection:
    """Statements and transactions of one file, or of a database in memory.

    Attributes:
        schema: The schema of this kind of file.
        path: The path as it was given; None for memory.
        place: The resolved path.
        read_only: Whether it is never written.
        key: What the file is locked with; None if it is not.
        page_limit: How many pages the file may have, for a byte budget; 0 for any number.
    """

    schema: Schema

    def __init__(self, path: Path | None, *, read_only: bool, key: Key | None) -> None:
        self.path = path
        # Resolved, because the working directory may change, and SQLite keeps its journal next to the target of a link.
        self.place: Path | None = None
        self.read_only = read_only
        self.key = key
        self.page_limit = 0
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._written = False
        self._identity: tuple[int, int] | None = None
        self._salt: bytes | None = None

    def _explained(self, error: Exception) -> StoreError:
        text, path, noun = str(error), self.path, self.schema.noun

        def has(*words: str) -> bool:
            return any(word in text for word in words)

        if has("locked", "busy"):
            return StoreError(f"{path} is being written by another process. Try again when it has finished.")
        if has("decode"):
            return DamagedError(path, "a text in it is none")
        if self.key is not None and has("not a database", "malformed"):
            return DamagedError(path, text)
        if has("not a database", "malformed", "no such", "corrupt"):
            return StoreError(f"{path} is not a {noun} of epic-memory, or it is damaged ({text}).")
        if has("readonly") and path is not None and Path(f"{self.place}-journal").exists():
            return StoreError(
                f"{path} was interrupted while it was written, and has to be opened for writing once. Do not copy it"
                f" without {path.name}-journal."
            )
        if has("readonly"):
            return ReadOnlyError(f"No permission to write {path}. Change its permissions, or copy it.")
        if has("unable to open") and path is not None:
            return StoreError(
                f"{path} cannot be read or written ({text}): there is no permission to make a file beside it, or it was"
                " interrupted while it was written and has to be opened for writing once."
            )
        if has("full"):
            return self._full()
        more = ". Is the disk full? Its last state is intact." if has("I/O") else ""
        return StoreError(f"{path or f'The {noun}'} cannot be read or written ({text}){more}")

    def _full(self) -> StoreError:
        if self.page_limit:
            return BudgetError(
                f"The byte budget of {self.path or f'this {self.schema.noun}'} has no room for this, even after what"
                " could go has gone. Raise the budget."
            )
        return StoreError(f"No space is left to write {self.path}. Its last state is intact; free some space.")

    @contextmanager
    def explaining(self) -> Iterator[None]:
        """Raise SQLite's errors inside the block as our own errors."""
        try:
            yield
        except sqlite_errors() as error:
            raise self._explained(error) from error
        except UnicodeDecodeError as error:
            raise DamagedError(self.path, str(error)) from None

    @property
    def connection(self) -> sqlite3.Connection:
        """The connection, while it is open."""
        if self._connection is None:
            raise MemoryClosedError(f"This {self.schema.noun} is closed. Open it again.")
        return self._connection

    @property
    def writable(self) -> bool:
        """True if the file may be written."""
        return not self.read_only and (self.place is None or os.access(self.place, os.W_OK))

    @property
    def closed(self) -> bool:
        """True after `close`."""
        return self._connection is None

    def check_writable(self) -> None:
        """Raise an error if the file cannot be written.

        Raises:
            ReadOnlyError: with the reason.
            StoreError: if the file was removed, or replaced by another file.
        """
        self.check_place()
        if self._connection is not None and not self.writable:
            raise ReadOnlyError(
                f"{self.path} was opened for reading only. Open it for writing."
                if self.read_only
                else f"No permission to write {self.path}. Change its permissions, or copy it."
            )

    def check_place(self) -> None:
        """Raise a `StoreError` if the file was removed from its place, or replaced by another file."""
        if self.place is None or self._connection is None:
            return
        try:
            found = self.place.stat()
        except OSError:
            found = None
        if found is None or (found.st_dev, found.st_ino) != self._identity:
            what = "was removed" if found is None else "was replaced by another file"
            raise StoreError(
                f"{self.path} {what} while it was open, and cannot be written any more. What it held can still be"
                " saved: backup('another file')."
            )

    def pages(self) -> tuple[int, int, int]:
        """Return the number of pages of the file, the number of free ones, and the bytes of a page."""
        count, free, size = self.read("SELECT * FROM pragma_page_count, pragma_freelist_count, pragma_page_size")[0]
        return count, free, int(size)  # SQLCipher gives a text

    def used_bytes(self) -> int:
        """Return how many bytes of the file are in use."""
        count, free, size = self.pages()
        return (count - free) * size

    @contextmanager
    def transaction(self, *, wait: bool = True) -> Iterator[None]:
        """Make all changes inside the block take effect together or not at all; other threads wait.

        Args:
            wait: Whether to wait some seconds for another process that writes.

        Raises:
            ReadOnlyError: if the memory was opened for reading only, or may not be written.
            StoreError: if another process keeps writing, the file is gone, or there is no space.
        """
        with self._lock:
            db = self.connection
            self.check_writable()
            waits = 0 if wait else int(self.scalar("PRAGMA busy_timeout"))
            if not wait:
                db.execute("PRAGMA busy_timeout = 0")
            try:
                with self.explaining():
                    db.execute("BEGIN IMMEDIATE")
                    yield
                    self.check_place()
                    db.execute("COMMIT")
                    self._written = True
            finally:
                self._rollback()
                if not wait and self._connection is not None:
                    db.execute(f"PRAGMA busy_timeout = {waits}")

    def _rollback(self) -> None:
        if self._connection is not None and self._connection.in_transaction:
            try:
                self._connection.execute("ROLLBACK")
            except sqlite_errors():
                pass  # SQLite has done it by itself

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Make everything that is read inside the block come from one state of the file."""
        with self._lock:
            if self.connection.in_transaction:
                yield
                return
            with self.explaining():
                self.connection.execute("BEGIN")
            try:
                yield
            finally:
                self._rollback()

    def read(
        self, sql: str, parameters: Sequence[Any] = (), *, among: Sequence[Any] | None = None, named: bool = False
    ) -> list[Any]:
        """Return all rows of a statement, as tuples or with their columns by name.

        One that ends in IN is read in blocks of the values `among`, because SQLite limits the variables.
        """
        rows: list[Any] = []
        with self._lock, self.explaining():
            cursor = self.connection.cursor()
            # Of the library that the connection is of.
            cursor.row_factory = sys.modules[type(cursor).__module__].Row if named else None
            for statement, values in [(sql, parameters)] if among is None else _blocks(sql, parameters, among):
                rows += cursor.execute(statement, values).fetchall()
        return rows

    def rows(
        self,
        table: Table,
        tail: str = "",
        *values: Any,
        among: Sequence[Any] | None = None,
        texts: bool = True,
        also: str = "",
    ) -> list[sqlite3.Row]:
        """Return rows of a table with their columns by name, each compared with its checksums.

        Args:
            table: The table.
            tail: The statement after the table's name.
            *values: Its parameters.
            among: For a statement that ends in IN, the values.
            texts: Whether to read the columns that `text_crc` covers.
            also: Further columns, "... AS name".

        Raises:
            DamagedError: if a row is not as it was written.
        """
        columns = table.select if texts else table.select_checked
        sql = f"SELECT {columns}{also and ', ' + also} FROM {table.name} {tail}"
        rows = self.read(sql, values, among=among, named=True)
        table.check(self.path, list(zip(*rows, strict=True)), texts=texts)
        return rows

    def columns(
        self, table: Table, names: Sequence[str], tail: str, *values: Any, among: Sequence[Any] | None = None
    ) -> list[list[Any]]:
        """Return some columns of many rows, compared with their checksums as in `rows`, by the number of the row.

        The first column is the number; none is a text.
        """
        places = [table.columns.index(name) for name in names]
        columns: list[list[Any]] = [[] for _ in names]
        # In blocks, so that no collection of garbage goes through a hundred thousand rows.
        for sql, parameters in [(tail, values)] if among is None else _blocks(tail, values, among):
            with self._lock, self.explaining():
                cursor = self.connection.execute(f"SELECT {table.select_checked} FROM {table.name} {sql}", parameters)
                while block := cursor.fetchmany(_AT_ONCE):
                    parts = list(zip(*block, strict=True))
                    table.check(self.path, parts, texts=False)
                    for column, place in zip(columns, places, strict=True):
                        column.extend(parts[place])
        order = sorted(range(len(columns[0])), key=columns[0].__getitem__)
        return [[column[place] for place in order] for column in columns]

    def scalar(self, sql: str, parameters: Sequence[Any] = ()) -> Any:
        """Return the first column of the first row of a statement; None without rows."""
        rows = self.read(sql, parameters)
        return rows[0][0] if rows else None

    def changed_elsewhere(self) -> int:
        """Return a number that changes when another connection commits to the file."""
        return 0 if self.path is None else int(self.scalar("PRAGMA data_version"))

    def insert(self, table: Table, **columns: Any) -> int:
        """Write a row with its checksums, in place of one with the same key, and return its number."""
        return int(self.connection.execute(table.insert, table.values(columns)).lastrowid or 0)

    def insert_all(self, table: Table, rows: Sequence[Mapping[str, Any]]) -> tuple[list[int], list[int]]:
        """Write rows as `insert` does, under new numbers if the table has any; return these, and the checksums."""
        if not rows:
            return [], []
        checked = [[row[name] for row in rows] for name in table.checked]
        texts = [[row[name] for row in rows] for name in table.texts]
        crcs = checksums(checked)
        columns = [*checked, crcs, *([*texts, checksums(texts)] if texts else [])]
        if not table.numbered:
            self.connection.executemany(table.insert, zip(*columns, strict=True))
            return [], crcs
        if len(rows) == 1:  # SQLite tells its number: none has to be asked for
            made = self.connection.execute(table.insert, (None, *(column[0] for column in columns)))
            return [int(made.lastrowid or 0)], crcs
        first = 1 + int(self.scalar("SELECT seq FROM sqlite_sequence WHERE name = ?", (table.name,)) or 0)
        numbers = list(range(first, first + len(rows)))
        self.connection.executemany(table.insert, zip(numbers, *columns, strict=True))
        return numbers, crcs

    def update(self, table: Table, row: int, **columns: Any) -> None:
        """Change columns of a row, and its checksums unless they are wrong: that is a `DamagedError`."""
        for held in self.rows(table, "WHERE row = ?", row):
            self.insert_changed(table, row, {**dict(held), **columns})

    def insert_changed(self, table: Table, row: int, columns: Mapping[str, Any]) -> None:
        """Write a row's columns and new checksums; rows that refer to it stay."""
        values = table.values({**columns, "row": row})
        self.connection.execute(table.update, dict(zip(table.columns, values, strict=True)))


def _blocks(sql: str, parameters: Sequence[Any], among: Sequence[Any]) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Yield a statement that ends in IN with its parameters, for a block of the values at a time."""
    for start in range(0, len(among), _VARIABLES):
        block = among[start : start + _VARIABLES]
        yield f"{sql} ({','.join('?' * len(block))})", (*parameters, *block)
