"""Roots of a pool: the folder in which each user has a file, named by the hash of the user's id."""

from __future__ import annotations

import os
import secrets
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from epic_memory import EpicMemory
from epic_memory.errors import InvalidInputError, StoreError
from epic_memory.types import checked_text
from epic_scale.entry import Entry

SUFFIX = ".epic"
_SIDE_FILES = ("-journal", "-wal", "-shm")
# 4,096 folders: some hundred files in each for a million users.
_FAN_OUT = 3
_REST = 64 - _FAN_OUT
# Letters and symbols that are drawn as nothing: Braille without dots, and fillers of Hangul.
_DRAWN_AS_NOTHING = frozenset("\u2800\u115f\u1160\u3164\uffa0")


def name_of(user_id: str) -> str:
    """Return the name of a user's file without suffix: the folder, and the rest of SHA-256 of the id.

    No id, whatever characters it has, names anything outside the root; two ids never share a file. Ids are compared
    character by character: "é" as one character and as two are two users.

    Raises:
        InvalidInputError: for what is no text, or shows nothing, as the id of somebody who is not logged in may.
    """
    if all(map(_is_invisible, checked_text(user_id, "The user's id"))):
        raise InvalidInputError("The user's id has only characters that cannot be seen.")
    return hashed(user_id)


def _is_invisible(character: str) -> bool:
    return unicodedata.category(character)[0] in "CZ" or character in _DRAWN_AS_NOTHING


def hashed(user_id: str) -> str:
    """As `name_of`, for an id that need not be checked."""
    digest = sha256(user_id.encode()).hexdigest()
    return f"{digest[:_FAN_OUT]}/{digest[_FAN_OUT:]}"


class LocalRoot:
    """A folder of this machine.

    Args:
        folder: Made if it does not exist.

    Attributes:
        is_remote: Whether what is open is a copy.

    Raises:
        StoreError: if it cannot be made.
    """

    is_remote = False

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise StoreError(f"{folder} cannot be a pool's folder: {error.strerror}.") from None

    def path(self, name: str) -> Path:
        """Return the path of a file by its name, in a folder that is there."""
        path = self.folder / f"{name}{SUFFIX}"
        path.parent.mkdir(exist_ok=True, mode=0o700)
        return path

    def entry(self, user_id: str, name: str, read_only: bool, open_file: Callable[[Entry], EpicMemory]) -> Entry:
        """Return the file of this name for a pool to open."""
        return Entry(user_id, self.path(name), read_only, open_file)

    def put(self, name: str, write: Callable[[Path], None]) -> None:
        """Have a file written where there is none.

        Raises:
            AlreadyThereError: if there is one.
        """
        write(self.path(name))

    def has(self, name: str) -> bool:
        """Tell whether there is a file of this name."""
        return self.path(name).exists()

    def close(self) -> None:
        """Leave the files, which stay."""

    def names(self) -> Iterator[str]:
        """Yield the names of all files, sorted, without listing them all at once."""
        for folder in sorted(self.folder.glob("?" * _FAN_OUT)):
            yield from (f"{folder.name}/{file.stem}" for file in sorted(folder.glob(f"{'?' * _REST}{SUFFIX}")))

    def remove(self, name: str) -> tuple[str, ...]:
        """Overwrite and remove a user's files, also what a killed process left; return their names."""
        files = self._files_of(name)
        for file in files:
            _erase(file)
        return self._named(files)

    def remaining(self, name: str) -> tuple[str, ...]:
        """Return the names of a user's files that are there."""
        return self._named(self._files_of(name))

    def _files_of(self, name: str) -> list[Path]:
        path = self.path(name)
        return sorted(file for file in path.parent.glob(f"*{path.name}*") if file.suffix != ".lease")

    def _named(self, files: list[Path]) -> tuple[str, ...]:
        return tuple(file.relative_to(self.folder).as_posix() for file in files)


def _erase(file: Path) -> None:
    """Remove a file and overwrite what was in it, also for who has it open."""
    with file.open("rb+") as opened:
        size = opened.seek(0, os.SEEK_END)
        try:
            file.unlink()
            is_left = False
        except PermissionError:  # Windows removes no file that is open.
            is_left = True
        opened.seek(0)
        opened.write(bytes(size))
        opened.flush()
        os.fsync(opened.fileno())
    if is_left:
        file.unlink()


def write_whole(path: Path, data: bytes) -> None:
    """Write a file for its owner only, so that it is there whole or not at all."""
    made = path.with_name(f".{path.name}.{secrets.token_hex(6)}.new")
    try:
        with os.fdopen(os.open(made, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
            file.write(data)
        made.replace(path)
    finally:
        made.unlink(missing_ok=True)


def discard(path: Path) -> None:
    """Remove a file that is a copy of another, with what SQLite left beside it."""
    for suffix in ("", *_SIDE_FILES):
        with suppress(OSError):
            Path(f"{path}{suffix}").unlink(missing_ok=True)
