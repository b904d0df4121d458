"""Views of a memory: what each part of the page shows, drawn from the public calls of `EpicMemory` alone."""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np

from epic_memory import EpicMemory, Hit, MemoryEntry, Preference, SearchOptions
from epic_memory.context import format_context
from epic_memory.types import Outline, Stats

Tier: TypeAlias = Literal["all", "kept", "light"]

PAGE = 20
"""Items on one page of a list."""
COLOURS = 24
"""Colours of preferences in the style sheet; the one after these has the first again."""
MOST_POINTS = 1200
"""Most items on the map: more would hide each other, and make the page heavy."""
_PLAIN = SearchOptions(steering="off", stance_policy="any")
_DAY = 86_400
_MOST_STEPS = 120


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """Contents at one revision, without the texts.

    Attributes:
        revision: The revision.
        outline: The memory's own.
        stats: The memory's own.
        items: Ids of the held items, facts left out, the newest first.
        facts: Ids of the facts, the newest first.
        kept: Ids of the items with an entry, by the preference's id, the newest first.
        nearest: For each item, the id of the nearest preference.
        light: Ids of the items of the light tier, by the nearest preference's id.
    """

    revision: str
    outline: Outline
    stats: Stats
    items: list[str]
    facts: list[str]
    kept: dict[str, list[str]]
    nearest: dict[str, str]
    light: dict[str, list[str]]

    @cached_property
    def with_entry(self) -> frozenset[str]:
        """Ids of the items with an entry."""
        return frozenset(item_id for ids in self.kept.values() for item_id in ids)

    @cached_property
    def places(self) -> dict[str, tuple[float, float]]:
        """Places on the map of the items that have an embedding, and of the preferences, by their ids."""
        outline = self.outline
        embedded = np.flatnonzero(outline.vectors.any(axis=1) & ~outline.facts)
        fitted = np.isin(embedded, outline.entries[:, 0])
        found = plane(np.concatenate([outline.vectors[embedded], outline.preference_vectors]), fitted)
        return dict(zip([*(outline.items[each] for each in embedded), *outline.preferences], found, strict=True))


