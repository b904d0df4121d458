"""The LlamaIndex retriever: nodes with their guidance, the same sync and async."""

from __future__ import annotations

import copy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("llama_index.core", reason="needs the extra llamaindex")

from llama_index.core import Document, SummaryIndex, VectorStoreIndex
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.schema import (
    IndexNode,
    MetadataMode,
    NodeRelationship,
    NodeWithScore,
    QueryBundle,
    RelatedNodeInfo,
    TextNode,
)
from llama_index.core.storage.docstore import SimpleDocumentStore
from llama_index.core.vector_stores import FilterOperator, MetadataFilter, MetadataFilters

from epic_core import EpicMemory, Filter, Item
from epic_core.encoders import StaticEncoder
from epic_core.errors import (
    EncoderMismatchError,
    InvalidInputError,
    MemoryClosedError,
    StoreError,
    UnknownPreferenceError,
)
from epic_llamaindex import EpicEmbedding, EpicRetriever
from helpers import HashEncoder, KeepAll
from llamaindex_models import ScriptedEmbedding, ScriptedLLM

PREFERENCES = ["I follow a strict vegan diet.", "I avoid hotels with casinos."]
ITEMS = [
    Item(id="stew", text="A vegan stew for a strict vegan diet.", metadata={"kind": "food", "year": 2020}),
    Item(id="curry", text="A vegan curry, good for any vegan diet.", metadata={"kind": "food", "year": 2024}),
    Item(id="casino", text="The hotels of the strip have casinos.", metadata={"kind": "hotel", "year": 2024}),
    Item(id="hotel", text="Quiet hotels without casinos in the old town.", metadata={"kind": "hotel", "year": 2019}),
    Item(id="poker", text="Hotels with casinos hold poker nights.", metadata={"kind": "hotel", "year": 2021}),
]
NODES = [
    TextNode(
        id_=item.id,
        text=item.text,
        metadata=dict(item.metadata),
        relationships={
            NodeRelationship.SOURCE: RelatedNodeInfo(node_id={"food": "menu"}.get(str(item.metadata["kind"]), "guide"))
        },
    )
    for item in ITEMS
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


@pytest.mark.parametrize(
    "filters",
    [
        Filter.eq("kind", "food"),
        MetadataFilters(filters=[MetadataFilter(key="kind", value="food")]),
        MetadataFilters(filters=[MetadataFilter(key="ref_doc_id", value="menu")]),
        MetadataFilters(filters=[MetadataFilter(key="doc_id", operator=FilterOperator.IN, value=["menu", "other"])]),
    ],
    ids=["core", "metadata", "source", "sources"],
)
async def test_filters_are_part_of_the_search(filters: Any) -> None:
    retriever = EpicRetriever.from_defaults(
        preferences=PREFERENCES, nodes=NODES, tau=0.0, similarity_top_k=2, filters=filters
    )
    for nodes in (retriever.retrieve(QUERY), await retriever.aretrieve(QUERY)):
        assert set(ids(nodes)) == {"stew", "curry"}


@pytest.mark.parametrize(
    "options",
    [{"preferences": PREFERENCES[:1]}, {"preferences": PREFERENCES[1]}, {"steering": "off"}, {"namespace": "bob"}],
    ids=["preferences", "one preference", "steering", "namespace"],
)
async def test_options_are_the_searchs(memory: EpicMemory, options: dict[str, Any]) -> None:
    retriever = EpicRetriever(memory, **options)
    wanted = [(hit.item.id, hit.score) for hit in memory.search(QUERY, 5, **options)]
    for nodes in (retriever.retrieve(QUERY), await retriever.aretrieve(QUERY)):
        assert [(node.node_id, node.score) for node in nodes] == wanted


def test_preferences_are_those_of_every_call(memory: EpicMemory) -> None:
    retriever = EpicRetriever(memory, preferences=iter(PREFERENCES[:1]))
    assert retriever.retrieve(QUERY) == retriever.retrieve(QUERY) != EpicRetriever(memory).retrieve(QUERY)
    with pytest.raises(UnknownPreferenceError):
        EpicRetriever(memory, preferences=["I collect stamps."]).retrieve(QUERY)


def test_how_many_can_be_changed(retriever: EpicRetriever) -> None:
    assert retriever.similarity_top_k == 3
    retriever.similarity_top_k = 1
    assert len(retriever.retrieve(QUERY)) == retriever.similarity_top_k == 1
    with pytest.raises(InvalidInputError, match="k must be"):
        retriever.similarity_top_k = 0


def test_nodes_carry_flat_guidance_and_their_own_metadata(retriever: EpicRetriever) -> None:
    node = retriever.retrieve(QUERY)[0]
    own = next(item.metadata for item in ITEMS if item.id == node.node_id)
    assert {key: node.metadata[key] for key in own} == own
    assert node.metadata["epic_preference"] == PREFERENCES[1]
    assert node.metadata["epic_instruction"] and node.metadata["epic_tier"] == "memory"
    assert all(key.startswith("epic_") for key in node.metadata.keys() - own.keys())
    assert all(type(value) in {str, int, float} for value in node.metadata.values())


def test_with_text_a_node_is_what_a_model_is_given(memory: EpicMemory) -> None:
    nodes = EpicRetriever(memory, guidance="text").retrieve(QUERY)
    assert "\n\n".join(node.text for node in nodes) == memory.context(QUERY)
    assert [node.metadata for node in nodes] == [node.metadata for node in EpicRetriever(memory).retrieve(QUERY)]


def test_a_node_is_the_same_whatever_the_query_was() -> None:
    """Fusions of several queries know a node again by its hash."""
    both = ["A vegan hotel.", "Vegan food in hotels without casinos.", "A casino with vegan food."]
    memory = EpicMemory(PREFERENCES, verifier=KeepAll(), tau=-1.0)
    memory.add(both)
    retriever = EpicRetriever(memory)
    queries = ("a vegan stew", "hotels with casinos", "hotel", PREFERENCES[0], PREFERENCES[1])
    hits = [memory.search(query) for query in queries]
    assert len({hit.entries[0].preference for found in hits for hit in found}) == 2
    assert len({node.node.hash for query in queries for node in retriever.retrieve(query)}) == len(both)


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
        EpicRetriever(memory, similarity_top_k=0)


async def test_no_bundle_is_an_error(retriever: Any) -> None:
    with pytest.raises(InvalidInputError, match="not NoneType"):
        retriever._retrieve(None)
    with pytest.raises(InvalidInputError, match="not NoneType"):
        await retriever._aretrieve(None)
    with pytest.raises(ValueError, match="str_or_query_bundle"):
        retriever.retrieve(None)


async def test_an_embedding_in_a_bundle_is_not_used(retriever: EpicRetriever) -> None:
    """A VectorIndexRetriever writes its own, of another model, into the bundle it was given."""
    bundle = QueryBundle(QUERY)
    VectorStoreIndex(copy.deepcopy(NODES), embed_model=ScriptedEmbedding()).as_retriever().retrieve(bundle)
    assert len(bundle.embedding or ()) == 96
    assert retriever.retrieve(bundle) == await retriever.aretrieve(bundle) == retriever.retrieve(QUERY)


def test_hits_of_a_fallback_have_no_guidance() -> None:
    memory = EpicMemory(PREFERENCES, fallback=lambda query, k: ["An engine needs oil."])
    (node,) = EpicRetriever(memory).retrieve("zebra xylophone quantum")
    assert (node.text, node.metadata) == ("An engine needs oil.", {"epic_tier": "fallback"})


def test_items_are_not_changed_by_retrieving(retriever: EpicRetriever, memory: EpicMemory) -> None:
    retriever.retrieve(QUERY)[0].metadata["kind"] = "changed"
    assert memory.search(QUERY)[0].item.metadata["kind"] != "changed"


# adding


async def test_nodes_that_are_added_come_out_with_their_ids_metadata_and_sources() -> None:
    nodes = copy.deepcopy(NODES)
    made = [EpicRetriever(EpicMemory(PREFERENCES, tau=0.0)) for _ in range(2)]
    for retriever, report in ((made[0], made[0].add_nodes(iter(nodes))), (made[1], await made[1].aadd_nodes(nodes))):
        assert report.seen == len(NODES)
        for found in retriever.retrieve(QUERY):
            own = next(node for node in NODES if node.node_id == found.node_id)
            assert (found.text, found.node.ref_doc_id) == (own.text, own.ref_doc_id)
            assert {key: value for key, value in found.metadata.items() if not key.startswith("epic_")} == own.metadata
    assert nodes == NODES
    assert made[0].retrieve(QUERY) == await made[1].aretrieve(QUERY)


def test_what_comes_out_can_go_in_again(retriever: EpicRetriever) -> None:
    other = EpicRetriever(EpicMemory(PREFERENCES, tau=0.0))
    found = retriever.retrieve(QUERY)
    other.add_nodes([node.node for node in found])
    again = {node.node_id: node for node in other.retrieve(QUERY)}
    assert {node.node_id: node.metadata for node in found} == {key: again[key].metadata for key in again}


@pytest.mark.parametrize("nodes", ["text", NODES[0], [ITEMS[0]], [NODES[0], TextNode(text=" ")], None, [None]])
async def test_what_is_no_node_is_an_error_and_nothing_is_taken_in(nodes: Any) -> None:
    retriever = EpicRetriever(EpicMemory(PREFERENCES, tau=0.0))
    with pytest.raises(InvalidInputError):
        retriever.add_nodes(nodes)
    with pytest.raises(InvalidInputError):
        await retriever.aadd_nodes(nodes)
    assert len(retriever.memory) == 0


# memories and files


def test_a_file_is_opened_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "me.epic"
    with EpicMemory.open(path, PREFERENCES, tau=0.0) as memory:
        memory.add(ITEMS)
        wanted = EpicRetriever(memory).retrieve(QUERY)
    for name in (path, str(path)):
        for model in (None, EpicEmbedding(), StaticEncoder()):
            retriever = EpicRetriever(name, embed_model=model)
            assert retriever.retrieve(QUERY) == wanted
            retriever.memory.close()
    with pytest.raises(EncoderMismatchError):
        EpicRetriever(path, embed_model=ScriptedEmbedding())
    with pytest.raises(StoreError):
        EpicRetriever(tmp_path / "none.epic")
    assert [file.name for file in tmp_path.iterdir()] == ["me.epic"]


def test_an_open_memory_has_a_model_of_its_own(memory: EpicMemory) -> None:
    EpicRetriever(memory, embed_model=EpicEmbedding())
    with pytest.raises(InvalidInputError, match="leave out embed_model="):
        EpicRetriever(memory, embed_model=EpicEmbedding(HashEncoder()))


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"memory": 7}, "memory is an EpicMemory or the name"),
        ({"guidance": "both"}, "guidance"),
        ({"similarity_top_k": True}, "k must be"),
        ({"filters": {"kind": "food"}}, "filters"),
        ({"steering": "sideways"}, "paper"),
        ({"namespace": " "}, "namespace"),
        ({"preferences": 7}, "preferences"),
    ],
)
def test_an_argument_that_cannot_be_is_an_error(memory: EpicMemory, options: dict[str, Any], what: str) -> None:
    with pytest.raises(InvalidInputError, match=what):
        EpicRetriever(**{"memory": memory, **options})


