"""`SteeredRetriever` of both plugins over stores and retrievers that no one here wrote."""

from __future__ import annotations

import copy
import json
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.resources import files
from typing import Any

import numpy as np
import pytest

pytest.importorskip("langchain_core", reason="needs the extra langchain")
pytest.importorskip("llama_index.core", reason="needs the extra llamaindex")

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import InMemoryVectorStore, VectorStore
from llama_index.core import DocumentSummaryIndex, StorageContext, SummaryIndex, VectorStoreIndex
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.embeddings.base import mean_agg
from llama_index.core.indices.vector_store.retrievers import VectorIndexAutoRetriever
from llama_index.core.retrievers import (
    AutoMergingRetriever,
    QueryFusionRetriever,
    RecursiveRetriever,
    VectorIndexRetriever,
)
from llama_index.core.schema import (
    ImageNode,
    IndexNode,
    NodeRelationship,
    NodeWithScore,
    QueryBundle,
    RelatedNodeInfo,
    TextNode,
)
from llama_index.core.vector_stores import MetadataFilter, MetadataFilters, SimpleVectorStore, VectorStoreInfo
from pydantic import ValidationError

import epic_langchain as lc
import epic_llamaindex as li
from epic_memory import EpicMemory, QuerySteering, Settings, Stance
from epic_memory.encoders import default_encoder
from epic_memory.errors import DuplicatePreferenceError, EncoderError, EncoderMismatchError, InvalidInputError
from epic_memory.runtime.effects import Call, in_thread, run
from epic_memory.steering.relevance import SAMPLES
from epic_memory.types import FloatArray
from epic_plugins.vector_stores import SteeredSearch
from helpers import HashEncoder, KeepAll, both
from llamaindex_models import ScriptedEmbedding, ScriptedLLM
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
    """A result of either plugin; LangChain's documents have a score only where stances ranked."""

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
    return li.SteeredRetriever(held.as_retriever(similarity_top_k=k, filters=filter), preferences, **options)


async def found(retriever: Any, query: Any = QUERY) -> list[Found]:
    """What a retriever finds, the same in either way."""
    results = await both(retriever, "invoke" if hasattr(retriever, "invoke") else "retrieve", query)
    assert all(not isinstance(one, NodeWithScore) or type(one.score) is float for one in results)
    return [
        Found(one.page_content, one.metadata.get("epic_score"), one.metadata)
        if isinstance(one, Document)
        else Found(one.text, one.score, one.node.metadata)
        for one in results
    ]


def texts(results: Sequence[Any]) -> list[str]:
    return [one.text for one in results]


@pytest.fixture(scope="module", params=EVERY)
def corpus(request: pytest.FixtureRequest) -> tuple[str, Any]:
    return request.param, filled(request.param, TEXTS)


@pytest.fixture(scope="module", params=["InMemoryVectorStore", "VectorStoreIndex"])
def hotels(request: pytest.FixtureRequest) -> Any:
    return filled(request.param, HOTELS)


@pytest.fixture(scope="module")
def store() -> InMemoryVectorStore:
    made: InMemoryVectorStore = filled("InMemoryVectorStore", HOTELS)
    return made


@pytest.fixture(scope="module")
def index() -> VectorStoreIndex:
    made: VectorStoreIndex = filled("VectorStoreIndex", HOTELS)
    return made


@pytest.fixture
def leaf(index: VectorStoreIndex) -> BaseRetriever:
    return index.as_retriever(similarity_top_k=5)


@pytest.fixture(scope="module")
def vectors() -> FloatArray:
    return default_encoder().encode(TEXTS).astype(np.float64)


def expected(search: SteeredSearch, vectors: FloatArray, question: str, mode: Any, first: int) -> list[str]:
    """What an exact store gives."""

    def nearest(vector: list[float], count: int | None) -> list[str]:
        return [TEXTS[first:][row] for row in np.argsort(-(vectors[first:] @ np.array(vector)), kind="stable")[:count]]

    def fetch(vector: list[float], count: int | None) -> Call:
        return Call(nearest, partial(in_thread, nearest), vector, count)

    target = run(search.target(default_encoder().encode([question])[0], PREFERENCES, mode, question))
    return [text for text, _ in run(search.find(target, 6, fetch, lambda text: (text, {})))]


# the same over all stores


