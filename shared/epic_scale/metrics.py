"""Metrics of a pool for OpenTelemetry: the numbers of its health, where the application has imported OpenTelemetry."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from epic_scale.reports import PoolHealth

_GAUGES = ("open", "in_use", "rss")
_COUNTERS = ("turns", "opened", "closed", "waited", "refused", "downloads", "uploads", "conflicts")


def publish(health: Callable[[], PoolHealth | None]) -> None:
    """Offer the numbers of a pool's health as `epic.pool.NAME`; nothing is sent from here.

    Args:
        health: Returns the present numbers, or None once the pool is gone.
    """
    metrics = sys.modules.get("opentelemetry.metrics")
    if metrics is None:
        return
    meter = metrics.get_meter("epic_scale")
    for name in _GAUGES:
        meter.create_observable_gauge(f"epic.pool.{name}", [partial(_observed, health, metrics.Observation, name)])
    for name in _COUNTERS:
        meter.create_observable_counter(f"epic.pool.{name}", [partial(_observed, health, metrics.Observation, name)])


def _observed(
    health: Callable[[], PoolHealth | None], observation: Callable[[int], Any], name: str, _: Any
) -> Iterable[Any]:
    found = health()
    return [] if found is None else [observation(getattr(found, name))]
