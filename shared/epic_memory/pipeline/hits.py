"""Hits of a search: item rows with their scores, and the entries of their items that the search may find."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from epic_memory.storage.namespace import Namespace
from epic_memory.storage.store import Store
from epic_memory.types import FloatArray, Hit, MemoryEntry

# Most facts of the user that a context shows.
_FACTS = 3


def fact_hits(
    store: Store,
    space: Namespace,
    vector: FloatArray,
    facts: Sequence[tuple[int, float]],
    earlier: Mapping[int, Sequence[int]] | None = None,
) -> list[Hit]:
    """Make hits of the best facts of the user, which have no entries."""
    facts = facts[:_FACTS]
    return made_hits(store, space, vector, facts, [[]] * len(facts), {}, None, earlier) if facts else []


def made_hits(
    store: Store,
    space: Namespace,
    vector: FloatArray,
    best: Sequence[tuple[int, float]],
    groups: Sequence[Sequence[int]],
    cosines: Mapping[int, float],
    allowed: NDArray[np.int64] | None,
    earlier: Mapping[int, Sequence[int]] | None = None,
) -> list[Hit]:
    """Make hits of item rows with their scores, each with those of a group of entries that a search may find.

    Facts that are held back for one of them (`earlier`, row to rows) are named in its hit.
    """
    earlier = earlier or {}
    if allowed is not None:
        allowed_rows = set(allowed.tolist())
        groups = [[row for row in rows if row in allowed_rows] for rows in groups]
    scores = {
        row: cosines[row] if row in cosines else float(space.index.vector(row) @ vector)
        for rows in groups
        for row in rows
    }
    held = space.held([row for item, _ in best for row in (item, *earlier.get(item, ()))])
    entries = space.entries(scores, held)
    hits = []
    for (item, score), rows in zip(best, groups, strict=True):
        ordered = sorted(rows, key=scores.__getitem__, reverse=True)
        hits.append(
            Hit(
                item=held[item].item,
                score=score,
                entries=tuple(_scored(entries[row], scores[row]) for row in ordered),
                tier="fact" if item in space.facts else "light" if space.light(item) else "memory",
                earlier=tuple(held[row].item for row in earlier.get(item, ())),
            )
        )
    return hits


def _scored(entry: MemoryEntry, score: float) -> MemoryEntry:
    """Return an entry with its score; faster than `replace`, which checks and makes every field anew."""
    made = object.__new__(MemoryEntry)
    made.__dict__.update(entry.__dict__, score=score)
    return made
