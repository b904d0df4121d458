"""Steering as in the paper (section 3.3): towards the preference that is most similar to the query."""

from __future__ import annotations

import numpy as np

from epic_memory.types import FloatArray


def nearest_preference(query: FloatArray, preferences: FloatArray) -> int:
    """Return the row of p* = argmax_p Sim(E(q), E(p)) (Eq. 7), of preferences `(m, d)` for a query `(d,)`."""
    return int(np.argmax(preferences @ query))


def steered(query: FloatArray, preference: FloatArray) -> FloatArray:
    """Return q~ = (E(q) + E(p*)) / ||E(q) + E(p*)|| (Eq. 8), shape `(d,)`."""
    moved = query + preference
    length = np.linalg.norm(moved)
    # A query that is the exact opposite of the preference cancels out with it; it is then left unchanged.
    return (moved / length).astype(np.float32) if length > 1e-6 else query
