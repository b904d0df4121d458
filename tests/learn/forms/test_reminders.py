"""Reminders: days that facts name and days on which items expire, soonest first."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone

import pytest

from epic_learn.forms import due
from epic_learn.forms.reminders import due_among
from epic_memory import EpicMemory, Item, Settings
from epic_memory.errors import InvalidInputError

TODAY = date(2026, 12, 1)


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


def test_the_name_of_a_file_is_no_memory() -> None:
    with pytest.raises(InvalidInputError, match="memory must be an EpicMemory, not str"):
        due("me.epic")  # type: ignore[arg-type]
