"""Metadata: values that JSON does not know are stored as those that it does, or refused."""

from __future__ import annotations

from datetime import date, datetime, time, timezone
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pytest

from epic_memory import EpicMemory, Filter, Item, SearchOptions, Settings
from epic_memory.errors import InvalidInputError

VALUES = {
    "date": (date(2026, 5, 9), "2026-05-09"),
    "datetime": (datetime(2026, 5, 9, 12, 30, tzinfo=timezone.utc), "2026-05-09T12:30:00+00:00"),
    "time": (time(8, 40), "08:40:00"),
    "uuid": (UUID(int=7), "00000000-0000-0000-0000-000000000007"),
    "float32": (np.float32(0.5), 0.5),
    "int64": (np.int64(12), 12),
    "bool": (np.bool_(True), True),
}


@pytest.mark.parametrize(("given", "stored"), VALUES.values(), ids=VALUES)
def test_dates_ids_and_numpys_numbers_are_stored_as_json_has_them(given: Any, stored: Any, path: Path) -> None:
    item = Item(id="a", text="red wine", metadata={"value": given, "inner": {"list": [given]}})
    anything, settings = SearchOptions(min_score=None), Settings(coarse=False, fine=False)
    with EpicMemory.open(path, preferences=["I like wine."], settings=settings) as memory:
        memory.add([item])
        assert memory.add([item]).duplicates == 1
        before = memory.search("red wine", options=anything)[0].item.metadata
    with EpicMemory.open(path) as memory:
        (hit,) = memory.search("red wine", filter=Filter.eq("value", stored), options=anything)
    assert hit.item.metadata == before == {"value": stored, "inner": {"list": [stored]}}


@pytest.mark.parametrize("value", [object(), {1, 2}, b"bytes", 1j, np.float32("nan"), float("inf"), [{1: "a"}]])
def test_what_json_cannot_hold_is_refused(value: Any) -> None:
    memory = EpicMemory(["I like wine."])
    with pytest.raises(InvalidInputError, match="not JSON"):
        memory.add([Item(id="a", text="red wine", metadata={"value": value})])
