"""`EpicMemoryBlock` in LlamaIndex's `Memory`: what leaves the buffer is remembered, and told where it is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

pytest.importorskip("llama_index.core", reason="needs the extra llamaindex")

from llama_index.core.agent.workflow import ReActAgent
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.memory import BaseMemoryBlock, InsertMethod, Memory, StaticMemoryBlock
from pydantic import Field

from epic_llamaindex.memory_block import EpicMemoryBlock
from epic_memory import EpicMemory
from llamaindex_models import ScriptedLLM

# The framework's synchronous calls end their event loop while the thread of its database still answers.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")

VEGAN = "I follow a strict vegan diet."
STEW = "On Sunday I cooked a vegan lentil stew with carrots, and liked it."
WORK = "The meeting about the steam engine is at four."
ELSE = "And what else is there to do today, and tomorrow?"


def remembering(memory: EpicMemory, **options: Any) -> Memory:
    """A chat's memory whose buffer is full after a few turns; what is told has room."""
    given = {"session_id": "s", "token_limit": 2000, "chat_history_token_ratio": 0.02, "token_flush_size": 20}
    options = {**given, **options}
    blocks = options.pop("blocks", None) or [EpicMemoryBlock(memory=memory)]
    return Memory.from_defaults(memory_blocks=blocks, **options)


def turn(said: str, answer: str = "I see.") -> list[ChatMessage]:
    return [ChatMessage(role="user", content=said), ChatMessage(role="assistant", content=answer)]


async def say(memory: Memory, *said: str, run: str = "async") -> None:
    for message in (message for text in said for message in turn(text)):
        memory.put(message) if run == "sync" else await memory.aput(message)


async def got(memory: Memory, run: str, **options: Any) -> list[ChatMessage]:
    return memory.get(**options) if run == "sync" else await memory.aget(**options)


def whole(messages: Sequence[ChatMessage]) -> str:
    return "\n".join(f"{message.role.value}: {message.content}" for message in messages)


@pytest.mark.parametrize("run", ["sync", "async"])
@pytest.mark.parametrize("method", list(InsertMethod), ids=str)
async def test_what_leaves_the_buffer_is_remembered_and_told(run: str, method: InsertMethod) -> None:
    memory = EpicMemory([VEGAN])
    chat = remembering(memory, insert_method=method)
    await say(chat, STEW, WORK, ELSE, "Nothing more for now.", run=run)
    kept = [hit.item for hit in memory.search("dinner", 9)]
    assert len(kept) == 1 and STEW in kept[0].text and kept[0].metadata["session_id"] == "s"
    history = await got(chat, run, input="Which vegan dinner did I cook?")
    told = whole(history)
    where = history[0] if method is InsertMethod.SYSTEM else history[-2]
    assert where.role.value == method.value and "<EpicMemory>" in where.content and STEW in where.content  # type: ignore[operator]
    assert told.count("<EpicMemory>") == told.count("</EpicMemory>") == 1
    # Nothing of it stays in the history.
    assert "<EpicMemory>" not in whole(await chat.aget_all())


class Taking(BaseMemoryBlock[str]):
    """Takes the session's id out of the messages that it shares with all other blocks, as the framework's own may."""

    name: str = "Taking"
    taken: list[Any] = Field(default_factory=list)

    async def _aget(self, messages: list[ChatMessage] | None = None, **block_kwargs: Any) -> str:
        return ""

    async def _aput(self, messages: list[ChatMessage]) -> None:
        self.taken += [message.additional_kwargs.pop("session_id", None) for message in messages]


@pytest.mark.parametrize("first", [True, False], ids=["first", "last"])
async def test_other_blocks_beside_it(first: bool) -> None:
    memory, taking = EpicMemory([VEGAN]), Taking()
    blocks = [EpicMemoryBlock(memory=memory), taking] if first else [taking, EpicMemoryBlock(memory=memory)]
    chat = remembering(memory, blocks=[*blocks, StaticMemoryBlock(static_content="Be kind.")])
    await say(chat, STEW, WORK, ELSE)
    told = whole(await chat.aget(input="Which vegan dinner did I cook?"))
    assert "Be kind." in told and STEW in told.partition("<EpicMemory>")[2]
    assert {hit.item.metadata["session_id"] for hit in memory.search("dinner", 9)} == set(taking.taken) == {"s"}


async def test_an_agent_is_told() -> None:
    llm, memory = ScriptedLLM(answers=["Thought: I can answer.\nAnswer: A stew."]), EpicMemory([VEGAN])
    # This agent puts a prompt of its own into the place of the system message.
    chat = remembering(memory, insert_method=InsertMethod.USER)
    agent = ReActAgent(llm=llm, tools=[], streaming=False)
    for said in (STEW, WORK, ELSE, "Which vegan dinner did I cook?"):
        answer = await agent.run(said, memory=chat)
    assert str(answer) == "A stew."
    assert STEW in llm.prompts[-1].partition("<EpicMemory>")[2].partition("</EpicMemory>")[0]
