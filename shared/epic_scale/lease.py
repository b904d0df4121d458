"""Lease of a file: the right to write it, which one process has at a time, until it ends at the latest."""

from __future__ import annotations

import os
import sys
import weakref
from contextlib import suppress
from pathlib import Path

from epic_memory.errors import StoreError

if sys.platform == "win32":
    import msvcrt

    def _lock(descriptor: int) -> None:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
else:
    import fcntl

    def _lock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


class LeaseError(StoreError):
    """Error for what others have in use; nothing was read or written."""


class Lease:
    """A lease that was taken. The operating system ends it with the process; `release` ends it before.

    Args:
        path: The file that is locked, beside the memory's.
        descriptor: Of the locked file.
    """

    def __init__(self, path: Path, descriptor: int) -> None:
        self._path = path
        self._descriptor = descriptor
        _leases.add(self)

    def release(self) -> None:
        """Let others write."""
        if self._descriptor < 0:
            return
        # Before it is unlocked: whoever then locks a file without a name sees it, and tries again.
        with suppress(OSError):
            self._path.unlink(missing_ok=True)
        self.leave()

    def leave(self) -> None:
        """Have no more part in it; in a forked process, which must not keep the lease of the one that took it."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


_leases: weakref.WeakSet[Lease] = weakref.WeakSet()


def _leave_all() -> None:
    for lease in list(_leases):
        lease.leave()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_all)


def taken_lease(of: Path) -> Lease | None:
    """Return the lease of a file; None if another process, or another pool of this one, has it."""
    path = of.with_name(f"{of.name}.lease")
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
    try:
        _lock(descriptor)
        if os.path.samestat(os.fstat(descriptor), path.stat()):
            return Lease(path, descriptor)
    except OSError:
        pass
    os.close(descriptor)
    return None
