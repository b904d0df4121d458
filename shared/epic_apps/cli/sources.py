"""Sources of the command line: notes, documents, corpora and chat logs, as items; what cannot be read is reported."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO

from pydantic import BaseModel, ConfigDict, ValidationError

from epic_apps.cli.folders import folders_in
from epic_apps.cli.readers import READERS
from epic_apps.cli.readers.base import Section, opened, text_of
from epic_apps.cli.roots import Roots
from epic_learn.conversations import conversation_items, read_conversation, unusable_lines
from epic_learn.windows import ConversationChunker
from epic_memory.errors import InvalidInputError, MissingExtraError
from epic_memory.text.chunking import WordChunker
from epic_memory.types import Item, Preference
from epic_memory.types.metadata import dumped_metadata

LINES_SUFFIX = ".jsonl"
EXPORT_SUFFIX = ".json"
READABLE = frozenset({*READERS, LINES_SUFFIX})
"""Suffixes of the files that are read from folders."""
_KINDS = f"{', '.join(READERS)} or {LINES_SUFFIX}"
_LONGEST_LINE = 100_000_000
# Reasons of one file that are told; the others are counted.
_MOST_REASONS = 20
_MOST_LINKS = 5
_CHUNKER, _WINDOWS = WordChunker(), ConversationChunker()
_SPEAKERS = ("role", "content", "sender", "speaker", "author", "name", "from")


class _Record(BaseModel):
    """A record of a corpus."""

    model_config = ConfigDict(extra="ignore", strict=True)

    text: str
    id: str | int | None = None
    title: str | None = None
    metadata: dict[str, Any] | None = None


@dataclass
class Sources:
    """Items read from files and folders as they are iterated over, in chunks.

    Folders are read recursively, in the order of names: documents of the kinds in `READERS`, and .jsonl; hidden files
    are left out, and links that lead out of the folder are not followed. A .jsonl file is a chat log if its first
    record has a role and a content, else a corpus. A .json file, which has to be named itself, is an array of records,
    or an exported conversation or several. A file or record that cannot be read is reported, and the rest goes on.

    Attributes:
        paths: Files and folders.
        skipped: Filled while reading: what holds no text, or is of a kind that is not read.
        failures: Filled while reading: what should have been readable, and was not, with the reason.
        roots: What names the files, with which the ids of their items begin.
        given: The files with their names, in place of the paths.
        mark: What is done to each item before it is given out.
        whole: Filled while reading: the names of the files that were read without a failure.
        places: Filled while reading: item id to the file it was read from, and the line.
    """

    paths: Iterable[str | Path]
    skipped: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    roots: Roots = field(default_factory=Roots)
    given: list[tuple[Path, str]] | None = None
    mark: Callable[[Item], Item] | None = None
    whole: set[str] = field(default_factory=set, repr=False)
    places: dict[str, str] = field(default_factory=dict, repr=False)
    # How many reasons of the file that is being read there are in each list.
    _failed: int = field(default=0, repr=False)
    _left: int = field(default=0, repr=False)

    def files(self) -> list[tuple[Path, str]]:
        """Return every file, with its name.

        Raises:
            InvalidInputError: for a path that does not exist, or a file of another kind.
        """
        return self._found()[0]

    def _found(self) -> tuple[list[tuple[Path, str]], list[str]]:
        """Return the files with their names, and what folders hold besides."""
        if self.given is not None:
            return self.given, []
        found: dict[Path, str] = {}
        others: list[str] = []
        for path in map(Path, self.paths):
            if path.is_dir():
                inside, kinds, links = _inside(path)
                if links:
                    told = ", ".join([*links[:_MOST_LINKS], *(["..."] if links[_MOST_LINKS:] else [])])
                    others.append(f"{path}: links that lead out of it are not followed, {len(links)} ({told})")
                inside, of_all = [file for file in inside if not self.roots.is_ruled_out(file)], len(inside)
                if len(inside) < of_all:
                    others.append(f"{path}: {of_all - len(inside)} files in folders of which nothing is kept")
                if not of_all:
                    raise InvalidInputError(". ".join([f"{path} holds no {_KINDS} file", *others]) + ".")
                if kinds:
                    counts = ", ".join(f"{count} {kind or 'without a suffix'}" for kind, count in sorted(kinds.items()))
                    others.append(f"{path}: files of kinds that are not read from folders ({counts})")
                found |= {file: self.roots.name(file, path) for file in inside}
            elif not path.exists():
                raise InvalidInputError(f"There is no file or folder {path}.")
            elif not path.is_file():
                raise InvalidInputError(f"{path} is no ordinary file. Give a file or a folder.")
            elif path.suffix.lower() not in {*READABLE, EXPORT_SUFFIX}:
                raise InvalidInputError(f"{path} is no {_KINDS} file. Convert it to one of these first.")
            else:
                found[path] = self.roots.name(path, path)
        # One file can be named in several ways.
        return [(path, name) for name, path in {name: path for path, name in found.items()}.items()], others

    def __iter__(self) -> Iterator[Item]:
        self.places.clear()
        self.whole.clear()
        self.failures.clear()
        files, self.skipped[:] = self._found()
        for path, name in files:
            self._failed = self._left = 0
            try:
                for item in self._read(path, name):
                    yield item if self.mark is None else self.mark(item)
            except Exception as error:
                if isinstance(error, (InvalidInputError, MissingExtraError)):
                    told = str(error)
                    self._fail(told if str(path) in told else f"{path}: {told}")
                else:  # a library's own, for a file that is not as its kind should be
                    told = " ".join(str(error).split())[:200]
                    self._fail(f"{path} cannot be read ({type(error).__name__}: {told})")
            if not self._failed:
                self.whole.add(name)
            for reasons, count in ((self.failures, self._failed), (self.skipped, self._left)):
                if count > _MOST_REASONS:
                    reasons.append(f"{path}: {count - _MOST_REASONS} more")

    def _fail(self, reason: str) -> None:
        self._failed += 1
        if self._failed <= _MOST_REASONS:
            self.failures.append(reason)

    def _skip(self, reason: str) -> None:
        self._left += 1
        if self._left <= _MOST_REASONS:
            self.skipped.append(reason)

    def _read(self, path: Path, name: str) -> Iterator[Item]:
        from epic_apps.markdown import is_export

        suffix = path.suffix.lower()
        if is_export(path):
            self._skip(f"{path} was written by `epic export --markdown`: it is not taken in again")
            return
        if suffix == LINES_SUFFIX:
            yield from self._lines(path, name)
        elif suffix == EXPORT_SUFFIX:
            text = text_of(path)
            try:
                messages = json.loads(text)
            except (ValueError, RecursionError) as error:
                raise InvalidInputError(f"{path}: {_broken(error)}. Export it anew.") from None
            if _is_corpus(messages):
                yield from self._corpus(((f"{path}, record {n}", n, each) for n, each in enumerate(messages, 1)), name)
            else:
                yield from self._conversation(path, name, messages)
        else:
            yield from self._document(path, name)

    def _document(self, path: Path, name: str) -> Iterator[Item]:
        sections: list[Section] = []
        for part in READERS[path.suffix.lower()](path):
            if isinstance(part, Section):
                heading = {"heading": part.heading} if part.heading else {}
                sections.append(replace(part, metadata={**part.metadata, **heading, "source": name}))
            elif part.failed:
                self._fail(part.reason)
            else:
                self._skip(part.reason)
        if not (sections or self._failed or self._left):
            self._skip(f"{path} is empty")
        yield from self._chunks(str(path), name, sections)

    def _item(self, place: str, item_id: str, text: str, metadata: dict[str, Any]) -> Item:
        """Make an item and check that its metadata is JSON and its id is new."""
        try:
            item = Item(id=item_id, text=text, metadata=metadata)
            dumped_metadata(item.metadata, item.id)
        except InvalidInputError as error:
            raise InvalidInputError(f"{place}: {error}") from None
        if item_id in self.places:
            raise InvalidInputError(
                f"{place}: the id {item_id!r} is taken by {self.places[item_id]}. Ids must differ; change one."
            )
        self.places[item_id] = place
        return item

    def _chunks(self, place: str, item_id: str, sections: Sequence[Section]) -> Iterator[Item]:
        """Yield the chunks of sections, numbered from the first to the last if there are several."""
        # Cut twice: the pieces of a large document would take more memory than itself.
        count = sum(1 for section in sections for _ in _CHUNKER.stream(section.text))
        pieces = ((section, piece) for section in sections for piece in _CHUNKER.stream(section.text))
        for number, (section, piece) in enumerate(pieces):
            numbered = {"chunk": number, "chunks": count} if count > 1 else {}
            name = f"{item_id}#{number}" if count > 1 else item_id
            yield self._item(place, name, _titled(section.heading, piece), {**section.metadata, **numbered})

    def _lines(self, path: Path, name: str) -> Iterator[Item]:
        with opened(path) as file:
            lines = read_records(file, path)
            first = next(lines, None)
            if first is None:
                self._skip(f"{path} is empty")
                return
            everything = itertools.chain([first], lines)
            if isinstance(first[1], dict) and {"role", "content"} <= first[1].keys():
                yield from self._conversation(path, name, self._usable(everything))
            else:
                yield from self._corpus(((f"{path}, line {line}", line, record) for line, record in everything), name)

    def _usable(self, lines: Iterator[tuple[int, Any]]) -> Iterator[dict[str, Any]]:
        for _, record in lines:
            if isinstance(record, InvalidInputError):
                self._fail(str(record))
            else:
                yield record

    def _corpus(self, records: Iterable[tuple[str, int, Any]], name: str) -> Iterator[Item]:
        """Yield the chunks of records, each with its place and number; report those that cannot be used."""
        for place, number, record in records:
            try:
                if isinstance(record, InvalidInputError):
                    raise record
                yield from self._record(place, number, record, name)
            except InvalidInputError as error:
                self._fail(str(error))

    def _record(self, place: str, number: int, record: Any, name: str) -> Iterator[Item]:
        try:
            parsed = _Record.model_validate(record)
        except ValidationError as error:
            problem = error.errors()[0]
            where = ".".join(map(str, problem["loc"])) or "record"
            raise InvalidInputError(f"{place}: {where}: {problem['msg']}.") from None
        if not parsed.text.strip():
            raise InvalidInputError(f"{place}: the text is empty. Remove the record, or give it a text.")
        item_id = f"{name}:{number}" if parsed.id in (None, "") else str(parsed.id)
        claims = parsed.metadata or {}
        if claims.get("origin", "user") == "user" and ("origin" in claims or "source" in claims):
            claims = {**claims, "origin": "page"}  # a file that says of itself that it is the user's may be anybody's
        metadata = {"source": name, **({"title": parsed.title} if parsed.title else {}), **claims}
        yield from self._chunks(place, item_id, [Section(parsed.text, (parsed.title or "").strip(), metadata)])

    def _conversation(self, path: Path, name: str, messages: Any) -> Iterator[Item]:
        conversation = read_conversation(messages)
        for item in conversation_items(conversation, _WINDOWS):
            number = item.metadata["window"]
            metadata = {key: value for key, value in item.metadata.items() if key not in ("kind", "window")}
            yield self._item(str(path), f"{name}#{number}", item.text, {**metadata, "source": name, "chunk": number})
        for line in unusable_lines(conversation.unusable):
            self._skip(f"{path}: {line}")


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
    text = text_of(path)
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


def _titled(title: str, text: str) -> str:
    """Put a title in front of a chunk: a later chunk of a document rarely names its topic."""
    return f"{title}{'' if title[-1] in '.!?' else '.'} {text}" if title else text


def _is_corpus(messages: Any) -> bool:
    """Tell an array of records from an exported conversation, whose messages say who speaks."""
    first = messages[0] if isinstance(messages, list) and messages else None
    return isinstance(first, dict) and isinstance(first.get("text"), str) and not any(key in first for key in _SPEAKERS)


def _inside(folder: Path) -> tuple[list[Path], Counter[str], list[str]]:
    """Return the readable files in a folder, sorted, how many others there are, and the links that lead out of it."""

    def refused(error: OSError) -> None:
        raise InvalidInputError(f"{error.filename} cannot be read: {error.strerror}.") from None

    listings = list(folders_in(folder, refused))
    found = sorted(Path(entry.path) for listing in listings for entry in listing.files)
    readable = [path for path in found if path.suffix.lower() in READABLE and path.is_file()]
    others = Counter(path.suffix.lower() for path in found) - Counter(path.suffix.lower() for path in readable)
    return readable, others, sorted(each for listing in listings for each in listing.out)


def read_records(
    lines: BinaryIO, place: object, *, others: bool = False
) -> Iterator[tuple[int, dict[str, Any] | InvalidInputError]]:
    """Yield the record of each line with its number, or what is wrong with it.

    With `others`, lines of JSON that are no records are left out.
    """
    number = 0
    while raw := lines.readline(_LONGEST_LINE):
        number += 1
        where = f"{place}, line {number}"
        if len(raw) == _LONGEST_LINE and not raw.endswith(b"\n"):
            while (rest := lines.readline(_LONGEST_LINE)) and not rest.endswith(b"\n"):
                pass
            yield number, InvalidInputError(f"{where}: more than {_LONGEST_LINE // 1_000_000} MB.")
            continue
        try:
            text = raw.decode("utf-8-sig" if number == 1 else "utf-8")
            record = json.loads(text) if text.strip() else None
        except UnicodeDecodeError:
            yield number, InvalidInputError(f"{where}: this is not UTF-8. Convert the file first.")
        except (ValueError, RecursionError) as error:
            yield number, InvalidInputError(f"{where}: {_broken(error)}. Mend or remove the line.")
        else:
            if isinstance(record, dict):
                yield number, record
            elif text.strip() and not others:
                yield number, InvalidInputError(f"{where}: a record must be a JSON object.")


def _broken(error: Exception) -> str:
    return "JSON nested too deeply" if isinstance(error, RecursionError) else f"broken JSON ({error})"
