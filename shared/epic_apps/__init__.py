"""Programs on top of a memory, each behind an extra of its own; they use public names of `epic_memory` only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from epic_memory.runtime.optional import imported_later

if TYPE_CHECKING:
    from epic_apps.imports.importing import ImportReport, import_from
    from epic_apps.losses import why_not
    from epic_apps.syncing import SyncReport, sync

__all__ = ["ImportReport", "SyncReport", "import_from", "sync", "why_not"]

_MODULES = {
    "ImportReport": "imports.importing",
    "SyncReport": "syncing",
    "import_from": "imports.importing",
    "sync": "syncing",
    "why_not": "losses",
}

__getattr__, __dir__ = imported_later(__name__, _MODULES)
