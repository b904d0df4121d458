"""Work of a build: what was judged so far, in Parquet files beside the memories; a build goes on from it after a crash.

    users/...                       the memories: the root of a pool
    work/GENERATION/people.json     some users, their preferences, and how they are judged
    work/GENERATION/rows-BUILD-*.parquet  what chunks are to them; and the digests of all chunks that were judged
    work/GENERATION/done.json       the files of rows that are in the memories, and the last build that was completed
    work/builds/BUILD.json          a number for each build, created by one of them

A chunk that is new, or changed, has a digest that is in no file as the newest of its id. A user whose preferences
change comes into a new generation, for which all chunks are judged; a generation without users is removed.

One build at a time has a sink. What a worker of a build that was killed or has lost the sink writes late has that
build's number: rows of an older build than the last that was completed, which that one has not seen, count for nothing.
"""

from __future__ import annotations

import io
import json
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from glob import escape
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epic_memory import Item
from epic_memory.errors import MissingExtraError
from epic_memory.types.digests import digest
from epic_memory.types.metadata import dumped_metadata
from epic_scale.judging import columns
from epic_scale.lease import LeaseError, taken_lease
from epic_scale.remote import is_remote

# How often a build over a remote sink says that it is alive, and after how many seconds of silence it is not.
_BEAT, _SILENCE = 10.0, 60.0


def digest_of(item: Item) -> int:
    """Return the number that identifies one version of a chunk."""
    return _number(item.id, item.text, dumped_metadata(item.metadata, item.id))


def key_of(item: Item) -> int:
    """Return the number that identifies a chunk in all its versions."""
    return _number(item.id)


def _number(*texts: str) -> int:
    return int.from_bytes(digest(*texts, size=8), "little", signed=True)


def _now() -> bytes:
    return str(time.time()).encode()


def row_schema() -> Any:
    """Return the columns of the files of rows."""
    import pyarrow as pa

    texts = [(name, pa.string()) for name in ("id", "text", "metadata")]
    return pa.schema([("key", pa.int64()), ("digest", pa.int64()), *texts, ("vector", pa.binary()), *columns()])


