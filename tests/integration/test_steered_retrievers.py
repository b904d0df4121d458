"""`SteeredRetriever` of both plugins over stores that no one here wrote."""

from __future__ import annotations

import copy
import json
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from typing import Any

import numpy as np
import pytest

pytest.importorskip("langchain_core", reason="needs the extra langchain")
pytest.importorskip("llama_index.core", reason="needs the extra llamaindex")

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.retrievers import BaseRetriever as LangChainRetriever
from langchain_core.vectorstores import InMemoryVectorStore, VectorStore
from llama_index.core import VectorStoreIndex
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from llama_index.core.vector_stores import MetadataFilter, MetadataFilters
from pydantic import ValidationError

import epic_langchain as lc
import epic_llamaindex as li
from epic_memory import QuerySteering, Settings, Stance
from epic_memory.encoders import default_encoder
from epic_memory.errors import EncoderMismatchError, InvalidInputError
from epic_memory.runtime.effects import Call, in_thread, run
from epic_memory.types import FloatArray
from epic_plugins.vector_stores import SteeredSearch
from helpers import HashEncoder, KeepAll, both
from tables import table

DATA = files("epic_memory") / "data"
RECORDS = [json.loads(line) for line in (DATA / "corpus.jsonl").read_text(encoding="utf-8").splitlines()]
PREFERENCES = (DATA / "preferences.txt").read_text(encoding="utf-8").splitlines()
QUESTIONS = (DATA / "questions.txt").read_text(encoding="utf-8").splitlines()
TEXTS = [record["text"] for record in RECORDS]
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


@dataclass(frozen=True)
class Found:
    """A result of either plugin; the score is the one by which stances ranked, or None."""

    text: str
    score: float | None
    metadata: dict[str, Any]


def chroma(embeddings: Embeddings) -> VectorStore:
    chromadb = pytest.importorskip("chromadb", reason="needs langchain-chroma")
    from langchain_chroma import Chroma

    return Chroma(
        f"steered-{uuid.uuid4()}",
        embedding_function=embeddings,
        client=chromadb.EphemeralClient(chromadb.Settings(anonymized_telemetry=False)),
        collection_configuration={"hnsw": {"ef_search": 400}},
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
    "InMemoryVectorStore": InMemoryVectorStore,
    "Chroma": chroma,
    "Qdrant": qdrant,
}
EVERY = [*STORES, "VectorStoreIndex"]


def own_filter(name: str) -> Any:
    """Leaves out what comes before FIRST, in the language of a store."""
    if name == "InMemoryVectorStore":
        return lambda document: document.metadata["n"] >= FIRST
    if name == "Chroma":
        return {"n": {"$gte": FIRST}}
    if name == "VectorStoreIndex":
        return MetadataFilters(filters=[MetadataFilter(key="n", value=FIRST, operator=">=")])
    from qdrant_client.models import FieldCondition, Filter, Range

    return Filter(must=[FieldCondition(key="metadata.n", range=Range(gte=FIRST))])


def filled(name: str, texts: Sequence[str], encoder: Any = None, metadatas: Any = None) -> Any:
    """A store or an index that holds texts, whose metadata has their numbers."""
    metadatas = [{"n": n} for n in range(len(texts))] if metadatas is None else metadatas
    if name == "VectorStoreIndex":
        # An index embeds metadata, too, which these are kept out of: their texts are what is ranked.
        keys = [{"excluded_embed_metadata_keys": list(metadata)} for metadata in metadatas]
        nodes = [
            TextNode(id_=str(n), text=t, metadata=m, **k)
            for n, (t, m, k) in enumerate(zip(texts, metadatas, keys, strict=True))
        ]
        return VectorStoreIndex(nodes, embed_model=li.EpicEmbedding(encoder))
    store = STORES[name](lc.EpicEmbeddings(encoder))
    ids = [str(uuid.uuid5(uuid.NAMESPACE_URL, str(n))) for n in range(len(texts))]  # Qdrant takes nothing else
    pairs = zip(ids, texts, metadatas, strict=True)
    store.add_documents([Document(id=i, page_content=t, metadata=m) for i, t, m in pairs], ids=ids)
    return store


