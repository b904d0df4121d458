"""The tables of items and entries, the memory M of Eq. 6; one transaction for each change.

Entry rows are numbered by AUTOINCREMENT, so a number is never given twice, and FAISS uses it as its id. An item is
stored once, however many entries it has; long texts are compressed, vectors are kept as codes (`codes`).
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from epic_core.codes import packed, unpacked
from epic_core.preference_table import PreferenceTable
from epic_core.rows import (
    decoding,
    deflated,
    deflated_by,
    digest,
    dumped_metadata,
    inflated,
    inflated_by,
    item_digest,
)
from epic_core.schema import ENTRIES, ITEMS, PREFERENCES, USES
from epic_core.types import FloatArray, Item, MemoryEntry, Preference, Stance

_STANCES = {str(stance): stance for stance in Stance}
_ITEM = ", ".join(f"i.{name}" for name in (*ITEMS.checked, "crc", *ITEMS.texts, "text_crc"))
_ENTRY = ", ".join(f"e.{name}" for name in (*ENTRIES.checked, "crc", *ENTRIES.texts, "text_crc"))
_INDEXED = ", ".join(f"e.{name}" for name in ENTRIES.checked)
_BLOCK = 256


@dataclass(frozen=True, kw_only=True)
class NewEntry:
    """An entry to be written; see `types.MemoryEntry` for the fields.

    Attributes:
        verifier: A number for the verifier that decided (`verifier_number`).
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
class HeldItem:
    """An item as it is stored.

    Attributes:
        item: The item; its text may have been shortened.
        rewrite: x^, or empty.
        digest: Of the version that was handed in.
        second_tier: Whether it has no entries, only an embedding.
    """

    item: Item
    rewrite: str
    digest: bytes
    second_tier: bool


@dataclass(frozen=True, kw_only=True)
class Known:
    """What is known of an item's id.

    Attributes:
        text: As it is stored.
        digest: Of the version that was handed in.
        stored: Of the version that is stored, which may be shorter.
        state: Whether it is held or waits.
    """

    text: str
    digest: bytes
    stored: bytes
    state: Literal["held", "pending"]

    def is_version(self, item: Item) -> bool:
        """Whether an item is this one, as it was handed in or as it is stored by now."""
        return version_of(item) in (self.digest, self.stored)


@dataclass(frozen=True, kw_only=True)
class SpaceRows:
    """What the index of one namespace is made of.

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

    def at(self, positions: Sequence[int]) -> SpaceRows:
        """Some of them."""
        rows, crcs, items, preferences = (
            [column[n] for n in positions] for column in (self.rows, self.crcs, self.items, self.preferences)
        )
        return SpaceRows(
            rows=rows,
            crcs=crcs,
            items=items,
            preferences=preferences,
            stances=[self.stances[n] for n in positions],
            vectors=self.vectors[list(positions)],
        )


def version_of(item: Item) -> bytes:
    """The digest of an item as it is."""
    return item_digest(item.id, item.text, dumped_metadata(item.metadata, item.id))


def verifier_number(name: str) -> int:
    """A number for a verifier's name, as entries carry it."""
    return int.from_bytes(digest(name, size=4), "little")


