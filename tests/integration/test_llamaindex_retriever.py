"""The LlamaIndex retriever: nodes with their guidance, the same sync and async."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("llama_index.core", reason="needs the extra llamaindex")

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.schema import MetadataMode, NodeWithScore, QueryBundle

from epic_core import EpicMemory, Filter, Item
from epic_core.errors import InvalidInputError
from epic_llamaindex import EpicRetriever

PREFERENCES = ["I follow a strict vegan diet.", "I avoid hotels with casinos."]
ITEMS = [
    Item(id="stew", text="A vegan stew for a strict vegan diet.", metadata={"kind": "food", "year": 2020}),
    Item(id="curry", text="A vegan curry, good for any vegan diet.", metadata={"kind": "food", "year": 2024}),
    Item(id="casino", text="The hotels of the strip have casinos.", metadata={"kind": "hotel", "year": 2024}),
    Item(id="hotel", text="Quiet hotels without casinos in the old town.", metadata={"kind": "hotel", "year": 2019}),
    Item(id="poker", text="Hotels with casinos hold poker nights.", metadata={"kind": "hotel", "year": 2021}),
]
QUERY = "Where should I stay, are there hotels with casinos?"


@pytest.fixture(scope="module")
def memory() -> EpicMemory:
    memory = EpicMemory(PREFERENCES, tau=0.0)
    memory.add(ITEMS)
    assert len(memory) >= 4
    return memory


@pytest.fixture
def retriever(memory: EpicMemory) -> EpicRetriever:
    return EpicRetriever(memory, similarity_top_k=3)


def ids(nodes: list[NodeWithScore]) -> list[str]:
    return [node.node_id for node in nodes]


def test_it_is_a_retriever(retriever: EpicRetriever) -> None:
    assert isinstance(retriever, BaseRetriever)


def test_retrieve_gives_the_memorys_hits_in_order(retriever: EpicRetriever, memory: EpicMemory) -> None:
    nodes, hits = retriever.retrieve(QUERY), memory.search(QUERY, 3)
    assert ids(nodes) == [hit.item.id for hit in hits]
    assert [node.text for node in nodes] == [hit.item.text for hit in hits]
    assert [node.score for node in nodes] == [hit.score for hit in hits]
    assert all(type(node.score) is float for node in nodes)


async def test_sync_and_async_are_the_same(retriever: EpicRetriever) -> None:
    for query in (QUERY, "a vegan stew", QueryBundle(QUERY)):
        assert retriever.retrieve(query) == await retriever.aretrieve(query)


def test_a_query_bundle_is_not_changed(retriever: EpicRetriever) -> None:
    bundle = QueryBundle(query_str=QUERY, embedding=[1.0, 2.0])
    retriever.retrieve(bundle)
    assert bundle == QueryBundle(query_str=QUERY, embedding=[1.0, 2.0])


@pytest.mark.parametrize("k", [1, 2, 4])
async def test_similarity_top_k_is_how_many(memory: EpicMemory, k: int) -> None:
    retriever = EpicRetriever(memory, similarity_top_k=k)
    assert len(retriever.retrieve(QUERY)) == len(await retriever.aretrieve(QUERY)) == k


async def test_a_filter_is_part_of_the_search(memory: EpicMemory) -> None:
    retriever = EpicRetriever(memory, similarity_top_k=2, filter=Filter.eq("kind", "food"))
    for nodes in (retriever.retrieve(QUERY), await retriever.aretrieve(QUERY)):
        assert set(ids(nodes)) == {"stew", "curry"}


def test_nodes_carry_flat_guidance_and_their_own_metadata(retriever: EpicRetriever) -> None:
    node = retriever.retrieve(QUERY)[0]
    own = next(item.metadata for item in ITEMS if item.id == node.node_id)
    assert {key: node.metadata[key] for key in own} == own
    assert node.metadata["epic_preference"] == PREFERENCES[1]
    assert node.metadata["epic_instruction"] and node.metadata["epic_tier"] == "memory"
    assert all(key.startswith("epic_") for key in node.metadata.keys() - own.keys())
    assert all(type(value) in {str, int, float} for value in node.metadata.values())


@pytest.mark.parametrize("mode", [MetadataMode.EMBED, MetadataMode.LLM])
def test_guidance_is_neither_embedded_nor_shown_by_default(retriever: EpicRetriever, mode: MetadataMode) -> None:
    content = retriever.retrieve(QUERY)[0].get_content(metadata_mode=mode)
    assert "epic_" not in content and "kind: hotel" in content


def test_an_unknown_constructor_argument_is_an_error(memory: EpicMemory) -> None:
    with pytest.raises(TypeError, match="top_k"):
        EpicRetriever(memory, top_k=3)


@pytest.mark.parametrize("query", ["", "  "])
async def test_an_empty_query_is_the_memorys_error(retriever: EpicRetriever, query: str) -> None:
    with pytest.raises(InvalidInputError):
        retriever.retrieve(query)
    with pytest.raises(InvalidInputError):
        await retriever.aretrieve(query)


def test_a_k_below_one_is_the_memorys_error(memory: EpicMemory) -> None:
    with pytest.raises(InvalidInputError, match="k must be"):
        EpicRetriever(memory, similarity_top_k=0).retrieve(QUERY)


def test_hits_of_a_fallback_have_no_guidance() -> None:
    memory = EpicMemory(PREFERENCES, fallback=lambda query, k: ["An engine needs oil."])
    (node,) = EpicRetriever(memory).retrieve("zebra xylophone quantum")
    assert (node.text, node.metadata) == ("An engine needs oil.", {"epic_tier": "fallback"})


def test_items_are_not_changed_by_retrieving(retriever: EpicRetriever, memory: EpicMemory) -> None:
    retriever.retrieve(QUERY)[0].metadata["kind"] = "changed"
    assert memory.search(QUERY)[0].item.metadata["kind"] != "changed"


def test_a_missing_package_names_the_extra() -> None:
    code = "import sys; sys.modules['llama_index'] = sys.modules['llama_index.core'] = None; import epic_llamaindex"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "pip install 'epic-memory[llamaindex]'" in done.stderr.splitlines()[-1]


def test_it_does_not_import_the_other_plugin() -> None:
    code = (
        "import sys, epic_llamaindex; print([m for m in sys.modules if m.startswith(('langchain', 'epic_langchain'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
