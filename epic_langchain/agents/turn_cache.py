"""Cache of the notes that an agent's model gets: a memory is searched once a turn, not once a tool call."""

from __future__ import annotations

import threading
from collections.abc import Hashable
from time import monotonic

from epic_langchain.agents.notes import Note

# At most 256 unfinished turns are kept, each for at most 600 seconds.
_TURNS_KEPT = 256
_KEPT_FOR = 600.0


class TurnCache:
    """Notes of turns that have not ended, under a key for each; nothing is kept under None. Safe for threads."""

    def __init__(self) -> None:
        # The time when it was made, the memory's revision then, and the note; oldest first.
        self._kept: dict[Hashable, tuple[float, str, Note]] = {}
        self._lock = threading.Lock()

    def known(self, key: Hashable | None, revision: str) -> Note | None:
        """Return the note of a turn if the memory still has that revision, else None."""
        with self._lock:
            self._drop_old()
            _, made_from, note = self._kept.get(key, (0.0, None, None))
        return note if made_from == revision else None

    def keep(self, key: Hashable | None, revision: str, note: Note) -> None:
        """Keep the note of a turn."""
        if key is not None:
            with self._lock:
                self._kept.pop(key, None)
                self._kept[key] = (monotonic(), revision, note)
                self._drop_old()

    def drop(self, key: Hashable | None) -> None:
        """Remove the note of a turn."""
        with self._lock:
            self._kept.pop(key, None)

    def _drop_old(self) -> None:
        limit = monotonic() - _KEPT_FOR
        while self._kept:
            oldest = next(iter(self._kept))
            if len(self._kept) <= _TURNS_KEPT and self._kept[oldest][0] >= limit:
                return
            del self._kept[oldest]
