"""Evaluation of a reranker on a log: the reward it would expect, against the order of retrieval."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from epic_core.errors import InvalidInputError
from epic_core.reranking.plackett_luce import Floats, log_probability
from epic_core.reranking.reranker import LearnedReranker
from epic_core.reranking.training import Example, prior

_RESAMPLES = 10_000


def expected_reward(example: Example, scores: Floats) -> float:
    """Return the reward that a policy expects, by self-normalised importance weights, in standard deviations."""
    spread = float(example.rewards.std())
    logs = log_probability(scores, example.lists) - example.drawn
    weights = np.exp(logs - logs.max())
    return float(weights @ (example.rewards - example.rewards.mean()) / weights.sum() / spread)


def compared(reranker: LearnedReranker, examples: Sequence[Example]) -> tuple[Floats, tuple[float, float]]:
    """Return the gain over retrieval on each question, shape `(n,)`, and a 95 % interval of its mean.

    Raises:
        InvalidInputError: if no question has lists of different reward.
    """
    told = [example for example in examples if float(example.rewards.std()) > 1e-9]
    if not told:
        raise InvalidInputError("The log has no question whose lists differ in reward.")
    gains = np.array(
        [
            expected_reward(example, reranker.scores(example.features))
            - expected_reward(example, prior(len(example.features)))
            for example in told
        ]
    )
    rows = np.random.default_rng(0).integers(len(gains), size=(_RESAMPLES, len(gains)))
    low, high = np.percentile(gains[rows].mean(axis=1), [2.5, 97.5])
    return gains, (float(low), float(high))
