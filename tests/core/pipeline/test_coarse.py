"""The coarse filter (Eq. 1-2): P_rel(x) = {p : Sim(E(x), E(p)) >= tau}."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from epic_memory import EpicMemory, Preference, Settings
from epic_memory.encoders import default_encoder
from epic_memory.pipeline.coarse_filter import Expanded, coarse_filter
from epic_memory.types import Expansion, FloatArray
from epic_memory.verification import EmbeddedVerifier

# Eighths: every product and sum is exact in float32, so a brute-force loop must agree to the last bit.
EIGHTHS = st.integers(-8, 8).map(lambda n: n / 8)


def matrices(rows: st.SearchStrategy[int]) -> st.SearchStrategy[FloatArray]:
    return rows.flatmap(lambda n: hnp.arrays(np.float32, (n, 3), elements=st.integers(-4, 4).map(lambda v: v / 8)))


def units(rows: int, dimension: int = 16, seed: int = 0) -> FloatArray:
    vectors = np.random.default_rng(seed).normal(size=(rows, dimension)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def passing(items: FloatArray, preferences: FloatArray, tau: float, **more: Any) -> list[int]:
    """The rows of the items that pass for any preference."""
    return np.flatnonzero(coarse_filter(items, preferences, tau, **more).any(axis=1)).tolist()


@given(matrices(st.integers(0, 12)), matrices(st.integers(0, 5)), EIGHTHS)
def test_the_filter_agrees_with_a_double_loop(items: FloatArray, preferences: FloatArray, tau: float) -> None:
    expected = [
        [sum(a * b for a, b in zip(item, preference, strict=True)) >= tau for preference in preferences.tolist()]
        for item in items.tolist()
    ]
    found = coarse_filter(items, preferences, tau)
    assert found.shape == (len(items), len(preferences)) and found.tolist() == expected


@given(st.floats(-1, 1, width=64))
@example(0.3)
@example(1 / 3)
def test_a_pair_at_exactly_tau_passes_in_float32(tau: float) -> None:
    at = np.float32(tau)
    below = np.nextafter(at, np.float32(-2))
    assert passing(np.array([[at], [below]], dtype=np.float32), np.ones((1, 1), dtype=np.float32), tau) == [0]


def test_an_expanded_preference_is_compared_by_what_it_means_in_practice() -> None:
    axes = np.eye(6, dtype=np.float32)
    preferences, nothing = axes[:1], axes[:0]
    expanded = [Expanded(phrases=axes[1:3], questions=axes[3:4])]
    tilted = (axes[1] + axes[3]) / np.float32(math.sqrt(2.0))
    items = np.stack([axes[0], axes[1], axes[3], tilted, axes[5]])

    def passed(tau: float, *meanings: Expanded) -> list[int]:
        return passing(items, preferences, tau, expanded=meanings)

    assert passed(0.2, *expanded) == [1, 2, 3]  # near a phrase, a question, or both: not the preference's own words
    assert passed(0.5, *expanded) == [2, 3]
    assert passed(0.2, Expanded(axes[1:3], preferences)) == [0, 1]  # borrowed: the preference stands for questions
    assert passed(0.2, Expanded(nothing, nothing)) == passed(0.2) == [0]


def test_each_preference_may_have_a_threshold_of_its_own() -> None:
    items, preferences = units(50), units(3, seed=1)
    taus = np.array([0.3, -0.1, 0.1], dtype=np.float32)
    alone = [coarse_filter(items, preferences[[column]], tau) for column, tau in enumerate(taus.tolist())]
    assert np.array_equal(coarse_filter(items, preferences, taus), np.concatenate(alone, axis=1))


class Judge(EmbeddedVerifier):
    """As a verifier with a language model is known."""

    cached = True


def test_where_a_model_judges_the_filter_goes_by_recall_and_elsewhere_by_tau() -> None:
    own = Preference(text="I avoid casinos.", expansion=Expansion(follows=("a quiet inn",), breaks=("a poker room",)))
    encoder = default_encoder()
    by_recall, by_less = (
        EpicMemory([own], encoder=encoder, settings=Settings(verifier=Judge(encoder), coarse_recall=share))
        for share in (0.9, 0.7)
    )
    assert by_recall.tau == encoder.recall_taus[0.9][0] < by_less.tau == encoder.recall_taus[0.7][0]
    for memory in (
        EpicMemory([own], encoder=encoder),
        EpicMemory([own], encoder=encoder, settings=Settings(verifier=Judge(encoder), coarse_recall=None)),
        EpicMemory([own], encoder=encoder, settings=Settings(verifier=Judge(encoder), tau=encoder.tau)),
    ):
        assert memory.tau == encoder.tau
