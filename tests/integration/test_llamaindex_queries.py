"""Both retrievers inside the components of llama-index-core that answer, fuse, route and merge."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import pytest

from epic_memory import Settings

pytest.importorskip("llama_index.core", reason="needs the extra llamaindex")

from llama_index.core import VectorStoreIndex
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.retrievers import RecursiveRetriever
from llama_index.core.schema import IndexNode, MetadataMode, NodeWithScore, TextNode

from epic_llamaindex import EpicEmbedding, EpicRetriever, SteeredRetriever
from epic_memory import EpicMemory
from llamaindex_models import ScriptedLLM

AVOIDS = "I avoid hotels with casinos."
VEGAN = "I follow a strict vegan diet."
PREFERENCES = [VEGAN, AVOIDS]
NODES = [
    TextNode(id_="stew", text="A vegan stew for a strict vegan diet.", metadata={"kind": "food"}),
    TextNode(id_="curry", text="A vegan curry, good for any vegan diet.", metadata={"kind": "food"}),
    TextNode(id_="casino", text="The hotels of the strip have casinos.", metadata={"kind": "hotel"}),
    TextNode(id_="hotel", text="Quiet hotels without casinos in the old town.", metadata={"kind": "hotel"}),
    TextNode(id_="poker", text="Hotels with casinos hold poker nights.", metadata={"kind": "hotel"}),
]
QUERY = "Where should I stay, are there hotels with casinos?"


@pytest.fixture(scope="module")
def memory() -> EpicMemory:
    memory = EpicMemory(PREFERENCES, settings=Settings(tau=0.0))
    EpicRetriever(memory).add_nodes(NODES)
    return memory


@pytest.fixture(scope="module")
def index() -> VectorStoreIndex:
    return VectorStoreIndex(copy.deepcopy(NODES), embed_model=EpicEmbedding())


@pytest.fixture(params=["memory", "steered"])
def retriever(request: pytest.FixtureRequest, memory: EpicMemory, index: VectorStoreIndex) -> BaseRetriever:
    """Either of ours, three nodes each."""
    if request.param == "memory":
        return EpicRetriever(memory, similarity_top_k=3)
    return SteeredRetriever(index.as_retriever(similarity_top_k=3), PREFERENCES)


def ids(nodes: Sequence[NodeWithScore]) -> list[str]:
    return [node.node_id for node in nodes]


# answering


async def test_a_query_engine_shows_its_model_the_nodes(retriever: BaseRetriever) -> None:
    llm = ScriptedLLM(answers=["The old town."])
    engine = RetrieverQueryEngine.from_args(retriever, llm=llm)
    response, again = engine.query(QUERY), await engine.aquery(QUERY)
    assert str(response) == str(again) == "The old town."
    assert response.source_nodes == again.source_nodes == retriever.retrieve(QUERY)
    first, second = llm.prompts
    assert first == second and QUERY in first and "epic_" not in first
    assert all(node.get_content(metadata_mode=MetadataMode.LLM) in first for node in response.source_nodes)


async def test_with_guidance_as_text_its_model_sees_the_guidance(memory: EpicMemory) -> None:
    llm = ScriptedLLM(answers=["The old town."])
    retriever = EpicRetriever(memory, similarity_top_k=3, guidance="text")
    RetrieverQueryEngine.from_args(retriever, llm=llm).query(QUERY)
    (prompt,) = llm.prompts
    for hit in memory.search(QUERY, 3):
        assert hit.instructions and all(instruction in prompt for instruction in hit.instructions)
    assert prompt.count("Interpretation Guidance:") == 3


# routing and merging


async def test_it_can_be_what_a_node_leads_to(retriever: BaseRetriever) -> None:
    lead = IndexNode(text="What the user keeps about hotels", index_id="notes", obj=retriever)
    outer = VectorStoreIndex(objects=[lead], embed_model=EpicEmbedding()).as_retriever(similarity_top_k=1)
    found = outer.retrieve(QUERY)
    assert ids(found) == ids(await outer.aretrieve(QUERY)) and len(found) == 3
    # The outer retriever hands down the embedding it has made of the query.
    assert ids(found) == ids(retriever.retrieve(QUERY))
    recursive = RecursiveRetriever("notes", {"notes": retriever})
    assert recursive.retrieve(QUERY) == retriever.retrieve(QUERY)


# seen from outside


# at once