# from_defaults


def docstore() -> SimpleDocumentStore:
    store = SimpleDocumentStore()
    store.add_documents(copy.deepcopy(NODES))
    return store


SOURCES: dict[str, Any] = {
    "nodes": lambda: {"nodes": NODES},
    "documents": lambda: {"nodes": [Document(id_=item.id, text=item.text) for item in ITEMS]},
    "texts": lambda: {"texts": [item.text for item in ITEMS]},
    "docstore": lambda: {"docstore": docstore()},
    "index": lambda: {"index": SummaryIndex(copy.deepcopy(NODES))},
}


@pytest.mark.parametrize("source", SOURCES)
async def test_from_defaults_makes_a_memory_of_one_source(source: str) -> None:
    retriever = EpicRetriever.from_defaults(
        preferences=PREFERENCES, similarity_top_k=3, tau=0.0, guidance="text", **SOURCES[source]()
    )
    found = retriever.retrieve(QUERY)
    assert found == await retriever.aretrieve(QUERY)
    assert len(found) == 3
    assert all(node.text.startswith(f"Document {number}:") for number, node in enumerate(found, start=1))
    assert {node.node_id for node in found} <= {item.id for item in ITEMS} or source == "texts"


def test_from_defaults_asks_the_models_it_is_given(tmp_path: Path) -> None:
    model, llm = ScriptedEmbedding(), ScriptedLLM(answers=["no answer"])
    retriever = EpicRetriever.from_defaults(
        preferences=PREFERENCES, nodes=NODES, embed_model=model, llm=llm, tau=-1.0, path=tmp_path / "me.epic"
    )
    assert model.documents
    assert any(NODES[0].text in prompt for prompt in llm.prompts)
    assert len(retriever.memory) == 0
    retriever.memory.close()
    again = EpicRetriever.from_defaults(path=tmp_path / "me.epic", embed_model=model, llm=KeepAll())
    again.memory.retry()
    assert len(again.retrieve(QUERY)) == 5
    again.memory.close()


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"nodes": NODES, "texts": ["a"]}, "one of nodes, texts, docstore and index"),
        ({"docstore": SimpleDocumentStore()}, "holds no nodes"),
        ({"encoder": HashEncoder()}, "Give embed_model="),
        ({"verifier": KeepAll()}, "Give embed_model= and llm="),
        ({"nodes": ["text"]}, "Expected nodes"),
        ({"similarity_top_k": 0}, "k must be"),
        ({"tau": 2.0}, "tau"),
    ],
    ids=["two sources", "empty docstore", "encoder", "verifier", "no nodes", "k", "tau"],
)
def test_from_defaults_refuses_what_cannot_be_and_leaves_nothing_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], what: str
) -> None:
    path = tmp_path / "me.epic"
    opened: list[EpicMemory] = []
    original = EpicMemory.open

    def opening(*args: Any, **kwargs: Any) -> EpicMemory:
        opened.append(original(*args, **kwargs))
        return opened[-1]

    monkeypatch.setattr(EpicMemory, "open", opening)
    with pytest.raises(InvalidInputError, match=what):
        EpicRetriever.from_defaults(preferences=PREFERENCES, path=path, **options)
    for memory in opened:
        with pytest.raises(MemoryClosedError):
            memory.search(QUERY)
    assert len(opened) == (what == "k must be")


# objects


async def test_an_item_can_lead_to_something_else(memory: EpicMemory) -> None:
    menus = EpicRetriever.from_defaults(preferences=PREFERENCES, texts=["The vegan menu of a hotel."], tau=-1.0)
    lead = IndexNode(id_="casino", text="The hotels of the strip have casinos.", index_id="menus", obj=menus)
    for options in ({"object_map": {"casino": menus}}, {"objects": [lead]}):
        retriever = EpicRetriever(memory, similarity_top_k=4, **options)  # type: ignore[arg-type]
        found = retriever.retrieve(QUERY)
        assert found == await retriever.aretrieve(QUERY)
        plain = EpicRetriever(memory, similarity_top_k=4).retrieve(QUERY)
        assert "casino" in ids(plain)
        (menu,) = menus.retrieve(QUERY)
        assert ids(found) == [menu.node_id if node_id == "casino" else node_id for node_id in ids(plain)]


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