def steered(held: Any, preferences: Any = (), *, k: int = 5, filter: Any = None, **options: Any) -> Any:
    """A retriever over what `filled` gives."""
    if not isinstance(held, VectorStoreIndex):
        kwargs = {} if filter is None else {"search_kwargs": {"filter": filter}}
        return lc.SteeredRetriever(vectorstore=held, preferences=preferences, k=k, **kwargs, **options)
    leaf = held.as_retriever(similarity_top_k=k, filters=filter)
    return li.SteeredRetriever(leaf, preferences, annotate=True, **options)


async def found(retriever: Any, query: str = QUERY) -> list[Found]:
    """What a retriever finds, the same in either way."""
    results = await both(retriever, "invoke" if hasattr(retriever, "invoke") else "retrieve", query)
    assert all(not isinstance(one, NodeWithScore) or type(one.score) is float for one in results)
    return [
        Found(one.page_content, one.metadata.get("epic_score"), one.metadata)
        if isinstance(one, Document)
        else Found(one.text, one.node.metadata.get("epic_score"), one.node.metadata)
        for one in results
    ]


def texts(results: Sequence[Found]) -> list[str]:
    return [one.text for one in results]


@pytest.fixture(scope="module", params=EVERY)
def corpus(request: pytest.FixtureRequest) -> tuple[str, Any]:
    return request.param, filled(request.param, TEXTS)


@pytest.fixture(scope="module", params=["InMemoryVectorStore", "VectorStoreIndex"])
def hotels(request: pytest.FixtureRequest) -> Any:
    return filled(request.param, HOTELS)


@pytest.fixture(scope="module")
def vectors() -> FloatArray:
    return default_encoder().encode(TEXTS).astype(np.float64)


def expected(search: SteeredSearch, vectors: FloatArray, question: str, mode: Any, first: int) -> list[Any]:
    """What an exact store gives, with the scores by which stances ranked."""

    def nearest(vector: list[float], count: int) -> list[str]:
        return [TEXTS[first:][row] for row in np.argsort(-(vectors[first:] @ np.array(vector)), kind="stable")[:count]]

    def fetch(vector: list[float], count: int) -> Call:
        return Call(nearest, partial(in_thread, nearest), vector, count)

    target = run(search.target(default_encoder().encode([question])[0], PREFERENCES, mode, question))
    return [(one.document, one.score) for one in run(search.find(target, 6, fetch, lambda text: (text, {})))]


# the same over all stores


@pytest.mark.parametrize(("mode", "overfetch", "first"), [("signed", 2, 0), ("signed", 1, FIRST), ("paper", 2, FIRST)])
async def test_every_store_gives_the_same_texts_in_the_same_order(
    corpus: tuple[str, Any], vectors: FloatArray, mode: Any, overfetch: int, first: int
) -> None:
    name, store = corpus
    search = SteeredSearch(default_encoder(), overfetch=overfetch)
    filters = own_filter(name) if first else None
    retriever = steered(store, PREFERENCES, steering=mode, overfetch=overfetch, k=6, filter=filters)
    for question in QUESTIONS:
        results, wanted = await found(retriever, question), expected(search, vectors, question, mode, first)
        assert texts(results) == [text for text, _ in wanted]
        assert [one.score for one in results] == [
            None if score is None else pytest.approx(score, abs=1e-5) for _, score in wanted
        ]
        assert all(one.metadata["n"] >= first for one in results)


async def test_off_is_the_stores_own_search(corpus: tuple[str, Any]) -> None:
    _, store = corpus
    retriever = steered(store, PREFERENCES, steering="off", k=7)
    for question in QUESTIONS:
        if isinstance(store, VectorStoreIndex):
            own: Any = store.as_retriever(similarity_top_k=7).retrieve(question)
            assert retriever.retrieve(question) == await retriever.aretrieve(question) == own
        else:
            own = store.similarity_search(question, k=7)
            assert retriever.invoke(question) == await retriever.ainvoke(question) == own


