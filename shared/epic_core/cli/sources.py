"""Readers of the command line's input: notes, corpora and chat logs, as items."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from pydantic import BaseModel, ConfigDict, ValidationError

from epic_core.errors import InvalidInputError
from epic_core.learning.conversations import conversation_items, read_conversation, unusable_lines
from epic_core.text.chunking import ConversationChunker, WordChunker
from epic_core.types import Item, Preference
from epic_core.types.metadata import dumped_metadata

TEXT_SUFFIXES = (".txt", ".md")
LINES_SUFFIX = ".jsonl"
EXPORT_SUFFIX = ".json"


class _Record(BaseModel):
    """A line of a corpus."""

    model_config = ConfigDict(extra="ignore", strict=True)

    text: str
    id: str | int | None = None
    title: str | None = None
    metadata: dict[str, Any] | None = None


@dataclass
class Sources:
    """Items read from files and folders as they are iterated over, in chunks.

    Folders are read recursively: .txt, .md and .jsonl files in the order of their names; hidden ones are left
    out. A .jsonl file is a chat log if its first record has a role and a content, else a corpus. A .json file, which
    has to be named itself, is an exported conversation or several.

    Attributes:
        paths: Files and folders.
        chunker: The chunker for documents.
        conversations: The chunker for chat logs.
        skipped: Filled while reading: files and messages without text, to be reported.

    Raises:
        InvalidInputError: on reading, naming the file and line that cannot be used.
    """

    paths: Iterable[str | Path]
    chunker: WordChunker = field(default_factory=WordChunker)
    conversations: ConversationChunker = field(default_factory=ConversationChunker)
    skipped: list[str] = field(default_factory=list)
    _places: dict[str, str] = field(default_factory=dict, repr=False)

    def files(self) -> list[tuple[Path, str]]:
        """Return every file, with the name that its items' ids begin with.

        Raises:
            InvalidInputError: for a path that does not exist, or a file of another kind.
        """
        found: dict[Path, str] = {}
        for path in map(Path, self.paths):
            if path.is_dir():
                inside = _inside(path)
                if not inside:
                    raise InvalidInputError(f"{path} holds no .txt, .md or .jsonl file.")
                found.update((file, _name(file, path.parent if path.name else path)) for file in inside)
            elif not path.exists():
                raise InvalidInputError(f"There is no file or folder {path}.")
            elif not path.is_file():
                raise InvalidInputError(f"{path} is no ordinary file. Give a file or a folder.")
            elif path.suffix.lower() not in (*TEXT_SUFFIXES, LINES_SUFFIX, EXPORT_SUFFIX):
                raise InvalidInputError(f"{path} is no .txt, .md or .jsonl file. Convert it to one of these first.")
            else:
                found[path] = _name(path, path.parent)
        names: dict[str, Path] = {}
        for path, name in found.items():
            if name in names and names[name] != path:
                # Two files of one name are told apart by their folders.
                found[path] = path.as_posix()
            names.setdefault(found[path], path)
        return list(found.items())

    def __iter__(self) -> Iterator[Item]:
        self._places.clear()
        for path, name in self.files():
            if path.suffix.lower() == LINES_SUFFIX:
                yield from self._lines(path, name)
            elif path.suffix.lower() == EXPORT_SUFFIX:
                yield from self._conversation(path, name, read_messages(path))
            else:
                yield from self._document(path, name)

    def _document(self, path: Path, name: str) -> Iterator[Item]:
        text = _decoded(path)
        if not text.strip():
            self.skipped.append(f"{path} is empty")
            return
        yield from self._chunks(str(path), text, name, {"source": name})

    def _item(self, place: str, item_id: str, text: str, metadata: dict[str, Any]) -> Item:
        """Make an item and check that its metadata is JSON and its id is new."""
        try:
            item = Item(id=item_id, text=text, metadata=metadata)
            dumped_metadata(item.metadata, item.id)
        except InvalidInputError as error:
            raise InvalidInputError(f"{place}: {error}") from None
        if item_id in self._places:
            raise InvalidInputError(
                f"{place}: the id {item_id!r} is taken by {self._places[item_id]}. Ids must differ; change one."
            )
        self._places[item_id] = place
        return item

    def _chunks(self, place: str, text: str, item_id: str, metadata: dict[str, Any], title: str = "") -> Iterator[Item]:
        # Cut twice: the pieces of a large document would take more memory than itself.
        count = sum(1 for _ in self.chunker.stream(text))
        several = count > 1
        for number, piece in enumerate(self.chunker.stream(text)):
            yield self._item(
                place,
                f"{item_id}#{number}" if several else item_id,
                # A later chunk of a document rarely names its topic; the title does.
                f"{title}{'' if title[-1] in '.!?' else '.'} {piece}" if title else piece,
                {**metadata, "chunk": number, "chunks": count} if several else metadata,
            )

    def _lines(self, path: Path, name: str) -> Iterator[Item]:
        records = _records(path)
        first = next(records, None)
        if first is None:
            self.skipped.append(f"{path} is empty")
            return
        if {"role", "content"} <= first[1].keys():
            yield from self._conversation(path, name, (record for _, record in itertools.chain([first], records)))
            return
        for line, record in itertools.chain([first], records):
            place = f"{path}, line {line}"
            parsed = _parsed(_Record, record, place)
            if not parsed.text.strip():
                raise InvalidInputError(f"{place}: the text is empty. Remove the line, or give it a text.")
            item_id = f"{name}:{line}" if parsed.id in (None, "") else str(parsed.id)
            metadata = {"source": name, **({"title": parsed.title} if parsed.title else {}), **(parsed.metadata or {})}
            yield from self._chunks(place, parsed.text, item_id, metadata, (parsed.title or "").strip())

    def _conversation(self, path: Path, name: str, messages: Any) -> Iterator[Item]:
        conversation = read_conversation(messages)
        for item in conversation_items(conversation, self.conversations):
            number = item.metadata["window"]
            metadata = {key: value for key, value in item.metadata.items() if key not in ("kind", "window")}
            yield self._item(str(path), f"{name}#{number}", item.text, {**metadata, "source": name, "chunk": number})
        self.skipped += [f"{path}: {line}" for line in unusable_lines(conversation.unusable)]


def read_messages(path: str | Path) -> Any:
    """Read the messages of a chat log: JSON, lines of JSON, or a text with "Name: words" lines.

    Raises:
        InvalidInputError: if there is no such file, or it cannot be read.
    """
    path = Path(path)
    if not path.is_file():
        raise InvalidInputError(f"There is no file {path}. Give a chat log: .json, .jsonl or .txt.")
    if path.suffix.lower() == LINES_SUFFIX:
        return [record for _, record in _records(path)]
    text = _decoded(path)
    if path.suffix.lower() != EXPORT_SUFFIX:
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        what = f"broken JSON ({error})" if isinstance(error, ValueError) else "JSON nested too deeply"
        raise InvalidInputError(f"{path}: {what}. Export it anew.") from None


def read_preferences(path: str | Path) -> list[Preference]:
    """Read preferences from a text file, one a line; empty lines and lines that begin with # are skipped.

    Raises:
        InvalidInputError: if there is no such file, it holds no preference, or one twice.
    """
    path = Path(path)
    if not path.is_file():
        raise InvalidInputError(f"There is no file {path}. Write one preference a line into it.")
    seen: dict[str, int] = {}
    preferences = []
    text = _decoded(path)
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        try:
            preference = Preference(text=line)
        except InvalidInputError as error:
            raise InvalidInputError(f"{path}, line {number}: {error}") from None
        if preference.id in seen:
            raise InvalidInputError(
                f"{path}, line {number}: this preference stands on line {seen[preference.id]} too. Remove one."
            )
        seen[preference.id] = number
        preferences.append(preference)
    if not preferences:
        raise InvalidInputError(f"{path} holds no preference. Write one a line into it.")
    return preferences


def _name(file: Path, above: Path) -> str:
    """Return the name that a file's item ids begin with: its path as given, or, if absolute, relative to `above`."""
    return file.relative_to(above).as_posix() if file.is_absolute() else file.as_posix()


