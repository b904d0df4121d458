"""Conversations: turns found by their words, their question, who said them and when; and the metadata of windows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from epic_learn import aadd_conversation, add_conversation
from epic_memory import EpicMemory, Item, SearchOptions
from epic_memory.errors import InvalidInputError
from helpers import memory_of

CHAT = [
    ("Ann", "How was your week? Mine was long."),
    ("Bo", "Quiet. The garden is full of tomatoes."),
    ("Ann", "Do you keep any cats at home?"),
    ("Bo", "Two of them, Oscar and Bailey."),
    ("Ann", "My sister paints portraits of them for a living."),
    ("Bo", "Mine plays the zither."),
]


def turns_of(chat: list[tuple[str, str]], **more: object) -> EpicMemory:
    memory = EpicMemory(["I only buy second-hand clothes."])
    memory.add(
        Item(
            id=str(number),
            text=f"{speaker}: {text}",
            metadata={"speaker": speaker, "source": "s1", "turn": number, "time": "2023-05-08", **more},
        )
        for number, (speaker, text) in enumerate(chat)
    )
    return memory


def test_an_answer_is_found_by_the_words_of_its_question() -> None:
    with_turns = turns_of(CHAT).search("What cats does Bo keep at home?", k=2, options=SearchOptions(min_score=None))
    assert with_turns[0].item.id == "3"
    without = turns_of(CHAT, source=1, turn=None).search(
        "What cats does Bo keep at home?", k=1, options=SearchOptions(min_score=None)
    )
    assert without[0].item.id == "2"


def test_a_turn_is_found_by_a_rare_word_alone() -> None:
    """Among more turns than are candidates, all of them nearer by their topic."""
    chatter = [
        ("Ann", f"I could listen to live music all day, number {n} of the orchestra is playing.") for n in range(60)
    ]
    memory = turns_of([*chatter, ("Bo", "Qumran is where the parcel went; nobody was in, so they took it back.")])
    query = "Which orchestra was playing live music all day at Qumran?"
    assert memory.search(query, k=1, options=SearchOptions(min_score=None))[0].item.id == "60"
    assert memory.search("Which orchestra was playing live music all day?", k=1)[0].item.id != "60"


def test_who_said_it_and_when_decide_between_equals() -> None:
    text = "I went hiking in the mountains"
    memory = EpicMemory(["I only buy second-hand clothes."])
    memory.add(
        Item(
            id=f"{speaker} {month}",
            text=f"{text} and saw {sight}.",
            metadata={"speaker": speaker, "time": f"2023-{month}-08"},
        )
        for speaker, month, sight in [
            ("Ann", "05", "a deer"),
            ("Bo", "05", "a fox"),
            ("Ann", "06", "an owl"),
            ("Bo", "06", "a hare"),
        ]
    )
    for speaker in ("Ann", "Bo"):
        for number, month in (("05", "May"), ("06", "June")):
            query = f"What did {speaker} see hiking in the mountains in {month}?"
            assert memory.search(query, k=1)[0].item.id == f"{speaker} {number}"


def test_a_name_makes_nothing_relevant() -> None:
    memory = EpicMemory(["I only buy second-hand clothes."])
    memory.add(
        Item(id=text, text=text, metadata={"speaker": speaker, "turn": turn, "time": "8 May, 2023"})
        for turn, (speaker, text) in enumerate(CHAT)
    )
    hits = memory.search("What is Bo's opinion on monetary policy in May?")
    assert not hits and not hits.relevant


def test_turns_are_the_same_after_reopening(tmp_path: Path) -> None:
    path = tmp_path / "me.epic"
    query = "What cats does Bo keep at home?"
    with EpicMemory.open(path, ["I only buy second-hand clothes."]) as memory:
        memory.add(list(turns_of(CHAT).items()))
        before = [(hit.item.id, hit.score) for hit in memory.search(query, options=SearchOptions(min_score=None))]
        memory.forget(before[-1][0])
        kept = [(hit.item.id, hit.score) for hit in memory.search(query, options=SearchOptions(min_score=None))]
    with EpicMemory.open(path) as memory:
        assert [(hit.item.id, hit.score) for hit in memory.search(query, options=SearchOptions(min_score=None))] == kept


# windows with metadata


async def test_windows_have_the_metadata_of_their_conversation() -> None:
    memory, other = memory_of(), memory_of()
    messages = [{"role": "user", "content": f"red wine {number}"} for number in range(12)]
    ours = {"speaker": "user", "source": "mine", "session_id": "a", "kind": "conversation", "origin": "user"}
    add_conversation(memory, messages, metadata={"session_id": "a", "source": "mine", "kind": "x", "window": 7})
    await aadd_conversation(other, messages, metadata={"session_id": "a", "source": "mine", "kind": "x", "window": 7})
    items = [hit.item for hit in memory.search("red wine")]
    first, second = (item.metadata for item in sorted(items, key=lambda item: item.metadata["window"]))
    conversation = first["conversation"]
    assert first == {**ours, "conversation": conversation, "turn": 1, "window": 0}
    assert second == {**ours, "conversation": conversation, "turn": 7, "window": 1}
    assert items == [hit.item for hit in other.search("red wine")]


def test_the_same_words_with_other_metadata_are_another_item() -> None:
    memory = memory_of()
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
    memory = memory_of()
    with pytest.raises(InvalidInputError):
        add_conversation(memory, [{"role": "user", "content": "red wine"}], metadata=metadata)
    assert len(memory) == 0
