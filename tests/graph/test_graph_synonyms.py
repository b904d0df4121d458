"""Synonyms: the same as by looking at every pair, and none between names that differ in a number."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from epic_graph import Extraction
from epic_graph.entity_linking import MOST_SYNONYMS, name_features, synonyms
from epic_memory import Item
from epic_memory.types import FloatArray
from graph_helpers import Saying, made


def unit(vectors: FloatArray) -> FloatArray:
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


@given(
    seed=st.integers(0, 2**32 - 1),
    count=st.integers(0, 200),
    earlier=st.integers(0, 200),
    dimension=st.sampled_from([3, 96, 97, 256]),
    spread=st.sampled_from([0.01, 0.1, 3.0]),
    least=st.sampled_from([0.3, 0.8, 1.0]),
)
@pytest.mark.slow
def test_all_pairs_are_looked_at(
    seed: int, count: int, earlier: int, dimension: int, spread: float, least: float
) -> None:
    random = np.random.default_rng(seed)
    middles = random.standard_normal((5, dimension))
    vectors = unit(middles[random.integers(0, 5, count + earlier)] + spread * random.standard_normal(dimension))
    vectors = unit(vectors + spread / 10 * random.standard_normal(vectors.shape))
    keys = [f"name {number}" for number in random.integers(0, 2, count + earlier)]
    before, after = name_features(keys[:earlier], vectors[:earlier]), name_features(keys[earlier:], vectors[earlier:])
    found = synonyms(before, after, least)
    assert len(found) == count
    cosines = vectors.astype(np.float64) @ vectors.astype(np.float64).T
    for place, near in enumerate(found, earlier):
        may_be = [other for other in range(place) if re.findall(r"\d+", keys[other]) == re.findall(r"\d+", keys[place])]
        alike = sorted((float(cosines[place, other]) for other in may_be), reverse=True)
        assert [cosine for _, cosine in near] == sorted((cosine for _, cosine in near), reverse=True)
        assert {other for other, _ in near} <= set(may_be)
        for other, cosine in near:
            assert cosine == pytest.approx(cosines[place, other], abs=0.003)
            assert cosines[place, other] >= least - 1e-5
        # What is as alike as rounding can tell may be among them or not.
        assert len([one for one in alike if one >= least + 1e-5][:MOST_SYNONYMS]) <= len(near)
        assert len(near) <= len([one for one in alike if one >= least - 1e-5][:MOST_SYNONYMS])
        assert all(cosine >= alike[len(near) - 1] - 0.003 for _, cosine in near)


@pytest.mark.slow
def test_thousands_of_numbered_names_are_no_synonyms() -> None:
    graph = made(extractor=Saying(lambda _: Extraction(tuple(f"red wine {number}" for number in range(3000)))))
    report = graph.add([Item(id="cellar", text="red wine")])
    assert (report.entities, report.synonyms) == (3000, 0)
