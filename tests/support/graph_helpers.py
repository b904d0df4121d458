"""What the tests of graphs share: extractors that find what is marked, broken ones, and all one can see of a graph."""

from __future__ import annotations

import asyncio
import re
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from epic_graph import Extraction, Fact, GraphMemory, Unextracted
from epic_memory import Item
from helpers import HashEncoder, KeepAll, searching, settled

WINE, SEA, HILLS = "red wine", "blue sea", "green hills"
QUERIES = ("Where is Oscar Reed?", "What of Berlin Mitte and Clara?", "red wine", "Nobody Known", "Idris or Oslo")


class Marked:
    """Finds what stands in brackets; two that follow one another make a fact."""

    name = "marked-v1"

    def __init__(self) -> None:
        self.asked: list[str] = []

    def answers(self, texts: Sequence[str]) -> Iterator[tuple[int, Any]]:
        for place, text in enumerate(texts):
            yield place, self.answer(text)

    def answer(self, text: str) -> Any:
        self.asked.append(text)
        names = re.findall(r"\[([^\]]*)\]", text)
        facts = [Fact(one, "meets", other) for one, other in pairwise(names)]
        return Extraction(tuple(dict.fromkeys(names)), tuple(facts))

    def stream(self, texts: Sequence[str]) -> Iterator[tuple[int, Any]]:
        yield from self.answers(texts)

    async def astream(self, texts: Sequence[str]) -> AsyncIterator[tuple[int, Any]]:
        for answer in self.answers(texts):
            await asyncio.sleep(0)
            yield answer


class Saying(Marked):
    """Says what a function makes of each text."""

    def __init__(self, say: Callable[[str], Any], name: str = "saying-v1") -> None:
        super().__init__()
        self.say = say
        self.name = name

    def answer(self, text: str) -> Any:
        self.asked.append(text)
        return self.say(text)


class Failing(Marked):
    """Does wrong, as `answers` of a broken extractor, until it is mended."""

    def __init__(self, how: Callable[[Marked, Sequence[str]], Iterator[tuple[int, Any]]]) -> None:
        super().__init__()
        self.how = how
        self.mended = False

    def answers(self, texts: Sequence[str]) -> Iterator[tuple[int, Any]]:
        yield from super().answers(texts) if self.mended else self.how(Marked(), texts)


def made(path: Path | None = None, preferences: Any = (WINE, SEA), **options: Any) -> GraphMemory:
    """A graph memory that keeps whatever passes the coarse filter."""
    options = {
        "encoder": HashEncoder(256),
        "verifier": KeepAll(),
        "extractor": Marked(),
        "tau": 0.1,
        **options,
    }
    return (
        GraphMemory(preferences, **settled(**options))
        if path is None
        else GraphMemory.open(path, preferences, **settled(**options))
    )


def anew(graph: GraphMemory, **options: Any) -> GraphMemory:
    """A graph of the same items and preferences, built in one go."""
    fresh = made(None, graph.memory.preferences, extractor=graph.extractor, **options)
    fresh.add(graph.memory.items())
    return fresh


def again(path: Path, **options: Any) -> GraphMemory:
    return made(path, None, **options)


PEOPLE = [
    Item(id="oscar", text="[Oscar Reed] drinks red wine with [Clara]."),
    Item(id="clara", text="[Clara] has a red house in [Berlin Mitte] by the blue sea."),
    Item(id="berlin", text="[Berlin Mitte Nord] has green hills, [Idris] says, and red wine."),
    Item(id="idris", text="[Idris] sails the blue sea to [Oslo]."),
    Item(id="bare", text="A blue sea, and nobody on it."),
]


def found(graph: GraphMemory, query: str, k: int = 50, **options: Any) -> dict[str, float]:
    return {hit.item.id: hit.score for hit in graph.search(query, k, **searching(**options))}


def seen(graph: GraphMemory) -> dict[str, Any]:
    """All that can be seen of a graph, in no particular order."""
    return exactly(graph) | {
        "hits": {query: found(graph, query) for query in QUERIES},
        "linked": {query: {name for name, _ in graph.search(query).entities} for query in QUERIES},
        "entities": set(graph.entities()),
        "neighbours": {name: dict(graph.neighbours(name)) for name in graph.entities()},
    }


