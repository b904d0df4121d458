"""Reminders: what a memory holds about a day that is coming up."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Literal

from epic_learn.forms.dates import days_in
from epic_learn.times import local_time
from epic_memory.errors import InvalidInputError
from epic_memory.memory import EpicMemory, checked_memory
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


def due(memory: EpicMemory, before: date | datetime | str | None = None, *, namespace: str | None = None) -> list[Due]:
    """Return what is held about the days that are coming up, soonest first: reminders.

    Facts count by the days that their words name ("Mia's birthday is on 4 May", "the lease ends on 2027-03-31"),
    and everything by its `expires_at`. Days are those of local time; one without a year is the next of its kind.

    Args:
        memory: The memory.
        before: The first day that is too late, also as text like "2027-03-31"; None for 30 days from today.
        namespace: Another user's memory in the same file.

    Raises:
        InvalidInputError: for what is no day.
    """
    return due_among(checked_memory(memory).items(namespace=namespace), before, date.today())


def due_among(items: Iterable[Item], before: date | datetime | str | None, today: date) -> list[Due]:
    """Return what is due from a day on as `due` does: other items than facts may name any day, so only expire."""
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
