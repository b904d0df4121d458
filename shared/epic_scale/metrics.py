"""Metrics of a process's pools for OpenTelemetry: sums of their health, where the application imports OpenTelemetry."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from epic_scale.reports import PoolHealth

_GAUGES = ("open", "in_use", "rss")
_COUNTERS = ("turns", "opened", "closed", "waited", "refused", "downloads", "uploads", "conflicts")

_lock = threading.Lock()
# An instrument of a name is made once a process, and later callbacks for it would be ignored.
_published: list[tuple[Mapping[str, int], Callable[[], PoolHealth | None]]] = []
_instruments: list[Any] = []
# Counters of OpenTelemetry never fall: what pools that are gone have counted stays in the sums.
_ended: Counter[str] = Counter()


def publish(counts: Mapping[str, int], health: Callable[[], PoolHealth | None]) -> None:
    """Offer the numbers of a pool's health as `epic.pool.NAME`, added up over pools; nothing is sent from here.

    Args:
        counts: The pool's counters, which it goes on writing.
        health: Returns the present numbers, or None once the pool is closed or gone.
    """
    metrics = sys.modules.get("opentelemetry.metrics")
    if metrics is None:
        return
    with _lock:
        _present()
        _published.append((counts, health))
        if _instruments:
            return
        meter = metrics.get_meter("epic_scale")
        for names, made in ((_GAUGES, meter.create_observable_gauge), (_COUNTERS, meter.create_observable_counter)):
            _instruments.extend(
                made(f"epic.pool.{name}", [partial(_observed, metrics.Observation, name)]) for name in names
            )


def _present() -> list[PoolHealth]:
    """Return the health of the pools that are open, and let the others go. Call it under the lock."""
    found = [(counts, health, health()) for counts, health in _published]
    _published[:] = [(counts, health) for counts, health, present in found if present is not None]
    for counts in (counts for counts, _, present in found if present is None):
        _ended.update(counts)
    return [present for _, _, present in found if present is not None]


def _observed(observation: Callable[[int], Any], name: str, _: Any) -> Iterable[Any]:
    with _lock:
        there = [getattr(present, name) for present in _present()]
        if name in _COUNTERS:
            return [observation(sum(there) + _ended[name])]
        # RAM is the process's, whichever pool is asked.
        return [observation(max(there) if name == "rss" else sum(there))] if there else []
