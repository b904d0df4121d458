"""The tables of a memory's file, kept as `tables` says, and how an older file becomes one of this version."""

from __future__ import annotations

import json
import sqlite3
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from epic_core.errors import DamagedError
from epic_core.storage.row_codec import deflated
from epic_core.storage.sqlite.tables import META, Schema, Table, described
from epic_core.storage.vector_codec import packed
from epic_core.types.digests import item_digest

APPLICATION_ID = 0x45504943  # "EPIC"
SCHEMA_VERSION = 4
# Of a file that also has the tables of a graph: nobody else pays for them.
GRAPH_VERSION = 5

_STATEMENTS = """
CREATE TABLE meta (row INTEGER PRIMARY KEY, key TEXT, value TEXT, crc INTEGER);
CREATE TABLE preferences (
 row INTEGER PRIMARY KEY AUTOINCREMENT, namespace TEXT, position INTEGER, id TEXT, text TEXT, expires REAL,
 aspects TEXT, vector BLOB, crc INTEGER
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
"""

_GRAPH_STATEMENTS = """\
CREATE TABLE entities (
 row INTEGER PRIMARY KEY AUTOINCREMENT, namespace TEXT, name TEXT, key TEXT, passages INTEGER, spelt INTEGER,
 near BLOB, vector BLOB, crc INTEGER
);
CREATE TABLE passages (
 item INTEGER PRIMARY KEY REFERENCES items ON DELETE CASCADE, extractor INTEGER, entities BLOB, facts BLOB,
 relations BLOB, failure TEXT, crc INTEGER
);
"""


PREFERENCES = Table("preferences", ("namespace", "position", "id", "text", "expires", "aspects", "vector"))
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
ENTITIES = Table("entities", ("namespace", "name", "key", "passages", "spelt", "near", "vector"))
PASSAGES = Table("passages", ("item", "extractor", "entities", "facts", "relations", "failure"), numbered=False)
TABLES = (META, PREFERENCES, ITEMS, ENTRIES, USES, PENDING, VERDICTS, REWRITES, LEDGER, NOT_KEPT)


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
    """Bring a file of an earlier version to this one, inside a transaction.

    Raises:
        DamagedError: if it holds what those versions never wrote.
    """
    if version == 3:
        _upgrade_third(db, path)
        return
    columns = _OLD | (_SECOND if version > 1 else {})
    there = {name for name, table, _ in described(db) if name == table}
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
    MEMORY.make(db)
    MEMORY.keep_sums(db)
    for table in TABLES:
        db.executemany(table.insert, [table.values(row, row.get("row")) for row in old.get(table.name, ())])
    # A number once given is never given again.
    db.executemany("DELETE FROM sqlite_sequence WHERE name = ?", [(name,) for name in highest])
    db.executemany("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", list(highest.items()))
    MEMORY.check_schema(db, path)


def _upgrade_third(db: sqlite3.Connection, path: Path | None) -> None:
    """Give preferences their column of aspects; every row is checked before it gets a new checksum."""
    for check in (_THIRD.check_schema, _THIRD.check_sums, _THIRD.check_rows):
        check(db, path)
    highest = db.execute("SELECT seq, name FROM sqlite_sequence").fetchall()
    # A table that others refer to goes only with them: they are set aside, those that refer first.
    aside = ("uses", "entries", "preferences")
    for name in aside:
        db.execute(f"CREATE TEMP TABLE {name}_aside AS SELECT * FROM main.{name}")
    for name in aside:
        db.execute(f"DROP TABLE main.{name}")
    for statement in _STATEMENTS.split(";\n"):
        if statement.startswith(tuple(f"CREATE TABLE {name} (" for name in aside)):
            db.execute(statement)
    kept = [name for name in PREFERENCES.columns if name not in ("aspects", "crc")]
    rows = db.execute(f"SELECT {', '.join(kept)} FROM preferences_aside").fetchall()
    for values in rows:
        row = dict(zip(kept, values, strict=True))
        db.execute(PREFERENCES.insert, PREFERENCES.values({**row, "aspects": None}, row["row"]))
    for name in ("entries", "uses"):
        db.execute(f"INSERT INTO main.{name} SELECT * FROM {name}_aside")
    for name in aside:
        db.execute(f"DROP TABLE temp.{name}_aside")
    db.execute("UPDATE sums SET total = (SELECT coalesce(sum(crc), 0) FROM preferences) WHERE name = 'preferences'")
    # A number once given is never given again, not even after its row has gone.
    db.execute("DELETE FROM sqlite_sequence")
    db.executemany("INSERT INTO sqlite_sequence (seq, name) VALUES (?, ?)", highest)
    db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    MEMORY.check_schema(db, path)


def _converted(old: dict[str, list[dict[str, Any]]]) -> None:
    """Bring rows of older versions into the form they have now, in place."""
    now = int(time.time())
    for row in old["preferences"]:
        row.update(expires=None, aspects=None, vector=_code(row["vector"]))
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


_PLAIN = Schema(
    noun="memory",
    made_by="epic build, or EpicMemory.open(path, preferences=[...])",
    application_id=APPLICATION_ID,
    version=SCHEMA_VERSION,
    statements=_STATEMENTS,
    tables=TABLES,
    small=(META, PREFERENCES, USES, LEDGER, NOT_KEPT),
    upgrade=upgrade,
)
MEMORY = replace(
    _PLAIN,
    extended=replace(
        _PLAIN,
        version=GRAPH_VERSION,
        statements=_STATEMENTS + _GRAPH_STATEMENTS,
        tables=(*TABLES, ENTITIES, PASSAGES),
        upgrade=None,
    ),
)
_THIRD = replace(
    _PLAIN,
    version=3,
    statements=_STATEMENTS.replace(" aspects TEXT, vector BLOB", " vector BLOB"),
    tables=tuple(
        replace(table, checked=tuple(name for name in table.checked if name != "aspects")) for table in TABLES
    ),
)
