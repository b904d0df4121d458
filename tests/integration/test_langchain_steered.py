"""`SteeredRetriever` over stores that no one here wrote."""

from __future__ import annotations

import asyncio
import copy
import json
import uuid
from collections.abc import Callable, Iterator, Sequence
from importlib.resources import files
from typing import Any

import numpy as np
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

from epic_langchain import EpicDocumentTransformer, EpicEmbeddings, EpicRetriever
from epic_langchain.steered_retriever import SteeredRetriever
from epic_memory import EpicMemory, QuerySteering, Stance
from epic_memory.encoders import default_encoder
from epic_memory.errors import DuplicatePreferenceError, EncoderMismatchError, InvalidInputError
from epic_memory.steering.vector_stores import SteeredSearch
from epic_memory.types import FloatArray
from helpers import HashEncoder, KeepAll, both
from langchain_runs import Runs

DATA = files("epic_memory") / "data"
RECORDS = [json.loads(line) for line in (DATA / "corpus.jsonl").read_text(encoding="utf-8").splitlines()]
PREFERENCES = (DATA / "preferences.txt").read_text(encoding="utf-8").splitlines()
QUESTIONS = (DATA / "questions.txt").read_text(encoding="utf-8").splitlines()
# Qdrant takes nothing but uuids.
DOCUMENTS = [
    Document(
        id=str(uuid.uuid5(uuid.NAMESPACE_URL, record["id"])),
        page_content=record["text"],
        metadata={"title": record["title"], "n": number},
    )
    for number, record in enumerate(RECORDS)
]
MODES = ["signed", "paper", "off"]
FIRST = 100  # filters leave out what comes before

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


# stores


def in_memory(embeddings: Embeddings) -> VectorStore:
    return InMemoryVectorStore(embeddings)


def chroma(embeddings: Embeddings | None, **space: str) -> VectorStore:
    chromadb = pytest.importorskip("chromadb", reason="needs langchain-chroma")
    from langchain_chroma import Chroma

    return Chroma(
        f"steered-{uuid.uuid4()}",
        embedding_function=embeddings,
        client=chromadb.EphemeralClient(chromadb.Settings(anonymized_telemetry=False)),
        collection_configuration={"hnsw": {"ef_search": 400, **space}},
    )


def qdrant(embeddings: Embeddings) -> VectorStore:
    pytest.importorskip("langchain_qdrant", reason="needs langchain-qdrant")
    from langchain_qdrant import QdrantVectorStore
    from qdrant_client import QdrantClient
    from qdrant_client.models import Distance, VectorParams

    client = QdrantClient(":memory:")
    size = len(embeddings.embed_query("size"))
    client.create_collection("steered", vectors_config=VectorParams(size=size, distance=Distance.COSINE))
    return QdrantVectorStore(client, "steered", embedding=embeddings)


STORES: dict[str, Callable[[Embeddings], VectorStore]] = {
    "InMemoryVectorStore": in_memory,
    "Chroma": chroma,
    "Qdrant": qdrant,
}


def own_filter(name: str) -> dict[str, Any]:
    """Leaves out what comes before FIRST, in the language of a store."""
    if name == "InMemoryVectorStore":
        return {"filter": lambda document: document.metadata["n"] >= FIRST}
    if name == "Chroma":
        return {"filter": {"n": {"$gte": FIRST}}}
    from qdrant_client.models import FieldCondition, Filter, Range

    return {"filter": Filter(must=[FieldCondition(key="metadata.n", range=Range(gte=FIRST))])}


@pytest.fixture(scope="module", params=STORES)
def filled(request: pytest.FixtureRequest) -> tuple[str, VectorStore]:
    store = STORES[request.param](EpicEmbeddings())
    store.add_documents(copy.deepcopy(DOCUMENTS), ids=[document.id for document in DOCUMENTS])
    return request.param, store


@pytest.fixture(scope="module")
def hotels() -> InMemoryVectorStore:
    store = InMemoryVectorStore(EpicEmbeddings())
    store.add_documents([Document(id=str(n), page_content=text, metadata={"n": n}) for n, text in enumerate(HOTELS)])
    return store


def texts(documents: Sequence[Document]) -> list[str]:
    return [document.page_content for document in documents]


@pytest.fixture(scope="module")
def vectors() -> FloatArray:
    return default_encoder().encode(texts(DOCUMENTS)).astype(np.float64)


