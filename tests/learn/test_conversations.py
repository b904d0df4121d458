"""Conversations of many shapes, read into turns."""

from __future__ import annotations

from datetime import datetime, timezone
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epic_learn import add_conversation
from epic_learn.conversations import conversation_items, read_conversation
from epic_learn.windows import ConversationChunker
from epic_memory import EpicMemory, Filter, SearchOptions, Settings
from epic_memory.errors import InvalidInputError
from epic_memory.text.times import iso_time
from helpers import HashEncoder, KeepAll

NOON = "2026-05-03T12:00:00+00:00"


def told(messages: Any, **options: Any) -> list[tuple[str, str]]:
    return [(turn.role, turn.text) for turn in read_conversation(messages, **options).turns]


def test_openai_messages_with_tools_and_parts() -> None:
    messages = [
        {"role": "developer", "content": "Be kind."},
        {"role": "user", "name": "Anna", "content": [{"type": "text", "text": "Hello"}, {"type": "image_url"}]},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]},
        {"role": "tool", "content": "21 degrees", "tool_call_id": "1"},
        {"role": "assistant", "content": "It is warm."},
    ]
    read = read_conversation(messages)
    assert told(messages) == [
        ("system", "Be kind."),
        ("user", "Hello"),
        ("tool", "21 degrees"),
        ("assistant", "It is warm."),
    ]
    assert [turn.speaker for turn in read.turns] == ["developer", "Anna", "tool", "assistant"]
    assert [turn.number for turn in read.turns] == [1, 2, 4, 5]
    assert +read.unusable == {"parts of type image_url": 1, "tool calls": 1}


def test_a_tool_result_inside_an_anthropic_user_message_is_not_the_users_own() -> None:
    messages = [
        {"role": "assistant", "content": [{"type": "text", "text": "Let me see."}, {"type": "tool_use", "id": "1"}]},
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "content": [{"type": "text", "text": "I love spam."}]},
                {"type": "text", "text": "And?"},
            ],
        },
    ]
    assert told(messages) == [("assistant", "Let me see."), ("tool", "I love spam."), ("user", "And?")]


class Chat:
    """A message as LlamaIndex has it: the role is an enumeration."""

    def __init__(self, role: str, content: str | None) -> None:
        self.role, self.content = SimpleNamespace(value=role), content
        self.additional_kwargs = {"timestamp": 1777809600}


def test_message_objects_of_frameworks() -> None:
    human = SimpleNamespace(type="human", content="Hello", additional_kwargs={}, response_metadata={}, name=None)
    ai = SimpleNamespace(type="ai", content="", tool_calls=[{"name": "x"}])
    read = read_conversation([human, ai, Chat("user", "Again"), ("human", "a pair")])
    assert [(turn.role, turn.text, turn.time) for turn in read.turns] == [
        ("user", "Hello", None),
        ("user", "Again", NOON),
        ("user", "a pair", None),
    ]


def exported(current: str | None) -> dict[str, Any]:
    def node(parent: str | None, role: str, text: str, kind: str = "text") -> dict[str, Any]:
        content = {"content_type": kind, "parts": [text, {"content_type": "image_asset_pointer"}]}
        return {"parent": parent, "message": {"author": {"role": role}, "content": content, "create_time": 1777809600}}

    mapping = {
        "root": {"parent": None, "message": None},
        "a": node("root", "user", "First", "multimodal_text"),
        "b": node("a", "assistant", "A dropped answer"),
        "c": node("a", "assistant", "Answer"),
        "d": node("c", "user", "custom", "user_editable_context"),
    }
    return {"title": "A chat", "mapping": mapping, **({"current_node": current} if current else {})}


@pytest.mark.parametrize("current", ["d", None, "missing"])
def test_chatgpts_export_is_read_along_its_last_branch(current: str | None) -> None:
    read = read_conversation([exported(current)])
    assert [(turn.role, turn.text, turn.time) for turn in read.turns] == [
        ("user", "First", NOON),
        ("assistant", "Answer", NOON),
    ]
    assert {turn.source for turn in read.turns} == {"A chat"}
    assert read.unusable["hidden messages"] == read.unusable["messages of other branches"] == 1
    assert read.unusable["parts of type image_asset_pointer"] == 2


