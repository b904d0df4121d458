"""Policy of a reranker: a network's scores of candidates, and the distribution of lists that they stand for.

The network, with its gradient by hand, scores candidates in view of each other, whatever order they come in:

    h_i = tanh(x_i W1 + b1),   c = [mean of all h, max of all h],   s_i = w3 . tanh(h_i W2 + c W3 + b2)

It stands for the paper's Transformer encoder without positions (PURPLE, section 3.2): candidates are a set, so
permuting them permutes their scores. The last layer starts at zero, so that an untrained network says nothing.

The distribution is the Plackett-Luce one of ordered lists drawn without replacement (PURPLE, Eq. 3): with scores s,
each place of a list is drawn from the candidates that are left, with probabilities softmax(s).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Lists: TypeAlias = NDArray[Any]
"""Lists of candidates by their numbers, shape `(m, k)`, without repetition inside a list."""
Weights: TypeAlias = dict[str, Floats]
"""The arrays of a network by their names."""

WIDTH = 32


def shapes(features: int) -> dict[str, tuple[int, ...]]:
    """Return the shape of each array of a network for so many features."""
    return {
        "W1": (features, WIDTH),
        "b1": (WIDTH,),
        "W2": (WIDTH, WIDTH),
        "W3": (2 * WIDTH, WIDTH),
        "b2": (WIDTH,),
        "w3": (WIDTH,),
    }


def untrained(features: int, seed: int = 0) -> Weights:
    """Return the weights of a network that scores every candidate 0."""
    generator = np.random.default_rng(seed)
    return {
        name: generator.normal(size=shape) / np.sqrt(shape[0]) if len(shape) == 2 else np.zeros(shape)
        for name, shape in shapes(features).items()
    }


class Pass:
    """One pass of candidates, with features x of shape `(n, f)`, through a network.

    The scores have shape `(n,)`.
    """

    def __init__(self, weights: Mapping[str, Floats], x: Floats) -> None:
        self._weights, self._x = weights, x
        self._h = np.tanh(x @ weights["W1"] + weights["b1"])
        self._c = np.concatenate([self._h.mean(axis=0), self._h.max(axis=0)])
        self._z = np.tanh(self._h @ weights["W2"] + self._c @ weights["W3"] + weights["b2"])
        self.scores: Floats = self._z @ weights["w3"]

    def backward(self, by_score: Floats) -> Weights:
        """Return the gradient of a function by the weights, from its gradient by the scores, shape `(n,)`."""
        weights, h, z = self._weights, self._h, self._z
        by_z = (1.0 - z * z) * np.outer(by_score, weights["w3"])
        by_h = by_z @ weights["W2"].T
        by_sum = by_z.sum(axis=0)
        by_c = weights["W3"] @ by_sum
        by_h += by_c[:WIDTH] / len(h)
        by_h[h.argmax(axis=0), np.arange(WIDTH)] += by_c[WIDTH:]
        by_x = (1.0 - h * h) * by_h
        return {
            "W1": self._x.T @ by_x,
            "b1": by_x.sum(axis=0),
            "W2": h.T @ by_z,
            "W3": np.outer(self._c, by_sum),
            "b2": by_sum,
            "w3": z.T @ by_score,
        }


def sample(scores: Floats, k: int, count: int, generator: np.random.Generator) -> Lists:
    """Draw lists of k candidates, shape `(count, k)`: the k largest of score + Gumbel noise.

    Candidates with a score of minus infinity are never drawn; at least k must have another.
    """
    noisy = scores + generator.gumbel(size=(count, len(scores)))
    return np.argsort(-noisy, axis=1, kind="stable")[:, :k]


def shares(scores: Floats) -> Floats:
    """Return softmax(s), the chance of each candidate to come first, shape `(n,)`."""
    powers = np.exp(scores - scores.max())
    first: Floats = powers / powers.sum()
    return first


def _log_shares(scores: Floats, lists: Lists) -> Floats:
    """Return the log-probability of each candidate at each place of each list, shape `(m, k, n)`."""
    m, k = lists.shape
    left = np.broadcast_to(scores, (m, k, len(scores))).copy()
    for place in range(1, k):
        np.put_along_axis(left[:, place:], np.repeat(lists[:, None, place - 1 : place], k - place, axis=1), -np.inf, 2)
    highest = left.max(axis=2, keepdims=True)
    shares: Floats = left - highest - np.log(np.exp(left - highest).sum(axis=2, keepdims=True))
    return shares


def log_probability(scores: Floats, lists: Lists) -> Floats:
    """Return the natural log-probability of each list, shape `(m,)`."""
    return gradient(scores, lists)[0]


def gradient(scores: Floats, lists: Lists) -> tuple[Floats, Floats]:
    """Return the log-probabilities of lists, shape `(m,)`, and their gradients by the scores, shape `(m, n)`."""
    shares = _log_shares(scores, lists)
    chosen = lists[:, :, None]
    total: Floats = np.take_along_axis(shares, chosen, axis=2)[:, :, 0].sum(axis=1)
    by_place = -np.exp(shares)
    np.put_along_axis(by_place, chosen, np.take_along_axis(by_place, chosen, axis=2) + 1.0, axis=2)
    return total, by_place.sum(axis=1)
