"""State of the folders that a memory is synced with: the files that it holds items of, as its own file knows them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from operator import itemgetter
from pathlib import Path
from typing import Any

from epic_apps.cli.roots import Roots
from epic_apps.syncing.files import DIRTY, NO_ROOM, PIECES, SyncedFile, SyncedFiles, piece_of
from epic_memory.errors import InvalidInputError
from epic_memory.memory import EpicMemory, checked_memory
from epic_memory.types.digests import digest

FILES_AT_ONCE = 200
"""Files that are written or forgotten together."""

_FOLDERS = "sync"


class FolderState:
    """Files of one synced folder by their names, and which of them a sync that was cut off was about to change.

    Attributes:
        files: The files by their names.
        was_built: Whether another command than a sync has taken them in.
        cut_off: The items that a sync which was cut off was about to write, by their files.

    Args:
        memory: The memory.
        name: The name that the memory gives to the folder.
    """

    def __init__(self, memory: EpicMemory, name: str) -> None:
        self._memory = memory
        self._keys, self._going = [f"synced/{name}/{piece}" for piece in range(PIECES)], f"syncing/{name}"
        packed = [memory.file.state(key) for key in self._keys]
        self._changed: set[int] = set()
        self.files = SyncedFiles(packed)
        if not any(packed):  # what a build has taken in
            self.files.update({file: SyncedFile(ids=ids) for file, ids in Roots(memory).held_in(name).items()})
            self.touch(*self.files)
        self.was_built = bool(self.files) and not any(packed)
        self.cut_off: dict[str, list[str]] = memory.file.state(self._going) or {}
        for file, ids in self.cut_off.items():  # these may be held, or not
            known = self.files.setdefault(file, SyncedFile())
            known.ids, known.modified = list(dict.fromkeys([*known.ids, *ids])), DIRTY
            self.files.listed.pop(file, None)
            self.touch(file)

    def touch(self, *names: str) -> None:
        """Have `save` write what is known of some files."""
        self._changed.update(map(piece_of, names))

    def begin(self, going: Mapping[str, list[str]]) -> None:
        """Write down which items of which files are about to be written: a cut may leave some of them."""
        self._memory.file.set_state(**{self._going: going})

    def save(self) -> None:
        """Write down the files as they are held now, if any was touched."""
        if not self._changed:
            return
        packed: dict[str, str | None] = {self._going: None}
        for piece in self._changed:
            packed[self._keys[piece]] = self.files.packed(piece)
        self._memory.file.set_state(**packed)
        self._changed.clear()

    def remove(self) -> None:
        """Write down nothing of this folder any more."""
        self._memory.file.set_state(**dict.fromkeys([*self._keys, self._going]))

    def forget(self, names: Collection[str]) -> None:
        """Forget all that is held of some files."""
        left = list(names)
        while left:
            some, left = left[:FILES_AT_ONCE], left[FILES_AT_ONCE:]
            forget_files(self._memory, [self.files[name] for name in some])
            for name in some:
                del self.files[name]
            self.touch(*some)
            self.save()


def known_folders(memory: EpicMemory) -> dict[str, dict[str, Any]]:
    """Return what is known of each synced folder, by its name: its path, and what is ignored there."""
    return memory.file.state(_FOLDERS) or {}


def note_folder(memory: EpicMemory, name: str, known: Mapping[str, Any]) -> None:
    """Write down what is known of a synced folder, if it is news."""
    if (folders := known_folders(memory)).get(name) != known:
        memory.file.set_state(**{_FOLDERS: {**folders, name: known}})


def synced_folders(memory: EpicMemory) -> list[Path]:
    """Return the folders that a memory was synced with."""
    return [Path(known["path"]) for known in known_folders(memory).values()]


def forget_folder(memory: EpicMemory, folder: str | Path) -> int:
    """Sync a memory with a folder no longer, and forget what it holds of it; return how many files that were.

    Args:
        memory: The memory.
        folder: The folder, which need not be there any more. What another synced folder holds, too, stays.

    Raises:
        InvalidInputError: if the memory was not synced with it.
    """
    top = str(Path(folder).resolve())
    folders = known_folders(checked_memory(memory))
    name = next((each for each, known in folders.items() if known["path"] == top), None)
    if name is None:
        listed = ", ".join(known["path"] for known in folders.values()) or "none"
        raise InvalidInputError(f"The memory was not synced with {top}. Synced folders: {listed}.")
    del folders[name]
    others = {file for each in folders for file in FolderState(memory, each).files}
    state = FolderState(memory, name)
    gone = [file for way, file in state.files.items() if way not in others]
    forget_files(memory, gone)
    state.remove()
    memory.file.set_state(**{_FOLDERS: folders or None})
    Roots(memory).write()
    return len(gone)


def files_without_room(memory: EpicMemory) -> list[tuple[Path, str]]:
    """Return the files of synced folders with texts that found no room, each with its name in the memory."""
    roots, found = Roots(memory), []
    for folder in known_folders(memory):
        for name, file in sorted(FolderState(memory, folder).files.items(), key=itemgetter(0)):
            path = roots.path_of(name) if file.digest.endswith(NO_ROOM) else None
            if path is not None:
                found.append((path, name))
    return found


def forget_files(
    memory: EpicMemory, files: Collection[SyncedFile], keep: Collection[str] = (), seen: Collection[bytes] = ()
) -> None:
    """Forget the items of files, whether they are held, wait or are on record, and that they were seen.

    Args:
        memory: The memory.
        files: The files.
        keep: Ids of items that stay.
        seen: Versions that stay seen.
    """
    ids = {item_id for file in files for item_id in file.ids}.difference(keep)
    known: set[str] = set()
    if ids:
        known = {item.id for item in (*memory.get(ids), *memory.items(waiting=True))}
        known = ids.intersection({*known, *(record.item_id for record in memory.file.not_kept())})
    if known:
        memory.forget(*sorted(known))  # and that they were seen
    versions = {version for file in files for version in file.versions_besides(known.union(keep))}
    if versions := versions.difference(seen):
        memory.file.forget_versions(versions)


def room_of(memory: EpicMemory) -> tuple[str, int]:
    """Return what decides about texts that no preference asks for, as a digest, and the bytes of the file in use."""
    session = memory._session
    with session.lock, session.store.reading():
        count, free, page = session.store.pages()
    asked = [memory.encoder.name, session.verifier.name, session.tau, session.reserve, session.budget]
    decides = digest(*map(str, asked), *(each.id for each in memory.preferences), size=8)
    return decides.hex(), (count - free) * page


def placed(memory: EpicMemory) -> set[str]:
    """Return the ids of the items that are held, or wait for a verdict."""
    waiting = {item.id for item in memory.items(waiting=True)}
    session = memory._session
    with session.lock, session.store.reading():  # the ids alone: texts would take a second of ten thousand files
        return waiting.union(session.store.items.ids(session.namespace).values())