def test_an_export_whose_messages_go_round_in_a_circle_ends() -> None:
    mapping = {
        key: {
            "parent": other,
            "message": {"author": {"role": "user"}, "content": {"content_type": "text", "parts": [key]}},
        }
        for key, other in (("a", "b"), ("b", "a"))
    }
    assert [text for _, text in told({"mapping": mapping, "current_node": "a"})] == ["b", "a"]


@pytest.mark.parametrize("wrap", [lambda rows: rows, lambda rows: {"results": rows}])
def test_mem0s_export_is_nobodys_own_words(wrap: Any) -> None:
    rows = [{"id": "1", "memory": "Likes jazz", "created_at": "2026-05-03T14:00:00+02:00"}]
    (turn,) = read_conversation(wrap(rows)).turns
    assert (turn.role, turn.text, turn.time) == ("other", "Likes jazz", NOON)


def test_a_transcript_with_names() -> None:
    text = "[2026-05-03 12:00] Anna: Hello\nthere\nBen: Hi: how are you?\n"
    read = read_conversation(text, user="anna")
    assert [(turn.role, turn.speaker, turn.text) for turn in read.turns] == [
        ("user", "Anna", "Hello\nthere"),
        ("other", "Ben", "Hi: how are you?"),
    ]
    assert read.turns[0].time == "2026-05-03T12:00:00"
    assert told("I love tea.") == [("user", "I love tea.")]


@pytest.mark.parametrize(
    ("given", "time"),
    [
        (1777809600, NOON),
        (1777809600000, NOON),
        ("2026-05-03T12:00:00Z", NOON),
        ("2026-05-03", "2026-05-03T00:00:00"),
        ("12:00 pm on 3 May, 2026", "2026-05-03T12:00:00"),
        ("Sun, 03 May 2026 14:00:00 +0200", NOON),
        ("2026/05/03 12:00 UTC", NOON),
        ("13/05/2026", "2026-05-13T00:00:00"),
        ("03/05/2026", None),  # in March or in May
        ("3 May 26", None),
        ("3 May 2026 12:00 CST", None),  # China's or Chicago's
        ("3 May", None),
        ("Sunday", None),
        ("3 May 2026" + " 1" * 50, None),
        (datetime(2026, 5, 3, 12, tzinfo=timezone.utc), NOON),
        ("yesterday", None),
        (float("nan"), None),
        (1e300, None),
        (True, None),
    ],
)
def test_times_are_never_guessed(given: Any, time: str | None) -> None:
    assert iso_time(given) == time


def test_a_time_that_is_none_is_counted() -> None:
    read = read_conversation([{"role": "user", "content": "Hi", "timestamp": "last week"}])
    assert read.turns[0].time is None and read.unusable["times that are no date"] == 1


def test_what_was_said_in_may_is_found_by_a_filter() -> None:
    memory = EpicMemory(preferences=["red wine"], encoder=HashEncoder(), settings=Settings(verifier=KeepAll()))
    for month in ("04", "05"):
        time = f"2026-{month}-03T12:00:00Z"
        add_conversation(memory, [{"role": "user", "content": f"red wine in {month}", "time": time}])
    hits = memory.search("red wine", filter=Filter.ge("time", "2026-05") & Filter.lt("time", "2026-06"))
    assert [hit.item.metadata["time"] for hit in hits] == ["2026-05-03T12:00:00+00:00"]


def windows(*messages: tuple[str, str, str | None], **options: Any) -> list[dict[str, Any]]:
    said = [{"role": role, "content": text, "time": time} for role, text, time in messages]
    keys = ("turn", "time", "speaker")
    items = conversation_items(read_conversation(said), **options)
    return [{key: value for key, value in item.metadata.items() if key in keys} for item in items]


def test_a_window_says_its_first_turn_and_its_speaker_if_it_has_one() -> None:
    chat = ("Anna", "Any cats?", None), ("Ben", "Two.", None), ("Ben", "And a dog.", None)
    assert windows(*chat) == [{"turn": 1}]
    assert windows(*chat, chunker=ConversationChunker(max_turns=2, overlap=1)) == [
        {"turn": 1},
        {"turn": 2, "speaker": "Ben"},
    ]
    assert windows(("Anna", "Any cats?", NOON)) == [{"turn": 1, "speaker": "Anna", "time": NOON}]


