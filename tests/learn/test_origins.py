"""Who wrote facts, windows of conversations and proposals, and what a context says of it."""

from __future__ import annotations

from typing import Any

import pytest

from epic_learn.conversations import conversation_items, read_conversation
from epic_learn.origins import ORIGIN, SAID, least_trusted, written_by
from epic_learn.types import Proposal
from epic_memory import EpicMemory, SearchOptions
from tables import table


def test_what_is_made_of_several_has_the_least_trusted_origin() -> None:
    made = [(), ("user", "page"), ("assistant", "other"), ("user", "system")]
    assert list(map(least_trusted, made)) == ["user", "page", "assistant", "tool"]


@pytest.mark.parametrize(("given", "origin"), table(__file__, "a_fact_keeps_who_worded_it"))
def test_a_fact_keeps_who_worded_it(given: Any, origin: str) -> None:
    memory, proposal = EpicMemory(), Proposal(kind="add_fact", text="I live in Porto.", **given)
    memory.proposals.add([proposal])
    assert written_by(memory.proposals[0]) == origin
    memory.proposals.accept(proposal.id)
    assert memory.facts[0].metadata[ORIGIN] == origin
    told = memory.context("Where do I live?", 3)
    assert ("I live in Porto. (written by an assistant)" in told) is (
        origin == "assistant"
    ) and "I live in Porto." in told


def test_a_fact_of_a_chat_knows_where_and_when_it_was_said() -> None:
    memory = EpicMemory()
    said = {"role": "user", "content": "I live in Porto.", "time": "2026-03-01T10:00:00Z"}
    (made,) = memory.proposals.propose([{"title": "Moving house", "messages": [said]}])
    memory.proposals.accept(made)
    assert memory.facts[0].metadata == {ORIGIN: "user", SAID: "2026-03-01, Moving house"}
    memory.proposals.add([Proposal(kind="add_fact", text="Is a nurse.", quote="nurse", source="agent")])
    memory.proposals.accept(memory.proposals[0], "I am a nurse.")
    assert memory.facts[1].metadata == {ORIGIN: "user"}, "what the user has reworded is the user's"


def test_what_an_assistants_fact_may_change_is_proposed_as_the_assistants() -> None:
    memory = EpicMemory()
    memory.facts.add("My sister is called Eva.")
    memory.proposals.add([Proposal(kind="add_fact", text="My sister is called Ines.", quote="x", source="agent")])
    memory.proposals.accept(memory.proposals[0])
    assert [(each.kind, written_by(each)) for each in memory.proposals] == [("update_fact", "assistant")]


@pytest.mark.parametrize(
    ("roles", "origin", "shown"), table(__file__, "a_window_of_a_conversation_has_the_origin_of_its_least_trusted_turn")
)
def test_a_window_of_a_conversation_has_the_origin_of_its_least_trusted_turn(
    roles: tuple[str, str], origin: str | None, shown: str | None
) -> None:
    said = ("The hotel has a casino.", "It is by the harbour.")
    turns = [{"role": role, "content": text} for role, text in zip(roles, said, strict=True)]
    (item,) = conversation_items(read_conversation(turns))
    assert item.metadata.get(ORIGIN) == origin
    memory = EpicMemory(["I avoid hotels with casinos."])
    memory.add([item])
    told = memory.context("Which hotel by the harbour has a casino?", 1, options=SearchOptions(min_score=-1.0))
    lines = [line for line in told.splitlines() if line.startswith("Written by")]
    assert lines == ([] if shown is None else [shown])
