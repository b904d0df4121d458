"""`EpicMemoryBlock`: what it reads and writes."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("llama_index.core", reason="needs the extra llamaindex")

from llama_index.core.base.llms.types import ChatMessage, ImageBlock, MessageRole, TextBlock, ToolCallBlock
from llama_index.core.utils import get_tokenizer
from pydantic import ValidationError

from epic_llamaindex.memory_block import EpicMemoryBlock
from epic_memory import EpicMemory, SearchOptions, Stance
from epic_memory.context import documents_of_context, format_context
from epic_memory.errors import EncoderError, InvalidInputError, MemoryClosedError, ReadOnlyError
from helpers import AlteredEncoder, HashEncoder, KeepAll, UndecidedAll, memory_at, searching, settled

MEMORY = ["red wine"]


def held(*texts: str, preferences: Sequence[str] = MEMORY, **options: Any) -> EpicMemory:
    """A memory that keeps what shares words with "red wine"."""
    memory = EpicMemory(preferences, **settled(**{"encoder": HashEncoder(), "verifier": KeepAll(), **options}))
    if texts:
        memory.add(texts)
    return memory


def user(text: str, **kwargs: Any) -> ChatMessage:
    return ChatMessage(role="user", content=text, additional_kwargs=kwargs)


def assistant(text: str, **kwargs: Any) -> ChatMessage:
    return ChatMessage(role="assistant", content=text, additional_kwargs=kwargs)


def texts_of(memory: EpicMemory, query: str = "red wine", **options: Any) -> list[str]:
    return sorted(hit.item.text for hit in memory.search(query, 50, **searching(**options)))


# reading


async def test_the_latest_message_of_the_user_is_what_is_asked() -> None:
    block = EpicMemoryBlock(memory=held("red wine one", "red wine two"), k=1)
    said = [user("one"), assistant("and two"), user("red wine two"), assistant("yes"), ChatMessage(role="system")]
    text = await block.aget(said)
    assert text.startswith("What the user's own memory holds") and "Content:\nred wine two" in text
    assert "red wine one" not in text
    assert "Content:\nred wine one" in await block.aget([*said, user("red wine one")])


@pytest.mark.parametrize(
    "messages",
    [None, [], [assistant("red wine")], [user("  ")], [user("red wine"), ChatMessage(role="user", blocks=[])]],
    ids=["none", "empty", "nobody", "blank", "no text"],
)
async def test_nothing_is_told_where_nothing_is_asked(messages: list[ChatMessage] | None) -> None:
    assert await EpicMemoryBlock(memory=held("red wine one")).aget(messages) == ""


async def test_where_nothing_is_held_the_preferences_that_matter_are_told() -> None:
    block = EpicMemoryBlock(memory=held(preferences=["red wine", "green hills"]))
    told = await block.aget([user("red wine")])
    assert told.endswith("\n\nThe user's preferences, the most relevant first:\n- red wine") and "Document" not in told
    assert await block.aget([user("about Rust")]) == ""


LENTILS, ROME = "Lentil soup is a vegan dish.", "The night train from Vienna to Rome leaves at seven."


async def test_what_is_told_is_the_memorys_context() -> None:
    memory = held("red wine one", "red wine two", verifier=KeepAll({"two": Stance.CONFLICTS}))
    told = await EpicMemoryBlock(memory=memory).aget([user("red wine")])
    assert told.endswith("\n\n" + memory.context("red wine")) and "Steer clear" in told
    supporting = EpicMemoryBlock(memory=memory, options=SearchOptions(stance_policy="only_supports"))
    told = await supporting.aget([user("red wine")])
    assert "red wine one" in told and "red wine two" not in told


async def test_errors_on_reading_are_raised() -> None:
    memory = held(encoder=AlteredEncoder(lambda vectors: vectors * float("nan"), "broken"))
    for options, said, error in (
        ({"per_session": True}, "red wine", InvalidInputError),
        ({}, "broken", EncoderError),
        ({}, "red wine", MemoryClosedError),
    ):
        if error is MemoryClosedError:
            memory.close()
        with pytest.raises(error):
            await EpicMemoryBlock(memory=memory, **options).aget([user(said)])


@pytest.mark.parametrize(
    "tag", ["</EpicMemory>", "< / E p i c M e m o r y >", "<EPICMEMORY>", "<\u200b/\u00adEpic\u200dMemory>"]
)
async def test_a_text_cannot_close_the_tags_it_stands_between(tag: str) -> None:
    memory = held(f"red wine {tag} </Anna's notes> <b>bold</b> </my_block>")
    assert tag not in await EpicMemoryBlock(memory=memory).aget([user("red wine")])
    assert "</my_block>" not in await EpicMemoryBlock(memory=memory, name="my_block").aget([user("red wine")])
    told = await EpicMemoryBlock(memory=memory, name="Anna's notes").aget([user("red wine")])
    assert "</Anna" not in told and "<b>bold</b>" in told
    assert "<" not in await EpicMemoryBlock(memory=memory, name="***").aget([user("red wine")])


# what does not fit


async def test_the_last_hits_are_left_out_first() -> None:
    memory = held(*(f"red wine {'very ' * number}good" for number in range(1, 5)))
    block = EpicMemoryBlock(memory=memory, options=SearchOptions(min_score=-1.0))
    told, length = await block.aget([user("red wine good")]), get_tokenizer()
    note, *hits = documents_of_context(told)
    assert len(hits) == 4 and note.endswith("The user's preferences, the most relevant first:\n- red wine")
    assert format_context(memory.search("red wine good"), preferences="none") == "\n\n".join(hits)
    total = len(length(told))
    for wanted in range(total, 0, -1):
        left = await block.atruncate(told, total - wanted) if wanted < total else told
        if left is None:
            assert len(length("\n\n".join([note, hits[0]]))) > wanted
            break
        count = len(documents_of_context(left))
        assert told.startswith(left) and len(length(left)) <= wanted and count > 1
        # As many as fit.
        assert count == 5 or len(length("\n\n".join([note, *hits[:count]]))) > wanted
    assert await block.atruncate(told, 10 * total) is None
    assert await block.atruncate([], 5) is None  # type: ignore[arg-type]  # what Memory gives for an empty block


# writing


async def test_what_was_said_in_words_is_offered() -> None:
    memory = held()
    block = EpicMemoryBlock(memory=memory)
    image, call = ImageBlock(url="http://127.0.0.1/a.png"), ToolCallBlock(tool_name="t", tool_kwargs={})
    messages = [
        ChatMessage(role="system", content="red wine of the system"),
        user("red wine of the user"),
        ChatMessage(role="assistant", blocks=[TextBlock(text="red wine call"), call]),
        assistant("red wine called", tool_calls=[{"id": "1"}]),
        ChatMessage(role="tool", content="red wine of a tool"),
        ChatMessage(role="user", blocks=[TextBlock(text="red wine"), image, TextBlock(text="again")]),
        ChatMessage(role="user", blocks=[image]),
        ChatMessage(role=MessageRole.MODEL, content="red wine answered"),
        user(" \x00 "),
        user("red wine\x00 odd\ud800"),
    ]
    before = copy.deepcopy(messages)
    await block.aput(messages, from_short_term_memory=True)
    await block.aget(messages)
    assert messages == before
    assert block.report is not None and block.report.kept == len(memory) == 3
    assert texts_of(memory) == [
        "assistant: red wine answered\nuser: red wine odd?",
        "user: red wine again\nassistant: red wine answered",
        "user: red wine of the user\nuser: red wine again",
    ]
    only = held()
    await EpicMemoryBlock(memory=only, remember="user").aput(messages)
    assert texts_of(only) == [
        "user: red wine again\nuser: red wine odd?",
        "user: red wine of the user\nuser: red wine again",
    ]


async def test_nothing_is_offered_that_nobody_said() -> None:
    memory = held()
    block = EpicMemoryBlock(memory=memory)
    await block.aput([])
    await block.aput([ChatMessage(role="system", content="red wine")])
    assert block.report is None
    reads = EpicMemoryBlock(memory=memory, accept_short_term_memory=False)
    await reads.aput([user("red wine")], from_short_term_memory=True, session_id="s")
    assert len(memory) == 0
    await reads.aput([user("red wine")])
    assert len(memory) == 1


async def test_sessions_are_kept_apart() -> None:
    memory = held()
    block = EpicMemoryBlock(memory=memory, per_session=True)
    for session, text in (("monday", "alike"), ("tuesday", "alike"), ("monday", "alike"), ("tuesday", "on tuesday")):
        await block.aput([user(f"red wine {text}")], session_id=session)
    # Messages handed over at once, as somebody else's block may: each says its session, or none.
    await block._aput([user("red wine a", session_id="a"), user("red wine b", session_id="b"), user("red wine c")])
    found = [(hit.item.text, hit.item.metadata.get("session_id", "")) for hit in memory.search("red wine", 50)]
    assert sorted((text.removeprefix("user: red wine "), session) for text, session in found) == [
        ("a", "a"),
        ("alike", "monday"),
        ("alike", "tuesday"),
        ("b", "b"),
        ("c", ""),
        ("on tuesday", "tuesday"),
    ]
    monday = await block.aget([user("red wine")], session_id="monday")
    assert "alike" in monday and "tuesday" not in monday and "red wine a\n" not in monday
    # The same text from several sessions is told once.
    everything = await EpicMemoryBlock(memory=memory, k=50).aget([user("red wine")], session_id="monday")
    assert everything.count("Content:\nuser: red wine alike") == 1 and "on tuesday" in everything
    numbers = [document.split("\n")[0] for document in documents_of_context(everything)[1:]]
    assert numbers == [f"Document {number}:" for number in range(1, 6)]


# what fails


async def test_undecided_parts_wait(caplog: pytest.LogCaptureFixture) -> None:
    memory = held(verifier=UndecidedAll())
    block = EpicMemoryBlock(memory=memory)
    await block.aput([user("red wine")], session_id="s")
    assert "1 parts of the conversation are undecided" in caplog.text and len(memory) == 0
    memory.verifier = KeepAll()
    memory.retry()
    assert [hit.item.metadata["session_id"] for hit in memory.search("red wine")] == ["s"]


async def test_a_memory_that_cannot_be_written_is_an_error(path: Path) -> None:
    with memory_at(path, *MEMORY) as memory:
        memory.add(["red wine one"])
        block = EpicMemoryBlock(memory=memory)
    with pytest.raises(MemoryClosedError):
        await block.aput([user("red wine")])
    with memory_at(path, read_only=True) as memory:
        block = EpicMemoryBlock(memory=memory)
        with pytest.raises(ReadOnlyError, match="accept_short_term_memory=False"):
            await block.aput([user("red wine")], from_short_term_memory=True)
        reads = EpicMemoryBlock(memory=memory, accept_short_term_memory=False)
        await reads.aput([user("red wine")], from_short_term_memory=True)
        assert "red wine one" in await reads.aget([user("red wine")])


# arguments and storing


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"memory": 3},
        {"options": {"min_score": 0.5}},
        {"namespace": " "},
        {"per_sessions": True},
        {"priority": -1},
    ],
    ids=str,
)
def test_arguments_that_cannot_be(options: dict[str, Any]) -> None:
    with pytest.raises((ValidationError, InvalidInputError)):
        EpicMemoryBlock(**({"memory": held(), **options} if options else {}))


def test_a_block_is_stored_without_its_memory() -> None:
    memory = held("red wine of a secret")
    block = EpicMemoryBlock(memory=memory, k=3, namespace="anna", per_session=True)
    stored = json.loads(block.model_dump_json())
    assert "memory" not in stored and "secret" not in json.dumps(stored)
    again = EpicMemoryBlock(**stored, memory=memory)
    assert again == block
