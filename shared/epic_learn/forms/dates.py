"""Dates in a text: a day of a month, with a year or without one."""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Iterator
from datetime import date
from typing import NamedTuple

from epic_learn.facts.statements import MONTHS

_MONTH = "|".join(sorted({*MONTHS, *(month[:3] for month in MONTHS), "sept"}, key=len, reverse=True))
_YEAR = r"(?:,? (?P<year>\d{4})(?!\d))?"
_ORDINAL = r"(?:st|nd|rd|th)?"
_PATTERNS = (
    re.compile(r"\b(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d)(?!\d)"),
    re.compile(rf"\b(?P<day>\d{{1,2}}){_ORDINAL}\.?(?: of)? (?P<month>{_MONTH})\b\.?{_YEAR}", re.I),
    # A small "may" is a verb.
    re.compile(rf"\b(?P<month>(?=[A-Z])(?i:{_MONTH}))\.? (?:the )?(?P<day>\d{{1,2}}){_ORDINAL}(?![\d:.]\d|\w){_YEAR}"),
    re.compile(r"\b(?P<day>\d{1,2})\.(?P<month>\d{1,2})\.(?P<year>\d{4})(?!\d)"),
)
# Day or month first: told only where one of them can be no month.
_SLASHED = re.compile(r"\b(\d{1,2})/(\d{1,2})/(\d{4})(?!\d)")


class Day(NamedTuple):
    """A day of a month; `year` is None where none is told."""

    year: int | None
    month: int
    day: int

    def __str__(self) -> str:
        return f"{'-' if self.year is None else f'{self.year:04}'}-{self.month:02}-{self.day:02}"

    def following(self, today: date) -> date | None:
        """Return the day itself, or without a year its next occurrence from a day on; None for a leap day otherwise."""
        if self.year is not None:
            return date(self.year, self.month, self.day)
        years = range(today.year, today.year + 9)
        days = [date(year, self.month, self.day) for year in years if self.day <= monthrange(year, self.month)[1]]
        return next((day for day in days if day >= today), None)


def days_in(text: str) -> Iterator[tuple[Day, int, int]]:
    """Yield the days that a text names, with the places where each begins and ends, in no order."""
    for pattern in _PATTERNS:
        for match in pattern.finditer(text):
            month = match["month"].lower()
            number = int(month) if month.isdigit() else [name[:3] for name in MONTHS].index(month[:3]) + 1
            year = match["year"]
            if day := _checked(None if year is None else int(year), number, int(match["day"])):
                yield day, match.start(), match.end()
    for match in _SLASHED.finditer(text):
        first, second, year = map(int, match.groups())
        if first > 12 or first == second:
            first, second = second, first
        if (first <= 12 < second or first == second) and (day := _checked(year, first, second)):
            yield day, match.start(), match.end()


def _checked(year: int | None, month: int, day: int) -> Day | None:
    # 2000 was a leap year.
    if year != 0 and 1 <= month <= 12 and 1 <= day <= monthrange(year or 2000, month)[1]:
        return Day(year, month, day)
    return None
