"""Watch of folders: a sync whenever something changes in one of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

from epic_apps.cli.readers.base import library
from epic_apps.syncing.report import SyncReport
from epic_apps.syncing.run import sync
from epic_memory.errors import InvalidInputError
from epic_memory.memory import EpicMemory


def watch(
    memory: EpicMemory,
    folders: Sequence[str | Path],
    on_report: Callable[[Path, SyncReport], object],
    *,
    user: str | Collection[str] = (),
    stop: Any = None,
) -> None:
    """Sync folders now, and whenever something changes in them, until it is interrupted.

    Args:
        memory: The memory.
        folders: The folders.
        on_report: Is called with a folder and what was changed.
        user: As for `sync`.
        stop: A `threading.Event` that ends it.

    Raises:
        MissingExtraError: if watchfiles is not installed.
    """
    changes_of = library("watchfiles", "watch").watch
    tops = [Path(each).resolve() for each in folders]

    def synced(top: Path) -> SyncReport:
        try:
            return sync(memory, top, user=user)
        except (InvalidInputError, OSError) as error:  # of this folder only
            return SyncReport(failures=[str(error)])

    for top in tops:
        on_report(top, synced(top))
    for changes in changes_of(*tops, stop_event=stop, raise_interrupt=True):
        paths = [Path(path) for _, path in changes]
        for top in tops:
            if top.is_dir() and any(path.is_relative_to(top) for path in paths):
                report = synced(top)
                if not report.is_empty or report.failures:
                    on_report(top, report)
