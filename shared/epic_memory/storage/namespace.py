"""Namespace: one user's memory in RAM, with preferences, indexes, and the relations between rows."""

from __future__ import annotations

import math
import time
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from epic_memory.encoders.base import Encoder
from epic_memory.errors import InvalidInputError, UnknownPreferenceError
from epic_memory.filters import Filter
from epic_memory.storage.codecs import unpacked
from epic_memory.storage.store import Contents, Store
from epic_memory.storage.tables.entries import EntryRows
from epic_memory.storage.tables.items import HeldItem, TextRows
from epic_memory.storage.tables.seen import numbers
from epic_memory.storage.texts import Texts, remembered
from epic_memory.storage.vector_index import EntryIndex
from epic_memory.types import FloatArray, Item, MemoryEntry, Preference, Stance
from epic_memory.types.verdicts import Stances, penalties

_FILTERS_KEPT = 64
_NOTED = 20_000
# The number of items whose texts are kept in RAM.
_ITEMS_KEPT = 4096

# Stances that a search with `supporting` leaves out.
_CLASHING = frozenset({Stance.CONFLICTS, Stance.MIXED})


@dataclass(kw_only=True)
class CommittedRows:
    """Rows that a change added and removed.

    Attributes:
        entries, texts: The entries, and the items with E(x), that it added.
        gone, gone_items: Entry rows, and rows of items, that it removed.
        seen: Digests that were added to the ledger; `forgotten` if others had to leave it.
        incomplete: Whether rows were changed that are not listed, so that all have to be compared with the file.
    """

    entries: list[EntryRows] = field(default_factory=list)
    texts: list[TextRows] = field(default_factory=list)
    gone: list[int] = field(default_factory=list)
    gone_items: list[int] = field(default_factory=list)
    seen: list[bytes] = field(default_factory=list)
    forgotten: bool = False
    incomplete: bool = False


