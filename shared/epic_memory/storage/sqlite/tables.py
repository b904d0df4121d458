"""Tables with checksums: the description of one kind of SQLite file, with how it is made and checked.

Each row carries a checksum of its columns (`crc`; if a row has long texts, `text_crc` covers these, so that a row can
be checked without reading them). `sums` holds the number of rows and the sum of their checksums for each table, so that
a missing row is noticed too. Triggers keep it up to date; they belong to the connection, not to the file, which holds
none.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, TypeAlias

from epic_memory.errors import DamagedError, MissingPackageError, StoreError
from epic_memory.storage.codecs import checksum, checksums

_CHECKED_AT_ONCE = 256
_SUMS = "CREATE TABLE sums (name TEXT PRIMARY KEY, rows INTEGER, total INTEGER) WITHOUT ROWID;\n"

Migration: TypeAlias = Callable[[sqlite3.Connection], None]
"""A function that converts a file from one version of its tables to the next, inside a transaction.

Its statements are written out: it uses neither a `Table` nor the statements of a `Schema`, which later versions change.
"""

# The types of values by a column's declared type; without one, it holds texts, compressed or not.
_TYPES: dict[str, set[type]] = {"TEXT": {str}, "INTEGER": {int}, "REAL": {float}, "BLOB": {bytes}, "": {str, bytes}}


@dataclass(frozen=True)
class Table:
    """A table, as its CREATE statement describes it.

    Attributes:
        name: Its name.
        checked: The columns that `crc` covers: those before it, without `row`.
        texts: The columns that `text_crc` covers: those behind it.
        numbered: Whether its rows have numbers, in the column `row`.
        types: The types that values may have, by column.
    """

    name: str
    checked: tuple[str, ...]
    texts: tuple[str, ...]
    numbered: bool
    types: Mapping[str, set[type]] = field(compare=False, repr=False)

    @classmethod
    def of(cls, db: sqlite3.Connection, name: str) -> Table:
        """Return the table of this name in a database."""
        columns = {
            column: _TYPES[declared] | (set() if never_null else {type(None)})
            for _, column, declared, never_null, *_ in db.execute(f"PRAGMA table_info({name})")
        }
        names = tuple(columns)
        numbered, crc = names[0] == "row", names.index("crc")
        return cls(name, names[numbered:crc], names[crc + 2 :], numbered, columns)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """All columns, in the order of `values`."""
        row = ("row",) if self.numbered else ()
        return (*row, *self.checked, "crc", *((*self.texts, "text_crc") if self.texts else ()))

    @cached_property
    def insert(self) -> str:
        """The statement that writes a row in place of one with the same key."""
        marks = ", ".join("?" * len(self.columns))
        return f"INSERT OR REPLACE INTO {self.name} ({', '.join(self.columns)}) VALUES ({marks})"

    @cached_property
    def update(self) -> str:
        """The statement that changes all columns of a row."""
        assigned = ", ".join(f"{name} = :{name}" for name in self.columns if name != "row")
        return f"UPDATE {self.name} SET {assigned} WHERE row = :row"

    @cached_property
    def select(self) -> str:
        """All columns, to be selected; without the texts it ends after `crc`."""
        return ", ".join(f"{self.name}.{name} AS {name}" for name in self.columns)

    @cached_property
    def select_checked(self) -> str:
        """The columns that `crc` covers, to be selected with it."""
        return self.select.partition(f", {self.name}.{self.texts[0]} AS")[0] if self.texts else self.select

    def values(self, columns: Mapping[str, Any]) -> tuple[Any, ...]:
        """Return the values of a row for `insert`: with new checksums, and with a new number if it has none."""
        checked = [columns[name] for name in self.checked]
        texts = [columns[name] for name in self.texts]
        row = (columns.get("row"),) if self.numbered else ()
        return (*row, *checked, checksum(*checked), *((*texts, checksum(*texts)) if texts else ()))

    def check(self, path: Path | None, columns: Sequence[Sequence[Any]], *, texts: bool = True) -> None:
        """Compare rows, given column by column with or without texts, with their checksums and the types of columns.

        Raises:
            DamagedError: if one is not as it was written.
        """
        first = int(self.numbered)
        for names in (self.checked, self.texts if texts else ()):
            if not columns or not names:
                return
            last = first + len(names)
            if checksums(columns[first:last]) != list(columns[last]):
                raise DamagedError(path, f"a row of its table {self.name} is not as it was written")
            for name, column in zip(names, columns[first:last], strict=True):
                if not set(map(type, column)) <= self.types[name]:
                    raise DamagedError(
                        path, f"a value of {name} in its table {self.name} has another type than we write"
                    )
            first = last + 1


@dataclass(frozen=True, kw_only=True)
class Schema:
    """Schema of one kind of file.

    Attributes:
        noun: The name of such a file.
        made_by: How to make one, for messages about a file that does not exist.
        application_id: Distinguishes it from other SQLite files.
        statements: The statements that make the tables, except `sums`; one of the tables is `meta`.
        small: Tables in which a changed row could go unnoticed, because no index covers it: read completely on opening.
        migrations: One step for each version after the first.
        missing: The packages that would add tables and are not there.
    """

    noun: str
    made_by: str
    application_id: int
    statements: str
    small: tuple[str, ...]
    migrations: tuple[Migration, ...] = ()
    missing: tuple[str, ...] = ()

    @property
    def version(self) -> int:
        """The version of the tables, which is written into the file."""
        return 1 + len(self.migrations)

    @cached_property
    def tables(self) -> dict[str, Table]:
        """All tables by their names, except `sums`."""
        return tables_in(self.statements)

    @cached_property
    def _described(self) -> list[tuple[str, str, str]]:
        with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
            _execute(db, self.statements + _SUMS)
            return described(db)

    def make(self, db: sqlite3.Connection) -> None:
        """Write the tables into an empty database, inside a transaction."""
        _execute(db, self.statements + _SUMS)
        db.executemany("INSERT INTO sums VALUES (?, 0, 0)", [(name,) for name in self.tables])
        db.execute(f"PRAGMA application_id = {self.application_id}")
        db.execute(f"PRAGMA user_version = {self.version}")

    def keep_sums(self, db: sqlite3.Connection) -> None:
        """Make this connection keep `sums` up to date."""
        for name in self.tables:
            for kind, event, rows, total in (
                ("made", "INSERT", 1, "new.crc"),
                ("gone", "DELETE", -1, "-old.crc"),
                ("changed", "UPDATE OF crc", 0, "new.crc - old.crc"),
            ):
                db.execute(
                    f"CREATE TEMP TRIGGER IF NOT EXISTS {name}_{kind} AFTER {event} ON main.{name} BEGIN"
                    f" UPDATE sums SET rows = rows + {rows}, total = total + ({total}) WHERE name = '{name}'; END"
                )

    def check_version(self, db: sqlite3.Connection, path: Path | None) -> int:
        """Return the version of a file's tables; another kind of file, or version, is a `StoreError`."""
        if db.execute("PRAGMA application_id").fetchone()[0] != self.application_id:
            raise StoreError(f"{path} is not a {self.noun} of epic-memory. Give another file name.")
        version = int(db.execute("PRAGMA user_version").fetchone()[0])
        if not 0 < version <= self.version:
            raise StoreError(
                f"{path} has schema version {version}, this epic-memory reads {self.version}."
                " Use the version of epic-memory that made it, or a newer one."
            )
        return version

    def migrate(self, db: sqlite3.Connection, version: int, path: Path | None) -> None:
        """Convert a file from an earlier version to this one, inside a transaction without foreign keys.

        Raises:
            DamagedError: if its tables are then not those of this version.
        """
        for migration in self.migrations[version - 1 :]:
            migration(db)
        db.execute(f"PRAGMA user_version = {self.version}")
        self.check_schema(db, path)

    def check_schema(self, db: sqlite3.Connection, path: Path | None) -> None:
        """Raise an error unless the tables are exactly ours, so that a file can neither execute nor hide anything.

        Raises:
            StoreError: if it holds a view or a trigger, or was made where a package was missing.
            MissingPackageError: if a package is missing now, whose tables it may have.
            DamagedError: if its tables are not ours.
        """
        foreign = db.execute("SELECT name FROM sqlite_master WHERE type NOT IN ('table', 'index') LIMIT 1").fetchone()
        if foreign is not None:
            raise StoreError(f"{path} holds {foreign[0]!r}, which no {self.noun} holds. Do not trust this file.")
        found = described(db)
        if found == self._described:
            return
        if self.missing:
            raise MissingPackageError(self.missing[0])
        lacking = {table for _, table, _ in self._described} - {table for _, table, _ in found}
        if [one for one in self._described if one[1] not in lacking] == found:
            raise StoreError(
                f"{path} was made where a package of epic-memory was missing, and lacks its tables:"
                f" {', '.join(sorted(lacking))}. There, `epic export` writes what it holds; `epic restore` reads that."
            )
        raise DamagedError(path, f"its tables are not those of a {self.noun}")

    def check_sums(self, db: sqlite3.Connection, path: Path | None) -> None:
        """Compare each table with its row in `sums`; missing or changed rows are a `DamagedError`."""
        sums = {name: (rows, total) for name, rows, total in db.execute("SELECT name, rows, total FROM sums")}
        for name in self.tables:
            found = db.execute(f"SELECT count(*), coalesce(sum(crc), 0) FROM {name}").fetchone()
            if sums.get(name) != found:
                raise DamagedError(path, f"its table {name} has {found[0]} rows that are not those written")

    def check_rows(self, db: sqlite3.Connection, path: Path | None, names: Iterable[str] | None = None) -> int:
        """Compare rows, of all tables or some, with their checksums; return how many, or raise a `DamagedError`."""
        count = 0
        for name in self.tables if names is None else names:
            cursor = db.execute(f"SELECT {self.tables[name].select} FROM {name}")
            while rows := cursor.fetchmany(_CHECKED_AT_ONCE):
                self.tables[name].check(path, list(zip(*rows, strict=True)))
                count += len(rows)
        return count


def described(db: sqlite3.Connection) -> list[tuple[str, str, str]]:
    """Return the tables and indexes of a database: name, table, and the statement that made it."""
    found = db.execute("SELECT name, tbl_name, sql FROM main.sqlite_master ORDER BY name").fetchall()
    return [(str(name), str(table), str(sql)) for name, table, sql in found]


@lru_cache(maxsize=32)
def tables_in(statements: str) -> dict[str, Table]:
    """Return the tables that statements make, by their names."""
    with closing(sqlite3.connect(":memory:")) as db:
        _execute(db, statements)
        return {name: Table.of(db, name) for name, table, _ in described(db) if name == table != "sqlite_sequence"}


def _execute(db: sqlite3.Connection, statements: str) -> None:
    # `executescript` would commit the transaction.
    for statement in statements.split(";\n"):
        if statement.strip():
            db.execute(statement)
