"""Roots: the folders and files that a memory was built from, and the names that they give to what is in them."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from itertools import chain, count
from pathlib import Path

from epic_memory.memory import EpicMemory

# What follows the name of a file in the ids of its items.
_NUMBERS = re.compile(r"(?::\d+)?(?:#\d+)?$")
_STATE = "sources"


class Roots:
    """Names of files that are the same wherever a build is started from.

    A root is a folder or file that was named in a build. A file is called by the name of the nearest root above it and
    the way from there, such as `notes/trips/oslo.md`. The memory keeps where each root is, so that another folder
    `notes` gets another name. A folder that was moved keeps its name: nothing is where it was, and every file that
    items are held from is in it.

    Args:
        memory: The memory that is built; without one, roots are forgotten.
    """

    def __init__(self, memory: EpicMemory | None = None) -> None:
        self._memory = memory
        self._paths: dict[str, Path] = {}
        if memory is not None:
            self._paths = {name: Path(path) for name, path in (memory.file.state(_STATE) or {}).items()}
        self._stored = dict(self._paths)
        self._names = {path: name for name, path in self._paths.items()}

    def name(self, file: Path, given: Path) -> str:
        """Return the name of a file, which is in the folder that was given, or is what was given."""
        top, whole = given.resolve(), file.resolve()
        root = next((each for each in (whole, *whole.parents) if each in self._names), top)
        if root not in self._names:
            name = self._free_name(root)
            self._names.pop(self._paths.get(name, root), None)
            self._names[root], self._paths[name] = name, root
        return Path(self._names[root], whole.relative_to(root)).as_posix()

    def _free_name(self, root: Path) -> str:
        """Return a name that no other root has, and no item but those of the same files."""
        folder = root.is_dir()
        own, suffix = (root.name, "") if folder else (root.stem, root.suffix)
        for name in chain([root.name or "root"], (f"{own}-{number}{suffix}" for number in count(2))):
            other = self._paths.get(name)
            inside = [root.joinpath(*parts[1:]) for file in self._held if (parts := file.split("/"))[0] == name]
            if (other is None or (folder and not other.exists())) and all(path.exists() for path in inside):
                break
        return name

    @cached_property
    def _held(self) -> set[str]:
        """The names of the files that items are held from."""
        return {name for _, name in self._origins()}

    def begin(self, folder: Path) -> str:
        """Return the name of a folder, which is written into the memory's file before anything is held from it."""
        name = self.name(folder, folder)
        if self._paths != self._stored:
            self._write(self._paths.keys())
        return name

    def held_in(self, folder: str) -> dict[str, list[str]]:
        """Return the names of the files of a folder, given by its name, that items are held from, with their ids."""
        held: dict[str, list[str]] = {}
        for item_id, name in self._origins():
            if name.startswith(f"{folder}/"):
                held.setdefault(name, []).append(item_id)
        return held

    def path_of(self, name: str) -> Path | None:
        """Return where the file of a name is, or was; None for an unknown root."""
        root, *way = name.split("/")
        return self._paths[root].joinpath(*way) if root in self._paths else None

    def inner(self, folder: Path) -> dict[Path, str]:
        """Return the roots below a folder, with their names."""
        top = folder.resolve()
        return {path: name for path, name in self._names.items() if path != top and path.is_relative_to(top)}

    def write(self) -> None:
        """Write the roots that items are held from into the memory's file."""
        self._write({name.split("/")[0] for _, name in self._origins()})

    def is_ruled_out(self, path: Path) -> bool:
        """Tell whether a file or folder is one of which nothing is ever kept, or in one."""
        if self._memory is None or not (folders := self._ruled_out):
            return False
        whole = path.resolve()
        return any(whole.is_relative_to(folder) for folder in folders)

    @cached_property
    def _ruled_out(self) -> list[Path]:
        return [] if self._memory is None else self._memory.never.folders

    def _write(self, held: Collection[str]) -> None:
        if self._memory is None:
            return
        kept = {name: str(path) for name, path in self._paths.items() if name in held}
        if kept != (self._memory.file.state(_STATE) or {}):
            self._memory.file.set_state(**{_STATE: kept or None})

    def left_by(
        self, given: Sequence[Path], read: Collection[str], made: Collection[str]
    ) -> tuple[list[str], list[str]]:
        """Find files that are gone, and the items of which nothing is left in a file.

        Args:
            given: The folders and files that were named in this build.
            read: The names of the files that were read whole.
            made: The ids of the items that were made of them.

        Returns:
            The names of the files that are gone, and the ids of all items that are to go.
        """
        tops = {path.resolve() for path in given}
        gone, going = set(), set()
        for item_id, name in self._origins():
            path = self.path_of(name)
            if path and tops & {path, *path.parents} and not os.path.lexists(path):
                gone.add(name)
                going.add(item_id)
            elif name in read and item_id not in made and f"{item_id}#0" not in made:
                going.add(item_id)
        return sorted(gone), sorted(going)

    def _origins(self) -> Iterator[tuple[str, str]]:
        """Yield the ids of the items that files gave, also of those not kept, with the names of the files."""
        if self._memory is None:
            return
        items = {item.id: item for item in (*self._memory.items(waiting=True), *self._memory.items())}
        for item_id, item in items.items():
            name = _NUMBERS.sub("", item_id)
            if item.metadata.get("source") == name and not item.fact:
                yield item_id, name
        for record in self._memory.file.not_kept():
            if record.item_id not in items:
                yield record.item_id, _NUMBERS.sub("", record.item_id)
