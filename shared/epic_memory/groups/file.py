"""File of a memory: checks, copies, exports, and what it holds besides the items."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from epic_memory.encoders import Encoder, encoder_of
from epic_memory.errors import LockedError
from epic_memory.pipeline.opening import reencode_memory
from epic_memory.pipeline.removal import drop_expired
from epic_memory.pipeline.session import Session
from epic_memory.runtime.effects import run
from epic_memory.runtime.optional import optional
from epic_memory.storage.namespace import CommittedRows
from epic_memory.storage.sqlite.locking import Key, Passphrase, key_of, salt_in
from epic_memory.storage.tables.items import version_of
from epic_memory.storage.tables.seen import numbers
from epic_memory.types import Item, MemoryEntry, Outline
from epic_memory.types.digests import digest
from epic_memory.types.reports import NotKept
from epic_memory.types.validation import checked_ids, checked_path, checked_text


class MemoryFile:
    """The file of a memory, or what would be its file for a memory in RAM.

    memory.file.verify()
    memory.file.backup("copy.epic")
    await asyncio.to_thread(memory.file.backup, "copy.epic")  # without blocking the event loop
    """

    def __init__(self, session: Session) -> None:
        self._session = session

    @property
    def path(self) -> Path | None:
        """The file; None for a memory in RAM."""
        return self._session.store.path

    @property
    def namespaces(self) -> list[str]:
        """Return the namespaces of the file that hold something, sorted."""
        with self._session.lock:
            return self._session.store.namespaces()

    @property
    def revision(self) -> str:
        """A value that changes with everything a search depends on, also when another process writes."""
        with self._session.lock, self._session.store.reading():
            return digest(*map(str, self._session.store.sums()), size=8).hex()

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

    def backup(self, path: str | Path, *, overwrite: bool = False, key: Passphrase | Key | None = None) -> None:
        """Copy the whole file as the last commit left it, all namespaces, while it is open and in use.

        A memory in RAM is written into a file. The copy of a locked file is locked with the same key; another can be
        given.

        Raises:
            DamagedError: if the memory is not as it was written; nothing is copied then.
            StoreError: if the copy cannot be written, or there is a file already.
        """
        with self._session.lock:
            # A damaged file must not take the place of the last good copy.
            self._session.store.verify()
            self._session.store.copy_to(checked_path(path), overwrite=overwrite, key=key_of(key))

    def rekey(self, key: Passphrase | None) -> None:
        """Lock the file with another key; one that is not locked is locked, and None unlocks it.

        The file is written anew, whole or not at all, and keeps its name; other processes have to open it again.

        Raises:
            MissingExtraError: without the extra "encryption".
            StoreError: if it cannot be written.
        """
        session, locking = self._session, key_of(key)
        with session.lock:
            session.store.verify()
            session.store.rekey(locking)
            session.settings = replace(session.settings, key=locking)
            session.limit(session.budget)
            session.mark_stale()

    def export(self, path: str | Path, *, overwrite: bool = False) -> int:
        """Write this namespace as lines of JSON: preferences, items, entries, what waits, proposals.

        It is plain text, also of a locked file. Left out are embeddings, what has expired, and the history of facts:
        `undo` does not reach behind an import.

        Args:
            path: The file; it is there whole or not at all.
            overwrite: Whether a file that is there is replaced.

        Returns:
            How many items were written.

        Raises:
            StoreError: if it cannot be written, or is there already.
        """
        items: int = optional("epic_learn.export", "export")(self._session, checked_path(path), overwrite=overwrite)
        return items

    def reencode(self, encoder: Encoder | str) -> None:
        """Embed everything anew with another encoder: preferences, instructions, texts, all namespaces.

        The coarse filter's tau becomes the new encoder's own. Items that were discarded stay discarded.
        """
        run(reencode_memory(self._session, encoder_of(encoder)))

    def entries(self, item_ids: Iterable[str]) -> dict[str, list[MemoryEntry]]:
        """Return the entries of held items: item id to entries, oldest first, for those that have any.

        Raises:
            InvalidInputError: for anything but several ids.
        """
        checked = checked_ids(item_ids)
        with self._session.lock, self._session.store.reading():
            space, store = self._session.space(), self._session.store
            rows = {item_id: store.items.row(space.namespace, item_id) for item_id in checked}
            own = {item_id: space.rows_of[row] for item_id, row in rows.items() if row in space.rows_of}
            found = store.entries.at(sorted(row for each in own.values() for row in each), space.namespace)
            return {item_id: [found[row] for row in sorted(each)] for item_id, each in own.items()}

    def outline(self) -> Outline:
        """Return what is held without the texts: ids, embeddings, and which item was kept for which preference."""
        with self._session.lock, self._session.store.reading():
            space, store = self._session.space(), self._session.store
            ids = {row: each for row, each in store.items.ids(space.namespace).items() if row in space.texts}
            place = {row: position for position, row in enumerate(ids)}
            preference = {row: position for position, row in enumerate(space.preference_rows)}
            rows = sorted(space.item_of)
            added = {entry["row"]: entry["added"] for entry in store.entries.stored(space.namespace)}
            pairs = [(place[space.item_of[row]], preference.get(space.preference_of[row], -1)) for row in rows]
            return Outline(
                items=list(ids.values()),
                facts=np.array([row in space.facts for row in ids], dtype=bool),
                vectors=space.texts.vectors[space.texts.places(list(ids))],
                preferences=[each.id for each in space.preferences],
                preference_vectors=space.vectors.copy(),
                entries=np.array(pairs, dtype=np.int64).reshape(-1, 2),
                stances=[space.stance_of[row] for row in rows],
                added=np.array([added[row] for row in rows], dtype=np.float64),
            )

    def state(self, name: str) -> Any:
        """Return what a program has kept beside the memory under a name, or None."""
        with self._session.lock, self._session.store.reading():
            return self._session.store.meta_of(self._key(name))

    def set_state(self, **values: Any) -> None:
        """Keep JSON values of a program's own beside the memory, for this namespace, all at once; None removes one.

        Such as what was read from where. No search depends on it, and `export` leaves it out.

        Raises:
            BudgetError: if the budget has no room.
            ReadOnlyError: if the memory cannot be written.
        """
        store = self._session.store
        store.check_writable()
        with self._session.lock, store.transaction():
            store.set_meta(**{self._key(name): value for name, value in values.items()})

    def _key(self, name: str) -> str:
        return f"state {self._session.namespace!r} {checked_text(name, 'The name')}"

    def versions(self, items: Sequence[Item]) -> list[bytes]:
        """Return the digest of each item, by which the memory knows that it was seen."""
        return [version_of(item) for item in items]

    def has_seen(self, items: Sequence[Item]) -> list[bool]:
        """Tell of each item whether it was seen in this version and not kept, as far as that is remembered."""
        with self._session.lock, self._session.store.reading():
            seen = set(self._session.store.seen.digests(self._session.namespace).tolist())
        return [number in seen for number in numbers(self.versions(items)).tolist()]

    def forget_versions(self, digests: Iterable[bytes]) -> None:
        """Forget that items which are not held were seen, by what `versions` gave."""
        session = self._session
        session.store.check_writable()
        with session.changing(session.encoder, CommittedRows(forgotten=True)):
            session.store.seen.remove(session.namespace, digests)

    def not_kept(self) -> list[NotKept]:
        """Return the records of items that are not held, the newest first.

        A uniform sample of what was discarded, and the last of what was evicted: `Settings(not_kept=...)` of each.
        """
        with self._session.lock:
            return self._session.store.seen.records(self._session.namespace)


def is_locked(path: str | Path) -> bool:
    """Tell whether there is a file that only its key opens."""
    try:
        return Path(path).is_file() and salt_in(Path(path), None) is not None
    except LockedError:
        return True
    except (OSError, ValueError):
        return False
