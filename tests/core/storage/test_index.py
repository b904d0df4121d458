"""The instruction index: stable ids, filters inside the search."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from epic_memory.storage.vector_index import EntryIndex


def unit(count: int, dimension: int = 8, seed: int = 0) -> np.ndarray:
    vectors = np.random.default_rng(seed).normal(size=(count, dimension)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def filled(count: int = 20, first: int = 100) -> tuple[EntryIndex, np.ndarray]:
    index, vectors = EntryIndex(8), unit(count)
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
    index, (vector,) = EntryIndex(8), unit(1)
    index.add([1, 2], np.stack([vector, vector]), [0.5, 0.25])
    rows, scores = index.search(vector, 2, penalised=True)
    assert rows.tolist() == [2, 1]
    np.testing.assert_allclose(scores, [0.75, 0.5], atol=1e-6)
    np.testing.assert_allclose(index.search(vector, 2)[1], [1.0, 1.0], atol=1e-6)
