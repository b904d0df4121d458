"""Conversations with metadata: every window has it, and it tells equal words apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from epic_learn import aadd_conversation, add_conversation
from epic_memory import EpicMemory, Filter
from epic_memory.encoders import default_encoder
from epic_memory.errors import InvalidInputError
from helpers import memory_of


def held() -> EpicMemory:
    return memory_of()


async def test_windows_have_the_metadata_of_their_conversation() -> None:
    memory, other = held(), held()
    messages = [{"role": "user", "content": f"red wine {number}"} for number in range(12)]
    ours = {"speaker": "user", "source": "mine", "session_id": "a", "kind": "conversation"}
    add_conversation(memory, messages, metadata={"session_id": "a", "source": "mine", "kind": "x", "window": 7})
    await aadd_conversation(other, messages, metadata={"session_id": "a", "source": "mine", "kind": "x", "window": 7})
    items = [hit.item for hit in memory.search("red wine")]
    first, second = (item.metadata for item in sorted(items, key=lambda item: item.metadata["window"]))
    conversation = first["conversation"]
    assert first == {**ours, "conversation": conversation, "turn": 1, "window": 0}
    assert second == {**ours, "conversation": conversation, "turn": 7, "window": 1}
    assert items == [hit.item for hit in other.search("red wine")]


def test_the_same_words_with_other_metadata_are_another_item() -> None:
    memory = held()
    messages = [{"role": "user", "content": "red wine"}]
    kept = [
        add_conversation(memory, messages, metadata=metadata).kept
        for metadata in (None, {}, {"a": 1, "b": 2}, {"b": 2, "a": 1}, {"a": "1", "b": 2}, {"a": 1})
    ]
    assert kept == [1, 0, 1, 0, 1, 1] and len(memory) == 4
    assert memory.add(["user: red wine"]).kept == 1 and len(memory) == 4  # it is the one without metadata, as before


@pytest.mark.parametrize(
    "metadata", [{"a": object()}, {1: "a"}, ["a"], {"a": float("nan")}], ids=["object", "key", "list", "nan"]
)
def test_metadata_that_cannot_be(metadata: Any) -> None:
    memory = held()
    with pytest.raises(InvalidInputError):
        add_conversation(memory, [{"role": "user", "content": "red wine"}], metadata=metadata)
    assert len(memory) == 0


def test_the_embedded_parts_keep_what_matters() -> None:
    memory = EpicMemory(["I follow a strict vegan diet."], encoder=default_encoder())
    said: Sequence[dict[str, str]] = [{"role": "user", "content": "I cooked a vegan lentil stew."}]
    assert add_conversation(memory, said, metadata={"session_id": "a"}).kept == 1
    assert memory.search("dinner", filter=Filter.eq("session_id", "a")) and not memory.search(
        "dinner", filter=Filter.eq("session_id", "b")
    )
