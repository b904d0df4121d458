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


CLOTHES = "I only buy second-hand clothes."
CATS = "What cats does Bo keep at home?"


def turns_of(chat: list[tuple[str, str]], path: Path | None = None, **more: object) -> EpicMemory:
    memory = EpicMemory([CLOTHES]) if path is None else EpicMemory.open(path, [CLOTHES])
    memory.add(
        Item(
            id=str(number),
            text=f"{speaker}: {text}",
            metadata={"speaker": speaker, "source": "s1", "turn": number, "time": "2023-05-08", **more},
        )
        for number, (speaker, text) in enumerate(chat)
    )
    return memory


def found(memory: EpicMemory, query: str, k: int = 5) -> list[tuple[str, float]]:
    return [(hit.item.id, hit.score) for hit in memory.search(query, k=k, options=SearchOptions(min_score=None))]


def test_an_answer_is_found_by_the_words_of_its_question() -> None:
    assert found(turns_of(CHAT), CATS, 2)[0][0] == "3"
    assert found(turns_of(CHAT, source=1, turn=None), CATS, 1)[0][0] == "2"


def test_a_turn_is_found_by_a_rare_word_alone() -> None:
    """Among more turns than are candidates, all of them nearer by their topic."""
    chatter = [
        ("Ann", f"I could listen to live music all day, number {n} of the orchestra is playing.") for n in range(60)
    ]
    memory = turns_of([*chatter, ("Bo", "Qumran is where the parcel went; nobody was in, so they took it back.")])
    query = "Which orchestra was playing live music all day"
    assert found(memory, f"{query} at Qumran?", 1)[0][0] == "60" != memory.search(f"{query}?", k=1)[0].item.id


def test_who_said_it_and_when_decide_between_equals() -> None:
    memory = EpicMemory([CLOTHES])
    sights = {("Ann", "05"): "a deer", ("Bo", "05"): "a fox", ("Ann", "06"): "an owl", ("Bo", "06"): "a hare"}
    memory.add(
        Item(
            id=f"{speaker} {month}",
            text=f"I went hiking in the mountains and saw {sight}.",
            metadata={"speaker": speaker, "time": f"2023-{month}-08"},
        )
        for (speaker, month), sight in sights.items()
    )
    for speaker, month in sights:
        query = f"What did {speaker} see hiking in the mountains in {'May' if month == '05' else 'June'}?"
        assert memory.search(query, k=1)[0].item.id == f"{speaker} {month}"


def test_a_name_makes_nothing_relevant() -> None:
    memory = EpicMemory([CLOTHES])
    memory.add(
        Item(text=text, metadata={"speaker": speaker, "turn": turn, "time": "8 May, 2023"})
        for turn, (speaker, text) in enumerate(CHAT)
    )
    hits = memory.search("What is Bo's opinion on monetary policy in May?")
    assert not hits and not hits.relevant


def test_turns_are_the_same_after_reopening(path: Path) -> None:
    with turns_of(CHAT, path) as memory:
        memory.forget(found(memory, CATS)[-1][0])
        kept = found(memory, CATS)
    with EpicMemory.open(path) as memory:
        assert found(memory, CATS) == kept


# windows with metadata


async def test_windows_have_the_metadata_of_their_conversation() -> None:
    memory, other = memory_of(), memory_of()
    messages = [{"role": "user", "content": f"red wine {number}"} for number in range(12)]
    given = {"session_id": "a", "source": "mine", "kind": "x", "window": 7}
    add_conversation(memory, messages, metadata=given)
    await aadd_conversation(other, messages, metadata=given)
    first, second = (item.metadata for item in sorted(memory.items(), key=lambda item: item.metadata["window"]))
    ours = {"speaker": "user", "source": "mine", "session_id": "a", "kind": "conversation", "origin": "user"}
    assert first == {**ours, "conversation": first["conversation"], "turn": 1, "window": 0}
    assert second == {**ours, "conversation": first["conversation"], "turn": 7, "window": 1}
    assert memory.items() == other.items() and len(memory.search("red wine")) == 2


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
