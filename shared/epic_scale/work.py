"""Work of a build: what was judged so far, in Parquet files beside the memories; a build goes on from it after a crash.

    users/...                       the memories: the root of a pool
    work/GENERATION/people.json     some users, their preferences, and how they are judged
    work/GENERATION/rows-*.parquet  what chunks are to them; and the digests of all chunks that were judged
    work/GENERATION/written.json    the files of rows that are in the memories

A chunk that is new, or changed, has a digest that is in no file. A user whose preferences change comes into a new
generation, for which all chunks are judged; a generation without users is removed.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epic_memory import Item
from epic_memory.errors import MissingExtraError
from epic_memory.types.digests import digest
from epic_memory.types.metadata import dumped_metadata

_KEPT = ("user", "preference", "stance", "instruction", "rationale", "error")


def digest_of(item: Item) -> int:
    """Return the number that identifies one version of a chunk."""
    return int.from_bytes(
        digest(item.id, item.text, dumped_metadata(item.metadata, item.id), size=8), "little", signed=True
    )


def row_schema() -> Any:
    """Return the columns of the files of rows."""
    import pyarrow as pa

    texts = [(name, pa.string()) for name in ("id", "text", "metadata", *_KEPT)]
    numbers = [(name, pa.float64()) for name in ("confidence", "score")]
    return pa.schema([("digest", pa.int64()), *texts, ("keep", pa.bool_()), *numbers])


class Work:
    """The work of a build in a sink.

    Args:
        sink: A folder, or an address that fsspec reaches.
        storage_options: Of that store.

    Raises:
        MissingExtraError: without fsspec.
    """

    def __init__(self, sink: str, storage_options: Mapping[str, Any] | None = None) -> None:
        try:
            from fsspec.core import url_to_fs
        except ImportError:
            raise MissingExtraError("fsspec", "ray") from None
        self.files, root = url_to_fs(sink, **(storage_options or {}))
        self._root = f"{root}/work"
        self.users = f"{sink.rstrip('/')}/users"

    def generations(self) -> dict[str, dict[str, Any]]:
        """Return what generations there are: `how` they are judged, and the `people` with their preferences."""
        found = self.files.glob(f"{self._root}/*/people.json")
        return {str(path).split("/")[-2]: json.loads(self.files.cat_file(path)) for path in found}

    def begin(self, how: str, people: Mapping[str, Sequence[str]]) -> str:
        """Begin a generation, and return its name."""
        content = json.dumps({"how": how, "people": people}, ensure_ascii=False, sort_keys=True)
        name = digest(content, size=8).hex()
        self._write(f"{self._root}/{name}/people.json", content.encode())
        return name

    def remove(self, generation: str) -> None:
        """Remove a generation."""
        self.files.rm(f"{self._root}/{generation}", recursive=True)

    def rows(self, generation: str, *, written: bool) -> list[str]:
        """Return the files of rows that are in the memories, or those that are not."""
        marks = f"{self._root}/{generation}/written.json"
        done = set(json.loads(self.files.cat_file(marks))) if self.files.exists(marks) else set()
        found = sorted(str(path) for path in self.files.glob(f"{self._root}/{generation}/rows-*.parquet"))
        return [path for path in found if (path.rpartition("/")[2] in done) is written]

    def mark_written(self, generation: str) -> None:
        """Note that all rows of a generation are in the memories."""
        names = [path.rpartition("/")[2] for kind in (True, False) for path in self.rows(generation, written=kind)]
        self._write(f"{self._root}/{generation}/written.json", json.dumps(sorted(names)).encode())

    def is_written(self, generation: str) -> bool:
        """Tell whether the memories of a generation were written once."""
        return bool(self.files.exists(f"{self._root}/{generation}/written.json"))

    def judged(self, generation: str) -> NDArray[np.int64]:
        """Return the digests of the chunks that were judged, ascending."""
        files = [path for kind in (True, False) for path in self.rows(generation, written=kind)]
        digests = [self.read(path, ["digest"])["digest"].to_numpy() for path in files]
        return np.unique(np.concatenate(digests)) if digests else np.empty(0, dtype=np.int64)

    def read(self, path: str, columns: Sequence[str]) -> Any:
        """Return columns of a file of rows, an Arrow table."""
        import pyarrow.parquet as pq

        return pq.read_table(io.BytesIO(self.files.cat_file(path)), columns=list(columns))

    def write_rows(self, generation: str, rows: Iterable[Mapping[str, Any]]) -> None:
        """Write rows into a file that is there whole or not at all, and named by what is in it."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        table = pa.Table.from_pylist(list(rows), schema=row_schema())
        content = io.BytesIO()
        pq.write_table(table, content, compression="zstd")
        name = digest(*map(str, table["digest"].to_pylist()), size=8).hex()
        self._write(f"{self._root}/{generation}/rows-{name}.parquet", content.getvalue())

    def replaced(self, generation: str) -> list[tuple[str, str]]:
        """Return the users and ids of chunks that memories hold in an earlier version than the new rows have."""
        new: dict[str, int] = {}
        for path in self.rows(generation, written=False):
            table = self.read(path, ["id", "digest"])
            new.update(zip(table["id"].to_pylist(), table["digest"].to_pylist(), strict=True))
        old: set[tuple[str, str]] = set()
        for path in [path for each in self.generations() for path in self.rows(each, written=True)] if new else ():
            for row in self.read(path, ["id", "digest", "user"]).to_pylist():
                if row["user"] is not None and new.get(row["id"], row["digest"]) != row["digest"]:
                    old.add((row["user"], row["id"]))
        return sorted(old)

    def _write(self, path: str, content: bytes) -> None:
        """Write a file so that it is there whole or not at all, also where a store is an ordinary folder."""
        self.files.makedirs(path.rpartition("/")[0], exist_ok=True)
        self.files.pipe_file(f"{path}.new", content)
        self.files.mv(f"{path}.new", path)
