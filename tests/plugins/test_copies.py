"""Copies and pickles of the components of both plugins: what is open is shared, and is not sent to another process."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("langchain", reason="needs the extra agents")
pytest.importorskip("llama_index.core", reason="needs the extra llamaindex")

from langchain_core.documents import Document
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.load import dumpd
from langchain_core.vectorstores import InMemoryVectorStore
from llama_index.core import PropertyGraphIndex, VectorStoreIndex
from llama_index.core.indices.property_graph import ImplicitPathExtractor
from llama_index.core.llms import MockLLM
from llama_index.core.schema import TextNode

import epic_langchain as lc
import epic_llamaindex as li
from epic_graph import GraphMemory
from epic_memory import EpicMemory, Settings
from epic_memory.errors import NotCopiedError

VEGAN = "I follow a strict vegan diet."
TEXTS = ["A vegan stew with lentils for dinner.", "The hotel has a casino downstairs."]
MEMORY = EpicMemory([VEGAN])
INDEX = VectorStoreIndex([TextNode(text=text) for text in TEXTS], embed_model=li.EpicEmbedding())

# The attributes that a copy shares.
OPEN: list[tuple[Callable[[], Any], str]] = [
    (lambda: lc.EpicMemoryMiddleware(MEMORY), "memory"),
    (lambda: lc.EpicReranker(memory=MEMORY), "memory"),
    (lambda: lc.EpicRetriever(memory=MEMORY), "memory"),
    (lambda: lc.EpicRetriever(memory=GraphMemory(memory=MEMORY)), "memory"),
    (lc.EpicStore, "_collection"),
    (lc.EpicVectorStore, "_collection"),
    (lambda: lc.SteeredRetriever(vectorstore=InMemoryVectorStore(lc.EpicEmbeddings())), "vectorstore"),
    (lambda: li.EpicMemoryBlock(memory=MEMORY), "memory"),
    (lambda: li.EpicReranker(memory=MEMORY), "memory"),
    (lambda: li.EpicRetriever(MEMORY), "memory"),
    (li.EpicVectorStore, "client"),
    (lambda: li.SteeredRetriever(INDEX.as_retriever(), [VEGAN]), "_leaf"),
]


@pytest.mark.parametrize(("make", "shared"), OPEN)
def test_a_copy_shares_what_is_open_and_there_is_no_pickle(make: Callable[[], Any], shared: str) -> None:
    made = make()
    for again in (copy.copy(made), copy.deepcopy(made)):
        assert again is not made and type(again) is type(made)
        assert getattr(again, shared) is getattr(made, shared)
    with pytest.raises(NotCopiedError, match=f"{type(made).__name__} is open"):
        pickle.dumps(made)


def test_what_copies_a_retriever_leaves_the_memory_open() -> None:
    with EpicMemory([VEGAN]) as memory, li.EpicRetriever.from_defaults(preferences=[VEGAN]) as made:
        copy.copy(made).close()
        assert made.retrieve("stew") == []
        with li.EpicRetriever(memory):
            pass
        assert len(memory) == 0


def test_a_retriever_of_a_property_graph_is_another_users_by_a_copy() -> None:
    nodes = [TextNode(id_=text, text=text) for text in TEXTS]
    index = PropertyGraphIndex(nodes, kg_extractors=[ImplicitPathExtractor()], embed_model=li.EpicEmbedding())
    made = li.SteeredVectorContextRetriever.from_index(index, guidance=MEMORY)
    other = made.with_preferences(["I love casinos."])
    assert (made.preferences, other.preferences) == (tuple(MEMORY.preferences), ("I love casinos.",))
    assert other._graph_store is made._graph_store and other._leaf is not made._leaf
    assert made.retrieve("A vegan stew.") == copy.deepcopy(made).retrieve("A vegan stew.")


def again(made: Any) -> Any:
    return pickle.loads(pickle.dumps(made))


@pytest.mark.parametrize("copied", [again, copy.deepcopy])
def test_what_holds_nothing_open_is_made_anew(copied: Callable[[Any], Any]) -> None:
    documents, nodes = [Document(text) for text in TEXTS], [TextNode(id_=text, text=text) for text in TEXTS]
    transformer = lc.EpicDocumentTransformer(preferences=[VEGAN], settings=Settings(tau=0.2))
    assert copied(transformer).invoke(documents) == transformer.invoke(documents) != []
    for step in (li.EpicTransform(preferences=[VEGAN]), li.EpicTransform(preferences=[VEGAN], settings=Settings())):
        assert copied(step)(nodes) == step(nodes) != []
    assert copied(li.EpicNodePostprocessor(preferences=[VEGAN], keep="relevant")).keep == "relevant"
    assert copied(lc.EpicEmbeddings()).embed_query("stew") == copied(li.EpicEmbedding()).get_query_embedding("stew")
    for adapter in (lc.LangChainEncoder(lc.EpicEmbeddings(), tau=0.2), li.LlamaIndexEncoder(li.EpicEmbedding())):
        assert copied(adapter).encode(TEXTS).tolist() == adapter.encode(TEXTS).tolist()
        assert vars(copied(adapter)).get("tau") == vars(adapter).get("tau")
    for lm in (lc.LangChainLM(FakeListChatModel(responses=["Yes."]), concurrency=2), li.LlamaIndexLM(MockLLM())):
        assert (copied(lm).name, copied(lm).concurrency) == (lm.name, lm.concurrency)


@pytest.mark.parametrize("make", [lc.EpicDocumentTransformer, li.EpicTransform, li.EpicNodePostprocessor])
def test_a_memory_that_judges_is_shared(make: Callable[..., Any]) -> None:
    made = make(memory=MEMORY)
    assert copy.deepcopy(made).memory is MEMORY
    with pytest.raises(NotCopiedError):
        pickle.dumps(made)


@pytest.mark.parametrize("plugin", [lc, li])
def test_tools_of_an_open_memory_are_not_pickled_but_shared(plugin: Any) -> None:
    tools = plugin.epic_tools(MEMORY)
    with pytest.raises(NotCopiedError, match="Share the object"):
        pickle.dumps(tools)
    listing = copy.deepcopy(tools)[3]
    assert VEGAN in (listing.invoke({}) if plugin is lc else listing.call().content)


@pytest.mark.parametrize(
    "made",
    [
        lc.EpicRetriever(memory=MEMORY),
        lc.SteeredRetriever(vectorstore=InMemoryVectorStore(lc.EpicEmbeddings()), preferences=[VEGAN]),
        lc.EpicDocumentTransformer(preferences=[VEGAN]),
    ],
)
def test_traces_get_nothing_private(made: Any) -> None:
    dumped = str(dumpd(made))
    assert "not_implemented" in dumped and "vegan" not in dumped
