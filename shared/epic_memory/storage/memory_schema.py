"""Schema of the file of memories and collections: its tables, with checksums as in `sqlite.tables`."""

from __future__ import annotations

from epic_memory.storage.sqlite.tables import Schema

_STATEMENTS = """
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
CREATE TABLE edits (
 row INTEGER PRIMARY KEY AUTOINCREMENT, namespace TEXT NOT NULL, kind TEXT NOT NULL, item TEXT NOT NULL, old TEXT,
 at REAL NOT NULL, reason TEXT NOT NULL, expires REAL, crc INTEGER, text_crc INTEGER, texts NOT NULL
);
CREATE TABLE proposals (
 row INTEGER PRIMARY KEY AUTOINCREMENT, namespace TEXT NOT NULL, id TEXT NOT NULL, said BLOB NOT NULL,
 state TEXT NOT NULL, kind TEXT NOT NULL, text TEXT NOT NULL, old TEXT NOT NULL, quote TEXT NOT NULL,
 sentence TEXT NOT NULL, speaker TEXT NOT NULL, said_at REAL, conversation TEXT NOT NULL, turn INTEGER,
 confidence REAL NOT NULL, source TEXT NOT NULL, ends TEXT NOT NULL, expires REAL, at INTEGER NOT NULL, crc INTEGER,
 UNIQUE (namespace, id)
);
CREATE TABLE learnt (
 row INTEGER PRIMARY KEY AUTOINCREMENT, namespace TEXT NOT NULL, kind TEXT NOT NULL, value NOT NULL, crc INTEGER
);
CREATE TABLE records (
 row INTEGER PRIMARY KEY AUTOINCREMENT, namespace TEXT NOT NULL, id TEXT NOT NULL, metadata NOT NULL, crc INTEGER,
 text_crc INTEGER, text NOT NULL, UNIQUE (namespace, id)
);
CREATE TABLE keys (
 row INTEGER PRIMARY KEY AUTOINCREMENT, record INTEGER REFERENCES records ON DELETE CASCADE NOT NULL,
 position INTEGER NOT NULL, stance TEXT, vector BLOB NOT NULL, crc INTEGER, UNIQUE (record, position)
);
CREATE TABLE entities (
 row INTEGER PRIMARY KEY AUTOINCREMENT, namespace TEXT, name TEXT, key TEXT,
 passages INTEGER, spelt INTEGER, crc INTEGER
);
CREATE TABLE passages (
 item INTEGER PRIMARY KEY REFERENCES items ON DELETE CASCADE, extractor INTEGER, entities BLOB,
 facts BLOB, relations, failure TEXT, crc INTEGER
);
"""

MEMORY = Schema(
    noun="memory",
    made_by="epic build, or EpicMemory.open(path, preferences=[...])",
    application_id=0x45504943,  # "EPIC"
    statements=_STATEMENTS,
    small=("meta", "preferences", "ledger", "not_kept", "edits", "proposals"),
)
TABLES = tuple(MEMORY.tables.values())
PREFERENCES, ITEMS, ENTRIES, PENDING = (MEMORY.tables[name] for name in ("preferences", "items", "entries", "pending"))
VERDICTS, LEDGER, NOT_KEPT = (MEMORY.tables[name] for name in ("verdicts", "ledger", "not_kept"))
EDITS, PROPOSALS, LEARNT = (MEMORY.tables[name] for name in ("edits", "proposals", "learnt"))
RECORDS, KEYS = MEMORY.tables["records"], MEMORY.tables["keys"]
ENTITIES, PASSAGES = MEMORY.tables["entities"], MEMORY.tables["passages"]
