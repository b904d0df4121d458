"""Schema of a memory's own tables, with checksums as in `sqlite.tables`; other packages add theirs (`additions`)."""

from __future__ import annotations

from epic_memory.storage.sqlite.tables import tables_in

STATEMENTS = """
CREATE TABLE meta (row INTEGER PRIMARY KEY, key TEXT NOT NULL, value TEXT NOT NULL, crc INTEGER);
CREATE TABLE preferences (
 row INTEGER PRIMARY KEY AUTOINCREMENT, namespace TEXT NOT NULL, position INTEGER NOT NULL, id TEXT NOT NULL,
 text TEXT NOT NULL, expires REAL, aspects TEXT, vector BLOB NOT NULL, crc INTEGER
);
CREATE TABLE items (
 row INTEGER PRIMARY KEY AUTOINCREMENT, namespace TEXT NOT NULL, id TEXT NOT NULL, digest BLOB NOT NULL,
 metadata TEXT NOT NULL, embedding BLOB NOT NULL, fact INTEGER NOT NULL, expires REAL, crc INTEGER,
 text_crc INTEGER, text, UNIQUE (namespace, id)
);
CREATE TABLE entries (
 row INTEGER PRIMARY KEY AUTOINCREMENT, item INTEGER REFERENCES items ON DELETE CASCADE NOT NULL,
 preference INTEGER REFERENCES preferences ON DELETE CASCADE, stance TEXT NOT NULL, confidence REAL,
 similarity REAL NOT NULL, added INTEGER NOT NULL, verifier INTEGER, vector BLOB NOT NULL, crc INTEGER,
 text_crc INTEGER, instruction, rationale, UNIQUE (item, preference)
);
CREATE TABLE pending (
 row INTEGER PRIMARY KEY AUTOINCREMENT, namespace TEXT NOT NULL, id TEXT NOT NULL, text NOT NULL,
 metadata TEXT NOT NULL, reason TEXT NOT NULL, preferences TEXT NOT NULL, expires REAL, crc INTEGER,
 UNIQUE (namespace, id)
);
CREATE TABLE verdicts (
 chunk BLOB NOT NULL, preference BLOB NOT NULL, version BLOB NOT NULL, written INTEGER NOT NULL, kept INTEGER NOT NULL,
 stance TEXT, instruction TEXT, rationale TEXT, confidence REAL, crc INTEGER, PRIMARY KEY (chunk, preference, version)
) WITHOUT ROWID;
CREATE TABLE ledger (
 row INTEGER PRIMARY KEY AUTOINCREMENT, namespace TEXT NOT NULL, digests BLOB NOT NULL, crc INTEGER
);
CREATE TABLE not_kept (
 row INTEGER PRIMARY KEY AUTOINCREMENT, namespace TEXT NOT NULL, id TEXT NOT NULL, digest BLOB NOT NULL,
 stage TEXT NOT NULL, reason TEXT NOT NULL, preference INTEGER, similarity REAL, at INTEGER NOT NULL,
 text TEXT NOT NULL, crc INTEGER
);
"""
"""The statements that make the tables."""

_TABLES = tables_in(STATEMENTS)
PREFERENCES, ITEMS, ENTRIES, PENDING = (_TABLES[name] for name in ("preferences", "items", "entries", "pending"))
VERDICTS, LEDGER, NOT_KEPT = (_TABLES[name] for name in ("verdicts", "ledger", "not_kept"))
