"""`SteeredRetriever` over retrievers and indices of llama-index-core."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llama_index.core", reason="needs the extra llamaindex")

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
    BaseNode,
    ImageNode,
    IndexNode,
    NodeRelationship,
    NodeWithScore,
    QueryBundle,
    RelatedNodeInfo,
    TextNode,
)
from llama_index.core.vector_stores import SimpleVectorStore, VectorStoreInfo

from epic_llamaindex import EpicEmbedding, EpicRetriever, EpicVectorStore, SteeredRetriever
from epic_memory import EpicMemory
from epic_memory.encoders import default_encoder
from epic_memory.errors import EncoderError, EncoderMismatchError, InvalidInputError
from epic_memory.steering.relevance import SAMPLES
from helpers import HashEncoder, both
from llamaindex_models import ScriptedEmbedding, ScriptedLLM

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


def index_of(nodes: Sequence[BaseNode], model: Any = None) -> VectorStoreIndex:
    return VectorStoreIndex(copy.deepcopy(list(nodes)), embed_model=model or EpicEmbedding())


@pytest.fixture(scope="module")
def hotels() -> VectorStoreIndex:
    return index_of([TextNode(id_=str(n), text=text, metadata={"n": n}) for n, text in enumerate(HOTELS)])


@pytest.fixture
def leaf(hotels: VectorStoreIndex) -> BaseRetriever:
    return hotels.as_retriever(similarity_top_k=5)


def texts(nodes: Sequence[NodeWithScore]) -> list[str]:
    return [node.text for node in nodes]


def ids(nodes: Sequence[NodeWithScore]) -> list[str]:
    return [node.node_id for node in nodes]


# query bundles


async def test_the_embedding_of_a_bundle_is_the_querys(leaf: BaseRetriever) -> None:
    # Of the words themselves signed steering learns what kind of question it is.
    retriever = SteeredRetriever(leaf, [AVOIDS], steering="paper")
    embedding = default_encoder().encode([QUERY])[0].tolist()
    for text in ("a train", ""):
        bundle = QueryBundle(text, embedding=embedding)
        assert await both(retriever, "retrieve", bundle) == retriever.retrieve(QUERY)


async def test_several_texts_to_embed_are_aggregated_as_the_leaf_does(leaf: BaseRetriever) -> None:
    several = ["a train", "the mountains", "a hotel"]
    mean = mean_agg(default_encoder().encode(several).tolist())
    for mode in MODES:
        for embed_model in (None, default_encoder()):
            retriever = SteeredRetriever(leaf, [AVOIDS], steering=mode, embed_model=embed_model)  # type: ignore[arg-type]
            wanted = retriever.retrieve(QueryBundle(QUERY, embedding=mean))
            found = await both(retriever, "retrieve", QueryBundle(QUERY, custom_embedding_strs=several))
            assert texts(found) == texts(wanted)
            assert [one.score for one in found] == pytest.approx([one.score for one in wanted], abs=1e-5)


class Remembering(BaseRetriever):
    """A leaf of someone else's, which remembers the bundles it was given, and writes into them."""

    def __init__(self, found: list[NodeWithScore], model: Any = None) -> None:
        self.found = found
        self.bundles: list[QueryBundle] = []
        self._embed_model = model or EpicEmbedding()
        super().__init__()

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        self.bundles.append(copy.deepcopy(query_bundle))
        query_bundle.embedding = [0.0]
        return self.found


async def test_a_bundle_keeps_what_it_says_and_is_never_changed() -> None:
    leaf = Remembering([NodeWithScore(node=TextNode(text="a"), score=0.5)])
    web = Remembering([NodeWithScore(node=TextNode(text="b"), score=0.5)])
    for retriever in (SteeredRetriever(leaf, [AVOIDS]), SteeredRetriever(leaf, ["I collect stamps."], fallback=web)):
        bundle = QueryBundle(QUERY, image_path="a.png", custom_embedding_strs=[QUERY, "a hotel"])
        before = copy.deepcopy(bundle)
        retriever.retrieve(bundle)
        await retriever.aretrieve(bundle)
        assert bundle == before
    for asked in leaf.bundles:
        assert len(asked.embedding or ()) == default_encoder().dimension
        assert replace(asked, embedding=None) == before
    assert web.bundles == [before, before]


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
    retriever: Any = SteeredRetriever(leaf, [AVOIDS])
    query = QueryBundle(query) if isinstance(query, str) else query
    with pytest.raises(error, match=what):
        await both(retriever, "_retrieve", query)