@pytest.mark.parametrize(("mode", "first"), [("signed", 0), ("signed", FIRST), ("paper", FIRST)])
async def test_every_store_gives_the_same_texts_in_the_same_order(
    corpus: tuple[str, Any], vectors: FloatArray, mode: Any, first: int
) -> None:
    name, held = corpus
    search = SteeredSearch(default_encoder())
    retriever = steered(held, PREFERENCES, steering=mode, k=6, filter=own_filter(name) if first else None)
    for question in QUESTIONS:
        results = await found(retriever, question)
        assert texts(results) == expected(search, vectors, question, mode, first)
        assert all(one.metadata["n"] >= first for one in results)


async def test_off_is_the_stores_own_search_and_a_store_keeps_what_it_holds(corpus: tuple[str, Any]) -> None:
    _, held = corpus
    for mode in ("signed", "paper"):
        for one in await found(steered(held, PREFERENCES, steering=mode), QUESTIONS[0]):
            one.metadata["n"] = "changed"
    retriever = steered(held, PREFERENCES, steering="off", k=7)
    for question in QUESTIONS:
        if isinstance(held, VectorStoreIndex):
            own: Any = held.as_retriever(similarity_top_k=7).retrieve(question)
            assert await both(retriever, "retrieve", question) == own
        else:
            own = held.similarity_search(question, k=7)
            assert await both(retriever, "invoke", question) == own
        assert all(type(one.metadata["n"]) is int for one in own)


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("mode", ["signed", "off"])
async def test_vectors_of_another_dimension_are_a_clear_error(name: str, mode: Any) -> None:
    held = filled(name, HOTELS, HashEncoder(32))
    if name == "VectorStoreIndex":
        leaf = held.as_retriever(embed_model=li.EpicEmbedding())
        retriever: Any = li.SteeredRetriever(leaf, [AVOIDS], steering=mode)
    else:
        retriever = steered(held, [AVOIDS], embeddings=lc.EpicEmbeddings(), steering=mode)
    with pytest.raises(EncoderMismatchError, match=r"Give embeddings=|make the index anew"):
        await found(retriever)


# what comes back


async def test_documents_say_what_steered_them(store: InMemoryVectorStore) -> None:
    preferences = [AVOIDS, "I collect stamps.", LIKES]
    for mode in ("signed", "paper"):
        wanted = QuerySteering(default_encoder(), preferences, mode).steer(QUERY)  # type: ignore[arg-type]
        for one in await found(steered(store, preferences, steering=mode)):
            assert one.metadata["epic_steered_by"] == "\n".join(each.preference.text for each in wanted.preferences)
            assert set(one.metadata) == {"n", "epic_steered_by"}
            assert json.loads(json.dumps(one.metadata)) == one.metadata
    off = await found(steered(store, preferences, steering="off"))
    for one in off + await found(steered(store, preferences), "xylophone quantum zebra"):
        assert set(one.metadata) == {"n"}


@pytest.mark.parametrize("mode", MODES)
async def test_the_metadata_of_nodes_is_exactly_the_leafs(mode: Any) -> None:
    """A fusion knows a node again by its text and metadata, the order of the keys included."""
    said = {"z": 1, "epic_tier": "memory", "a": {"d": [1], "c": 2}, "epic_steered_by": "x", "epic_score": 0.5}
    index = filled("VectorStoreIndex", HOTELS, metadatas=[{"n": n, **said} for n in range(len(HOTELS))])
    own = {node.node_id: node for node in index.docstore.docs.values()}
    for node in await both(steered(index, [AVOIDS], steering=mode), "retrieve", QUERY):
        assert str(node.metadata) == str(own[node.node_id].metadata)
        assert node.node.hash == own[node.node_id].hash


