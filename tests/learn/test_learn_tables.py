"""Tables of edits and proposals, where something leaves the memory that they name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from epic_learn.types import Proposal
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


def test_what_proposed_a_fact_whose_time_is_over_is_kept_in_no_word(path: Path, clock: Clock) -> None:
    proposed = Proposal(kind="add_fact", text="The door code is 9902.", quote="the code is 9902")
    with memory_at(path, "red wine") as memory:
        memory.proposals.add([proposed])
        memory.proposals.accept(proposed)
        memory.add([replace(memory.facts[0], expires_at=clock.ends(1))])
        assert memory.proposals.accepted() == [proposed]
        clock.pass_by(2)
        memory.add(["red wine"])
        assert list(memory.facts) == memory.proposals.accepted() == []
        assert memory.proposals.was_decided(proposed.text)
    assert b"9902" not in path.read_bytes()
