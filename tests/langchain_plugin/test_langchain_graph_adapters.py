"""Adapters for `langchain-graph-retriever`: what its suite leaves out."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

import numpy as np
import pytest

from epic_memory import Settings

pytest.importorskip("langchain_graph_retriever", reason="needs the extra graph-retriever")

from graph_retriever.edges import Edge, IdEdge, MetadataEdge
from graph_retriever.strategies import Eager, Mmr, Strategy
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_core.runnables import RunnableParallel
from langchain_core.vectorstores import InMemoryVectorStore, VectorStore
from langchain_graph_retriever import GraphRetriever
from langchain_graph_retriever.adapters.in_memory import InMemoryAdapter

from epic_langchain import EpicEmbeddings, EpicVectorStore
from epic_langchain.traversal import EpicGraphAdapter, SteeredGraphAdapter
from epic_memory import EpicMemory, Filter, Item
from epic_memory.errors import EncoderError, InvalidInputError, UnknownPreferenceError
from epic_memory.storage.codecs import rounded
from epic_memory.types import Stance
from helpers import HashEncoder, KeepAll, both, searching

DATA = files("epic_memory") / "data"
RECORDS = [json.loads(line) for line in (DATA / "corpus.jsonl").read_text(encoding="utf-8").splitlines()]
PREFERENCES = (DATA / "preferences.txt").read_text(encoding="utf-8").splitlines()
QUESTIONS = (DATA / "questions.txt").read_text(encoding="utf-8").splitlines()
DOCUMENTS = [
    Document(
        id=record["id"],
        page_content=record["text"],
        metadata={"shelf": n % 11, "words": record["title"].lower().split(), "next": RECORDS[n * 7 % 60]["id"]},
    )
    for n, record in enumerate(RECORDS)
]
EDGES: dict[str, list[tuple[str, str]]] = {
    "value": [("shelf", "shelf")],
    "list": [("words", "words")],
    "id": [("next", "$id")],
    "both": [("shelf", "shelf"), ("next", "$id")],
}
STRATEGIES: dict[str, Strategy] = {
    "eager": Eager(select_k=12, start_k=3, adjacent_k=6, max_depth=2),
    "mmr": Mmr(select_k=8, start_k=2, adjacent_k=5, max_depth=3, lambda_mult=0.7),
}

AVOIDS = "I avoid hotels with casinos."
LIKES = "I love casinos."
QUERY = "Which hotel should I book in Las Vegas?"
HOTELS = [
    Document(id="start", page_content="A hotel in Las Vegas to book.", metadata={"city": "Vegas", "at": {"lane": 1}}),
    Document(
        id="casino",
        page_content="A hotel in Las Vegas with a casino, slot machines and poker.",
        metadata={"city": "Vegas", "year": 2020, "at": {"lane": 1}},
    ),
    Document(
        id="garden",
        page_content="A hotel in Las Vegas, quiet and with a garden.",
        metadata={"city": "Vegas", "year": 2024, "at": {"lane": 2}},
    ),
    Document(id="far", page_content="A hotel beside a lake.", metadata={"city": "Geneva", "year": 2024}),
]


def ids(found: Any) -> list[str | None]:
    return [one.id for one in found]


def hotels(*preferences: str) -> EpicVectorStore:
    store = EpicVectorStore(preferences=preferences)
    store.add_documents(HOTELS)
    return store


def in_ram(documents: list[Document], embeddings: Any = None) -> InMemoryVectorStore:
    store = InMemoryVectorStore(embeddings or EpicEmbeddings())
    store.add_documents(copy.deepcopy(documents))
    return store


@pytest.fixture(scope="module")
def ours() -> Iterator[EpicVectorStore]:
    with EpicVectorStore(preferences=PREFERENCES) as store:
        store.add_documents(DOCUMENTS)
        yield store


class Rounded(EpicEmbeddings):
    """Embeds documents as our file gives the embeddings back, so that near ties are the same in both stores."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        vectors: list[list[float]] = rounded(self.encoder.encode(texts)).tolist()
        return vectors


