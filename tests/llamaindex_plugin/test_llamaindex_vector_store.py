"""The vector store of LlamaIndex: what it finds, what comes back, what it refuses, and what its file holds."""

from __future__ import annotations

import json
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llama_index.core.bridge.pydantic import BaseModel
from llama_index.core.schema import (
    BaseNode,
    Document,
    ImageDocument,
    ImageNode,
    IndexNode,
    MediaResource,
    Node,
    NodeRelationship,
    ObjectType,
    RelatedNodeInfo,
    TextNode,
)
from llama_index.core.vector_stores import (
    FilterCondition,
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
    SimpleVectorStore,
    VectorStoreQuery,
)
from llama_index.core.vector_stores.types import VectorStoreQueryMode

from epic_llamaindex import EpicVectorStore
from epic_memory import EpicMemory, Filter, Preference
from epic_memory.errors import (
    AlreadyThereError,
    DamagedError,
    EncoderError,
    EncoderMismatchError,
    InvalidInputError,
    StoreError,
)
from epic_plugins.collection import Collection, Record
from helpers import HashEncoder, both
from llamaindex_models import ScriptedEmbedding

DIMENSION = 256
WORDS = ("red", "wine", "night", "train", "green", "hills", "blue", "sky")


def encoder() -> HashEncoder:
    return HashEncoder(DIMENSION)


def vector(text: str) -> list[float]:
    made: list[float] = encoder().vector(text).tolist()
    return made


def node(number: int, text: str = "", *, of: str = "", embedding: Any = None, **metadata: Any) -> TextNode:
    text = text or f"{WORDS[number % 8]} {number}"
    source = {NodeRelationship.SOURCE: RelatedNodeInfo(node_id=of)} if of else {}
    return TextNode(id_=f"n{number}", text=text, metadata=metadata, embedding=embedding, relationships=source)


def embedded(number: int, text: str = "", **options: Any) -> TextNode:
    """A node with the embedding of its text, as an index with the store's own model makes it."""
    made = node(number, text, **options)
    made.excluded_embed_metadata_keys = list(made.metadata)
    made.embedding = vector(made.text)
    return made


def guided(number: int, text: str, *instructions: tuple[str, str], **options: Any) -> TextNode:
    alignments = [{"instruction": said, "stance": stance, "preference": "p"} for said, stance in instructions]
    return node(number, text, **options, epic_alignments=json.dumps(alignments))


def asked(query: str | list[float], k: int = 4, **options: Any) -> VectorStoreQuery:
    given = {"query_str": query} if isinstance(query, str) else {"query_embedding": query}
    return VectorStoreQuery(similarity_top_k=k, **given, **options)  # type: ignore[arg-type]


def where(key: str, value: Any, operator: str = "==") -> MetadataFilters:
    return MetadataFilters(filters=[MetadataFilter(key=key, value=value, operator=FilterOperator(operator))])


def ids(store: EpicVectorStore, query: VectorStoreQuery, **options: Any) -> list[str]:
    found = store.query(query, **options)
    assert found.ids is not None and found.nodes is not None and found.similarities is not None
    assert [one.node_id for one in found.nodes] == found.ids and len(found.similarities) == len(found.ids)
    assert all(type(score) is float for score in found.similarities)
    return found.ids


def seen(nodes: Any) -> list[str]:
    """Everything that there is to nodes."""
    return [f"{type(one).__name__} {one!r} {one.hash}" for one in nodes]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "me.vectors"


@pytest.fixture(params=["RAM", "file"])
def store(request: pytest.FixtureRequest, path: Path) -> Iterator[EpicVectorStore]:
    with EpicVectorStore(encoder(), path=path if request.param == "file" else None) as made:
        yield made


@pytest.fixture(autouse=True)
def no_warning() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # LlamaIndex's Memory, in other tests, leaves its connections to the garbage collector.
        warnings.filterwarnings("ignore", "<aiosqlite", ResourceWarning)
        yield


