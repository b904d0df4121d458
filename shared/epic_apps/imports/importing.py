"""Import of what people have elsewhere: what the user said in chats becomes proposals, notes and mails become items."""

from __future__ import annotations

import base64
import json
import re
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path, PurePosixPath
from typing import Any

from tqdm import tqdm

from epic_apps.cli.folders import digest_of
from epic_apps.cli.roots import Roots
from epic_apps.cli.sources import Sources
from epic_apps.imports.chats import Chat, chats_of
from epic_apps.imports.messengers import people_of
from epic_apps.imports.parts import Part, parts_of
from epic_apps.imports.recognition import CHAT_KINDS, Recognized, recognized
from epic_apps.origins import with_origin
from epic_learn.conversations import read_conversation
from epic_learn.credentials import redacted
from epic_memory.errors import EpicError, InvalidInputError, MissingExtraError
from epic_memory.memory import EpicMemory, checked_memory
from epic_memory.types import BuildReport, Item
from epic_memory.types.digests import digest

# Turns of the user that are read for proposals at once: what waits is compared with what comes once for each batch.
_TURNS_AT_ONCE = 300
_DIGEST = 8
# After so many seconds it is written down which conversations were read, so that the next run begins there.
_SECONDS = 5.0
_STATE = "imported"
_LONGEST_NAME = 200
_COPIED = "dropped"


@dataclass(kw_only=True)
class ImportReport:
    """Counts of what an import found and did.

    Attributes:
        dry_run: Whether nothing was changed.
        files: Kind of export to the number of files; "document" for notes, mails and other texts.
        conversations: Conversations found.
        known: Of them, those that an earlier import has read.
        own: Turns of the user in the others.
        proposed: Proposals that were made of them and wait for a decision.
        unusable: What of the conversations could not be used, such as messages of other branches: reason to count.
        dropped: What the user said and is not proposed: reason to count.
        items: Texts found in documents, as items.
        built: What the memory did with them; None if there were none, or nothing was changed.
        kept_out: What was not taken in because it is never kept: reason to count.
        skipped: Files, and parts of them, that hold nothing to import.
        failures: What should have been readable and was not, with the reason.
        seconds: How long it took.
    """

    dry_run: bool = False
    files: Counter[str] = field(default_factory=Counter)
    conversations: int = 0
    known: int = 0
    own: int = 0
    proposed: int = 0
    unusable: Counter[str] = field(default_factory=Counter)
    dropped: Counter[str] = field(default_factory=Counter)
    items: int = 0
    built: BuildReport | None = None
    kept_out: Counter[str] = field(default_factory=Counter)
    skipped: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def _lines(self) -> Iterator[str]:
        yield "files           " + (", ".join(f"{count} {kind}" for kind, count in self.files.items()) or "none")
        if self.conversations:
            before = f", {self.known} of them imported before" if self.known else ""
            yield f"conversations   {self.conversations:>8}{before}"
            yield f"your own turns  {self.own:>8}"
            if not self.dry_run:
                yield f"proposed        {self.proposed:>8}"
        if self.items:
            kept = "" if self.built is None else f"   ({self.built.kept} kept, {self.built.light} kept for their text)"
            yield f"texts           {self.items:>8}{kept}"
        reasons = {"not used": self.unusable, "not proposed": self.dropped, "never kept": self.kept_out}
        for name, counted in reasons.items():
            if counts := +counted:
                told = ", ".join(f"{count} {reason}" for reason, count in sorted(counts.items()))
                yield f"{name:<16}{sum(counts.values()):>8}   ({told})"
        yield f"seconds         {self.seconds:>8.1f}"

    def __str__(self) -> str:
        return "\n".join(self._lines())


def import_from(
    memory: EpicMemory,
    source: str | Path,
    *,
    user: str | Collection[str] = (),
    dry_run: bool = False,
    progress: bool = False,
    copied: bool = False,
) -> ImportReport:
    """Take in an export, a file, or a folder or zip archive of them; what each is, is recognised by what it holds.

        report = import_from(memory, "chatgpt.zip")
        print(report, list(memory.proposals))

    Conversations are ChatGPT's, Claude's and Gemini's exports, lists of messages with a role and a content, and the
    exports of WhatsApp and Telegram. What the user says of themselves in them becomes proposals, each with sentence,
    date and conversation; nothing of an assistant, a tool or another person does. Everything else that `epic build`
    reads becomes items. A conversation that was imported before is skipped, also after an import that was cut off.

    Args:
        memory: The memory.
        source: The file, folder or archive.
        user: Names of the user in chats between people, and addresses in mails.
        dry_run: Only say what there is.
        progress: Show bars.
        copied: Whether these are copies that will not stay: texts are then named by what the files hold, too.

    Raises:
        InvalidInputError: if there is no such file, or nothing in it could be read.
        MissingExtraError: if what reads a single file is not installed; in a folder that is a failure of the report.
    """
    run = _Import(checked_memory(memory), [user] if isinstance(user, str) else list(user), dry_run, progress, copied)
    started = time.perf_counter()
    path = Path(source)
    with parts_of(path, run.report.failures) as parts, tempfile.TemporaryFile() as spool:
        run.read(path, parts, _Spool(spool))
    run.report.seconds = time.perf_counter() - started
    if run.report.failures and not (run.report.conversations or run.report.items):
        raise InvalidInputError("\n".join(run.report.failures[:5]))
    return run.report


