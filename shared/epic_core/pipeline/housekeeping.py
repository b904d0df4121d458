"""Housekeeping of a memory: explain, forget, export, back up, verify and compact."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

from epic_core.errors import InvalidInputError
from epic_core.pipeline.expiry import drop_expired
from epic_core.pipeline.explain import explain, stats
from epic_core.pipeline.export import lines_of
from epic_core.pipeline.forget import forget
from epic_core.pipeline.session import Session
from epic_core.runtime.threads import in_thread
from epic_core.storage.sqlite.files import check_path, new_file
from epic_core.types import Item, checked_text
from epic_core.types.reports import Explanation, NotKept, Stats

R = TypeVar("R")


class Housekeeping:
    """The part of `EpicMemory` that is about the file and what is in it."""

    _session: Session

    async def _in_thread(self, call: Callable[[], R]) -> R:
        return await in_thread(call)

    def explain(self, item_id: str) -> Explanation:
        """Explain why an item was kept: similarity, rationale, stance, confidence, for each of its entries.

        Raises:
            UnknownItemError: if no item with that id is held.
        """
        checked_text(item_id, "The item's id")
        with self._session.lock:
            return explain(self._session, item_id)

    def stats(self) -> Stats:
        """Return the counts of this namespace, and the bytes of the whole memory by part, as the paper's Table 6."""
        with self._session.lock:
            return stats(self._session)

    def not_kept(self) -> list[NotKept]:
        """Return the records of items that are not held, the newest first.

        A uniform sample of what was discarded, and the last of what was evicted; `not_kept=` says how many of each.
        """
        with self._session.lock:
            return self._session.store.seen.records(self._session.namespace)

    @property
    def namespaces(self) -> list[str]:
        """Return the namespaces of the file that hold something, sorted."""
        with self._session.lock:
            return self._session.store.preferences.namespaces()

    def forget(self, *items: str | Item) -> int:
        """Forget items for good: text, entries, what a model said of them, and that they were ever seen.

        What is removed is overwritten in the file.

        Args:
            *items: Ids, also of a document that was cut into chunks; or items as they were handed in, also such as
                were not kept.

        Returns:
            How many of them were held, or waited to be verified again.

        Raises:
            UnknownItemError: for an id that nothing is known of; nothing is forgotten then.
        """
        for item in items:
            if not isinstance(item, Item):
                checked_text(item, "The item's id")
        return forget(self._session, items)

    async def aforget(self, *items: str | Item) -> int:
        """As `forget`, without blocking the event loop."""
        return await self._in_thread(partial(self.forget, *items))

    def export(self, path: str | Path, *, overwrite: bool = False) -> int:
        """Write this namespace as lines of JSON: preferences, items, entries, what waits; no embeddings.

        Args:
            path: The file; it is there whole or not at all.
            overwrite: Whether a file that is there is replaced.

        Returns:
            How many items were written.

        Raises:
            StoreError: if it cannot be written, or is there already.
        """
        items = 0
        self._session.store.check_other(_path(path))
        check_path(_path(path))
        with new_file(_path(path), overwrite=overwrite) as made, Path(made).open("w", encoding="utf-8") as lines:
            for line in lines_of(self._session):
                lines.write(line + "\n")
                items += line.startswith('{"kind": "item"')
        return items

    async def aexport(self, path: str | Path, *, overwrite: bool = False) -> int:
        """As `export`, without blocking the event loop."""
        return await self._in_thread(partial(self.export, path, overwrite=overwrite))

    def backup(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Copy the whole file as the last commit left it, all namespaces, while it is open and in use.

        A memory in RAM is written into a file.

        Raises:
            DamagedError: if the memory is not as it was written; nothing is copied then.
            StoreError: if the copy cannot be written, or there is a file already.
        """
        with self._session.lock:
            # A damaged file must not take the place of the last good copy.
            self._session.store.verify()
            self._session.store.copy_to(_path(path), overwrite=overwrite)

    async def abackup(self, path: str | Path, *, overwrite: bool = False) -> None:
        """As `backup`, without blocking the event loop."""
        await self._in_thread(partial(self.backup, path, overwrite=overwrite))

    def verify(self) -> int:
        """Check the whole file: its structure, that no row is missing, and every row against its checksum.

        Returns:
            How many rows it has.

        Raises:
            DamagedError: if anything is not as it was written.
        """
        with self._session.lock:
            return self._session.store.verify()

    def compact(self) -> int:
        """Remove what has expired, and write the file anew without gaps.

        Returns:
            How many bytes smaller the file is.

        Raises:
            DamagedError: if the memory is not as it was written.
            StoreError: if it cannot be written.
        """
        session = self._session
        with session.lock:
            session.store.verify()
            before = session.store.file_bytes()
            drop_expired(session)
            session.store.compact()
            return before - session.store.file_bytes()

    async def acompact(self) -> int:
        """As `compact`, without blocking the event loop."""
        return await self._in_thread(self.compact)


def _path(path: str | Path) -> Path:
    if not isinstance(path, (str, Path)) or not str(path):
        raise InvalidInputError(f"The name of a file is needed, not {path!r}.")
    return Path(path)
