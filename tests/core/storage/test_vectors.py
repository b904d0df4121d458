"""Vectors in a file and in RAM: their codes, the index of instructions, and the approximate one of a large table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from epic_memory import EpicMemory, Filter, Item, Settings
from epic_memory.storage import texts, vector_index
from epic_memory.storage.codecs import packed, rounded, unpacked
from epic_memory.storage.vector_index import LEAST_ROWS, EntryIndex, VectorTable
from epic_memory.types import FloatArray

DIMENSIONS = st.integers(1, 70)
SEEDS = st.integers(0, 2**20)


def unit_vectors(count: int, dimension: int, seed: int) -> FloatArray:
    """Of several shapes: round, with a component that outweighs the others, and with many zeros."""
    generator = np.random.default_rng(seed)
    vectors = generator.normal(size=(count, dimension))
    vectors[1::3] *= generator.random((len(vectors[1::3]), dimension)) ** 8
    vectors[2::3] *= generator.random((len(vectors[2::3]), dimension)) < 0.3
    vectors[:, generator.integers(dimension)] += 1e-3
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


@given(count=st.integers(1, 9), dimension=DIMENSIONS, seed=SEEDS)
def test_what_is_read_is_a_unit_vector_within_half_a_level_of_what_was_written(
    count: int, dimension: int, seed: int
) -> None:
    vectors = unit_vectors(count, dimension, seed)
    near, small = (unpacked(packed(vectors, small=small), dimension) for small in (False, True))
    for read in (near, small):
        assert (read.shape, read.dtype) == (vectors.shape, np.float32)
        np.testing.assert_allclose(np.linalg.norm(read, axis=1), 1.0, atol=1e-5)
    # Each component is off by at most half a level, the whole by their norm, and normalising at most doubles that.
    half_a_level = np.abs(vectors).max(axis=1) / 511 / 2
    assert (np.linalg.norm(near - vectors, axis=1) <= 2 * half_a_level * np.sqrt(dimension) + 1e-5).all()
    # The signs of what is larger than a level stay.
    clear = np.abs(vectors) > 2 * half_a_level[:, None]
    assert (np.sign(near) == np.sign(vectors))[clear].all()
    assert (small * vectors).sum(axis=1).min() > 0.9


@given(count=st.integers(1, 9), dimension=DIMENSIONS, seed=SEEDS)
def test_what_was_read_is_written_and_read_again_as_it_is(count: int, dimension: int, seed: int) -> None:
    codes = packed(unit_vectors(count, dimension, seed))
    read = unpacked(codes, dimension)
    assert packed(read) == codes
    assert rounded(read).tobytes() == unpacked(codes, dimension).tobytes() == read.tobytes()


@given(dimension=DIMENSIONS | st.sampled_from([256, 384, 768]), seed=SEEDS, small=st.booleans())
def test_a_vector_does_not_depend_on_those_it_is_read_or_written_with(dimension: int, seed: int, small: bool) -> None:
    vectors = unit_vectors(5, dimension, seed)
    codes = packed(vectors, small=small)
    assert [packed(vectors[row : row + 1], small=small)[0] for row in range(5)] == codes
    together = unpacked(codes, dimension)
    alone = np.concatenate([unpacked([code], dimension) for code in codes])
    assert together.tobytes() == alone.tobytes() == rounded(vectors, small=small).tobytes()


RIGHT = unit_vectors(2, 9, 1)


@pytest.mark.parametrize("small", [False, True])
@pytest.mark.parametrize(
    "spoil",
    [
        lambda code, small: b"",
        lambda code, small: b"\x00",
        lambda code, small: code[:-1],
        lambda code, small: code + b"\x00",
        lambda code, small: "a" * len(code),
        lambda code, small: None,
        # Codes of both kinds are not read together.
        lambda code, small: packed(RIGHT[:1], small=not small)[0],
    ],
)
def test_a_code_of_another_length_or_kind_is_an_error(spoil: Any, small: bool) -> None:
    right, other = packed(RIGHT, small=small)
    for codes in ([right, spoil(other, small)], [spoil(other, small), right]):
        with pytest.raises(ValueError, match="length"):
            unpacked(codes, 9)


def test_small_codes_are_the_same_everywhere() -> None:
    # What is in files must be read by later versions as it was written.
    (code,) = packed(np.eye(8, dtype=np.float32)[2:3], small=True)
    assert code.hex() == "55c97a44"
    (read,) = unpacked([bytes([0x10, 0x32, 0x54, 0xF6])], 8)
    np.testing.assert_allclose(read, [0.7808, -0.3256, -0.1477, 0.3434, 0.2022, 0.288, -0.0896, -0.1128], atol=1e-3)


# the index of instructions


def unit(count: int, dimension: int = 16, seed: int = 0) -> np.ndarray:
    vectors = np.random.default_rng(seed).normal(size=(count, dimension)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def filled(count: int = 20, first: int = 100) -> tuple[EntryIndex, np.ndarray]:
    index, vectors = EntryIndex(8), unit(count, 8)
    index.add(range(first, first + count), vectors)
    return index, vectors


@given(allowed=st.sets(st.integers(100, 119)), k=st.integers(1, 25))
def test_a_restriction_is_part_of_the_search(allowed: set[int], k: int) -> None:
    index, vectors = filled()
    rows, _ = index.search(vectors[0], k, allowed=np.array(sorted(allowed), dtype=np.int64))
    best = sorted(allowed, key=lambda row: -float(vectors[row - 100] @ vectors[0]))
    assert rows.tolist() == best[:k]


def test_removed_rows_are_gone_and_the_others_keep_their_ids() -> None:
    index, vectors = filled()
    index.remove([100, 105, 12345])
    assert len(index) == 18
    assert index.search(vectors[6], 1)[0].tolist() == [106]
    assert not {100, 105} & set(index.search(vectors[0], 20)[0].tolist())


def test_a_penalty_counts_only_where_it_is_asked_for() -> None:
    index, (vector,) = EntryIndex(8), unit(1, 8)
    index.add([1, 2], np.stack([vector, vector]), [0.5, 0.25])
    rows, scores = index.search(vector, 2, penalised=True)
    assert rows.tolist() == [2, 1]
    np.testing.assert_allclose(scores, [0.75, 0.5], atol=1e-6)
    np.testing.assert_allclose(index.search(vector, 2)[1], [1.0, 1.0], atol=1e-6)


# the approximate index


def best(table: VectorTable, query: np.ndarray, k: int = 10) -> tuple[list[int], bool]:
    """The k nearest rows, and whether an index found them."""
    places, cosines = table.near(query, k)
    rows = table.rows if places is None else table.rows[places]
    return rows[np.argsort(-cosines, kind="stable")[:k]].tolist(), places is not None


def exactly(table: VectorTable, query: np.ndarray, k: int = 10) -> list[int]:
    return table.rows[np.argsort(-table.cosines(query), kind="stable")[:k]].tolist()


@pytest.fixture(autouse=True)
def made_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
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


@pytest.mark.parametrize(
    ("least_recall", "approximately"), [(None, [False, False, False, True, True]), (1.1, [False] * 5)]
)
def test_it_is_made_when_enough_was_asked_and_its_recall_is_enough(
    monkeypatch: pytest.MonkeyPatch, least_recall: float | None, approximately: list[bool]
) -> None:
    monkeypatch.setattr(vector_index, "LEAST_ROWS", 20_000)
    monkeypatch.setattr(vector_index, "PAYS_AFTER", 3)
    monkeypatch.setattr(vector_index, "LEAST_RECALL", least_recall or vector_index.LEAST_RECALL)
    table = VectorTable(16)
    table.add(list(range(20_000)), unit(20_000))
    assert [best(table, query)[1] for query in unit(5, seed=6)] == approximately
    assert table.described() == "exact, 20,000 vectors" or least_recall is None


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