class Work:
    """The work of a build in a sink.

    Args:
        sink: A folder, or an address that fsspec reaches.
        storage_options: Of that store.
        build: The number of the build that this works for.

    Raises:
        MissingExtraError: without fsspec.
    """

    def __init__(self, sink: str, storage_options: Mapping[str, Any] | None = None, build: int = 0) -> None:
        try:
            from fsspec.core import url_to_fs
        except ImportError:
            raise MissingExtraError("fsspec", "ray") from None
        self.sink, self.storage_options = sink, dict(storage_options or {})
        self.files, root = url_to_fs(sink, **self.storage_options)
        self._root = f"{root}/work"
        self._local = None if is_remote(sink) else Path(self._root)
        self.users = f"{sink.rstrip('/')}/users"
        self.build = build

    # one build at a time

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Take the sink for a new build, in a `with`, and give the build a number.

        Raises:
            LeaseError: if another build has it.
        """
        if self._local:  # with people's preferences and texts, as a pool's folder
            self._local.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.files.makedirs(f"{self._root}/builds", exist_ok=True)
        lease = taken_lease(self._local / "build") if self._local else None
        last, ended = self._last_build(), threading.Event()
        try:
            with suppress(FileExistsError):  # if another one was faster
                if lease if self._local else self._is_silent(last):
                    self.files.pipe_file(self._mark(last + 1), _now(), mode="create")
                    self.build = last + 1
            if self.build <= last:
                again = "" if self._local else f" If it was killed, try again in {_SILENCE:g} seconds."
                raise LeaseError(
                    f"Another build writes into {self.sink}. Wait for its end, or use another sink.{again}"
                )
            if not self._local:
                threading.Thread(target=self._beat, args=(ended,), daemon=True, name="epic-build").start()
            yield
        finally:
            ended.set()
            if lease is not None:
                lease.release()
            elif self.build:
                self.files.pipe_file(self._mark(self.build), b"0")

    def check_newest(self) -> None:
        """Raise a `LeaseError` if another build has begun since, as this one was taken for dead."""
        if self._last_build() != self.build:
            raise LeaseError("Another build has taken this sink over. What it writes stands.")

    def _last_build(self) -> int:
        self.files.invalidate_cache(f"{self._root}/builds")
        found = self.files.glob(f"{escape(self._root)}/builds/*.json")
        return max((int(Path(path).stem) for path in found), default=0)

    def _mark(self, build: int) -> str:
        return f"{self._root}/builds/{build:08}.json"

    def _is_silent(self, build: int) -> bool:
        return build == 0 or time.time() - float(self.files.cat_file(self._mark(build))) > _SILENCE

    def _beat(self, ended: threading.Event) -> None:
        while not ended.wait(_BEAT):
            with suppress(OSError):
                self.files.pipe_file(self._mark(self.build), _now())

    # generations

    def generations(self) -> dict[str, dict[str, Any]]:
        """Return all generations: `how` they judge, their `people` with preferences, and the `build` they began in."""
        found = self.files.glob(f"{escape(self._root)}/*/people.json")
        return {str(path).split("/")[-2]: json.loads(self.files.cat_file(path)) for path in found}

    def begin(self, how: str, people: Mapping[str, Sequence[str]]) -> str:
        """Begin a generation, and return its name."""
        begun = {"how": how, "people": people}
        name = digest(json.dumps(begun, ensure_ascii=False, sort_keys=True), size=8).hex()
        content = json.dumps({**begun, "build": self.build}, ensure_ascii=False)
        self._write(f"{self._root}/{name}/people.json", content.encode())
        return name

    def remove(self, generation: str) -> None:
        """Remove a generation."""
        self.files.rm(f"{self._root}/{generation}", recursive=True)

    # rows

    def rows(self, generation: str) -> tuple[list[str], list[str]]:
        """Return the files of rows that are in the memories, and those that are not, from the oldest build on."""
        done, last = self._done(generation)
        found = sorted(map(str, self.files.glob(f"{escape(self._root)}/{generation}/rows-*.parquet")))
        written = [path for path in found if path.rpartition("/")[2] in done]
        return written, [path for path in found if path not in written and _build_of(path) > last]

    def mark_written(self, generation: str, files: Iterable[str]) -> None:
        """Note that these files of rows are in the memories, and that no others of builds so far count."""
        names = sorted(path.rpartition("/")[2] for path in files)
        content = json.dumps({"files": names, "build": self.build})
        self._write(f"{self._root}/{generation}/done.json", content.encode())

    def is_written(self, generation: str) -> bool:
        """Tell whether the memories of a generation were written once."""
        return self._done(generation)[1] > 0

    def _done(self, generation: str) -> tuple[frozenset[str], int]:
        marks = f"{self._root}/{generation}/done.json"
        if not self.files.exists(marks):
            return frozenset(), 0
        found = json.loads(self.files.cat_file(marks))
        return frozenset(found["files"]), int(found["build"])

    def judged(self, generation: str) -> NDArray[np.int64]:
        """Return the digests of the chunks that were judged, as the last build with their ids found them, ascending."""
        keys, digests, builds = self._versions([path for files in self.rows(generation) for path in files])
        known, places = np.unique(keys, return_inverse=True)
        last = np.zeros(len(known), dtype=np.int64)
        np.maximum.at(last, places, builds)
        return np.sort(digests[builds == last[places]])

    def _versions(self, files: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Return the keys, digests and builds of all rows of files."""
        tables = [self.read(path, ["key", "digest"]) for path in files]
        keys, digests = (
            np.concatenate([np.empty(0, np.int64), *(table[name].to_numpy() for table in tables)])
            for name in ("key", "digest")
        )
        counts = np.array([len(table) for table in tables], dtype=np.intp)
        return keys, digests, np.repeat(np.array([_build_of(path) for path in files], dtype=np.int64), counts)

    def _newest(self, files: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the keys of the ids in files of rows, ascending, and for each the digest that comes last."""
        keys, digests, _ = self._versions(sorted(files))
        order = np.argsort(keys, kind="stable")
        last = np.append(np.diff(keys[order]) != 0, True)[: len(order)]
        return keys[order][last], digests[order][last]

    def read(self, path: str, columns: Sequence[str]) -> Any:
        """Return columns of a file of rows, an Arrow table."""
        import pyarrow.parquet as pq

        return pq.read_table(io.BytesIO(self.files.cat_file(path)), columns=list(columns))

    def write_rows(self, generation: str, rows: Iterable[Mapping[str, Any]]) -> None:
        """Write rows into a file that is there whole or not at all, and named by the build and what is in it."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        table = pa.Table.from_pylist(list(rows), schema=row_schema())
        content = io.BytesIO()
        pq.write_table(table, content, compression="zstd")
        name = digest(*map(str, table["digest"].to_pylist()), size=8).hex()
        self._write(f"{self._root}/{generation}/rows-{self.build:08}-{name}.parquet", content.getvalue())

    def replaced(self, new: Sequence[str]) -> tuple[list[tuple[str, str]], list[int]]:
        """Find what memories may hold in another version than the new files of rows say.

        Returns:
            The users and ids of chunks whose other version goes, and the digests of those versions in the new files.
        """
        keys, digests = self._newest(new)
        users, stale = set[tuple[str, str]](), set[int]()
        files = [path for each in self.generations() for some in self.rows(each) for path in some] if len(keys) else []
        for path in files:
            table = self.read(path, ["key", "digest", "user", "id"])
            at = np.searchsorted(keys, table["key"].to_numpy()).clip(max=len(keys) - 1)
            other = (keys[at] == table["key"].to_numpy()) & (digests[at] != table["digest"].to_numpy())
            for row in table.take(np.flatnonzero(other)).to_pylist():
                stale.update([row["digest"]] if path in new else [])
                users.update([(row["user"], row["id"])] if row["user"] is not None else [])
        return sorted(users), sorted(stale)

    def _write(self, path: str, content: bytes) -> None:
        """Write a file so that it is there whole or not at all, also where a store is an ordinary folder."""
        self.files.makedirs(path.rpartition("/")[0], exist_ok=True)
        self.files.pipe_file(f"{path}.new", content)
        self.files.mv(f"{path}.new", path)


def _build_of(path: str) -> int:
    number = path.rpartition("/")[2].split("-")[1]
    return int(number) if number.isdigit() else 0
