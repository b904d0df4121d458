"""Explanations and sizes: why an item is held, and what the file holds."""

from __future__ import annotations

from epic_core.errors import (
    UnknownItemError,
)
from epic_core.pipeline.session import Session
from epic_core.storage.sizes import sizes
from epic_core.types import Item
from epic_core.types.reports import Explanation, Stats


def explain(session: Session, item_id: str) -> Explanation:
    """Explain why an item is held."""
    store, namespace = session.store, session.namespace
    row = store.items.row(namespace, item_id)
    waits = next(
        ((item, reason) for item, reason, _ in store.retry_queue.waiting(namespace) if item.id == item_id), None
    )
    waiting = "" if waits is None else f"Undecided, in the retry queue: {waits[1]}"
    if row is None:
        if waits is not None:
            return Explanation(item=waits[0], entries=(), note=waiting)
        for record in store.seen.records(namespace):
            if record.item_id == item_id:
                item = Item(id=item_id, text=record.text)
                return Explanation(item=item, entries=(), note=f"Not held. {record.why}.")
        raise UnknownItemError(
            f"No item with the id {item_id!r} is held: it was never added, or it was not kept, and is not in the sample"
            " of those whose reason is on record."
        )
    item = store.items.at([row])[row]
    entries = tuple(store.entries.of_item(namespace, row))
    note = waiting if entries else waiting or _why_light(session, item_id)
    return Explanation(item=item, entries=entries, note=note)


def _why_light(session: Session, item_id: str) -> str:
    """Say why an item is in the light tier, as far as that is on record."""
    why = next(
        (record.why for record in session.store.seen.records(session.namespace) if record.item_id == item_id), ""
    )
    return "In the light tier, held by its text only" + (f": {why}." if why else ".")


def stats(session: Session) -> Stats:
    """Return counts and sizes."""
    return Stats(
        counts=session.store.counts(session.namespace),
        bytes=sizes(session.store),
        encoder=session.encoder.name,
        verifier=session.verifier.name,
        tau=session.tau,
        verified_by=session.verified_by,
        budget=None if session.budget is None else session.budget.total,
    )
