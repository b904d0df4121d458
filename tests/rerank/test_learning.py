"""Learning to rank: the distribution of lists, gradients by hand, and planted utilities."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from epic_rerank.policy import Pass, gradient, log_probability, sample, untrained
from epic_rerank.training import Example, TrainingSettings, prior, score_gradient, train


@given(st.lists(st.floats(-30, 30), min_size=5, max_size=5))
def test_the_probabilities_of_all_lists_sum_to_one(scores: list[float]) -> None:
    lists = np.array(list(permutations(range(5), 3)))
    assert np.exp(log_probability(np.array(scores), lists)).sum() == pytest.approx(1.0)


def test_draws_agree_with_the_probabilities() -> None:
    scores = np.array([0.5, -1.0, 1.0, 0.0])
    lists = sample(scores, 2, 200_000, np.random.default_rng(0))
    for pair in permutations(range(4), 2):
        share = (lists == pair).all(axis=1).mean()
        assert share == pytest.approx(float(np.exp(log_probability(scores, np.array([pair])))[0]), abs=0.004)


def slopes(function: Callable[[np.ndarray], Any], at: np.ndarray, places: Iterable[int]) -> list[Any]:
    """The slope of a function along some of its arguments, measured."""
    steps = [np.eye(1, at.size, place).reshape(at.shape) * 1e-6 for place in places]
    return [(function(at + step) - function(at - step)) / 2e-6 for step in steps]


def test_the_gradient_of_the_distribution() -> None:
    generator = np.random.default_rng(1)
    scores, lists = generator.normal(size=6), np.array([[3, 1, 5], [0, 2, 4]])
    now, by_scores = gradient(scores, lists)
    np.testing.assert_allclose(now, log_probability(scores, lists))
    measured = slopes(lambda at: log_probability(at, lists), scores, range(6))
    np.testing.assert_allclose(by_scores.T, measured, atol=1e-7)


def test_the_gradient_of_the_network_whose_candidates_are_a_set() -> None:
    generator = np.random.default_rng(2)
    weights = untrained(7)
    weights["w3"] = generator.normal(size=weights["w3"].shape)
    x, towards = generator.normal(size=(5, 7)), generator.normal(size=5)
    found = Pass(weights, x).backward(towards)
    for name, array in weights.items():
        places = generator.integers(array.size, size=6)
        measured = slopes(lambda at, name=name: Pass({**weights, name: at}, x).scores @ towards, array, places)  # type: ignore[misc]
        np.testing.assert_allclose(found[name].ravel()[places], measured, atol=1e-6)
    order = generator.permutation(5)
    np.testing.assert_allclose(Pass(weights, x[order]).scores, Pass(weights, x).scores[order])


def test_the_gradient_of_the_objective() -> None:
    generator = np.random.default_rng(3)
    scores = generator.normal(size=5)
    lists = sample(scores, 3, 8, generator)
    example = Example(
        features=np.zeros((5, 1)),
        lists=lists,
        rewards=generator.normal(size=8),
        drawn=log_probability(scores, lists) + 0.3,
        among=np.array([True] * 5),
    )
    settings = TrainingSettings(divergence=0.5)

    def objective(at: np.ndarray) -> float:
        ratio = np.exp(log_probability(at, lists) - example.drawn)
        worth = (example.rewards - example.rewards.mean()) / example.rewards.std()
        p, q = (np.exp(one) / np.exp(one).sum() for one in (at, prior(5)))
        return float((ratio * worth).mean() - settings.divergence * (p * np.log(p / q)).sum())

    measured = slopes(objective, scores, range(5))
    np.testing.assert_allclose(score_gradient(example, scores, settings), measured, atol=1e-6)


# planted utilities: a second copy is worth nothing, and two kinds conflict


def drawn_set(generator: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features (utility, repeats a better one, kind), utilities and kinds of a set of candidates."""
    # Retrieval has the utilities right, one by one: untrained is greedy by single utility.
    utility, kind = np.sort(generator.uniform(0.1, 1.0, size=n))[::-1], generator.integers(4, size=n)
    copy = [float(((kind == kind[row]) & (utility > utility[row])).any()) for row in range(n)]
    return np.column_stack([utility, copy, np.eye(4)[kind]]), utility, kind


def worth_of(chosen: np.ndarray, utility: np.ndarray, kind: np.ndarray) -> float:
    best: dict[int, float] = {}
    for one in chosen.tolist():
        best[kind[one]] = max(best.get(kind[one], 0.0), utility[one])
    return sum(best.values()) - (1.0 if {0, 1} <= best.keys() else 0.0)


def learnt() -> tuple[float, float, float]:
    """The mean reward of the policy, of greedy by utility, and the best there is, on sets never seen."""
    generator, examples = np.random.default_rng(5), []
    for _ in range(120):
        features, utility, kind = drawn_set(generator, 8)
        lists = sample(prior(8), 3, 32, generator)
        rewards = np.array([worth_of(one, utility, kind) for one in lists])
        examples.append(
            Example(features=features, lists=lists, rewards=rewards, drawn=log_probability(prior(8), lists))
        )
    settings = TrainingSettings(epochs=10, rate=0.02, divergence=0.001)
    weights = train(untrained(6), examples, settings)
    found = []
    for _ in range(120):
        features, utility, kind = drawn_set(generator, 8)
        scores = prior(8) + Pass(weights, features).scores
        best = max(worth_of(np.array(one), utility, kind) for one in permutations(range(8), 3))
        chosen, greedy = np.argsort(-scores)[:3], np.argsort(-utility)[:3]
        found.append((worth_of(chosen, utility, kind), worth_of(greedy, utility, kind), best))
    policy, greedy, best = np.mean(found, axis=0)
    return float(policy), float(greedy), float(best)


@pytest.mark.slow
def test_the_policy_learns_what_single_utilities_do_not_tell() -> None:
    policy, greedy, best = learnt()
    assert policy >= 0.95 * best
    assert policy > greedy