@contextmanager
def not_compared() -> Iterator[None]:
    """Without the warning that embeddings are not the model's."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


# nodes come back


METADATA = st.dictionaries(
    st.text(max_size=4) | st.sampled_from(["\x00source", "\x00class", "\x00node", "\x00", "doc_id", "_node_content"]),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
        max_leaves=4,
    ),
    max_size=4,
)
LINKS = st.builds(
    RelatedNodeInfo,
    node_id=st.text(max_size=3),
    node_type=st.none() | st.sampled_from(ObjectType),
    metadata=METADATA,
    hash=st.none() | st.text(max_size=3),
)
PLACES = st.sampled_from([NodeRelationship.PREVIOUS, NodeRelationship.NEXT, NodeRelationship.PARENT])
COMMON: dict[str, Any] = {
    "id_": st.text(min_size=1, max_size=8),
    "metadata": METADATA,
    "excluded_embed_metadata_keys": st.lists(st.text(max_size=3), max_size=2),
    "excluded_llm_metadata_keys": st.lists(st.text(max_size=3), max_size=2),
    "metadata_template": st.sampled_from(["{key}: {value}", "{key}={value}"]),
    "metadata_separator": st.sampled_from(["\n", ";"]),
    "text_template": st.sampled_from(["{metadata_str}\n\n{content}", "{content} {metadata_str}"]),
    "relationships": st.dictionaries(PLACES, LINKS, max_size=2),
}
TEXT: dict[str, Any] = {
    **COMMON,
    "text": st.text(),
    "mimetype": st.sampled_from(["text/plain", "text/html"]),
    "start_char_idx": st.none() | st.integers(0, 9),
    "end_char_idx": st.none() | st.integers(0, 9),
}
# What LlamaIndex itself brings back of a node in a node.
PLAIN = {name: made for name, made in TEXT.items() if name != "relationships"}
MEDIA = st.none() | st.builds(
    MediaResource,
    text=st.none() | st.text(),
    data=st.none() | st.binary(max_size=9),
    path=st.none() | st.just("/a/b.png"),
    url=st.none() | st.just("http://a/b?c=d"),
    mimetype=st.none() | st.just("image/webp"),
    embeddings=st.none() | st.just({"dense": [0.5, 1.0]}),
)
NODES = (
    st.builds(TextNode, **TEXT)
    | st.builds(IndexNode, **TEXT, index_id=st.text(), obj=st.none() | st.builds(TextNode, **PLAIN))
    | st.builds(
        ImageNode,
        **TEXT,
        image=st.none() | st.just("YWJj"),
        image_path=st.none() | st.just("/a/b.png"),
        image_url=st.none() | st.just("http://a"),
        text_embedding=st.none() | st.just([1.0, 0.25]),
    )
    | st.builds(Node, **COMMON, text_resource=MEDIA, image_resource=MEDIA, audio_resource=MEDIA, video_resource=MEDIA)
    | st.builds(Document, **COMMON, text_resource=MEDIA, image_resource=MEDIA)
    | st.builds(ImageDocument, **COMMON, text_resource=MEDIA, image_resource=MEDIA)
)


@given(NODES, st.none() | LINKS, st.lists(LINKS, max_size=2), st.booleans())
@settings(max_examples=150, deadline=None)
@pytest.mark.slow
def test_nodes_come_back_as_they_were_put_in(
    made: BaseNode, source: RelatedNodeInfo | None, children: list[RelatedNodeInfo], own: bool
) -> None:
    if source is not None:
        # Most often, the metadata of the document is that of its nodes.
        source.metadata = dict(made.metadata) if own else source.metadata
        made.relationships[NodeRelationship.SOURCE] = source
    if children:
        made.relationships[NodeRelationship.CHILD] = children
    made.embedding = [1.0] * DIMENSION
    before = seen([made])
    with EpicVectorStore(encoder()) as store, not_compared():
        assert store.add([made]) == [made.node_id]
        assert seen([made]) == before
        made.embedding = None
        found = store.query(asked([1.0] * DIMENSION)).nodes
        for held in (store.get_nodes(), store.get_nodes([made.node_id]), found):
            assert held == [made] and seen(held) == seen([made])
        assert store.get_nodes(filters=where("ref_doc_id", made.ref_doc_id or made.node_id)) == [made]


class Paragraph(TextNode):
    """A user's own class."""

    number: int = 3

    @classmethod
    def class_name(cls) -> str:
        return "Paragraph"