def expected(search: SteeredSearch, vectors: FloatArray, question: str, mode: Any, first: int) -> list[Any]:
    """What an exact store gives, with scores."""
    documents, own = DOCUMENTS[first:], vectors[first:]

    def fetch(vector: list[float], count: int) -> list[Document]:
        return [documents[row] for row in np.argsort(-(own @ np.array(vector)), kind="stable")[:count]]

    target = search.target(default_encoder().encode([question])[0], PREFERENCES, mode, question)
    found = search.find(target, 6, fetch, lambda document: (document.page_content, document.metadata))
    return [(one.document.page_content, one.score) for one in found]


# the same in all stores


@pytest.mark.parametrize(("mode", "overfetch", "first"), [("signed", 2, 0), ("signed", 1, FIRST), ("paper", 2, FIRST)])
async def test_every_store_gives_the_same_documents_in_the_same_order(
    filled: tuple[str, VectorStore], vectors: FloatArray, mode: Any, overfetch: int, first: int
) -> None:
    name, store = filled
    search = SteeredSearch(default_encoder(), overfetch=overfetch)
    search_kwargs = own_filter(name) if first else {}
    retriever = SteeredRetriever(
        vectorstore=store, preferences=PREFERENCES, steering=mode, overfetch=overfetch, k=6, search_kwargs=search_kwargs
    )
    for question in QUESTIONS:
        found = await both(retriever, "invoke", question)
        wanted = expected(search, vectors, question, mode, first)
        assert texts(found) == [text for text, _ in wanted]
        scores = [document.metadata.get("epic_score") for document in found]
        assert scores == [None if score is None else pytest.approx(score, abs=1e-5) for _, score in wanted]
        assert all(document.metadata["n"] >= first for document in found)


@pytest.mark.parametrize("mode", ["signed", "off"])
async def test_a_filter_of_a_call_is_the_stores_own(filled: tuple[str, VectorStore], mode: Any) -> None:
    name, store = filled
    filters = own_filter(name)
    constructed = SteeredRetriever(vectorstore=store, preferences=PREFERENCES, steering=mode, search_kwargs=filters)
    plain = SteeredRetriever(vectorstore=store, preferences=PREFERENCES, steering=mode)
    wanted = constructed.invoke(QUESTIONS[0])
    assert plain.invoke(QUESTIONS[0], filter=filters["filter"]) == wanted
    assert await plain.ainvoke(QUESTIONS[0], {"configurable": {"epic_filter": filters["filter"]}}) == wanted


async def test_off_is_the_stores_own_search(filled: tuple[str, VectorStore]) -> None:
    _, store = filled
    retriever = SteeredRetriever(vectorstore=store, preferences=PREFERENCES, steering="off", k=7)
    for question in QUESTIONS:
        own = store.similarity_search(question, k=7)
        assert retriever.invoke(question) == await retriever.ainvoke(question) == own


async def test_a_store_keeps_what_it_holds(filled: tuple[str, VectorStore]) -> None:
    _, store = filled
    retriever = SteeredRetriever(vectorstore=store, preferences=PREFERENCES)
    for document in (*retriever.invoke(QUESTIONS[0]), *await retriever.ainvoke(QUESTIONS[0], steering="off")):
        document.metadata["title"] = "changed"
    for document in store.similarity_search(QUESTIONS[0], k=5):
        assert document.metadata["title"] != "changed"
        assert not any(key.startswith("epic_") for key in document.metadata)


@pytest.mark.parametrize("name", STORES)
async def test_vectors_of_another_dimension_are_a_clear_error(name: str) -> None:
    store = STORES[name](EpicEmbeddings(HashEncoder(32)))
    store.add_texts(["A hotel with a casino.", "A quiet hotel."])
    retriever = SteeredRetriever(vectorstore=store, preferences=[AVOIDS], embeddings=EpicEmbeddings())
    with pytest.raises(EncoderMismatchError, match="Give embeddings="):
        await both(retriever, "invoke", QUERY)


# what comes back


