"""Times of messages and statements, read from the many forms in which they are written, and ends that a text states."""

from __future__ import annotations

import math
import re
from calendar import monthrange
from collections.abc import Callable
from datetime import datetime, time, timedelta, timezone
from functools import lru_cache
from typing import Any

from epic_memory.text.statements import MONTHS, NUMBERS
from epic_memory.types.validation import moment

_MILLISECONDS = 1e11
_LONGEST_DATE = 64
_YEAR_FIRST = re.compile(r"\d{4}\D")
UNTIL = (
    r"\b(?:(?:until|till|through)|(?:expires?|expiring|lapses?|runs? out|ends?|ending|valid)"
    r"(?: (?:on|until|till|through|up to|to|in))?) (?:the end of )?(?:[\w' ]{0,25} on )?"
)
# A number alone is no day: "open until 6". A year that is none of these is no reason to take the next one.
_IN_YEAR = r"(?:,? (?P<year>(?:19|20|21)\d\d))?\b(?![:/.-]?\d)(?!,? \d{4})"
MONTH = rf"(?P<month>{'|'.join(MONTHS)})"
_DATES = (
    re.compile(rf"{UNTIL}(?:the )?(?P<day>\d{{1,2}})(?:st|nd|rd|th)?(?: of)? {MONTH}{_IN_YEAR}", re.I),
    re.compile(rf"{UNTIL}(?:the )?{MONTH} (?:the )?(?P<day>\d{{1,2}})(?:st|nd|rd|th)?{_IN_YEAR}", re.I),
)
_UNTIL_MONTH = re.compile(rf"{UNTIL}{MONTH} (?P<year>(?:19|20|21)\d\d)\b", re.I)
_UNTIL_FIGURES = re.compile(rf"{UNTIL}(?P<date>\d{{1,4}}([/.-])\d{{1,2}}\2\d{{1,4}})\b", re.I)
_NEXT_DAYS = re.compile(
    rf"\bthe next (?P<count>\d{{1,2}}|a|{'|'.join(NUMBERS)})(?: or so)? (?P<unit>day|week|month)s?\b", re.I
)
_UNIT_DAYS = {"day": 1, "week": 7, "month": 30}
# What comes again each year does not end.
_AGAIN = re.compile(r"\b(?:every|each|always|yearly|annual\w*)\b", re.I)


def iso_time(value: str | float | datetime) -> str | None:
    """Return a point in time as ISO 8601 text, in UTC if its zone is known; None for what says no one date by itself.

    "1:56 pm on 8 May, 2023" does; "yesterday", "May 8" and "03/04/2026" do not.
    """
    if isinstance(value, bool):
        return None
    try:
        if isinstance(value, (int, float)):
            if not math.isfinite(value):
                return None
            return moment(value / 1000 if value > _MILLISECONDS else value).isoformat()
        if isinstance(value, str):
            value = _date(value.strip())
        return (value if value.tzinfo is None else value.astimezone(timezone.utc)).isoformat()
    except (ValueError, OverflowError, OSError):
        return None


@lru_cache(maxsize=256)
def _date(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        if len(text) > _LONGEST_DATE:
            raise
        from dateutil.parser import parse  # seldom needed
    # The parser fills in what is missing, and takes one of several readings: a date that depends on either is none.
    readings: list[dict[str, Any]] = [{}, {"default": datetime(2001, 2, 2)}]
    if not _YEAR_FIRST.match(text):
        readings += [{"dayfirst": True}, {"yearfirst": True}]
    dates: set[datetime] = {
        parse(text, tzinfos=_zone, **{"default": datetime(2000, 1, 1), **reading}) for reading in readings
    }
    if len(dates) > 1:
        raise ValueError("not one date")
    return dates.pop()


def _zone(name: str | None, offset: int | None) -> timezone | None:
    if name and offset is None:
        raise ValueError("the same letters are several zones")
    return None if offset is None else timezone(timedelta(seconds=offset))


def local_time(value: datetime) -> datetime:
    """Return a point in time in local time; in UTC at the ends of the calendar, where local time is beyond."""
    try:
        return value.astimezone()
    except (OverflowError, ValueError):
        return value.replace(tzinfo=value.tzinfo or timezone.utc)


def end_of_day(now: datetime, days: int = 0) -> datetime:
    """Return the last second of a day, or of one some days later."""
    return datetime.combine(now.date() + timedelta(days=days), time(23, 59, 59), now.tzinfo)


def in_calendar(find: Callable[[str, datetime], datetime | None], text: str, now: datetime) -> datetime | None:
    """Return the end that is found in a text; None for one that is beyond the year 9999, here or in UTC."""
    try:
        end = find(text, now)
        return end if end is None or end.astimezone(timezone.utc) else None
    except (OverflowError, ValueError):
        return None


def stated_end(text: str, now: datetime) -> datetime | None:
    """Return the date that a text states as the end of what it says: until then, or for the next days from now.

    A date in figures that can be read in two ways, such as 03/04/2027, is none.
    """
    if _AGAIN.search(text):
        return None
    if match := _UNTIL_FIGURES.search(text):
        iso = iso_time(match["date"])
        return None if iso is None else datetime.combine(datetime.fromisoformat(iso), time(23, 59, 59), now.tzinfo)
    if match := _DATES[0].search(text) or _DATES[1].search(text):
        return end_of_date(int(match["day"]), match["month"], match["year"], now)
    if match := _UNTIL_MONTH.search(text):
        return end_of_month(match["month"], int(match["year"]), now)
    if match := _NEXT_DAYS.search(text):
        count = match["count"].casefold()
        number = int(count) if count.isdigit() else NUMBERS.get(count, 1)
        return end_of_day(now, number * _UNIT_DAYS[match["unit"].casefold()])
    return None


def end_of_month(name: str, year: int, now: datetime) -> datetime:
    """Return the last second of a month."""
    month = MONTHS.index(name.casefold()) + 1
    return datetime(year, month, monthrange(year, month)[1], 23, 59, 59, tzinfo=now.tzinfo)


def end_of_date(day: int, month: str | None, year: str | None, now: datetime) -> datetime | None:
    """Return the end of the next date with a day of the month, and a month and a year if they are given, or None."""
    wanted = None if month is None else MONTHS.index(month.casefold()) + 1
    if year is not None and wanted is not None:
        return datetime(int(year), wanted, day, 23, 59, 59, tzinfo=now.tzinfo)
    for ahead in range(366):
        end = end_of_day(now, ahead)
        if end.day == day and wanted in (None, end.month):
            return end
    return None
