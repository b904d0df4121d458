"""Plackett-Luce distribution of ordered lists drawn without replacement (PURPLE, Eq. 3).

With scores s of n candidates, each place of a list is drawn from the candidates that are left, with probabilities
softmax(s).
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Lists: TypeAlias = NDArray[Any]
"""Lists of candidates by their numbers, shape `(m, k)`, without repetition inside a list."""


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
    shares = _log_shares(scores, lists)
    total: Floats = np.take_along_axis(shares, lists[:, :, None], axis=2)[:, :, 0].sum(axis=1)
    return total


def gradient(scores: Floats, lists: Lists) -> tuple[Floats, Floats]:
    """Return the log-probabilities of lists, shape `(m,)`, and their gradients by the scores, shape `(m, n)`."""
    shares = _log_shares(scores, lists)
    chosen = lists[:, :, None]
    total: Floats = np.take_along_axis(shares, chosen, axis=2)[:, :, 0].sum(axis=1)
    by_place = -np.exp(shares)
    np.put_along_axis(by_place, chosen, np.take_along_axis(by_place, chosen, axis=2) + 1.0, axis=2)
    return total, by_place.sum(axis=1)
