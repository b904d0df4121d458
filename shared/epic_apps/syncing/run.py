"""Sync of one folder: what differs between it and the memory is read, taken over, or forgotten."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TypeAlias

from tqdm import tqdm

from epic_apps.cli.folders import digest_of, folders_in
from epic_apps.cli.readers.base import library
from epic_apps.cli.roots import Roots
from epic_apps.cli.sources import READABLE, Sources
from epic_apps.markdown import PREFERENCES, edits_of, is_export
from epic_apps.origins import NEVER, with_origin
from epic_apps.syncing.files import DIRTY, NO_ROOM, RULED_OUT, SyncedFile
from epic_apps.syncing.report import SyncReport
from epic_apps.syncing.state import (
    FILES_AT_ONCE,
    FolderState,
    forget_files,
    known_folders,
    note_folder,
    placed,
    room_of,
)
from epic_memory.errors import InvalidInputError
from epic_memory.memory import EpicMemory, checked_memory
from epic_memory.types import Item
from epic_memory.types.digests import digest

IGNORE_FILE = ".epicignore"
"""Name of the file, in the folder that is synced, with the patterns of what is left out, as in a .gitignore."""

_Read: TypeAlias = tuple[str, SyncedFile, list[Item]]  # a file by its name as it was read now, and its items
_ITEMS_AT_ONCE = 512
# A file that was changed so shortly before it was read may change again within the clock's grain.
_GRAIN = 2_000_000_000
_FREED = 4_096  # bytes


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

    Files are read as by `epic build`. A file is the same file from whatever working directory, and after its folder was
    moved without being renamed. Only files whose size or time changed are read. Of a deleted file, and of what was
    deleted in one, the memory forgets everything. What is cut off goes on with the next call.

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


class _Sync:
    """One sync of one folder."""

    def __init__(self, memory: EpicMemory, top: Path, ignore: Collection[str] | None, user: list[str]) -> None:
        self._memory, self._top, self._user = memory, top, user
        self.report = SyncReport()
        self._roots = Roots(memory)
        _ignoring(top, ignore or ())  # fails before anything is written
        self._name = self._roots.begin(top)
        before = known_folders(memory).get(self._name, {})
        given = before.get("ignore", []) if ignore is None else list(ignore)
        self._known = {"room": None, **before, "path": str(top), "ignore": given}
        self._ignores = _ignoring(top, given)
        self._used: int
        decided, self._used = before.get("room") or ("", 0)
        decides, used = room_of(memory)
        # What found no room is offered again once something was freed, or anything else of what decides has changed.
        self._offers_again = decides != decided or used + _FREED < self._used
        note_folder(memory, self._name, self._known)
        self._state = FolderState(memory, self._name)
        self._files = self._state.files
        self._ruled_out = f"{RULED_OUT}{digest(*memory.never, size=4).hex()}"
        self._again: set[str] = set()
        self._written: dict[str, None] = {}
        self._held_before: set[str] | None = None
        self._by_content: dict[str, str] = {}
        self._is_short = False

    def run(self, *, empty: bool, progress: bool) -> None:
        """Compare the folder with what is known of it, and take over the differences."""
        found = self._walk()
        gone = sorted(name for name in self._files if name not in found and not self._stays(name))
        if not found and gone and len(gone) == len(self._files) and not empty:
            how = "Is its disk there? If everything was deleted: --empty."
            raise InvalidInputError(f"{self._top} holds no file any more. {how}")
        self._by_content = {self._files[name].content: name for name in reversed(gone) if self._files[name].digest}
        batch: list[_Read] = []
        touched = [(name, entry) for name, entry in found.items() if entry is not None]
        self.report.unchanged = len(found) - len(touched) - len(self.report.no_room)
        for name, entry in tqdm(touched, unit=" files", disable=not progress or not touched):
            read = None
            try:
                read = self._read(name, Path(entry.path), entry.stat())
            except FileNotFoundError:  # it has gone since it was listed: the next sync forgets it
                continue
            except OSError as error:
                self.report.failures.append(f"{entry.path} cannot be read: {error.strerror}.")
            if read is not None:
                batch.append(read)
            if len(batch) >= FILES_AT_ONCE or sum(len(items) for *_, items in batch) >= _ITEMS_AT_ONCE:
                self._write(batch)
                batch = []
        self._write(batch)
        self._state.forget(gone)
        if self._is_short:
            self._mark_unplaced(self._files)  # also those that had to leave for others
        self._state.save()
        if self.report.no_room:
            decides, used = room_of(self._memory)
            room = [decides, used if self._offers_again else max(used, self._used)]
            note_folder(self._memory, self._name, {**self._known, "room": room})
        self.report.added += [each for each in self._written if each in self._again and self._files[each].is_whole]
        moved = {old for old, _ in self.report.renamed}
        self.report.deleted = [name for name in gone if name not in moved]

    def _report_on(self, batch: Sequence[_Read], same: Collection[str]) -> None:
        """Report what is new about files, given the ids of the items that a build had taken in as they are now."""
        for name, file, _ in batch:
            known = self._files.get(name, SyncedFile())
            if known.digest and known.content == file.digest:
                self._again.add(name)
            elif known.ids and not known.digest and {*known.ids} <= {*file.ids} <= {*same}:
                self.report.unchanged += 1
            elif known.ids:
                self.report.changed.append(name)
            elif file.digest in self._by_content:
                self.report.renamed.append((self._by_content.pop(file.digest), name))
            else:
                self.report.added.append(name)

    # --- the folder

    def _walk(self) -> dict[str, os.DirEntry[str] | None]:
        """Return the files in the folder by their names, with their entries if they have to be read."""
        found: dict[str, os.DirEntry[str] | None] = {}
        links: list[str] = []
        names = {"": f"{self._name}/"}
        inner = {str(path): name for path, name in self._roots.inner(self._top).items()}
        never = {str(path) for path in self._memory.never.folders if path.is_relative_to(self._top)}
        if self._roots.is_ruled_out(self._top):
            never = {str(self._top)}

        def failed(error: OSError) -> None:
            told = f"{error.filename} cannot be read: {error.strerror}."
            raise InvalidInputError(f"{told} Nothing was changed.") from None

        def enters(entry: os.DirEntry[str], within: str) -> bool:
            above = names[within[: -len(entry.name) - 1]]
            names[within] = inner.get(entry.path, f"{above}{entry.name}") + "/"
            return entry.path not in never and not self._ignores(within)

        for within, files, out in () if str(self._top) in never else folders_in(self._top, failed, enters):
            links += out
            above = names[within]
            for entry in files:
                name = f"{above}{entry.name}"
                is_same = name in self._files.listed and _listed(entry) == self._files.listed[name]
                # What a link inside leads to is read where it is.
                if not is_same and not (_is_readable(entry) and entry.is_file(follow_symlinks=False)):
                    continue
                if not self._ignores(f"{within}{entry.name}"):
                    # What else there is to keep of ten thousand files takes time.
                    found[name] = None if is_same or self._is_as_it_was(name, entry) else entry
        self.report.skipped += [f"{each}: ruled out (epic never); what is held of it stays" for each in sorted(never)]
        if links:
            self.report.skipped.append(f"{self._top}: links that lead out of it are not followed ({', '.join(links)})")
        return found

    def _is_as_it_was(self, name: str, entry: os.DirEntry[str]) -> bool:
        """Tell whether a file is as it was and not to be offered again; one without room is reported."""
        known = self._files.get(name)
        if known is None or (known.size, known.modified) != _listed(entry):
            return False
        if known.digest.endswith(NO_ROOM) and not self._offers_again:
            self.report.no_room.append(name)
            return True
        return known.is_whole or known.digest.endswith(self._ruled_out)

    def _stays(self, name: str) -> bool:
        """Tell whether a file is one of which nothing more is kept, so that what is held of it stays."""
        path = self._roots.path_of(name)
        return path is not None and self._roots.is_ruled_out(path) and os.path.lexists(path)

    def _read(self, name: str, path: Path, status: os.stat_result) -> _Read | None:
        """Return a file and its items; None if it is as it was, has gone, or cannot be read."""
        known, report = self._files.get(name), self.report
        recent = time.time_ns() - status.st_mtime_ns < _GRAIN
        modified = DIRTY if recent else status.st_mtime_ns
        content = digest_of(path)
        same = {content, f"{content}{self._ruled_out}"}
        if not self._offers_again:
            same.add(f"{content}{NO_ROOM}")
        if known is not None and known.digest in same and name not in self._state.cut_off:
            if (known.size, known.modified) != (status.st_size, modified):
                known.size, known.modified = status.st_size, modified
                self._state.touch(name)
            if known.digest.endswith(NO_ROOM):
                report.no_room.append(name)
            else:
                report.unchanged += 1
            return None
        if path.name == PREFERENCES and is_export(path):
            try:
                report.proposed += [str(each) for each in edits_of(self._memory, path)]
            except InvalidInputError as error:
                report.failures.append(str(error))
                return None
        source, before = Sources([], given=[(path, name)]), report.kept_out[NEVER]
        items = list(with_origin(source, self._user, report.kept_out, self._memory.never))
        if name not in source.whole and not path.exists():
            return None
        if report.kept_out[NEVER] > before:  # offered again when the topics have changed
            content = f"{content}{self._ruled_out}"
        report.skipped += source.skipped
        report.failures += source.failures
        if name not in source.whole:
            # What could not be read of it this time stays.
            if not items:
                return None
            content, modified = "", DIRTY
        return name, SyncedFile(status.st_size, modified, content, [item.id for item in items]), items

    # --- the memory

    def _write(self, batch: Sequence[_Read]) -> None:
        """Take over some files: what was in them goes, what is in them comes, and both are known before."""
        if not batch:
            return
        memory, items = self._memory, [item for *_, new in batch for item in new]
        if self._held_before is None and memory._session.reserve:
            self._held_before = placed(memory)
        self._state.begin({name: file.ids for name, file, _ in batch})
        held = {item.id: item for item in memory.get([item.id for item in items])}
        same: set[str] = set()
        if self._state.was_built:
            seen = zip(items, memory.file.has_seen(items), strict=True)
            same = {item.id for item, is_seen in seen if is_seen or held.get(item.id) == item}
        self._report_on(batch, same)
        # What is held comes in another version, which replaces it with all its traces but a record.
        replaced = held.keys() - {record.item_id for record in memory.file.not_kept()}
        old: list[SyncedFile] = []
        for name, file, new in batch:
            before = self._files.get(name, SyncedFile())
            file.versions = b"".join(memory.file.versions(new))
            if file.digest:
                old.append(before)
                self._written[name] = None
            else:  # what could not be read of it stays
                file.ids = list(dict.fromkeys([*before.ids, *file.ids]))
                file.versions += before.versions
            self._files[name] = file
            self._state.touch(name)
        # Before the new comes: to forget a document takes the chunks away that its name begins.
        forget_files(memory, old, replaced, {version for _, file, _ in batch for version in file.each_version()})
        report = memory.add(items)
        self.report.kept += report.kept
        self.report.light += report.light
        if report.kept_out:
            self._mark_ruled_out(batch)
        if report.no_room or report.evicted or report.known:
            self._is_short = True
            self._mark_unplaced([name for name, *_ in batch])
        self._state.save()

    def _mark_ruled_out(self, batch: Sequence[_Read]) -> None:
        """Mark the files with texts that a topic kept out: they are offered again when the topics have changed."""
        items = [item for *_, new in batch for item in new]
        known = placed(self._memory)
        seen = zip(items, self._memory.file.has_seen(items), strict=True)
        known |= {item.id for item, is_seen in seen if is_seen}
        for _, file, new in batch:
            if file.is_whole and not known.issuperset(item.id for item in new):
                file.digest += self._ruled_out

    def _mark_unplaced(self, names: Collection[str]) -> None:
        """Mark those files with texts that found no room, or lost theirs, and forget that these were seen."""
        before = self._held_before
        if before is None:  # nothing came, or room is for what is kept only
            return
        wanted = {each for name in names for each in self._files[name].ids}
        missing = wanted - placed(self._memory)
        unplaced: list[bytes] = []
        for name in names if missing else ():
            file = self._files[name]
            lost = {each for each in file.ids if each in missing and (name in self._written or each in before)}
            if lost and file.is_whole:
                versions = zip(file.ids, file.each_version(), strict=False)
                unplaced += [version for item_id, version in versions if item_id in lost]
                self.report.no_room.append(name)
                file.digest += NO_ROOM
                self._state.touch(name)
        if unplaced:
            self._memory.file.forget_versions(unplaced)


def _listed(entry: os.DirEntry[str]) -> tuple[int, int] | None:
    """Return size and time of a file; None if it may not be looked at, and reading it tells why."""
    try:
        status = entry.stat(follow_symlinks=False)
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns


def _is_readable(entry: os.DirEntry[str]) -> bool:
    return entry.name[entry.name.rfind(".") :].lower() in READABLE


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
        spec = library("pathspec", "imports").GitIgnoreSpec.from_lines(lines)
    except ValueError as error:
        raise InvalidInputError(f"A pattern of what is ignored is none: {error}.") from None
    matches: Callable[[str], bool] = spec.match_file
    return matches
