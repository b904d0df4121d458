"""Remote root of a pool: any store that fsspec reaches, in which each state of a user's file is an object of its own.

A state is never overwritten: version n + 1 is created where there was none, or somebody else was faster. So no write is
lost, whatever several machines do. Older versions are removed after a newer one is there. Who forgets a user creates an
empty version, so that a machine which still has the old one cannot bring it back.
"""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typing_extensions import override

from epic_memory import EpicMemory
from epic_memory.errors import AlreadyThereError, MissingExtraError, StoreError
from epic_scale.entry import Entry
from epic_scale.roots import SUFFIX, LocalRoot, discard, write_whole


class ConflictError(StoreError):
    """Error for a memory that another machine changed during this turn.

    The turn's changes are written nowhere, except those that a turn beside it in this process took along as it ended.
    """


def is_remote(root: object) -> bool:
    """Tell whether a root is the address of a store and no folder of this machine."""
    return isinstance(root, str) and "://" in root and not root.startswith(("file://", "local://"))


def root_of(root: str | Path, options: dict[str, Any] | None) -> LocalRoot:
    """Return the root that an address or a folder names."""
    return (
        RemoteRoot(str(root), options or {})
        if is_remote(root)
        else LocalRoot(Path(str(root).removeprefix("file://").removeprefix("local://")))
    )


class RemoteRoot(LocalRoot):
    """A folder of a store that fsspec reaches, and one of this machine with copies of what is open.

    Args:
        address: "s3://bucket/memories", "memory://pool", ...
        options: Of the file system, as fsspec takes them: keys, endpoints.

    Raises:
        MissingExtraError: without fsspec.
        StoreError: if the store cannot create an object only where there is none.
    """

    is_remote = True

    def __init__(self, address: str, options: dict[str, Any]) -> None:
        try:
            from fsspec.core import url_to_fs
        except ImportError:
            raise MissingExtraError("fsspec", "fsspec") from None
        self._address = address
        try:
            self._files, self._root = url_to_fs(address, **options)
            self._check()
        except (ImportError, OSError, ValueError) as error:
            raise StoreError(f"{address} cannot be used: {error}") from error
        super().__init__(Path(tempfile.mkdtemp(prefix="epic-pool-")))
        self._remove_copies = weakref.finalize(self, _remove, self.folder, os.getpid())

    def _check(self) -> None:
        """Find out whether the store refuses to create an object that is there; some silently overwrite it."""
        probe = f"{self._root}/.probe/{secrets.token_hex(8)}"
        self._files.makedirs(f"{self._root}/.probe", exist_ok=True)
        self._files.pipe_file(probe, b"first", mode="create")
        try:
            self._files.pipe_file(probe, b"second", mode="create")
        except FileExistsError:
            return
        except TypeError:
            pass
        finally:
            self._files.rm_file(probe)
        raise StoreError(
            f"{self._address} does not refuse to create an object that is there already, so two machines could"
            " overwrite each other's. Use a store that does (S3, Google Cloud Storage), or a newer fsspec driver."
        )

    def versions(self, name: str) -> dict[int, int]:
        """Return the versions of a user's file that are there, with their sizes in bytes."""
        folder = f"{self._root}/{name}"
        self._files.invalidate_cache(folder)
        try:
            found = self._files.ls(folder, detail=True)
        except FileNotFoundError:
            return {}
        sizes = {str(one["name"]).rpartition("/")[2]: int(one["size"] or 0) for one in found}
        return {int(file.removesuffix(SUFFIX)): size for file, size in sizes.items() if file.endswith(SUFFIX)}

    def newest(self, name: str) -> int:
        """Return the number of the newest version of a user's file, 0 if there is none; or raise a `StoreError`."""
        with self._explaining("read from"):
            return max(self.versions(name), default=0)

    def read(self, name: str) -> tuple[int, bytes]:
        """Return the newest version of a user's file, and its number; 0 and nothing if there is none.

        Raises:
            StoreError: if it cannot be read.
        """
        for _ in range(5):
            # It can be replaced by a newer one after it was listed.
            with suppress(FileNotFoundError), self._explaining("read from", FileNotFoundError):
                versions = self.versions(name)
                newest = max(versions, default=0)
                return newest, self._files.cat_file(self._place(name, newest)) if versions.get(newest) else b""
        raise StoreError(f"A memory at {self._address} changes faster than it can be read. Try again.")

    def write(self, name: str, base: int, data: bytes) -> int:
        """Write the version that follows `base`, and return its number.

        Raises:
            ConflictError: if there is another one after `base` already.
            StoreError: if it cannot be written.
        """
        version = base + 1
        with suppress(FileExistsError), self._explaining("written to", FileExistsError):
            if max(self.versions(name), default=0) == base:
                self._files.makedirs(f"{self._root}/{name}", exist_ok=True)
                self._files.pipe_file(self._place(name, version), data, mode="create")
                there = self.versions(name)
                if max(there) == version:
                    for older in there.keys() - {version}:
                        self._remove(name, older)
                    return version
                # Two were faster, and the first of them is removed already.
                self._remove(name, version)
        raise ConflictError(
            "Another machine changed this memory during the turn, so what the turn changed since the last turn of this"
            " process ended was not written, and what the other one wrote stands. Do the turn again."
        )

    @contextmanager
    def _explaining(self, done: str, *let_through: type[OSError]) -> Iterator[None]:
        try:
            yield
        except let_through:
            raise
        except OSError as error:
            raise StoreError(f"A memory cannot be {done} {self._address}: {error}") from error

    @override
    def entry(self, user_id: str, name: str, read_only: bool, open_file: Callable[[Entry], EpicMemory]) -> Entry:
        return RemoteEntry(user_id, self._copy(), read_only, open_file, root=self, name=name)

    @override
    def put(self, name: str, write: Callable[[Path], None]) -> None:
        data, base = self.written(write), self.newest(name)
        if self.has(name):
            raise AlreadyThereError("This user has a file already.")
        self.write(name, base, data)

    def written(self, write: Callable[[Path], None]) -> bytes:
        """Return what a function writes into a file."""
        copy = self._copy()
        try:
            write(copy)
            return copy.read_bytes()
        finally:
            discard(copy)

    @override
    def has(self, name: str) -> bool:
        return bool(self.remaining(name))

    def close(self) -> None:
        """Remove the copies."""
        self._remove_copies()

    def _copy(self) -> Path:
        return self.folder / f"{secrets.token_hex(16)}{SUFFIX}"

    def names(self) -> Iterator[str]:
        """Yield the names of all users' files that hold anything."""
        self._files.invalidate_cache(self._root)
        found = self._files.find(self._root, detail=True)
        held = {str(path).removeprefix(f"{self._root}/").rpartition("/")[0] for path in found if found[path]["size"]}
        yield from sorted(name for name in held if name.count("/") == 1)

    def remove(self, name: str) -> tuple[str, ...]:
        """Put an empty version in the place of a user's file; return the names of the versions that were removed.

        Raises:
            ConflictError: if it was changed at the same time.
        """
        newest, removed = self.newest(name), self.remaining(name)
        if removed:
            self.write(name, newest, b"")
        return removed

    def remaining(self, name: str) -> tuple[str, ...]:
        """Return the versions of a user's file that hold anything."""
        return tuple(f"{name}/{version:012}{SUFFIX}" for version, size in self.versions(name).items() if size)

    def _place(self, name: str, version: int) -> str:
        return f"{self._root}/{name}/{version:012}{SUFFIX}"

    def _remove(self, name: str, version: int) -> None:
        with suppress(FileNotFoundError):
            self._files.rm_file(self._place(name, version))