def _inside(folder: Path) -> list[Path]:
    """Return the readable files in a folder, sorted; hidden ones are left out."""

    def refused(error: OSError) -> None:
        raise InvalidInputError(f"{error.filename} cannot be read: {error.strerror}.") from None

    found = []
    for parent, folders, names in os.walk(folder, onerror=refused):
        folders[:] = [name for name in folders if not name.startswith(".")]
        found += [Path(parent) / name for name in names if not name.startswith(".")]
    return sorted(f for f in found if f.suffix.lower() in (*TEXT_SUFFIXES, LINES_SUFFIX) and f.is_file())


def _opened(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except OSError as error:
        raise InvalidInputError(f"{path} cannot be read: {error.strerror}.") from None


def _decoded(path: Path) -> str:
    with _opened(path) as file:
        content = file.read()
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise InvalidInputError(f"{path}, line {line}: this is not UTF-8. Convert the file to UTF-8 first.") from None


def _records(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    with _opened(path) as lines:
        for number, raw in enumerate(lines, start=1):
            try:
                text = raw.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError:
                raise InvalidInputError(f"{path}, line {number}: this is not UTF-8. Convert the file first.") from None
            if not text.strip():
                continue
            try:
                record = json.loads(text)
            except (ValueError, RecursionError) as error:
                what = f"broken JSON ({error})" if isinstance(error, ValueError) else "JSON nested too deeply"
                raise InvalidInputError(f"{path}, line {number}: {what}. Mend or remove the line.") from None
            if not isinstance(record, dict):
                raise InvalidInputError(f"{path}, line {number}: a record must be a JSON object.")
            yield number, record


def _parsed(model: type[Any], record: dict[str, Any], place: str) -> Any:
    try:
        return model.model_validate(record)
    except ValidationError as error:
        problem = error.errors()[0]
        where = ".".join(str(part) for part in problem["loc"]) or "record"
        raise InvalidInputError(f"{place}: {where}: {problem['msg']}.") from None