@pytest.fixture(scope="module")
def theirs() -> InMemoryVectorStore:
    return in_ram(DOCUMENTS, Rounded())


# whole traversals


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("edges", EDGES)
async def test_unsteered_traversals_are_those_of_the_librarys_own_adapter(
    ours: EpicVectorStore, theirs: InMemoryVectorStore, edges: str, strategy: str
) -> None:
    common: Any = {"edges": EDGES[edges], "strategy": STRATEGIES[strategy]}
    own, other = GraphRetriever(store=EpicGraphAdapter(ours), **common), GraphRetriever(store=theirs, **common)
    off: Any = {"store_kwargs": {"steering": "off"}}
    for question in QUESTIONS[:3]:
        found = own.invoke(question, **off)
        assert ids(found) == ids(await own.ainvoke(question, **off)) == ids(other.invoke(question))
        assert len(found) > 3


@pytest.mark.parametrize("mode", ["paper", "off"])
@pytest.mark.parametrize("edges", EDGES)
async def test_any_store_is_traversed_as_ours_is(
    ours: EpicVectorStore, theirs: InMemoryVectorStore, edges: str, mode: Any
) -> None:
    # In signed mode ours ranks as a memory does; of any other store only the query is known.
    common: Any = {"edges": EDGES[edges], "strategy": STRATEGIES["eager"]}
    own = GraphRetriever(store=EpicGraphAdapter(ours), **common)
    steered = GraphRetriever(store=SteeredGraphAdapter(theirs, PREFERENCES, steering=mode), **common)
    for question in QUESTIONS[:3]:
        found = steered.invoke(question)
        assert ids(found) == ids(own.invoke(question, store_kwargs={"steering": mode}))
        assert ids(await steered.ainvoke(question)) == ids(found)
        assert ids(await own.ainvoke(question, store_kwargs={"steering": mode})) == ids(found)


def _steered_hotels() -> dict[str, Any]:
    return {
        "ours": lambda *preferences: EpicGraphAdapter(hotels(*preferences)),
        "any": lambda *preferences: SteeredGraphAdapter(in_ram(HOTELS), preferences),
    }


@pytest.mark.parametrize("which", ["ours", "any"])
async def test_preferences_choose_what_is_followed(which: str) -> None:
    retriever = GraphRetriever(
        store=_steered_hotels()[which](AVOIDS), edges=[("city", "city")], start_k=1, adjacent_k=2, k=2
    )
    assert ids(retriever.invoke(QUERY)) == ["start", "garden"]
    other: Any = {"store_kwargs": {"preferences": [LIKES]}}
    found = retriever.invoke(QUERY, **other)
    assert ids(found) == ids(await retriever.ainvoke(QUERY, **other)) and {*ids(found)} == {"casino", "start"}
    unsteered: Any = {"store_kwargs": {"steering": "off", "preferences": None}}
    assert ids(retriever.invoke(QUERY, **unsteered)) == ids(
        GraphRetriever(store=in_ram(HOTELS), edges=[("city", "city")], start_k=1, adjacent_k=2, k=2).invoke(QUERY)
    )


@pytest.mark.parametrize("which", ["ours", "any"])
async def test_one_retriever_serves_many_users_at_once(which: str) -> None:
    retriever = GraphRetriever(store=_steered_hotels()[which](), edges=[("city", "city")], start_k=1, adjacent_k=2, k=2)
    users = [AVOIDS, LIKES] * 8
    calls = [{"store_kwargs": {"preferences": [user]}} for user in users]
    by = {user: ids(retriever.invoke(QUERY, store_kwargs={"preferences": [user]})) for user in (AVOIDS, LIKES)}
    assert {*by[AVOIDS]} == {"start", "garden"} and {*by[LIKES]} == {"start", "casino"}
    expected = [by[user] for user in users]
    assert [ids(retriever.invoke(QUERY, **call)) for call in calls] == expected
    runnables = {str(n): retriever.bind(**call) for n, call in enumerate(calls)}
    together: Any = RunnableParallel(runnables)
    assert [ids(found) for found in together.invoke(QUERY).values()] == expected
    assert [ids(found) for found in (await together.ainvoke(QUERY)).values()] == expected


