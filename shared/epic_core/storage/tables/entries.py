"""Entries: the table of items under preferences, with instruction, stance and embedding, and the table of uses."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from epic_core.errors import decoding
from epic_core.storage.memory_schema import ENTRIES, ITEMS, USES
from epic_core.storage.row_codec import deflated, deflated_by, inflated, inflated_by
from epic_core.storage.sqlite.database import Database
from epic_core.storage.tables.items import HeldItem, Items
from epic_core.storage.tables.preferences import Preferences
from epic_core.storage.tables.repository import Repository
from epic_core.storage.vector_codec import packed, unpacked
from epic_core.types import FloatArray, MemoryEntry, Preference, Stance
from epic_core.types.digests import digest

_STANCES = {str(stance): stance for stance in Stance}
_ENTRY = ", ".join(f"e.{name}" for name in (*ENTRIES.checked, "crc", *ENTRIES.texts, "text_crc"))
_INDEXED = ", ".join(f"e.{name}" for name in ENTRIES.checked)


@dataclass(frozen=True, kw_only=True)
class NewEntry:
    """An entry to be written; see `types.MemoryEntry` for the fields.

    Attributes:
        verifier: The number of the verifier that decided (`verifier_number`).
        added: Unix seconds; None for now.
    """

    preference_id: str | None
    instruction: str
    stance: Stance
    rationale: str
    confidence: float | None
    similarity: float
    vector: FloatArray
    verifier: int = 0
    added: int | None = None


@dataclass(frozen=True, kw_only=True)
class EntryRows:
    """The entries of one namespace as columns, for its index.

    Attributes:
        rows, crcs, items, preferences, stances: One for each entry: its row, its checksum, its item's row, its
            preference's row (-1 without one) and its stance.
        vectors: Shape `(n, d)`.
    """

    rows: list[int]
    crcs: list[int]
    items: list[int]
    preferences: list[int]
    stances: list[Stance]
    vectors: FloatArray

    def at(self, positions: Sequence[int]) -> EntryRows:
        """Return the entries at some positions."""
        rows, crcs, items, preferences = (
            [column[n] for n in positions] for column in (self.rows, self.crcs, self.items, self.preferences)
        )
        return EntryRows(
            rows=rows,
            crcs=crcs,
            items=items,
            preferences=preferences,
            stances=[self.stances[n] for n in positions],
            vectors=self.vectors[list(positions)],
        )


def verifier_number(name: str) -> int:
    """Return the number for a verifier's name that entries store."""
    return int.from_bytes(digest(name, size=4), "little")


class StoredEntry(NamedTuple):
    """An entry's columns for retention policies and eviction.

    Attributes:
        row, item, preference: Rows of the entry, its item, and its preference (None without one).
        stance, confidence, similarity, added, verifier: The stored values.
        code: The packed embedding.
        text_bytes: Bytes of its instruction and rationale in the file.
        item_bytes: Bytes of its item in the file.
    """

    row: int
    item: int
    preference: int | None
    stance: str
    confidence: float | None
    similarity: float
    added: int
    verifier: int
    code: bytes
    text_bytes: int
    item_bytes: int


