"""Files of a synced folder as the memory's own file knows them, packed in pieces."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Collection, Iterator, MutableMapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from operator import itemgetter
from typing import NamedTuple

from epic_memory.types.digests import DIGEST_BYTES

DIRTY = -1
"""Time of a file that has to be read again whatever its folder says."""
NO_ROOM, RULED_OUT = "-", "!"
"""Marks behind the digest of a file that is offered again: some of it had no room, or was ruled out by these topics."""
PIECES = 16
"""Number of pieces: an edit of one file writes one."""


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


class SyncedFiles(MutableMapping[str, SyncedFile]):
    """Files by their names, in pieces: a piece is unpacked when one of its files is asked for.

    Attributes:
        listed: Size and time of the files that were taken in whole, by their names, as they were packed.

    Args:
        packed: The pieces; None for one without files.
    """

    def __init__(self, packed: Sequence[str | None]) -> None:
        columns = [_Columns.unpacked(piece) for piece in packed]
        self._pieces: list[_Columns | dict[str, SyncedFile]] = list(columns)
        self._names = {name: number for number, piece in enumerate(columns) for name in piece.names}
        self.listed = {
            name: (size, modified)
            for piece in columns
            for name, size, modified, digest in zip(piece.names, piece.sizes, piece.times, piece.digests, strict=True)
            if digest.isalnum()
        }

    def __getitem__(self, name: str) -> SyncedFile:
        return self.piece(self._names[name])[name]

    def __setitem__(self, name: str, file: SyncedFile) -> None:
        number = self._names.setdefault(name, piece_of(name))
        self.piece(number)[name] = file

    def __delitem__(self, name: str) -> None:
        del self.piece(self._names.pop(name))[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def piece(self, number: int) -> dict[str, SyncedFile]:
        """Return the files of a piece."""
        piece = self._pieces[number]
        if isinstance(piece, _Columns):
            piece = self._pieces[number] = piece.files()
        return piece

    def packed(self, number: int) -> str | None:
        """Return a piece as a short text: column by column, of ids their number where they are as usual."""
        if not (files := dict(sorted(self.piece(number).items(), key=itemgetter(0)))):
            return None
        each = files.values()
        ids = [len(f.ids) if f.ids == _usual_ids(name, len(f.ids)) else f.ids for name, f in files.items()]
        columns = [list(files), [f.size for f in each], [f.modified for f in each], [f.digest for f in each], ids]
        counts = [len(f.versions) for f in each]
        text = json.dumps([*columns, counts], separators=(",", ":"), ensure_ascii=False)
        dumped = text.encode(errors="surrogatepass")  # a file's name need not be UTF-8; json.loads takes it
        versions = b"".join(f.versions for f in each)
        packed = zlib.compress(len(dumped).to_bytes(8, "big") + dumped + versions, 1)
        return base64.b64encode(packed).decode()


def piece_of(name: str) -> int:
    """Return the number of the piece that tells of a file."""
    return zlib.crc32(name.encode(errors="replace")) % PIECES


class _Columns(NamedTuple):
    """Piece of the files as it is packed: a list for each attribute, and the versions of all files in a row."""

    names: list[str]
    sizes: list[int]
    times: list[int]
    digests: list[str]
    ids: list[list[str] | int]
    counts: list[int]
    versions: bytes = b""

    @classmethod
    def unpacked(cls, packed: str | None) -> _Columns:
        """Unpack what `SyncedFiles.packed` made."""
        if packed is None:
            return cls([], [], [], [], [], [])
        content = zlib.decompress(base64.b64decode(packed))
        end = 8 + int.from_bytes(content[:8], "big")
        return cls(*json.loads(content[8:end]))._replace(versions=content[end:])

    def files(self) -> dict[str, SyncedFile]:
        """Return the files by their names."""
        ids = (
            _usual_ids(name, own) if isinstance(own, int) else own
            for name, own in zip(self.names, self.ids, strict=True)
        )
        places = pairwise(accumulate(self.counts, initial=0))
        versions = (self.versions[start:stop] for start, stop in places)
        made = map(SyncedFile, self.sizes, self.times, self.digests, ids, versions)
        return dict(zip(self.names, made, strict=True))


def _usual_ids(name: str, count: int) -> list[str]:
    return [name] if count == 1 else [f"{name}#{number}" for number in range(count)]
