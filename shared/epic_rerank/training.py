"""Training of a reranker: REINFORCE on a cached log of lists and rewards (PURPLE, section 3.1).

Rewards are normalised within an example, r~ = (r - mean) / std, which is the baseline. A list was drawn by an earlier
policy, so it counts by pi_now / pi_then, at most `clip` times. A penalty, `divergence` times KL(pi || prior) of the
first place, holds the policy near the order of retrieval while there is little data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from epic_rerank.policy import Floats, Lists, Pass, Weights, gradient, shares

_CLIPPED_NORM = 1.0
_DECAY, _SQUARE_DECAY = 0.9, 0.999


@dataclass(frozen=True, kw_only=True)
class Example:
    """One query with candidates, and lists of them that were tried.

    Attributes:
        features: Shape `(n, f)`, candidates in the order of retrieval.
        lists: Candidates by number, shape `(m, k)`.
        rewards: Of the lists, shape `(m,)`; any scale, higher is better.
        drawn: The natural log-probability with which each list was drawn, shape `(m,)`.
        among: The candidates that lists were drawn from, bools of shape `(n,)`; None for all.
    """

    features: Floats
    lists: Lists
    rewards: Floats
    drawn: Floats
    among: Floats | None = None


@dataclass(frozen=True, kw_only=True)
class TrainingSettings:
    """Settings of a reranker's training.

    Attributes:
        epochs: Passes over the examples.
        batch: Examples for one step.
        rate: Adam's step size.
        clip: The largest importance weight of a list.
        divergence: The weight of KL(pi || prior).
        seed: Of the order of the examples.
    """

    epochs: int = 30
    batch: int = 16
    rate: float = 0.01
    clip: float = 5.0
    divergence: float = 0.01
    seed: int = 0


def prior(n: int) -> Floats:
    """Return the scores of n candidates by their order of retrieval alone, strictly falling, shape `(n,)`."""
    falling: Floats = -np.log1p(np.arange(n, dtype=np.float64))
    return falling


def score_gradient(example: Example, scores: Floats, settings: TrainingSettings) -> Floats:
    """Return the gradient of the objective by the scores, shape `(n,)`; zero if all its lists are worth the same.

    The objective is the mean of r~ pi_now / pi_then, less the penalty.
    """
    spread = float(example.rewards.std())
    if spread < 1e-9:
        return np.zeros_like(scores)
    before = prior(len(scores))
    if example.among is not None:
        scores = np.where(example.among, scores, -np.inf)
        before = np.where(example.among, before, -np.inf)
    now, by_scores = gradient(scores, example.lists)
    importance = np.exp(np.minimum(now - example.drawn, np.log(settings.clip)))
    worth = (example.rewards - example.rewards.mean()) / spread
    made: Floats = (importance * worth) @ by_scores / len(worth)
    p, q = shares(scores), shares(before)
    held = p > 0.0
    apart = np.zeros_like(p)
    apart[held] = np.log(p[held] / q[held])
    return made - settings.divergence * p * (apart - float(p @ apart))


class Adam:
    """Adam, ascending, with the norm of the gradient clipped at 1."""

    def __init__(self, weights: Weights, rate: float) -> None:
        self._rate, self._steps = rate, 0
        self._mean = {name: np.zeros_like(array) for name, array in weights.items()}
        self._square = {name: np.zeros_like(array) for name, array in weights.items()}

    def step(self, weights: Weights, towards: Weights) -> None:
        """Change the weights in place."""
        norm = float(np.sqrt(sum(float((array * array).sum()) for array in towards.values())))
        scale = min(1.0, _CLIPPED_NORM / norm) if norm > 0.0 else 1.0
        self._steps += 1
        first, second = 1.0 - _DECAY**self._steps, 1.0 - _SQUARE_DECAY**self._steps
        for name, array in towards.items():
            mean, square = self._mean[name], self._square[name]
            mean += (1.0 - _DECAY) * (scale * array - mean)
            square += (1.0 - _SQUARE_DECAY) * ((scale * array) ** 2 - square)
            weights[name] += self._rate * (mean / first) / (np.sqrt(square / second) + 1e-8)


def train(weights: Weights, examples: Sequence[Example], settings: TrainingSettings) -> Weights:
    """Return the weights after training; those given stay as they are.

    Args:
        weights: The network to start from.
        examples: At least one whose lists differ in reward teaches anything.
        settings: How.
    """
    trained = {name: array.copy() for name, array in weights.items()}
    generator, adam = np.random.default_rng(settings.seed), Adam(trained, settings.rate)
    for _ in range(settings.epochs):
        order = generator.permutation(len(examples))
        for start in range(0, len(order), settings.batch):
            towards = {name: np.zeros_like(array) for name, array in trained.items()}
            chosen = [examples[place] for place in order[start : start + settings.batch]]
            for example in chosen:
                passed = Pass(trained, example.features)
                by_score = score_gradient(example, prior(len(example.features)) + passed.scores, settings)
                for name, array in passed.backward(by_score / len(chosen)).items():
                    towards[name] += array
            adam.step(trained, towards)
    return trained
