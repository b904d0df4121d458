"""The approximate index of a large table: its recall, what changed since it was made, and what `stats()` says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from epic_memory import EpicMemory, Filter, Item, Settings
from epic_memory.storage import texts, vector_index
from epic_memory.storage.vector_index import LEAST_ROWS, VectorTable


def unit(count: int, dimension: int = 16, seed: int = 0) -> np.ndarray:
    vectors = np.random.default_rng(seed).normal(size=(count, dimension)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def best(table: VectorTable, query: np.ndarray, k: int = 10) -> tuple[list[int], bool]:
    """The k nearest rows, and whether an index found them."""
    places, cosines = table.near(query, k)
    rows = table.rows if places is None else table.rows[places]
    return rows[np.argsort(-cosines, kind="stable")[:k]].tolist(), places is not None


def exactly(table: VectorTable, query: np.ndarray, k: int = 10) -> list[int]:
    return table.rows[np.argsort(-table.cosines(query), kind="stable")[:k]].tolist()


@pytest.fixture(autouse=True)
def _made_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vector_index, "PAYS_AFTER", 0)


@pytest.fixture(scope="module")
def large() -> VectorTable:
    table = VectorTable(16)
    table.add(list(range(LEAST_ROWS + 100)), unit(LEAST_ROWS + 100))
    return table


def test_a_large_table_is_searched_by_an_index_with_enough_recall(large: VectorTable) -> None:
    found = [(best(large, query), exactly(large, query)) for query in unit(50, seed=1)]
    assert all(approximately for (_, approximately), _ in found)
    assert np.mean([len({*rows} & {*wanted}) / 10 for (rows, _), wanted in found]) >= 0.98
    assert large.described().startswith("approximate with recall ")


def test_it_is_made_when_enough_was_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vector_index, "LEAST_ROWS", 20_000)
    monkeypatch.setattr(vector_index, "PAYS_AFTER", 3)
    table = VectorTable(16)
    table.add(list(range(20_000)), unit(20_000))
    assert [best(table, query)[1] for query in unit(5, seed=6)] == [False, False, False, True, True]


def test_added_replaced_and_removed_vectors_count_at_once(large: VectorTable) -> None:
    queries = unit(3, seed=4)
    large.add([1_000_000], queries[:1])
    assert best(large, queries[0])[0][0] == 1_000_000
    large.add([7], queries[1:2])
    assert best(large, queries[1])[0][0] == 7
    moved = int(large.rows[-1])
    large.remove([7, 8])
    assert 7 not in best(large, queries[1])[0]
    assert best(large, large.vector(moved))[0][0] == moved
    assert large.described().startswith("approximate")


def test_without_the_recall_the_search_stays_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vector_index, "LEAST_RECALL", 1.1)
    monkeypatch.setattr(vector_index, "LEAST_ROWS", 20_000)
    table = VectorTable(16)
    table.add(list(range(20_000)), unit(20_000))
    assert best(table, unit(1, seed=1)[0])[1] is False
    assert table.described() == "exact, 20,000 vectors"


def test_turns_are_not_told_apart_among_too_many_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(texts, "MOST_WORDED", 60)
    said = {"speaker": "Tom", "source": "a"}
    turns = [Item(text=f"I moved to town {n}.", metadata={**said, "turn": n}) for n in range(50)]
    notes = [f"Plain note {n} on trains." for n in range(100)]
    found = []
    for first, later in ((turns, notes), ([*turns, *notes], [])):
        memory = EpicMemory(["I love trains."], settings=Settings(reserve="4 MB"))
        memory.add(first)
        memory.search("Where did Tom move?")
        memory.add(later)
        found.append([(hit.item.text, hit.score) for hit in memory.search("Where did Tom move?")])
    assert found[0] == found[1]


def test_a_memory_finds_the_same_facts_and_texts_and_says_how(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "me.epic"
    topics = ("vegan cooking in Lisbon", "quiet hikes near Braga", "films of the sixties", "repairing old bicycles")
    with EpicMemory.open(path, ["I am vegan."], settings=Settings(reserve="4 MB")) as memory:
        memory.add([Item(id=f"{n}", text=f"Note {n} on {topics[n % 4]}.", metadata={"n": n}) for n in range(1_200)])
        memory.add([Item(text="My sister lives in Braga.", fact=True), Item(text="I moved to Lisbon.", fact=True)])
    monkeypatch.setattr(texts, "MOST_WORDED", 100)
    found = {}
    for least in (10**9, 1_100):
        monkeypatch.setattr(vector_index, "LEAST_ROWS", least)
        with EpicMemory.open(path) as memory:
            assert memory.stats().searched is None
            few = Filter.lt("n", 9)
            hits = [
                memory.search(one, k=3, filter=where) for one in ("Where do I live?", *topics) for where in (None, few)
            ]
            found[least] = [[(hit.item.id, hit.score) for hit in (*each, *each.facts)] for each in hits]
            said = str(memory.stats())
        assert ("approximate with recall" in said) is (least == 1_100)
    assert found[1_100] == found[10**9]
