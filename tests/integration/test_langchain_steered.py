"""`SteeredRetriever` of LangChain: what a call takes, its runs, and stores that cannot do all."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from epic_memory import Settings

pytest.importorskip("langchain_core", reason="needs the extra langchain")

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda
from langchain_core.vectorstores import InMemoryVectorStore, VectorStore
from pydantic import ValidationError

from epic_langchain import EpicEmbeddings, EpicRetriever
from epic_langchain.steered_retriever import SteeredRetriever
from epic_memory import EpicMemory
from epic_memory.encoders import default_encoder
from epic_memory.errors import DuplicatePreferenceError, InvalidInputError
from helpers import both
from langchain_runs import Runs

MODES = ["signed", "paper", "off"]

AVOIDS = "I avoid hotels with casinos."
LIKES = "I love quiet hotels with a garden."
QUERY = "Which hotel should I book in Las Vegas?"
HOTELS = [
    "A hotel with a casino, slot machines and poker.",
    "A quiet hotel with a garden.",
    "A bank in the old town.",
    "The hotels of the strip have casinos.",
    "A train to the mountains.",
]


@pytest.fixture(scope="module")
def hotels() -> InMemoryVectorStore:
    store = InMemoryVectorStore(EpicEmbeddings())
    store.add_documents([Document(id=str(n), page_content=text, metadata={"n": n}) for n, text in enumerate(HOTELS)])
    return store


def texts(documents: Sequence[Document]) -> list[str]:
    return [document.page_content for document in documents]


@pytest.mark.parametrize("mode", ["signed", "off"])
async def test_a_filter_of_a_call_is_the_stores_own(hotels: InMemoryVectorStore, mode: Any) -> None:
    def late(document: Document) -> bool:
        return bool(document.metadata["n"] > 1)

    given: Any = {"vectorstore": hotels, "preferences": [AVOIDS], "steering": mode}
    constructed, plain = SteeredRetriever(**given, search_kwargs={"filter": late}), SteeredRetriever(**given)
    wanted = constructed.invoke(QUERY)
    assert {document.metadata["n"] for document in wanted} == {2, 3, 4}
    assert plain.invoke(QUERY, filter=late) == wanted
    assert await plain.ainvoke(QUERY, {"configurable": {"epic_filter": late}}) == wanted
    with pytest.raises(InvalidInputError, match="filter of its own"):
        await both(constructed, "invoke", QUERY, filter=late)
    for wrong, what in (({"search_kwargs": {"k": 3}}, "place of its own"), ({"vectorstore": "Chroma"}, "vectorstore")):
        with pytest.raises(ValidationError, match=what):
            SteeredRetriever(**{**given, **wrong})


def test_documents_keep_their_class_and_id(hotels: InMemoryVectorStore) -> None:
    class Page(Document):
        page: int = 0

    class Pages(InMemoryVectorStore):
        def similarity_search_by_vector(self, embedding: list[float], k: int = 4, **kwargs: Any) -> list[Document]:
            found = super().similarity_search_by_vector(embedding, k, **kwargs)
            return [Page(**document.model_dump(exclude={"type"}), page=7) for document in found]

    store = Pages(EpicEmbeddings())
    store.store = hotels.store
    for document in SteeredRetriever(vectorstore=store, preferences=[AVOIDS]).invoke(QUERY):
        assert isinstance(document, Page) and document.page == 7 and document.id in hotels.store


# a call's own options


@settings(deadline=None, max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    k=st.integers(1, 8),
    mode=st.sampled_from(MODES),
    preferences=st.lists(st.sampled_from([AVOIDS, LIKES, "I collect stamps."]), max_size=3, unique=True),
    question=st.sampled_from(["Where is a garden?", QUERY]),
)
def test_a_calls_options_give_what_a_retriever_made_with_them_gives(
    hotels: InMemoryVectorStore, k: int, mode: Any, preferences: list[str], question: str
) -> None:
    made = SteeredRetriever(vectorstore=hotels, preferences=preferences, steering=mode, k=k)
    other = SteeredRetriever(vectorstore=hotels, preferences=[LIKES], steering="paper", k=2)
    wanted, own = made.invoke(question), other.invoke(question)
    options = {"k": k, "steering": mode, "preferences": preferences}
    assert len(wanted) == min(k, len(HOTELS))
    assert other.invoke(question, **options) == wanted
    config: Any = {"configurable": {f"epic_{name}": value for name, value in options.items()}}
    config["configurable"]["thread_id"] = "someone else's"
    assert other.invoke(question, config) == wanted
    assert asyncio.run(other.ainvoke(question, **options)) == wanted
    assert asyncio.run(other.ainvoke(question, config)) == wanted
    assert other.invoke(question) == own


async def test_one_retriever_serves_many_users_at_once(hotels: InMemoryVectorStore) -> None:
    retriever = SteeredRetriever(vectorstore=hotels, k=1)
    configs: list[Any] = [
        {"configurable": {"epic_preferences": [one]}} for one in (LIKES, "I love hotels with a casino.")
    ] * 4
    wanted = [retriever.invoke(QUERY, config) for config in configs]
    assert texts(wanted[0]) != texts(wanted[1])
    assert retriever.batch([QUERY] * 8, configs) == wanted
    assert await retriever.abatch([QUERY] * 8, configs) == wanted


WRONG_CALLS: list[tuple[type[Exception], str, str, dict[str, Any]]] = [
    (TypeError, "top_k", QUERY, {"top_k": 3}),
    *((InvalidInputError, "query", query, {}) for query in ("", "  ", "\x00")),
    *((InvalidInputError, "at least 1", QUERY, {"k": k}) for k in (0, True, "3")),
    (InvalidInputError, "sideways", QUERY, {"steering": "sideways"}),
    (InvalidInputError, "empty", QUERY, {"preferences": [" "]}),
    (InvalidInputError, "string", QUERY, {"preferences": [3]}),
    (DuplicatePreferenceError, "twice", QUERY, {"preferences": [AVOIDS, AVOIDS.upper()]}),
]


@pytest.mark.parametrize(("error", "what", "query", "options"), WRONG_CALLS)
async def test_a_call_that_cannot_be_is_an_error(
    hotels: InMemoryVectorStore, error: type[Exception], what: str, query: str, options: dict[str, Any]
) -> None:
    retriever = SteeredRetriever(vectorstore=hotels, preferences=[AVOIDS])
    with pytest.raises(error, match=what):
        await both(retriever, "invoke", query, **options)
    if error is not TypeError:
        with pytest.raises(error, match=what):
            retriever.invoke(query, {"configurable": {f"epic_{name}": value for name, value in options.items()}})


# the fallback


class Web(BaseRetriever):
    """A retriever with documents of its own."""

    found: list[Document]

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        return self.found


PAGES = [Document(page_content=f"Page {n}", metadata={"n": n}) for n in range(4)]


async def test_the_fallback_is_a_run_below_the_retrievers(hotels: InMemoryVectorStore) -> None:
    retriever = SteeredRetriever(vectorstore=hotels, fallback=Web(found=PAGES))
    for runs, call in ((Runs(), retriever.invoke), (Runs(), retriever.ainvoke)):
        found = call(QUERY, {"callbacks": [runs], "run_name": "outer"})
        if asyncio.iscoroutine(found):
            await found
        outer, web = runs.of_kind("retriever")
        assert (outer.name, outer.parent) == ("outer", None) and runs.above(web) == [outer]
        assert web.name == "Web" and outer.found and web.found == PAGES


async def test_the_fallback_is_given_what_the_call_is_configured_with(hotels: InMemoryVectorStore) -> None:
    memory = EpicMemory([AVOIDS], settings=Settings(namespace="ada", tau=-1.0))
    memory.add(["A hotel that Ada knows."])
    fallback = EpicRetriever(memory=memory)
    retriever = SteeredRetriever(vectorstore=hotels, fallback=fallback)
    for namespace, count in (("ada", 1), ("bob", 0)):
        config: Any = {"configurable": {"epic_namespace": namespace}}
        assert len(retriever.invoke(QUERY, config)) == len(await retriever.ainvoke(QUERY, config)) == count


def test_any_runnable_that_returns_documents_can_be_the_fallback(hotels: InMemoryVectorStore) -> None:
    fallback = RunnableLambda(lambda query: [Document(page_content=f"About {query}")])
    retriever = SteeredRetriever(vectorstore=hotels, fallback=fallback)
    assert texts(retriever.invoke("stamps")) == ["About stamps"]


# embeddings


def test_traces_name_the_store_and_the_embeddings(hotels: InMemoryVectorStore) -> None:
    params = SteeredRetriever(vectorstore=hotels)._get_ls_params()
    assert params["ls_retriever_name"] == "steered"
    assert params["ls_vector_store_provider"] == "InMemoryVectorStore"
    assert params["ls_embedding_provider"] == "StaticEncoder"


def test_a_store_that_does_not_know_its_embeddings_needs_them() -> None:
    class Silent(InMemoryVectorStore):
        @property
        def embeddings(self) -> Any:
            return None

    store = Silent(EpicEmbeddings())
    store.add_texts(HOTELS[:2])
    with pytest.raises(ValidationError, match=r"Silent does not say .* embedded with\. Give embeddings="):
        SteeredRetriever(vectorstore=store, preferences=[AVOIDS])
    for embeddings in (EpicEmbeddings(), default_encoder()):
        retriever = SteeredRetriever(vectorstore=store, preferences=[AVOIDS], embeddings=embeddings)
        assert texts(retriever.invoke("Which hotel should I book?"))[0] == HOTELS[1]


# what cannot be


class ByTextOnly(VectorStore):
    """A store that cannot search by vector."""

    @property
    def embeddings(self) -> Embeddings:
        return EpicEmbeddings()

    def similarity_search(self, query: str, k: int = 4, **kwargs: Any) -> list[Document]:
        return []

    @classmethod
    def from_texts(cls, *args: Any, **kwargs: Any) -> ByTextOnly:
        return cls()


@pytest.mark.parametrize("mode", ["signed", "off"])
async def test_a_store_that_cannot_search_by_vector_is_a_clear_error(mode: Any) -> None:
    retriever = SteeredRetriever(vectorstore=ByTextOnly(), preferences=[AVOIDS], steering=mode)
    with pytest.raises(InvalidInputError, match="ByTextOnly cannot search by vector"):
        await both(retriever, "invoke", QUERY)