class Entries(Repository):
    """Repository of the entries of a memory, and of how often each was returned."""

    def __init__(self, db: Database, items: Items, preferences: Preferences) -> None:
        super().__init__(db)
        self.items = items
        self.preferences = preferences

    def items_under(self, preference_row: int) -> list[int]:
        """Return the rows of the items that have an entry under a preference."""
        return [
            int(item) for (item,) in self.db.read("SELECT item FROM entries WHERE preference = ?", (preference_row,))
        ]

    # rewritten texts

    def set_rewrite(self, item_row: int, rewrite: str, preferences: Iterable[str], vector: FloatArray) -> None:
        """Store an item's text rewritten for some preferences, by their ids, and embed all its entries by it."""
        self.db.update(ITEMS, item_row, rewrite=deflated(rewrite), rewritten_for=_rewritten_for(preferences))
        code = packed(vector.reshape(1, -1))[0]
        for row in self.preferences_of(item_row).values():
            self.db.update(ENTRIES, row, instruction="", vector=code)

    def take_back_rewrite(self, item_row: int, vector: FloatArray) -> None:
        """Remove an item's rewritten text; entries without an instruction get the embedding `vector`."""
        self.db.update(ITEMS, item_row, rewrite=None, rewritten_for=None)
        code = packed(vector.reshape(1, -1))[0]
        for (row,) in self.db.read("SELECT row FROM entries WHERE item = ? AND instruction = ''", (item_row,)):
            self.db.update(ENTRIES, row, vector=code)

    def stale_rewrites(self, namespace: str) -> list[int]:
        """Return the rows of the items that were rewritten for other preferences than those of their entries."""
        rows = self.db.read(
            "SELECT row, rewritten_for FROM items WHERE namespace = ? AND rewrite IS NOT NULL ORDER BY row",
            (namespace,),
        )
        return [row for row, made_for in rows if _rewritten_for(self.preferences_of(row)) != made_for]

    # entries

    def preferences_of(self, item_row: int) -> dict[str | None, int]:
        """Return preference id to entry row, for an item's entries."""
        rows = self.db.read(
            "SELECT p.id, e.row FROM entries e LEFT JOIN preferences p ON p.row = e.preference WHERE e.item = ?",
            (item_row,),
        )
        return dict(rows)

    def remove(self, rows: Sequence[int]) -> None:
        """Remove entries."""
        self.db.connection.executemany("DELETE FROM entries WHERE row = ?", [(row,) for row in rows])

    def add(self, item_row: int, preference: int | None, entry: NewEntry) -> tuple[int, int]:
        """Write an entry under a preference's row; return its row and its checksum."""
        columns: dict[str, Any] = {
            "item": item_row,
            "preference": preference,
            "stance": str(entry.stance),
            "confidence": None if entry.confidence is None else float(entry.confidence),
            "similarity": float(entry.similarity),
            "added": int(time.time()) if entry.added is None else entry.added,
            "verifier": entry.verifier,
            "vector": packed(entry.vector.reshape(1, -1))[0],
            "instruction": entry.instruction,
            "rationale": entry.rationale,
        }
        known = self._texts_of(item_row, preference)
        for name in ENTRIES.texts:
            columns[name] = deflated_by(columns[name], *known)
        values = ENTRIES.values(columns)
        row = int(self.db.connection.execute(ENTRIES.insert, values).lastrowid or 0)
        return row, int(values[ENTRIES.columns.index("crc")])

    def _texts_of(self, item_row: int, preference_row: int | None) -> tuple[str, str]:
        """Return the texts by which an entry's own texts are compressed: its item's, and its preference's."""
        item = self.db.scalar("SELECT text FROM items WHERE row = ?", (item_row,))
        preference = self.db.scalar("SELECT text FROM preferences WHERE row = ?", (preference_row,))
        with decoding(self.path):
            return inflated(item), str(preference or "")

    def texts_under(self, where: str, row: int) -> list[tuple[int, dict[str, str]]]:
        """Return entry rows with their texts, to compress them again after an item's or a preference's text changes."""
        found = self.db.read(
            f"SELECT row, item, preference, instruction, rationale FROM entries WHERE {where} = ?", (row,)
        )
        with decoding(self.path):
            return [
                (
                    entry,
                    {
                        name: inflated_by(stored, *self._texts_of(item, preference))
                        for name, stored in zip(ENTRIES.texts, texts, strict=True)
                    },
                )
                for entry, item, preference, *texts in found
            ]

    def compress_anew(self, entries: Sequence[tuple[int, dict[str, str]]]) -> None:
        """Write the texts of entries, compressed by the present texts of their items and preferences."""
        for row, texts in entries:
            item, preference = self.db.read("SELECT item, preference FROM entries WHERE row = ?", (row,))[0]
            known = self._texts_of(item, preference)
            self.db.update(ENTRIES, row, **{name: deflated_by(text, *known) for name, text in texts.items()})

    def at(
        self,
        scores: Mapping[int, float],
        items: Mapping[int, HeldItem],
        preferences: Mapping[int, Preference],
        namespace: str,
    ) -> dict[int, MemoryEntry]:
        """Return entry row to entry, for rows with their scores in a search.

        Args:
            scores: Scores by entry row.
            items: The items of the entries, by row.
            preferences: The preferences of the entries, by row.
            namespace: The namespace of the entries.
        """
        found = self.db.among(f"SELECT e.row, {_ENTRY} FROM entries e WHERE e.row IN", list(scores))
        with decoding(self.path):
            return {
                int(row): self._entry(columns, items, preferences, namespace, scores[row]) for row, *columns in found
            }

    def of_item(self, namespace: str, item_row: int) -> list[MemoryEntry]:
        """Return an item's entries, oldest first."""
        items, preferences = self.items.held_at([item_row]), self.preferences.at(namespace)
        found = self.db.read(f"SELECT {_ENTRY} FROM entries e WHERE e.item = ? ORDER BY e.row", (item_row,))
        with decoding(self.path):
            return [self._entry(columns, items, preferences, namespace, None) for columns in found]

    def _entry(
        self,
        row: Sequence[Any],
        items: Mapping[int, HeldItem],
        preferences: Mapping[int, Preference],
        namespace: str,
        score: float | None,
    ) -> MemoryEntry:
        *checked, crc, instruction, rationale, text_crc = row
        ENTRIES.verify(self.path, crc, *checked)
        ENTRIES.verify(self.path, text_crc, instruction, rationale)
        item, preference_row, stance, confidence, similarity, added, _, _ = checked
        held, preference = items[item], preferences.get(preference_row)
        known = (held.item.text, "" if preference is None else preference.text)
        return MemoryEntry(
            namespace=namespace,
            item_id=held.item.id,
            preference_id=None if preference is None else preference.id,
            preference="" if preference is None else preference.text,
            instruction=inflated_by(instruction, *known),
            stance=Stance(stance),
            rationale=inflated_by(rationale, *known),
            confidence=None if confidence is None else float(confidence),
            similarity=float(similarity),
            rewrite=held.rewrite,
            added=float(added),
            score=score,
        )

    def crcs(self, namespace: str) -> dict[int, tuple[int, int]]:
        """Return entry row to checksum and preference row (-1 without one), for a namespace."""
        rows = self.db.read(
            "SELECT e.row, e.crc, coalesce(e.preference, -1) FROM entries e JOIN items i ON i.row = e.item"
            " WHERE i.namespace = ?",
            (namespace,),
        )
        return {row: (crc, preference) for row, crc, preference in rows}

    def rows(self, namespace: str, dimension: int, rows: Sequence[int] | None = None) -> EntryRows:
        """Return the entries of a namespace for its index, oldest first: all, or those in some rows."""
        if rows is None:
            found = self.db.read(
                f"SELECT e.row, e.crc, {_INDEXED} FROM entries e JOIN items i ON i.row = e.item WHERE i.namespace = ?"
                " ORDER BY e.row",
                (namespace,),
            )
        else:
            found = sorted(
                self.db.among(f"SELECT e.row, e.crc, {_INDEXED} FROM entries e WHERE e.row IN", sorted(rows))
            )
        verify, path = ENTRIES.verify, self.path
        for _, crc, *columns in found:
            verify(path, crc, *columns)
        numbers, crcs, items, preferences, stances, *_, codes = (
            (list(column) for column in zip(*found, strict=True)) if found else ([],) * 10
        )
        with decoding(self.path):
            return EntryRows(
                rows=numbers,
                crcs=crcs,
                items=items,
                preferences=[-1 if preference is None else preference for preference in preferences],
                stances=[Stance(_STANCES.get(stance, stance)) for stance in stances],
                vectors=unpacked(codes, dimension),
            )

    def lines(self, item_row: int) -> list[tuple[int, dict[str, Any]]]:
        """Return the rows of an item's entries and their columns without vectors, oldest first."""
        lines = []
        for row, *columns in self.db.read(
            f"SELECT e.row, {_ENTRY} FROM entries e WHERE e.item = ? ORDER BY e.row", (item_row,)
        ):
            *checked, crc, instruction, rationale, text_crc = columns
            ENTRIES.verify(self.path, crc, *checked)
            ENTRIES.verify(self.path, text_crc, instruction, rationale)
            line = dict(zip(ENTRIES.checked, checked, strict=True))
            del line["item"], line["vector"]
            known = self._texts_of(item_row, line["preference"])
            with decoding(self.path):
                texts = {"instruction": inflated_by(instruction, *known), "rationale": inflated_by(rationale, *known)}
            lines.append((int(row), {**line, **texts}))
        return lines

    def stored(self, namespace: str, rows: Sequence[int] | None = None) -> list[StoredEntry]:
        """Return the entries of a namespace, oldest first: all, or those in some rows."""
        text = "length(CAST(e.instruction AS BLOB)) + length(CAST(e.rationale AS BLOB))"
        item = (
            "length(CAST(i.text AS BLOB)) + coalesce(length(CAST(i.rewrite AS BLOB)), 0)"
            " + length(CAST(i.metadata AS BLOB)) + 2 * length(CAST(i.id AS BLOB))"
        )
        checked = ", ".join(f"e.{name}" for name in ENTRIES.checked)
        sql = (
            f"SELECT e.row, e.crc, {text}, {item}, {checked} FROM entries e JOIN items i ON i.row = e.item"
            " WHERE i.namespace = ?"
        )
        if rows is None:
            found = self.db.read(f"{sql} ORDER BY e.row", (namespace,))
        else:
            found = sorted(self.db.among(f"{sql} AND e.row IN", list(rows), namespace))
        entries = []
        for row, crc, text_bytes, item_bytes, *values in found:
            ENTRIES.verify(self.path, crc, *values)
            columns = dict(zip(ENTRIES.checked, values, strict=True))
            code = columns.pop("vector")
            entries.append(StoredEntry(row=row, code=code, text_bytes=text_bytes, item_bytes=item_bytes, **columns))
        return entries

    # use

    def uses(self) -> dict[int, tuple[int, int]]:
        """Return entry row to how often a search returned it, and when it last did, in Unix seconds."""
        made = {}
        for crc, *columns in self.db.read("SELECT crc, entry, count, used FROM uses"):
            USES.verify(self.path, crc, *columns)
            made[int(columns[0])] = (int(columns[1]), int(columns[2]))
        return made

    def add_uses(self, uses: Mapping[int, tuple[int, int]]) -> None:
        """Add to the uses of entries that still exist. Call it inside a transaction."""
        held = {row for (row,) in self.db.among("SELECT row FROM entries WHERE row IN", list(uses))}
        before = {}
        for crc, *columns in self.db.among("SELECT crc, entry, count, used FROM uses WHERE entry IN", sorted(held)):
            USES.verify(self.path, crc, *columns)
            before[columns[0]] = (columns[1], columns[2])
        rows = []
        for entry in sorted(held):
            (count, used), (known, last) = uses[entry], before.get(entry, (0, 0))
            rows.append({"entry": entry, "count": known + count, "used": max(used, last)})
        self.db.insert_all(USES, rows)


def _rewritten_for(preferences: Iterable[str | None]) -> bytes:
    return digest(*sorted(preference or "" for preference in preferences), size=8)
