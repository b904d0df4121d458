"""Selection that stops: the number of hits follows the question, in a memory and in a graph, sync and async."""

from __future__ import annotations

import json
from importlib.resources import files

import pytest

from epic_graph import GraphMemory
from epic_memory import Item, SearchOptions, Settings
from epic_memory.errors import InvalidInputError
from epic_rerank import Adaptive, LearnedReranker, learn, reranker_of
from epic_rerank.features import NAMES

ONE = (
    "Who may use both hands in water polo?",
    "How many hides did a big Bible take?",
    "What grows on the roof of the new bus shelter?",
    "When was the cable car to Monte Fosco opened?",
)
THREE = (
    "What is the news from High Side: the bus shelter, the hosepipe ban and the tug of war?",
    "What is odd about Wenning: its weathercocks, its Butter Cross and its stolen bells?",
    "What do I know of Ostra: the vale, the treaty and the silent diet?",
    "What is there to see or know at Vessing: post riders, locks, ropes?",
)


@pytest.fixture(scope="module")
def graph() -> GraphMemory:
    lines = (files("epic_memory") / "data" / "corpus.jsonl").read_text(encoding="utf-8").splitlines()
    made = GraphMemory(settings=Settings(coarse=False, fine=False))
    made.add([Item(id=one["id"], text=one["text"]) for one in map(json.loads, lines)])
    return made


ANY_SCORE = SearchOptions(min_score=None)
ADAPTIVE = SearchOptions(chooser=Adaptive(), min_score=None)


async def test_the_number_of_hits_follows_the_question(graph: GraphMemory) -> None:
    for memory in (graph.memory, graph):
        one, three = ([memory.search(asked, 10, options=ADAPTIVE) for asked in several] for several in (ONE, THREE))
        assert sum(map(len, one)) < sum(map(len, three))
        for asked, hits in zip((*ONE, *THREE), (*one, *three), strict=True):
            assert 1 <= len(hits) == len(hits.vectors) <= 10
            assert [hit for hit in memory.search(asked, 10, options=ANY_SCORE) if hit in hits] == list(hits)
        assert list(await memory.asearch(THREE[0], 10, options=ADAPTIVE)) == list(three[0])
        assert len(memory.search(THREE[0], 1, options=ADAPTIVE)) == 1


def test_it_comes_after_a_reranker(graph: GraphMemory) -> None:
    plain = graph.memory.search(THREE[0], 10, options=ADAPTIVE)
    reranked = SearchOptions(chooser=Adaptive(reranker=reranker_of(graph.memory)))
    assert list(graph.memory.search(THREE[0], 10, options=reranked)) == list(plain)
    with pytest.raises(InvalidInputError):
        learn(graph.memory, plain, {})
    with pytest.raises(InvalidInputError):
        graph.search(THREE[0], options=SearchOptions(chooser=Adaptive(), keys="instruction"))


def liking_length(graph: GraphMemory) -> LearnedReranker:
    reranker = LearnedReranker(encoder=graph.memory.encoder.fingerprint)
    for name in ("W1", "W2", "W3"):
        reranker.weights[name][:] = 0.0
    reranker.weights["W1"][NAMES.index("length"), 0] = reranker.weights["W2"][0, 0] = 1.0
    reranker.weights["w3"][0] = 100_000.0
    return reranker


async def test_a_reranker_orders_what_a_walk_found(graph: GraphMemory) -> None:
    untrained, by_length, fewer = (
        SearchOptions(chooser=chooser, min_score=None)
        for chooser in (reranker_of(graph.memory), liking_length(graph), Adaptive(reranker=liking_length(graph)))
    )
    for asked in (THREE[0], "How many hides did a big Bible take?"):  # with an entity of the graph, and without one
        plain = graph.search(asked, 20, options=ANY_SCORE)
        assert list(graph.search(asked, 3, options=untrained)) == list(plain[:3])
        longest = graph.search(asked, 3, options=by_length)
        assert list(await graph.asearch(asked, 3, options=by_length)) == list(longest)
        lengths = sorted((hit.item.text.count(" ") for hit in plain), reverse=True)
        assert [hit.item.text.count(" ") for hit in longest] == lengths[:3]
        assert {hit.item.id for hit in longest} <= {hit.item.id for hit in plain}
        hits = graph.search(asked, 10, options=fewer)
        assert 1 <= len(hits) == len(hits.vectors) <= 10