class Namespace:
    """One namespace of a store, loaded into RAM.

    Attributes:
        preferences: The live preferences in the user's order.
        expired: The expired preferences.
        vectors: E(p) of the live ones, shape `(m, d)`.
        text_of: Their texts, by preference row.
        texts: E(x) of the items of both tiers, by item row.
        item_of, preference_of, stance_of: Item row, preference row and stance, by entry row.
        rows_of: Entry rows, by item row.
        neutral_by: The number of the verifier that decided, by the rows of neutral entries.
        facts: Rows of the items that are facts of the user.
        light_rows: Rows of the light tier: kept for their text, without an entry, and no facts.
        expired_items: Rows of the items whose time is over; they are in none of the others.
        stale: Whether the file may have changed since it was read.
    """

    def __init__(self, store: Store, namespace: str, encoder: Encoder, *, keep_texts: bool = True) -> None:
        self.namespace = namespace
        self._keep_texts = keep_texts
        self._store = store
        self._encoder = encoder
        self._index: EntryIndex | None = None
        self._codes: dict[int, bytes] = {}
        self._instructions: dict[int, FloatArray] = {}
        self.texts = Texts(self._encoder.dimension, self._items)
        self._held: dict[int, HeldItem] = {}
        self._entries: dict[int, MemoryEntry] = {}
        self._text_crc_of: dict[int, int] = {}
        self.item_of: dict[int, int] = {}
        self.rows_of: dict[int, tuple[int, ...]] = {}
        self.preference_of: dict[int, int] = {}
        self.stance_of: dict[int, Stance] = {}
        self.neutral_by: dict[int, int] = {}
        self._stances: dict[int, Stances] = {}
        self._crc_of: dict[int, int] = {}
        self._filtered: dict[Hashable, frozenset[int]] = {}
        self._tables: Contents = {}
        self._waiting: tuple[object, set[int]] = (None, set())
        self._expiry = math.inf
        self.facts: set[int] = set()
        self.light_rows: set[int] = set()
        self.expired_items: set[int] = set()
        self.refresh()

    def refresh(self) -> None:
        """Read the rows of the file that have changed. Call it inside a transaction or `Store.reading`."""
        tables = self._store.contents()
        now = time.time()
        if now >= self._expiry or any(
            self._tables.get(name) != tables[name] for name in tables.keys() - self._store.apart
        ):
            self._read_preferences(now)
            self.facts, ends = self._store.items.marks(self.namespace)
            self.expired_items = {row for row, end in ends.items() if end <= now}
            self.facts -= self.expired_items
            self._expiry = min([self._expiry, *(end for end in ends.values() if end > now)])
            self._read_entries()
            self._read_texts()
            self.light_rows = self._text_crc_of.keys() - self.rows_of.keys() - self.facts
            self._seen: NDArray[np.uint64] | None = None
            self._noted: set[int] = set()
            self._filtered.clear()
        self._tables = tables
        # The sums do not cover the texts of entries.
        self._entries.clear()
        self.stale = False

    def has_rows(self, table: str) -> bool:
        """Tell whether a table of the file held rows when it was last read."""
        return self._tables[table][0] > 0

    def expires(self) -> bool:
        """Tell whether a preference or an item has expired since the last refresh."""
        return self._expiry < math.inf and time.time() >= self._expiry

    def _read_preferences(self, now: float) -> None:
        rows, preferences, vectors = self._store.preferences.load(self.namespace, self._encoder.dimension)
        ends = [math.inf if p.expires_at is None else p.expires_at.timestamp() for p in preferences]
        live = [position for position, end in enumerate(ends) if end > now]
        self.preference_rows = [rows[position] for position in live]
        self.preferences = [preferences[position] for position in live]
        self.text_of = {rows[position]: preferences[position].text for position in live}
        self.expired = [p for p, end in zip(preferences, ends, strict=True) if end <= now]
        self._expired_rows = [row for row, end in zip(rows, ends, strict=True) if end <= now]
        self.vectors = vectors[live]
        self._expiry = min((ends[position] for position in live), default=math.inf)
        self._stances.clear()

    def _read_entries(self) -> None:
        live = {-1, *self.preference_rows}
        if not self._crc_of:
            every = self._store.entries.rows(self.namespace, self._encoder.dimension)
            if live.issuperset(every.preferences) and self.expired_items.isdisjoint(every.items):
                self._enter(every)
                return
        found = self._store.entries.crcs(self.namespace)
        current = {
            row: crc
            for row, (crc, preference, item) in found.items()
            if preference in live and item not in self.expired_items
        }
        self._leave([row for row, crc in self._crc_of.items() if current.get(row) != crc])
        new = [row for row in current if row not in self._crc_of]
        self._enter(self._store.entries.rows(self.namespace, self._encoder.dimension, new))

    def _read_texts(self) -> None:
        hidden = set(self.expired_items)
        if not self._keep_texts:
            # Items that only an expired preference holds leave with the next change, and are hidden until then.
            hidden |= {
                item for row in self._expired_rows for item in self._store.entries.items_under(row)
            } - self.rows_of.keys()
        if not self._text_crc_of and not hidden:
            rows, vectors, crcs = self._store.items.texts(self.namespace, self._encoder.dimension)
            self.texts.add(rows, vectors)
            self._text_crc_of = dict(zip(rows, crcs, strict=True))
            return
        found = self._store.items.text_crcs(self.namespace)
        current = {row: crc for row, crc in found.items() if row not in hidden}
        self._leave_texts([row for row, crc in self._text_crc_of.items() if current.get(row) != crc])
        new = [row for row in current if row not in self._text_crc_of]
        self.texts.add(*self._store.items.texts(self.namespace, self._encoder.dimension, new)[:2])
        self._text_crc_of = current

    def _leave_texts(self, rows: Sequence[int]) -> None:
        self.texts.remove(rows)
        for row in rows:
            self._text_crc_of.pop(row, None)
            self._held.pop(row, None)

    def _items(self, rows: Sequence[int]) -> dict[int, Item]:
        return {row: held.item for row, held in self.held(rows).items()}

    def held(self, rows: Sequence[int]) -> dict[int, HeldItem]:
        """Return stored items by their rows, each read and checked once for as long as it does not change."""
        return remembered(self._held, rows, _ITEMS_KEPT, self._store.items.held_at)

    def entries(self, scores: Mapping[int, float], held: Mapping[int, HeldItem]) -> dict[int, MemoryEntry]:
        """Return entries by their rows, each read and checked once for as long as it does not change."""

        def read(rows: Sequence[int]) -> dict[int, MemoryEntry]:
            preferences = dict(zip(self.preference_rows, self.preferences, strict=True))
            return self._store.entries.at(rows, self.namespace, held, preferences, scores)

        return remembered(self._entries, list(scores), _ITEMS_KEPT, read)

    def stances(self, row: int) -> Stances:
        """Return the stances of an item, by the texts of the preferences."""
        known = self._stances.get(row)
        if known is None:
            known = self._stances[row] = {
                self.text_of.get(self.preference_of[entry]): self.stance_of[entry]
                for entry in self.rows_of.get(row, ())
            }
        return known

    def near(self, vector: FloatArray, k: int | None) -> tuple[NDArray[np.intp] | None, FloatArray]:
        """Return the places of the items' texts that may be the k nearest, and of the facts, with their cosines."""
        return self.texts.near(vector, k, self.facts)

    def tier(self, row: int) -> str:
        """Return an item's tier: "fact" of the user, "memory", "light", or "waiting" if it waits to be verified.

        The retry queue is read once for as long as it does not change.
        """
        if row in self.facts:
            return "fact"
        if row in self.rows_of:
            return "memory"
        if self.has_rows("pending") and self._waiting[0] != self._tables["pending"]:
            self._waiting = self._tables["pending"], self._store.retry_queue.rows(self.namespace)
        return "waiting" if self.has_rows("pending") and row in self._waiting[1] else "light"

    @property
    def index(self) -> EntryIndex:
        """The entries' embeddings, by entry row; made when a search first goes by all of them."""
        if self._index is None:
            self._index = EntryIndex(self._encoder.dimension)
        if self._codes:
            rows, lost = list(self._codes), penalties()
            vectors = unpacked(list(self._codes.values()), self._encoder.dimension)
            self._index.add(rows, vectors, [lost[self.stance_of[row]] for row in rows])
            self._codes = {}
        return self._index

    def instructions(self, rows: Sequence[int]) -> FloatArray:
        """Return the embeddings of the instructions of entries, shape `(n, d)`."""
        found = remembered(self._instructions, rows, _ITEMS_KEPT, self._read_instructions)
        return np.array([found[row] for row in rows], dtype=np.float32).reshape(len(rows), self._encoder.dimension)

    def _read_instructions(self, rows: Sequence[int]) -> dict[int, FloatArray]:
        if self._index is None:
            return dict(zip(rows, unpacked([self._codes[row] for row in rows], self._encoder.dimension), strict=True))
        return {row: self.index.vector(row) for row in rows}

    def _leave(self, rows: Sequence[int]) -> None:
        if self._index is not None:
            self._index.remove(rows)
        for row in rows:
            self._codes.pop(row, None)
            self._instructions.pop(row, None)
            item = self.item_of.pop(row)
            self._stances.pop(item, None)
            others = self.rows_of.pop(item)
            if len(others) > 1:
                self.rows_of[item] = tuple(other for other in others if other != row)
            elif item in self._text_crc_of and item not in self.facts:
                self.light_rows.add(item)
            del self.preference_of[row], self.stance_of[row], self._crc_of[row]
            self.neutral_by.pop(row, None)

    def _enter(self, found: EntryRows) -> None:
        self._codes.update(zip(found.rows, found.codes, strict=True))
        self.item_of.update(zip(found.rows, found.items, strict=True))
        for row, item in zip(found.rows, found.items, strict=True):
            self.rows_of[item] = (*self.rows_of.get(item, ()), row)
        if self._stances:
            for item in found.items:
                self._stances.pop(item, None)
        self.preference_of.update(zip(found.rows, found.preferences, strict=True))
        self.stance_of.update(zip(found.rows, found.stances, strict=True))
        decided = zip(found.rows, found.stances, found.verifiers, strict=True)
        self.neutral_by.update((row, number) for row, stance, number in decided if stance is Stance.NEUTRAL)
        self._crc_of.update(zip(found.rows, found.crcs, strict=True))
        self._filtered.clear()

    def apply(self, rows: CommittedRows, tables: Contents) -> None:
        """Take over a change that was committed and has changed no other rows; `tables` as they were in it."""
        if rows.gone or rows.gone_items:
            self._leave([row for row in rows.gone if row in self.item_of])
            self._leave_texts(rows.gone_items)
        self.facts.difference_update(rows.gone_items)
        for entries in rows.entries:
            self._enter(entries)
        self.light_rows.difference_update(rows.gone_items, *(entries.items for entries in rows.entries))
        for texts in rows.texts:
            self.light_rows.update(row for row in texts.rows if row not in texts.facts and row not in self.rows_of)
            self.texts.add(texts.rows, texts.vectors)
            self._text_crc_of.update(zip(texts.rows, texts.crcs, strict=True))
            self.facts |= texts.facts
            self._expiry = min([self._expiry, *texts.ends.values()])
        self._filtered.clear()
        if rows.seen:
            self._noted.update(numbers(rows.seen).tolist())
        if rows.forgotten or len(self._noted) > _NOTED:
            self._seen = None  # read again when needed
        self._tables = tables
        self.stale = False

    def was_seen(self, digests: Sequence[bytes]) -> NDArray[np.bool_]:
        """Return which items the ledger knows, by their digests."""
        if self._seen is None:
            self._seen = self._store.seen.digests(self.namespace)
            self._noted = set()
        asked = numbers(digests)
        places = np.searchsorted(self._seen, asked)
        known: NDArray[np.bool_] = np.zeros(len(asked), dtype=bool)
        inside = places < len(self._seen)
        known[inside] = self._seen[places[inside]] == asked[inside]
        if self._noted:
            known |= np.array([number in self._noted for number in asked.tolist()], dtype=bool)
        return known

    def find(self, preference: str | Preference) -> int:
        """Return the position of a preference given by text, id or object.

        Raises:
            InvalidInputError: for anything else.
            UnknownPreferenceError: if it is not held.
        """
        if not isinstance(preference, (str, Preference)):
            raise InvalidInputError(f"A preference is a text or a Preference, not {type(preference).__name__}.")
        wanted = {preference.id} if isinstance(preference, Preference) else {preference}
        if isinstance(preference, str) and preference.strip():
            wanted.add(Preference(text=preference).id)
        for position, held in enumerate(self.preferences):
            if held.id in wanted:
                return position
        listed = "".join(f"\n  {held.text}" for held in self.preferences) or " none"
        raise UnknownPreferenceError(f"No preference {str(preference)!r} is held. Held are:{listed}")

    def positions(self, preferences: Iterable[str | Preference]) -> NDArray[np.intp]:
        """Return the positions of several preferences, ascending, each once."""
        return np.unique(np.array([self.find(preference) for preference in preferences], dtype=np.intp))

    def items_matching(self, condition: Filter) -> frozenset[int]:
        """Return the rows of the items whose metadata satisfies a filter; cached until the namespace changes."""
        key = condition.identity()
        found = self._filtered.get(key)
        if found is None:
            metadata = self._store.items.metadata(self.namespace)
            found = frozenset(row for row, said in metadata if condition.matches(said))
            if len(self._filtered) >= _FILTERS_KEPT:
                self._filtered.clear()
            if key is not None:
                self._filtered[key] = found
        return found

    def allowed(
        self, condition: Filter | None, positions: NDArray[np.intp] | None, *, supporting: bool
    ) -> NDArray[np.int64] | None:
        """Return the entry rows a search may find, None for all; `supporting` leaves out items with conflicts."""
        if condition is None and positions is None and not supporting:
            return None
        items = None if condition is None else self.items_matching(condition)
        # An entry without a preference was kept for all of them.
        preferences = None if positions is None else {-1, *(self.preference_rows[position] for position in positions)}
        clashing = set() if not supporting else {self.item_of[r] for r, s in self.stance_of.items() if s in _CLASHING}
        return np.array(
            [
                row
                for row, item in self.item_of.items()
                if (items is None or item in items)
                and (preferences is None or self.preference_of[row] in preferences)
                and item not in clashing
            ],
            dtype=np.int64,
        )
