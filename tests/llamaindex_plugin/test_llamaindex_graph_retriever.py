"""`EpicGraphRetriever`: a graph memory as a LlamaIndex retriever."""

from __future__ import annotations

import copy
import json
import logging
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from epic_memory import SearchOptions, Settings
from helpers import settled

pytest.importorskip("llama_index.core", reason="needs the extra llamaindex")

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.schema import Document, MetadataMode, NodeRelationship, QueryBundle, RelatedNodeInfo, TextNode
from llama_index.core.vector_stores import MetadataFilter, MetadataFilters

from epic_graph.extraction import Extraction, PhraseExtractor, Unextracted
from epic_graph.memory import GraphMemory
from epic_llamaindex import EpicRetriever, SteeredRetriever
from epic_llamaindex.graph_retriever import EpicGraphRetriever
from epic_llamaindex.models import EpicEmbedding
from epic_memory import EpicMemory, Item
from epic_memory.errors import InvalidInputError, MemoryClosedError, StoreError
from helpers import KeepAll, both, searching
from llamaindex_models import ScriptedLLM

PREFERENCES = ["I follow a strict vegan diet."]
ITEMS = [
    Item(id="oscar", text="Oscar Lindqvist turns forty on Friday.", metadata={"kind": "diary"}),
    Item(id="nuts", text="Oscar Lindqvist cannot eat hazelnuts.", metadata={"kind": "diary"}),
    Item(id="cake", text="A hazelnut cake needs eggs and butter.", metadata={"kind": "recipe"}),
    Item(id="boat", text="Idris Pell sold the boat to Marta Voss.", metadata={"kind": "diary"}),
    Item(id="marta", text="Marta Voss lives beside the harbour of Sallow Green.", metadata={"kind": "diary"}),
]
QUERY = "What about Oscar Lindqvist?"


def made(**options: Any) -> GraphMemory:
    graph = GraphMemory(PREFERENCES, **settled(**{"verifier": KeepAll(), "tau": -1.0, **options}))
    graph.add(ITEMS)
    return graph


@pytest.fixture(scope="module")
def graph() -> GraphMemory:
    return made()


@pytest.fixture
def retriever(graph: GraphMemory) -> EpicGraphRetriever:
    return EpicGraphRetriever(graph=graph, similarity_top_k=3)


def nodes(names: Sequence[str] = ("oscar", "nuts", "cake", "boat", "marta")) -> list[TextNode]:
    return [
        TextNode(
            id_=item.id,
            text=item.text,
            metadata=dict(item.metadata),
            relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id=str(item.metadata["kind"]))},
        )
        for item in ITEMS
        if item.id in names
    ]


def ids(found: Sequence[Any]) -> list[str]:
    return [one.node_id for one in found]


async def test_it_gives_the_graphs_hits_in_order(retriever: EpicGraphRetriever, graph: GraphMemory) -> None:
    assert isinstance(retriever, BaseRetriever)
    for query in (QUERY, "Who sold the boat?", "xylophone quantum zebra"):
        hits, found = graph.search(query, 3), retriever.retrieve(query)
        assert ids(found) == [hit.item.id for hit in hits]
        assert [one.text for one in found] == [hit.item.text for hit in hits]
        assert [one.score for one in found] == [hit.score for hit in hits]
        assert all(type(one.score) is float for one in found)
        assert await retriever.aretrieve(QueryBundle(query)) == found


def test_it_walks_where_nearness_does_not_go() -> None:
    """The second hop has no word of the question, another passage has one."""
    graph = GraphMemory(PREFERENCES, settings=Settings(verifier=KeepAll(), tau=-1.0, steering="off"))
    graph.add([ITEMS[3], ITEMS[4], Item(id="bread", text="Someone bought bread.")])
    query = "Who bought it from Idris Pell?"
    assert set(ids(EpicGraphRetriever(graph, similarity_top_k=2).retrieve(query))) == {"boat", "marta"}
    assert set(ids(EpicRetriever(graph.memory, similarity_top_k=2).retrieve(query))) == {"boat", "bread"}