@pytest.mark.parametrize("name", ["InMemoryVectorStore", "VectorStoreIndex"])
async def test_stances_that_were_found_before_rank_results(name: str) -> None:
    hotels = [f"Hotel number {n}, a hotel like any other hotel." for n in range(6)]
    stances = {"number 1,": Stance.CONFLICTS, "number 2,": Stance.CONFLICTS, "number 3,": Stance.MIXED}
    how: Any = {"preferences": [AVOIDS], "llm": KeepAll(stances), "settings": Settings(tau=-1.0)}
    kept = lc.EpicDocumentTransformer(**how).invoke([Document(page_content=text) for text in hotels])
    again = li.EpicTransform(**how)([TextNode(text=text) for text in hotels])
    assert [document.metadata for document in kept] == [node.metadata for node in again]
    held = filled(name, hotels, metadatas=[document.metadata for document in kept])
    results = await found(steered(held, [AVOIDS], k=6), "hotel")
    assert [one.metadata["epic_stance"] for one in results[-3:]] == ["mixed", "conflicts", "conflicts"]
    scores = [one.score for one in results]
    assert all(type(score) is float for score in scores) and scores == sorted(scores, key=lambda s: -(s or 0.0))
    # Another user's stances do not count.
    others = steered(held, ["I avoid hotels that have a casino"], k=6)
    assert texts(await found(others, "hotel"))[-2:] != texts(results)[-2:]
    # More is fetched where a result stands against a preference.
    near = await found(steered(held, [AVOIDS], k=2), "Which hotel should I book, number 1 or number 2?")
    assert len(near) == 2 and set(texts(near)) <= {hotels[n] for n in (0, 3, 4, 5)}


# what cannot be


@pytest.mark.parametrize(
    ("options", "what"),
    [*table(__file__, "an_argument_that_cannot_be_is_an_error"), ({"preferences": [AVOIDS, AVOIDS]}, "twice")],
    ids=str,
)
def test_an_argument_that_cannot_be_is_an_error(hotels: Any, options: dict[str, Any], what: str) -> None:
    if isinstance(hotels, VectorStoreIndex) and {"k", "search_kwargs"} & set(options):
        return
    with pytest.raises((ValidationError, InvalidInputError), match=what):
        steered(hotels, **{"preferences": [AVOIDS], **options})


async def test_attributes_can_be_changed_and_are_checked(hotels: Any) -> None:
    retriever = steered(hotels, [AVOIDS])
    retriever.preferences = ["I like casinos and poker."]
    results = await found(retriever)
    assert results == await found(steered(hotels, "I like casinos and poker.")) != await found(steered(hotels, AVOIDS))
    with pytest.raises((ValidationError, InvalidInputError), match="twice"):
        retriever.preferences = [AVOIDS, AVOIDS.upper()]
    assert await found(retriever) == results


async def test_a_stores_own_errors_stay_what_they_are(store: InMemoryVectorStore) -> None:
    class Broken(Remembering):
        def retrieve(self, str_or_query_bundle: Any) -> Any:
            raise KeyError("color")

        async def aretrieve(self, str_or_query_bundle: Any) -> Any:
            raise KeyError("color")

    def raising(document: Document) -> bool:
        raise KeyError("color")

    for retriever in (steered(store, [AVOIDS], filter=raising), li.SteeredRetriever(Broken([]), [AVOIDS])):
        with pytest.raises(KeyError, match="color"):
            await found(retriever)


# LangChain: a call's own options, and stores that cannot do all


@pytest.mark.parametrize("mode", ["signed", "off"])
async def test_a_filter_of_a_call_is_the_stores_own(store: InMemoryVectorStore, mode: Any) -> None:
    def late(document: Document) -> bool:
        return bool(document.metadata["n"] > 1)

    constructed, plain = (steered(store, [AVOIDS], steering=mode, filter=own) for own in (late, None))
    wanted = constructed.invoke(QUERY)
    assert {document.metadata["n"] for document in wanted} == {2, 3, 4}
    assert plain.invoke(QUERY, filter=late) == wanted
    assert await plain.ainvoke(QUERY, {"configurable": {"epic_filter": late}}) == wanted
    with pytest.raises(InvalidInputError, match="filter of its own"):
        await both(constructed, "invoke", QUERY, filter=late)


def test_documents_keep_their_class_and_id(store: InMemoryVectorStore) -> None:
    class Page(Document):
        page: int = 0

    class Pages(InMemoryVectorStore):
        def similarity_search_by_vector(self, embedding: list[float], k: int = 4, **kwargs: Any) -> list[Document]:
            found = super().similarity_search_by_vector(embedding, k, **kwargs)
            return [Page(**document.model_dump(exclude={"type"}), page=7) for document in found]

    pages = Pages(lc.EpicEmbeddings())
    pages.store = store.store
    for document in lc.SteeredRetriever(vectorstore=pages, preferences=[AVOIDS]).invoke(QUERY):
        assert isinstance(document, Page) and document.page == 7 and document.id in store.store


