"""Facts of the user in a memory: what they are, what adding them did, and undoing it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from epic_learn.facts.editing import facts_of, made_fact
from epic_learn.tables import EditTable, ProposalTable
from epic_learn.types import Edit, plain
from epic_memory.encoders.base import Embed
from epic_memory.errors import UnknownItemError
from epic_memory.groups.live import Live
from epic_memory.pipeline.ingest import catch_up
from epic_memory.pipeline.reporting import aadd_items, add_items
from epic_memory.pipeline.session import Session
from epic_memory.runtime.effects import Clock, Effects, arun, run
from epic_memory.types import BuildReport, FloatArray, Item


class MemoryFacts(Live[Item]):
    """The facts of the user that are held, oldest first: a sequence of items, and what changes it.

    memory.facts.add("I work night shifts.")
    print([fact.text for fact in memory.facts])
    """

    def __init__(self, session: Session) -> None:
        self._session = session

    def _read(self) -> list[Item]:
        return facts_of(self._session)

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

        What may change or end another fact is held beside it, and the change waits in `memory.proposals`; or the
        memory's language model decides. `report.edits` says what was done, `undo` takes it back.

        Args:
            fact: A short statement, in English for updates to be recognised.
            type, subclass: Kept as the metadata `memory_type` and `memory_subclass`.
            metadata: More metadata.
            expires_at: Time from which it does not hold any more, with a zone; by default the item's, or never.

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
            return EditTable(self._session.store).all(self._session.namespace)

    def undo(self, edit: Edit | int) -> Edit:
        """Take an edit of facts back: what it added goes, what it replaced or ended is held again.

        An item that became a fact is an item again, and verified anew. If the edit came of a proposal, nothing but
        digests of that stay, so that it is not made again.

        Raises:
            UnknownItemError: if there is no such edit any more, or a later one builds on it, which has to go first.
        """
        self._session.store.check_writable()
        return run(_undo(self._session, edit.id if isinstance(edit, Edit) else edit))

    async def aundo(self, edit: Edit | int) -> Edit:
        """As `undo`, without blocking the event loop."""
        self._session.store.check_writable()
        return await arun(_undo(self._session, edit.id if isinstance(edit, Edit) else edit))


def _undo(session: Session, number: int) -> Effects[Edit]:
    """Take an edit back; an item that was no fact is held by its text at once, and verified anew."""
    with session.lock, session.store.reading():
        edit = _checked(session, number)
    encoder, namespace = session.encoder, session.namespace
    olds = [item for item in (edit.old, edit.displaced) if item is not None]
    vectors: FloatArray = yield Embed(encoder, [item.searched for item in olds], "embedding")
    with session.changing(encoder):
        store = session.store
        edit = _checked(session, number)
        if edit.kind != "end":
            store.items.remove(namespace, [edit.item.id], marked="item")
        for item, vector in zip(olds, vectors, strict=True):
            if store.items.row(namespace, item.id) is None:
                store.items.put_all(namespace, [item], vector[None])
        EditTable(store).delete_rows([number])
        if plain(edit.item.text) not in {plain(item.text) for item in olds if item.fact} or edit.kind == "end":
            ProposalTable(store).withdraw(namespace, [edit.item.text])
    if edit.displaced is not None:
        # It is in the light tier: to an item without entries all preferences are new.
        yield from catch_up(session, encoder, [edit.displaced], vectors[-1:], [], set(), BuildReport(), Clock())
    return edit


def _checked(session: Session, number: int) -> Edit:
    edits = EditTable(session.store).all(session.namespace)
    edit = next((edit for edit in edits if edit.id == number), None)
    if edit is None:
        raise UnknownItemError(f"There is no edit {number!r}: see memory.facts.edits(), `epic facts FILE --history`.")
    item = edit.item
    found = session.store.items.known(session.namespace, [item.id]).get(item.id)
    held = found is not None and found.item.fact and found.item.text == item.text
    if (edit.kind != "end" and not held) or any(edit.touched & later.touched for later in edits if later.id > number):
        raise UnknownItemError(
            f"{item.text!r} was edited again, or is not held any more. Undo the later edit first: memory.facts.edits()."
        )
    return edit
