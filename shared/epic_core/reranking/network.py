"""Network that scores candidates in view of each other, whatever order they come in, with its gradient by hand.

    h_i = tanh(x_i W1 + b1),   c = [mean of all h, max of all h],   s_i = w3 . tanh(h_i W2 + c W3 + b2)

stands for the paper's Transformer encoder without positions (PURPLE, section 3.2): candidates are a set, so permuting
them permutes their scores. The last layer starts at zero, so that an untrained network says nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import numpy as np

from epic_core.reranking.plackett_luce import Floats

WIDTH = 32

Weights: TypeAlias = dict[str, Floats]
"""The arrays of a network by their names."""


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

    Without `context` each candidate is scored alone, not in view of the others. The scores have shape `(n,)`.
    """

    def __init__(self, weights: Mapping[str, Floats], x: Floats, *, context: bool = True) -> None:
        self._weights, self._x, self._context = weights, x, context
        self._h = np.tanh(x @ weights["W1"] + weights["b1"])
        self._c = np.concatenate([self._h.mean(axis=0), self._h.max(axis=0)])
        around = self._c @ weights["W3"] if context else 0.0
        self._z = np.tanh(self._h @ weights["W2"] + around + weights["b2"])
        self.scores: Floats = self._z @ weights["w3"]

    def backward(self, by_score: Floats) -> Weights:
        """Return the gradient of a function by the weights, from its gradient by the scores, shape `(n,)`."""
        weights, h, z = self._weights, self._h, self._z
        by_z = (1.0 - z * z) * np.outer(by_score, weights["w3"])
        by_h = by_z @ weights["W2"].T
        by_sum = by_z.sum(axis=0)
        by_w3 = np.zeros_like(weights["W3"])
        if self._context:
            by_w3 = np.outer(self._c, by_sum)
            by_c = weights["W3"] @ by_sum
            by_h += by_c[:WIDTH] / len(h)
            by_h[h.argmax(axis=0), np.arange(WIDTH)] += by_c[WIDTH:]
        by_x = (1.0 - h * h) * by_h
        return {
            "W1": self._x.T @ by_x,
            "b1": by_x.sum(axis=0),
            "W2": h.T @ by_z,
            "W3": by_w3,
            "b2": by_sum,
            "w3": z.T @ by_score,
        }
