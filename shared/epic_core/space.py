"""What one user's memory looks like in RAM: preferences, the index, and which row is whose."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from epic_core.encoders.base import Encoder
from epic_core.errors import UnknownPreferenceError
from epic_core.filters import Filter
from epic_core.index import EntryIndex
from epic_core.steering import Mode, QuerySteering
from epic_core.store import Store
from epic_core.types import FloatArray, Preference, Stance

_FILTERS_KEPT = 64

# What the stance policy "prefer" takes off the cosine of an entry: supports above mixed above conflicts where both
# answer the query about as well.
_CLASHING = frozenset({Stance.CONFLICTS, Stance.MIXED})
PENALTY = {Stance.SUPPORTS: 0.0, Stance.NEUTRAL: 0.02, Stance.MIXED: 0.05, Stance.CONFLICTS: 0.1}


@dataclass(kw_only=True)
class Addition:
    """Rows that a committed change added, ready for the index."""

    rows: list[int] = field(default_factory=list)
    items: list[int] = field(default_factory=list)
    preferences: list[int] = field(default_factory=list)
    stances: list[Stance] = field(default_factory=list)
    vectors: list[FloatArray] = field(default_factory=list)
    second_rows: list[int] = field(default_factory=list)
    second_vectors: list[FloatArray] = field(default_factory=list)


class Space:
    """One namespace of a store, loaded.

    Attributes:
        preferences: In the user's order.
        vectors: E(p), shape `(m, d)`.
        index: The entries' embeddings, by entry row.
        second: The second tier's embeddings, by item row.
        item_of, preference_of, stance_of: Of an entry row.
        rows_of: The entry rows of an item row.
    """

    def __init__(self, store: Store, namespace: str, encoder: Encoder) -> None:
        self.namespace = namespace
        self._store = store
        self._encoder = encoder
        self.preference_rows, self.preferences, self.vectors = store.preferences(namespace, encoder.dimension)
        self.index = EntryIndex(encoder.dimension)
        self.second = EntryIndex(encoder.dimension)
        self.item_of: dict[int, int] = {}
        self.rows_of: dict[int, list[int]] = {}
        self.preference_of: dict[int, int] = {}
        self.stance_of: dict[int, Stance] = {}
        self._steering: dict[Mode, QuerySteering] = {}
        self._filtered: dict[str, frozenset[int]] = {}
        found = store.space(namespace, encoder.dimension)
        self._enter(found.rows, found.items, found.preferences, found.stances, found.vectors)
        second_rows, second_vectors = store.second_tier(namespace, encoder.dimension)
        self.second.add(second_rows, second_vectors)

    def _enter(
        self,
        rows: Sequence[int],
        items: Sequence[int],
        preferences: Sequence[int],
        stances: Sequence[Stance],
        vectors: FloatArray,
    ) -> None:
        self.index.add(rows, vectors, [PENALTY[stance] for stance in stances])
        self.item_of.update(zip(rows, items, strict=True))
        for row, item in zip(rows, items, strict=True):
            self.rows_of.setdefault(item, []).append(row)
        self.preference_of.update(zip(rows, preferences, strict=True))
        self.stance_of.update(zip(rows, stances, strict=True))
        self._filtered.clear()

    def apply(self, addition: Addition) -> None:
        """Take in what was committed."""
        if addition.rows:
            self._enter(
                addition.rows, addition.items, addition.preferences, addition.stances, np.stack(addition.vectors)
            )
        if addition.second_rows:
            self.second.add(addition.second_rows, np.stack(addition.second_vectors))
            self._filtered.clear()

    def steering(self, mode: Mode) -> QuerySteering:
        """Steering by this space's preferences, made once for each mode."""
        if mode not in self._steering:
            self._steering[mode] = QuerySteering(self._encoder, self.preferences, mode, vectors=self.vectors)
        return self._steering[mode]

    def find(self, preference: str | Preference) -> int:
        """Position of a preference given by text, id or object.

        Raises:
            UnknownPreferenceError: if it is not held.
        """
        wanted = {preference.id} if isinstance(preference, Preference) else {preference}
        if isinstance(preference, str) and preference.strip():
            wanted.add(Preference(text=preference).id)
        for position, held in enumerate(self.preferences):
            if held.id in wanted:
                return position
        listed = "".join(f"\n  {held.text}" for held in self.preferences) or " none"
        raise UnknownPreferenceError(f"No preference {str(preference)!r} is held. Held are:{listed}")

    def positions(self, preferences: Iterable[str | Preference]) -> NDArray[np.intp]:
        """Positions of several preferences, ascending, each once."""
        return np.unique(np.array([self.find(preference) for preference in preferences], dtype=np.intp))

    def items_matching(self, condition: Filter) -> frozenset[int]:
        """Rows of the items whose metadata satisfies a filter; remembered until the space changes."""
        # Not the filter itself: for a dictionary, True and 1 are one key.
        key = repr(condition)
        if key not in self._filtered:
            if len(self._filtered) >= _FILTERS_KEPT:
                self._filtered.clear()
            found = (row for row, metadata in self._store.metadata(self.namespace) if condition.matches(metadata))
            self._filtered[key] = frozenset(found)
        return self._filtered[key]

    def allowed(
        self, condition: Filter | None, positions: NDArray[np.intp] | None, *, supporting: bool
    ) -> NDArray[np.int64] | None:
        """Entry rows a search may find; None means all. `supporting` leaves out what conflicts in part or whole."""
        if condition is None and positions is None and not supporting:
            return None
        items = None if condition is None else self.items_matching(condition)
        preferences = None if positions is None else {self.preference_rows[position] for position in positions}
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
