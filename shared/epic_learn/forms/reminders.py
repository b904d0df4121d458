"""Reminders: what is held about a day that is coming up."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Literal

from epic_learn.forms.dates import days_in
from epic_learn.times import local_time
from epic_memory.errors import InvalidInputError
from epic_memory.types import Item

DAYS = 30
"""Number of days ahead that are looked at by default."""


@dataclass(frozen=True, kw_only=True)
class Due:
    """Something held about a day.

    Attributes:
        day: The day, in local time where it is the day of an expiry.
        item: What is held.
        reason: "named": the words of a fact name it; "expires": the item is held until then.
    """

    day: date
    item: Item
    reason: Literal["named", "expires"]

    def __str__(self) -> str:
        return f"{self.day}  {'expires: ' if self.reason == 'expires' else ''}{self.item.text}"


def due_among(items: Iterable[Item], before: date | datetime | str | None, today: date | None = None) -> list[Due]:
    """Return what is due from today on and before a day, soonest first, each item once for a day.

    Args:
        items: Facts by the days that they name, and other items by their expiry alone: a text may name any day.
        before: The first day that is too late, also as ISO 8601 text; None for a month from today.
        today: None for the present day, in local time.

    Raises:
        InvalidInputError: for what is no day.
    """
    today = date.today() if today is None else today
    end = today + timedelta(days=DAYS) if before is None else _day(before)
    found: dict[tuple[date, str], Due] = {}
    for item in items:
        named = [day.following(today) for day, _, _ in days_in(item.text)] if item.fact else []
        for day in named:
            if day is not None:
                found[day, item.id] = Due(day=day, item=item, reason="named")
        if item.expires_at is not None:
            day = local_time(item.expires_at).date()
            found.setdefault((day, item.id), Due(day=day, item=item, reason="expires"))
    return sorted((each for each in found.values() if today <= each.day < end), key=lambda each: each.day)


def _day(value: date | datetime | str) -> date:
    try:
        day = datetime.fromisoformat(value.replace("Z", "+00:00")) if isinstance(value, str) else value
    except ValueError:
        raise InvalidInputError(f"{value!r} is no day. Write it like 2027-03-31.") from None
    if not isinstance(day, date):
        raise InvalidInputError(f"before must be a day, or text like 2027-03-31; not {value!r}.")
    return day.date() if isinstance(day, datetime) else day
