"""Sync of folders: the memory holds what a folder holds, and forgets what was deleted there."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import time
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from typing import Any

from epic_apps.cli.readers import READERS
from epic_apps.cli.roots import Roots
from epic_apps.cli.sources import LINES_SUFFIX, Sources
from epic_apps.markdown import PREFERENCES, edits_of, is_export
from epic_apps.origins import NEVER, with_origin
from epic_memory.errors import InvalidInputError, MissingExtraError
from epic_memory.memory import EpicMemory, checked_memory
from epic_memory.types import Item

IGNORE_FILE = ".epicignore"
"""Name of the file, in the folder that is synced, with the patterns of what is left out, as in a .gitignore."""

_FOLDERS = "sync"
_ITEMS_AT_ONCE, _FILES_AT_ONCE = 512, 200
# A file that was changed so shortly before it was read may change again within the clock's grain.
_GRAIN = 2_000_000_000
_DIRTY = -1
# What follows the digest of a file that is offered again: some of it had no room, or was ruled out by these topics.
_NO_ROOM, _RULED_OUT = "-", "!"
# What found no room is offered again once so many bytes were freed, or anything else of what decides has changed.
_FREED = 4_096
_MORE_ROOM = 'what helps: epic sync FILE --reserve "10 MB" (and a larger budget, if it has one)'


@dataclass(kw_only=True)
class SyncReport:
    """Report of a sync: what it changed, by the names of the files.

    Attributes:
        added, changed, deleted: Files.
        renamed: Old and new names of files with the same content.
        unchanged: How many files are as they were.
        kept, light: Items that were kept for a preference, and for their text only.
        kept_out: What was not taken in because it is never kept: reason to count.
        no_room: Files with texts that found no room in the memory; the next sync offers them again.
        proposed: Edits of an exported preferences.md, which wait for the user's decision.
        skipped: What holds no text, or is left out, such as links that lead out of the folder.
        failures: What should have been readable and was not; the memory holds of it what it held.
        seconds: How long it took.
    """

    added: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    renamed: list[tuple[str, str]] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    unchanged: int = 0
    kept: int = 0
    light: int = 0
    kept_out: Counter[str] = field(default_factory=Counter)
    no_room: list[str] = field(default_factory=list)
    proposed: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def is_empty(self) -> bool:
        """True if nothing changed."""
        return not (self.added or self.changed or self.renamed or self.deleted)

    def __str__(self) -> str:
        counts = {name: len(getattr(self, name)) for name in ("added", "changed", "renamed", "deleted")}
        told = ", ".join(f"{count} {name}" for name, count in counts.items() if count) or "nothing changed"
        out = "".join(f"\nnever kept: {count} {reason}" for reason, count in self.kept_out.items())
        held = f"; {self.kept} items kept, {self.light} kept for their text" if self.kept or self.light else ""
        if self.no_room:
            out += f"\nno room: texts of {len(self.no_room)} files are not in the memory; {_MORE_ROOM}"
        return f"{told}, {self.unchanged} as before{held} ({self.seconds:.2f} s){out}"


@dataclass(slots=True)
class _File:
    """State of a file that items are held from.

    Attributes:
        size, modified: As its folder says; `_DIRTY` if it has to be read again whatever the folder says.
        digest: Of its content, and a mark if it is to be offered again.
        ids: Of its items.
        versions: The digests by which the memory knows that it has seen them, one after the other.
    """

    size: int
    modified: int
    digest: str
    ids: list[str]
    versions: bytes = b""

    @property
    def content(self) -> str:
        """The digest of its content without a mark."""
        return self.digest.partition(_NO_ROOM)[0].partition(_RULED_OUT)[0]


def sync(
    memory: EpicMemory,
    folder: str | Path,
    *,
    ignore: Collection[str] | None = None,
    user: str | Collection[str] = (),
    empty: bool = False,
    progress: bool = False,
) -> SyncReport:
    """Make a memory hold what a folder holds: what was added, changed, renamed and deleted since the last time.

        print(sync(memory, "notes"))

    Files are read as by `epic build`. A file is the same file from whatever working directory, and after the whole
    folder was moved. Only files whose size or time changed are read. Of a deleted file, and of what was deleted in one,
    the memory forgets everything. What is cut off goes on with the next call.

    Args:
        memory: The memory.
        folder: The folder. Hidden files are left out; links are not followed.
        ignore: Patterns of files to leave out, as in a .gitignore, besides those in `.epicignore`; default: those that
            were given the last time.
        user: Names and addresses of the user in mails.
        empty: Whether a folder without any file is meant, which else is taken for a disk that is not there.
        progress: Show a bar.

    Raises:
        InvalidInputError: if there is no such folder, it cannot be read, or is empty unexpectedly; nothing changes.
        MissingExtraError: for patterns without the package pathspec.
    """
    started = time.perf_counter()
    top = Path(folder)
    if not top.is_dir():
        raise InvalidInputError(f"There is no folder {folder}. Nothing of it was changed.")
    run = _Sync(checked_memory(memory), top.resolve(), ignore, [user] if isinstance(user, str) else list(user))
    run.run(empty=empty, progress=progress)
    run.report.seconds = time.perf_counter() - started
    return run.report


def synced_folders(memory: EpicMemory) -> list[Path]:
    """Return the folders that a memory was synced with."""
    return [Path(known["path"]) for known in (memory.file.state(_FOLDERS) or {}).values()]


def forget_folder(memory: EpicMemory, folder: str | Path) -> int:
    """Sync a memory with a folder no longer, and forget what it holds of it; return how many files that were.

    Args:
        memory: The memory.
        folder: The folder, which need not be there any more. What another synced folder holds, too, stays.

    Raises:
        InvalidInputError: if the memory was not synced with it.
    """
    top = Path(folder).resolve()
    folders = checked_memory(memory).file.state(_FOLDERS) or {}
    name = next((each for each, known in folders.items() if known["path"] == str(top)), None)
    if name is None:
        listed = ", ".join(known["path"] for known in folders.values()) or "none"
        raise InvalidInputError(f"The memory was not synced with {top}. Synced folders: {listed}.")
    rest = {each: known for each, known in folders.items() if each != name}
    others = {file for each in rest for file in _unpacked(memory.file.state(f"sync/{each}"))}
    files = _unpacked(memory.file.state(f"sync/{name}"))
    for way, ids in (memory.file.state(f"syncing/{name}") or {}).items():  # a sync that was cut off
        files.setdefault(way, _File(0, _DIRTY, "", [])).ids += ids
    gone = [file for way, file in files.items() if way not in others]
    _forget(memory, [each for file in gone for each in file.ids], [v for file in gone for v in _each(file.versions)])
    memory.file.set_state(**{_FOLDERS: rest or None, f"sync/{name}": None, f"syncing/{name}": None})
    Roots(memory).write()
    return len(gone)


def files_without_room(memory: EpicMemory) -> list[tuple[Path, str]]:
    """Return the files of synced folders with texts that found no room, each with its name in the memory."""
    roots, found = Roots(memory), []
    for folder in memory.file.state(_FOLDERS) or {}:
        for name, file in _unpacked(memory.file.state(f"sync/{folder}")).items():
            path = roots.path_of(name) if file.digest.endswith(_NO_ROOM) else None
            if path is not None:
                found.append((path, name))
    return found


def watch(
    memory: EpicMemory,
    folders: Sequence[str | Path],
    on_report: Callable[[Path, SyncReport], object],
    *,
    user: str | Collection[str] = (),
    stop: Any = None,
) -> None:
    """Sync folders now, and whenever something changes in them, until it is interrupted.

    Args:
        memory: The memory.
        folders: The folders.
        on_report: Is called with a folder and what was changed.
        user: As for `sync`.
        stop: A `threading.Event` that ends it.

    Raises:
        MissingExtraError: if watchfiles is not installed.
    """
    try:
        changes_of = import_module("watchfiles").watch
    except ImportError:
        raise MissingExtraError("watchfiles", "watch") from None
    tops = [Path(each).resolve() for each in folders]

    def synced(top: Path) -> SyncReport:
        try:
            return sync(memory, top, user=user)
        except InvalidInputError as error:  # of this folder only
            return SyncReport(failures=[str(error)])

    for top in tops:
        on_report(top, synced(top))
    for changes in changes_of(*tops, stop_event=stop, raise_interrupt=True):
        paths = [Path(path) for _, path in changes]
        for top in tops:
            if any(path.is_relative_to(top) for path in paths) and top.is_dir():
                report = synced(top)
                if not report.is_empty or report.failures:
                    on_report(top, report)


class _Sync:
    """One sync of one folder."""

    def __init__(self, memory: EpicMemory, top: Path, ignore: Collection[str] | None, user: list[str]) -> None:
        self._memory, self._top, self._user = memory, top, user
        self.report = SyncReport()
        self._roots = Roots(memory)
        folders = memory.file.state(_FOLDERS) or {}
        _ignoring(top, ignore or ())  # fails before anything is written
        if (moved := self._moved_to(top, folders)) is not None:
            self._roots.move(moved, top)
        self._name = self._roots.begin(top)
        before = folders.get(self._name, {})
        given = before.get("ignore", []) if ignore is None else list(ignore)
        described = {"path": str(top), "ignore": given, "room": before.get("room")}
        self._ignores = _ignoring(top, given)
        self._room: tuple[str, int] = tuple(before.get("room") or ("", 0))
        decides, used = self._decides()
        self._offers_again = decides != self._room[0] or used + _FREED < self._room[1]
        if described != before:
            memory.file.set_state(**{_FOLDERS: {**folders, self._name: described}})
        self._key, self._going = f"sync/{self._name}", f"syncing/{self._name}"
        packed = memory.file.state(self._key)
        self._files = _unpacked(packed)
        if packed is None:  # what a build has taken in
            self._files = {name: _File(0, _DIRTY, "", ids) for name, ids in self._roots.held_in(self._name).items()}
        self._cut_off: dict[str, list[str]] = memory.file.state(self._going) or {}
        self._touched = bool(self._cut_off)
        topics = hashlib.blake2b("\0".join(memory.never).encode(), digest_size=4).hexdigest()
        self._ruled_out = f"{_RULED_OUT}{topics}"
        self._again: set[str] = set()
        self._written: dict[str, None] = {}
        self._held_before: set[str] | None = None
        for name, ids in self._cut_off.items():
            # A sync was cut off here: these may be held, or not.
            known = self._files.setdefault(name, _File(0, _DIRTY, "", []))
            known.ids, known.modified = list(dict.fromkeys([*known.ids, *ids])), _DIRTY

    def run(self, *, empty: bool, progress: bool) -> None:
        """Compare the folder with what is known of it, and take over the differences."""
        from tqdm import tqdm

        found = self._walk()
        gone = [name for name in self._files if name not in found and not self._stays(name)]
        if not found and gone and len(gone) == len(self._files) and not empty:
            raise InvalidInputError(
                f"{self._top} holds no file any more. Is its disk there? If everything was deleted: --empty."
            )
        by_content = {self._files[name].content: name for name in reversed(gone) if self._files[name].digest}
        batch: list[tuple[str, Path, _File, list[Item]]] = []
        touched = [(name, Path(entry.path), entry.stat()) for name, entry in found.items() if entry is not None]
        self.report.unchanged = len(found) - len(touched) - len(self.report.no_room)
        for name, path, status in tqdm(touched, unit=" files", disable=not progress or not touched):
            read = self._read(name, path, status)
            if read is None:
                continue
            file, items = read
            known = self._files.get(name)
            if known is not None and known.digest and known.content == file.digest:
                self._again.add(name)
            elif known is not None and known.ids:
                self.report.changed.append(name)
            elif file.digest in by_content:
                self.report.renamed.append((by_content.pop(file.digest), name))
            else:
                self.report.added.append(name)
            batch.append((name, path, file, items))
            if len(batch) >= _FILES_AT_ONCE or sum(len(items) for *_, items in batch) >= _ITEMS_AT_ONCE:
                self._write(batch)
                batch = []
        self._write(batch)
        self._forget_files(gone)
        self._mark_unplaced(self._files)  # also those that had to leave for others
        self._save()
        self._note_room()
        self.report.added += [each for each in self._written if each in self._again and self._has_all(each)]
        moved = {old for old, _ in self.report.renamed}
        self.report.deleted = [name for name in gone if name not in moved]

    def _decides(self) -> tuple[str, int]:
        """Return what decides about texts besides themselves, as a digest, and the bytes of the file in use."""
        memory, session = self._memory, self._memory._session
        with session.lock, session.store.reading():
            count, free, page = session.store.pages()
        asked = [memory.encoder.name, session.verifier.name, session.tau, session.reserve, session.budget]
        told = "\0".join(map(str, [*asked, *(each.id for each in memory.preferences)]))
        return hashlib.blake2b(told.encode(), digest_size=8).hexdigest(), (count - free) * page

    def _note_room(self) -> None:
        """Write down what was the case when the texts that found no room were offered."""
        decides, used = self._decides()
        room = (decides, used if self._offers_again else max(used, self._room[1]))
        if self.report.no_room and room != self._room:
            folders = self._memory.file.state(_FOLDERS)
            folders[self._name]["room"] = room
            self._memory.file.set_state(**{_FOLDERS: folders})

    def _is_as_it_was(self, name: str, status: os.stat_result) -> bool:
        """Tell whether a file is as it was and not to be offered again; one without room is reported."""
        known = self._files.get(name)
        if known is None or known.size != status.st_size or known.modified != status.st_mtime_ns:
            return False
        if known.digest.isalnum():
            return True
        if not known.digest.endswith(_NO_ROOM):
            return known.digest.endswith(self._ruled_out)
        if not self._offers_again:
            self.report.no_room.append(name)
        return not self._offers_again

    # --- the folder

    def _stays(self, name: str) -> bool:
        """Tell whether a file is one of which nothing more is kept, so that what is held of it stays."""
        path = self._roots.path_of(name)
        return path is not None and self._roots.is_ruled_out(path) and os.path.lexists(path)

    def _moved_to(self, top: Path, folders: Mapping[str, Any]) -> str | None:
        """Return the name of a synced folder that is gone, and whose files are here now, most of them unchanged."""
        if any(known["path"] == str(top) for known in folders.values()):
            return None
        for name, known in folders.items():
            if os.path.lexists(known["path"]):
                continue
            files = [file for file in _unpacked(self._memory.file.state(f"sync/{name}")).values() if file.size]
            sizes = {file.size for file in files}
            here = {digest_of(path) for path in _readable(top) if path.stat().st_size in sizes}
            if sum(file.content in here for file in files) * 2 > len(files):
                return name
        return None

    def _walk(self) -> dict[str, os.DirEntry[str] | None]:
        """Return the files by their names, with their entries in the folder if they have to be read."""
        found: dict[str, os.DirEntry[str] | None] = {}
        links: list[str] = []
        inner = {str(path): name for path, name in self._roots.inner(self._top).items()}

        def enter(folder: str, prefix: str, within: str) -> None:
            try:
                with os.scandir(folder) as entries:
                    listed = sorted(entries, key=_name)
            except OSError as error:
                raise InvalidInputError(f"{folder} cannot be read: {error.strerror}. Nothing was changed.") from None
            for entry in listed:
                name = entry.name
                if name[0] == ".":
                    continue
                if entry.is_file(follow_symlinks=False):
                    if name[name.rfind(".") :].lower() in _READABLE and not ignores(f"{within}{name}"):
                        full = f"{prefix}/{name}"
                        # What else there is to keep of ten thousand files takes time.
                        found[full] = None if self._is_as_it_was(full, entry.stat()) else entry
                elif entry.is_symlink():
                    # What one inside leads to is read where it is.
                    if not Path(os.path.realpath(entry.path)).is_relative_to(self._top):
                        links.append(f"{within}{name}")
                elif entry.is_dir() and not ignores(f"{within}{name}/") and entry.path not in never:
                    enter(entry.path, inner.get(entry.path, f"{prefix}/{name}"), f"{within}{name}/")

        ignores, never = self._ignores, {str(path) for path in self._memory.never.folders}
        if self._roots.is_ruled_out(self._top):
            out = [str(self._top)]
        else:
            enter(str(self._top), self._name, "")
            out = sorted(each for each in never if Path(each).is_relative_to(self._top))
        self.report.skipped += [f"{each}: ruled out (epic never); what is held of it stays" for each in out]
        if links:
            self.report.skipped.append(f"{self._top}: links that lead out of it are not followed ({', '.join(links)})")
        return found

    def _read(self, name: str, path: Path, status: os.stat_result) -> tuple[_File, list[Item]] | None:
        """Return a file and its items; None if it is as it was, or cannot be read."""
        known = self._files.get(name)
        recent = time.time_ns() - status.st_mtime_ns < _GRAIN
        modified = _DIRTY if recent else status.st_mtime_ns
        try:
            digest = digest_of(path)
        except OSError as error:
            self.report.failures.append(f"{path} cannot be read: {error.strerror}.")
            return None
        same = (digest, f"{digest}{self._ruled_out}", *(() if self._offers_again else (f"{digest}{_NO_ROOM}",)))
        if known is not None and known.digest in same and name not in self._cut_off:
            self._touched = self._touched or (known.size, known.modified) != (status.st_size, modified)
            known.size, known.modified = status.st_size, modified
            if known.digest.endswith(_NO_ROOM):
                self.report.no_room.append(name)
            else:
                self.report.unchanged += 1
            return None
        if path.name == PREFERENCES and is_export(path):
            try:
                self.report.proposed += [str(each) for each in edits_of(self._memory, path)]
            except InvalidInputError as error:
                self.report.failures.append(str(error))
                return None
        source = Sources([], given=[(path, name)])
        topic_of = self._memory.never.topic_of if len(self._memory.never) else None
        before = self.report.kept_out[NEVER]
        items = list(with_origin(source, self._user, self.report.kept_out, topic_of))
        if self.report.kept_out[NEVER] > before:  # offered again when the topics have changed
            digest = f"{digest}{self._ruled_out}"
        self.report.skipped += source.skipped
        self.report.failures += source.failures
        if name not in source.whole:
            # What could not be read of it this time stays.
            if not items:
                return None
            digest, modified = "", _DIRTY
        ids = [item.id for item in items]
        return _File(status.st_size, modified, digest, ids), items

    # --- the memory

    def _write(self, batch: Sequence[tuple[str, Path, _File, list[Item]]]) -> None:
        """Take over some files: what was in them goes, what is in them comes, and both are known before."""
        if not batch:
            self._save()
            return
        memory, items = self._memory, [item for *_, new in batch for item in new]
        if self._held_before is None:
            self._held_before = self._placed(each for file in self._files.values() for each in file.ids)
        memory.file.set_state(**{self._going: {name: file.ids for name, _, file, _ in batch}})
        new_texts = {item.id: item.text for item in items}
        old: set[str] = set()
        versions: list[bytes] = []
        for name, _, file, new in batch:
            before = self._files.get(name, _File(0, _DIRTY, "", []))
            file.versions = b"".join(memory.file.versions(new))
            if file.digest:
                old.update(before.ids)
                now = set(_each(file.versions))
                versions += [each for each in _each(before.versions) if each not in now]
            else:  # what could not be read of it stays
                file.ids = list(dict.fromkeys([*before.ids, *file.ids]))
                file.versions += before.versions
            self._files[name] = file
        # Before the new comes: to forget a document takes the chunks away that its name begins.
        held = {item.id: item.text for item in memory.get(old)}
        _forget(memory, [each for each in old if each not in new_texts or held.get(each) != new_texts[each]], versions)
        report = memory.add(items)
        self.report.kept += report.kept
        self.report.light += report.light
        self._written.update((name, None) for name, _, file, _ in batch if file.digest)
        if report.kept_out:
            self._mark_ruled_out(batch)
        if report.no_room:
            self._mark_unplaced([name for name, *_ in batch])
        self._save(force=True)

    def _mark_ruled_out(self, batch: Sequence[tuple[str, Path, _File, list[Item]]]) -> None:
        """Mark the files with texts that a topic kept out: they are offered again when the topics have changed."""
        items = [item for *_, new in batch for item in new]
        placed = self._placed(item.id for item in items)
        seen = dict(zip((item.id for item in items), self._memory.file.has_seen(items), strict=True))
        for _, _, file, new in batch:
            if file.digest.isalnum() and any(item.id not in placed and not seen[item.id] for item in new):
                file.digest = f"{file.digest}{self._ruled_out}"

    def _mark_unplaced(self, names: Collection[str]) -> None:
        """Mark those files with texts that found no room, or lost theirs, and forget that these were seen."""
        before = self._held_before
        if before is None or not self._memory._session.reserve:  # nothing came, or room is for what is kept only
            return
        wanted = {each for name in names for each in self._files[name].ids}
        missing = wanted - self._placed(wanted)
        unplaced: list[bytes] = []
        for name in names if missing else ():
            file = self._files[name]
            lost = {each for each in file.ids if each in missing and (name in self._written or each in before)}
            if lost and file.digest.isalnum():
                versions = zip(file.ids, _each(file.versions), strict=False)
                unplaced += [version for item_id, version in versions if item_id in lost]
                self.report.no_room.append(name)
                file.digest = f"{file.digest}{_NO_ROOM}"
        if unplaced:
            self._memory.file.forget_versions(unplaced)
            self._touched = True

    def _has_all(self, name: str) -> bool:
        """Tell whether all of a file was taken in: neither mark is on it."""
        return self._files[name].digest.isalnum()

    def _placed(self, ids: Iterable[str]) -> set[str]:
        """Return those of some ids whose items are held, or wait for a verdict."""
        wanted = set(ids)
        waiting = {item.id for item in self._memory.items(waiting=True)} & wanted
        session = self._memory._session
        with session.lock, session.store.reading():  # the ids alone: texts would take a second of ten thousand files
            return waiting | wanted.intersection(session.store.items.ids(session.namespace).values())

    def _forget_files(self, names: Sequence[str]) -> None:
        for start in range(0, len(names), _FILES_AT_ONCE):
            some = [self._files[name] for name in names[start : start + _FILES_AT_ONCE]]
            _forget(
                self._memory,
                [item_id for file in some for item_id in file.ids],
                [v for f in some for v in _each(f.versions)],
            )
            for name in names[start : start + _FILES_AT_ONCE]:
                del self._files[name]
            self._save(force=True)

    def _save(self, *, force: bool = False) -> None:
        if force or self._touched:
            self._memory.file.set_state(**{self._key: _packed(self._files), self._going: None})
            self._touched = False


def _forget(memory: EpicMemory, ids: Iterable[str], versions: Collection[bytes] = ()) -> None:
    """Forget items by their ids, whether they are held, wait, or are on record; and that others were seen."""
    wanted = set(ids)
    if wanted:
        known = {item.id for item in memory.get(wanted)}
        known |= {item.id for item in memory.items(waiting=True)} & wanted
        known |= {record.item_id for record in memory.file.not_kept()} & wanted
        if known:
            memory.forget(*sorted(known))
    if versions:
        memory.file.forget_versions(versions)


def digest_of(path: Path) -> str:
    """Return a digest of what a file holds."""
    made = hashlib.blake2b(digest_size=8)
    with path.open("rb") as content:
        while piece := content.read(1 << 20):
            made.update(piece)
    return made.hexdigest()


def _each(versions: bytes) -> Iterator[bytes]:
    return (versions[start : start + 6] for start in range(0, len(versions), 6))


def _readable(top: Path) -> Iterator[Path]:
    """Yield the files of a folder that may be read, whatever is ignored."""
    for folder, inner, names in os.walk(top):
        inner[:] = [each for each in inner if not each.startswith(".")]
        for path in (Path(folder, name) for name in names):
            if path.suffix.lower() in _READABLE and path.is_file() and os.access(path, os.R_OK):
                yield path


_name = attrgetter("name")
_READABLE = frozenset({*READERS, LINES_SUFFIX})


def _ignoring(top: Path, given: Collection[str]) -> Callable[[str], bool]:
    """Return what tells whether a path in the folder is left out; one of a folder ends with a slash."""
    file = top / IGNORE_FILE
    try:
        lines = [*(file.read_text(encoding="utf-8-sig").splitlines() if file.is_file() else ()), *given]
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or f"no text in UTF-8: {error}"
        raise InvalidInputError(f"{file} cannot be read ({why}). Nothing was changed.") from None
    if not lines:
        return lambda path: False
    try:
        spec = import_module("pathspec").GitIgnoreSpec.from_lines(lines)
    except ImportError:
        raise MissingExtraError("pathspec", "imports") from None
    except ValueError as error:
        raise InvalidInputError(f"A pattern of what is ignored is none: {error}.") from None
    matches: Callable[[str], bool] = spec.match_file
    return matches


def _packed(files: Mapping[str, _File]) -> str:
    """Return what is known of files as a short text: column by column, of ids their number where they are as usual."""
    ids = [len(file.ids) if file.ids == _usual_ids(name, len(file.ids)) else file.ids for name, file in files.items()]
    versions = b"".join(file.versions for file in files.values())
    each = files.values()
    columns = [list(files), [f.size for f in each], [f.modified for f in each], [f.digest for f in each], ids]
    counts = [len(file.versions) for file in each]
    dumped = json.dumps([*columns, counts], separators=(",", ":"), ensure_ascii=False).encode()
    packed = zlib.compress(len(dumped).to_bytes(8, "big") + dumped + versions, 1)
    return base64.b64encode(packed).decode()


def _unpacked(packed: str | None) -> dict[str, _File]:
    if not packed:
        return {}
    content = zlib.decompress(base64.b64decode(packed))
    end = 8 + int.from_bytes(content[:8], "big")
    files: dict[str, _File] = {}
    for name, size, modified, digest, ids, count in zip(*json.loads(content[8:end]), strict=True):
        known = _usual_ids(name, ids) if isinstance(ids, int) else ids
        files[name] = _File(size, modified, digest, known, content[end : end + count])
        end += count
    return files


def _usual_ids(name: str, count: int) -> list[str]:
    return [name] if count == 1 else [f"{name}#{number}" for number in range(count)]
