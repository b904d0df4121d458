"""Facts of the user in a memory: what they are, what adding them did, and undoing it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from epic_memory.groups.live import Live
from epic_memory.pipeline.adding import aadd_items, add_items
from epic_memory.pipeline.facts import made_fact
from epic_memory.pipeline.session import Session
from epic_memory.pipeline.undo import undo
from epic_memory.runtime.effects import arun, run
from epic_memory.types import BuildReport, Item
from epic_memory.types.edits import Edit


class MemoryFacts(Live[Item]):
    """The facts of the user that are held, oldest first: a sequence of items, and what changes it.

    memory.facts.add("I work night shifts.")
    print([fact.text for fact in memory.facts])
    """

    def __init__(self, session: Session) -> None:
        self._session = session

    def _read(self) -> list[Item]:
        with self._session.lock, self._session.store.reading():
            space, now = self._session.space(), time.time()
            held = self._session.store.items.at(sorted(space.facts))
            return [held[row] for row in sorted(held) if held[row].ends > now]

    def add(
        self,
        fact: str | Item,
        *,
        type: str = "",
        subclass: str = "",
        metadata: Mapping[str, Any] | None = None,
        expires_at: datetime | str | None = None,
    ) -> BuildReport:
        """Add a fact of the user, such as "I work night shifts": held whatever the preferences are, never evicted.

        A plain statement about the same subject replaces a fact that is held, or ends it; `report.edits` says which,
        `undo` takes it back. What may change another fact is held beside it, and the change waits in
        `memory.proposals`.

        Args:
            fact: A short statement, in English for updates to be recognised.
            type, subclass: Kept as the metadata `memory_type` and `memory_subclass`.
            metadata: More metadata.
            expires_at: Time from which it does not hold any more, with a zone; by default the end of the day that it
                states itself, as in "My voucher expires on 14 May 2027".

        Raises:
            InvalidInputError: for a fact that is too long, or arguments that cannot be.
            BudgetError: if there are too many facts, or the budget has no room.
            EncoderError: if the encoder fails.
        """
        return add_items(self._session, [made_fact(fact, type, subclass, metadata, expires_at)])

    async def aadd(
        self,
        fact: str | Item,
        *,
        type: str = "",
        subclass: str = "",
        metadata: Mapping[str, Any] | None = None,
        expires_at: datetime | str | None = None,
    ) -> BuildReport:
        """As `add`, without blocking the event loop."""
        return await aadd_items(self._session, [made_fact(fact, type, subclass, metadata, expires_at)])

    def edits(self) -> list[Edit]:
        """Return what adding facts did, newest first: the last hundred, or fewer under a byte budget."""
        with self._session.lock, self._session.store.reading():
            return self._session.store.edits.all(self._session.namespace)

    def undo(self, edit: Edit | int) -> Edit:
        """Take an edit of facts back: what it added goes, what it replaced or ended is held again.

        An item that became a fact is an item again, and verified anew. If the edit came of a proposal, nothing but
        digests of that stay, so that it is not made again.

        Raises:
            UnknownItemError: if there is no such edit any more, or a later one builds on it, which has to go first.
        """
        self._session.store.check_writable()
        return run(undo(self._session, edit.id if isinstance(edit, Edit) else edit))

    async def aundo(self, edit: Edit | int) -> Edit:
        """As `undo`, without blocking the event loop."""
        self._session.store.check_writable()
        return await arun(undo(self._session, edit.id if isinstance(edit, Edit) else edit))
