"""Parts of what is imported: a file, the files of a folder, or the members of a zip archive."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from epic_apps.cli.folders import folders_in
from epic_memory.errors import InvalidInputError

_HEAD = 8_192
_MOST_MEMBERS = 200_000
# Real exports pack to a fifth or a tenth. What claims more than this is an attack on memory or disk.
_LARGE, _MOST_PACKED = 100_000_000, 200


@dataclass(frozen=True)
class Part:
    """One file that may be imported, wherever it lies.

    Attributes:
        name: The path within the source, with slashes; of a single file its name.
        size: Bytes.
        opener: Opens it for reading.
        path: The file itself, if it is no member of an archive.
    """

    name: str
    size: int
    opener: Callable[[], BinaryIO] = field(repr=False)
    path: Path | None = None

    @property
    def suffix(self) -> str:
        """The ending of the name in lower case, with its dot."""
        return PurePosixPath(self.name).suffix.lower()

    @contextmanager
    def open(self) -> Iterator[BinaryIO]:
        """Open the part.

        Raises:
            InvalidInputError: if it cannot be read, or is damaged.
        """
        try:
            with self.opener() as file:
                yield file
        except (OSError, zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError) as error:
            told = getattr(error, "strerror", None) or error
            raise InvalidInputError(f"{self.name} cannot be read: {told}.") from None

    def head(self) -> str:
        """Return the beginning of the part as text."""
        with self.open() as file:
            return file.read(_HEAD).decode("utf-8-sig", "replace")


@contextmanager
def parts_of(source: Path, failures: list[str] | None = None) -> Iterator[list[Part]]:
    """Give the parts of a file, a folder or an archive, in the order of their names. Use it in a `with`.

    Hidden files are left out, and links that lead out of a folder are not followed.

    Args:
        source: The file, folder or archive.
        failures: What of a folder cannot be looked into is added to it.

    Raises:
        InvalidInputError: if there is no such file or folder, or it is a damaged archive.
    """
    if source.is_dir():
        yield sorted(_in_folder(source, [] if failures is None else failures), key=lambda part: part.name)
    elif not source.is_file():
        raise InvalidInputError(f"There is no file or folder {source}.")
    elif source.suffix.lower() == ".zip":
        with _archive(source) as archive:
            yield sorted(_in_archive(archive), key=lambda part: part.name)
    else:
        yield [_file(source, source.name)]


def _file(path: Path, name: str) -> Part:
    return Part(name, path.stat().st_size, lambda: path.open("rb"), path)


def _in_folder(folder: Path, failures: list[str]) -> Iterator[Part]:
    def failed(error: OSError) -> None:
        failures.append(f"{error.filename} cannot be read: {error.strerror}.")

    for listing in folders_in(folder, failed):
        for path in map(Path, listing.files):
            try:
                if path.is_file():
                    yield _file(path, f"{listing.within}{path.name}")
            except OSError as error:
                failed(error)


def _archive(path: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(path)
    except (zipfile.BadZipFile, OSError, ValueError) as error:
        raise InvalidInputError(f"{path} is no zip archive that can be read: {error}. Download it anew.") from None


def _in_archive(archive: zipfile.ZipFile) -> Iterator[Part]:
    members = [each for each in archive.infolist() if not each.is_dir()]
    if len(members) > _MOST_MEMBERS:
        raise InvalidInputError(f"{archive.filename} has more than {_MOST_MEMBERS} files. Unpack it, and import parts.")
    for member in members:
        hidden = any(part.startswith((".", "__MACOSX")) for part in PurePosixPath(member.filename).parts)
        if member.file_size > _LARGE and member.file_size > _MOST_PACKED * max(member.compress_size, 1):
            raise InvalidInputError(f"{archive.filename}: {member.filename} unpacks to far more than it should.")
        if not hidden:

            def opened(member: zipfile.ZipInfo = member) -> BinaryIO:
                return archive.open(member)  # type: ignore[return-value]

            yield Part(member.filename, member.file_size, opened)
