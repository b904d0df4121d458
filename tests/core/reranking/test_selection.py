"""Selection that stops: the number of hits follows the question, in a memory and in a graph, sync and async."""

from __future__ import annotations

import json
from importlib.resources import files

import pytest

from epic_core import Item
from epic_core.errors import InvalidInputError
from epic_core.graph import GraphMemory

ONE = "Who may use both hands in water polo?"
THREE = "What is the news from High Side: the bus shelter, the hosepipe ban and the tug of war?"


@pytest.fixture(scope="module")
def graph() -> GraphMemory:
    lines = (files("epic_core") / "data" / "corpus.jsonl").read_text(encoding="utf-8").splitlines()
    made = GraphMemory(coarse=False, fine=False)
    made.add([Item(id=one["id"], text=one["text"]) for one in map(json.loads, lines[100:300])])
    return made


async def test_the_number_of_hits_follows_the_question(graph: GraphMemory) -> None:
    for memory in (graph.memory, graph):
        one, three = (memory.search(question, 10, select="adaptive") for question in (ONE, THREE))
        assert 1 <= len(one) < len(three) <= 10
        assert {"doc-142", "doc-149"} <= {hit.item.id for hit in three}
        assert len(three.vectors) == len(three)
        assert list(await memory.asearch(THREE, 10, select="adaptive")) == list(three)
        plain = memory.search(THREE, 10)
        assert [hit for hit in plain if hit in three] == list(three)
        assert len(memory.search(THREE, 1, select="adaptive")) == 1


def test_it_comes_after_a_reranker(graph: GraphMemory) -> None:
    plain = graph.memory.search(THREE, 10, select="adaptive")
    assert list(graph.memory.search(THREE, 10, select="adaptive", reranker=True)) == list(plain)
    with pytest.raises(InvalidInputError):
        graph.memory.learn(plain, {})
    with pytest.raises(InvalidInputError):
        graph.search(THREE, select="adaptive", keys="instruction")
