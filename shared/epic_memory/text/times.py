"""Times of messages and statements, read from the many forms in which they are written."""

from __future__ import annotations

import math
import re
from datetime import datetime, timedelta, timezone
from functools import lru_cache
from typing import Any

from epic_memory.types.validation import moment

_MILLISECONDS = 1e11
_LONGEST_DATE = 64
_YEAR_FIRST = re.compile(r"\d{4}\D")


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
