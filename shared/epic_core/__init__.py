"""EPIC: preference-aligned memory construction for on-device RAG, free of any framework."""

from __future__ import annotations

from typing import TYPE_CHECKING

from epic_core.errors import EpicError
from epic_core.filters import Filter
from epic_core.types import (
    Alignment,
    BuildReport,
    Candidate,
    Decision,
    Hit,
    Hits,
    Item,
    MemoryEntry,
    Preference,
    Stance,
    Verdict,
)

if TYPE_CHECKING:
    from epic_core.fallback import SecondTier
    from epic_core.memory import EpicMemory
    from epic_core.steering import QuerySteering

__version__ = "0.1.0"

__all__ = [
    "Alignment",
    "BuildReport",
    "Candidate",
    "Decision",
    "EpicError",
    "EpicMemory",
    "Filter",
    "Hit",
    "Hits",
    "Item",
    "MemoryEntry",
    "Preference",
    "QuerySteering",
    "SecondTier",
    "Stance",
    "Verdict",
]

_LAZY = {
    "EpicMemory": "epic_core.memory",
    "QuerySteering": "epic_core.steering",
    "SecondTier": "epic_core.fallback",
}


def __getattr__(name: str) -> object:
    if name in _LAZY:
        from importlib import import_module

        value = getattr(import_module(_LAZY[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
