"""The tables of a memory's file, their checksums, and how a file of an older version becomes one of this.

Each row carries a checksum of its columns (`crc`; where a row has long texts, `text_crc` covers these, so that a row
can be checked without reading them). `sums` holds, for each table, how many rows it has and what their checksums add
up to, so that a row that is missing is noticed too. Triggers keep it; they belong to the connection, not to the file,
which holds none.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from epic_core.codes import packed
from epic_core.errors import DamagedError, StoreError
from epic_core.rows import checksum, deflated, item_digest

APPLICATION_ID = 0x45504943  # "EPIC"
SCHEMA_VERSION = 3

SCHEMA = """
CREATE TABLE meta (row INTEGER PRIMARY KEY, key TEXT, value TEXT, crc INTEGER);
CREATE TABLE preferences (
 row INTEGER PRIMARY KEY AUTOINCREMENT, namespace TEXT, position INTEGER, id TEXT, text TEXT, expires REAL,
 vector BLOB, crc INTEGER
);
CREATE TABLE items (
 row INTEGER PRIMARY KEY AUTOINCREMENT, namespace TEXT, id TEXT, digest BLOB, metadata TEXT, second_tier BLOB,
 rewritten_for BLOB, crc INTEGER, text_crc INTEGER, text, rewrite, UNIQUE (namespace, id)
);
CREATE TABLE entries (
 row INTEGER PRIMARY KEY AUTOINCREMENT, item INTEGER REFERENCES items ON DELETE CASCADE,
 preference INTEGER REFERENCES preferences ON DELETE CASCADE, stance TEXT, confidence REAL, similarity REAL,
 added INTEGER, verifier INTEGER, vector BLOB, crc INTEGER, text_crc INTEGER, instruction, rationale,
 UNIQUE (item, preference)
);
CREATE TABLE uses (
 entry INTEGER PRIMARY KEY REFERENCES entries ON DELETE CASCADE, count INTEGER, used INTEGER, crc INTEGER
);
CREATE TABLE pending (
 row INTEGER PRIMARY KEY AUTOINCREMENT, namespace TEXT, id TEXT, text, metadata TEXT, reason TEXT,
 preferences TEXT, crc INTEGER, UNIQUE (namespace, id)
);
CREATE TABLE verdicts (
 chunk BLOB, preference BLOB, version BLOB, written INTEGER, kept INTEGER, stance TEXT, instruction TEXT,
 rationale TEXT, confidence REAL, crc INTEGER, PRIMARY KEY (chunk, preference, version)
) WITHOUT ROWID;
CREATE TABLE rewrites (
 chunk BLOB, preferences BLOB, version BLOB, written INTEGER, text TEXT, crc INTEGER,
 PRIMARY KEY (chunk, preferences, version)
) WITHOUT ROWID;
CREATE TABLE ledger (row INTEGER PRIMARY KEY AUTOINCREMENT, namespace TEXT, digests BLOB, crc INTEGER);
CREATE TABLE not_kept (
 row INTEGER PRIMARY KEY AUTOINCREMENT, namespace TEXT, id TEXT, digest BLOB, stage TEXT, reason TEXT,
 preference INTEGER, similarity REAL, at INTEGER, text TEXT, crc INTEGER
);
CREATE TABLE sums (name TEXT PRIMARY KEY, rows INTEGER, total INTEGER) WITHOUT ROWID;
"""


@dataclass(frozen=True)
class Table:
    """A table: the columns that `crc` covers, and those that `text_crc` covers."""

    name: str
    checked: tuple[str, ...]
    texts: tuple[str, ...] = ()
    numbered: bool = True

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns, in the order in which `values` gives them."""
        return (
            *(("row",) if self.numbered else ()),
            *self.checked,
            "crc",
            *((*self.texts, "text_crc") if self.texts else ()),
        )

    @property
    def insert(self) -> str:
        """The statement that writes a row in place of one with the same key."""
        marks = ", ".join("?" * len(self.columns))
        return f"INSERT OR REPLACE INTO {self.name} ({', '.join(self.columns)}) VALUES ({marks})"

    def values(self, columns: Mapping[str, Any], row: int | None = None) -> tuple[Any, ...]:
        """What `insert` takes for a row."""
        checked = [columns[name] for name in self.checked]
        texts = [columns[name] for name in self.texts]
        return (
            *((row,) if self.numbered else ()),
            *checked,
            checksum(*checked),
            *((*texts, checksum(*texts)) if texts else ()),
        )

    def verify(self, path: Path | None, crc: object, *values: object) -> None:
        """Compare columns that were read with the checksum that was.

        Raises:
            DamagedError: if they differ.
        """
        if checksum(*values) != crc:
            raise DamagedError(path, f"a row of its table {self.name} is not as it was written")