def alike(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two graphs look the same, their numbers approximately."""

    def near(name: str, given: dict[str, Any]) -> dict[str, Any]:
        return {key: pytest.approx(numbers, abs=5e-3) for key, numbers in given[name].items()}

    about = {"hits", "neighbours"}
    assert {**one, **{name: dict(one[name]) for name in about}} == {
        **other,
        **{name: near(name, other) for name in about},
    }
    return True


def exactly(graph: GraphMemory) -> dict[str, Any]:
    """The same as it is, hits in their order."""
    ids = [item.id for item in graph.memory.items()]
    return {
        "hits": {query: [(h.item, h.score, h.entries) for h in graph.search(query, 50)] for query in QUERIES},
        "linked": {query: graph.search(query).entities for query in QUERIES},
        "entities": graph.entities(),
        "of items": {item_id: graph.entities(item_id) for item_id in ids},
        "facts": {item_id: graph.facts(item_id) for item_id in ids},
        "neighbours": {name: graph.neighbours(name) for name in graph.entities()},
        "counts": graph.counts(),
        "failures": graph.failures(),
    }


def recounted(path: Path) -> None:
    """Check that each entity of a file counts the passages that name it, and that there is no other."""
    with closing(sqlite3.connect(path)) as db:
        named: Counter[int] = Counter()
        spelt: Counter[int] = Counter()
        for (rows,) in db.execute("SELECT entities FROM passages"):
            said = np.frombuffer(rows, dtype="<u4")
            assert len(said) == len(set((said % 2**31).tolist()))
            named.update((said % 2**31).tolist())
            spelt.update(said[said < 2**31].tolist())
        found = db.execute("SELECT row, passages, spelt FROM entities").fetchall()
        assert {row: passages for row, passages, _ in found} == named
        assert {row: as_called for row, _, as_called in found} == {row: spelt[row] for row in named}
        held = {row for (row,) in db.execute("SELECT item FROM entries")}
        assert {row for (row,) in db.execute("SELECT item FROM passages")} <= held


def failing_midway(marked: Marked, texts: Sequence[str]) -> Iterator[tuple[int, Any]]:
    answers = marked.answers(texts)
    yield next(answers)
    raise ConnectionError("the line is dead")


def failing_at_once(marked: Marked, texts: Sequence[str]) -> Iterator[tuple[int, Any]]:
    raise ConnectionError("the line is dead")
    yield 0, None


def answering_some(marked: Marked, texts: Sequence[str]) -> Iterator[tuple[int, Any]]:
    yield from list(marked.answers(texts))[::2]


def unextracted(marked: Marked, texts: Sequence[str]) -> Iterator[tuple[int, Any]]:
    for place, answer in marked.answers(texts):
        yield place, answer if place % 2 else Unextracted("said nothing", answer="Well ...")


TEXTS = [
    "[Oscar Reed] drinks red wine with [Clara].",
    "[Clara] lives in [Berlin Mitte] by the blue sea.",
    "[Berlin Mitte Nord] has green hills and red wine, [Idris] says.",
    "[Idris] sails the blue sea to [Oslo] and [Oslo Harbour].",
    "A blue sea, and nobody on it.",
    "Red wine for [Oscar Reed], [Idris] and [Clara] in the green hills.",
    "Fails: red wine of [Oslo]",
]


class SometimesFailing(Marked):
    """Fails for some texts, until it is told not to."""

    fails = True

    def answer(self, text: str) -> Any:
        return Unextracted("it failed") if self.fails and text.startswith("Fails") else super().answer(text)


def outcome(said: Any) -> Any:
    """What a call said, without its seconds."""
    if hasattr(said, "timings"):
        said = {
            name: value for name, value in vars(said).items() if name not in ("timings", "vector", "query", "vectors")
        }
        return {name: outcome(value) for name, value in said.items()}
    return said
