"""Reminders: days that facts name and days on which items expire, soonest first."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epic_learn.forms import due, fill
from epic_learn.forms.dates import days_in
from epic_learn.forms.reminders import due_among
from epic_memory import EpicMemory, Item, Settings
from epic_memory.errors import InvalidInputError

TODAY = date(2026, 12, 1)
FORMS = ("%Y-%m-%d", "%d %B %Y", "%B %d, %Y", "%d.%m.%Y")


def listed(items: list[Item], before: str | None = None) -> list[str]:
    return [f"{each.day} {each.reason}" for each in due_among(items, before, TODAY)]


def test_what_comes_up() -> None:
    items = [
        Item(text="The lease ends on 31 January 2027.", fact=True),
        Item(text="Mia's birthday is on December 24.", fact=True),
        Item(text="The car was bought on 3 March 2019.", fact=True),
        Item(text="The fair was on 12 December 2026."),  # no fact
        Item(text="The ticket is in the drawer.", expires_at="2026-12-10T12:00:00+00:00"),
    ]
    assert listed(items) == ["2026-12-10 expires", "2026-12-24 named"]
    assert listed(items, "2027-02-01") == ["2026-12-10 expires", "2026-12-24 named", "2027-01-31 named"]
    assert listed(items, "2027-01-31")[-1] == "2026-12-24 named"
    assert listed([Item(text="Her birthday is on 29 February.", fact=True)], "2029-01-01") == ["2028-02-29 named"]
    with pytest.raises(InvalidInputError):
        due_among(items, "soon", TODAY)


def test_a_memory_reminds() -> None:
    now = datetime.now(timezone.utc)
    with EpicMemory(settings=Settings(coarse=False, fine=False)) as memory:
        memory.facts.add(f"The exam is on {now + timedelta(days=9):%Y-%m-%d}.")
        memory.add([Item(text="A voucher for the zoo.", expires_at=now + timedelta(days=3))])
        assert [each.item.text for each in due(memory)] == ["A voucher for the zoo.", memory.facts[0].text]
        assert due(memory, now + timedelta(days=1)) == []


@given(st.dates(date(1900, 1, 1), date(2999, 12, 31)), st.sampled_from(FORMS))
def test_a_written_day_is_read(day: date, form: str) -> None:
    ((found, start, end),) = days_in(text := f"It is on {day.strftime(form)}, they say.")
    assert (found.year, found.month, found.day) == (day.year, day.month, day.day)
    assert text[start:end] == day.strftime(form)


@pytest.mark.parametrize("text", ["I may 5 times", "room 31.02.2027", "on 3/4/2027", "30 February", "2027-13-01"])
def test_what_is_no_day_or_not_told(text: str) -> None:
    assert not list(days_in(text))


@pytest.mark.parametrize("call", [due, lambda given: fill(given, {"fields": [{"name": "born"}]})])
def test_the_name_of_a_file_is_no_memory(call: Callable[[Any], object]) -> None:
    with pytest.raises(InvalidInputError, match="memory must be an EpicMemory, not str"):
        call("me.epic")