class Other(BaseNode):
    """A class with nothing of LlamaIndex's but the interface."""

    @property
    def hash(self) -> str:
        return ""

    @classmethod
    def get_type(cls) -> str:
        return "other"

    def get_content(self, metadata_mode: Any = None) -> str:
        return ""

    def get_content_blocks(self, metadata_mode: Any = None) -> list[Any]:
        return []

    def set_content(self, value: Any) -> None: ...


class Keyed(BaseModel):
    """Objects that must not get into a file."""

    key: str = "secret"


def test_a_users_own_class_comes_back_as_that_of_llamaindex(store: EpicVectorStore) -> None:
    store.add([Paragraph(id_="p", text="red wine", metadata={"a": 1}, start_char_idx=2)])
    assert seen(store.get_nodes()) == seen([TextNode(id_="p", text="red wine", metadata={"a": 1}, start_char_idx=2)])


def linked(place: NodeRelationship, link: Any) -> TextNode:
    return TextNode(id_="n2", relationships={place: link})


NO_NODES: list[tuple[Callable[[], Any], str]] = [
    (lambda: node(2, when=fsspec), "metadata of document 'n2' is not JSON"),
    (lambda: node(2, n=float("nan")), "metadata of document 'n2' is not JSON"),
    (
        lambda: linked(NodeRelationship.NEXT, RelatedNodeInfo(node_id="x", metadata={"a": {1}})),
        "metadata of document 'n2' is not JSON",
    ),
    (lambda: linked(NodeRelationship.SOURCE, [RelatedNodeInfo(node_id="x")]), "node 'n2' cannot be stored: Source"),
    (lambda: node(2, "\ud800"), "text"),
    (lambda: TextNode(id_=""), "id of a document is empty"),
    (lambda: IndexNode(id_="n2", index_id="i", obj=threading.Lock()), "node 'n2' stands for an object of type lock"),
    (lambda: IndexNode(id_="n2", index_id="i", obj=Keyed()), "object of type Keyed, which cannot be stored"),
    (
        lambda: IndexNode(id_="n2", index_id="i", obj=IndexNode(index_id="j", obj=Keyed())),
        "object of type Keyed, which cannot be stored",
    ),
    (lambda: Other(id_="n2"), "node 'n2' is a Other: only"),
    (lambda: node(2, epic_alignments="[1"), "guidance in the metadata of node 'n2'"),
    (lambda: node(2, embedding=[float("nan")] * DIMENSION), "finite"),
    (lambda: "red", "Expected nodes, found str"),
]


@pytest.mark.parametrize(("make", "match"), NO_NODES, ids=range(len(NO_NODES)))
async def test_what_cannot_be_stored_is_refused_and_nothing_is_written(
    store: EpicVectorStore, make: Callable[[], Any], match: str
) -> None:
    store.add([node(0)])
    with pytest.raises(InvalidInputError, match=match):
        store.add([node(1), make()])
    with pytest.raises(InvalidInputError, match=match):
        await store.async_add([node(1), make()])
    assert store.get_nodes() == [node(0)] and store.verify()


def test_more_than_nodes_in_a_list_is_refused(store: EpicVectorStore) -> None:
    for wrong in (node(1), "nodes", None, 3):
        with pytest.raises(InvalidInputError, match="several nodes"):
            store.add(wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="'show'"):
        store.add([node(1)], show=True)
    assert store.add([]) == [] == store.get_nodes()


# what a node is found by


def test_a_node_is_found_by_the_embedding_of_the_index_and_no_text_is_embedded_twice() -> None:
    made = encoder()
    store = EpicVectorStore(made)
    store.add([embedded(n, f"{WORDS[n]} hills") for n in range(8)])
    assert made.texts == {"red hills": 1}  # what the model is compared by
    store.add([embedded(9, "night")])
    assert ids(store, asked(vector("night"), 1)) == ["n9"] and sum(made.texts.values()) == 1