class Store(PreferenceTable):
    """A memory's tables. Opened as a `Database` is."""

    def remove_preference(self, namespace: str, preference_id: str) -> None:
        """Remove a preference with its entries, and the items nothing else holds."""
        row = self.preference_row(namespace, preference_id)
        if row is not None:
            self.drop_orphans(self.take_out(namespace, row, preference_id)[1])

    def take_out(self, namespace: str, row: int, preference_id: str) -> tuple[int, list[int]]:
        """Remove a preference with its entries; its position, and the items that it held."""
        position, text = self.read("SELECT position, text FROM preferences WHERE row = ?", (row,))[0]
        items = [item for (item,) in self.read("SELECT item FROM entries WHERE preference = ?", (row,))]
        self._db.execute("DELETE FROM preferences WHERE row = ?", (row,))
        self.forget_preference(namespace, Preference(id=preference_id, text=text))
        self.stop_waiting_for(namespace, preference_id)
        self.forget_not_kept(namespace, preference=row)
        return int(position), items

    def drop_orphans(self, items: Sequence[int]) -> None:
        """Remove those items that have no entries and are not in the second tier either."""
        self._db.executemany(
            "DELETE FROM items WHERE row = ? AND second_tier IS NULL"
            " AND NOT EXISTS (SELECT 1 FROM entries WHERE item = items.row)",
            [(row,) for row in items],
        )

    def all_orphans(self, namespace: str) -> list[int]:
        """Rows of the items that have no entries and are not in the second tier."""
        rows = self.read(
            "SELECT row FROM items WHERE namespace = ? AND second_tier IS NULL"
            " AND NOT EXISTS (SELECT 1 FROM entries WHERE item = items.row)",
            (namespace,),
        )
        return [int(row) for (row,) in rows]

    # items

    def known(self, namespace: str, ids: Sequence[str]) -> dict[str, Known]:
        """Id to what is known of it, of those ids that are held or wait; what is held counts before what waits."""
        known: dict[str, Known] = {}
        with decoding(self.path):
            for item_id, stored, metadata in self.among(
                "SELECT id, text, metadata FROM pending WHERE namespace = ? AND id IN", ids, namespace
            ):
                text = inflated(stored)
                version = item_digest(item_id, text, metadata)
                known[item_id] = Known(text=text, digest=version, stored=version, state="pending")
            for row in self.among(f"SELECT {_ITEM} FROM items i WHERE namespace = ? AND id IN", ids, namespace):
                held = self._held_item(row)
                known[held.item.id] = Known(
                    text=held.item.text, digest=held.digest, stored=version_of(held.item), state="held"
                )
        return known

    def _held_item(self, row: Sequence[Any]) -> HeldItem:
        *checked, crc, text, rewrite, text_crc = row
        ITEMS.verify(self.path, crc, *checked)
        ITEMS.verify(self.path, text_crc, text, rewrite)
        _, item_id, version, metadata, second_tier, _ = checked
        return HeldItem(
            item=Item(id=item_id, text=inflated(text), metadata=json.loads(metadata)),
            rewrite="" if rewrite is None else inflated(rewrite),
            digest=version,
            second_tier=second_tier is not None,
        )

    def is_current(self, namespace: str, item: Item) -> bool:
        """Whether an item is held, or waits in the retry queue, in this very form."""
        version = (deflated(item.text), dumped_metadata(item.metadata, item.id))
        waiting = self.read("SELECT text, metadata FROM pending WHERE namespace = ? AND id = ?", (namespace, item.id))
        known = self.known(namespace, [item.id]).get(item.id)
        return waiting == [version] or (known is not None and known.is_version(item))

    def put_item(self, namespace: str, item: Item, *, second_tier: FloatArray | None = None) -> int:
        """Write an item in place of any earlier version of it; its row."""
        self.remove_items(namespace, [item.id])
        metadata = dumped_metadata(item.metadata, item.id)
        return self.insert(
            ITEMS,
            namespace=namespace,
            id=item.id,
            digest=item_digest(item.id, item.text, metadata),
            metadata=metadata,
            second_tier=None if second_tier is None else packed(second_tier.reshape(1, -1))[0],
            rewritten_for=None,
            text=deflated(item.text),
            rewrite=None,
        )

    def restore_item(self, namespace: str, held: HeldItem, second_tier: FloatArray | None) -> int:
        """Write an item as it was stored elsewhere; its row."""
        row = self.put_item(namespace, held.item, second_tier=second_tier)
        self.update(ITEMS, row, digest=held.digest)
        return row

    def shorten(self, item_row: int, text: str) -> None:
        """Keep less of an item's text. It still counts as the version that was handed in."""
        entries = self._entry_texts("item", item_row)
        self.update(ITEMS, item_row, text=deflated(text))
        self._compress_anew(entries)

    def remove_items(self, namespace: str, ids: Sequence[str]) -> None:
        """Remove items with their entries and their place in the retry queue."""
        for table in ("items", "pending"):
            self._db.executemany(
                f"DELETE FROM {table} WHERE namespace = ? AND id = ?", [(namespace, item_id) for item_id in ids]
            )

    def item_row(self, namespace: str, item_id: str) -> int | None:
        """The row of a held item."""
        row = self.scalar("SELECT row FROM items WHERE namespace = ? AND id = ?", (namespace, item_id))
        return None if row is None else int(row)

    def item_bytes(self, item_row: int) -> int:
        """About how many bytes of the file an item takes, its entries apart; 0 if it is not there."""
        size = self.scalar(
            "SELECT length(CAST(text AS BLOB)) + coalesce(length(CAST(rewrite AS BLOB)), 0)"
            " + length(CAST(metadata AS BLOB)) + 2 * length(CAST(id AS BLOB)) + 160 FROM items WHERE row = ?",
            (item_row,),
        )
        return 0 if size is None else int(size)

    def holds_chunks(self, namespace: str) -> bool:
        """Whether anything is held that could be a chunk of a document."""
        return bool(
            self.scalar("SELECT EXISTS (SELECT 1 FROM items WHERE namespace = ?)", (namespace,))
            or self.scalar("SELECT EXISTS (SELECT 1 FROM pending WHERE namespace = ?)", (namespace,))
        )

    def chunks_from(self, namespace: str, document: str, first: int) -> list[str]:
        """Ids of the held chunks of a document with numbers from `first`, and of the document held whole."""
        found: list[str] = []
        for table in ("items", "pending"):
            # '$' follows '#': the index on ids finds a document's chunks without looking at others.
            rows = self.read(
                f"SELECT id, metadata FROM {table} WHERE namespace = ? AND id > ? AND id < ?",
                (namespace, f"{document}#", f"{document}$"),
            )
            for item_id, metadata in rows:
                with decoding(self.path):
                    number = json.loads(metadata).get("chunk")
                # A user's own id may look like a chunk's.
                if isinstance(number, int) and number >= first and item_id == f"{document}#{number}":
                    found.append(item_id)
            if first and self.read(f"SELECT 1 FROM {table} WHERE namespace = ? AND id = ?", (namespace, document)):
                found.append(document)
        return found

    def promote(self, item_row: int) -> None:
        """Take an item out of the second tier: it has entries now."""
        if self.scalar("SELECT second_tier IS NOT NULL FROM items WHERE row = ?", (item_row,)):
            self.update(ITEMS, item_row, second_tier=None)

    def items(self, namespace: str) -> Iterator[Item]:
        """All held items, oldest first, read in blocks."""
        for _, held in self.held_items(namespace):
            yield held.item

    def held_items(self, namespace: str) -> Iterator[tuple[int, HeldItem]]:
        """Rows and items as they are stored, oldest first, read in blocks."""
        last = 0
        while rows := self.read(
            f"SELECT i.row, {_ITEM} FROM items i WHERE namespace = ? AND row > ? ORDER BY row LIMIT ?",
            (namespace, last, _BLOCK),
        ):
            with decoding(self.path):
                block = [(int(row), self._held_item(columns)) for row, *columns in rows]
            yield from block
            last = rows[-1][0]

    def held_at(self, rows: Sequence[int]) -> dict[int, HeldItem]:
        """Item row to item as it is stored."""
        with decoding(self.path):
            found = self.among(f"SELECT i.row, {_ITEM} FROM items i WHERE row IN", rows)
            return {int(row): self._held_item(columns) for row, *columns in found}

    def items_at(self, rows: Sequence[int]) -> dict[int, Item]:
        """Item row to item."""
        return {row: held.item for row, held in self.held_at(rows).items()}

    def metadata(self, namespace: str) -> list[tuple[int, dict[str, Any]]]:
        """Item row and metadata of every held item."""
        made = []
        columns = ", ".join(ITEMS.checked)
        with decoding(self.path):
            for row, crc, *values in self.read(
                f"SELECT row, crc, {columns} FROM items WHERE namespace = ?", (namespace,)
            ):
                ITEMS.verify(self.path, crc, *values)
                made.append((int(row), json.loads(values[3])))
        return made

    # rewritten texts

    def set_rewrite(self, item_row: int, rewrite: str, preferences: Iterable[str], vector: FloatArray) -> None:
        """Give an item a text rewritten for some preferences, by their ids: all of its entries are found by it."""
        self.update(ITEMS, item_row, rewrite=deflated(rewrite), rewritten_for=_rewritten_for(preferences))
        code = packed(vector.reshape(1, -1))[0]
        for row in self.entry_preferences(item_row).values():
            self.update(ENTRIES, row, instruction="", vector=code)

    def take_back_rewrite(self, item_row: int, vector: FloatArray) -> None:
        """Let an item show its own text again; entries without an instruction are found by it."""
        self.update(ITEMS, item_row, rewrite=None, rewritten_for=None)
        code = packed(vector.reshape(1, -1))[0]
        for (row,) in self.read("SELECT row FROM entries WHERE item = ? AND instruction = ''", (item_row,)):
            self.update(ENTRIES, row, vector=code)

    def stale_rewrites(self, namespace: str) -> list[int]:
        """Rows of the items that were rewritten for other preferences than those they have entries under."""
        rows = self.read(
            "SELECT row, rewritten_for FROM items WHERE namespace = ? AND rewrite IS NOT NULL ORDER BY row",
            (namespace,),
        )
        return [row for row, made_for in rows if _rewritten_for(self.entry_preferences(row)) != made_for]

    # entries

    def entry_preferences(self, item_row: int) -> dict[str | None, int]:
        """Preference id to entry row, of an item's entries."""
        rows = self.read(
            "SELECT p.id, e.row FROM entries e LEFT JOIN preferences p ON p.row = e.preference WHERE e.item = ?",
            (item_row,),
        )
        return dict(rows)

    def remove_entries(self, rows: Sequence[int]) -> None:
        """Remove entries."""
        self._db.executemany("DELETE FROM entries WHERE row = ?", [(row,) for row in rows])

    def add_entry(self, namespace: str, item_row: int, entry: NewEntry) -> tuple[int, int]:
        """Write an entry; its row and its checksum."""
        preference = self.preference_row(namespace, entry.preference_id)
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
        row = int(self._db.execute(ENTRIES.insert, values).lastrowid or 0)
        return row, int(values[ENTRIES.columns.index("crc")])

    def _texts_of(self, item_row: int, preference_row: int | None) -> tuple[str, str]:
        """The texts that an entry's own texts are compressed by: its item's, and its preference's."""
        item = self.scalar("SELECT text FROM items WHERE row = ?", (item_row,))
        preference = self.scalar("SELECT text FROM preferences WHERE row = ?", (preference_row,))
        with decoding(self.path):
            return inflated(item), str(preference or "")

    def _entry_texts(self, where: str, row: int) -> list[tuple[int, dict[str, str]]]:
        """Rows of some entries with their texts, to be compressed anew when what they are compressed by changes."""
        found = self.read(
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

    def _compress_anew(self, entries: Sequence[tuple[int, dict[str, str]]]) -> None:
        for row, texts in entries:
            item, preference = self.read("SELECT item, preference FROM entries WHERE row = ?", (row,))[0]
            known = self._texts_of(item, preference)
            self.update(ENTRIES, row, **{name: deflated_by(text, *known) for name, text in texts.items()})

    def set_preference(self, namespace: str, preference: Preference, vector: FloatArray) -> None:
        """Write a held preference's text and embedding as they are now, and when it expires."""
        row = self.preference_row(namespace, preference.id)
        if row is not None:
            entries = self._entry_texts("preference", row)
            self.write_preference(row, preference, vector)
            self._compress_anew(entries)

    def entries_at(
        self,
        scores: Mapping[int, float],
        items: Mapping[int, HeldItem],
        preferences: Mapping[int, Preference],
        namespace: str,
    ) -> dict[int, MemoryEntry]:
        """Entry row to entry, for rows with their scores in a search.

        Args:
            scores: By entry row.
            items: Those that the entries belong to, by row.
            preferences: The same, of preferences.
            namespace: Theirs.
        """
        found = self.among(f"SELECT e.row, {_ENTRY} FROM entries e WHERE e.row IN", list(scores))
        with decoding(self.path):
            return {
                int(row): self._entry(columns, items, preferences, namespace, scores[row]) for row, *columns in found
            }

    def entries_of(self, namespace: str, item_row: int) -> list[MemoryEntry]:
        """An item's entries, oldest first."""
        items, preferences = self.held_at([item_row]), self.preferences_at(namespace)
        found = self.read(f"SELECT {_ENTRY} FROM entries e WHERE e.item = ? ORDER BY e.row", (item_row,))
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

    def entry_crcs(self, namespace: str) -> dict[int, tuple[int, int]]:
        """Entry row to checksum and preference row (-1 without one), of a namespace."""
        rows = self.read(
            "SELECT e.row, e.crc, coalesce(e.preference, -1) FROM entries e JOIN items i ON i.row = e.item"
            " WHERE i.namespace = ?",
            (namespace,),
        )
        return {row: (crc, preference) for row, crc, preference in rows}

    def space(self, namespace: str, dimension: int, rows: Sequence[int] | None = None) -> SpaceRows:
        """The entries of a namespace for its index, oldest first: all, or those of some rows."""
        if rows is None:
            found = self.read(
                f"SELECT e.row, e.crc, {_INDEXED} FROM entries e JOIN items i ON i.row = e.item WHERE i.namespace = ?"
                " ORDER BY e.row",
                (namespace,),
            )
        else:
            found = sorted(self.among(f"SELECT e.row, e.crc, {_INDEXED} FROM entries e WHERE e.row IN", sorted(rows)))
        verify, path = ENTRIES.verify, self.path
        for _, crc, *columns in found:
            verify(path, crc, *columns)
        numbers, crcs, items, preferences, stances, *_, codes = (
            (list(column) for column in zip(*found, strict=True)) if found else ([],) * 10
        )
        with decoding(self.path):
            return SpaceRows(
                rows=numbers,
                crcs=crcs,
                items=items,
                preferences=[-1 if preference is None else preference for preference in preferences],
                stances=[Stance(_STANCES.get(stance, stance)) for stance in stances],
                vectors=unpacked(codes, dimension),
            )

    def second_tier_rows(self, namespace: str) -> list[int]:
        """Rows of the items of the second tier."""
        return [
            int(row)
            for (row,) in self.read(
                "SELECT row FROM items WHERE namespace = ? AND second_tier IS NOT NULL ORDER BY row", (namespace,)
            )
        ]

    def second_tier_bytes(self, namespace: str) -> int:
        """About how many bytes of the file the second tier takes."""
        return sum(self.item_bytes(row) for row in self.second_tier_rows(namespace))

    def second_tier(self, rows: Sequence[int], dimension: int) -> FloatArray:
        """Embeddings E(x) of items of the second tier."""
        codes = {}
        columns = ", ".join(ITEMS.checked)
        for row, crc, *values in self.among(f"SELECT row, crc, {columns} FROM items WHERE row IN", rows):
            ITEMS.verify(self.path, crc, *values)
            codes[row] = values[4]
        with decoding(self.path):
            return unpacked([codes.get(row, b"") for row in rows], dimension)

    def entry_lines(self, item_row: int) -> list[tuple[int, dict[str, Any]]]:
        """Rows of an item's entries and their columns, vectors left out; oldest first."""
        lines = []
        for row, *columns in self.read(
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

    # use

    def uses(self) -> dict[int, tuple[int, int]]:
        """Entry row to how often a search returned it, and when it last did, in Unix seconds."""
        made = {}
        for crc, *columns in self.read("SELECT crc, entry, count, used FROM uses"):
            USES.verify(self.path, crc, *columns)
            made[int(columns[0])] = (int(columns[1]), int(columns[2]))
        return made

    def add_uses(self, uses: Mapping[int, tuple[int, int]]) -> None:
        """Count uses in, of entries that are still there. Call it inside a transaction."""
        held = {row for (row,) in self.among("SELECT row FROM entries WHERE row IN", list(uses))}
        before = {}
        for crc, *columns in self.among("SELECT crc, entry, count, used FROM uses WHERE entry IN", sorted(held)):
            USES.verify(self.path, crc, *columns)
            before[columns[0]] = (columns[1], columns[2])
        rows = []
        for entry in sorted(held):
            (count, used), (known, last) = uses[entry], before.get(entry, (0, 0))
            rows.append({"entry": entry, "count": known + count, "used": max(used, last)})
        self.insert_all(USES, rows)

    # embedding anew

    def embedded_texts(self) -> tuple[dict[int, str], dict[int, str], dict[int, str]]:
        """What every stored vector is the embedding of: by preference row, entry row and second-tier item row."""
        with decoding(self.path):
            items = {
                row: (inflated(text), None if rewrite is None else inflated(rewrite), bool(second))
                for row, text, rewrite, second in self.read(
                    "SELECT row, text, rewrite, second_tier IS NOT NULL FROM items"
                )
            }
            preferences = dict(self.read("SELECT row, text FROM preferences"))
            entries = {
                row: inflated_by(instruction, items[item][0], preferences.get(preference, ""))
                or items[item][1]
                or items[item][0]
                for row, item, preference, instruction in self.read(
                    "SELECT row, item, preference, instruction FROM entries"
                )
            }
        return (
            preferences,
            entries,
            {row: text for row, (text, _, second) in items.items() if second},
        )

    def replace_vectors(
        self, preferences: Mapping[int, FloatArray], entries: Mapping[int, FloatArray], second: Mapping[int, FloatArray]
    ) -> None:
        """Write other embeddings: preference row, entry row and item row to vector."""
        for table, column, vectors in (
            (PREFERENCES, "vector", preferences),
            (ENTRIES, "vector", entries),
            (ITEMS, "second_tier", second),
        ):
            codes = packed(np.stack(list(vectors.values()))) if vectors else []
            for row, code in zip(vectors, codes, strict=True):
                self.update(table, row, **{column: code})

    # counts

    def counts(self, namespace: str) -> dict[str, int]:
        """Numbers of items, second-tier items, entries, preferences, pending items and what is known besides."""
        one = (namespace,)
        second = int(self.scalar("SELECT count(second_tier) FROM items WHERE namespace = ?", one))
        return {
            "items": int(self.scalar("SELECT count(*) FROM items WHERE namespace = ?", one)) - second,
            "second_tier": second,
            "entries": self.scalar(
                "SELECT count(*) FROM entries e JOIN items i ON i.row = e.item WHERE i.namespace = ?", one
            ),
            "preferences": self.scalar("SELECT count(*) FROM preferences WHERE namespace = ?", one),
            "pending": self.pending_count(namespace),
            "verdicts": self.verdicts_held(),
            "seen": self.seen_count(namespace),
        }


def _rewritten_for(preferences: Iterable[str | None]) -> bytes:
    return digest(*sorted(preference or "" for preference in preferences), size=8)
