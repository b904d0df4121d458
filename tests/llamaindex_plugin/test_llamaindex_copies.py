"""Pickles and deep copies of the components: over a file they work on it, over RAM they say why not."""

from __future__ import annotations

import asyncio
import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from epic_memory import Settings

pytest.importorskip("llama_index.core", reason="needs the extra llamaindex")

from llama_index.core import PropertyGraphIndex, VectorStoreIndex
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.indices.property_graph import ImplicitPathExtractor
from llama_index.core.llms import MockLLM
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import IndexNode, NodeWithScore, TextNode
from llama_index.core.vector_stores import VectorStoreQuery

import epic_llamaindex as plugin
from epic_graph import GraphMemory
from epic_llamaindex import (
    EpicEmbedding,
    EpicGraphRetriever,
    EpicMemoryBlock,
    EpicRetriever,
    EpicTransform,
    EpicVectorStore,
    LlamaIndexEncoder,
    LlamaIndexLM,
    SteeredRetriever,
    SteeredVectorContextRetriever,
)
from epic_memory import EpicMemory, Filter
from epic_memory.errors import EpicError
from epic_memory.lm import Message

VEGAN, CASINO = "I follow a strict vegan diet.", "I avoid hotels with casinos."
TEXTS = ["A vegan stew with lentils for dinner.", "The hotel has a casino downstairs."]
QUERY = "A vegan dinner in a hotel with a casino."


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with EpicMemory.open(tmp_path / "me.epic", [VEGAN, CASINO]) as memory:
        memory.add(TEXTS)
        GraphMemory(memory=memory).update()
    return tmp_path / "me.epic"


def index_over(store: EpicVectorStore) -> VectorStoreIndex:
    index = VectorStoreIndex.from_vector_store(store, embed_model=store.embed_model)
    index.insert_nodes([TextNode(id_=str(number), text=text) for number, text in enumerate(TEXTS)])
    return index


def asked(component: Any) -> Any:
    """The answer of a component, by which copies are compared."""
    if isinstance(component, EpicMemoryBlock):
        return asyncio.run(component.aget([ChatMessage(QUERY)]))
    return [(one.node.get_content(), one.score) for one in component.retrieve(QUERY)]


def close(component: Any) -> None:
    if isinstance(component, EpicMemoryBlock):
        component.memory.close()
    elif isinstance(component, EpicRetriever):
        component.close()


OVER_A_FILE: dict[str, Callable[[Path], Any]] = {
    "retriever": lambda path: EpicRetriever(path, similarity_top_k=2, guidance="text", filters=~Filter.exists("x")),
    "from defaults": lambda path: EpicRetriever.from_defaults(path=path, nodes=[TextNode(text="Vegan hotels.")]),
    "graph retriever": lambda path: EpicGraphRetriever(str(path), similarity_top_k=2),
    "graph from defaults": lambda path: EpicGraphRetriever.from_defaults(path=path, similarity_top_k=2),
    "block": lambda path: EpicMemoryBlock(memory=path, k=2, name="Mine"),
    "steered": lambda path: SteeredRetriever(
        index_over(EpicVectorStore(path=path.parent / "me.vectors")).as_retriever(), [CASINO], annotate=True
    ),
}