def _told(document: Document, stance: str) -> Document:
    facts = {"preference": AVOIDS, "stance": stance, "instruction": document.page_content}
    told = {"epic_stance": stance, "epic_preference": AVOIDS, "epic_alignments": json.dumps([facts])}
    return document.model_copy(update={"metadata": {**document.metadata, **told}})


@pytest.mark.parametrize("which", ["ours", "any"])
async def test_what_stands_against_a_preference_is_followed_last(which: str) -> None:
    # The words are nearer to the query; that it conflicts, only the verifier has seen.
    documents = [
        HOTELS[0],
        _told(
            Document(id="against", page_content="A hotel in Las Vegas with a view.", metadata={"city": "Vegas"}),
            "conflicts",
        ),
        _told(HOTELS[2], "supports"),
    ]
    store = EpicVectorStore(preferences=[AVOIDS])
    store.add_documents(documents)
    adapter: Any = EpicGraphAdapter(store) if which == "ours" else SteeredGraphAdapter(in_ram(documents), [AVOIDS])
    edges: set[Edge] = {MetadataEdge("city", "Vegas")}
    where = {"epic_preference": AVOIDS}
    vector, _ = adapter.search_with_embedding(QUERY, 1)
    assert ids(adapter.adjacent(edges, vector, 1, where)) == ["garden"]
    assert ids(await adapter.aadjacent(edges, vector, 1, where)) == ["garden"]
    # Without the search it stands for, a vector says nothing of preferences.
    assert ids(adapter.adjacent(edges, list(vector), 1, where)) == ["against"]


@pytest.mark.parametrize("which", ["ours", "steered"])
async def test_preferences_that_can_be_gone_through_once_hold_at_every_step(which: str) -> None:
    adapter: Any = EpicGraphAdapter(hotels()) if which == "ours" else SteeredGraphAdapter(in_ram(HOTELS))
    retriever = GraphRetriever(store=adapter, edges=[("city", "city")], start_k=1, k=3)
    for preference in (AVOIDS, LIKES):
        expected = ids(retriever.invoke(QUERY, store_kwargs={"preferences": [preference]}))
        assert ids(retriever.invoke(QUERY, store_kwargs={"preferences": iter([preference])})) == expected
        assert ids(await retriever.ainvoke(QUERY, store_kwargs={"preferences": iter([preference])})) == expected


# what an adapter is asked for


async def test_a_filter_holds_at_every_step() -> None:
    retriever = GraphRetriever(store=EpicGraphAdapter(hotels()), edges=[("city", "city")], start_k=1, k=4)
    conditions: list[Any] = [
        {"year": {"$gte": 2021}},
        Filter.ge("year", 2021),
        lambda document: document.metadata.get("year", 0) >= 2021,
    ]
    for condition in conditions:
        found = await both(retriever, "invoke", QUERY, filter=condition, initial_roots=["start"])
        # A root is a root, whatever the filter.
        assert set(ids(found)) <= {"start", "garden", "far"} and "garden" in ids(found)
    adapter = EpicGraphAdapter(hotels())
    assert ids(adapter.get(["far", "casino"], {"year": 2020})) == ids(await adapter.aget(["casino"])) == ["casino"]