# what comes back


@pytest.mark.parametrize("mode", MODES)
async def test_by_default_metadata_is_exactly_the_leafs(mode: Any) -> None:
    """A fusion knows a node again by its text and metadata, the order of the keys included."""
    said = {"z": 1, "epic_tier": "memory", "a": {"d": [1], "c": 2}, "epic_steered_by": "x", "epic_score": 0.5}
    index = index_of([TextNode(id_=str(n), text=text, metadata={"n": n, **said}) for n, text in enumerate(HOTELS)])
    own = {node.node_id: node for node in index.docstore.docs.values()}
    retriever = SteeredRetriever(index.as_retriever(similarity_top_k=5), [AVOIDS], steering=mode)
    for node in await both(retriever, "retrieve", QUERY):
        assert str(node.metadata) == str(own[node.node_id].metadata)
        assert node.node.hash == own[node.node_id].hash


def test_nodes_keep_their_class_and_links() -> None:
    image = ImageNode(id_="i", text="A hotel.", image_url="http://localhost/a.png")
    image.relationships[NodeRelationship.SOURCE] = RelatedNodeInfo(node_id="d")
    leaf = Remembering([NodeWithScore(node=image, score=np.float64(0.5)), NodeWithScore(node=TextNode(text="b"))])
    first, second = SteeredRetriever(leaf, [AVOIDS]).retrieve(QUERY)
    assert isinstance(first.node, ImageNode)
    assert (first.node.image_url, first.node.ref_doc_id, first.node_id) == (image.image_url, "d", "i")
    assert (type(first.score), first.score, second.score) == (float, 0.5, None)


def test_a_leaf_is_asked_for_more_only_if_it_says_how_many_it_finds() -> None:
    nodes = [TextNode(id_=str(n), text="A hotel.") for n in range(3)]
    nodes[0].metadata = {"epic_stance": "conflicts", "epic_preference": AVOIDS}
    leaf = Remembering([NodeWithScore(node=node, score=1.0) for node in nodes])
    found = SteeredRetriever(leaf, [AVOIDS], floor=0.0, annotate=True).retrieve("hotel")
    assert sorted(ids(found)) == ["0", "1", "2"]
    assert found[-1].node_id == "0"
    assert len(leaf.bundles) == 1
    leaf._similarity_top_k = 3  # type: ignore[attr-defined]
    SteeredRetriever(leaf, [AVOIDS], floor=0.0).retrieve("hotel")
    # It is not given again what it wrote into its bundle.
    assert leaf.bundles[1:] == [leaf.bundles[0]] * 2
    assert found[-1].score == found[-1].metadata["epic_score"]


# models


async def test_any_embedding_model_embeds_queries_as_queries_and_preferences_once() -> None:
    model = ScriptedEmbedding(shift=0.01)
    leaf = index_of([TextNode(text=text) for text in HOTELS], model).as_retriever(similarity_top_k=3)
    model.documents.clear()
    retriever = SteeredRetriever(leaf, [AVOIDS, LIKES])
    found = retriever.retrieve(QUERY)
    assert [query for query in model.queries if query not in SAMPLES] == [QUERY]
    assert len(model.queries) == len(set(model.queries))
    assert model.documents.count(LIKES) == 1 == model.documents.count(AVOIDS)
    model.threads.clear()
    again = SteeredRetriever(leaf, [AVOIDS, LIKES])
    assert await again.aretrieve(QUERY) == found
    assert not model.threads, "embedded synchronously on the event loop"
    embedded = len(model.documents)
    assert retriever.retrieve(QUERY) == again.retrieve(QUERY) == found
    assert len(model.documents) == embedded


