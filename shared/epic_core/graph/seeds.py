"""Query linking: the entities a query starts from, with their weights in the walk."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from epic_core.graph.extraction.base import entity_key
from epic_core.graph.loaded import HeldGraph
from epic_core.types import FloatArray

LIKE = 0.6
"""The cosine from which an entity counts as named by the query in other words."""


def names_by_key(names: Sequence[str]) -> dict[str, str]:
    """Return key to name of the names in a query."""
    keyed = {entity_key(name): name for name in names}
    keyed.pop("", None)
    return keyed


def entity_seeds(
    held: HeldGraph, names: Iterable[str], vectors: Mapping[str, FloatArray], like: float = LIKE
) -> dict[int, float]:
    """Return entity row to weight.

    A name that the graph knows counts in full; any other name stands for the most similar entity. An entity that many
    passages mention says little about which of them is meant: its weight is divided by their number.

    Args:
        names: Keys of the names in the query.
        vectors: Embeddings of the names that the graph does not know, by key.
        like: The cosine from which an entity stands for a name, in (0, 1].
    """
    known = {key: held.names.row_of.get(key) for key in names}
    weights = dict.fromkeys((row for row in known.values() if row is not None), 1.0)
    others = [key for key, row in known.items() if row is None and key in vectors]
    if others and len(held.names):
        cosines = held.names.vectors @ np.stack([vectors[key] for key in others], axis=1)
        places = cosines.argmax(axis=0)
        for row, cosine in zip(held.names.rows[places].tolist(), cosines.max(axis=0).tolist(), strict=True):
            if cosine >= like:
                weights[row] = max(min(1.0, cosine), weights.get(row, 0.0))
    counts = held.network.mentions(weights)
    return {row: weight / max(1, count) for (row, weight), count in zip(weights.items(), counts, strict=True)}