class Views:
    """The parts of the page. What many of them need is read once for each revision of the memory."""

    def __init__(self, memory: EpicMemory) -> None:
        self.memory = memory
        self._lock = threading.Lock()
        self._snapshot: Snapshot | None = None

    def snapshot(self) -> Snapshot:
        """Return the memory as it is."""
        with self._lock:
            revision = self.memory.file.revision
            if self._snapshot is None or self._snapshot.revision != revision:
                self._snapshot = _snapshot(self.memory, revision)
            return self._snapshot

    def frame(self) -> dict[str, Any]:
        """Return what every part shows around itself: preferences with their colours."""
        preferences = list(self.memory.preferences)
        return {
            "preferences": preferences,
            "colours": {each.id: number % COLOURS for number, each in enumerate(preferences)},
            "texts": {each.id: each.text for each in preferences},
        }

    def overview(self) -> dict[str, Any]:
        """Return counts, bytes by part, and when entries were written."""
        snapshot = self.snapshot()
        stats = snapshot.stats
        parts = [(name, size) for name, size in stats.bytes.items() if size and name != "total"]
        return {
            "stats": stats,
            "sizes": sorted(parts, key=lambda part: -part[1]),
            "stances": Counter(map(str, snapshot.outline.stances)),
            "growth": growth(snapshot.outline.added.tolist()),
            "facts": len(snapshot.facts),
            "open": len(self.memory.proposals),
            "kept_count": len(snapshot.with_entry),
            "light_count": len(snapshot.items) - len(snapshot.with_entry),
            "by_preference": {each: len(snapshot.kept.get(each, ())) for each in snapshot.outline.preferences},
        }

    def preferences(self) -> dict[str, Any]:
        """Return each preference with its aspects, expansion, and how much is held for it."""
        snapshot, preferences = self.snapshot(), self.memory.preferences
        aspects, expansions = preferences.aspects(), preferences.expansions()
        return {
            "cards": [
                {
                    "preference": each,
                    "aspects": aspects[each.text],
                    "expansion": expansions[each.text],
                    "kept": len(snapshot.kept.get(each.id, ())),
                    "light": len(snapshot.light.get(each.id, ())),
                }
                for each in preferences
                if each.text in aspects and each.text in expansions  # else another process added it in between
            ]
        }

    def held(self, preference: str, tier: Tier, page: int, query: str = "") -> dict[str, Any]:
        """Return one page of the held items that have all words of a query: of a preference, or of all."""
        snapshot = self.snapshot()
        if preference:
            kept, light = snapshot.kept.get(preference, []), snapshot.light.get(preference, [])
        else:
            kept = [each for each in snapshot.items if each in snapshot.with_entry]
            light = [each for each in snapshot.items if each not in snapshot.with_entry]
        if wanted := query.casefold().split():
            texts = {item.id: item.text.casefold() for item in self.memory.get([*kept, *light])}
            having = {each for each, text in texts.items() if all(word in text for word in wanted)}
            kept, light = ([each for each in ids if each in having] for ids in (kept, light))
        ids = {"all": [*kept, *light], "kept": kept, "light": light}[tier]
        pages = max(1, -(-len(ids) // PAGE))
        page = min(max(page, 1), pages)
        shown = self.memory.get(ids[PAGE * (page - 1) : PAGE * page])
        entries = self.memory.file.entries([item.id for item in shown])
        return {
            # The entry for the chosen preference comes first.
            "rows": [
                (item, sorted(entries.get(item.id, []), key=lambda entry: entry.preference_id != preference))
                for item in shown
            ],
            "nearest": snapshot.nearest,
            "preference": preference,
            "query": query,
            "tier": tier,
            "page": page,
            "pages": pages,
            "counts": {"all": len(kept) + len(light), "kept": len(kept), "light": len(light)},
        }

    def item(self, item_id: str) -> dict[str, Any]:
        """Return one item with the reasons for which it is held, or not.

        Raises:
            UnknownItemError: if nothing is known of it.
        """
        explanation = self.memory.explain(item_id)
        held = bool(self.memory.get([item_id]))
        return {
            "item": explanation.item,
            "entries": explanation.entries,
            "held": held,
            "note": explanation.note,
            "nearest": self.snapshot().nearest.get(item_id, ""),
        }

    def turned_away(self, page: int) -> dict[str, Any]:
        """Return one page of the records of what is not held, the newest first."""
        records = self.memory.file.not_kept()
        pages = max(1, -(-len(records) // PAGE))
        page = min(max(page, 1), pages)
        return {
            "records": records[PAGE * (page - 1) : PAGE * page],
            "held": {item.id for item in self.memory.get(record.item_id for record in records)},
            "page": page,
            "pages": pages,
            "count": len(records),
            "seen": self.snapshot().stats.counts.get("seen", 0),
        }

    def query(self, text: str, k: int) -> dict[str, Any]:
        """Return the way of a query: what matters, what is found without and with it, and the context."""
        begun = time.perf_counter()
        hits = self.memory.search(text, k)
        plain = self.memory.search(text, k, options=_PLAIN)
        seconds = time.perf_counter() - begun
        before = {hit.item.id: place for place, hit in enumerate(plain, start=1)}
        after = {hit.item.id: place for place, hit in enumerate(hits, start=1)}
        return {
            "query": text,
            "k": k,
            "hits": [_found(hit, place, before) for place, hit in enumerate(hits, start=1)],
            "plain": [_found(hit, place, after) for place, hit in enumerate(plain, start=1)],
            "matters": hits.matters,
            "told_facts": hits.facts,
            "context": format_context(hits),
            "milliseconds": 1000 * seconds,
        }

    def map(self, preference: str) -> dict[str, Any]:
        """Return the places of items and preferences on the map, those of the light tier first, so below the others."""
        snapshot = self.snapshot()
        placed = [each for each in snapshot.items if each in snapshot.places]
        kept = [each for each in placed if each in snapshot.with_entry]
        light = [each for each in placed if each not in snapshot.with_entry]
        room = MOST_POINTS - min(len(kept), MOST_POINTS * 3 // 4)
        drawn = [*_spread(light, room), *_spread(kept, MOST_POINTS - min(len(light), room))]
        colour = snapshot.nearest | {each: name for name, ids in snapshot.kept.items() for each in ids}
        colour |= dict.fromkeys(snapshot.kept.get(preference, ()), preference)
        points = [
            (item.id, snapshot.places[item.id], colour.get(item.id), item.id in snapshot.with_entry, item.text)
            for item in self.memory.get(drawn)
        ]
        return {
            "points": points,
            "preference": preference,
            "marks": snapshot.places,
            "left_out": len(placed) - len(drawn),
        }

    def facts(self) -> dict[str, Any]:
        """Return the facts of the user, and what adding them did."""
        return {"facts": self.memory.get(self.snapshot().facts), "edits": self.memory.facts.edits()[:50]}

    def proposals(self) -> dict[str, Any]:
        """Return the proposals that wait."""
        return {"proposals": list(self.memory.proposals)}


def _snapshot(memory: EpicMemory, revision: str) -> Snapshot:
    outline = memory.file.outline()
    newest = range(len(outline.items) - 1, -1, -1)
    nearest = {}
    if outline.preferences:
        found = (outline.vectors @ outline.preference_vectors.T).argmax(axis=1).tolist()
        nearest = {item_id: outline.preferences[place] for item_id, place in zip(outline.items, found, strict=True)}
    kept: dict[str, list[str]] = defaultdict(list)
    for item, preference in outline.entries[::-1].tolist():
        kept["" if preference < 0 else outline.preferences[preference]].append(outline.items[item])
    with_entry = set(outline.entries[:, 0].tolist())
    light: dict[str, list[str]] = defaultdict(list)
    for place in newest:
        if place not in with_entry and not outline.facts[place]:
            light[nearest.get(outline.items[place], "")].append(outline.items[place])
    return Snapshot(
        revision=revision,
        outline=outline,
        stats=memory.stats(),
        items=[outline.items[place] for place in newest if not outline.facts[place]],
        facts=[outline.items[place] for place in newest if outline.facts[place]],
        kept=dict(kept),
        nearest=nearest,
        light=dict(light),
    )


def plane(vectors: Any, fitted: Any) -> list[tuple[float, float]]:
    """Project vectors on the two directions in which they differ most, scaled to [0, 1].

    Args:
        vectors: Shape `(n, d)`.
        fitted: For the first of them, shape `(m,)` with m <= n, which ones the directions are computed of; the others
            are projected only. All, if there are fewer than three.

    Returns:
        A place `(x, y)` for each.
    """
    if not len(vectors):
        return []
    chosen = vectors[: len(fitted)][fitted]
    centred = vectors - (chosen if len(chosen) > 2 else vectors).mean(axis=0)
    basis = centred[: len(fitted)][fitted] if len(chosen) > 2 else centred
    _, directions = np.linalg.eigh(basis.T.astype(np.float64) @ basis)
    # The sign of a direction is arbitrary: the same memory must look the same the next time.
    axes = directions[:, -2:][:, ::-1]
    axes = axes * np.where(axes[np.abs(axes).argmax(axis=0), [0, 1]] < 0, -1.0, 1.0)
    places = centred @ axes
    # A few far away must not press all the others into a corner.
    low, high = np.percentile(places, [0.5, 99.5], axis=0)
    scaled = (places - low) / np.maximum(high - low, 1e-9)
    return [(float(x), float(y)) for x, y in np.clip(scaled, 0.0, 1.0)]


def growth(added: list[float]) -> list[tuple[float, int]]:
    """Return days, in Unix seconds, and how many entries were held at the end of each."""
    if not added:
        return []
    days = Counter(int(each // _DAY) for each in added)
    total, steps = 0, []
    for day in sorted(days):
        total += days[day]
        steps.append((float(day * _DAY), total))
    return steps[:: -(-len(steps) // _MOST_STEPS)] if len(steps) > _MOST_STEPS else steps


def _first(entries: list[MemoryEntry], preference: str) -> list[MemoryEntry]:
    """Return an item's entries, those of a preference first."""
    return sorted(entries, key=lambda entry: entry.preference_id != preference)


def _spread(ids: list[str], most: int) -> list[str]:
    return ids if len(ids) <= most else [ids[int(place)] for place in np.linspace(0, len(ids) - 1, most)]


def _found(hit: Hit, place: int, others: dict[str, int]) -> dict[str, Any]:
    """Return a hit, its place, and how far it moved from the other list: None if it is not there."""
    other = others.get(hit.item.id)
    return {"hit": hit, "place": place, "moved": None if other is None else other - place}


def known_preference(preferences: Iterable[Preference], preference_id: str) -> str:
    """Return the id of a held preference, or nothing for another one."""
    return preference_id if any(each.id == preference_id for each in preferences) else ""