async def test_one_retriever_serves_many_users_by_the_options_of_calls(store: InMemoryVectorStore) -> None:
    retriever = steered(store, [LIKES], steering="paper", k=2)
    own = retriever.invoke(QUERY)
    users: list[dict[str, Any]] = [
        {"k": 8, "steering": "signed", "preferences": [AVOIDS]},
        {"k": 1, "steering": "off", "preferences": []},
        {"k": 3, "steering": "signed", "preferences": ["I love hotels with a casino."]},
    ] * 3
    configs: list[Any] = [{"configurable": {f"epic_{name}": v for name, v in user.items()}} for user in users]
    wanted = [steered(store, **user).invoke(QUERY) for user in users]
    for user, config, one in zip(users[:3], configs, wanted, strict=False):
        assert len(one) == min(user["k"], len(HOTELS))
        assert await both(retriever, "invoke", QUERY, **user) == await both(retriever, "invoke", QUERY, config) == one
    assert retriever.batch([QUERY] * 9, configs) == await retriever.abatch([QUERY] * 9, configs) == wanted
    assert retriever.invoke(QUERY) == own


@pytest.mark.parametrize(
    ("error", "what", "query", "options"),
    [
        (TypeError, "top_k", QUERY, {"top_k": 3}),
        *((InvalidInputError, "query", query, {}) for query in ("", "  ", "\x00")),
        *((InvalidInputError, "at least 1", QUERY, {"k": k}) for k in (0, True, "3")),
        (InvalidInputError, "sideways", QUERY, {"steering": "sideways"}),
        (InvalidInputError, "string", QUERY, {"preferences": [3]}),
        (DuplicatePreferenceError, "twice", QUERY, {"preferences": [AVOIDS, AVOIDS.upper()]}),
    ],
)
async def test_a_call_that_cannot_be_is_an_error(
    store: InMemoryVectorStore, error: type[Exception], what: str, query: str, options: dict[str, Any]
) -> None:
    with pytest.raises(error, match=what):
        await both(steered(store, [AVOIDS]), "invoke", query, **options)


def test_a_store_that_does_not_know_its_embeddings_needs_them(store: InMemoryVectorStore) -> None:
    class Silent(InMemoryVectorStore):
        @property
        def embeddings(self) -> Any:
            return None

    silent = Silent(lc.EpicEmbeddings())
    silent.store = store.store
    with pytest.raises(ValidationError, match=r"Silent does not say .* embedded with\. Give embeddings="):
        steered(silent, [AVOIDS])
    for embeddings in (lc.EpicEmbeddings(), default_encoder()):
        made = steered(silent, [AVOIDS], embeddings=embeddings)
        assert made.invoke("Which hotel should I book?")[0].page_content == HOTELS[1]
    params = made._get_ls_params()
    assert (params["ls_vector_store_provider"], params["ls_embedding_provider"]) == ("Silent", "StaticEncoder")


class ByTextOnly(VectorStore):
    """A store that cannot search by vector."""

    @property
    def embeddings(self) -> Embeddings:
        return lc.EpicEmbeddings()

    def similarity_search(self, query: str, k: int = 4, **kwargs: Any) -> list[Document]:
        return []

    @classmethod
    def from_texts(cls, *args: Any, **kwargs: Any) -> ByTextOnly:
        return cls()


async def test_a_store_that_cannot_search_by_vector_is_a_clear_error() -> None:
    with pytest.raises(InvalidInputError, match="ByTextOnly cannot search by vector"):
        await both(steered(ByTextOnly(), [AVOIDS]), "invoke", QUERY)


# LlamaIndex: query bundles


async def test_the_embedding_of_a_bundle_is_the_querys(leaf: BaseRetriever) -> None:
    # Of the words themselves signed steering learns what kind of question it is.
    retriever = li.SteeredRetriever(leaf, [AVOIDS], steering="paper")
    embedding = default_encoder().encode([QUERY])[0].tolist()
    for text in ("a train", ""):
        bundle = QueryBundle(text, embedding=embedding)
        assert await both(retriever, "retrieve", bundle) == retriever.retrieve(QUERY)


