"""Pickles and deep copies of the components of both plugins: over a file they work on it, over RAM they say why not."""

from __future__ import annotations

import asyncio
import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from epic_memory import Settings

pytest.importorskip("langchain", reason="needs the extra agents")
pytest.importorskip("graph_retriever", reason="needs the extra graph-retriever")
pytest.importorskip("llama_index.core", reason="needs the extra llamaindex")

from graph_retriever.adapters import Adapter
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.load import dumpd
from langchain_core.retrievers import BaseRetriever
from langchain_core.structured_query import Comparator, Comparison
from langchain_core.vectorstores import InMemoryVectorStore
from llama_index.core import PropertyGraphIndex, VectorStoreIndex
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.indices.property_graph import ImplicitPathExtractor
from llama_index.core.llms import MockLLM
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import IndexNode, NodeWithScore, TextNode
from llama_index.core.vector_stores import VectorStoreQuery

import epic_langchain as lc
import epic_llamaindex as li
from chat_models import ScriptedChat
from epic_graph import GraphMemory
from epic_memory import EpicMemory, Filter, Preference
from epic_memory.encoders import Encoder
from epic_memory.errors import EpicError
from epic_memory.lm import LanguageModel, Message

VEGAN, CASINO = "I follow a strict vegan diet.", "I avoid hotels with casinos."
QUERY = "A vegan dinner in a hotel with a casino."
TEXTS = ["A vegan stew with lentils for dinner.", "The hotel has a casino downstairs."]
DOCUMENTS = [Document(id=str(number), page_content=text) for number, text in enumerate(TEXTS)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with EpicMemory.open(tmp_path / "me.epic", [VEGAN, CASINO]) as memory:
        memory.add(TEXTS)
        GraphMemory(memory=memory).update()
    return tmp_path / "me.epic"


def opened() -> EpicMemory:
    memory = EpicMemory([VEGAN])
    memory.add(TEXTS)
    return memory


def nodes() -> list[TextNode]:
    return [TextNode(id_=str(number), text=text) for number, text in enumerate(TEXTS)]


def documents_at(path: Path | None) -> lc.EpicVectorStore:
    return lc.EpicVectorStore.from_documents(DOCUMENTS, path=path, preferences=[CASINO])


def items_at(path: Path | None) -> lc.EpicStore:
    store = lc.EpicStore(path, preferences=[CASINO], fields=["text"], ttl={"default_ttl": 60})
    for number, text in enumerate(TEXTS):
        store.put(("notes",), str(number), {"text": text})
    return store


def index_at(path: Path | None) -> VectorStoreIndex:
    store = li.EpicVectorStore(path=path)
    index = VectorStoreIndex.from_vector_store(store, embed_model=store.embed_model)
    index.insert_nodes(nodes())
    return index


def property_graph(**options: Any) -> li.SteeredVectorContextRetriever:
    index = PropertyGraphIndex(nodes(), kg_extractors=[ImplicitPathExtractor()], embed_model=li.EpicEmbedding())
    return li.SteeredVectorContextRetriever.from_index(index, **options)


def plain_documents() -> InMemoryVectorStore:
    return InMemoryVectorStore.from_documents(DOCUMENTS, lc.EpicEmbeddings())


def ranked(component: BaseNodePostprocessor) -> Any:
    found = component.postprocess_nodes([NodeWithScore(node=node, score=0.5) for node in nodes()], query_str=QUERY)
    return [(one.text, one.metadata) for one in found]


EQUAL = Comparison(comparator=Comparator.EQ, attribute="a", value=1)
# What a component is for, once: an answer to compare.
ASK: list[tuple[type, Callable[[Any], Any]]] = [
    (Encoder, lambda one: one.encode(TEXTS).tolist()),
    (LanguageModel, lambda one: one.complete([Message("user", "?")]).text),
    (lc.EpicEmbeddings, lambda one: one.embed_query(QUERY)),
    (li.EpicEmbedding, lambda one: one.get_query_embedding(QUERY)),
    (lc.EpicStore, lambda one: [item.dict() for item in one.search((), query=QUERY, refresh_ttl=False)]),
    (lc.EpicVectorStore, lambda one: one.similarity_search_with_score(QUERY, k=2)),
    (li.EpicVectorStore, lambda one: one.query(VectorStoreQuery(query_str=QUERY, similarity_top_k=2)).ids),
    (lc.EpicDocumentTransformer, lambda one: one.invoke(DOCUMENTS)),
    (li.EpicTransform, lambda one: [(node.text, node.metadata) for node in one(nodes())]),
    (BaseDocumentCompressor, lambda one: one.compress_documents(DOCUMENTS, QUERY)),
    (BaseNodePostprocessor, ranked),
    (lc.EpicTranslator, lambda one: one.visit_comparison(EQUAL)),
    (Adapter, lambda one: [found.id for found in one.search_with_embedding(QUERY, k=2)[1]]),
    (lc.EpicMemoryMiddleware, lambda one: [hit.text for hit in one.memory.search(QUERY)]),
    (li.EpicMemoryBlock, lambda one: asyncio.run(one.aget([ChatMessage(QUERY)]))),
    (BaseRetriever, lambda one: one.invoke(QUERY)),
    (object, lambda one: [(found.node.get_content(), found.score) for found in one.retrieve(QUERY)]),
]


def asked(component: Any) -> Any:
    return next(ask for kind, ask in ASK if isinstance(component, kind))(component)


def close(component: Any) -> None:
    for name in ("memory", "graph", "vectorstore"):
        component = getattr(component, name, component)
    if hasattr(component, "close"):
        component.close()


# by the name of a file


OVER_A_FILE: dict[str, Callable[[Path], Any]] = {
    "lc retriever": lambda path: lc.EpicRetriever(memory=path, k=2, guidance="text", tags=["mine"]),
    "lc retriever with an encoder": lambda path: lc.EpicRetriever(memory=str(path), embeddings="static"),
    "lc graph retriever": lambda path: lc.EpicGraphRetriever(graph=str(path), k=2),
    "lc middleware": lambda path: lc.EpicMemoryMiddleware(path, k=3),
    "lc vector store": lambda path: documents_at(path.parent / "me.vectors"),
    "lc store": lambda path: items_at(path.parent / "me.store"),
    "lc steered": lambda path: lc.SteeredRetriever(
        vectorstore=documents_at(path.parent / "me.vectors"), preferences=[CASINO]
    ),
    "lc transformer": lambda _: lc.EpicDocumentTransformer(
        preferences=[Preference(text=VEGAN)], settings=Settings(tau=0.2), split=True
    ),
    "lc steered in RAM": lambda _: lc.SteeredRetriever(vectorstore=plain_documents(), preferences=[CASINO]),
    "li retriever": lambda path: li.EpicRetriever(
        path, similarity_top_k=2, guidance="text", filters=~Filter.exists("x")
    ),
    "li from defaults": lambda path: li.EpicRetriever.from_defaults(path=path, nodes=[TextNode(text="Vegan hotels.")]),
    "li graph retriever": lambda path: li.EpicGraphRetriever(str(path), similarity_top_k=2),
    "li graph from defaults": lambda path: li.EpicGraphRetriever.from_defaults(path=path, similarity_top_k=2),
    "li block": lambda path: li.EpicMemoryBlock(memory=path, k=2, name="Mine"),
    "li steered": lambda path: li.SteeredRetriever(
        index_at(path.parent / "me.vectors").as_retriever(), [CASINO], annotate=True
    ),
}


@pytest.mark.parametrize("kind", OVER_A_FILE)
def test_over_a_file_a_deep_copy_shares_what_is_open_and_a_pickle_opens_it_again(
    kind: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = OVER_A_FILE[kind](path)
    before = asked(made)
    assert before
    again = copy.deepcopy(made)
    assert again is not made and asked(again) == before
    assert all(getattr(again, name, None) is getattr(made, name, None) for name in ("graph", "memory"))
    if kind == "lc retriever":
        again.tags.append("other")
        assert made.tags == ["mine"]
    if kind == "li retriever":
        again.close()  # what the other opened stays open
        again.similarity_top_k = 1
        assert len(asked(again)) == 1 and asked(made) == before
    if kind == "lc vector store":
        again.add_documents([Document(id="new", page_content="A quiet hotel.")])
        assert made.get_by_ids(["new"])
        made.delete(["new"])
    pickled = pickle.dumps(made)
    close(made)
    monkeypatch.chdir("/")
    again = pickle.loads(pickled)
    assert type(again) is type(made) and asked(again) == before
    assert len(pickled) < 20_000
    close(again)


@pytest.mark.parametrize(
    "make",
    [
        lambda memory: lc.EpicRetriever(memory=memory),
        lambda memory: lc.EpicGraphRetriever(graph=memory),
        lc.EpicMemoryMiddleware,
        li.EpicRetriever,
        li.EpicGraphRetriever,
        lambda memory: li.EpicMemoryBlock(memory=memory),
    ],
)
def test_an_open_memory_is_not_pickled_but_shared_unless_it_is_in_ram(make: Callable[[Any], Any], path: Path) -> None:
    with EpicMemory.open(path) as memory:
        with pytest.raises(pickle.PicklingError, match="name of a file"):
            pickle.dumps(make(memory))
        assert asked(copy.deepcopy(make(memory))) == asked(make(memory))
    for copied in (pickle.dumps, copy.deepcopy):
        with pytest.raises(EpicError, match=r"file|memory is open"):
            copied(make(opened()))


# every component


# By a file's name where they take one, over an open memory, over RAM.
EVERY: dict[str, Callable[[Path, EpicMemory], list[Any]]] = {
    "lc.EpicCompressor": lambda path, memory: [lc.EpicCompressor(memory=memory)],
    "lc.EpicDocumentTransformer": lambda path, memory: [
        lc.EpicDocumentTransformer(preferences=[VEGAN]),
        lc.EpicDocumentTransformer(memory=memory),
    ],
    "lc.EpicEmbeddings": lambda path, memory: [lc.EpicEmbeddings()],
    "lc.EpicGraphRetriever": lambda path, memory: [lc.EpicGraphRetriever(graph=one) for one in (path, memory)],
    "lc.EpicMemoryMiddleware": lambda path, memory: [lc.EpicMemoryMiddleware(one) for one in (path, memory)],
    "lc.EpicReranker": lambda path, memory: [lc.EpicReranker(memory=memory)],
    "lc.EpicRetriever": lambda path, memory: [lc.EpicRetriever(memory=one) for one in (path, memory)],
    "lc.EpicStore": lambda path, memory: [items_at(path.parent / "a.store"), items_at(None)],
    "lc.EpicTranslator": lambda path, memory: [lc.EpicTranslator()],
    "lc.EpicVectorStore": lambda path, memory: [
        documents_at(path.parent / "b.vectors"),
        documents_at(None),
    ],
    "lc.LangChainEncoder": lambda path, memory: [lc.LangChainEncoder(lc.EpicEmbeddings(), tau=0.2)],
    "lc.LangChainLM": lambda path, memory: [lc.LangChainLM(FakeListChatModel(responses=["Yes."]), concurrency=2)],
    "lc.SteeredRetriever": lambda path, memory: [
        lc.SteeredRetriever(vectorstore=store, preferences=[CASINO])
        for store in (plain_documents(), documents_at(None))
    ],
    "li.EpicCompressor": lambda path, memory: [li.EpicCompressor(memory=memory)],
    "li.EpicEmbedding": lambda path, memory: [li.EpicEmbedding()],
    "li.EpicGraphRetriever": lambda path, memory: [li.EpicGraphRetriever(one) for one in (path, memory)],
    "li.EpicMemoryBlock": lambda path, memory: [li.EpicMemoryBlock(memory=one) for one in (path, memory)],
    "li.EpicNodePostprocessor": lambda path, memory: [
        li.EpicNodePostprocessor(preferences=[VEGAN]),
        li.EpicNodePostprocessor(memory=memory),
    ],
    "li.EpicReranker": lambda path, memory: [li.EpicReranker(memory=memory)],
    "li.EpicRetriever": lambda path, memory: [
        *(li.EpicRetriever(one) for one in (path, memory)),
        li.EpicRetriever.from_defaults(preferences=[VEGAN], texts=TEXTS),
    ],
    "li.EpicTransform": lambda path, memory: [li.EpicTransform(preferences=[VEGAN]), li.EpicTransform(memory=memory)],
    "li.EpicVectorStore": lambda path, memory: [
        index_at(place).vector_store for place in (path.parent / "c.vectors", None)
    ],
    "li.LlamaIndexEncoder": lambda path, memory: [li.LlamaIndexEncoder(li.EpicEmbedding(), tau=0.2)],
    "li.LlamaIndexLM": lambda path, memory: [li.LlamaIndexLM(MockLLM(), concurrency=2)],
    "li.SteeredRetriever": lambda path, memory: [
        li.SteeredRetriever(index_at(path.parent / "d.vectors").as_retriever(), [CASINO])
    ],
    "li.SteeredVectorContextRetriever": lambda path, memory: [property_graph(guidance=memory)],
}


def test_no_component_is_left_out() -> None:
    names = {f"lc.{name}": getattr(lc, name) for name in dir(lc) if name[0] != "_"}
    names |= {f"li.{name}": getattr(li, name) for name in li.__all__}
    assert {name for name, value in names.items() if isinstance(value, type)} == set(EVERY)


@pytest.mark.parametrize("in_ram", [False, True])
@pytest.mark.parametrize("kind", EVERY)
def test_a_copy_works_or_the_error_says_what_to_do(kind: str, in_ram: bool, path: Path) -> None:
    with opened() if in_ram else EpicMemory.open(path) as memory:
        for made in EVERY[kind](path, memory):
            if kind.startswith("lc.") and kind.endswith("Retriever"):
                # Traces get nothing private.
                dumped = str(dumpd(made))
                assert "not_implemented" in dumped and not any(word in dumped for word in ("vegan", "casino", "epic'"))
            for copied in (copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))):
                try:
                    again = copied(made)
                except EpicError as error:
                    assert any(word in str(error) for word in ("file", "open", "processes")), error
                    continue
                assert type(again) is type(made) and asked(again) == asked(made)