async def test_edges_are_paths_and_values_of_lists_and_objects() -> None:
    store = EpicVectorStore()
    store.add_documents(
        [
            Document(id="a", page_content="one", metadata={"at": {"lane": 1}, "tags": [{"n": 1}, {"n": 2}]}),
            Document(id="b", page_content="two", metadata={"at.lane": 1, "tags": ["x", "y"]}),
            Document(id="c", page_content="three", metadata={"at": {"lane": [1, 2]}, "tags": "x"}),
            Document(id="d", page_content="four", metadata={"at": 1, "tags": True}),
        ]
    )
    adapter = EpicGraphAdapter(store)
    vector, _ = adapter.search_with_embedding("one", 0)
    expected: list[tuple[set[Edge], set[str]]] = [
        ({MetadataEdge("at.lane", 1)}, {"a", "c"}),
        ({MetadataEdge("at.lane", 2), MetadataEdge("tags", "y")}, {"b", "c"}),
        ({MetadataEdge("tags", {"n": 2})}, {"a"}),
        ({MetadataEdge("tags", "x")}, {"b", "c"}),
        ({MetadataEdge("tags", True), IdEdge("b"), IdEdge("nobody")}, {"b", "d"}),
        ({MetadataEdge("at.lane.deep", 1)}, set()),
        (set(), set()),
    ]
    for edges, wanted in expected:
        assert {one.id for one in adapter.adjacent(edges, vector, 9, None)} == wanted
        assert {one.id for one in await adapter.aadjacent(edges, vector, 9, None)} == wanted
    # A filter is the store's own: its keys are no paths.
    assert ids(adapter.search(vector, 9, {"at.lane": 1})) == ["b"]
    assert ids(adapter.search(vector, 9, {"at.lane": {"$in": [1]}})) == ["b"]


VALUES = st.one_of(st.integers(0, 3), st.sampled_from(["x", "y"]), st.lists(st.sampled_from(["x", "y", 1]), max_size=2))


@given(
    st.lists(st.dictionaries(st.sampled_from(["p", "q"]), VALUES), min_size=1, max_size=8),
    st.sets(st.tuples(st.sampled_from(["p", "q"]), st.sampled_from([0, 1, 2, "x", "y"])), min_size=1, max_size=4),
    st.sets(st.integers(0, 9), max_size=3),
    st.integers(1, 5),
)
def test_what_is_adjacent_is_what_each_edge_leads_to(
    metadata: list[dict[str, Any]], led: set[tuple[str, Any]], linked: set[int], k: int
) -> None:
    documents = [
        Document(id=str(n), page_content=f"number {n} of them", metadata=one) for n, one in enumerate(metadata)
    ]
    edges: set[Edge] = {MetadataEdge(key, value) for key, value in led} | {IdEdge(str(n)) for n in linked}
    encoder = HashEncoder(64)
    with EpicVectorStore(encoder) as store:
        store.add_documents(documents)
        adapter, other = EpicGraphAdapter(store), InMemoryAdapter(in_ram(documents, EpicEmbeddings(encoder)))
        vector, _ = adapter.search_with_embedding("number 1", 0)
        every = {one.id for one in other.adjacent(edges, list(vector), 9, None)}
        assert {one.id for one in adapter.adjacent(edges, vector, 9, None)} == every
        found = adapter.adjacent(edges, vector, k, None)
        assert len(found) == min(k, len(every)) == len({one.id for one in found})


async def test_without_documents_nothing_is_found() -> None:
    memory = EpicMemory([AVOIDS])
    for adapter in (
        EpicGraphAdapter(EpicVectorStore(preferences=[AVOIDS])),
        EpicGraphAdapter(EpicVectorStore.from_memory(memory)),
        SteeredGraphAdapter(in_ram([]), [AVOIDS]),
    ):
        retriever = GraphRetriever(store=adapter, edges=[("city", "city")])
        assert retriever.invoke(QUERY) == await retriever.ainvoke(QUERY) == []
        assert list(adapter.get(["a"])) == list(await adapter.aget(["a"])) == []
    assert EpicGraphAdapter(hotels()).get([]) == await EpicGraphAdapter(hotels()).aget([]) == []


# memories


@pytest.fixture
def memory() -> Iterator[EpicMemory]:
    stances = {"casino": Stance.CONFLICTS}
    with EpicMemory([AVOIDS, LIKES], settings=Settings(verifier=KeepAll(stances), tau=-1.0)) as memory:
        memory.add(Item(id=one.id or "", text=one.page_content, metadata=one.metadata) for one in HOTELS)
        yield memory


