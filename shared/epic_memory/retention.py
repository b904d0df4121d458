"""Byte budget of a file, and which entries leave first when it is reached.

SQLite enforces the budget with a limit on the pages of the file (`max_page_count`). While a call writes, the journal
that makes the change safe may exist next to it. `least_valuable_first` orders the entries of a namespace, and `choose`
picks from the beginning those to remove. Nothing here reads or writes a memory.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from epic_memory.errors import InvalidInputError
from epic_memory.types import FloatArray

Positions: TypeAlias = NDArray[np.intp]
_UNITS = {"": 1, "B": 1}
for _power, _letter in enumerate("KMG", start=1):
    _UNITS |= {_letter: 1000**_power, f"{_letter}B": 1000**_power, f"{_letter}IB": 1024**_power}
_MOST = 2**48
UNLIMITED = "unlimited"
AT_A_TIME = 0.1
"""Share of the held bytes that is removed at a time if there is no room."""
# The weight of the similarity beside the confidence.
_SIMILARITY = 0.5
DEFAULT_RESERVE = 1_000_000
"""Size of the file in bytes up to which the light tier fills it by default."""


def checked_budget(budget: object) -> int | None:
    """Return a budget in bytes, given as a number or text like "1 MB" or "512 KiB"; 0 for "unlimited", None for None.

    Raises:
        InvalidInputError: for anything else.
    """
    if budget is None:
        return None
    if isinstance(budget, str):
        if budget.strip().lower() == UNLIMITED:
            return 0
        found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-zA-Z]*)", budget.strip())
        if found and found[2].upper() in _UNITS:
            octets = float(found[1]) * _UNITS[found[2].upper()]
            budget = int(octets) if octets < _MOST else budget
    if not isinstance(budget, Integral) or isinstance(budget, bool) or not 1 <= int(budget) < _MOST:
        raise InvalidInputError(
            f'budget must be a number of bytes, text like "1 MB" or "512 KiB", or "{UNLIMITED}" to lift it;'
            f" not {budget!r}."
        )
    return int(budget)


def checked_reserve(reserve: object) -> int | None:
    """Return a reserve in bytes, given as a number or as text like "1 MB"; None for the default.

    Raises:
        InvalidInputError: for anything else.
    """
    if reserve is None or str(reserve).strip() == "0":
        return None if reserve is None else 0
    try:
        return checked_budget(reserve) or _MOST
    except InvalidInputError:
        raise InvalidInputError(
            f'reserve must be a number of bytes, text like "1 MB", or 0 for no light tier; not {reserve!r}.'
        ) from None


@dataclass(frozen=True)
class Budget:
    """A number of bytes, and the shares of its parts.

    Attributes:
        total: Most bytes of the file after every call; while one writes, its journal may exist next to it.
    """

    total: int

    def pages(self, page: int) -> int:
        """Return how many pages of `page` bytes the file may have, at least one."""
        return max(1, self.total // page)

    @property
    def written_at_once(self) -> int:
        """Bytes that are written before room is made again: a sixth."""
        return self.total // 6

    @property
    def largest_item(self) -> int:
        """Bytes of the largest item that is accepted: a quarter, so that there is room for others."""
        return self.total // 4


def budget_in(meta: Mapping[str, Any]) -> Budget | None:
    """Return the budget that a file's description remembers, if any."""
    octets = meta.get("budget")
    return Budget(octets) if isinstance(octets, int) and octets > 0 else None


@dataclass(frozen=True, kw_only=True)
class Held:
    """The entries of one namespace as columns, each of shape `(n,)`, the oldest first.

    Attributes:
        rows: Entry rows, ascending.
        items: Item rows.
        preferences: Preference rows, -1 for an entry without one.
        confidence: In [0, 1], nan if the verifier gave none.
        similarity: Sim(E(x), E(p)) in [-1, 1]; nan counts as 0.
    """

    rows: NDArray[np.int64]
    items: NDArray[np.int64]
    preferences: NDArray[np.int64]
    confidence: FloatArray
    similarity: FloatArray

    def __len__(self) -> int:
        return len(self.rows)


def least_valuable_first(held: Held) -> Positions:
    """Return the positions of all n entries, the least valuable first, and the older of two equal ones; shape `(n,)`.

    The value is the confidence, and for each entry without one the median of the others, so that it neither protects
    nor condemns; plus half the similarity, which decides where a language model is equally sure of everything.
    """
    confidence = np.clip(held.confidence.astype(np.float64), 0.0, 1.0)
    unknown = np.isnan(confidence)
    confidence[unknown] = 0.5 if unknown.all() else np.median(confidence[~unknown])
    return np.argsort(confidence + _SIMILARITY * np.clip(np.nan_to_num(held.similarity), -1.0, 1.0), kind="stable")


def choose(order: Positions, held: Held, sizes: NDArray[np.int64], needed: int, floor: int) -> Positions:
    """Pick the entries to remove: the first of an order until they make enough room.

    No preference is left with fewer than `floor` entries by this; entries without a preference count as one group. A
    group that has fewer already keeps all of them.

    Args:
        order: Positions of all n entries, the first to leave first, shape `(n,)`.
        held: The entries.
        sizes: Bytes that each entry frees, 0 or more, shape `(n,)`.
        needed: Bytes to free.
        floor: Entries that each preference keeps, 0 or more.

    Returns:
        Positions in the order given, just enough of them to free `needed` bytes; all that may leave if that is too
            little; none if `needed` is not above 0.
    """
    count = len(held)
    if needed <= 0 or not count:
        return np.empty(0, dtype=np.intp)
    _, group, counts = np.unique(held.preferences[order], return_inverse=True, return_counts=True)
    group = group.reshape(-1)
    # After a stable sort by group, an entry's rank in its group is its place minus the place where the group begins.
    sorted_by_group = np.argsort(group, kind="stable")
    rank = np.empty(count, dtype=np.int64)
    rank[sorted_by_group] = np.arange(count) - np.repeat(np.cumsum(counts) - counts, counts)
    may_go = order[rank < counts[group] - floor]
    enough = int(np.searchsorted(np.cumsum(sizes[may_go]), needed)) + 1
    return may_go[:enough].astype(np.intp)
