"""What the user says, proposed by a memory block, and the tools of a LlamaIndex agent."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from epic_memory import Settings

pytest.importorskip("llama_index.core", reason="needs the extra llamaindex")

from llama_index.core.agent.workflow import ReActAgent
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.memory import Memory
from pydantic import ValidationError

from epic_learn.memory_proposals import MemoryProposals
from epic_llamaindex import EpicMemoryBlock, epic_tools
from epic_memory import EpicMemory
from epic_memory.errors import InvalidInputError, ReadOnlyError
from llamaindex_models import ScriptedLLM

SAID = "I'm allergic to peanuts, and we moved to Porto. What should I cook tonight?"


def turn(said: str, answer: str = "I love rice, and so do you.") -> list[ChatMessage]:
    return [ChatMessage(role="user", content=said), ChatMessage(role="assistant", content=answer)]


# the block


@pytest.mark.parametrize("remember", ["both", "user"])
async def test_flushed_messages_of_the_user_are_proposed(remember: Any) -> None:
    memory = EpicMemory()
    block = EpicMemoryBlock(memory=memory, propose=True, remember=remember)
    await block.aput(turn(SAID), session_id="s")
    assert [proposal.text for proposal in memory.proposals] == ["I'm allergic to peanuts", "We moved to Porto"]
    assert memory.preferences == [] and memory.facts == []
    await block.aput(turn(SAID), session_id="t")
    assert len(memory.proposals) == 2


async def test_auto_accepts_what_is_said_plainly() -> None:
    memory = EpicMemory()
    await EpicMemoryBlock(memory=memory, propose="auto").aput(turn(SAID))
    assert [each.text for each in memory.preferences] == ["I'm allergic to peanuts"]
    assert [proposal.text for proposal in memory.proposals] == ["We moved to Porto"]


async def test_a_chat_proposes_what_leaves_its_buffer(tmp_path: Path) -> None:
    with EpicMemory.open(tmp_path / "me.epic", []) as memory:
        block = EpicMemoryBlock(memory=memory, propose=True)
        chat = Memory.from_defaults(
            session_id="s",
            token_limit=400,
            chat_history_token_ratio=0.05,
            token_flush_size=20,
            memory_blocks=[block],
        )
        for message in [*turn(SAID), *turn("And what goes with it?"), *turn("Good night, then, and thank you.")]:
            await chat.aput(message)
    with EpicMemory.open(tmp_path / "me.epic") as memory:
        assert len(memory.proposals) == 2


async def test_a_failure_to_propose_does_not_cost_what_is_remembered(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fails(*_: Any, **__: Any) -> Any:
        raise RuntimeError("down")

    memory = EpicMemory(["I love rice."])
    monkeypatch.setattr(MemoryProposals, "apropose", fails)
    block = EpicMemoryBlock(memory=memory, propose=True)
    with caplog.at_level(logging.WARNING):
        await block.aput(turn("I love rice with beans."))
    assert "down" in caplog.text and block.report is not None and block.report.seen


async def test_a_model_reads_what_no_cue_finds(caplog: pytest.LogCaptureFixture) -> None:
    read = {"kind": "add_fact", "text": "I sleep until noon.", "quote": "I sleep until noon", "turn": 1}
    reader = ScriptedLLM(answers=[json.dumps({"proposals": [read, {**read, "quote": "I love rice"}]}), "No.", "No."])
    memory = EpicMemory(["I love jazz."])
    block = EpicMemoryBlock(memory=memory, propose=True, llm=reader)
    await block.aput(turn("After the shift I sleep until noon. What is for breakfast?"))
    assert [proposal.text for proposal in memory.proposals] == ["I sleep until noon."]
    assert len(reader.seen) == 1 and not caplog.text
    await block.aput(turn(SAID))
    assert len(memory.proposals) == 3 and "Not all that was said was read" in caplog.text


def test_a_model_is_an_argument_of_proposing() -> None:
    EpicMemoryBlock(memory=EpicMemory(), propose="auto", llm="ollama:qwen3:4b")
    for wrong in ({"propose": True, "llm": 3}, {"propose": True, "llm": "qwen3"}, {"llm": ScriptedLLM(answers=[])}):
        with pytest.raises((ValidationError, InvalidInputError)):
            EpicMemoryBlock(memory=EpicMemory(), **wrong)  # type: ignore[arg-type]


async def test_a_file_for_reading_says_what_to_do(tmp_path: Path) -> None:
    EpicMemory.open(tmp_path / "me.epic", []).close()
    with (
        EpicMemory.open(tmp_path / "me.epic", settings=Settings(read_only=True)) as memory,
        pytest.raises(ReadOnlyError, match="only reads"),
    ):
        await EpicMemoryBlock(memory=memory, propose=True).aput(turn(SAID))


# the tools


async def test_an_agent_uses_them_and_survives_what_it_does_wrong() -> None:
    memory = EpicMemory(["I love jazz."])
    steps = [
        'Thought: I look it up.\nAction: search_memory\nAction Input: {"limit": "two"}',
        'Thought: I keep it.\nAction: remember\nAction Input: {"text": "We live in Porto."}',
        "Thought: I see.\nAction: list_preferences\nAction Input: {}",
        "Thought: I can answer.\nAnswer: Done.",
    ]
    llm = ScriptedLLM(answers=steps)
    agent = ReActAgent(llm=llm, tools=epic_tools(memory), streaming=False)
    assert str(await agent.run("We live in Porto.")) == "Done."
    assert "Call search_memory again with query, limit." in llm.prompts[1]
    assert '"status": "proposed"' in llm.prompts[2] and "I love jazz." in llm.prompts[3]
    assert [proposal.text for proposal in memory.proposals] == ["We live in Porto."]
