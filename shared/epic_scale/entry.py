"""Memory of a pool: opened with the first turn, in use while turns last, and renewed when its file was replaced."""

from __future__ import annotations

import re
import threading
import time
from ast import literal_eval
from collections.abc import Callable
from pathlib import Path

from epic_memory import EpicMemory
from epic_scale.lease import Lease, taken_lease
from epic_scale.remote import ConflictError, RemoteRoot
from epic_scale.roots import discard, hashed, write_whole

_STATE = re.compile(r"""state ('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*") """)


class Entry:
    """One user's memory in a pool, for writing or for reading only.

    Attributes:
        turns: How many turns use it.
        used_at: When the last of them began or ended, by `time.monotonic`.
        memory: The memory; None while it is not open.
        retired: Whether it is only kept until its turns end, as another one took its place.

    Args:
        user_id: Whose it is.
        path: Its file.
        read_only: Whether turns only read.
        open_file: Opens the memory.
    """

    def __init__(self, user_id: str, path: Path, read_only: bool, open_file: Callable[[Entry], EpicMemory]) -> None:
        self.user_id = user_id
        self.path = path
        self.read_only = read_only
        self.turns = 0
        self.used_at = time.monotonic()
        self.memory: EpicMemory | None = None
        self.retired = False
        self._lock = threading.Lock()
        self._open_file = open_file
        self._lease: Lease | None = None
        self._identity: tuple[int, int] | None = None

    def is_replaced(self) -> bool:
        """Tell whether the file was removed or replaced by another one since it was opened."""
        return self.retired or (self.memory is not None and self._identity != _identity_of(self.path))

    def take_lease(self) -> bool:
        """Take the right to write, if it is needed; return False if it cannot be had now."""
        if not self.read_only and self._lease is None:
            self._lease = taken_lease(lease_path(self.path))
            return self._lease is not None
        return True

    def release_lease(self) -> None:
        """Let other processes write."""
        if self._lease is not None:
            self._lease.release()
            self._lease = None

    def open(self) -> tuple[EpicMemory, bool]:
        """Return the memory for a turn, and whether it had to be opened for it."""
        with self._lock:
            if self.memory is not None:
                return self.memory, False
            # Looked at before: if it is replaced while it is being opened, the next turn notices that.
            before = _identity_of(self.path)
            self.memory = self._open_file(self)
            self._identity = before or _identity_of(self.path)
            return self.memory, True

    def save(self) -> bool:
        """Put what a turn wrote in its place, and return whether that took any writing: a local file is there."""
        return False

    def has_unsaved(self) -> bool:
        """Tell whether closing it may still write what the next turn has to wait for: a local file is there."""
        return False

    def close(self) -> None:
        """Close the memory. No turn may use it."""
        with self._lock:
            memory, self.memory = self.memory, None
            if memory is not None:
                memory.close()


class RemoteEntry(Entry):
    """One user's memory in a remote root: a copy of its newest version, written back when a turn has changed it.

    Args:
        user_id, path, read_only, open_file: As for `Entry`; the path is that of the copy, which nobody else uses.
        root: The remote root.
        name: The name of the user's file there.
    """

    def __init__(
        self,
        user_id: str,
        path: Path,
        read_only: bool,
        open_file: Callable[[Entry], EpicMemory],
        root: RemoteRoot,
        name: str,
    ) -> None:
        super().__init__(user_id, path, read_only, open_file)
        self._root = root
        self._name = name
        self._version = 0
        self._written = 0
        self._is_lost = False

    def is_replaced(self) -> bool:
        """Tell whether it was given up: nobody else writes the copy."""
        return self.retired

    def open(self) -> tuple[EpicMemory, bool]:
        """Return the memory for a turn as the remote root has it, and whether it had to be fetched for it."""
        with self._lock:
            # What is in use already stays, and finds out at the end that another machine was faster.
            if self.memory is not None and (self.turns > 1 or self._root.newest(self._name) == self._version):
                return self.memory, False
            self._drop()
            self._version, data = self._root.read(self._name)
            if data:
                write_whole(self.path, data)
            self.memory = self._open_file(self)
            self._written = self._changes()
            return self.memory, True

    def save(self) -> bool:
        """Write the memory back if it has changed, and return whether it had.

        Raises:
            ConflictError: if another machine was faster; the copy is given up.
            StoreError: if the remote root cannot be written now; the next turn tries again.
        """
        if self.read_only or self.memory is None or (self._is_lost and not self.turns):
            return False
        with self._lock:
            if (written := self._changes()) == self._written:
                return False
            data = self._content(self.memory)
            try:
                self._version = self._root.write(self._name, self._version, data)
            except ConflictError:
                self.retired = self._is_lost = True
                raise
            self._written = written
            return True

    def has_unsaved(self) -> bool:
        """As for `Entry`: verdicts that came after the last turn."""
        return not self.read_only and self.memory is not None and not self._is_lost

    def close(self) -> None:
        """Close the memory, and remove the copy."""
        with self._lock:
            self._drop()

    def _drop(self) -> None:
        memory, self.memory = self.memory, None
        if memory is not None:
            memory.close()
        discard(self.path)

    def _changes(self) -> int:
        """Count the rows written since it was opened: bytes tell nothing, a locked file has others in each copy."""
        return 0 if self.memory is None else self.memory._session.store.connection.total_changes

    def _content(self, memory: EpicMemory) -> bytes:
        """Return the bytes of the last committed state."""
        copy = self.path.with_name(f"{self.path.name}.copy")
        try:
            # Not read from the file itself: closing that would end the locks which SQLite has on it.
            memory.file.backup(copy, overwrite=True)
            return copy.read_bytes()
        finally:
            discard(copy)


def users_in(memory: EpicMemory, name: str) -> list[str]:
    """Return whose the file of this name is, by what it holds: one user, or none if it holds nothing."""
    session = memory._session
    with session.lock, session.store.reading():
        keys = list(session.store.meta())
    # What a memory has besides its rows, such as its rules, is kept under the user's id.
    named = {key.partition("/")[2] for key in keys} | {literal_eval(one[1]) for one in map(_STATE.match, keys) if one}
    return [user for user in named.union(memory.file.namespaces) if hashed(user) == name]


def lease_path(path: Path) -> Path:
    """Return the path of the lease of a memory's file."""
    return path.with_name(f"{path.name}.lease")


def _identity_of(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