async def test_several_texts_to_embed_are_aggregated_as_the_leaf_does(leaf: BaseRetriever) -> None:
    several = ["a train", "the mountains", "a hotel"]
    mean = mean_agg(default_encoder().encode(several).tolist())
    for mode in MODES:
        for embed_model in (None, default_encoder()):
            retriever = li.SteeredRetriever(leaf, [AVOIDS], steering=mode, embed_model=embed_model)  # type: ignore[arg-type]
            wanted = retriever.retrieve(QueryBundle(QUERY, embedding=mean))
            results = await both(retriever, "retrieve", QueryBundle(QUERY, custom_embedding_strs=several))
            assert texts(results) == texts(wanted)
            assert [one.score for one in results] == pytest.approx([one.score for one in wanted], abs=1e-5)


class Remembering(BaseRetriever):
    """A leaf of someone else's, which remembers the bundles it was given, and writes into them."""

    def __init__(self, found: list[NodeWithScore], model: Any = None) -> None:
        self.found = found
        self.bundles: list[QueryBundle] = []
        self._embed_model = model or li.EpicEmbedding()
        super().__init__()

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        self.bundles.append(copy.deepcopy(query_bundle))
        query_bundle.embedding = [0.0]
        return self.found


async def test_a_bundle_keeps_what_it_says_and_is_never_changed() -> None:
    leaf = Remembering([NodeWithScore(node=TextNode(text="a"), score=0.5)])
    bundle = QueryBundle(QUERY, image_path="a.png", custom_embedding_strs=[QUERY, "a hotel"])
    before = copy.deepcopy(bundle)
    await both(li.SteeredRetriever(leaf, [AVOIDS]), "retrieve", bundle)
    assert bundle == before
    for asked in leaf.bundles:
        assert len(asked.embedding or ()) == default_encoder().dimension
        assert replace(asked, embedding=None) == before


@pytest.mark.parametrize(
    ("query", "error", "what"),
    [
        *((query, InvalidInputError, "query is empty") for query in ("", QueryBundle("", custom_embedding_strs=[]))),
        (QueryBundle(QUERY, embedding=[0.1] * 32), EncoderMismatchError, "came with the query bundle"),
        (None, InvalidInputError, "not NoneType"),
    ],
)
async def test_a_query_that_cannot_be_is_an_error(
    leaf: BaseRetriever, query: Any, error: type[Exception], what: str
) -> None:
    query = QueryBundle(query) if isinstance(query, str) else query
    with pytest.raises(error, match=what):
        await both(li.SteeredRetriever(leaf, [AVOIDS]), "_retrieve", query)


# LlamaIndex: leaves and their models


def test_nodes_keep_their_class_and_links_and_more_is_asked_for_where_a_leaf_says_how_many_it_finds() -> None:
    image = ImageNode(id_="i", text="A hotel.", image_url="http://localhost/a.png")
    image.relationships[NodeRelationship.SOURCE] = RelatedNodeInfo(node_id="d")
    leaf = Remembering([NodeWithScore(node=image, score=np.float64(0.5)), NodeWithScore(node=TextNode(text="b"))])
    first, second = li.SteeredRetriever(leaf, [AVOIDS]).retrieve(QUERY)
    assert isinstance(first.node, ImageNode)
    assert (first.node.image_url, first.node.ref_doc_id, first.node_id) == (image.image_url, "d", "i")
    assert (type(first.score), first.score, second.score) == (float, 0.5, None)

    nodes = [TextNode(id_=str(n), text="A hotel.") for n in range(3)]
    nodes[0].metadata = {"epic_stance": "conflicts", "epic_preference": AVOIDS}
    leaf = Remembering([NodeWithScore(node=node, score=1.0) for node in nodes])
    results = li.SteeredRetriever(leaf, [AVOIDS]).retrieve("hotel")
    assert sorted(one.node_id for one in results) == ["0", "1", "2"]
    assert results[-1].node_id == "0" and len(leaf.bundles) == 1
    leaf._similarity_top_k = 3  # type: ignore[attr-defined]
    li.SteeredRetriever(leaf, [AVOIDS]).retrieve("hotel")
    # It is not given again what it wrote into its bundle.
    assert leaf.bundles[1:] == [leaf.bundles[0]] * 2


