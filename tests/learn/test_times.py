"""Ends that a text states."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from epic_learn.times import stated_end
from tables import table

NOW = datetime(2026, 1, 15, 12, tzinfo=timezone.utc)


@pytest.mark.parametrize(("text", "day"), table(__file__, "an_end_that_is_stated"))
def test_an_end_that_is_stated(text: str, day: str | None) -> None:
    end = stated_end(text, NOW)
    assert (None if end is None or end < NOW else end.date().isoformat()) == day
