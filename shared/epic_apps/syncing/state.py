"""State of the folders that a memory is synced with: the files that it holds items of, as its own file knows them."""

from __future__ import annotations

import base64
import json
import os
import zlib
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from operator import itemgetter
from pathlib import Path
from typing import Any

from epic_apps.cli.folders import digest_of, folders_in
from epic_apps.cli.roots import Roots
from epic_memory.errors import InvalidInputError
from epic_memory.memory import EpicMemory, checked_memory
from epic_memory.types.digests import DIGEST_BYTES

DIRTY = -1
"""Time of a file that has to be read again whatever its folder says."""
NO_ROOM, RULED_OUT = "-", "!"
"""Marks behind the digest of a file that is offered again: some of it had no room, or was ruled out by these topics."""
FILES_AT_ONCE = 200
"""Files that are written or forgotten together."""

_FOLDERS = "sync"
# An edit of one file writes one piece.
_PIECES = 16


@dataclass(slots=True)
class SyncedFile:
    """State of a file that items are held from.

    Attributes:
        size, modified: As its folder says; `DIRTY` if it has to be read again whatever the folder says.
        digest: Of its content, and a mark if it is to be offered again.
        ids: Of its items.
        versions: The digests by which the memory knows that it has seen them, one after the other.
    """

    size: int = 0
    modified: int = DIRTY
    digest: str = ""
    ids: list[str] = field(default_factory=list)
    versions: bytes = b""

    @property
    def content(self) -> str:
        """The digest of its content without a mark."""
        return self.digest.partition(NO_ROOM)[0].partition(RULED_OUT)[0]

    @property
    def is_whole(self) -> bool:
        """True if all of it was read and taken in: there is no mark on it."""
        return self.digest.isalnum()

    def versions_besides(self, ids: Collection[str]) -> set[bytes]:
        """Return the digests of its items but for those of some ids, as far as it is known which is whose."""
        each = list(self.each_version())
        pairs = zip(self.ids if self.digest and len(self.ids) == len(each) else [""] * len(each), each, strict=True)
        return {version for item_id, version in pairs if item_id not in ids}

    def each_version(self) -> Iterator[bytes]:
        """Yield the digest of each of its items."""
        return (self.versions[at : at + DIGEST_BYTES] for at in range(0, len(self.versions), DIGEST_BYTES))


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
        self._keys, self._going = [f"synced/{name}/{piece}" for piece in range(_PIECES)], f"syncing/{name}"
        packed = [memory.file.state(key) for key in self._keys]
        pieces = [{} if piece is None else _unpacked(piece) for piece in packed]
        self._changed: set[int] = set()
        self._names: list[set[str]] = [set(piece) for piece in pieces]
        self.files = {file: known for piece in pieces for file, known in piece.items()}
        if not any(packed):  # what a build has taken in
            self.files = {file: SyncedFile(ids=ids) for file, ids in Roots(memory).held_in(name).items()}
            self.touch(*self.files)
        self.was_built = bool(self.files) and not any(packed)
        self.cut_off: dict[str, list[str]] = memory.file.state(self._going) or {}
        for file, ids in self.cut_off.items():  # these may be held, or not
            known = self.files.setdefault(file, SyncedFile())
            known.ids, known.modified = list(dict.fromkeys([*known.ids, *ids])), DIRTY
            self.touch(file)

    def touch(self, *names: str) -> None:
        """Have `save` write what is known of some files."""
        for name in names:
            piece = zlib.crc32(name.encode(errors="replace")) % _PIECES
            self._names[piece].add(name)
            self._changed.add(piece)

    def begin(self, going: Mapping[str, list[str]]) -> None:
        """Write down which items of which files are about to be written: a cut may leave some of them."""
        self._memory.file.set_state(**{self._going: going})

    def save(self) -> None:
        """Write down the files as they are held now, if any was touched."""
        if not self._changed:
            return
        packed: dict[str, str | None] = {self._going: None}
        for piece in self._changed:
            self._names[piece].intersection_update(self.files)
            packed[self._keys[piece]] = _packed({name: self.files[name] for name in sorted(self._names[piece])})
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


def moved_to(memory: EpicMemory, top: Path) -> str | None:
    """Return the name of a synced folder that is gone, and whose files are here now, most of them unchanged."""
    folders = known_folders(memory)
    if any(known["path"] == str(top) for known in folders.values()):
        return None
    for name, known in folders.items():
        if os.path.lexists(known["path"]):
            continue
        files = [file for file in FolderState(memory, name).files.values() if file.size]
        sizes = {file.size for file in files}
        here = set()
        for entry in (entry for listing in folders_in(top, lambda error: None) for entry in listing.files):
            with suppress(OSError):  # what has gone, or may not be read, says nothing
                if entry.is_file() and entry.stat().st_size in sizes:
                    here.add(digest_of(entry.path))
        if sum(file.content in here for file in files) * 2 > len(files):
            return name
    return None


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


def _packed(files: Mapping[str, SyncedFile]) -> str | None:
    """Return what is known of files as a short text: column by column, of ids their number where they are as usual."""
    if not files:
        return None
    ids = [len(file.ids) if file.ids == _usual_ids(name, len(file.ids)) else file.ids for name, file in files.items()]
    versions = b"".join(file.versions for file in files.values())
    each = files.values()
    columns = [list(files), [f.size for f in each], [f.modified for f in each], [f.digest for f in each], ids]
    counts = [len(file.versions) for file in each]
    text = json.dumps([*columns, counts], separators=(",", ":"), ensure_ascii=False)
    dumped = text.encode(errors="surrogatepass")  # a file's name need not be UTF-8; json.loads takes it
    packed = zlib.compress(len(dumped).to_bytes(8, "big") + dumped + versions, 1)
    return base64.b64encode(packed).decode()


def _unpacked(packed: str) -> dict[str, SyncedFile]:
    content = zlib.decompress(base64.b64decode(packed))
    end = 8 + int.from_bytes(content[:8], "big")
    names, sizes, times, digests, ids, counts = json.loads(content[8:end])
    known = (_usual_ids(name, own) if isinstance(own, int) else own for name, own in zip(names, ids, strict=True))
    places = pairwise(accumulate(counts, initial=end))
    versions = (content[start:stop] for start, stop in places)
    return dict(zip(names, map(SyncedFile, sizes, times, digests, known, versions), strict=True))


def _usual_ids(name: str, count: int) -> list[str]:
    return [name] if count == 1 else [f"{name}#{number}" for number in range(count)]
