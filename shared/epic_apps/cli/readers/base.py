"""Sections of documents, what a reader leaves out, and the limits that a hostile file runs into."""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO

from epic_memory.errors import InvalidInputError, MissingExtraError

LARGEST = 100_000_000
"""Most bytes of a document that a library has to hold in memory, packed and unpacked."""
_MOST_PARTS = 10_000
# A longer heading is a text; it would be repeated in front of every chunk.
_LONGEST_HEADING = 200


@dataclass(frozen=True)
class Section:
    """A part of a document: its text, the headings above it, and metadata.

    Attributes:
        text: Not empty.
        heading: The headings above it, outermost first, joined by " > ".
        metadata: What its items carry besides their source; values are JSON.
    """

    text: str
    heading: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Left:
    """A part of a document that is left out, with the reason; `failed` if it should have been readable."""

    reason: str
    failed: bool = True


class Outline:
    """A text that is read line by line, cut into sections at its headings."""

    def __init__(self) -> None:
        self._headings: list[tuple[int, str]] = []
        self._lines: list[str] = []
        self._alone = False

    def line(self, text: str) -> None:
        """Add a line under the headings so far."""
        self._lines.append(text)

    def heading(self, level: int, text: str) -> Iterator[Section]:
        """Begin a section under a heading, and yield the one that ends here."""
        text = " ".join(text.split())
        if not text or len(text) > _LONGEST_HEADING:
            self.line(text)
            return
        yield from self.end(level)
        while self._headings and self._headings[-1][0] >= level:
            self._headings.pop()
        self._headings.append((level, text))
        self._alone = True

    def end(self, level: int = 0) -> Iterator[Section]:
        """Yield the section that ends before a heading of this level, or at the end of the document."""
        text = "\n".join(self._lines).strip()
        self._lines = []
        names = [name for _, name in self._headings]
        if text:
            yield Section(text, " > ".join(names))
        elif self._alone and level <= self._headings[-1][0]:
            # Nothing stands under this heading: it is a text itself.
            yield Section(names[-1], " > ".join(names[:-1]))
        self._alone = False


def library(name: str, extra: str = "files") -> Any:
    """Import a library of an extra.

    Raises:
        MissingExtraError: if it is not installed.
    """
    try:
        return import_module(name)
    except ImportError:
        raise MissingExtraError(name.partition(".")[0], extra) from None


def opened(path: Path) -> BinaryIO:
    """Open a file.

    Raises:
        InvalidInputError: if it may not be read.
    """
    try:
        return path.open("rb")
    except OSError as error:
        raise InvalidInputError(f"{path} cannot be read: {error.strerror}.") from None


def content_of(path: Path, largest: int = LARGEST) -> bytes:
    """Return the bytes of a file.

    Raises:
        InvalidInputError: if it may not be read, or is too large.
    """
    with opened(path) as file:
        content = file.read(largest + 1)
    if len(content) > largest:
        raise InvalidInputError(f"{path} has more than {largest // 1_000_000} MB. Divide it first.")
    return content


def text_of(path: Path) -> str:
    """Return the text of a file in UTF-8.

    Raises:
        InvalidInputError: if it may not be read, or is not in UTF-8, naming the line.
    """
    with opened(path) as file:
        return decoded(file.read(), str(path))


def decoded(content: bytes, place: str) -> str:
    """Decode UTF-8.

    Raises:
        InvalidInputError: for anything else, naming the line.
    """
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise InvalidInputError(f"{place}, line {line}: this is not UTF-8. Convert it to UTF-8 first.") from None


def standard_input() -> str:
    """Return the text that comes in on standard input.

    Raises:
        InvalidInputError: if there is none, or it is not in UTF-8.
    """
    if not (text := decoded(sys.stdin.buffer.read(), "standard input").strip()):
        raise InvalidInputError("Nothing came in on standard input.")
    return text


def archive_of(path: Path) -> zipfile.ZipFile:
    """Open a zip archive whose parts together are not too large.

    Raises:
        InvalidInputError: if it is no archive, or one that unpacks to too much.
    """
    opened(path).close()
    try:
        archive = zipfile.ZipFile(path)
    except (zipfile.BadZipFile, ValueError) as error:
        raise InvalidInputError(f"{path} is damaged: {error}.") from None
    # `zipfile` never unpacks more than the size that is written here.
    if len(archive.infolist()) > _MOST_PARTS or sum(part.file_size for part in archive.infolist()) > LARGEST:
        archive.close()
        raise InvalidInputError(f"{path} unpacks to more than {LARGEST // 1_000_000} MB or {_MOST_PARTS} parts.")
    return archive
