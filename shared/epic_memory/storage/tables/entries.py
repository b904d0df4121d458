"""Entries: the table of items under preferences, with instruction, stance and embedding."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from epic_memory.errors import decoding
from epic_memory.storage.codecs import deflated_by, inflated, is_small, packed
from epic_memory.storage.memory_schema import ENTRIES
from epic_memory.storage.mentions import Mentions
from epic_memory.storage.sqlite.database import Database, Repository
from epic_memory.storage.tables.items import ITEM_BYTES, HeldItem, Items
from epic_memory.storage.tables.preferences import Preferences
from epic_memory.types import FloatArray, MemoryEntry, Preference, Stance
from epic_memory.types.digests import digest

_STANCES = {str(stance): stance for stance in Stance}
_AT_ONCE = 500
_HERE = "JOIN items ON items.row = entries.item WHERE items.namespace = ?"


@dataclass(frozen=True, kw_only=True)
class NewEntry:
    """An entry to be written, by default of an item that is held for no preference; see `types.MemoryEntry`.

    Attributes:
        verifier: The number of the verifier that decided (`verifier_number`).
        added: Unix seconds; None for now.
    """

    vector: FloatArray
    preference_id: str | None = None
    instruction: str = ""
    stance: Stance = Stance.NEUTRAL
    rationale: str = ""
    confidence: float | None = None
    similarity: float = 0.0
    verifier: int = 0
    added: int | None = None


class PlacedEntry(NamedTuple):
    """An entry to be written, with its place.

    Attributes:
        entry: The entry.
        item: The row of its item.
        preference: The row of its preference; None without one.
        known: The texts of both, as they are stored, by which its own texts are compressed.
    """

    entry: NewEntry
    item: int
    preference: int | None
    known: tuple[str, str]


class EntryRows(NamedTuple):
    """The entries of one namespace as columns, for its index: of each its row, its checksum, its item's row, its
    preference's row (-1 without one), its stance, the number of the verifier that decided, and its vector's code.
    """

    rows: list[int]
    crcs: list[int]
    items: list[int]
    preferences: list[int]
    stances: list[Stance]
    verifiers: list[int]
    codes: list[bytes]


def verifier_number(name: str) -> int:
    """Return the number for a verifier's name that entries store."""
    return int.from_bytes(digest(name, size=4), "little")