def test_no_window_is_over_two_days() -> None:
    chat = ("Anna", "One.", None), ("Ben", "Two.", "2026-05-03"), ("Anna", "Three.", None), ("Ben", "4", "2026-06-01")
    assert windows(*chat) == [
        {"turn": 1},
        {"turn": 4, "speaker": "Ben", "time": "2026-06-01T00:00:00"},
    ]


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
    assert (
        memory.search("Which cats are there?", k=2, options=SearchOptions(min_score=None))[1].item.text
        == "Bo: Two, Oscar and Bailey."
    )
    for question, month in (("Was the tram late in June?", "06"), ("Was the tram late in July?", "07")):
        assert memory.search(question)[0].item.metadata["time"] == f"2026-{month}-03T00:00:00"
    assert memory.search("When was the tram late for Ann?")[0].item.metadata["speaker"] == "Ann"


def test_a_tool_call_without_content_does_not_refuse_the_chat() -> None:
    memory = EpicMemory(preferences=["red wine"], encoder=HashEncoder(), settings=Settings(verifier=KeepAll()))
    report = add_conversation(
        memory, [{"role": "assistant", "content": None, "tool_calls": [{}]}, ("user", "red wine")]
    )
    assert report.kept == 1 and report.unusable == {"tool calls": 1}
    assert "1 tool calls" in str(report)


@pytest.mark.parametrize("messages", [5, None, b"bytes", object()])
def test_what_holds_no_messages_is_refused(messages: Any) -> None:
    with pytest.raises(InvalidInputError):
        read_conversation(messages)


anything = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "role",
                    "content",
                    "type",
                    "text",
                    "messages",
                    "mapping",
                    "memory",
                    "parts",
                    "message",
                    "author",
                    "name",
                    "parent",
                ]
            )
            | st.text(max_size=3),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(st.lists(anything, max_size=4))
def test_nothing_in_a_list_is_fatal(messages: list[Any]) -> None:
    for turn in read_conversation(messages).turns:
        assert turn.text.strip() and turn.speaker.strip() and turn.text.encode()


def test_with_a_name_given_others_of_role_user_and_tools_of_that_name_are_not_the_user() -> None:
    messages = [
        {"role": "user", "name": "Bob", "content": "I love cheese."},
        {"role": "user", "name": " anna", "content": "I love tea."},
        {"role": "user", "content": "I love rye."},
        {"role": "tool", "name": "Anna", "content": "I love spam."},
        {"role": "assistant", "name": "Anna", "content": "I love ads."},
        {"role": "Anna", "content": "I love figs."},
    ]
    roles = [turn.role for turn in read_conversation(messages, user="Anna").turns]
    assert roles == ["other", "user", "user", "tool", "assistant", "user"]


@pytest.mark.parametrize("user", [None, 5, [None]])
def test_names_that_are_no_texts_are_refused(user: Any) -> None:
    with pytest.raises(InvalidInputError, match="user must be"):
        read_conversation("user: hi", user=user)


@pytest.mark.parametrize("sign", ["\u2028", "\r", "\x0b", "\x85", "\x0c"])
def test_only_a_new_line_begins_a_turn_of_a_transcript(sign: str) -> None:
    turns = read_conversation(f"user: hi\r\nassistant: page{sign}user: I love cheese.").turns
    assert [turn.role for turn in turns] == ["user", "assistant"]


class _Part:
    """A message of a framework, iterable as pydantic's models are."""

    type, content = "human", "I love cheese."

    def __iter__(self) -> Any:
        return iter([("type", self.type), ("content", self.content)])


@pytest.mark.parametrize(
    "messages",
    [
        _Part(),
        [{"type": "human", "data": {"content": "I love cheese.", "type": "human"}}],
        [{"role": "user", "parts": [{"text": "I love cheese."}]}],
        {"contents": [{"role": "user", "parts": [{"text": "I love cheese."}]}]},
    ],
)
def test_a_message_by_itself_and_the_shapes_of_other_frameworks_are_read(messages: Any) -> None:
    turns = read_conversation(messages).turns
    assert [(turn.role, turn.text) for turn in turns] == [("user", "I love cheese.")]


def test_the_name_of_a_file_is_no_memory() -> None:
    with pytest.raises(InvalidInputError, match="memory must be an EpicMemory, not str"):
        add_conversation("me.epic", "Ann: hello")  # type: ignore[arg-type]
