"""Stage 1, semantic-based coarse filtering (Eq. 1-2): P_rel(x) = {p : Sim(E(x), E(p)) >= tau}.

A preference that is expanded (`evidence`) is compared by what it means in practice, too: with F and B the phrases that
follow and break it, Sim(x, p) is then

    (Sim(E(x), E(p)) + mean of the two highest Sim(E(x), E(phrase in F or B))) / 2 - 0.02,

the last number being such that as large a share of unrelated texts passes as without it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epic_core.errors import InvalidInputError
from epic_core.preferences.evidence import highest_two
from epic_core.types import FloatArray
from epic_core.types.validation import checked_keep_rate, checked_tau

_BLOCK = 8192
# Two of many phrases are nearer than one text is.
_NEARER = 0.02


@dataclass(frozen=True, kw_only=True)
class CoarseMatches:
    """The pairs (x, p) that the coarse filter lets through.

    Attributes:
        count: Number of items tested, n.
        items: Row of the item, shape `(pairs,)`, ascending.
        preferences: Row of the preference, shape `(pairs,)`.
        similarities: Sim(E(x), E(p)), shape `(pairs,)`, in [-1, 1].
        highest: max_p Sim(E(x), E(p)) of every item, shape `(n,)`, where asked for.
    """

    count: int
    items: NDArray[np.intp]
    preferences: NDArray[np.intp]
    similarities: FloatArray
    highest: FloatArray | None = None

    @property
    def passed(self) -> NDArray[np.intp]:
        """Rows of the items that passed, each once, ascending."""
        return np.unique(self.items)


def similarity(
    embeddings: FloatArray, preferences: FloatArray, expanded: Sequence[FloatArray] | None = None
) -> FloatArray:
    """Return Sim(E(x), E(p)) of items and preferences, shape `(n, m)`.

    Of a preference with an expansion it is the mean of that cosine and of the mean of the two highest cosines with the
    expansion's phrases, these less a constant: among many phrases some are always near.
    """
    similarities: FloatArray = embeddings @ preferences.T
    for number, phrases in enumerate(expanded or ()):
        if len(phrases):
            nearest = highest_two(embeddings @ phrases.T) - np.float32(_NEARER)
            similarities[:, number] = 0.5 * similarities[:, number] + 0.5 * nearest
    return similarities


def coarse_filter(
    embeddings: FloatArray,
    preferences: FloatArray,
    tau: float,
    *,
    highest: bool = False,
    expanded: Sequence[FloatArray] | None = None,
) -> CoarseMatches:
    """Match items with preferences.

    Args:
        embeddings: Unit vectors E(x), shape `(n, d)`.
        preferences: Unit vectors E(p), shape `(m, d)`.
        tau: Threshold in [-1, 1]; a pair at exactly tau passes.
        highest: Also return each item's highest similarity.
        expanded: For each preference the embeddings of its expansion's phrases, shape `(n, d)`; of one without none.

    Raises:
        InvalidInputError: for shapes that do not fit, or tau outside [-1, 1].
    """
    tau = checked_tau(tau)
    if embeddings.ndim != 2 or preferences.ndim != 2 or embeddings.shape[1] != preferences.shape[1]:
        raise InvalidInputError(
            f"Embeddings {embeddings.shape} and preferences {preferences.shape} must be (n, d) and (m, d)."
        )
    rows, columns, values = [], [], []
    top = np.full(len(embeddings), -1.0, dtype=np.float32) if highest else None
    threshold = np.float32(tau)
    for start in range(0, len(embeddings), _BLOCK):
        block = embeddings[start : start + _BLOCK]
        similarities = similarity(block, preferences, expanded)
        row, column = np.nonzero(similarities >= threshold)
        rows.append(row + start)
        columns.append(column)
        values.append(similarities[row, column])
        if top is not None and len(preferences):
            top[start : start + _BLOCK] = similarities.max(axis=1)
    return CoarseMatches(
        count=len(embeddings),
        items=np.concatenate(rows) if rows else np.empty(0, dtype=np.intp),
        preferences=np.concatenate(columns) if columns else np.empty(0, dtype=np.intp),
        similarities=np.concatenate(values) if values else np.empty(0, dtype=np.float32),
        highest=top,
    )


def tau_for_keep_rate(
    embeddings: FloatArray,
    preferences: FloatArray,
    keep_rate: float,
    expanded: Sequence[FloatArray] | None = None,
) -> float:
    """Return the tau at which a share of a sample passes.

    Args:
        embeddings: The sample, shape `(n, d)`, n >= 1.
        preferences: Shape `(m, d)`, m >= 1.
        keep_rate: The share wanted, in (0, 1].
        expanded: As `coarse_filter` takes it.

    Raises:
        InvalidInputError: for a share outside (0, 1] or an empty sample.
    """
    checked_keep_rate(keep_rate)
    if not len(embeddings) or not len(preferences) or embeddings.shape[1:] != preferences.shape[1:]:
        raise InvalidInputError("keep_rate needs at least one item and one preference of the same dimension.")
    highest = np.sort(similarity(embeddings, preferences, expanded).max(axis=1))[::-1]
    return float(np.clip(highest[max(1, round(keep_rate * len(highest))) - 1], -1.0, 1.0))