@pytest.mark.parametrize("mode", MODES)
async def test_a_store_keeps_what_it_holds(corpus: tuple[str, Any], mode: Any) -> None:
    _, store = corpus
    for one in await found(steered(store, PREFERENCES, steering=mode), QUESTIONS[0]):
        one.metadata["n"] = "changed"
    for one in await found(steered(store, PREFERENCES, steering="off"), QUESTIONS[0]):
        assert type(one.metadata["n"]) is int and not any(key.startswith("epic_") for key in one.metadata)


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("mode", ["signed", "off"])
async def test_vectors_of_another_dimension_are_a_clear_error(name: str, mode: Any) -> None:
    store = filled(name, HOTELS, HashEncoder(32))
    if name == "VectorStoreIndex":
        leaf = store.as_retriever(embed_model=li.EpicEmbedding())
        retriever: Any = li.SteeredRetriever(leaf, [AVOIDS], steering=mode)
    else:
        retriever = steered(store, [AVOIDS], embeddings=lc.EpicEmbeddings(), steering=mode)
    with pytest.raises(EncoderMismatchError, match=r"Give embeddings=|make the index anew"):
        await found(retriever)


# what comes back


async def test_results_say_what_steered_them(hotels: Any) -> None:
    preferences = [AVOIDS, "I collect stamps.", LIKES]
    wanted = QuerySteering(default_encoder(), [AVOIDS, LIKES], floor=0.2).steer(QUERY)
    for one in await found(steered(hotels, preferences, floor=0.2)):
        assert one.metadata["epic_steered_by"] == "\n".join(each.preference.text for each in wanted.preferences)
        assert json.loads(json.dumps(one.metadata)) == one.metadata
    for one in await found(steered(hotels, preferences, steering="paper")):
        assert set(one.metadata) == {"n", "epic_steered_by"}
    off = await found(steered(hotels, preferences, steering="off"))
    for one in off + await found(steered(hotels, preferences, floor=0.2), "xylophone quantum zebra"):
        assert set(one.metadata) == {"n"}


@pytest.mark.parametrize("name", ["InMemoryVectorStore", "VectorStoreIndex"])
async def test_stances_that_were_found_before_rank_results(name: str) -> None:
    hotels = [f"Hotel number {n}, a hotel like any other hotel." for n in range(6)]
    stances = {"number 1,": Stance.CONFLICTS, "number 2,": Stance.CONFLICTS, "number 3,": Stance.MIXED}
    how: Any = {"preferences": [AVOIDS], "llm": KeepAll(stances), "settings": Settings(tau=-1.0)}
    kept = lc.EpicDocumentTransformer(**how).invoke([Document(page_content=text) for text in hotels])
    again = li.EpicTransform(**how)([TextNode(text=text) for text in hotels])
    assert [document.metadata for document in kept] == [node.metadata for node in again]
    store = filled(name, hotels, metadatas=[document.metadata for document in kept])
    results = await found(steered(store, [AVOIDS], k=6, floor=0.0), "hotel")
    assert [one.metadata["epic_stance"] for one in results[-3:]] == ["mixed", "conflicts", "conflicts"]
    scores = [one.score for one in results]
    assert all(type(score) is float for score in scores) and scores == sorted(scores, key=lambda s: -(s or 0.0))
    # Another user's stances do not count.
    others = await found(steered(store, ["I avoid hotels that have a casino"], k=6, floor=0.0), "hotel")
    assert {one.score for one in others} == {None}
    # More is fetched where a result stands against a preference.
    question = "Which hotel should I book, number 1 or number 2?"
    for overfetch, wanted in ((1, {hotels[1], hotels[2]}), (3, {hotels[n] for n in (0, 3, 4, 5)})):
        near = await found(steered(store, [AVOIDS], k=2, floor=0.0, overfetch=overfetch), question)
        assert len(near) == 2 and set(texts(near)) <= wanted


# the fallback


class Web(LangChainRetriever):
    """A retriever of LangChain with documents of its own."""

    pages: Any

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        return self.pages  # type: ignore[no-any-return]