META = Table("meta", ("key", "value"))
PREFERENCES = Table("preferences", ("namespace", "position", "id", "text", "expires", "vector"))
ITEMS = Table("items", ("namespace", "id", "digest", "metadata", "second_tier", "rewritten_for"), ("text", "rewrite"))
ENTRIES = Table(
    "entries",
    ("item", "preference", "stance", "confidence", "similarity", "added", "verifier", "vector"),
    ("instruction", "rationale"),
)
USES = Table("uses", ("entry", "count", "used"), numbered=False)
PENDING = Table("pending", ("namespace", "id", "text", "metadata", "reason", "preferences"))
VERDICTS = Table(
    "verdicts",
    ("chunk", "preference", "version", "written", "kept", "stance", "instruction", "rationale", "confidence"),
    numbered=False,
)
REWRITES = Table("rewrites", ("chunk", "preferences", "version", "written", "text"), numbered=False)
LEDGER = Table("ledger", ("namespace", "digests"))
NOT_KEPT = Table("not_kept", ("namespace", "id", "digest", "stage", "reason", "preference", "similarity", "at", "text"))
TABLES = (META, PREFERENCES, ITEMS, ENTRIES, USES, PENDING, VERDICTS, REWRITES, LEDGER, NOT_KEPT)


def make(db: sqlite3.Connection) -> None:
    """Write the schema into an empty database, inside a transaction."""
    _execute(db, SCHEMA)
    db.executemany("INSERT INTO sums VALUES (?, 0, 0)", [(table.name,) for table in TABLES])
    db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def keep_sums(db: sqlite3.Connection) -> None:
    """Have this connection keep `sums`."""
    for table in TABLES:
        name = table.name
        for kind, event, rows, total in (
            ("made", "INSERT", 1, "new.crc"),
            ("gone", "DELETE", -1, "-old.crc"),
            ("changed", "UPDATE OF crc", 0, "new.crc - old.crc"),
        ):
            db.execute(
                f"CREATE TEMP TRIGGER IF NOT EXISTS {name}_{kind} AFTER {event} ON main.{name} BEGIN"
                f" UPDATE sums SET rows = rows + {rows}, total = total + ({total}) WHERE name = '{name}'; END"
            )


def check_version(db: sqlite3.Connection, path: Path | None) -> int:
    """The version of a file's schema.

    Raises:
        StoreError: if it is no memory, or of a version that is not known here.
    """
    if db.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
        raise StoreError(f"{path} is not a memory of epic-memory. Give another file name.")
    version = int(db.execute("PRAGMA user_version").fetchone()[0])
    if not 0 < version <= SCHEMA_VERSION:
        raise StoreError(
            f"{path} has schema version {version}, this epic-memory reads {SCHEMA_VERSION}."
            " Use the version of epic-memory that made it, or a newer one."
        )
    return version


def check_schema(db: sqlite3.Connection, path: Path | None) -> None:
    """Refuse a file whose tables are not exactly ours: nothing in a file is executed, nothing can be hidden in it.

    Raises:
        StoreError: if they are not.
    """
    foreign = db.execute("SELECT name FROM sqlite_master WHERE type NOT IN ('table', 'index') LIMIT 1").fetchone()
    if foreign is not None:
        raise StoreError(f"{path} holds {foreign[0]!r}, which no memory holds. Do not trust this file.")
    if _described(db) != _expected():
        raise DamagedError(path, "its tables are not those of a memory")


def check_sums(db: sqlite3.Connection, path: Path | None) -> None:
    """Compare each table with what `sums` says of it.

    Raises:
        DamagedError: if rows are missing or were changed.
    """
    sums = {name: (rows, total) for name, rows, total in db.execute("SELECT name, rows, total FROM sums")}
    for table in TABLES:
        found = db.execute(f"SELECT count(*), coalesce(sum(crc), 0) FROM {table.name}").fetchone()
        if sums.get(table.name) != found:
            raise DamagedError(path, f"its table {table.name} has {found[0]} rows that are not those written")


def check_small(db: sqlite3.Connection, path: Path | None) -> None:
    """Read every row of the tables in which a row could be hidden: no index would notice.

    Raises:
        DamagedError: if one is not as it was written.
    """
    check_rows(db, path, (META, PREFERENCES, USES, LEDGER, NOT_KEPT))