def test_documents_say_what_steered_them(hotels: InMemoryVectorStore) -> None:
    retriever = SteeredRetriever(vectorstore=hotels, preferences=[AVOIDS, "I collect stamps.", LIKES], floor=0.2, k=2)
    steered = QuerySteering(default_encoder(), [AVOIDS, LIKES], floor=0.2).steer(QUERY)
    for document in retriever.invoke(QUERY):
        assert document.metadata["epic_steered_by"] == "\n".join(one.preference.text for one in steered.preferences)
        assert json.loads(json.dumps(document.metadata)) == document.metadata
    for document in retriever.invoke(QUERY, steering="paper"):
        assert set(document.metadata) == {"n", "epic_steered_by"}
    for document in retriever.invoke(QUERY, steering="off") + retriever.invoke("xylophone quantum zebra"):
        assert set(document.metadata) == {"n"}


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
        assert isinstance(document, Page)
        assert document.page == 7
        assert document.id in hotels.store


def test_stances_that_a_transformer_found_rank_documents() -> None:
    texts = [f"Hotel number {n}, a hotel like any other hotel." for n in range(6)]
    stances = {"number 1,": Stance.CONFLICTS, "number 2,": Stance.CONFLICTS, "number 3,": Stance.MIXED}
    transformer = EpicDocumentTransformer(preferences=[AVOIDS], llm=KeepAll(stances), settings=Settings(tau=-1.0))
    store = InMemoryVectorStore(EpicEmbeddings())
    store.add_documents(transformer.transform_documents([Document(page_content=text) for text in texts]))
    retriever = SteeredRetriever(vectorstore=store, preferences=[AVOIDS], k=6, floor=0.0)
    found = retriever.invoke("hotel")
    assert [document.metadata["epic_stance"] for document in found[-3:]] == ["mixed", "conflicts", "conflicts"]
    others = SteeredRetriever(vectorstore=store, preferences=["I avoid hotels that have a casino"], k=6, floor=0.0)
    assert all(type(document.metadata["epic_score"]) is float for document in found)
    # Another user's stances do not count.
    assert not any("epic_score" in document.metadata for document in others.invoke("hotel"))


# a call's own options


@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    k=st.integers(1, 8),
    mode=st.sampled_from(MODES),
    preferences=st.lists(st.sampled_from([*PREFERENCES, AVOIDS, LIKES]), max_size=3, unique=True),
    question=st.sampled_from([*QUESTIONS, QUERY]),
)
def test_a_calls_options_give_what_a_retriever_made_with_them_gives(
    hotels: InMemoryVectorStore, k: int, mode: Any, preferences: list[str], question: str
) -> None:
    made = SteeredRetriever(vectorstore=hotels, preferences=preferences, steering=mode, k=k)
    other = SteeredRetriever(vectorstore=hotels, preferences=[LIKES], steering="paper", k=2)
    wanted = made.invoke(question)
    options = {"k": k, "steering": mode, "preferences": preferences}
    assert len(wanted) == min(k, len(HOTELS))
    assert other.invoke(question, **options) == wanted
    config: Any = {"configurable": {f"epic_{name}": value for name, value in options.items()}}
    config["configurable"]["thread_id"] = "someone else's"
    assert other.invoke(question, config) == wanted
    assert asyncio.run(other.ainvoke(question, **options)) == wanted
    assert asyncio.run(other.ainvoke(question, config)) == wanted
    assert other.invoke(question) == SteeredRetriever(
        vectorstore=hotels, preferences=[LIKES], steering="paper", k=2
    ).invoke(question)


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


@pytest.mark.parametrize("preferences", [[], ["I collect stamps."]])
async def test_a_query_that_matches_no_preference_goes_to_the_fallback(
    hotels: InMemoryVectorStore, preferences: list[str]
) -> None:
    pages = copy.deepcopy(PAGES)
    retriever = SteeredRetriever(vectorstore=hotels, preferences=preferences, fallback=Web(found=pages), k=3)
    found = await both(retriever, "invoke", QUERY)
    assert texts(found) == ["Page 0", "Page 1", "Page 2"]
    assert [document.metadata for document in found] == [{"n": n, "epic_tier": "fallback"} for n in range(3)]
    assert pages == PAGES
    assert texts(retriever.invoke(QUERY, preferences=[AVOIDS])) != texts(found)


async def test_off_never_asks_the_fallback(hotels: InMemoryVectorStore) -> None:
    retriever = SteeredRetriever(vectorstore=hotels, fallback=Web(found=PAGES), steering="off")
    own = hotels.similarity_search(QUERY, k=5)
    assert retriever.invoke(QUERY) == await retriever.ainvoke(QUERY) == own


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


