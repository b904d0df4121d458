"""Memories of many people: a pool of their files for a service, and building with Ray Data."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from epic_scale.lease import LeaseError
    from epic_scale.pool import MemoryPool
    from epic_scale.remote import ConflictError
    from epic_scale.reports import Forgotten, PoolHealth, Visits

# Imported on first use: who serves needs no Ray, and who builds no pool.
_MODULES = {
    "ConflictError": "remote",
    "Forgotten": "reports",
    "LeaseError": "lease",
    "MemoryPool": "pool",
    "PoolHealth": "reports",
    "Visits": "reports",
}

__all__ = [
    "ConflictError",
    "Forgotten",
    "LeaseError",
    "MemoryPool",
    "PoolHealth",
    "Visits",
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
