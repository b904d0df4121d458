"""Files dropped on the page, described by a dry run and imported once the user agrees; folders to keep in step."""

from __future__ import annotations

import secrets
import shutil
import tempfile
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from epic_apps.cli.printing import first
from epic_memory import EpicMemory
from epic_memory.errors import InvalidInputError

if TYPE_CHECKING:
    from starlette.datastructures import UploadFile

LARGEST = 4_000_000_000
"""Most bytes of what is dropped at once."""
MOST_FILES = 1_000
_LONGEST_NAME, _DEEPEST = 200, 20


class Bringing:
    """Files that were dropped last and wait for the user to agree, and the report of what was brought in last."""

    def __init__(self, memory: EpicMemory) -> None:
        self._memory = memory
        self._turn = threading.RLock()  # two tabs of a browser may ask at once
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._source, self._id = Path(), ""
        self._user: list[str] = []
        self._report: Any = None
        self._told: tuple[str, list[str]] = ("", [])

    def view(self) -> dict[str, Any]:
        """Return what waits, what was brought in last, and the folders that are kept in step."""
        from epic_apps.syncing import synced_folders

        waiting = {"id": self._id, "name": self._source.name, "report": self._report, "user": ", ".join(self._user)}
        return {
            "waiting": {**waiting, "is_folder": self._source.is_dir()} if self._id else None,
            "told": self._told[0],
            "left": self._told[1],
            "folders": [str(each) for each in synced_folders(self._memory)],
        }

    def drop(self, files: Sequence[UploadFile], user: str) -> None:
        """Keep files for a moment, in place of those dropped before, and find out what is in them.

        Raises:
            InvalidInputError: if no file was given, or nothing in them can be read.
        """
        from epic_apps.imports.importing import import_from

        given = [each for each in files if each.filename]
        if not given:
            raise InvalidInputError("Choose a file, or drop files or a folder that has some on the page.")
        with self._turn:
            self.discard()
            self._folder = tempfile.TemporaryDirectory(prefix="epic-")
            folder = Path(self._folder.name, "several files")
            try:
                folder.mkdir()
                for each in given:
                    with _free_place(folder, each.filename or "").open("wb") as copy:
                        shutil.copyfileobj(each.file, copy)
                inside = list(folder.iterdir())
                self._source = inside[0] if len(inside) == 1 else folder
                self._user = [name.strip() for name in user.split(",") if name.strip()]
                self._report = import_from(self._memory, self._source, user=self._user, dry_run=True, copied=True)
            except BaseException:
                self.discard()
                raise
            self._id = secrets.token_hex(8)

    def take(self, _: EpicMemory, form: Mapping[str, str]) -> None:
        """Import what waits.

        Raises:
            InvalidInputError: if it does not wait any more.
        """
        from epic_apps.imports.importing import import_from

        with self._turn:
            if not self._id or form["id"] != self._id:
                raise InvalidInputError("These files do not wait any more. Drop them again.")
            report = import_from(self._memory, self._source, user=self._user, copied=True)
            self._tell(str(report), [*report.failures, *report.skipped])
            self.discard()

    def leave(self, _: EpicMemory, __: Mapping[str, str]) -> None:
        """Delete the copies of what waits."""
        with self._turn:
            self.discard()

    def sync(self, _: EpicMemory, form: Mapping[str, str]) -> None:
        """Sync with a folder of this machine.

        Raises:
            InvalidInputError: if it is not named by its whole path, or there is none.
        """
        from epic_apps.syncing import sync

        folder = Path(form["folder"].strip())
        with suppress(RuntimeError):  # the home of nobody
            folder = folder.expanduser()
        if not folder.is_absolute():
            raise InvalidInputError("Name the folder by its whole path, such as /home/me/notes.")
        report = sync(self._memory, folder)
        self._tell(f"{folder}: {report}", [*report.failures, *report.skipped])

    def unsync(self, _: EpicMemory, form: Mapping[str, str]) -> None:
        """Sync with a folder no longer, and forget what is held of it."""
        from epic_apps.syncing import forget_folder

        count = forget_folder(self._memory, form["folder"])
        self._tell(f"{form['folder']}: no longer in step, {count} files forgotten", [])

    def discard(self) -> None:
        """Delete what was dropped."""
        self._id, self._report = "", None
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def _tell(self, report: str, left: Collection[str]) -> None:
        copies = "" if self._folder is None else f"{self._folder.name}/several files/"
        self._told = report, first([each.replace(copies, "") if copies else each for each in left])


def _free_place(folder: Path, given: str) -> Path:
    """Return where a file is copied to: as it was called, below the folders that it was dropped in."""
    parts = [_short(part) for part in given.replace("\\", "/").replace("\0", "").split("/") if part.strip(". ")]
    *above, name = parts[-_DEEPEST:] or ["file"]
    for part in above:
        folder = next(each for each in _places(folder, part) if each.is_dir() or not each.exists())
        folder.mkdir(exist_ok=True)
    return next(each for each in _places(folder, name) if not each.exists())


def _places(folder: Path, name: str) -> Iterator[Path]:
    """Yield the paths that a name may have in a folder, the plain one first."""
    return (folder / (name if number == 1 else f"{number}-{name}") for number in range(1, MOST_FILES + 2))


def _short(part: str) -> str:
    """Return a part of a path that is not hidden, and as long as a disk takes it."""
    part = part.lstrip(".")
    if len(part.encode()) <= _LONGEST_NAME:
        return part
    stem, dot, suffix = part.rpartition(".")
    return f"{(stem or suffix)[:50]}{dot}{suffix[:10]}"
