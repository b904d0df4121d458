"""A byte budget: what it leaves for the file, for its journal, and for each thing that is bounded by number.

A change that survives a crash needs a journal on disk until it is committed: the pages it changes, as they were. So
the file itself gets less than the budget, and under a budget changes are made in pieces whose journal fits into what
is left.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from numbers import Integral

from epic_core.errors import InvalidInputError
from epic_core.types.digests import DIGEST_BYTES

_UNITS = {"": 1, "B": 1}
for _power, _letter in enumerate("KMG", start=1):
    _UNITS |= {_letter: 1000**_power, f"{_letter}B": 1000**_power, f"{_letter}IB": 1024**_power}
_LEAST_JOURNAL = 24_000
_MOST = 2**48
_JOURNAL_SHARE = 0.12
# A page in the journal takes eight bytes more than in the file.
_JOURNALED = 1.02
UNLIMITED = "unlimited"
DEFAULT_RESERVE = 1_000_000
"""Bytes of the file up to which the light tier fills it where nothing else is said."""


def checked_budget(budget: object) -> int | None:
    """A budget in bytes, given as a number or as text like "1 MB" or "512 KiB"; 0 for "unlimited".

    Raises:
        InvalidInputError: for anything else.
    """
    if budget is None:
        return None
    if isinstance(budget, str):
        if budget.strip().lower() == UNLIMITED:
            return 0
        found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)\s*", budget)
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
    if reserve is None or (isinstance(reserve, Integral) and not isinstance(reserve, bool) and reserve == 0):
        return None if reserve is None else 0
    try:
        return checked_budget(reserve) or _MOST
    except InvalidInputError:
        raise InvalidInputError(
            f'reserve must be a number of bytes, text like "1 MB", or 0 for no light tier; not {reserve!r}.'
        ) from None


@dataclass(frozen=True)
class Budget:
    """A number of bytes, and how it is shared out.

    Attributes:
        total: Bytes on disk that are never exceeded, side files included.
    """

    total: int

    @property
    def journal(self) -> int:
        """Bytes kept free for the journal of one change."""
        return max(_LEAST_JOURNAL, int(_JOURNAL_SHARE * self.total))

    @property
    def touched(self) -> int:
        """Bytes of the file that one change may touch."""
        return int((self.journal - 4096) / _JOURNALED)

    def pages(self, page: int) -> int:
        """How many pages of so many bytes the file may have, at least one."""
        return max(1, (self.total - self.journal) // page)

    @property
    def largest_item(self) -> int:
        """Bytes of the largest item that is taken: it has to be removable too."""
        return self.touched // 2

    @property
    def verdicts(self) -> int:
        """How many verdicts are cached at most: a tenth."""
        return self.total // 10 // 600

    @property
    def ledger(self) -> int:
        """How many items the ledger knows at most: a twentieth."""
        return self.total // 20 // DIGEST_BYTES

    @property
    def not_kept(self) -> int:
        """How many discarded, and how many evicted items are on record at most: together about a twentieth."""
        return self.total // 40 // 350

    @property
    def retry_queue(self) -> int:
        """How many items wait in the retry queue at most: about a quarter."""
        return max(1, self.total // 4 // 1000)