class _Spool:
    """Conversations on disk with the user's own turns only, to be read again in the order of their times."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._places: list[tuple[str, int]] = []

    def __len__(self) -> int:
        return len(self._places)

    def add(self, title: str, turns: list[tuple[str, str | None]], key: str) -> None:
        """Write a conversation."""
        first = next((at for _, at in turns if at), "")
        self._places.append((first, self._file.tell()))
        self._file.write(json.dumps([title, turns, key]).encode() + b"\n")

    def __iter__(self) -> Iterator[tuple[str, list[tuple[str, str | None]], str]]:
        for _, place in sorted(self._places):
            self._file.seek(place)
            title, turns, key = json.loads(self._file.readline())
            yield title, turns, key


class _Import:
    """One import, and what it has found so far."""

    def __init__(self, memory: EpicMemory, user: list[str], dry_run: bool, progress: bool, copied: bool) -> None:
        self._memory, self._user, self._dry_run, self._progress = memory, user, dry_run, progress
        self._copied = copied
        self.report = ImportReport(dry_run=dry_run)
        packed = base64.b85decode(memory.file.state(_STATE) or "")
        self._before = {packed[start : start + _DIGEST] for start in range(0, len(packed), _DIGEST)}
        self._written = time.monotonic()

    def read(self, source: Path, parts: list[Part], spool: _Spool) -> None:
        """Read all parts: conversations first, as what they say of the user decides what is worth keeping."""
        found = list(self._recognized(parts))
        exports = {PurePosixPath(part.name).parent for part, what in found if what.kind in ("chatgpt", "claude")}
        documents: list[Part] = []
        for part, what in found:
            if what.kind in CHAT_KINDS:
                self.report.files[what.kind] += 1
                self._read_chats(part, what, source, spool)
            elif _comes_with(part, exports):
                # The same conversations as a page, and what the assistant has written down itself.
                self.report.skipped.append(f"{part.name}: beside the conversations of an export")
            elif what.kind == "document":
                self.report.files["document"] += 1
                documents.append(part)
            else:
                self.report.skipped.append(f"{part.name}: nothing that is known")
        if not self._dry_run:
            self._propose(spool)
        self._read_documents(source, documents)

    def _recognized(self, parts: Iterable[Part]) -> Iterator[tuple[Part, Recognized]]:
        roots = Roots(self._memory)
        for part in parts:
            if part.path is not None and roots.is_ruled_out(part.path):
                self.report.kept_out["files in folders of which nothing is kept"] += 1
                continue
            try:
                yield part, recognized(part)
            except MissingExtraError:
                raise
            except EpicError as error:
                self.report.failures.append(str(error))

    # --- conversations

    def _read_chats(self, part: Part, what: Recognized, source: Path, spool: _Spool) -> None:
        origin = source.name if part.path is None or part.path == source else part.name
        try:
            if what.kind in ("whatsapp", "telegram"):
                chats = people_of(part, what, self._user, origin)
            else:
                chats = chats_of(part, what, self._user)
            for chat in tqdm(chats, unit=" conversations", disable=not self._progress):
                self._read_chat(chat, part, spool)
        except EpicError as error:
            self.report.failures.append(str(error))
        except (TypeError, ValueError, AttributeError, KeyError) as error:
            # An export of another shape than its kind should have.
            self.report.failures.append(f"{part.name} cannot be read ({type(error).__name__}: {str(error)[:200]})")

    def _read_chat(self, chat: Chat, part: Part, spool: _Spool) -> None:
        try:
            conversation = read_conversation(chat.messages, user=chat.user)
        except InvalidInputError as error:
            self.report.failures.append(f"{part.name}: {error}")
            return
        self.report.unusable += conversation.unusable
        by_title = groupby(conversation.turns, key=lambda turn: turn.source)
        for title, several in by_title if conversation.turns else [("", iter(()))]:
            own = [(turn.text, turn.time) for turn in several if turn.role == "user"]
            self.report.conversations += 1
            key = digest(*(f"{at}\0{text}" for text, at in own), size=_DIGEST)
            if not own:
                continue
            if key in self._before:
                self.report.known += 1
                continue
            self._before.add(key)
            self.report.own += len(own)
            spool.add(self._title(title or chat.title) or PurePosixPath(part.name).stem, own, key.hex())

    def _title(self, title: str) -> str:
        """Return the title of a conversation without what is never kept."""
        title = redacted(title)[0]
        return "" if title and len(self._memory.never) and self._memory.never.topic_of(title) else title

    def _propose(self, spool: _Spool) -> None:
        self._before -= {bytes.fromhex(key) for _, _, key in spool}
        batch: list[tuple[str, list[tuple[str, str | None]], str]] = []
        hidden = not self._progress or not len(spool)
        with tqdm(total=len(spool), unit=" conversations", disable=hidden) as bar:
            for conversation in spool:
                batch.append(conversation)
                if sum(len(turns) for _, turns, _ in batch) >= _TURNS_AT_ONCE:
                    bar.update(self._propose_batch(batch))
                    batch = []
            bar.update(self._propose_batch(batch))
        if len(spool):
            self._write_state()

    def _propose_batch(self, batch: list[tuple[str, list[tuple[str, str | None]], str]]) -> int:
        if batch:
            made = self._memory.proposals.propose(
                [
                    {
                        "title": title,
                        "messages": [{"role": "user", "content": text, "time": at} for text, at in turns],
                    }
                    for title, turns, _ in batch
                ]
            )
            self.report.proposed += len(made)
            self.report.dropped += made.report.dropped
            self.report.unusable += Counter(made.report.unusable)
            self.report.failures += made.report.failures
            self._before |= {bytes.fromhex(key) for _, _, key in batch}
            if time.monotonic() - self._written > _SECONDS:
                self._write_state()
        return len(batch)

    def _write_state(self) -> None:
        self._memory.file.set_state(**{_STATE: base64.b85encode(b"".join(sorted(self._before))).decode()})
        self._written = time.monotonic()

    # --- documents

    def _read_documents(self, source: Path, documents: list[Part]) -> None:
        if not documents:
            return
        roots = Roots(self._memory)
        with ExitStack() as stack:
            given: list[tuple[Path, str]] = []
            unpacked = None
            if documents[0].path is None:
                unpacked = Path(stack.enter_context(tempfile.TemporaryDirectory()))
                for number, part in enumerate(documents):
                    try:
                        given.append(_unpacked(part, unpacked / str(number), source.name))
                    except InvalidInputError as error:
                        self.report.failures.append(str(error))
            elif self._copied:
                # Another file of the same name is no newer version of this one.
                given = [(p.path, f"{_COPIED}/{digest_of(p.path)[:8]}/{p.name}") for p in documents if p.path]
            else:
                top = source if source.is_dir() else None
                given = [(part.path, roots.name(part.path, top or part.path)) for part in documents if part.path]
            read = Sources([], given=given)
            items = self._counted(with_origin(read, self._user, self.report.kept_out, self._memory.never))
            if self._dry_run:
                for _ in items:
                    pass
            else:
                self.report.built = self._memory.add(items, progress=self._progress)
                roots.write()
            for told, into in ((read.failures, self.report.failures), (read.skipped, self.report.skipped)):
                into += [re.sub(rf"{re.escape(str(unpacked))}/\d+/", "", each) if unpacked else each for each in told]

    def _counted(self, items: Iterable[Item]) -> Iterator[Item]:
        for item in items:
            self.report.items += 1
            yield item


def _unpacked(part: Part, folder: Path, archive: str) -> tuple[Path, str]:
    """Copy a member of an archive into a file of a folder of its own; return it with its name for the memory."""
    folder.mkdir()
    name = PurePosixPath(part.name).name.replace("\\", "_") or "part"
    # Archives have longer names than disks take.
    path = folder / (name if len(name.encode()) <= _LONGEST_NAME else f"{name[:50]}{part.suffix[:10]}")
    with part.open() as file, path.open("wb") as copy:
        shutil.copyfileobj(file, copy)
    return path, f"{archive}/{part.name}"


def _comes_with(part: Part, exports: Collection[PurePosixPath]) -> bool:
    """Tell whether a part belongs to an assistant's export: all in its archive; in a folder, its page and uploads."""
    beside = any(PurePosixPath(part.name).parent.is_relative_to(folder) for folder in exports)
    return beside and (
        part.path is None or part.suffix in (".html", ".json") or PurePosixPath(part.name).name.startswith("file-")
    )