class Pages(BaseRetriever):
    """A retriever of LlamaIndex with nodes of its own."""

    def __init__(self, pages: Any) -> None:
        self.pages = pages
        super().__init__()

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return self.pages  # type: ignore[no-any-return]

    def retrieve(self, str_or_query_bundle: Any) -> Any:
        return self.pages

    async def aretrieve(self, str_or_query_bundle: Any) -> Any:
        return self.pages


def fallback(store: Any, pages: Any = None) -> Any:
    numbers = range(3)
    if isinstance(store, VectorStoreIndex):
        nodes = [TextNode(text=f"Page {n}", metadata={"n": n}) for n in numbers]
        return Pages([NodeWithScore(node=node, score=1.0) for node in nodes] if pages is None else pages)
    documents = [Document(page_content=f"Page {n}", metadata={"n": n}) for n in numbers]
    return Web(pages=documents if pages is None else pages)


@pytest.mark.parametrize("preferences", [[], ["I collect stamps."]])
async def test_a_query_that_matches_no_preference_goes_to_the_fallback(hotels: Any, preferences: list[str]) -> None:
    asked = fallback(hotels)
    before = copy.deepcopy(asked.pages)
    results = await found(steered(hotels, preferences, fallback=asked, k=3))
    assert texts(results) == ["Page 0", "Page 1", "Page 2"]
    assert [one.metadata for one in results] == [{"n": n, "epic_tier": "fallback"} for n in range(3)]
    assert asked.pages == before
    assert texts(await found(steered(hotels, [AVOIDS], fallback=asked, k=3))) != texts(results)
    off = await found(steered(hotels, preferences, fallback=asked, steering="off"))
    assert off == await found(steered(hotels, preferences, steering="off"))


@pytest.mark.parametrize("answer", ["text", ["text"], 7])
async def test_a_fallback_that_returns_something_else_is_an_error(hotels: Any, answer: Any) -> None:
    with pytest.raises(InvalidInputError, match=rf"fallback returned {type(answer).__name__}"):
        await found(steered(hotels, fallback=fallback(hotels, answer)))


# what cannot be


@pytest.mark.parametrize(
    ("options", "what"),
    [*table(__file__, "an_argument_that_cannot_be_is_an_error"), ({"preferences": [AVOIDS, AVOIDS]}, "twice")],
    ids=str,
)
def test_an_argument_that_cannot_be_is_an_error(hotels: Any, options: dict[str, Any], what: str) -> None:
    if isinstance(hotels, VectorStoreIndex) and "k" in options:
        return
    with pytest.raises((ValidationError, InvalidInputError), match=what):
        steered(hotels, **{"preferences": [AVOIDS], **options})


async def test_attributes_can_be_changed_and_are_checked(hotels: Any) -> None:
    retriever = steered(hotels, [AVOIDS])
    retriever.preferences = ["I like casinos and poker."]
    results = await found(retriever)
    assert results == await found(steered(hotels, "I like casinos and poker."))
    assert results[0].metadata["epic_steered_by"] == "I like casinos and poker."
    with pytest.raises((ValidationError, InvalidInputError), match="twice"):
        retriever.preferences = [AVOIDS, AVOIDS.upper()]
    assert await found(retriever) == results


class Broken(Pages):
    """A leaf that fails."""

    _embed_model = li.EpicEmbedding()

    def retrieve(self, str_or_query_bundle: Any) -> Any:
        raise KeyError("color")

    async def aretrieve(self, str_or_query_bundle: Any) -> Any:
        raise KeyError("color")


async def test_a_stores_own_errors_stay_what_they_are() -> None:
    def raising(document: Document) -> bool:
        raise KeyError("color")

    store = filled("InMemoryVectorStore", HOTELS)
    for retriever in (steered(store, [AVOIDS], filter=raising), li.SteeredRetriever(Broken([]), [AVOIDS])):
        with pytest.raises(KeyError, match="color"):
            await found(retriever)


@pytest.fixture(autouse=True, scope="module")
def _closed() -> Iterator[None]:
    yield
    # Chroma's clients in RAM share one system, which would outlive the module.
    try:
        from chromadb.api.client import SharedSystemClient
    except ImportError:
        return
    SharedSystemClient.clear_system_cache()
