"""Conversations of many shapes, read into turns."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timezone
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epic_learn import add_conversation
from epic_learn.conversations import conversation_items, read_conversation
from epic_learn.times import iso_time
from epic_learn.windows import ConversationChunker
from epic_memory import EpicMemory, Filter, SearchOptions, Settings
from epic_memory.errors import InvalidInputError
from helpers import HashEncoder, KeepAll
from tables import table

NOON = "2026-05-03T12:00:00+00:00"


@pytest.mark.parametrize("row", table(__file__, "shapes"), ids=lambda row: row["name"])
def test_messages_of_many_shapes_are_read(row: dict[str, Any]) -> None:
    read = read_conversation(row["messages"], **({"user": row["user"]} if "user" in row else {}))
    assert [[turn.role, turn.speaker, turn.text, turn.time, turn.number] for turn in read.turns] == row["turns"]
    assert +read.unusable == row["unusable"]
    assert "source" not in row or {turn.source for turn in read.turns} == {row["source"]}


@pytest.mark.parametrize(
    ("given", "time"),
    [
        *table(__file__, "times_are_never_guessed"),
        (datetime(2026, 5, 3, 12, tzinfo=timezone.utc), NOON),
        (float("nan"), None),
    ],
)
def test_times_are_never_guessed(given: Any, time: str | None) -> None:
    assert iso_time(given) == time


class Chat:
    """A message as LlamaIndex has it: the role is an enumeration."""

    def __init__(self, role: str, content: str | None) -> None:
        self.role, self.content = SimpleNamespace(value=role), content
        self.additional_kwargs = {"timestamp": 1777809600}


class Part:
    """A message of a framework, iterable as pydantic's models are."""

    type, content = "human", "Hello"

    def __iter__(self) -> Any:
        return iter([("type", self.type), ("content", self.content)])


def test_message_objects_of_frameworks() -> None:
    human = SimpleNamespace(type="human", content="Hello", additional_kwargs={}, response_metadata={}, name=None)
    ai = SimpleNamespace(type="ai", content="", tool_calls=[{"name": "x"}])
    hello = ("user", "Hello", None)
    for messages, turns in (
        (
            [human, ai, Chat("user", "Again"), ("human", "a pair")],
            [hello, ("user", "Again", NOON), ("user", "a pair", None)],
        ),
        (Part(), [hello]),
    ):
        assert [(turn.role, turn.text, turn.time) for turn in read_conversation(messages).turns] == turns


def test_what_was_said_in_may_is_found_by_a_filter() -> None:
    memory = EpicMemory(preferences=["red wine"], encoder=HashEncoder(), settings=Settings(verifier=KeepAll()))
    for month in ("04", "05"):
        time = f"2026-{month}-03T12:00:00Z"
        said = ({"role": "assistant", "tool_calls": [{}]}, {"role": "user", "content": f"red wine in {month}"})
        report = add_conversation(memory, [{**message, "time": time} for message in said])
        assert report.kept == 1 and report.unusable == {"tool calls": 1} and "1 tool calls" in str(report)
    hits = memory.search("red wine", filter=Filter.ge("time", "2026-05") & Filter.lt("time", "2026-06"))
    assert [hit.item.metadata["time"] for hit in hits] == ["2026-05-03T12:00:00+00:00"]


def windows(*messages: tuple[str, str, str | None], **options: Any) -> list[dict[str, Any]]:
    said = [{"role": role, "content": text, "time": time} for role, text, time in messages]
    items = conversation_items(read_conversation(said), **options)
    return [{key: item.metadata[key] for key in ("turn", "time", "speaker") if key in item.metadata} for item in items]


def test_a_window_says_its_first_turn_and_its_speaker_if_it_has_one_and_is_never_over_two_days() -> None:
    chat = ("Anna", "Any cats?", None), ("Ben", "Two.", None), ("Ben", "And a dog.", None)
    assert windows(*chat) == [{"turn": 1}]
    short = ConversationChunker(max_turns=2, overlap=1)
    assert windows(*chat, chunker=short) == [{"turn": 1}, {"turn": 2, "speaker": "Ben"}]
    assert windows(("Anna", "Any cats?", NOON)) == [{"turn": 1, "speaker": "Anna", "time": NOON}]
    days = ("Anna", "One.", None), ("Ben", "Two.", "2026-05-03"), ("Anna", "Three.", None), ("Ben", "4", "2026-06-01")
    assert windows(*days) == [{"turn": 1}, {"turn": 4, "speaker": "Ben", "time": "2026-06-01T00:00:00"}]


