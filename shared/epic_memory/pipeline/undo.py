"""Undoing an edit of facts: what it added goes, and what went for it is held again."""

from __future__ import annotations

from epic_memory.encoders.base import Embed
from epic_memory.errors import UnknownItemError
from epic_memory.pipeline.ingest import place_again
from epic_memory.pipeline.session import Session
from epic_memory.runtime.effects import Effects
from epic_memory.types import FloatArray
from epic_memory.types.edits import Edit
from epic_memory.types.proposals import plain


def undo(session: Session, number: int) -> Effects[Edit]:
    """Take an edit back: what it added goes, and what it replaced, ended or displaced is held again.

    An item that was no fact is held by its text at once, and verified anew. Of a proposal that the edit came of nothing
    but digests stay.

    Raises:
        UnknownItemError: if there is no such edit any more, what it added is not held, or a later one builds on it.
    """
    with session.lock, session.store.reading():
        edit = _checked(session, number)
    encoder, namespace = session.encoder, session.namespace
    olds = [item for item in (edit.old, edit.displaced) if item is not None]
    vectors: FloatArray = yield Embed(encoder, [item.searched for item in olds], "embedding")
    with session.changing(encoder):
        store = session.store
        edit = _checked(session, number)
        if edit.kind != "end":
            store.items.remove(namespace, [edit.item.id])
        for item, vector in zip(olds, vectors, strict=True):
            if store.items.row(namespace, item.id) is None:
                store.items.put(namespace, item, vector)
        store.edits.delete_rows([number])
        if plain(edit.item.text) not in {plain(item.text) for item in olds if item.fact} or edit.kind == "end":
            store.proposals.withdraw(namespace, [edit.item.text])
    if edit.displaced is not None:
        yield from place_again(session, encoder, edit.displaced, vectors[-1:])
    return edit


def _checked(session: Session, number: int) -> Edit:
    edits = session.store.edits.all(session.namespace)
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