async def test_any_embedding_model_embeds_queries_as_queries_and_preferences_once() -> None:
    model = ScriptedEmbedding(shift=0.01)
    nodes = [TextNode(text=text) for text in HOTELS]
    leaf = VectorStoreIndex(nodes, embed_model=model).as_retriever(similarity_top_k=3)
    model.documents.clear()
    retriever = li.SteeredRetriever(leaf, [AVOIDS, LIKES])
    results = retriever.retrieve(QUERY)
    assert [query for query in model.queries if query not in SAMPLES] == [QUERY]
    assert len(model.queries) == len(set(model.queries))
    assert model.documents.count(LIKES) == 1 == model.documents.count(AVOIDS)
    model.threads.clear()
    again = li.SteeredRetriever(leaf, [AVOIDS, LIKES])
    assert await again.aretrieve(QUERY) == results
    assert not model.threads, "embedded synchronously on the event loop"
    embedded = len(model.documents)
    assert retriever.retrieve(QUERY) == again.retrieve(QUERY) == results
    assert len(model.documents) == embedded
    model.fail_with(ConnectionError("nobody there"))
    with pytest.raises(EncoderError, match=r"ScriptedEmbedding could not embed the query: nobody there"):
        await both(li.SteeredRetriever(leaf, [AVOIDS]), "retrieve", QUERY)
    with pytest.raises(EncoderError, match="nobody there"):
        li.SteeredRetriever(leaf, [AVOIDS]).retrieve(QueryBundle(QUERY, embedding=[1.0] * 96))


@pytest.mark.parametrize(
    ("own", "given"),
    [
        (li.EpicEmbedding(), ScriptedEmbedding()),
        (ScriptedEmbedding(), ScriptedEmbedding(model_name="other")),
        (li.EpicEmbedding(), HashEncoder()),
    ],
    ids=["class", "name", "encoder"],
)
def test_another_model_than_the_leafs_is_an_error(own: Any, given: Any) -> None:
    leaf = VectorStoreIndex([TextNode(text="a")], embed_model=own).as_retriever()
    with pytest.raises(EncoderMismatchError, match=r"embeds with.*Leave out embed_model="):
        li.SteeredRetriever(leaf, [AVOIDS], embed_model=given)


@pytest.mark.parametrize("given", [li.EpicEmbedding(), default_encoder()], ids=["model", "encoder"])
def test_the_leafs_own_model_may_be_given_and_has_to_be_where_it_does_not_say_it(
    leaf: BaseRetriever, given: Any
) -> None:
    wanted = li.SteeredRetriever(leaf, [AVOIDS]).retrieve(QUERY)
    assert texts(li.SteeredRetriever(leaf, [AVOIDS], embed_model=given).retrieve(QUERY)) == texts(wanted)
    silent = Remembering([NodeWithScore(node=TextNode(text="a"), score=0.5)])
    del silent._embed_model
    with pytest.raises(InvalidInputError, match="Give embed_model="):
        li.SteeredRetriever(silent, [AVOIDS])
    li.SteeredRetriever(silent, [AVOIDS], embed_model=given).retrieve(QUERY)
    assert silent.bundles[0].embedding != default_encoder().encode([QUERY])[0].tolist()


async def test_leaves_of_other_indices_are_steered_too_and_lose_no_node() -> None:
    summaries = SummaryIndex([TextNode(id_=str(n), text=text) for n, text in enumerate(HOTELS)])
    leaf = summaries.as_retriever(retriever_mode="embedding", embed_model=li.EpicEmbedding(), similarity_top_k=1)
    assert texts(await found(li.SteeredRetriever(leaf, [AVOIDS]), "Which hotel should I book?")) == [HOTELS[1]]
    nodes = [TextNode(id_=f"{n}{part}", text=f"{text} {part}") for n, text in enumerate(HOTELS) for part in "ab"]
    for node in nodes:
        node.relationships[NodeRelationship.SOURCE] = RelatedNodeInfo(node_id=node.node_id[:1])
    llm = ScriptedLLM(answers=["A summary about hotels."])
    index = DocumentSummaryIndex(nodes, llm=llm, embed_model=li.EpicEmbedding())
    more: Any = index.as_retriever(retriever_mode="embedding", similarity_top_k=2)
    assert len(li.SteeredRetriever(more, [AVOIDS]).retrieve(QUERY)) == len(more.retrieve(QUERY)) == 4
    # An index whose nodes lead to retrievers is a leaf.
    inner = VectorStoreIndex(nodes, embed_model=li.EpicEmbedding()).as_retriever(similarity_top_k=2)
    leads = [IndexNode(text="hotels", index_id="hotels", obj=inner), IndexNode(text="trains", index_id="trains")]
    outer = VectorStoreIndex(objects=leads, embed_model=li.EpicEmbedding()).as_retriever(similarity_top_k=1)
    assert {one.node_id for one in li.SteeredRetriever(outer, [AVOIDS]).retrieve("hotels")} < {n.node_id for n in nodes}