@pytest.mark.parametrize(
    ("given", "options"),
    [
        (
            {"filters": MetadataFilters(filters=[MetadataFilter(key="kind", value="recipe")])},
            {"filter": {"kind": "recipe"}},
        ),
        ({"preferences": PREFERENCES}, {"preferences": PREFERENCES}),
        ({"preferences": iter(PREFERENCES)}, {"preferences": PREFERENCES}),
        ({"steering": "off"}, {"steering": "off"}),
        ({"steering": "paper"}, {"steering": "paper"}),
        ({"stance_policy": "only_supports"}, {"stance_policy": "only_supports"}),
    ],
    ids=["filters", "preferences", "an iterator", "off", "paper", "only what supports"],
)
async def test_options_are_the_searchs(graph: GraphMemory, given: dict[str, Any], options: dict[str, Any]) -> None:
    retriever = EpicGraphRetriever(graph, **searching(**given))
    if "filter" in options:
        assert set(ids(retriever.retrieve(QUERY))) == set(ids(await retriever.aretrieve(QUERY))) == {"cake"}
        return
    wanted = [(hit.item.id, hit.score) for hit in graph.search(QUERY, 5, **searching(**options))]
    for _ in range(2):
        for found in (retriever.retrieve(QUERY), await retriever.aretrieve(QUERY)):
            assert [(one.node_id, one.score) for one in found] == wanted


def test_nodes_carry_guidance(graph: GraphMemory) -> None:
    for node in EpicGraphRetriever(graph).retrieve(QUERY):
        assert node.metadata["epic_preference"] == PREFERENCES[0]
        assert "epic_" not in node.node.get_content(MetadataMode.LLM) + node.node.get_content(MetadataMode.EMBED)
        assert "kind: " in node.node.get_content(MetadataMode.LLM)
    texts = [node.text for node in EpicGraphRetriever(graph, guidance="text").retrieve(QUERY)]
    assert "\n\n".join(texts) == graph.context(QUERY, options=SearchOptions(opening="none"))
    for node in EpicGraphRetriever(graph, guidance="none").retrieve(QUERY):
        assert set(node.metadata) == {"kind"}


async def test_made_up_answers_say_what_passages_are_near_to(retriever: EpicGraphRetriever) -> None:
    bundle = QueryBundle(QUERY, custom_embedding_strs=["Hazelnuts are not for him."])
    found = await both(retriever, "retrieve", bundle)
    assert [node.score for node in found] != [node.score for node in retriever.retrieve(QUERY)]


async def test_an_empty_graph_gives_nothing() -> None:
    retriever = EpicGraphRetriever(GraphMemory(PREFERENCES))
    assert retriever.retrieve(QUERY) == await retriever.aretrieve(QUERY) == []


# what it retrieves from


def test_a_file(tmp_path: Path) -> None:
    path = tmp_path / "me.epic"
    with pytest.raises(StoreError):
        EpicGraphRetriever(path)
    with GraphMemory.open(path, PREFERENCES, settings=Settings(verifier=KeepAll(), tau=-1.0)) as graph:
        graph.add(ITEMS)
        wanted = [hit.item.id for hit in graph.search(QUERY)]
    with EpicGraphRetriever(path) as retriever:
        assert ids(retriever.retrieve(QUERY)) == wanted
    with pytest.raises(MemoryClosedError):
        retriever.retrieve(QUERY)


def test_a_graph_of_the_callers_stays_open(graph: GraphMemory) -> None:
    with EpicGraphRetriever(graph, extractor=PhraseExtractor()):
        pass
    assert graph.search(QUERY)


def test_a_memory_gets_a_graph() -> None:
    memory = EpicMemory(PREFERENCES, settings=Settings(verifier=KeepAll(), tau=-1.0))
    memory.add(ITEMS)
    with EpicGraphRetriever(memory) as retriever:
        assert retriever.memory is retriever.graph.memory is memory
        assert retriever.graph.entities() == []
        assert retriever.graph.update().passages == len(ITEMS)
        assert set(ids(retriever.retrieve("Who bought the boat of Idris Pell?"))[:2]) == {"boat", "marta"}
    assert memory.search(QUERY)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"graph": 3}, "graph is a GraphMemory, an EpicMemory or the name of its file, not int"),
        ({"extractor": ScriptedLLM(answers=[])}, "has an extractor, phrases.*leave out extractor=entities/"),
        ({"similarity_top_k": 0}, "similarity_top_k must be"),
    ],
    ids=["graph", "extractor", "k"],
)
def test_arguments_that_cannot_be(graph: GraphMemory, options: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInputError, match=said):
        EpicGraphRetriever(**{"graph": graph, **options})


def test_extractors_that_cannot_be() -> None:
    for wrong in (3, "qwen3:4b", PhraseExtractor, EpicEmbedding()):
        with pytest.raises(InvalidInputError, match="extractor must be"):
            EpicGraphRetriever.from_defaults(preferences=PREFERENCES, extractor=wrong)


async def test_it_steers_by_itself(retriever: EpicGraphRetriever) -> None:
    with pytest.raises(InvalidInputError, match="EpicGraphRetriever steers its queries itself"):
        SteeredRetriever(retriever, PREFERENCES)


# adding


