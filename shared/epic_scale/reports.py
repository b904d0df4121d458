"""Reports of a pool: its counters, what it did to many memories, and the proof that a user is forgotten."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

_ERRORS_SHOWN = 5
_COUNTED = ("chunks", "known", "kept", "undecided", "failed", "users", "unwritten", "entries")
_PARTS = ("encode", "filter", "verify", "write")


@dataclass(frozen=True, kw_only=True)
class PoolHealth:
    """Counters of a pool, of numbers only: no text, no name of a user.

    Attributes:
        open: Memories that are open now.
        in_use: Those of them that a turn uses.
        turns: How often a memory was asked for.
        opened: How often a file had to be opened for that.
        closed: How often one was closed to make room, because it was idle, or because its file was replaced.
        waited: Turns that had to wait for another process, or for room.
        refused: Turns that waited in vain.
        downloads, uploads, conflicts: Of a pool over a remote root.
        rss: Bytes of RAM of the whole process; 0 where the system does not say.
    """

    open: int = 0
    in_use: int = 0
    turns: int = 0
    opened: int = 0
    closed: int = 0
    waited: int = 0
    refused: int = 0
    downloads: int = 0
    uploads: int = 0
    conflicts: int = 0
    rss: int = 0


@dataclass(kw_only=True)
class Visits:
    """Report of a function that was called with many memories.

    Attributes:
        done: How many calls returned.
        failed: What failed, by the user's id, or by the name of a file that does not say whose it is.
    """

    done: int = 0
    failed: dict[str, str] = field(default_factory=dict)

    @contextmanager
    def reporting(self, name: str) -> Iterator[None]:
        """Note an error inside the block under this name, and go on."""
        try:
            yield
        except Exception as error:
            self.failed[name] = f"{type(error).__name__}: {error}"


@dataclass(frozen=True, kw_only=True)
class Forgotten:
    """Proof that nothing of a user is left in a pool's root, which was looked through once more afterwards.

    Attributes:
        user: The SHA-256 of the user's id, by which files are named.
        removed: The names of the files that were removed; none for a user who had none.
        time: When it was done, Unix seconds.
    """

    user: str
    removed: tuple[str, ...]
    time: float


@dataclass(kw_only=True)
class ScaleReport:
    """Report of a build.

    Attributes:
        chunks: Chunks that came, for each generation of users.
        known: Those of them that had been judged before.
        kept: Pairs of a chunk and a user for which it was kept.
        undecided: Pairs without a verdict, which wait in the user's memory: `memory.retry()`.
        failed: Chunks that could not be judged; the next build takes them up again.
        errors: Some of the reasons.
        users: Memories that were made or changed.
        unwritten: Memories that could not be written, for instance because a service has them in use; likewise.
        entries: Entries that they gained.
        seconds: By part, summed over all workers: encode, filter, verify, write.
    """

    chunks: int = 0
    known: int = 0
    kept: int = 0
    undecided: int = 0
    failed: int = 0
    errors: list[str] = field(default_factory=list)
    users: int = 0
    unwritten: int = 0
    entries: int = 0
    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(_PARTS, 0.0))

    def add(self, row: Mapping[str, Any]) -> None:
        """Add what a worker reports of a batch."""
        for name in _COUNTED:
            setattr(self, name, getattr(self, name) + (row.get(name) or 0))
        for part in _PARTS:
            self.seconds[part] += row.get(part) or 0.0
        self.errors = _some([*self.errors, *(row.get("errors") or [])])


def reported(errors: Iterable[str] = (), /, **numbers: float) -> Any:
    """Return what a worker reports, as an Arrow table of one row."""
    import pyarrow as pa

    counts = [(name, pa.int64()) for name in _COUNTED]
    schema = pa.schema([*counts, *((part, pa.float64()) for part in _PARTS), ("errors", pa.list_(pa.string()))])
    return pa.Table.from_pylist([{**numbers, "errors": _some(errors)}], schema=schema)


def _some(errors: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(errors))[:_ERRORS_SHOWN]
