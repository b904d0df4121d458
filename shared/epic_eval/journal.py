"""Journal: a file of JSON lines in which every finished piece of a run is found again by its key."""

from __future__ import annotations

import json
import sys
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from threading import Lock
from typing import IO, Any, TypeAlias

from epic_memory.errors import InvalidInputError

if sys.platform != "win32":
    import fcntl

Record: TypeAlias = dict[str, Any]


def key_of(*parts: object) -> str:
    """Return a digest of values that JSON can hold: the same values have the same key on every machine."""
    return blake2b(json.dumps(parts, ensure_ascii=False).encode("utf-8", "replace"), digest_size=12).hexdigest()


def read_lines(path: str | Path) -> list[Record]:
    """Return the objects of a file of JSON lines, as `iter_lines`."""
    return list(iter_lines(path))


def iter_lines(path: str | Path) -> Iterator[Record]:
    """Yield the objects of a file of JSON lines.

    Raises:
        InvalidInputError: naming the line that holds no object, or if the file cannot be read.
    """
    try:
        with Path(path).open(encoding="utf-8", newline="\n") as file:  # a text may hold other line ends
            for number, line in enumerate(file, start=1):
                if not line.strip():
                    continue
                try:
                    record = json.loads(line)
                except ValueError:
                    record = None
                if not isinstance(record, dict):
                    raise InvalidInputError(f"{path}, line {number}: each line must be a JSON object.")
                yield record
    except OSError as error:
        raise InvalidInputError(f"{path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise InvalidInputError(f"{path} is no text in UTF-8.") from None


@contextmanager
def _alone(file: IO[str]) -> Iterator[None]:
    """Keep other processes away: what one of them is writing would look like a torn line. Not on Windows."""
    with suppress(OSError):  # a file system without locks
        if sys.platform != "win32":
            fcntl.flock(file, fcntl.LOCK_EX)
    try:
        yield
    finally:
        with suppress(OSError):
            if sys.platform != "win32":
                fcntl.flock(file, fcntl.LOCK_UN)


class Journal:
    """A file of JSON lines, each with a `key`; what was written before is there when the run is started again.

    A line that a kill has cut short is removed on opening: its piece was not finished.

    Raises:
        InvalidInputError: if a line before the last one is no record with a key.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self.path.open("a", encoding="utf-8")
        weakref.finalize(self, self._file.close)
        self._lock = Lock()
        self._records: dict[str, Record] = {}
        with _alone(self._file):
            self._drop_torn_line()
            records = read_lines(self.path)
        for record in records:
            if not isinstance(record.get("key"), str):
                raise InvalidInputError(f"{self.path} holds a line without a key: it is no file of this program.")
            self._records.pop(record["key"], None)
            self._records[record["key"]] = record

    def _drop_torn_line(self) -> None:
        content = self.path.read_bytes()
        if content and not content.endswith(b"\n"):
            with self.path.open("r+b") as file:
                file.truncate(content.rfind(b"\n") + 1)

    def add(self, key: str, record: Mapping[str, Any]) -> Record:
        """Write a record under its key, and return it with the key; it is in the file when this returns."""
        made = {"key": key, **record}
        with self._lock, _alone(self._file):
            self._file.write(json.dumps(made, ensure_ascii=False) + "\n")
            self._file.flush()
            self._records.pop(key, None)  # the records are in the order in which they were last written
            self._records[key] = made
        return made

    def get(self, key: str) -> Record | None:
        """Return the record with a key, or None."""
        return self._records.get(key)

    def __getitem__(self, key: str) -> Record:
        return self._records[key]

    def __contains__(self, key: object) -> bool:
        return key in self._records

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[Record]:
        return iter(list(self._records.values()))

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