def test_a_node_without_embedding_is_found_by_what_an_index_would_embed(store: EpicVectorStore) -> None:
    described = node(1, "red wine", region="hills", secret="sky")
    described.excluded_embed_metadata_keys = ["secret"]
    store.add([described, node(2, "night")])
    assert ids(store, asked("region hills", 1)) == ["n1"]
    found = store.query(asked(vector("region: hills red wine"), 1))
    assert found.similarities == pytest.approx([1.0], abs=2e-3)


def test_guidance_and_text_come_before_the_embedding_of_the_index(store: EpicVectorStore) -> None:
    said = (("night train", "supports"), ("blue sky", "conflicts"))
    store.add([guided(1, "red wine", *said, embedding=vector("old books")), embedded(2, "green hills")])
    for query in ("night train", "blue sky", "red wine"):
        # A query that is steered towards itself stays as it is; in the paper's way instructions find, too.
        found = store.query(asked(query, 1), preferences=[query], steering="paper")
        assert found.ids == ["n1"] and found.similarities == pytest.approx([1.0], abs=2e-3)
    assert store.query(asked("red wine", 1)).similarities == pytest.approx([1.0], abs=2e-3)
    assert store.query(asked("old books", 2)).similarities == pytest.approx([0.0, 0.0], abs=2e-3)
    assert store.get_nodes(["n1"])[0].metadata["epic_alignments"]


async def test_another_embedding_model_of_the_index_is_noticed_once() -> None:
    other = embedded(1).model_copy(update={"embedding": vector("something else")})
    match = r"node 'n1' is not what hash makes of it.*embed_model=store.embed_model"
    store, later = EpicVectorStore(encoder()), EpicVectorStore(encoder())
    with pytest.warns(UserWarning, match=match) as told:
        store.add([node(0), other])
    assert told[0].filename == __file__
    with pytest.warns(UserWarning, match=match):
        await later.async_add([other])
    # Once; and guidance is embedded by the store.
    store.add([node(2, embedding=vector("something else"))])
    EpicVectorStore(encoder()).add([guided(1, "red wine", ("night train", "supports"), embedding=other.embedding)])


def test_a_model_of_llamaindex_embeds_what_the_index_did_not() -> None:
    model = ScriptedEmbedding()
    store = EpicVectorStore(model)
    assert store.embed_model is model
    nodes = [node(1, "A vegan stew of beans."), node(2, "A night train to Vienna.")]
    nodes[0].embedding = model.vectors(["A vegan stew of beans."])[0]
    store.add(nodes)
    assert sorted(model.documents) == ["A night train to Vienna.", "A vegan stew of beans."]
    assert ids(store, asked("a train", 1)) == ["n2"] and model.queries == ["a train"]
    assert ids(store, asked(model.vectors(["beans"])[0], 1)) == ["n1"] and model.queries == ["a train"]
    model.fail_with(RuntimeError("no"))
    with pytest.raises(EncoderError):
        store.add([node(3)])
    assert len(store.get_nodes()) == 2


# queries


@given(
    st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=4), min_size=1, max_size=9),
    st.integers(1, 10),
    st.lists(st.integers(0, 3), max_size=2),
    st.sampled_from([*FilterCondition]),
    st.none() | st.sets(st.integers(0, 9), min_size=1),
)
def test_without_preferences_it_finds_what_llamaindexs_own_store_finds(
    texts: list[list[str]], k: int, values: list[int], condition: FilterCondition, chosen: set[int] | None
) -> None:
    chance = np.random.default_rng(len(texts))
    nodes = [embedded(n, " ".join(words), of=f"d{n % 2}", n=n % 4) for n, words in enumerate(texts)]
    for made in nodes:  # without ties, which the codes of vectors may break in another way
        made.embedding = (np.asarray(made.embedding) + 0.05 * chance.normal(size=DIMENSION)).tolist()
    filters = MetadataFilters(filters=[MetadataFilter(key="n", value=n) for n in values], condition=condition)
    query = VectorStoreQuery(
        query_embedding=(np.asarray(vector("red wine train")) + 0.05 * chance.normal(size=DIMENSION)).tolist(),
        similarity_top_k=k,
        filters=filters,
        node_ids=None if chosen is None else [f"n{n}" for n in {0, *chosen}],
    )
    theirs, ours = SimpleVectorStore(), EpicVectorStore(encoder())
    theirs.add(nodes)
    with not_compared():
        ours.add(nodes)
    right, found = theirs.query(query), ours.query(query)
    exact = theirs.query(replace(query, similarity_top_k=len(nodes)))
    order = dict(zip(exact.ids or (), exact.similarities or (), strict=True))
    assert found.similarities == pytest.approx(right.similarities, abs=5e-3)
    assert [order[one] for one in found.ids or ()] == pytest.approx(right.similarities, abs=5e-3)