@dataclass(eq=False, kw_only=True)
class RemoteEntry(Entry):
    """One user's memory in a remote root: a copy of its newest version, written back when a turn has changed it.

    Attributes:
        root: The remote root.
        name: The name of the user's file there; `path` is that of the copy, which nobody else uses.
    """

    root: RemoteRoot
    name: str
    _version: int = 0
    _written: int = 0
    _is_lost: bool = False

    def is_replaced(self) -> bool:
        """Tell whether it was given up: nobody else writes the copy."""
        return self.retired

    def open(self) -> tuple[EpicMemory, bool]:
        """Return the memory for a turn as the remote root has it, and whether it had to be fetched for it."""
        with self._lock:
            # What is in use already stays, and finds out at the end that another machine was faster.
            if self.memory is not None and (self.turns > 1 or self.root.newest(self.name) == self._version):
                return self.memory, False
            self._drop()
            self._version, data = self.root.read(self.name)
            if data:
                write_whole(self.path, data)
            self.memory = self.open_file(self)
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
            # Not read from the copy itself: closing that would end the locks which SQLite has on it.
            data = self.root.written(self.memory.file.backup)
            try:
                self._version = self.root.write(self.name, self._version, data)
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


def _remove(folder: Path, process: int) -> None:
    """Remove a folder of copies, in the process that made it."""
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)
