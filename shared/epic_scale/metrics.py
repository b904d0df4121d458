"""Metrics of a process's pools for OpenTelemetry: sums of their health, where the application imports OpenTelemetry."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from epic_scale.reports import PoolHealth

_GAUGES = ("open", "in_use")
_COUNTERS = ("turns", "opened", "closed", "waited", "refused", "downloads", "uploads", "conflicts")

_lock = threading.Lock()
# An instrument of a name is made once a process, and later callbacks for it would be ignored.
_published: list[Callable[[], PoolHealth | None]] = []
_instruments: list[Any] = []


def publish(health: Callable[[], PoolHealth | None]) -> None:
    """Offer the numbers of a pool's health as `epic.pool.NAME`, added up over pools; nothing is sent from here.

    Args:
        health: Returns the present numbers, or None once the pool is gone.
    """
    metrics = sys.modules.get("opentelemetry.metrics")
    if metrics is None:
        return
    with _lock:
        _published.append(health)
        if _instruments:
            return
        meter = metrics.get_meter("epic_scale")
        for name in (*_GAUGES, "rss"):
            observed = partial(_observed, metrics.Observation, name)
            _instruments.append(meter.create_observable_gauge(f"epic.pool.{name}", [observed]))
        for name in _COUNTERS:
            observed = partial(_observed, metrics.Observation, name)
            _instruments.append(meter.create_observable_counter(f"epic.pool.{name}", [observed]))


def _observed(observation: Callable[[int], Any], name: str, _: Any) -> Iterable[Any]:
    with _lock:
        numbers = [(health, health()) for health in _published]
        _published[:] = [health for health, found in numbers if found is not None]
    values = [getattr(found, name) for _, found in numbers if found is not None]
    if not values:
        return []
    # RAM is the process's, whichever pool is asked.
    return [observation(max(values) if name == "rss" else sum(values))]