@pytest.mark.parametrize(
    ("own", "given"),
    [
        (EpicEmbedding(), ScriptedEmbedding()),
        (ScriptedEmbedding(), ScriptedEmbedding(model_name="other")),
        (EpicEmbedding(), EpicEmbedding(HashEncoder())),
        (EpicEmbedding(), HashEncoder()),
    ],
    ids=["class", "name", "encoder-as-embedding", "encoder"],
)
def test_another_model_than_the_leafs_is_an_error(own: Any, given: Any) -> None:
    leaf = index_of([TextNode(text="a")], own).as_retriever()
    with pytest.raises(EncoderMismatchError, match="embeds with") as raised:
        SteeredRetriever(leaf, [AVOIDS], embed_model=given)
    assert "Leave out embed_model=" in str(raised.value)


@pytest.mark.parametrize("given", [EpicEmbedding(), default_encoder()], ids=["model", "encoder"])
def test_the_leafs_own_model_may_be_given_and_has_to_be_where_it_does_not_say_it(
    leaf: BaseRetriever, given: Any
) -> None:
    wanted = SteeredRetriever(leaf, [AVOIDS]).retrieve(QUERY)
    assert ids(SteeredRetriever(leaf, [AVOIDS], embed_model=given).retrieve(QUERY)) == ids(wanted)
    silent = Remembering([NodeWithScore(node=TextNode(text="a"), score=0.5)])
    del silent._embed_model
    with pytest.raises(InvalidInputError, match="Give embed_model="):
        SteeredRetriever(silent, [AVOIDS])
    (node,) = SteeredRetriever(silent, [AVOIDS], embed_model=given, annotate=True).retrieve(QUERY)
    assert node.metadata["epic_steered_by"] == AVOIDS


async def test_a_model_that_fails_is_a_clear_error() -> None:
    model = ScriptedEmbedding()
    leaf = index_of([TextNode(text=text) for text in HOTELS], model).as_retriever()
    model.fail_with(ConnectionError("nobody there"))
    retriever = SteeredRetriever(leaf, [AVOIDS])
    with pytest.raises(EncoderError, match=r"ScriptedEmbedding could not embed the query: nobody there"):
        await both(retriever, "retrieve", QUERY)
    bundle = QueryBundle(QUERY, embedding=[1.0] * 96)
    with pytest.raises(EncoderError, match="nobody there"):
        retriever.retrieve(bundle)


# leaves


async def test_leaves_of_other_indices_are_steered_too() -> None:
    index = SummaryIndex([TextNode(id_=str(n), text=text) for n, text in enumerate(HOTELS)])
    leaf = index.as_retriever(retriever_mode="embedding", embed_model=EpicEmbedding(), similarity_top_k=1)
    found = await both(SteeredRetriever(leaf, [AVOIDS]), "retrieve", "Which hotel should I book?")
    assert texts(found) == [HOTELS[1]]


async def test_a_leaf_that_gives_more_nodes_than_its_count_loses_none() -> None:
    nodes = [TextNode(id_=f"{n}{part}", text=f"{text} {part}") for n, text in enumerate(HOTELS) for part in "ab"]
    for node in nodes:
        node.relationships[NodeRelationship.SOURCE] = RelatedNodeInfo(node_id=node.node_id[:1])
    llm = ScriptedLLM(answers=["A summary about hotels."])
    index = DocumentSummaryIndex(nodes, llm=llm, embed_model=EpicEmbedding())
    leaf = index.as_retriever(retriever_mode="embedding", similarity_top_k=2)
    found = SteeredRetriever(leaf, [AVOIDS]).retrieve(QUERY)
    assert len(found) == len(leaf.retrieve(QUERY)) == 4
    assert {node.score for node in found} == {None}


# what cannot be steered