def test_diverse_nodes_are_those_of_llamaindexs_own_store() -> None:
    # In few dimensions, so that no two of them are as good as each other.
    made = np.zeros((21, DIMENSION))
    made[:, :6] = np.random.default_rng(3).normal(size=(21, 6))
    wanted, *others = made.tolist()
    nodes = [node(n, embedding=one) for n, one in enumerate(others)]
    theirs, ours = SimpleVectorStore(), EpicVectorStore(encoder())
    theirs.add(nodes)
    with not_compared():
        ours.add(nodes)
    for threshold in (0.2, 0.5, 0.9, 1.0):
        query = asked(wanted, 5, mode=VectorStoreQueryMode.MMR)
        right = theirs.query(query, mmr_threshold=threshold).ids
        assert ours.query(query, mmr_threshold=threshold).ids == right
        query.mmr_threshold = threshold
        assert ours.query(query).ids == right
    assert ours.query(query, mmr_threshold=0.5).ids == ours.query(asked(wanted, 5, mode="mmr")).ids


def test_filters_over_source_documents_and_odd_keys(store: EpicVectorStore) -> None:
    odd = TextNode(id_="o", text="sky", metadata={"\x00class": "mine", "doc_id": "other"})
    store.add([embedded(1, of="d"), embedded(2, of="e"), Document(id_="f", text="night"), odd])
    for key in ("doc_id", "document_id", "ref_doc_id"):
        assert ids(store, asked("red", filters=where(key, "d"))) == ["n1"]
        assert ids(store, asked("red", filters=Filter.eq(key, "f"))) == ["f"]  # type: ignore[arg-type]
    assert ids(store, asked("red", filters=where("doc_id", "other"))) == []
    assert ids(store, asked("red", filters=where("\x00class", "mine"))) == ["o"]
    assert ids(store, asked("red", filters=where("\x00class", "Document"))) == []
    assert ids(store, asked("red", doc_ids=["d", "none"], filters=where("doc_id", ["d", "e"], "in"))) == ["n1"]
    assert len(ids(store, asked("red", doc_ids=[], node_ids=[]))) == 4


def test_an_image_without_text_or_embedding_is_held_and_not_found(store: EpicVectorStore) -> None:
    store.add(
        [ImageNode(id_="i", image_path="/a.png"), ImageNode(id_="j", image_path="/b.png", embedding=vector("sky"))]
    )
    assert ids(store, asked("sky", 5)) == ["j"]
    assert [held.node_id for held in store.get_nodes()] == ["i", "j"]


def test_image_and_index_nodes_named_by_an_index_are_no_restriction(store: EpicVectorStore) -> None:
    image = ImageNode(id_="i", text="red cat", image_path="/a.png")
    store.add([embedded(1), embedded(2), image, IndexNode(id_="x", text="wine list", index_id="q")])
    # Those of another index over this store, and those that are gone, it does not know of.
    for named in (["i", "x"], ["x", "i", "deleted"], ["i"], ["deleted"]):
        assert len(ids(store, asked("red", 9, node_ids=named))) == 4
    assert ids(store, asked("red", 9, node_ids=["i", "x", "n1"], doc_ids=["n1"])) == ["n1"]
    assert sorted(ids(store, asked("red", 9, node_ids=["i", "n1", "none"]))) == ["i", "n1"]
    store.delete_nodes(["x"])
    store.delete("i")
    assert len(ids(store, asked("red", 9, node_ids=["i", "x"]))) == 2


