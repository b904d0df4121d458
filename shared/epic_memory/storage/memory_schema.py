"""Schema of the file of memories and collections: its tables, with checksums as in `sqlite.tables`."""

from __future__ import annotations

from epic_memory.storage.sqlite.connection import Table
from epic_memory.storage.sqlite.tables import META, Schema

_STATEMENTS = """
CREATE TABLE meta (row INTEGER PRIMARY KEY, key TEXT NOT NULL, value TEXT NOT NULL, crc INTEGER);
CREATE TABLE preferences (
 row INTEGER PRIMARY KEY AUTOINCREMENT, namespace TEXT NOT NULL, position INTEGER NOT NULL, id TEXT NOT NULL,
 text TEXT NOT NULL, expires REAL, aspects TEXT, vector BLOB NOT NULL, crc INTEGER
);
CREATE TABLE items (
 row INTEGER PRIMARY KEY AUTOINCREMENT, namespace TEXT NOT NULL, id TEXT NOT NULL, digest BLOB NOT NULL,
 metadata TEXT NOT NULL, embedding BLOB, fact INTEGER NOT NULL, expires REAL, crc INTEGER,
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
 passages INTEGER, spelt INTEGER, near BLOB, vector BLOB, crc INTEGER
);
CREATE TABLE passages (
 item INTEGER PRIMARY KEY REFERENCES items ON DELETE CASCADE, extractor INTEGER, entities BLOB,
 facts BLOB, relations, failure TEXT, crc INTEGER
);
"""


PREFERENCES = Table("preferences", ("namespace", "position", "id", "text", "expires", "aspects", "vector"))
ITEMS = Table(
    "items",
    ("namespace", "id", "digest", "metadata", "embedding", "fact", "expires"),
    ("text",),
)
ENTRIES = Table(
    "entries",
    ("item", "preference", "stance", "confidence", "similarity", "added", "verifier", "vector"),
    ("instruction", "rationale"),
)
PENDING = Table("pending", ("namespace", "id", "text", "metadata", "reason", "preferences", "expires"))
VERDICTS = Table(
    "verdicts",
    ("chunk", "preference", "version", "written", "kept", "stance", "instruction", "rationale", "confidence"),
    numbered=False,
)
LEDGER = Table("ledger", ("namespace", "digests"))
NOT_KEPT = Table("not_kept", ("namespace", "id", "digest", "stage", "reason", "preference", "similarity", "at", "text"))
EDITS = Table("edits", ("namespace", "kind", "item", "old", "at", "reason", "expires"), ("texts",))
PROPOSALS = Table(
    "proposals",
    (
        "namespace",
        "id",
        "said",
        "state",
        "kind",
        "text",
        "old",
        "quote",
        "sentence",
        "speaker",
        "said_at",
        "conversation",
        "turn",
        "confidence",
        "source",
        "ends",
        "expires",
        "at",
    ),
)
LEARNT = Table("learnt", ("namespace", "kind", "value"))
RECORDS = Table("records", ("namespace", "id", "metadata"), ("text",))
KEYS = Table("keys", ("record", "position", "stance", "vector"))
ENTITIES = Table("entities", ("namespace", "name", "key", "passages", "spelt", "near", "vector"))
PASSAGES = Table("passages", ("item", "extractor", "entities", "facts", "relations", "failure"), numbered=False)
TABLES = (
    META,
    PREFERENCES,
    ITEMS,
    ENTRIES,
    PENDING,
    VERDICTS,
    LEDGER,
    NOT_KEPT,
    EDITS,
    PROPOSALS,
    LEARNT,
    RECORDS,
    KEYS,
    ENTITIES,
    PASSAGES,
)

MEMORY = Schema(
    noun="memory",
    made_by="epic build, or EpicMemory.open(path, preferences=[...])",
    application_id=0x45504943,  # "EPIC"
    statements=_STATEMENTS,
    tables=TABLES,
    small=(META, PREFERENCES, LEDGER, NOT_KEPT, EDITS, PROPOSALS),
)