def composites(leaf: BaseRetriever, index: VectorStoreIndex) -> dict[str, Callable[[], BaseRetriever]]:
    llm: Any = ScriptedLLM(answers=["1"])
    context = StorageContext.from_defaults()
    merging: Any = leaf
    return {
        "QueryFusionRetriever": lambda: QueryFusionRetriever([leaf], llm=llm, num_queries=1),
        "AutoMergingRetriever": lambda: AutoMergingRetriever(merging, context),
        "RecursiveRetriever": lambda: RecursiveRetriever("vector", {"vector": leaf}),
        "VectorIndexAutoRetriever": lambda: VectorIndexAutoRetriever(
            index, VectorStoreInfo(content_info="hotels", metadata_info=[]), llm=llm
        ),
    }


def test_what_asks_other_retrievers_cannot_be_steered(hotels: VectorStoreIndex, leaf: BaseRetriever) -> None:
    for name, make in composites(leaf, hotels).items():
        for embed_model in (None, EpicEmbedding()):
            with pytest.raises(InvalidInputError, match=rf"{name} asks other retrievers.*Steer what it asks"):
                SteeredRetriever(make(), [AVOIDS], embed_model=embed_model)


@pytest.mark.parametrize("mode", ["text_search", "sparse", "default"])
def test_a_search_without_the_querys_embedding_cannot_be_steered(hotels: VectorStoreIndex, mode: str) -> None:
    leaf: Any = hotels.as_retriever(vector_store_query_mode=mode)
    if mode == "default":  # the store embeds by itself
        leaf._vector_store = SimpleVectorStore().model_copy(update={"is_embedding_query": False})
    with pytest.raises(InvalidInputError, match="does not search by the embedding"):
        SteeredRetriever(leaf, [AVOIDS])


def test_an_index_whose_nodes_lead_to_retrievers_is_a_leaf(hotels: VectorStoreIndex) -> None:
    inner = hotels.as_retriever(similarity_top_k=2)
    nodes = [IndexNode(text="hotels", index_id="hotels", obj=inner), IndexNode(text="trains", index_id="trains")]
    index = VectorStoreIndex(objects=nodes, embed_model=EpicEmbedding())
    found = SteeredRetriever(index.as_retriever(similarity_top_k=1), [AVOIDS]).retrieve("hotels")
    assert len(found) == 2
    assert set(texts(found)) < set(HOTELS)


async def test_our_own_vector_store_is_steered_once() -> None:
    def filled(**options: Any) -> BaseRetriever:
        store = EpicVectorStore(**options)
        index = VectorStoreIndex.from_vector_store(store, embed_model=EpicEmbedding())
        index.insert_nodes([TextNode(id_=str(n), text=text) for n, text in enumerate(HOTELS)])
        return index.as_retriever(similarity_top_k=1)

    for options in ({}, {"preferences": [AVOIDS], "steering": "off"}):
        retriever = SteeredRetriever(filled(**options), [AVOIDS])
        found = await both(retriever, "retrieve", "Which hotel should I book?")
        assert texts(found) == [HOTELS[1]]
    with pytest.raises(InvalidInputError, match="would steer a second time"):
        SteeredRetriever(filled(preferences=[AVOIDS]), [AVOIDS])
    told = VectorIndexRetriever(filled()._index, vector_store_kwargs={"preferences": [AVOIDS]})
    with pytest.raises(InvalidInputError, match="would steer a second time"):
        SteeredRetriever(told, [AVOIDS])
    for said in ({"preferences": [AVOIDS], "steering": "off"}, {"preferences": []}):
        unsteered = VectorIndexRetriever(filled(preferences=[AVOIDS])._index, vector_store_kwargs=said)
        assert SteeredRetriever(unsteered, [AVOIDS]).retrieve("a hotel")


def test_what_steers_itself_is_not_steered_again(leaf: BaseRetriever) -> None:
    for retriever in (EpicRetriever(EpicMemory([AVOIDS])), SteeredRetriever(leaf, [AVOIDS])):
        with pytest.raises(InvalidInputError, match="steers its queries itself"):
            SteeredRetriever(retriever, [AVOIDS], embed_model=EpicEmbedding())
