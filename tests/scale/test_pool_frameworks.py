"""A pool as the source of memories for both frameworks: each user's own, for a turn, and never one that is closed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from epic_memory.errors import InvalidInputError
from epic_scale import MemoryPool

QUESTION = "Where should I have dinner?"
PLACES = {"ann": "The Green Room has a vegan tasting menu.", "ben": "The Steak House has the best vegan burger."}


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[MemoryPool]:
    with MemoryPool(tmp_path, encoder="static", max_open=2) as made:
        for user, text in PLACES.items():
            with made.get(user) as memory:
                memory.preferences.add("I am vegan.")
                memory.add([text])
        yield made


def test_one_agent_of_langchain_serves_everybody_whose_turn_it_is(pool: MemoryPool) -> None:
    pytest.importorskip("langchain", reason="needs the extra agents")
    from langchain.agents import create_agent

    from chat_models import ScriptedChat, called
    from epic_langchain.agents import EpicMemoryMiddleware, epic_tools

    model = ScriptedChat(answers=[called("search_memory", query=QUESTION), "Enjoy it."])
    agent = create_agent(model, epic_tools(pool.in_use), middleware=[EpicMemoryMiddleware(pool.in_use, remember=False)])
    # Each turn has the memory opened anew.
    for user in ("ann", "ben", "ann"):
        seen = len(model.seen)
        with pool.get(user):
            ended = agent.invoke({"messages": [("user", QUESTION)]}, context={"namespace": user})
        pool.close_idle(0)
        (found,) = [message.text for message in ended["messages"] if message.type == "tool"]
        other = PLACES["ben" if user == "ann" else "ann"]
        for told in (found, *model.told[seen:]):
            assert PLACES[user] in told and other not in told
    with pytest.raises(InvalidInputError, match="No turn of this user"), pool.get("ann"):
        agent.invoke({"messages": [("user", QUESTION)]}, context={"namespace": "ben"})
    assert pool.health().in_use == 0


async def test_retrievers_of_both_frameworks_are_made_for_a_turn(pool: MemoryPool) -> None:
    pytest.importorskip("langchain_core")
    pytest.importorskip("llama_index.core")
    from epic_langchain import EpicRetriever
    from epic_llamaindex import EpicRetriever as EpicNodeRetriever

    for user, place in PLACES.items():
        with pool.get(user, read_only=True) as memory:
            assert [one.page_content for one in EpicRetriever(memory=memory).invoke(QUESTION)] == [place]
        async with pool.aget(user, read_only=True) as memory:
            found: list[Any] = await EpicNodeRetriever(memory=memory).aretrieve(QUESTION)
            assert [one.node.get_content() for one in found] == [place]


async def test_a_memory_block_and_tools_of_llamaindex_are_made_for_a_turn(pool: MemoryPool) -> None:
    pytest.importorskip("llama_index.core")
    from llama_index.core.base.llms.types import ChatMessage

    from epic_llamaindex import EpicMemoryBlock, epic_tools

    for user, place in PLACES.items():
        async with pool.aget(user) as memory:
            assert place in await EpicMemoryBlock(memory=memory).aget([ChatMessage(QUESTION)])
            search = next(tool for tool in epic_tools(memory) if tool.metadata.name == "search_memory")
            assert place in str(search(query=QUESTION))
