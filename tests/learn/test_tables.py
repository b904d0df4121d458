"""Tables of edits and proposals, where something leaves the memory that they name."""

from __future__ import annotations

from pathlib import Path

import pytest

from epic_memory import Item
from helpers import Clock, memory_at

pytestmark = pytest.mark.usefixtures("locking")


def test_what_led_to_a_fact_whose_time_is_over_goes_with_it(path: Path, clock: Clock) -> None:
    with memory_at(path, "red wine") as memory:
        memory.facts.add(Item(id="code", text="The door code is 4471."))
        memory.facts.add(Item(id="code", text="The door code is 9902.", expires_at=clock.ends(1)))
        assert [edit.kind for edit in memory.facts.edits()] == ["replace", "insert"]
        clock.pass_by(2)
        memory.add(["red wine"])
        assert list(memory.facts) == memory.facts.edits() == []
    assert not any(code in path.read_bytes() for code in (b"4471", b"9902"))