@pytest.mark.parametrize("edges", [[("city", "city")], [("other", "$id")]], ids=["metadata", "id"])
async def test_a_memory_is_traversed_with_its_guidance(memory: EpicMemory, edges: Any) -> None:
    memory.add(
        [Item(id="start", text=HOTELS[0].page_content, metadata={"city": "Vegas", "other": ["casino", "garden"]})]
    )
    view = EpicVectorStore.from_memory(memory)
    retriever = GraphRetriever(store=EpicGraphAdapter(view), edges=edges, start_k=1, k=4)
    found = retriever.invoke(QUERY, filter={"year": {"$gt": 0}}, initial_roots=["start"])
    assert {"casino", "garden"} <= set(ids(found))
    assert all(one.metadata["epic_instruction"] and one.metadata["epic_preference"] for one in found)
    again = await retriever.ainvoke(QUERY, filter={"year": {"$gt": 0}}, initial_roots=["start"])
    assert ids(again) == ids(found) and [one.metadata.keys() for one in again] == [one.metadata.keys() for one in found]
    adapter = EpicGraphAdapter(view)
    vector, _ = adapter.search_with_embedding(QUERY, 0)
    linked: set[Edge] = {IdEdge("casino"), IdEdge("garden")} if edges[0][1] == "$id" else {MetadataEdge("year", 2020)}
    first = adapter.adjacent(linked, vector, 1, None)
    # What conflicts comes last; what is linked by metadata alone is all there is.
    assert ids(first) == (["garden"] if edges[0][1] == "$id" else ["casino"])
    assert ids(await adapter.aadjacent(linked, vector, 1, None)) == ids(first)


def test_what_is_linked_by_id_is_ranked_as_what_is_found(memory: EpicMemory) -> None:
    adapter = EpicGraphAdapter(EpicVectorStore.from_memory(memory))
    vector, _ = adapter.search_with_embedding(QUERY, 0)
    linked: set[Edge] = {IdEdge(item.id) for item in memory.items()}
    by_id = {one.id: one.metadata["epic_score"] for one in adapter.adjacent(linked, vector, 9, None)}
    for one in adapter.get(list(by_id)):
        penalty = 0.2 if one.id == "casino" else 0.0
        assert by_id[one.id] == pytest.approx(np.dot(vector, one.embedding) - penalty, abs=1e-5)
    found = {hit.item.id: hit.score for hit in memory.search(QUERY, 9, filter=Filter.eq("city", "Vegas"))}
    both = adapter.adjacent(linked | {MetadataEdge("city", "Vegas")}, vector, 9, None)
    scores = {one.id: one.metadata["epic_score"] for one in both}
    assert scores == {name: max(score, found.get(name, score)) for name, score in by_id.items()}
    assert list(scores.values()) == sorted(scores.values(), reverse=True) and len(both) == len(HOTELS)


async def test_a_memorys_search_is_the_start(memory: EpicMemory) -> None:
    adapter = EpicGraphAdapter(EpicVectorStore.from_memory(memory))
    for options in ({}, {"preferences": [LIKES]}, {"steering": "off"}):
        hits = memory.search(QUERY, 3, **searching(**options))  # type: ignore[arg-type]
        vector, found = adapter.search_with_embedding(QUERY, 3, **options)
        assert ids(found) == [hit.item.id for hit in hits] and hits.vector is not None
        assert vector == hits.vector.tolist() and [one.embedding for one in found] == [v.tolist() for v in hits.vectors]
        assert ids(adapter.search(list(vector), 3)) == ids(await adapter.asearch(list(vector), 3))
    with pytest.raises(UnknownPreferenceError):
        adapter.search_with_embedding(QUERY, preferences=["I love the sea."])
    with pytest.raises(InvalidInputError, match="filter"):
        adapter.search_with_embedding(QUERY, filter=lambda document: True)