@pytest.mark.parametrize("kind", OVER_A_FILE)
def test_over_a_file_a_pickle_opens_it_again(kind: str, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = OVER_A_FILE[kind](path)
    before = asked(made)
    assert before
    pickled = pickle.dumps(made)
    close(made)
    monkeypatch.chdir("/")
    again = pickle.loads(pickled)
    assert type(again) is type(made)
    assert asked(again) == before
    assert len(pickled) < 20_000
    close(again)


@pytest.mark.parametrize("kind", OVER_A_FILE)
def test_over_a_file_a_deep_copy_shares_what_is_open(kind: str, path: Path) -> None:
    made = OVER_A_FILE[kind](path)
    before = asked(made)
    again = copy.deepcopy(made)
    assert again is not made
    if kind != "steered":
        assert again.memory is made.memory
    if isinstance(again, EpicRetriever):
        again.close()  # what the other opened stays open
        again.similarity_top_k = 1
        assert len(asked(again)) == 1
    assert asked(made) == before
    close(made)


def opened() -> EpicMemory:
    memory = EpicMemory([VEGAN])
    memory.add(TEXTS)
    return memory


@pytest.mark.parametrize(
    "make",
    [
        lambda: EpicRetriever(opened()),
        lambda: EpicRetriever.from_defaults(preferences=[VEGAN], texts=TEXTS),
        lambda: EpicGraphRetriever(opened()),
        lambda: EpicMemoryBlock(memory=opened()),
    ],
    ids=["retriever", "from defaults", "graph retriever", "block"],
)
def test_over_ram_the_error_says_why(make: Callable[[], Any]) -> None:
    made = make()
    for copied in (pickle.dumps, copy.deepcopy):
        with pytest.raises(EpicError, match="file"):
            copied(made)


def test_an_open_memory_is_not_pickled_but_shared(path: Path) -> None:
    with EpicMemory.open(path) as memory:
        for made in (EpicRetriever(memory), EpicGraphRetriever(memory), EpicMemoryBlock(memory=memory)):
            with pytest.raises(pickle.PicklingError, match="name of a file"):
                pickle.dumps(made)
            assert asked(copy.deepcopy(made)) == asked(made)


def test_a_memory_opened_with_options_is_not_opened_without_them(path: Path) -> None:
    with EpicRetriever.from_defaults(
        path=path, preferences=[VEGAN], settings=Settings(namespace="bob"), texts=TEXTS
    ) as retriever:
        with pytest.raises(pickle.PicklingError, match="name of a file"):
            pickle.dumps(retriever)
        assert asked(copy.deepcopy(retriever)) == asked(retriever)


def test_objects_are_shared(path: Path) -> None:
    inner = EpicRetriever(opened())
    with EpicRetriever(path, objects=[IndexNode(text="x", index_id="x", obj=inner)]) as retriever:
        assert copy.deepcopy(retriever).object_map == {"x": inner}


def test_a_retriever_over_a_property_graph_is_copied_with_its_graph() -> None:
    nodes = [TextNode(id_=str(number), text=text) for number, text in enumerate(TEXTS)]
    index = PropertyGraphIndex(nodes, kg_extractors=[ImplicitPathExtractor()], embed_model=EpicEmbedding())
    made = SteeredVectorContextRetriever.from_index(index, [CASINO])
    before = asked(made)
    again = copy.deepcopy(made)
    assert again._graph_store is made._graph_store
    assert asked(again) == before
    assert asked(pickle.loads(pickle.dumps(made))) == before


def test_a_block_opens_nothing_for_invalid_arguments(tmp_path: Path) -> None:
    for options in ({"k": 0}, {"similarity_cutoff": 2.0}, {}):
        with pytest.raises(ValueError if options else EpicError):
            EpicMemoryBlock(memory=tmp_path / "me.epic", **options)
    assert not list(tmp_path.iterdir())


# every component of the plugin


def asking(component: Any) -> Any:
    """What a component is for, once: an answer to compare."""
    nodes = [TextNode(id_=str(number), text=text) for number, text in enumerate(TEXTS)]
    if isinstance(component, LlamaIndexEncoder):
        return component.encode(TEXTS).tolist()
    if isinstance(component, LlamaIndexLM):
        return component.complete([Message("user", "?")]).text
    if isinstance(component, EpicEmbedding):
        return component.get_query_embedding(QUERY)
    if isinstance(component, EpicTransform):
        return [(node.text, node.metadata) for node in component(nodes)]
    if isinstance(component, BaseNodePostprocessor):
        found = component.postprocess_nodes([NodeWithScore(node=node, score=0.5) for node in nodes], query_str=QUERY)
        return [(one.text, one.metadata) for one in found]
    if isinstance(component, EpicVectorStore):
        return component.query(VectorStoreQuery(query_str=QUERY, similarity_top_k=2)).ids
    return asked(component)


def filled(path: Path | None) -> EpicVectorStore:
    return index_over(EpicVectorStore(path=path)).vector_store  # type: ignore[return-value]


def property_graph(guidance: EpicMemory) -> SteeredVectorContextRetriever:
    nodes = [TextNode(id_=str(number), text=text) for number, text in enumerate(TEXTS)]
    index = PropertyGraphIndex(nodes, kg_extractors=[ImplicitPathExtractor()], embed_model=EpicEmbedding())
    return SteeredVectorContextRetriever.from_index(index, guidance=guidance)


# By a file's name where they take one, over an open memory, over RAM.
EVERY: dict[str, Callable[[Path, EpicMemory], list[Any]]] = {
    "EpicCompressor": lambda path, memory: [plugin.EpicCompressor(memory=memory)],
    "EpicEmbedding": lambda path, memory: [EpicEmbedding()],
    "EpicGraphRetriever": lambda path, memory: [EpicGraphRetriever(path), EpicGraphRetriever(memory)],
    "EpicMemoryBlock": lambda path, memory: [EpicMemoryBlock(memory=path), EpicMemoryBlock(memory=memory)],
    "EpicNodePostprocessor": lambda path, memory: [
        plugin.EpicNodePostprocessor(preferences=[VEGAN]),
        plugin.EpicNodePostprocessor(memory=memory),
    ],
    "EpicReranker": lambda path, memory: [plugin.EpicReranker(memory=memory)],
    "EpicRetriever": lambda path, memory: [EpicRetriever(path), EpicRetriever(memory)],
    "EpicTransform": lambda path, memory: [EpicTransform(preferences=[VEGAN]), EpicTransform(memory=memory)],
    "EpicVectorStore": lambda path, memory: [filled(path.parent / "b.vectors"), filled(None)],
    "LlamaIndexEncoder": lambda path, memory: [LlamaIndexEncoder(EpicEmbedding(), tau=0.2)],
    "LlamaIndexLM": lambda path, memory: [LlamaIndexLM(MockLLM(), concurrency=2)],
    "SteeredRetriever": lambda path, memory: [
        SteeredRetriever(index_over(EpicVectorStore(path=path.parent / "c.vectors")).as_retriever(), [CASINO])
    ],
    "SteeredVectorContextRetriever": lambda path, memory: [property_graph(memory)],
}


def test_no_component_is_left_out() -> None:
    exported: Any = {name: getattr(plugin, name) for name in plugin.__all__}
    assert {name for name, value in exported.items() if isinstance(value, type)} == set(EVERY)


@pytest.mark.parametrize("in_ram", [False, True])
@pytest.mark.parametrize("kind", EVERY)
def test_a_copy_works_or_the_error_says_what_to_do(kind: str, in_ram: bool, path: Path) -> None:
    with opened() if in_ram else EpicMemory.open(path) as memory:
        for made in EVERY[kind](path, memory):
            for copied in (copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))):
                try:
                    again = copied(made)
                except EpicError as error:
                    assert any(word in str(error) for word in ("file", "open", "processes")), error
                    continue
                assert type(again) is type(made) and asking(again) == asking(made)


def test_tools_of_an_open_memory_are_not_pickled_but_shared() -> None:
    tools = plugin.epic_tools(opened())
    with pytest.raises(EpicError, match="Share the object"):
        pickle.dumps(tools)
    assert VEGAN in copy.deepcopy(tools)[3].call().content
