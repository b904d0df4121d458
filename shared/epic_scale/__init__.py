"""Memories of many people: a pool of their files for a service, and building with Ray Data."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from epic_scale.building import ScaleReport, build
    from epic_scale.lease import LeaseError
    from epic_scale.pool import MemoryPool
    from epic_scale.processor import EpicProcessor, EpicProcessorConfig, build_processor
    from epic_scale.remote import ConflictError
    from epic_scale.reports import Forgotten, PoolHealth, Visits
    from epic_scale.roots import name_of

# Imported on first use: who serves needs no Ray, and who builds no pool.
_MODULES = {
    "ConflictError": "remote",
    "EpicProcessor": "processor",
    "EpicProcessorConfig": "processor",
    "Forgotten": "reports",
    "LeaseError": "lease",
    "MemoryPool": "pool",
    "PoolHealth": "reports",
    "ScaleReport": "building",
    "Visits": "reports",
    "build": "building",
    "build_processor": "processor",
    "name_of": "roots",
}

__all__ = [
    "ConflictError",
    "EpicProcessor",
    "EpicProcessorConfig",
    "Forgotten",
    "LeaseError",
    "MemoryPool",
    "PoolHealth",
    "ScaleReport",
    "Visits",
    "build",
    "build_processor",
    "name_of",
]


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