def test_preferences_change_the_order() -> None:
    texts = ["A steak house with grilled beef and pork.", "A vegan stew of beans and lentils.", "A train museum."]
    vegan, query = ["I follow a strict vegan diet."], "Where can I eat grilled food?"
    plain, steered = EpicVectorStore(), EpicVectorStore(preferences=vegan)
    for one in (plain, steered):
        one.add([node(n, text) for n, text in enumerate(texts)])
    for wanted in (query, plain.embed_model.get_query_embedding(query)):
        assert ids(plain, asked(wanted))[0] == ids(steered, asked(wanted), preferences=[])[0] == "n0"
        assert ids(steered, asked(wanted))[0] == ids(plain, asked(wanted), preferences=vegan)[0] == "n1"
        assert ids(steered, asked(wanted), steering="off")[0] == "n0"
    assert steered.preferences == (Preference(text=vegan[0]),) and steered.steering == "signed"
    steered.preferences = ()
    assert ids(steered, asked(query))[0] == "n0"


@pytest.mark.parametrize(
    ("query", "options", "match"),
    [
        (VectorStoreQuery(), {}, "nothing to search for: give query_embedding or query_str"),
        *((asked("red", mode=mode), {}, f"not '{mode}'") for mode in ("hybrid", "svm", "fast")),
        (asked("red", 0), {}, "k must be"),
        (asked("red", filters={"x": 1}), {}, "MetadataFilters"),
        (asked("red", node_ids="n1"), {}, "several ids in a list"),
        (asked("red", doc_ids=[3]), {}, "Expected ids"),
        (asked("red", mode="mmr"), {"mmr_threshold": 2}, "mmr_threshold"),
        (asked("red", mode="mmr", mmr_threshold="0.5"), {}, "mmr_threshold"),
        (asked([float("nan")] * DIMENSION), {}, "finite"),
        (asked("red"), {"preference": ["a"]}, "takes preferences=, steering=, mmr_threshold= here; not 'preference'"),
        (asked("red"), {"steering": "on"}, "steering mode"),
        (asked("red"), {"preferences": [""]}, "preference"),
        ("red", {}, "Expected a VectorStoreQuery, found str"),
    ],
    ids=range(15),
)
async def test_a_query_that_cannot_be_is_refused(query: Any, options: dict[str, Any], match: str) -> None:
    store = EpicVectorStore(encoder())
    store.add([node(1)])
    with pytest.raises(TypeError if "preference" in options else InvalidInputError, match=match):
        await both(store, "query", query, **options)


async def test_an_embedding_of_another_model_is_refused() -> None:
    store = EpicVectorStore(encoder())
    store.add([node(1)])
    with pytest.raises(EncoderMismatchError, match=r"embedding of 3 dimensions.*embed_model"):
        await both(store, "query", asked([1.0] * 3))


# removing, and getting


def test_nodes_are_removed_by_their_document(store: EpicVectorStore) -> None:
    store.add([embedded(n, of=f"d{n % 2}") for n in range(6)])
    store.add([Document(id_="d0x", text="night"), Document(id_="whole", text="blue sky")])
    store.delete("d0")
    assert [held.node_id for held in store.get_nodes()] == ["n1", "n3", "n5", "d0x", "whole"]
    store.delete("whole")  # a document that is a node has no other source
    store.delete("none")
    assert [held.node_id for held in store.get_nodes()] == ["n1", "n3", "n5", "d0x"]
    with pytest.raises(TypeError, match="'force'"):
        store.delete("d1", force=True)
    with pytest.raises(InvalidInputError, match="id of a document"):
        store.delete(3)  # type: ignore[arg-type]


