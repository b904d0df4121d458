"""Reports of a pool: its counters, what it did to many memories, and the proof that a user is forgotten."""

from __future__ import annotations

from dataclasses import dataclass, field


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
