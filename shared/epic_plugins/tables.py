"""Collections: the tables of records, and of the keys with the vectors that find them."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from epic_memory.encoders.base import checked_vector
from epic_memory.errors import InvalidInputError, decoding
from epic_memory.storage.additions import Addition
from epic_memory.storage.codecs import deflated, inflated, unpacked
from epic_memory.storage.sqlite.database import Database
from epic_memory.storage.sqlite.tables import tables_in
from epic_memory.types import FloatArray, Stance, checked_string
from epic_memory.types.items import content_of

_STATEMENTS = """CREATE TABLE records (
 row INTEGER PRIMARY KEY AUTOINCREMENT, namespace TEXT NOT NULL, id TEXT NOT NULL, metadata NOT NULL, crc INTEGER,
 text_crc INTEGER, text NOT NULL, UNIQUE (namespace, id)
);
CREATE TABLE keys (
 row INTEGER PRIMARY KEY AUTOINCREMENT, record INTEGER REFERENCES records ON DELETE CASCADE NOT NULL,
 position INTEGER NOT NULL, stance TEXT, vector BLOB NOT NULL, crc INTEGER, UNIQUE (record, position)
);
"""
RECORDS, KEYS = (tables_in(_STATEMENTS)[name] for name in ("records", "keys"))


@dataclass(frozen=True, kw_only=True)
class Key:
    """A text, or an embedding, by which a record is found.

    Attributes:
        text: The text to embed.
        stance: For an instruction, the stance of the record to its preference; None for a plain text.
        vector: An embedding of the collection's encoder, shape `(d,)`, of any length; then no text is embedded.

    Raises:
        InvalidInputError: for a vector that is not a list of finite numbers.
    """

    text: str = ""
    stance: Stance | None = None
    vector: Sequence[float] | FloatArray | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.vector is not None:
            object.__setattr__(self, "vector", checked_vector(self.vector, None, "it", "An embedding"))


@dataclass(frozen=True, kw_only=True)
class Record:
    """One document of a collection.

    Attributes:
        id: A unique id; not empty.
        text: Any text.
        metadata: A mapping that can be written as JSON.
        keys: The keys it is found by, to which `keys_of` adds the text if all are instructions; None for the text
            alone, empty for a record that no search finds. Records that are read have None.

    Raises:
        InvalidInputError: for an empty id, a text that is not a string, or metadata that is not a mapping with string
            keys.
    """

    id: str
    text: str
    metadata: Mapping[str, Any] = field(default_factory=dict, hash=False)
    keys: tuple[Key, ...] | None = None

    def __post_init__(self) -> None:
        for what, text in (("The id", self.id), ("The text", self.text)):
            checked_string(text, f"{what} of a document")
        if not self.id:
            raise InvalidInputError("The id of a document is empty. Leave it out, or give it one.")
        if not isinstance(self.metadata, Mapping) or not all(isinstance(key, str) for key in self.metadata):
            raise InvalidInputError(f"The metadata of document {self.id!r} must be a mapping with string keys.")


class Records(Addition):
    """Repository of the records of one collection, and of their keys.

    Args:
        db: The file.
        namespace: The name of the collection in its file.
    """

    statements, table = _STATEMENTS, "records"

    def __init__(self, db: Database, namespace: str = "") -> None:
        super().__init__(db)
        self.namespace = namespace

    def put(self, record: Record, metadata: str, codes: Sequence[bytes]) -> tuple[int, list[int]]:
        """Write a record in place of an earlier one, with its metadata as JSON and the codes of its keys.

        Returns:
            Its row, and the rows of its keys.
        """
        self.drop([record.id])
        row = self.db.insert(
            RECORDS, namespace=self.namespace, id=record.id, metadata=deflated(metadata), text=deflated(record.text)
        )
        stances = [None if key.stance is None else str(key.stance) for key in keys_of(record)]
        return row, [
            self.db.insert(KEYS, record=row, position=n, stance=stance, vector=code)
            for n, (stance, code) in enumerate(zip(stances, codes, strict=True))
        ]

    def drop(self, ids: Sequence[str]) -> None:
        """Remove records by their ids; unknown ids are ignored."""
        self.delete_ids(self.namespace, ids)

    def ids(self) -> dict[str, int]:
        """Return id to row of every record, in the order they were written."""
        return dict(self.db.read("SELECT id, row FROM records WHERE namespace = ? ORDER BY row", (self.namespace,)))

    def keys(self, dimension: int) -> tuple[list[int], list[int], list[Stance | None], FloatArray]:
        """Return the rows, rows of the records, stances and vectors `(n, d)` of all keys."""
        mine = "WHERE record IN (SELECT row FROM records WHERE namespace = ?)"
        rows, records, stances, codes = self.db.columns(
            KEYS, ("row", "record", "stance", "vector"), mine, self.namespace
        )
        with decoding(self.db.path):
            read = [None if stance is None else Stance(stance) for stance in stances]
            return rows, records, read, unpacked(codes, dimension)

    def at(self, rows: Sequence[int]) -> dict[int, Record]:
        """Return the records in these rows, by row."""
        return {row["row"]: self._record(row) for row in self.db.rows(RECORDS, "WHERE row IN", among=rows)}

    def all(self) -> Iterator[tuple[int, Record]]:
        """Yield row and record of all records, in the order they were written."""
        for row in self._mine():
            yield row["row"], self._record(row)

    def all_metadata(self) -> Iterator[tuple[int, Any]]:
        """Yield row and metadata of all records, without reading their texts."""
        for row in self._mine(texts=False):
            with decoding(self.db.path):
                metadata = json.loads(inflated(row["metadata"]))
            yield row["row"], metadata

    def _mine(self, *, texts: bool = True) -> list[sqlite3.Row]:
        return self.db.rows(RECORDS, "WHERE namespace = ? ORDER BY row", self.namespace, texts=texts)

    def _record(self, row: sqlite3.Row) -> Record:
        with decoding(self.db.path):
            return Record(id=row["id"], text=inflated(row["text"]), metadata=json.loads(inflated(row["metadata"])))


def keys_of(record: Record) -> tuple[Key, ...]:
    """Return the keys of a record: its text, and the instructions it was judged with if it has any."""
    text = Key(text=content_of(record.text, record.metadata))
    if record.keys is None:
        return (text,)
    judged = bool(record.keys) and all(key.stance is not None for key in record.keys)
    return (*record.keys, text) if judged and record.text.strip() else record.keys


ADDITIONS = (Records,)
