"""Pickles and deep copies of the components: over a file they work on it, over RAM they say why not."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("langchain", reason="needs the extra agents")

pytest.importorskip("graph_retriever", reason="needs the extra graph-retriever")

from graph_retriever.adapters import Adapter
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.load import dumpd
from langchain_core.structured_query import Comparator, Comparison
from langchain_core.vectorstores import InMemoryVectorStore

import epic_langchain as plugin
from chat_models import ScriptedChat
from epic_graph import GraphMemory
from epic_langchain import (
    EpicDocumentTransformer,
    EpicEmbeddings,
    EpicGraphRetriever,
    EpicMemoryMiddleware,
    EpicRetriever,
    EpicStore,
    EpicTranslator,
    EpicVectorStore,
    LangChainEncoder,
    LangChainLM,
    SteeredRetriever,
)
from epic_memory import EpicMemory, Preference
from epic_memory.errors import EpicError
from epic_memory.lm import Message

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


def store_at(path: Path | None) -> EpicVectorStore:
    store = EpicVectorStore(path=path, preferences=[CASINO])
    store.add_documents(DOCUMENTS)
    return store


def items_at(path: Path | None) -> EpicStore:
    store = EpicStore(path, preferences=[CASINO], fields=["text"], ttl={"default_ttl": 60})
    for number, text in enumerate(TEXTS):
        store.put(("notes",), str(number), {"text": text})
    return store


def asked(component: Any) -> Any:
    """The answer of a component, by which copies are compared."""
    if isinstance(component, EpicStore):
        return [item.dict() for item in component.search((), query=QUERY, refresh_ttl=False)]
    if isinstance(component, EpicVectorStore):
        return component.similarity_search_with_score(QUERY, k=2)
    if isinstance(component, EpicDocumentTransformer):
        return component.invoke(DOCUMENTS)
    if isinstance(component, EpicMemoryMiddleware):
        memory: Any = component.memory
        return [hit.text for hit in memory.search(QUERY)]
    return component.invoke(QUERY)


def close(component: Any) -> None:
    if isinstance(component, (EpicRetriever, EpicMemoryMiddleware)):
        component.memory.close()
    elif isinstance(component, EpicGraphRetriever):
        component.graph.close()
    elif isinstance(component, SteeredRetriever):
        close(component.vectorstore)
    elif isinstance(component, (EpicStore, EpicVectorStore)):
        component.close()


OVER_A_FILE: dict[str, Callable[[Path], Any]] = {
    "retriever": lambda path: EpicRetriever(memory=path, k=2, guidance="text", tags=["mine"]),
    "retriever with an encoder": lambda path: EpicRetriever(memory=str(path), embeddings="static"),
    "graph retriever": lambda path: EpicGraphRetriever(graph=str(path), k=2),
    "middleware": lambda path: EpicMemoryMiddleware(path, k=3),
    "vector store": lambda path: store_at(path.parent / "me.vectors"),
    "store": lambda path: items_at(path.parent / "me.store"),
    "steered": lambda path: SteeredRetriever(
        vectorstore=EpicVectorStore.from_documents(DOCUMENTS, path=path.parent / "me.vectors"), preferences=[CASINO]
    ),
    "transformer": lambda _: EpicDocumentTransformer(preferences=[Preference(text=VEGAN)], tau=0.2, split=True),
    "steered in RAM": lambda _: SteeredRetriever(
        vectorstore=InMemoryVectorStore.from_documents(DOCUMENTS, EpicEmbeddings()), preferences=[CASINO]
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
    assert len(pickled) < 10_000
    close(again)


@pytest.mark.parametrize("kind", OVER_A_FILE)
def test_over_a_file_a_deep_copy_shares_what_is_open(kind: str, path: Path) -> None:
    made = OVER_A_FILE[kind](path)
    before = asked(made)
    again = copy.deepcopy(made)
    assert again is not made
    assert asked(again) == before
    if kind in ("retriever", "middleware"):
        assert again.memory is made.memory
    if kind == "graph retriever":
        assert again.graph is made.graph
    if kind == "vector store":
        again.add_documents([Document(id="new", page_content="A quiet hotel.")])
        assert made.get_by_ids(["new"])
    if kind == "store":
        again.put(("notes",), "new", {"text": "A quiet hotel."})
        assert made.get(("notes",), "new") is not None
    if kind == "retriever":
        again.tags.append("other")
        assert made.tags == ["mine"]
    close(made)


def opened() -> EpicMemory:
    memory = EpicMemory([VEGAN])
    memory.add(TEXTS)
    return memory


OVER_RAM: dict[str, Callable[[], Any]] = {
    "retriever": lambda: EpicRetriever(memory=opened()),
    "graph retriever": lambda: EpicGraphRetriever(graph=opened()),
    "middleware": lambda: EpicMemoryMiddleware(opened()),
    "vector store": lambda: store_at(None),
    "view": lambda: EpicVectorStore.from_memory(opened()),
    "store": lambda: items_at(None),
    "steered": lambda: SteeredRetriever(vectorstore=store_at(None)),
}


@pytest.mark.parametrize("kind", OVER_RAM)
def test_over_ram_the_error_says_why(kind: str) -> None:
    made = OVER_RAM[kind]()
    for copied in (pickle.dumps, copy.deepcopy):
        with pytest.raises(EpicError, match=r"file|memory is open"):
            copied(made)


@pytest.mark.parametrize("kind", ["retriever", "graph retriever", "middleware"])
def test_an_open_memory_is_not_pickled_but_shared(kind: str, path: Path) -> None:
    with EpicMemory.open(path) as memory:
        made: Any = {
            "retriever": lambda: EpicRetriever(memory=memory),
            "graph retriever": lambda: EpicGraphRetriever(graph=memory),
            "middleware": lambda: EpicMemoryMiddleware(memory),
        }[kind]()
        with pytest.raises(pickle.PicklingError, match="name of a file"):
            pickle.dumps(made)
        assert asked(copy.deepcopy(made)) == asked(made)


def test_a_model_that_cannot_be_pickled_is_named() -> None:
    model = ScriptedChat(answers=lambda _: "")
    with pytest.raises(EpicError, match="llm"):
        pickle.dumps(EpicDocumentTransformer(preferences=[VEGAN], llm=model))
    assert copy.deepcopy(EpicDocumentTransformer(preferences=[VEGAN], llm=model)).llm is model


def memory_of(namespace: str) -> EpicMemory:
    raise KeyError(namespace)


def test_a_middleware_for_many_users_keeps_its_function() -> None:
    made = EpicMemoryMiddleware(memory_of, k=3, remember=False, name="mine")
    for again in (pickle.loads(pickle.dumps(made)), copy.deepcopy(made)):
        assert again.memory is memory_of
        assert (again.k, again.remember, again.name) == (3, None, "mine")


@pytest.mark.parametrize("kind", OVER_A_FILE)
def test_traces_get_nothing_private(kind: str, path: Path) -> None:
    made = OVER_A_FILE[kind](path)
    if kind not in ("middleware", "vector store", "store"):
        dumped = dumpd(made)
        assert dumped["type"] == "not_implemented" and dumped["name"] == type(made).__name__
        for private in ("vegan", "casino", "me.epic", "me.vectors"):
            assert private not in str(dumped)
    close(made)


# every component of the plugin


def asking(component: Any) -> Any:
    """What a component is for, once: an answer to compare."""
    if isinstance(component, LangChainEncoder):
        return component.encode(TEXTS).tolist()
    if isinstance(component, LangChainLM):
        return component.complete([Message("user", "?")]).text
    if isinstance(component, EpicEmbeddings):
        return component.embed_query(QUERY)
    if isinstance(component, BaseDocumentCompressor):
        return component.compress_documents(DOCUMENTS, QUERY)
    if isinstance(component, EpicTranslator):
        return component.visit_comparison(Comparison(comparator=Comparator.EQ, attribute="a", value=1))
    if isinstance(component, Adapter):
        return [found.id for found in component.search_with_embedding(QUERY, k=2)[1]]
    return asked(component)


# By a file's name where they take one, over an open memory, over RAM.
EVERY: dict[str, Callable[[Path, EpicMemory], list[Any]]] = {
    "EpicCompressor": lambda path, memory: [plugin.EpicCompressor(memory=memory)],
    "EpicDocumentTransformer": lambda path, memory: [
        EpicDocumentTransformer(preferences=[VEGAN]),
        EpicDocumentTransformer(memory=memory),
    ],
    "EpicEmbeddings": lambda path, memory: [EpicEmbeddings()],
    "EpicGraphAdapter": lambda path, memory: [
        plugin.EpicGraphAdapter(store) for store in (store_at(path.parent / "a.vectors"), store_at(None))
    ],
    "EpicGraphRetriever": lambda path, memory: [EpicGraphRetriever(graph=path), EpicGraphRetriever(graph=memory)],
    "EpicMemoryMiddleware": lambda path, memory: [EpicMemoryMiddleware(path), EpicMemoryMiddleware(memory)],
    "EpicReranker": lambda path, memory: [plugin.EpicReranker(memory=memory)],
    "EpicRetriever": lambda path, memory: [EpicRetriever(memory=path), EpicRetriever(memory=memory)],
    "EpicStore": lambda path, memory: [items_at(path.parent / "a.store"), items_at(None)],
    "EpicTranslator": lambda path, memory: [EpicTranslator()],
    "EpicVectorStore": lambda path, memory: [
        store_at(path.parent / "b.vectors"),
        store_at(None),
        EpicVectorStore.from_memory(memory),
    ],
    "LangChainEncoder": lambda path, memory: [LangChainEncoder(EpicEmbeddings(), tau=0.2)],
    "LangChainLM": lambda path, memory: [LangChainLM(FakeListChatModel(responses=["Yes."]), concurrency=2)],
    "SteeredGraphAdapter": lambda path, memory: [
        plugin.SteeredGraphAdapter(InMemoryVectorStore.from_documents(DOCUMENTS, EpicEmbeddings()), [CASINO])
    ],
    "SteeredRetriever": lambda path, memory: [
        SteeredRetriever(
            vectorstore=InMemoryVectorStore.from_documents(DOCUMENTS, EpicEmbeddings()), preferences=[CASINO]
        )
    ],
}


def test_no_component_is_left_out() -> None:
    exported: Any = {name: getattr(plugin, name) for name in dir(plugin) if name[0] != "_"}
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
                    assert any(word in str(error) for word in ("file", "open")), error
                    continue
                assert type(again) is type(made) and asking(again) == asking(made)


def test_tools_of_an_open_memory_are_not_pickled_but_shared() -> None:
    tools = plugin.epic_tools(opened())
    with pytest.raises(EpicError, match="Share the object"):
        pickle.dumps(tools)
    assert VEGAN in copy.deepcopy(tools)[3].invoke({})