class Entries(Repository):
    """Repository of the entries of a memory.

    Attributes:
        quoting: The number of the verifier that quotes nothing but the item and the entry's own preference.
    """

    table = "entries"
    quoting = -1

    def __init__(self, db: Database, items: Items, preferences: Preferences) -> None:
        super().__init__(db)
        self.items = items
        self.preferences = preferences

    # entries

    def items_under(self, preference_row: int) -> list[int]:
        """Return the rows of the items that have an entry under a preference."""
        found = self.db.read("SELECT item FROM entries WHERE preference = ?", (preference_row,))
        return [int(item) for (item,) in found]

    def count(self, namespace: str) -> int:
        """Return how many entries a namespace has."""
        return int(self.db.scalar(f"SELECT count(*) FROM entries {_HERE}", (namespace,)))

    def preferences_of(self, item_row: int) -> dict[str | None, int]:
        """Return preference id to entry row, for an item's entries."""
        rows = self.db.read(
            "SELECT p.id, e.row FROM entries e LEFT JOIN preferences p ON p.row = e.preference WHERE e.item = ?",
            (item_row,),
        )
        return dict(rows)

    def add(self, item_row: int, preference: int | None, entry: NewEntry) -> int:
        """Write an entry under a preference's row; return its row."""
        placed = PlacedEntry(entry, item_row, preference, self._texts_of(item_row, preference))
        return self.put_all([placed]).rows[0]

    def put_all(self, placed: Sequence[PlacedEntry]) -> EntryRows:
        """Write entries of items under preferences."""
        codes = packed(np.stack([one.entry.vector for one in placed]))
        columns = [
            {
                "item": item,
                "preference": preference,
                "stance": entry.stance.value,
                "confidence": None if entry.confidence is None else float(entry.confidence),
                "similarity": float(entry.similarity),
                "added": int(time.time()) if entry.added is None else entry.added,
                "verifier": entry.verifier,
                "vector": code,
                "instruction": deflated_by(entry.instruction, *known),
                "rationale": deflated_by(entry.rationale, *known),
            }
            for (entry, item, preference, known), code in zip(placed, codes, strict=True)
        ]
        rows, crcs = self.db.insert_all(ENTRIES, columns)
        items, stances = [one.item for one in placed], [one.entry.stance for one in placed]
        preferences = [-1 if one.preference is None else one.preference for one in placed]
        return EntryRows(rows, crcs, items, preferences, stances, [one.entry.verifier for one in placed], codes)

    def _texts_of(self, item_row: int, preference_row: int | None) -> tuple[str, str]:
        """Return the texts by which an entry's own texts are compressed: its item's, and its preference's."""
        item = self.db.scalar("SELECT text FROM items WHERE row = ?", (item_row,))
        preference = self.db.scalar("SELECT text FROM preferences WHERE row = ?", (preference_row,))
        with decoding(self.db.path):
            return inflated(item), str(preference or "")

    def texts_under(self, preference: int) -> list[tuple[int, dict[str, str]]]:
        """Return entry rows with their texts, to compress them again after the text of a preference changes."""
        found = self.db.rows(ENTRIES, "WHERE preference = ? ORDER BY row", preference)
        return [(int(entry["row"]), self._texts(entry)) for entry in found]

    def _texts(self, entry: sqlite3.Row) -> dict[str, str]:
        known = self._texts_of(entry["item"], entry["preference"])
        with decoding(self.db.path):
            return {name: inflated(entry[name], *known) for name in ENTRIES.texts}

    def compress_anew(self, entries: Sequence[tuple[int, dict[str, str]]]) -> None:
        """Write the texts of entries, compressed by the present texts of their items and preferences."""
        for row, texts in entries:
            item, preference = self.db.read("SELECT item, preference FROM entries WHERE row = ?", (row,))[0]
            known = self._texts_of(item, preference)
            self.db.update(ENTRIES, row, **{name: deflated_by(text, *known) for name, text in texts.items()})

    def forget_mentions(self, namespace: str, mentions: Mentions) -> None:
        """Remove sentences that mention a removed preference from texts of entries; their embeddings stay.

        Those of the verifier with the number `quoting` are not read.
        """
        preferences = dict(self.db.read("SELECT row, text FROM preferences WHERE namespace = ?", (namespace,)))
        others = f"SELECT entries.row FROM entries {_HERE} AND entries.verifier != ?"
        rows = sorted(row for (row,) in self.db.read(others, (namespace, self.quoting)))
        tail, also = "JOIN items ON items.row = entries.item WHERE entries.row IN", "items.text AS item_text"
        for start in range(0, len(rows), _AT_ONCE):
            changed: dict[int, dict[str, str | bytes]] = {}
            with decoding(self.db.path):
                for entry in self.db.rows(ENTRIES, tail, among=rows[start : start + _AT_ONCE], also=also):
                    known = (inflated(entry["item_text"]), preferences.get(entry["preference"], ""))
                    texts = [inflated(entry[name], *known) for name in ENTRIES.texts]
                    left = [mentions.without(text, known[0]) for text in texts]
                    if left != texts:
                        stored = (deflated_by(text, *known) for text in left)
                        changed[entry["row"]] = dict(zip(ENTRIES.texts, stored, strict=True))
            for row, columns in changed.items():
                self.db.update(ENTRIES, row, **columns)

    def at(
        self,
        rows: Sequence[int],
        namespace: str,
        items: Mapping[int, HeldItem] | None = None,
        preferences: Mapping[int, Preference] | None = None,
        scores: Mapping[int, float] | None = None,
    ) -> dict[int, MemoryEntry]:
        """Return entry row to entry, for some rows.

        Args:
            rows: The rows.
            namespace: Their namespace.
            items, preferences: Those of the entries, by row, if they are known.
            scores: Scores in a search, by entry row.
        """
        found = self.db.rows(ENTRIES, "WHERE row IN", among=rows)
        if items is None:
            items = self.items.held_at(sorted({row["item"] for row in found}))
        preferences = self.preferences.at(namespace) if preferences is None else preferences
        with decoding(self.db.path):
            of = dict.fromkeys(rows) if scores is None else scores
            return {row["row"]: _entry(row, items, preferences, namespace, of[row["row"]]) for row in found}

    def of_item(self, namespace: str, item_row: int) -> list[MemoryEntry]:
        """Return an item's entries, oldest first."""
        found = self.at([row["row"] for row in self._of(item_row)], namespace)
        return [found[row] for row in sorted(found)]

    def _of(self, item_row: int) -> list[sqlite3.Row]:
        return self.db.rows(ENTRIES, "WHERE item = ? ORDER BY row", item_row)

    def crcs(self, namespace: str) -> dict[int, tuple[int, int, int]]:
        """Return entry row to checksum, preference row (-1 without one) and item row, for a namespace."""
        columns = "entries.row, entries.crc, coalesce(entries.preference, -1), entries.item"
        rows = self.db.read(f"SELECT {columns} FROM entries {_HERE}", (namespace,))
        return {row: (crc, preference, item) for row, crc, preference, item in rows}

    def rows(self, namespace: str, dimension: int, rows: Sequence[int] | None = None) -> EntryRows:
        """Return the entries of a namespace, oldest first, all or some."""
        names = ("row", "crc", "item", "preference", "stance", "verifier", "vector")
        where, values = (_HERE, (namespace,)) if rows is None else ("WHERE row IN", ())
        found = self.db.columns(ENTRIES, names, where, *values, among=rows)
        found[3] = [-1 if row is None else row for row in found[3]]
        with decoding(self.db.path):
            is_small(found[6], dimension)
            found[4] = [_STANCES.get(stance) or Stance(stance) for stance in found[4]]
        return EntryRows(*found)

    def lines(self, item_row: int) -> list[dict[str, Any]]:
        """Return an item's entries as columns without vectors, oldest first."""
        names = [name for name in ENTRIES.checked if name not in ("item", "vector")]
        return [{**{name: row[name] for name in names}, **self._texts(row)} for row in self._of(item_row)]

    def stored(self, namespace: str, rows: Sequence[int] | None = None) -> list[sqlite3.Row]:
        """Return the entries of a namespace, oldest first, all or some: columns, `text_bytes` and `item_bytes`."""
        text = "length(CAST(entries.instruction AS BLOB)) + length(CAST(entries.rationale AS BLOB))"
        also = f"{text} AS text_bytes, {ITEM_BYTES} AS item_bytes"
        tail, some = (" ORDER BY entries.row", None) if rows is None else (" AND entries.row IN", sorted(rows))
        return self.db.rows(ENTRIES, _HERE + tail, namespace, among=some, also=also, texts=False)


def _entry(
    row: sqlite3.Row,
    items: Mapping[int, HeldItem],
    preferences: Mapping[int, Preference],
    namespace: str,
    score: float | None,
) -> MemoryEntry:
    held, preference = items[row["item"]], preferences.get(row["preference"])
    known = (held.item.text, "" if preference is None else preference.text)
    return MemoryEntry(
        namespace=namespace,
        item_id=held.item.id,
        preference_id=None if preference is None else preference.id,
        preference="" if preference is None else preference.text,
        instruction=inflated(row["instruction"], *known),
        stance=Stance(row["stance"]),
        rationale=inflated(row["rationale"], *known),
        confidence=None if row["confidence"] is None else float(row["confidence"]),
        similarity=float(row["similarity"]),
        added=float(row["added"]),
        score=score,
    )
