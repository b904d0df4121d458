"""Chat engines over a memory: they answer also where it holds nothing on a message."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("llama_index.core", reason="needs the extra llamaindex")

from llama_index.core.base.llms.types import MessageRole
from llama_index.core.chat_engine.types import BaseChatEngine, ChatMode

from epic_llamaindex import EpicGraphRetriever, EpicRetriever
from epic_memory import EpicMemory
from epic_memory.errors import InvalidInputError
from llamaindex_models import ScriptedLLM

# LlamaIndex keeps the history by aiosqlite, whose thread may outlive the loop of a synchronous call.
pytestmark = pytest.mark.filterwarnings("ignore:(?s).*aiosqlite:pytest.PytestUnhandledThreadExceptionWarning")

MODES = ["context", ChatMode.CONDENSE_PLUS_CONTEXT]
GREETING = 'Hello there! {"a": {query_str}}'
QUESTION = "Which hotel should I book?"
ANSWER = "Good {morning} to you"


@pytest.fixture
def memory() -> EpicMemory:
    memory = EpicMemory(["I avoid hotels with casinos."])
    memory.add(["The Bellmore is a quiet hotel without a casino.", "The Golden Ace is a hotel with a casino floor."])
    return memory


def scripted() -> ScriptedLLM:
    # What condenses a conversation is a prompt for a question alone.
    return ScriptedLLM(answers=lambda messages: QUESTION if "Standalone" in messages[-1].content else ANSWER)


async def answer(engine: BaseChatEngine, way: str, message: str) -> str:
    if way == "chat":
        return str(engine.chat(message))
    if way == "achat":
        return str(await engine.achat(message))
    if way == "stream_chat":
        return "".join(engine.stream_chat(message).response_gen)
    return "".join([token async for token in (await engine.astream_chat(message)).async_response_gen()])


@pytest.mark.parametrize("way", ["chat", "achat", "stream_chat", "astream_chat"])
@pytest.mark.parametrize("mode", MODES)
async def test_a_greeting_is_answered_by_the_model_without_context(memory: EpicMemory, mode: Any, way: str) -> None:
    llm = scripted()
    engine = EpicRetriever(memory).as_chat_engine(llm=llm, chat_mode=mode, system_prompt="Be kind.")
    assert (await answer(engine, way, GREETING)).strip() == ANSWER
    told = [(message.role, message.content) for message in llm.seen[-1]]
    assert told == [(MessageRole.SYSTEM, "Be kind."), (MessageRole.USER, GREETING)]


@pytest.mark.parametrize("kind", [EpicRetriever, EpicGraphRetriever])
@pytest.mark.parametrize("mode", MODES)
def test_a_conversation_goes_on_with_and_without_context(memory: EpicMemory, mode: Any, kind: Any) -> None:
    llm = scripted()
    engine = kind(memory).as_chat_engine(llm=llm, chat_mode=mode)
    assert not engine.chat("Hello there!").source_nodes
    assert len(engine.chat(QUESTION).source_nodes) == 2
    assert "Hello there!" in llm.prompts[-1]
    # The model gets the guidance, though the retriever's own documents have it in their metadata.
    assert "I avoid hotels with casinos." in llm.prompts[-1] and "Steer clear" in llm.prompts[-1]
    assert [message.content for message in engine.chat_history] == ["Hello there!", ANSWER, QUESTION, ANSWER]


def test_the_retriever_stays_as_it_is(memory: EpicMemory) -> None:
    retriever = EpicRetriever(memory)
    before = [one.node.get_content() for one in retriever.retrieve(QUESTION)]
    retriever.as_chat_engine(llm=scripted()).chat(QUESTION)
    assert [one.node.get_content() for one in retriever.retrieve(QUESTION)] == before


def test_wrong_arguments_are_named(memory: EpicMemory) -> None:
    retriever: Any = EpicRetriever(memory)
    with pytest.raises(InvalidInputError, match="'context' or 'condense_plus_context', not 'react'"):
        retriever.as_chat_engine(llm=scripted(), chat_mode="react")
    with pytest.raises(InvalidInputError, match="llm must be an LLM of LlamaIndex, not str"):
        retriever.as_chat_engine(llm="gpt")