async def test_sync_and_async_are_the_same_and_no_query_is_changed(store: EpicVectorStore, tmp_path: Path) -> None:
    other = EpicVectorStore(encoder(), path=tmp_path / "other.vectors")
    nodes = [embedded(n, of=f"d{n % 3}", n=n) for n in range(8)]
    nodes += [guided(9, "x", ("red wine", "conflicts")), node(10, "hills")]
    assert store.add(nodes) == await other.async_add(nodes)
    assert seen(store.get_nodes()) == seen(await other.aget_nodes())
    for query in (
        asked("red night", 5),
        asked(vector("red night"), 5),
        asked("red night", 3, mode="mmr", mmr_threshold=0.3),
        asked("red night", 5, filters=where("n", 3, ">"), doc_ids=["d1", "d2"], node_ids=["n1", "n4", "n5"]),
    ):
        before = repr(query)
        for options in ({}, {"preferences": ["I avoid red wine."]}, {"preferences": ["night"], "steering": "paper"}):
            right = store.query(query, **options)
            for found in (await store.aquery(query, **options), await other.aquery(query, **options)):
                assert (found.ids, found.similarities) == (right.ids, right.similarities)
                assert seen(found.nodes) == seen(right.nodes)
        assert repr(query) == before
    store.delete("d1")
    await other.adelete("d1")
    for options in ({"node_ids": ["n0"]}, {"filters": where("n", 5)}, {"node_ids": ["n3"], "filters": where("n", 4)}):
        assert seen(store.get_nodes(**options)) == seen(await other.aget_nodes(**options))
        store.delete_nodes(**options)
        await other.adelete_nodes(**options)
    assert [one.node_id for one in store.get_nodes()] == ["n2", "n3", "n6", "n9", "n10"]
    assert seen(store.get_nodes()) == seen(await other.aget_nodes())
    with pytest.raises(InvalidInputError, match=r"clear\(\)"):
        store.delete_nodes()
    store.clear()
    await other.aclear()
    assert store.get_nodes() == await other.aget_nodes() == []
    other.close()