@pytest.mark.parametrize("answer", [None, "text", ["text"]])
async def test_a_fallback_that_returns_no_documents_is_an_error(hotels: InMemoryVectorStore, answer: Any) -> None:
    retriever = SteeredRetriever(vectorstore=hotels, fallback=RunnableLambda(lambda query: answer))
    with pytest.raises(InvalidInputError, match="fallback returned"):
        await both(retriever, "invoke", QUERY)


# callbacks


def test_traces_name_the_store_and_the_embeddings(hotels: InMemoryVectorStore) -> None:
    params = SteeredRetriever(vectorstore=hotels)._get_ls_params()
    assert params["ls_retriever_name"] == "steered"
    assert params["ls_vector_store_provider"] == "InMemoryVectorStore"
    assert params["ls_embedding_provider"] == "StaticEncoder"


# embeddings


async def test_the_async_way_gives_the_same_and_embeds_nothing_on_the_event_loop() -> None:
    encoder = HashEncoder()
    store = InMemoryVectorStore(EpicEmbeddings(encoder))
    store.add_texts(HOTELS)
    encoder.sync_threads.clear()
    retriever = SteeredRetriever(vectorstore=store, preferences=[AVOIDS, LIKES], floor=0.05)
    found = await retriever.ainvoke("hotels with a garden")
    assert not encoder.sync_threads
    assert retriever.invoke("hotels with a garden") == found


def test_a_store_that_does_not_know_its_embeddings_needs_them() -> None:
    store = chroma(None)
    with pytest.raises(
        ValidationError, match=r"Chroma does not say what its texts were embedded with\. Give embeddings="
    ):
        SteeredRetriever(vectorstore=store, preferences=[AVOIDS])
    store._collection.add(  # type: ignore[attr-defined]
        ids=["1", "2"], documents=HOTELS[:2], embeddings=default_encoder().encode(HOTELS[:2])
    )
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


async def test_a_stores_own_errors_stay_what_they_are(hotels: InMemoryVectorStore) -> None:
    def raising(document: Document) -> bool:
        raise KeyError("color")

    retriever = SteeredRetriever(vectorstore=hotels, preferences=[AVOIDS])
    with pytest.raises(KeyError, match="color"):
        await both(retriever, "invoke", QUERY, filter=raising)


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"k": 0}, "at least 1"),
        ({"k": True}, "at least 1"),
        ({"k": 2.5}, "at least 1"),
        ({"steering": "sideways"}, "paper"),
        ({"floor": 1.5}, "floor"),
        ({"overfetch": 0}, "overfetch"),
        ({"preferences": [""]}, "empty"),
        ({"preferences": [AVOIDS, AVOIDS]}, "twice"),
        ({"preferences": 7}, "several texts"),
        ({"fallback": "web"}, "fallback"),
        ({"embeddings": "MiniLM"}, "embeddings must be"),
        ({"vectorstore": "Chroma"}, "vectorstore"),
        ({"search_kwargs": {"k": 3}}, "place of its own"),
        ({"top_k": 3}, "top_k"),
    ],
)
def test_an_argument_that_cannot_be_is_an_error(
    hotels: InMemoryVectorStore, options: dict[str, Any], what: str
) -> None:
    with pytest.raises((ValidationError, InvalidInputError), match=what):
        SteeredRetriever(**{"vectorstore": hotels, "preferences": [AVOIDS], **options})


def test_attributes_can_be_changed_and_are_checked(hotels: InMemoryVectorStore) -> None:
    retriever = SteeredRetriever(vectorstore=hotels, preferences=[AVOIDS], k=1)
    retriever.steering = "off"
    assert retriever.invoke(QUERY) == hotels.similarity_search(QUERY, k=1)
    retriever.steering = "signed"
    retriever.preferences = ["I like casinos and poker."]
    retriever.overfetch = 1
    (document,) = retriever.invoke(QUERY)
    assert document.metadata["epic_steered_by"] == "I like casinos and poker."
    assert "epic_score" not in document.metadata
    with pytest.raises(ValidationError, match="at least 1"):
        retriever.k = 0


@pytest.fixture(autouse=True, scope="module")
def _closed() -> Iterator[None]:
    yield
    # Chroma's clients in RAM share one system, which would outlive the module.
    try:
        from chromadb.api.client import SharedSystemClient
    except ImportError:
        return
    SharedSystemClient.clear_system_cache()
