"""EPIC: preference-aligned memory construction for on-device RAG, free of any framework."""

from __future__ import annotations

from typing import TYPE_CHECKING

from epic_memory.runtime.optional import imported_later

if TYPE_CHECKING:
    from epic_memory.errors import EpicError
    from epic_memory.filters import Filter
    from epic_memory.memory import EpicMemory
    from epic_memory.settings import Settings
    from epic_memory.steering.query_steering import QuerySteering
    from epic_memory.types import (
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
    from epic_memory.types.preferences import Aspects, Expansion
    from epic_memory.types.reports import NotKept
    from epic_memory.types.search_options import SearchOptions

__version__ = "0.1.0"

__all__ = [
    "Alignment",
    "Aspects",
    "BuildReport",
    "Candidate",
    "Decision",
    "EpicError",
    "EpicMemory",
    "Expansion",
    "Filter",
    "Hit",
    "Hits",
    "Item",
    "MemoryEntry",
    "NotKept",
    "Preference",
    "QuerySteering",
    "SearchOptions",
    "Settings",
    "Stance",
    "Verdict",
]

# Imported when first used: `import epic_memory` costs next to nothing, and numpy only when something is done.
_MODULES = {
    "EpicError": "errors",
    "EpicMemory": "memory",
    "Filter": "filters",
    "QuerySteering": "steering",
    "SearchOptions": "types.search_options",
    "Settings": "settings",
}

__getattr__, __dir__ = imported_later(__name__, dict.fromkeys(__all__, "types") | _MODULES)