async def test_another_users_items_are_found_by_id_too(memory: EpicMemory) -> None:
    adapter = EpicGraphAdapter(EpicVectorStore.from_memory(memory, namespace="nobody"))
    assert adapter.get(["casino"]) == await adapter.aget(["casino"]) == []
    other = EpicGraphAdapter(EpicVectorStore.from_memory(memory, namespace=memory.namespace))
    assert ids(other.get(["casino", "casino", "nobody"])) == ["casino"]


async def test_what_a_fallback_finds_can_be_traversed() -> None:
    memory = EpicMemory(
        [AVOIDS], settings=Settings(fallback=lambda query, k: ["An engine needs oil.", "An engine needs water."])
    )
    adapter = EpicGraphAdapter(EpicVectorStore.from_memory(memory))
    retriever = GraphRetriever(store=adapter, edges=[("city", "city")])
    found = retriever.invoke("zebra xylophone quantum")
    assert [one.page_content for one in found] == ["An engine needs oil.", "An engine needs water."]
    assert ids(await retriever.ainvoke("zebra xylophone quantum")) == ids(found)


async def test_nothing_blocks_the_event_loop() -> None:
    encoder = HashEncoder()
    memory = EpicMemory([AVOIDS], encoder=encoder, settings=Settings(verifier=KeepAll(), tau=-1.0))
    memory.add(Item(id=one.id or "", text=one.page_content, metadata=one.metadata) for one in HOTELS)
    store = EpicVectorStore(encoder, preferences=[AVOIDS])
    store.add_documents(HOTELS)
    for adapter in (
        EpicGraphAdapter(EpicVectorStore.from_memory(memory)),
        EpicGraphAdapter(store),
        SteeredGraphAdapter(in_ram(HOTELS, EpicEmbeddings(encoder)), [AVOIDS]),
    ):
        encoder.sync_threads.clear()
        retriever = GraphRetriever(store=adapter, edges=[("city", "city"), ("other", "$id")], start_k=1)
        assert await retriever.ainvoke(QUERY, initial_roots=["far"])
        assert encoder.sync_threads and threading.get_ident() not in encoder.sync_threads


# any store


def test_documents_say_what_steered_and_the_store_keeps_its_own() -> None:
    store = in_ram(HOTELS)
    before = copy.deepcopy(store.store)
    retriever = GraphRetriever(store=SteeredGraphAdapter(store, [AVOIDS]), edges=[("city", "city")], start_k=1, k=3)
    found = retriever.invoke(QUERY)
    assert [one.metadata["epic_steered_by"] for one in found] == [AVOIDS] * 3
    for one in found:
        one.metadata["at"]["lane"] = "changed"
    assert store.store == before
    unsteered = retriever.invoke(QUERY, store_kwargs={"steering": "off"})
    assert not any(key.startswith("epic_") for one in unsteered for key in one.metadata)


async def test_other_options_are_the_adapters_own() -> None:
    class Telling(InMemoryAdapter):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            self.told: list[dict[str, Any]] = []

        def _search(self, *arguments: Any, **kwargs: Any) -> Any:
            self.told.append({name: kwargs.pop(name) for name in ("tenant", "steering") if name in kwargs})
            return super()._search(*arguments, **kwargs)

    inner = Telling(in_ram(HOTELS))
    retriever = GraphRetriever(store=SteeredGraphAdapter(inner, [AVOIDS]), edges=[("city", "city")], start_k=1)
    options: Any = {"store_kwargs": {"tenant": "me", "steering": "paper"}}
    retriever.invoke(QUERY, **options)
    await retriever.ainvoke(QUERY, **options)
    assert len(inner.told) >= 4 and all(told == {"tenant": "me"} for told in inner.told)