async def test_async_calls_leave_the_event_loop_free(store: EpicVectorStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever reads or writes the file does it in another thread."""
    threads, kind = set(), type(store.client._store)
    original = kind.reading

    def reading(self: Any) -> Any:
        threads.add(threading.get_ident())
        return original(self)

    monkeypatch.setattr(kind, "reading", reading)
    await store.async_add([embedded(n, of="d") for n in range(3)])
    await store.aquery(asked("red", doc_ids=["d"], node_ids=["n1"]), preferences=["night"])
    await store.aget_nodes(["n1"], where("n", 1))
    await store.adelete_nodes(["n1"], where("n", 1))
    await store.adelete("d")
    await store.aclear()
    assert threads and threading.get_ident() not in threads | store.client.encoder.sync_threads  # type: ignore[attr-defined]


# files


def test_persisting_replaces_vector_stores_only(tmp_path: Path) -> None:
    store = EpicVectorStore(encoder())
    store.add([embedded(1)])
    thesis, memory = tmp_path / "thesis.txt", tmp_path / "me.epic"
    thesis.write_text("Chapter 1")
    EpicMemory.open(memory, ["I like wine."]).close()
    for path in (thesis, memory):
        before = path.read_bytes()
        with pytest.raises(StoreError, match="is no vector store"):
            store.persist(path)
        assert path.read_bytes() == before
    named = tmp_path / "default__vector_store.json"
    SimpleVectorStore().persist(str(named))
    for path in (named, tmp_path / "copy.vectors"):
        store.persist(path)
        store.persist(path)
        with EpicVectorStore.from_persist_path(path, embed_model=encoder()) as copy:
            assert [node.node_id for node in copy.get_nodes()] == ["n1"]


def test_the_text_and_the_metadata_are_stored_once(tmp_path: Path) -> None:
    chance = np.random.default_rng(5)
    text, said = ("".join(chance.choice(list("abcdefghij klmnop"), 6000)) for _ in range(2))
    source = RelatedNodeInfo(node_id="d", metadata={"said": said})
    made = TextNode(
        text=text,
        metadata={"said": said},
        relationships={role: source for role in NodeRelationship if role != NodeRelationship.CHILD},
    )
    made.embedding = vector("red")
    sizes = []
    for first in ([], [made]):
        path = tmp_path / f"{len(first)}.vectors"
        with EpicVectorStore(encoder(), path=path) as store, not_compared():
            store.add(first)
            store.add([node(1)])
        sizes.append(path.stat().st_size)
    assert sizes[1] - sizes[0] < 1.2 * len(text + said)


def test_copies(store: EpicVectorStore, tmp_path: Path, path: Path) -> None:
    store.add([embedded(1), embedded(2)])
    copied = tmp_path / "deep" / "er" / "default__vector_store.json"
    for _ in range(2):
        store.persist(str(copied))
        store.persist(copied, fs=fsspec.filesystem("file"))
        with EpicVectorStore.from_persist_path(str(copied), embed_model=encoder(), read_only=True) as other:
            assert seen(other.get_nodes()) == seen(store.get_nodes())
        store.add([embedded(3, "a third")])
    assert [one.name for one in copied.parent.iterdir()] == [copied.name]
    with EpicVectorStore.from_persist_dir(copied.parent, embed_model=encoder(), preferences=["night"]) as other:
        other.add([embedded(4)])
        other.persist(str(copied))  # its own file
        assert other.preferences and len(other.get_nodes()) == 4 and len(store.get_nodes()) == 3
    if store.path is not None:
        before = path.read_bytes()
        store.persist(str(path))
        assert path.read_bytes() == before
    store.backup(tmp_path / "copy")
    with pytest.raises(AlreadyThereError):
        store.backup(tmp_path / "copy")
    with pytest.raises(EncoderMismatchError, match="hash"):
        EpicVectorStore.from_persist_path(tmp_path / "copy")


def test_copies_that_cannot_be(tmp_path: Path) -> None:
    remote, store = fsspec.filesystem("memory"), EpicVectorStore(encoder())
    (tmp_path / "empty").touch()
    (tmp_path / "default__vector_store.json").write_text('{"embedding_dict": {}}')
    elsewhere = "file of this machine; it cannot be on MemoryFileSystem"
    refused: list[tuple[Callable[[], Any], type[Exception], str | None]] = [
        (lambda: store.persist("/a/b", fs=remote), InvalidInputError, elsewhere),
        (lambda: EpicVectorStore.from_persist_path("/a/b", fs=remote), InvalidInputError, elsewhere),
        (lambda: EpicVectorStore.from_persist_dir("/a", fs=remote), InvalidInputError, elsewhere),
        (lambda: EpicVectorStore.from_persist_dir(tmp_path), StoreError, None),
        (lambda: EpicVectorStore.from_persist_dir(tmp_path / "none"), StoreError, None),
        (lambda: EpicVectorStore.from_persist_path(tmp_path / "empty"), StoreError, None),
        (lambda: EpicVectorStore(path=tmp_path / "none", read_only=True), StoreError, None),
        (lambda: EpicVectorStore(path=str(tmp_path / "none"), must_exist=True), StoreError, None),
    ]
    for call, error, match in refused:
        with pytest.raises(error, match=match):
            call()
    with EpicVectorStore.from_persist_path(tmp_path / "new", must_exist=False) as made:
        assert made.get_nodes() == []


def test_a_record_that_was_made_of_no_node_is_damage(path: Path) -> None:
    with Collection(encoder(), path, namespace="nodes") as records:
        records.add([Record(id="1", text="red", metadata={"\x00node": {"relationships": {"9": {}}}})])
    with EpicVectorStore(encoder(), path=path) as store, pytest.raises(DamagedError, match=str(path)):
        store.get_nodes()


# as a component


@pytest.mark.parametrize(
    "options",
    [{"embed_model": "hash"}, {"pathe": 1}, {"steering": "on"}, {"preferences": [""]}, {"embed_model": 3}],
    ids=range(5),
)
def test_arguments_that_cannot_be(options: dict[str, Any]) -> None:
    with pytest.raises((InvalidInputError, TypeError)):
        EpicVectorStore(**options)
