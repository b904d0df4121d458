"""`EpicGraphRetriever`: a graph memory as a LlamaIndex retriever."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from epic_memory import Settings
from helpers import settled

pytest.importorskip("llama_index.core", reason="needs the extra llamaindex")

from llama_index.core.schema import Document, NodeRelationship, RelatedNodeInfo, TextNode

from epic_graph.memory import GraphMemory
from epic_llamaindex import SteeredRetriever
from epic_llamaindex.graph_retriever import EpicGraphRetriever
from epic_memory import Item
from epic_memory.errors import InvalidInputError, MemoryClosedError
from helpers import KeepAll
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


# what it retrieves from


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


async def test_an_llm_reads_the_passages() -> None:
    said = {"entities": ["Oscar", "hazelnuts"], "facts": [["Oscar", "cannot eat", "hazelnuts"]]}
    llm = ScriptedLLM(answers=[json.dumps(said)])
    retriever = EpicGraphRetriever.from_defaults(
        preferences=PREFERENCES, nodes=nodes(["nuts"]), llm=KeepAll(), settings=Settings(tau=-1.0), extractor=llm
    )
    assert len(llm.prompts) == 1
    assert retriever.graph.facts("nuts") == [("Oscar", "cannot eat", "hazelnuts")]
