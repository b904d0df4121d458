"""Room for texts that no preference asks for: when what found none is offered again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from epic_memory.memory import EpicMemory
from epic_memory.types.digests import digest

# What found no room is offered again once so many bytes were freed, or anything else of what decides has changed.
_FREED = 4_096


class Room:
    """Comparison of what decides about texts with how it was when some of them found no room.

    Args:
        memory: The memory.
        before: What `noted` returned then; None if nothing was offered yet.
    """

    def __init__(self, memory: EpicMemory, before: Sequence[Any] | None) -> None:
        self._memory = memory
        decided, used_before = before or ("", 0)
        self._used: int = used_before
        decides, used = self._now()
        self.offers_again = decides != decided or used + _FREED < self._used

    def noted(self) -> list[Any]:
        """Return what is the case now: what decides about texts, as a digest, and the bytes of the file in use."""
        decides, used = self._now()
        return [decides, used if self.offers_again else max(used, self._used)]

    def _now(self) -> tuple[str, int]:
        memory, session = self._memory, self._memory._session
        with session.lock, session.store.reading():
            count, free, page = session.store.pages()
        asked = [memory.encoder.name, session.verifier.name, session.tau, session.reserve, session.budget]
        decides = digest(*map(str, asked), *(each.id for each in memory.preferences), size=8)
        return decides.hex(), (count - free) * page


def placed(memory: EpicMemory) -> set[str]:
    """Return the ids of the items that are held, or wait for a verdict."""
    waiting = {item.id for item in memory.items(waiting=True)}
    session = memory._session
    with session.lock, session.store.reading():  # the ids alone: texts would take a second of ten thousand files
        return waiting.union(session.store.items.ids(session.namespace).values())
