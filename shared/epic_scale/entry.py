"""Memory of a pool: opened with the first turn, in use while turns last, and renewed when its file was replaced."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from epic_memory import EpicMemory
from epic_scale.lease import Lease, taken_lease


@dataclass(eq=False)
class Entry:
    """One user's memory in a pool, for writing or for reading only.

    Attributes:
        user_id: Whose it is.
        path: Its file.
        read_only: Whether turns only read.
        open_file: Opens the memory.
        turns: How many turns use it.
        used_at: When the last of them began or ended, by `time.monotonic`.
        memory: The memory; None while it is not open.
        retired: Whether it is only kept until its turns end, as another one took its place.
    """

    user_id: str
    path: Path
    read_only: bool
    open_file: Callable[[Entry], EpicMemory]
    turns: int = 0
    used_at: float = field(default_factory=time.monotonic)
    memory: EpicMemory | None = None
    retired: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _lease: Lease | None = None
    _identity: tuple[int, int] | None = None

    def is_replaced(self) -> bool:
        """Tell whether the file was removed or replaced by another one since it was opened."""
        return self.retired or (self.memory is not None and self._identity != _identity_of(self.path))

    def take_lease(self) -> bool:
        """Take the right to write, if it is needed; return False if it cannot be had now."""
        if not self.read_only and self._lease is None:
            self._lease = taken_lease(self.path)
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
            self.memory = self.open_file(self)
            self._identity = before or _identity_of(self.path)
            return self.memory, True

    def save(self) -> bool:
        """Put what a turn wrote in its place, and return whether that took any writing: a local file is there."""
        return False

    def has_unsaved(self) -> bool:
        """Tell whether `save` may still write what the next turn has to wait for: a local file is there."""
        return False

    def close(self) -> None:
        """Close the memory. No turn may use it."""
        with self._lock:
            memory, self.memory = self.memory, None
            if memory is not None:
                memory.close()


def _identity_of(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