def test_turns_of_different_conversations_do_not_answer_each_other() -> None:
    def source_of(text: str, **options: Any) -> tuple[Any, ...]:
        metadata = conversation_items(read_conversation([("user", text)]), **options)[0].metadata
        return metadata["source"], metadata.get("conversation")

    assert source_of("Any cats?") == source_of("Any cats?") != source_of("Two.")
    assert source_of("Any cats?", metadata={"session": 1}) != source_of("Any cats?", metadata={"session": 2})
    assert source_of("Any cats?", metadata={"source": "phone"})[0] == "phone"
    assert source_of("Any cats?", metadata={"source": "phone"}) != source_of("Two.", metadata={"source": "phone"})
    titled = [{"title": title, "messages": [("user", "Any cats?")]} for title in "ab"]
    first, second = conversation_items(read_conversation(titled))
    assert (first.metadata["source"], second.metadata["source"]) == ("a", "b")
    assert second.metadata["turn"] - first.metadata["turn"] > 1


def test_turns_are_found_by_the_question_they_answer_by_their_speaker_and_their_month() -> None:
    memory = EpicMemory(["I like good answers."])
    turns = ConversationChunker(max_turns=1, overlap=0)
    filler = ["The tram was late again.", "I cooked lentil soup.", "The printer is broken.", "We painted the fence."]
    chat = [("Ann", "Do you have any cats?", "2026-05-03"), ("Bo", "Two, Oscar and Bailey.", "2026-05-03")]
    chat += [("Cleo", text, f"2026-{month}-03") for month in ("06", "07") for text in filler]
    chat += [("Ann", "The tram was late again, and I walked.", "2026-08-03")]
    messages = [{"role": role, "content": text, "time": time} for role, text, time in chat]
    add_conversation(memory, messages, chunker=turns)
    found = memory.search("Which cats are there?", k=2, options=SearchOptions(min_score=None))
    assert found[1].item.text == "Bo: Two, Oscar and Bailey."
    for question, month in (("Was the tram late in June?", "06"), ("Was the tram late in July?", "07")):
        assert memory.search(question)[0].item.metadata["time"] == f"2026-{month}-03T00:00:00"
    assert memory.search("When was the tram late for Ann?")[0].item.metadata["speaker"] == "Ann"


KEYS = "role content type text messages mapping memory parts message author name parent"
anything = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(KEYS.split()) | st.text(max_size=3), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(st.lists(anything, max_size=4))
def test_nothing_in_a_list_is_fatal(messages: list[Any]) -> None:
    for turn in read_conversation(messages).turns:
        assert turn.text.strip() and turn.speaker.strip() and turn.text.encode()


@pytest.mark.parametrize(
    ("call", "match"),
    [
        *((lambda one=one: read_conversation(one), "essage|conversation") for one in (5, None, b"bytes", object())),
        *((lambda user=user: read_conversation("user: hi", user=user), "user must be") for user in (None, 5, [None])),
        (lambda: add_conversation("me.epic", "Ann: hello"), "memory must be an EpicMemory, not str"),  # type: ignore[arg-type]
    ],
)
def test_what_cannot_be_is_refused(call: Callable[[], object], match: str) -> None:
    with pytest.raises(InvalidInputError, match=match):
        call()


def test_a_conversation_goes_in_as_role_and_content_lines() -> None:
    memory = EpicMemory(["I like red wine"])
    said = [{"role": "user", "content": "I drank red wine"}, {"role": "assistant", "content": "Red wine, how nice."}]
    assert add_conversation(memory, said).kept == 1
    (hit,) = memory.search("wine")
    assert hit.item.text == "user: I drank red wine\nassistant: Red wine, how nice."
    assert add_conversation(memory, [{"role": "user"}]).unusable == {"messages without text": 1}
