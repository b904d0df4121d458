"""Facts of the user in LlamaIndex: nodes of their own, and what is known in a memory block."""

from __future__ import annotations

import pytest

pytest.importorskip("llama_index.core", reason="needs the extra llamaindex")

from llama_index.core.base.llms.types import ChatMessage

from epic_llamaindex import EpicRetriever
from epic_llamaindex.memory_block import EpicMemoryBlock
from epic_memory import EpicMemory
from epic_memory.context import KNOWN

ALLERGY = "I'm allergic to peanuts and shellfish when I eat out."
QUERY = "Where can I eat tonight near Porto?"


@pytest.fixture
def memory() -> EpicMemory:
    made = EpicMemory(["I love restaurants in Porto."])
    names = ("Rosa", "Casa", "Tasca", "Lapa", "Mira", "Foz", "Sol")
    made.add(
        f"Where can I eat near Porto tonight {w}? A restaurant for lunch and dinner is {w} in Porto." for w in names
    )
    made.facts.add(ALLERGY)
    return made


@pytest.mark.parametrize("guidance", ["metadata", "text"])
def test_a_retriever_returns_facts_first_besides_k_nodes(memory: EpicMemory, guidance: str) -> None:
    found = EpicRetriever(memory, similarity_top_k=2, guidance=guidance).retrieve(QUERY)
    assert [each.node.metadata["epic_tier"] == "fact" for each in found] == [True, False, False]
    assert ALLERGY in found[0].node.get_content()


async def test_a_block_says_what_is_known(memory: EpicMemory) -> None:
    told = await EpicMemoryBlock(memory=memory, k=2).aget([ChatMessage(role="user", content=QUERY)])
    assert f"{KNOWN}\n- {ALLERGY}" in told and "Document 1:" in told


async def test_a_block_for_the_users_words_keeps_no_plain_question() -> None:
    memory = EpicMemory(["I love hotels by the sea."])
    block = EpicMemoryBlock(memory=memory, remember="user")
    await block.aput([ChatMessage(role="user", content="Which hotels are by the sea?")], from_short_term_memory=True)
    assert memory.items() == []