@pytest.mark.parametrize("plugin", [lc, li])
def test_tools_of_an_open_memory_are_not_pickled_but_shared(plugin: Any) -> None:
    tools = plugin.epic_tools(opened())
    with pytest.raises(EpicError, match="Share the object"):
        pickle.dumps(tools)
    listing = copy.deepcopy(tools)[3]
    assert VEGAN in (listing.invoke({}) if plugin is lc else listing.call().content)


def test_a_model_that_cannot_be_pickled_is_named() -> None:
    model = ScriptedChat(answers=lambda _: "")
    with pytest.raises(EpicError, match="llm"):
        pickle.dumps(lc.EpicDocumentTransformer(preferences=[VEGAN], llm=model))
    assert copy.deepcopy(lc.EpicDocumentTransformer(preferences=[VEGAN], llm=model)).llm is model


def memory_of(namespace: str) -> EpicMemory:
    raise KeyError(namespace)


def test_a_middleware_for_many_users_keeps_its_function() -> None:
    made = lc.EpicMemoryMiddleware(memory_of, k=3, remember=False, name="mine")
    for again in (pickle.loads(pickle.dumps(made)), copy.deepcopy(made)):
        assert again.memory is memory_of
        assert (again.k, again.remember, again.name) == (3, None, "mine")


def test_a_memory_opened_with_options_is_not_opened_without_them(path: Path) -> None:
    with li.EpicRetriever.from_defaults(
        path=path, preferences=[VEGAN], settings=Settings(namespace="bob"), texts=TEXTS
    ) as retriever:
        with pytest.raises(pickle.PicklingError, match="name of a file"):
            pickle.dumps(retriever)
        assert asked(copy.deepcopy(retriever)) == asked(retriever)


def test_objects_are_shared(path: Path) -> None:
    inner = li.EpicRetriever(opened())
    with li.EpicRetriever(path, objects=[IndexNode(text="x", index_id="x", obj=inner)]) as retriever:
        assert copy.deepcopy(retriever).object_map == {"x": inner}


def test_a_block_opens_nothing_for_invalid_arguments(tmp_path: Path) -> None:
    for options in ({"k": 0}, {"similarity_cutoff": 2.0}, {}):
        with pytest.raises(ValueError if options else EpicError):
            li.EpicMemoryBlock(memory=tmp_path / "me.epic", **options)
    assert not list(tmp_path.iterdir())