def test_an_adapter_without_embeddings_is_told_of_them() -> None:
    class Bare(InMemoryAdapter):
        @property
        def vector_store(self) -> Any:
            class Hidden:
                embeddings = None
                store = inner.store
                _similarity_search_with_score_by_vector = inner._similarity_search_with_score_by_vector

            return Hidden()

        @vector_store.setter
        def vector_store(self, store: Any) -> None: ...

        def embed_query(self, query: str) -> list[float]:
            return EpicEmbeddings().embed_query(query)

    inner = in_ram(HOTELS)
    with pytest.raises(InvalidInputError, match="Give embeddings="):
        SteeredGraphAdapter(Bare(inner), [AVOIDS])
    adapter = SteeredGraphAdapter(Bare(inner), [AVOIDS], embeddings=EpicEmbeddings())
    assert ids(adapter.search_with_embedding(QUERY, 2)[1]) == ids(
        SteeredGraphAdapter(inner, [AVOIDS]).search_with_embedding(QUERY, 2)[1]
    )
    with pytest.raises(EncoderError, match="of one kind"):
        SteeredGraphAdapter(inner, [AVOIDS], embeddings=HashEncoder(32)).search_with_embedding(QUERY)


# errors


def test_arguments_that_cannot_be_are_errors() -> None:
    store = hotels()
    for wrong in (in_ram(HOTELS), EpicMemory([AVOIDS]), None, "me.vectors"):
        with pytest.raises(InvalidInputError, match="EpicGraphAdapter takes an EpicVectorStore"):
            EpicGraphAdapter(wrong)  # type: ignore[arg-type]
    for ours in (store, EpicGraphAdapter(store), SteeredGraphAdapter(in_ram(HOTELS))):
        with pytest.raises(InvalidInputError, match="steers already"):
            SteeredGraphAdapter(ours)
    for options in (
        {"steering": "on"},
        {"floor": 2.0},
        {"floor": "high"},
        {"overfetch": 0},
        {"preferences": [3]},
        {"embeddings": "x"},
    ):
        with pytest.raises(InvalidInputError):
            SteeredGraphAdapter(in_ram(HOTELS), **options)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="a vector store or an adapter"):
        SteeredGraphAdapter({"a": 1})  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        SteeredGraphAdapter(in_ram(HOTELS), mode="off")  # type: ignore[call-arg]


async def test_calls_that_cannot_be_are_errors() -> None:
    adapter = EpicGraphAdapter(hotels())
    retriever = GraphRetriever(store=adapter, edges=[("city", "city")])
    with pytest.raises(TypeError, match="tenant"):
        await both(retriever, "invoke", QUERY, store_kwargs={"tenant": "me"})
    with pytest.raises(InvalidInputError, match="mode"):
        retriever.invoke(QUERY, store_kwargs={"steering": "on"})
    with pytest.raises(InvalidInputError, match=r"[Ff]ilter"):
        retriever.invoke(QUERY, filter={"year": {"$near": 2020}})
    with pytest.raises(InvalidInputError, match="query must be a string"):
        await both(retriever, "invoke", None)
    vector, _ = adapter.search_with_embedding(QUERY, 0)
    with pytest.raises(InvalidInputError, match="MetadataEdge, IdEdge"):
        adapter.adjacent({Edge()}, vector, 3, None)  # type: ignore[abstract]
    for k in (-1, 2.5):
        with pytest.raises(InvalidInputError):
            adapter.search_with_embedding(QUERY, k)  # type: ignore[arg-type]
    assert adapter.search(vector, 0) == await adapter.asearch(vector, 0) == []


def test_a_store_without_an_adapter_is_named() -> None:
    class Unknown(VectorStore):
        @classmethod
        def from_texts(cls, *arguments: Any, **kwargs: Any) -> Any: ...

        def similarity_search(self, *arguments: Any, **kwargs: Any) -> Any: ...

    with pytest.raises(InvalidInputError, match="no adapter for Unknown"):
        SteeredGraphAdapter(Unknown(), [AVOIDS])


@pytest.mark.slow
def test_a_missing_package_names_the_extra() -> None:
    code = "import sys; sys.modules['langchain_graph_retriever'] = None; import epic_langchain.traversal"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "pip install 'epic-memory[graph-retriever]'" in done.stderr.splitlines()[-1]