async def test_nodes_that_are_added_are_in_the_graph() -> None:
    both = []
    for asynchronous in (False, True):
        retriever = EpicGraphRetriever(GraphMemory(PREFERENCES, settings=Settings(verifier=KeepAll(), tau=-1.0)))
        given = nodes()
        before = copy.deepcopy(given)
        report = await retriever.aadd_nodes(given) if asynchronous else retriever.add_nodes(given)
        assert given == before
        assert report.kept == retriever.report.passages == len(ITEMS)
        assert retriever.report.memory is report
        found = retriever.retrieve("Who bought the boat of Idris Pell?")
        assert set(ids(found)[:2]) == {"boat", "marta"}
        assert found[0].node.ref_doc_id == "diary"
        both.append((found, retriever.graph.entities()))
    assert both[0] == both[1]


async def test_documents_that_come_again_and_go() -> None:
    retriever = EpicGraphRetriever(GraphMemory(PREFERENCES, settings=Settings(verifier=KeepAll(), tau=-1.0)))
    retriever.add_nodes(nodes())
    names = retriever.graph.entities()
    assert any("Pell" in name for name in names)
    new = TextNode(id_="new", text="Oscar Lindqvist moved to Ravenholt.")
    new.relationships[NodeRelationship.SOURCE] = RelatedNodeInfo(node_id="diary")
    await retriever.aadd_nodes([new], upsert=True)
    assert set(ids(retriever.retrieve(QUERY))) == {"new", "cake"}
    assert retriever.delete_ref_doc("diary") == 1
    assert ids(retriever.retrieve("Which hazelnut cake?")) == ["cake"]
    assert retriever.retrieve(QUERY) == []


def test_from_defaults_makes_a_graph(tmp_path: Path) -> None:
    documents = [Document(id_=item.id, text=item.text) for item in ITEMS]
    path = tmp_path / "me.epic"
    options: dict[str, Any] = {"llm": KeepAll(), "tau": -1.0, "similarity_top_k": 2}
    with EpicGraphRetriever.from_defaults(
        preferences=PREFERENCES, documents=documents, path=path, **settled(**options)
    ) as retriever:
        assert retriever.report.passages == len(ITEMS)
        found = retriever.retrieve("Who bought the boat of Idris Pell?")
        assert {one.node.ref_doc_id for one in found} == {"boat", "marta"}
    with EpicGraphRetriever(path, similarity_top_k=2) as again:
        assert again.retrieve("Who bought the boat of Idris Pell?") == found
    with pytest.raises(MemoryClosedError):
        retriever.retrieve(QUERY)


class Named:
    """Finds what it was told to find, and fails for what it was not."""

    name = "named"

    def __init__(self, found: dict[str, Extraction]) -> None:
        self.found = found

    def stream(self, texts: Sequence[str]) -> Iterator[tuple[int, Extraction | Unextracted]]:
        for place, text in enumerate(texts):
            yield place, self.found.get(text, Unextracted("no idea"))

    async def astream(self, texts: Sequence[str]) -> AsyncIterator[tuple[int, Extraction | Unextracted]]:
        for pair in self.stream(texts):
            yield pair


async def test_passages_the_extractor_fails_for_are_told_of(caplog: pytest.LogCaptureFixture) -> None:
    found = {ITEMS[0].text: Extraction(("Oscar Lindqvist",), ())}
    options: dict[str, Any] = {"preferences": PREFERENCES, "llm": KeepAll(), "tau": -1.0, "extractor": Named(found)}
    with caplog.at_level(logging.WARNING, logger="epic_llamaindex.graph_retriever"):
        retriever = EpicGraphRetriever.from_defaults(nodes=nodes(["oscar", "nuts"]), **settled(**options))
        assert "1 of 2 passages are in the graph without entities" in caplog.text
        assert "no idea" in caplog.text
        caplog.clear()
        await retriever.aadd_nodes(nodes(["boat"]))
        assert "1 of 1 passages" in caplog.text
    assert set(ids(retriever.retrieve(QUERY))) == {"oscar", "nuts", "boat"}
    assert set(retriever.graph.failures()) == {"nuts", "boat"}


async def test_an_llm_reads_the_passages() -> None:
    said = {"entities": ["Oscar", "hazelnuts"], "facts": [["Oscar", "cannot eat", "hazelnuts"]]}
    llm = ScriptedLLM(answers=[json.dumps(said)])
    retriever = EpicGraphRetriever.from_defaults(
        preferences=PREFERENCES, nodes=nodes(["nuts"]), llm=KeepAll(), settings=Settings(tau=-1.0), extractor=llm
    )
    assert len(llm.prompts) == 1
    assert retriever.graph.facts("nuts") == [("Oscar", "cannot eat", "hazelnuts")]