# LlamaIndex: what cannot be steered


def composites(leaf: BaseRetriever, index: VectorStoreIndex) -> dict[str, Callable[[], BaseRetriever]]:
    llm: Any = ScriptedLLM(answers=["1"])
    merging: Any = leaf
    return {
        "QueryFusionRetriever": lambda: QueryFusionRetriever([leaf], llm=llm, num_queries=1),
        "AutoMergingRetriever": lambda: AutoMergingRetriever(merging, StorageContext.from_defaults()),
        "RecursiveRetriever": lambda: RecursiveRetriever("vector", {"vector": leaf}),
        "VectorIndexAutoRetriever": lambda: VectorIndexAutoRetriever(
            index, VectorStoreInfo(content_info="hotels", metadata_info=[]), llm=llm
        ),
    }


def test_what_asks_other_retrievers_cannot_be_steered(index: VectorStoreIndex, leaf: BaseRetriever) -> None:
    for name, make in composites(leaf, index).items():
        with pytest.raises(InvalidInputError, match=rf"{name} asks other retrievers.*Steer what it asks"):
            li.SteeredRetriever(make(), [AVOIDS], embed_model=li.EpicEmbedding())
    for one in (li.EpicRetriever(EpicMemory([AVOIDS])), li.SteeredRetriever(leaf, [AVOIDS])):
        with pytest.raises(InvalidInputError, match="steers its queries itself"):
            li.SteeredRetriever(one, [AVOIDS], embed_model=li.EpicEmbedding())


@pytest.mark.parametrize("mode", ["text_search", "sparse", "default"])
def test_a_search_without_the_querys_embedding_cannot_be_steered(index: VectorStoreIndex, mode: str) -> None:
    leaf: Any = index.as_retriever(vector_store_query_mode=mode)
    if mode == "default":  # the store embeds by itself
        leaf._vector_store = SimpleVectorStore().model_copy(update={"is_embedding_query": False})
    with pytest.raises(InvalidInputError, match="does not search by the embedding"):
        li.SteeredRetriever(leaf, [AVOIDS])


async def test_our_own_vector_store_is_steered_once() -> None:
    def filled(**options: Any) -> BaseRetriever:
        store = li.EpicVectorStore(**options)
        index = VectorStoreIndex.from_vector_store(store, embed_model=li.EpicEmbedding())
        index.insert_nodes([TextNode(id_=str(n), text=text) for n, text in enumerate(HOTELS)])
        return index.as_retriever(similarity_top_k=1)

    for options in ({}, {"preferences": [AVOIDS], "steering": "off"}):
        retriever = li.SteeredRetriever(filled(**options), [AVOIDS])
        assert texts(await found(retriever, "Which hotel should I book?")) == [HOTELS[1]]
    told = VectorIndexRetriever(filled()._index, vector_store_kwargs={"preferences": [AVOIDS]})
    for twice in (filled(preferences=[AVOIDS]), told):
        with pytest.raises(InvalidInputError, match="would steer a second time"):
            li.SteeredRetriever(twice, [AVOIDS])
    for said in ({"preferences": [AVOIDS], "steering": "off"}, {"preferences": []}):
        unsteered = VectorIndexRetriever(filled(preferences=[AVOIDS])._index, vector_store_kwargs=said)
        assert li.SteeredRetriever(unsteered, [AVOIDS]).retrieve("a hotel")


@pytest.fixture(autouse=True, scope="module")
def _closed() -> Iterator[None]:
    yield
    # Chroma's clients in RAM share one system, which would outlive the module.
    try:
        from chromadb.api.client import SharedSystemClient
    except ImportError:
        return
    SharedSystemClient.clear_system_cache()