def check_rows(db: sqlite3.Connection, path: Path | None, tables: Sequence[Table] = TABLES) -> int:
    """Read every row and compare it with its checksums; how many there are.

    Raises:
        DamagedError: if one is not as it was written.
    """
    count = 0
    for table in tables:
        rows = db.execute(f"SELECT crc, {', '.join(table.checked)} FROM {table.name}")
        for crc, *values in rows:
            table.verify(path, crc, *values)
            count += 1
        if table.texts:
            for crc, *values in db.execute(f"SELECT text_crc, {', '.join(table.texts)} FROM {table.name}"):
                table.verify(path, crc, *values)
    return count


def _described(db: sqlite3.Connection) -> list[tuple[str, str, str]]:
    found = db.execute("SELECT name, tbl_name, sql FROM main.sqlite_master ORDER BY name").fetchall()
    return [(str(name), str(table), str(sql)) for name, table, sql in found]


@lru_cache(maxsize=1)
def _expected() -> list[tuple[str, str, str]]:
    db = sqlite3.connect(":memory:", isolation_level=None)
    try:
        _execute(db, SCHEMA)
        return _described(db)
    finally:
        db.close()


def _execute(db: sqlite3.Connection, statements: str) -> None:
    # Not `executescript`, which would commit.
    for statement in statements.split(";\n"):
        if statement.strip():
            db.execute(statement)


# What the tables of versions 1 and 2 held, in the order of the columns there.
_OLD = {
    "meta": "key, value",
    "preferences": "row, namespace, position, id, text, vector",
    "items": "row, namespace, id, text, metadata, second_tier",
    "entries": "row, item, preference, instruction, stance, rationale, confidence, similarity, vector",
    "pending": "row, namespace, id, text, metadata, reason, preferences",
}
_SECOND = {
    "items": "row, namespace, id, text, metadata, second_tier, rewrite, rewritten_for",
    "verdicts": "chunk, preference, version, written, kept, stance, instruction, rationale, confidence",
    "rewrites": "chunk, preferences, version, written, text",
}


def upgrade(db: sqlite3.Connection, version: int, path: Path | None) -> None:
    """Bring a file of version 1 or 2 to this one, inside a transaction.

    Raises:
        DamagedError: if it holds what those versions never wrote.
    """
    columns = _OLD | (_SECOND if version > 1 else {})
    there = {name for name, table, _ in _described(db) if name == table}
    if there != {*columns, "sqlite_sequence"}:
        raise DamagedError(path, f"its tables are not those of schema version {version}")
    names = {table: listed.split(", ") for table, listed in columns.items()}
    try:
        old = {
            table: [dict(zip(names[table], row, strict=True)) for row in db.execute(f"SELECT {listed} FROM {table}")]
            for table, listed in columns.items()
        }
        _converted(old)
    except (sqlite3.OperationalError, ValueError, TypeError, AttributeError) as error:
        raise DamagedError(path, str(error)[:200]) from None
    highest = dict(db.execute("SELECT name, seq FROM sqlite_sequence").fetchall())
    # Entries before what they refer to.
    for name in ("entries", "items", "preferences", "pending", "meta", "verdicts", "rewrites"):
        db.execute(f"DROP TABLE IF EXISTS {name}")
    make(db)
    keep_sums(db)
    for table in TABLES:
        db.executemany(table.insert, [table.values(row, row.get("row")) for row in old.get(table.name, ())])
    # A number once given is never given again.
    db.executemany("DELETE FROM sqlite_sequence WHERE name = ?", [(name,) for name in highest])
    db.executemany("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", list(highest.items()))
    check_schema(db, path)


def _converted(old: dict[str, list[dict[str, Any]]]) -> None:
    """Bring rows of older versions into the form they have now, in place."""
    now = int(time.time())
    for row in old["preferences"]:
        row.update(expires=None, vector=_code(row["vector"]))
    for row in old["items"]:
        second = row["second_tier"]
        row.update(
            digest=item_digest(row["id"], row["text"], row["metadata"]),
            second_tier=None if second is None else _code(second),
            text=deflated(row["text"]),
            rewrite=None if row.get("rewrite") is None else deflated(row["rewrite"]),
            rewritten_for=row.get("rewritten_for"),
        )
        json.loads(row["metadata"])
    for row in old["pending"]:
        row.update(text=deflated(row["text"]))
    for row in old["entries"]:
        row.update(added=now, verifier=0, vector=_code(row["vector"]))


def _code(vector: bytes) -> bytes:
    return packed(np.frombuffer(vector, dtype="<f4").reshape(1, -1))[0]
