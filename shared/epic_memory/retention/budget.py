"""Byte budget: the size of the file, and limits for the numbers of rows in it.

SQLite enforces it with a limit on the pages of the file (`max_page_count`). While a call writes, the journal that makes
the change safe may exist next to it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import Any

from epic_memory.errors import InvalidInputError
from epic_memory.types.digests import DIGEST_BYTES

_UNITS = {"": 1, "B": 1}
for _power, _letter in enumerate("KMG", start=1):
    _UNITS |= {_letter: 1000**_power, f"{_letter}B": 1000**_power, f"{_letter}IB": 1024**_power}
_MOST = 2**48
UNLIMITED = "unlimited"
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

    @property
    def verdicts(self) -> int:
        """Most verdicts in the cache: a tenth."""
        return self.total // 10 // 600

    @property
    def ledger(self) -> int:
        """Most items in the ledger: a twentieth."""
        return self.total // 20 // DIGEST_BYTES

    @property
    def not_kept(self) -> int:
        """Most discarded, and most evicted items on record: together about a twentieth."""
        return self.total // 40 // 350

    @property
    def retry_queue(self) -> int:
        """Most items in the retry queue: about a quarter."""
        return max(1, self.total // 4 // 1000)


def budget_in(meta: Mapping[str, Any]) -> Budget | None:
    """Return the budget that a file's description remembers, if any."""
    octets = meta.get("budget")
    return Budget(octets) if isinstance(octets, int) and octets > 0 else None
