"""Retrieval: embed the query, steer it, search the instruction index, merge entries into distinct items."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from epic_core.fallback import SecondTier, hits_of
from epic_core.filters import Filter
from epic_core.space import Space
from epic_core.steering import Mode, SteeredQuery, default_floor
from epic_core.steps import Ask, Clock, Encode, Steps
from epic_core.store import Store, entry_id
from epic_core.types import FloatArray, Hit, Hits, MemoryEntry, Preference, Stance

if TYPE_CHECKING:
    from epic_core.memory import EpicMemory

# What "prefer" takes off the cosine of an entry, by stance: supports above mixed above conflicts where
# both answer the query about as well.
_PENALTY = {Stance.SUPPORTS: 0.0, Stance.NEUTRAL: 0.02, Stance.MIXED: 0.05, Stance.CONFLICTS: 0.1}
_SUPPORTING = frozenset(Stance) - {Stance.CONFLICTS}
_OVERFETCH = 4


@dataclass(frozen=True, kw_only=True)
class Search:
    """The arguments of a search, checked."""

    query: str
    k: int
    filter: Filter | None
    mode: Mode
    preferences: tuple[str | Preference, ...] | None
    stance_policy: str
    namespace: str
    distinct: bool


def search(memory: EpicMemory, asked: Search, clock: Clock) -> Steps[Hits]:
    """Stage 3 and the search, with the fallback where the query matches no preference well."""
    vector: FloatArray = (yield Encode([asked.query], "embedding"))[0]
    with memory._lock:
        started = time.perf_counter()
        space = memory._space(asked.namespace)
        positions = None if asked.preferences is None else space.positions(asked.preferences)
        steered = space.steering(asked.mode).steer_vector(vector, only=positions)
        started = clock.add("steering", started)
        hits = _first_tier(memory._store, space, asked, steered, positions)
        clock.add("index", started)
        wanting = _matches_nothing(memory, steered, hits)
        asks = memory.fallback is not None and wanting
        if asks and isinstance(memory.fallback, SecondTier):
            hits = _merged(_second_tier(memory._store, space, asked, vector), hits, asked.k)
            clock.add("index", started)
    if asks and not isinstance(memory.fallback, SecondTier):
        found = yield Ask(memory.fallback, asked.query, asked.k)
        hits = _merged(hits_of(found, asked.k), hits, asked.k)
    return Hits(
        hits,
        timings=clock.parts,
        steered_by=[(s.preference.text, s.similarity, s.weight) for s in steered.preferences],
        fallback=asks,
    )


def _matches_nothing(memory: EpicMemory, steered: SteeredQuery, hits: list[Hit]) -> bool:
    floor = default_floor(memory.encoder)
    return steered.nearest is None or steered.nearest < floor or not hits or hits[0].score < floor


def _merged(first: Iterable[Hit], then: Iterable[Hit], k: int) -> list[Hit]:
    """Hits of the fallback, filled up with the memory's own; each item once."""
    merged: dict[str, Hit] = {}
    for hit in (*first, *then):
        merged.setdefault(hit.item.id, hit)
    return list(merged.values())[:k]


def _first_tier(
    store: Store, space: Space, asked: Search, steered: SteeredQuery, positions: NDArray[np.intp] | None
) -> list[Hit]:
    stances = _SUPPORTING if asked.stance_policy == "only_supports" else None
    allowed = space.allowed(asked.filter, positions, stances)
    ranked = _ranked(space, asked, steered.towards, allowed)
    if not ranked:
        return []
    stored = store.entries_at([row for _, rows in ranked for row, _ in rows])
    items = store.items_at(list(dict.fromkeys(space.item_of[rows[0][0]] for _, rows in ranked)))
    hits = []
    for score, rows in ranked:
        item = items[space.item_of[rows[0][0]]]
        entries = []
        for row, cosine in rows:
            entry = stored[row]
            entries.append(
                MemoryEntry(
                    id=entry_id(asked.namespace, item.id, entry.preference_id),
                    item_id=item.id,
                    preference_id=entry.preference_id,
                    preference=entry.preference,
                    instruction=entry.instruction,
                    stance=entry.stance,
                    rationale=entry.rationale,
                    confidence=entry.confidence,
                    similarity=entry.similarity,
                    score=cosine,
                )
            )
        hits.append(Hit(item=item, score=score, entries=tuple(entries)))
    return hits


def _ranked(
    space: Space, asked: Search, vector: FloatArray, allowed: NDArray[np.int64] | None
) -> list[tuple[float, list[tuple[int, float]]]]:
    """The k best groups of entries: (score, [(entry row, cosine), ...]), best first.

    More entries are fetched until no entry that was not fetched could still enter: a penalty only lowers
    a score, so the last cosine fetched bounds what is left.
    """
    size = len(space.index) if allowed is None else len(allowed)
    fetch = min(size, _OVERFETCH * asked.k + 16)
    penalties = _PENALTY if asked.stance_policy == "prefer" else {}
    while fetch:
        rows, cosines = space.index.search(vector, fetch, allowed=allowed)
        groups: dict[int, tuple[float, list[tuple[int, float]]]] = {}
        for row, cosine in zip(rows.tolist(), cosines.tolist(), strict=True):
            score = cosine - penalties.get(space.stance_of[row], 0.0)
            key = space.item_of[row] if asked.distinct else row
            best, members = groups.setdefault(key, (score, []))
            members.append((row, cosine))
            if score > best:
                groups[key] = (score, members)
        ranked = sorted(groups.values(), key=lambda group: -group[0])[: asked.k]
        if len(rows) < fetch or fetch >= size:
            return ranked
        if len(ranked) == asked.k and cosines[-1] <= ranked[-1][0]:
            return ranked
        fetch = min(size, fetch * 4)
    return []


def _second_tier(store: Store, space: Space, asked: Search, vector: FloatArray) -> list[Hit]:
    """The nearest texts of the second tier, by the query as it is."""
    allowed = None
    if asked.filter is not None:
        allowed = np.array(sorted(space.items_matching(asked.filter)), dtype=np.int64)
    rows, cosines = space.second.search(vector, asked.k, allowed=allowed)
    items = store.items_at(rows.tolist()) if len(rows) else {}
    return [
        Hit(item=items[row], score=cosine, tier="second")
        for row, cosine in zip(rows.tolist(), cosines.tolist(), strict=True)
    ]
