"""Schema of a memory's file: its tables, with checksums as in `sqlite.tables`."""

from __future__ import annotations

from epic_core.storage.sqlite.connection import Table
from epic_core.storage.sqlite.tables import META, Schema

_STATEMENTS = """
CREATE TABLE meta (row INTEGER PRIMARY KEY, key TEXT, value TEXT, crc INTEGER);
CREATE TABLE preferences (
 row INTEGER PRIMARY KEY AUTOINCREMENT, namespace TEXT, position INTEGER, id TEXT, text TEXT, expires REAL,
 aspects TEXT, vector BLOB, crc INTEGER
);
CREATE TABLE items (
 row INTEGER PRIMARY KEY AUTOINCREMENT, namespace TEXT, id TEXT, digest BLOB, metadata TEXT, embedding BLOB,
 fact INTEGER, expires REAL, crc INTEGER, text_crc INTEGER, text, UNIQUE (namespace, id)
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
 preferences TEXT, expires REAL, crc INTEGER, UNIQUE (namespace, id)
);
CREATE TABLE verdicts (
 chunk BLOB, preference BLOB, version BLOB, written INTEGER, kept INTEGER, stance TEXT, instruction TEXT,
 rationale TEXT, confidence REAL, crc INTEGER, PRIMARY KEY (chunk, preference, version)
) WITHOUT ROWID;
CREATE TABLE ledger (row INTEGER PRIMARY KEY AUTOINCREMENT, namespace TEXT, digests BLOB, crc INTEGER);
CREATE TABLE not_kept (
 row INTEGER PRIMARY KEY AUTOINCREMENT, namespace TEXT, id TEXT, digest BLOB, stage TEXT, reason TEXT,
 preference INTEGER, similarity REAL, at INTEGER, text TEXT, crc INTEGER
);
CREATE TABLE edits (
 row INTEGER PRIMARY KEY AUTOINCREMENT, namespace TEXT, kind TEXT, item TEXT, old TEXT, at REAL, reason TEXT,
 expires REAL, crc INTEGER, text_crc INTEGER, texts
);
CREATE TABLE proposals (
 row INTEGER PRIMARY KEY AUTOINCREMENT, namespace TEXT, id TEXT, said BLOB, state TEXT, kind TEXT, text TEXT, old TEXT,
 quote TEXT, sentence TEXT, speaker TEXT, said_at REAL, turn INTEGER, confidence REAL, source TEXT, expires REAL,
 at INTEGER, crc INTEGER, UNIQUE (namespace, id)
);
CREATE TABLE learnt (row INTEGER PRIMARY KEY AUTOINCREMENT, namespace TEXT, kind TEXT, value BLOB, crc INTEGER);
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
USES = Table("uses", ("entry", "count", "used"), numbered=False)
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
        "turn",
        "confidence",
        "source",
        "expires",
        "at",
    ),
)
LEARNT = Table("learnt", ("namespace", "kind", "value"))
ENTITIES = Table("entities", ("namespace", "name", "key", "passages", "spelt", "near", "vector"))
PASSAGES = Table("passages", ("item", "extractor", "entities", "facts", "relations", "failure"), numbered=False)
TABLES = (
    META,
    PREFERENCES,
    ITEMS,
    ENTRIES,
    USES,
    PENDING,
    VERDICTS,
    LEDGER,
    NOT_KEPT,
    EDITS,
    PROPOSALS,
    LEARNT,
    ENTITIES,
    PASSAGES,
)

MEMORY = Schema(
    noun="memory",
    made_by="epic build, or EpicMemory.open(path, preferences=[...])",
    application_id=0x45504943,  # "EPIC"
    statements=_STATEMENTS,
    tables=TABLES,
    small=(META, PREFERENCES, USES, LEDGER, NOT_KEPT, EDITS, PROPOSALS),
)
