"""Tables of a collection's file: records, and the keys with the vectors that find them."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from typing import Any

from epic_memory.encoders.base import checked_vector
from epic_memory.errors import InvalidInputError, decoding
from epic_memory.storage.codecs import deflated, inflated, unpacked
from epic_memory.storage.sqlite.connection import Table
from epic_memory.storage.sqlite.database import Database
from epic_memory.storage.sqlite.tables import META, Schema
from epic_memory.types import FloatArray, Stance, checked_string
from epic_memory.types.items import content_of

_STATEMENTS = """
CREATE TABLE meta (row INTEGER PRIMARY KEY, key TEXT, value TEXT, crc INTEGER);
CREATE TABLE records (
 row INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT UNIQUE, metadata, crc INTEGER, text_crc INTEGER, text
);
CREATE TABLE keys (
 row INTEGER PRIMARY KEY AUTOINCREMENT, record INTEGER REFERENCES records ON DELETE CASCADE, position INTEGER,
 stance TEXT, vector BLOB, crc INTEGER, UNIQUE (record, position)
);
"""
_RECORDS = Table("records", ("id", "metadata"), ("text",))
_KEYS = Table("keys", ("record", "position", "stance", "vector"))

COLLECTION = Schema(
    noun="vector store",
    made_by="open it without must_exist",
    application_id=0x45504956,  # "EPIV"
    statements=_STATEMENTS,
    tables=(META, _RECORDS, _KEYS),
    small=(META,),
)


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
            size = len(self.vector) if isinstance(self.vector, Sized) else 0
            object.__setattr__(self, "vector", checked_vector(self.vector, size, "it", "An embedding"))


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


class CollectionTables(Database):
    """The tables of a collection, opened like a `Database`."""

    schema = COLLECTION

    def put(self, record: Record, metadata: str, codes: Sequence[bytes]) -> tuple[int, list[int]]:
        """Write a record in place of an earlier one, with its metadata as JSON and the codes of its keys.

        Returns:
            Its row, and the rows of its keys.
        """
        self.drop([record.id])
        row = self.insert(_RECORDS, id=record.id, metadata=deflated(metadata), text=deflated(record.text))
        stances = [None if key.stance is None else str(key.stance) for key in keys_of(record)]
        return row, [
            self.insert(_KEYS, record=row, position=n, stance=stance, vector=code)
            for n, (stance, code) in enumerate(zip(stances, codes, strict=True))
        ]

    def drop(self, ids: Sequence[str]) -> None:
        """Remove records by their ids; unknown ids are ignored."""
        self.connection.executemany("DELETE FROM records WHERE id = ?", [(record_id,) for record_id in ids])

    def drop_all(self) -> None:
        """Remove every record."""
        self.connection.execute("DELETE FROM records")

    def ids(self) -> dict[str, int]:
        """Return id to row of every record, in the order they were written."""
        return dict(self.read("SELECT id, row FROM records ORDER BY row"))

    def keys(self, dimension: int) -> tuple[list[int], list[int], list[Stance | None], FloatArray]:
        """Return the rows, rows of the records, stances and vectors `(n, d)` of all keys."""
        found = self.rows(_KEYS, "ORDER BY row")
        with decoding(self.path):
            return (
                [row["row"] for row in found],
                [row["record"] for row in found],
                [None if row["stance"] is None else Stance(row["stance"]) for row in found],
                unpacked([row["vector"] for row in found], dimension),
            )

    def at(self, rows: Sequence[int]) -> dict[int, Record]:
        """Return the records in these rows, by row."""
        return {row["row"]: self._record(row) for row in self.rows(_RECORDS, "WHERE row IN", among=rows)}

    def all(self) -> Iterator[tuple[int, Record]]:
        """Yield row and record of all records, in the order they were written."""
        for row in self.rows(_RECORDS, "ORDER BY row"):
            yield row["row"], self._record(row)

    def all_metadata(self) -> Iterator[tuple[int, Any]]:
        """Yield row and metadata of all records, without reading their texts."""
        for row in self.rows(_RECORDS, "ORDER BY row", texts=False):
            with decoding(self.path):
                metadata = json.loads(inflated(row["metadata"]))
            yield row["row"], metadata

    def _record(self, row: sqlite3.Row) -> Record:
        with decoding(self.path):
            return Record(id=row["id"], text=inflated(row["text"]), metadata=json.loads(inflated(row["metadata"])))


def keys_of(record: Record) -> tuple[Key, ...]:
    """Return the keys of a record: its text, and the instructions it was judged with if it has any."""
    text = Key(text=content_of(record.text, record.metadata))
    if record.keys is None:
        return (text,)
    judged = bool(record.keys) and all(key.stance is not None for key in record.keys)
    return (*record.keys, text) if judged and record.text.strip() else record.keys
