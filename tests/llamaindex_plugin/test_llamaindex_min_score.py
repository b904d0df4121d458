"""The least relevance of nodes: every retriever takes it, and it means the same for each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from epic_memory import SearchOptions

pytest.importorskip("llama_index.core", reason="needs the extra llamaindex")

from llama_index.core import VectorStoreIndex
from llama_index.core.schema import TextNode

from epic_llamaindex import EpicEmbedding, EpicGraphRetriever, EpicRetriever, SteeredRetriever
from epic_memory import EpicMemory
from epic_memory.errors import InvalidInputError

CASINO = "I avoid hotels with casinos."
TEXTS = ["A vegan stew with lentils for dinner.", "The hotel has a casino downstairs.", "James Watt built engines."]
FITTING, SMALL_TALK = "What can I cook without meat?", "hi"


def opened() -> EpicMemory:
    memory = EpicMemory([CASINO])
    memory.add(TEXTS)
    return memory


def steered(min_score: Any) -> SteeredRetriever:
    nodes = [TextNode(text=text) for text in TEXTS]
    leaf = VectorStoreIndex(nodes, embed_model=EpicEmbedding()).as_retriever(similarity_top_k=3)
    return SteeredRetriever(leaf, [CASINO], min_score=min_score)


MAKERS: dict[str, Callable[[Any], Any]] = {
    "retriever": lambda min_score: EpicRetriever(opened(), options=SearchOptions(min_score=min_score)),
    "from defaults": lambda min_score: EpicRetriever.from_defaults(
        preferences=[CASINO], texts=TEXTS, options=SearchOptions(min_score=min_score)
    ),
    "graph retriever": lambda min_score: EpicGraphRetriever(opened(), options=SearchOptions(min_score=min_score)),
    "steered": steered,
}


async def texts(retriever: Any, query: str) -> list[str]:
    found = [one.node.get_content() for one in retriever.retrieve(query)]
    assert [one.node.get_content() for one in await retriever.aretrieve(query)] == found
    return found


@pytest.mark.parametrize("kind", MAKERS)
async def test_the_least_relevance_leaves_out_what_is_further(kind: str) -> None:
    make = MAKERS[kind]
    everything = await texts(make(None), FITTING)
    assert len(everything) > 1
    assert await texts(make("auto"), SMALL_TALK) == []
    assert (await texts(make("auto"), FITTING))[0] == TEXTS[0]
    assert await texts(make(0.3), FITTING) == [TEXTS[0]]
    assert await texts(make(0.99), FITTING) == []
    for wrong in (2, "all", True):
        with pytest.raises(InvalidInputError, match="min_score must be a cosine"):
            make(wrong)


def test_what_is_relevant_by_default() -> None:
    retriever = EpicRetriever(opened())
    assert not retriever.retrieve(SMALL_TALK)
    assert steered(None).retrieve(SMALL_TALK)
