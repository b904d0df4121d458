"""Explanations and sizes: why an item is held, and what the file holds."""

from __future__ import annotations

import time

from epic_core.errors import UnknownItemError
from epic_core.pipeline.session import Session
from epic_core.storage.sizes import sizes
from epic_core.types import Item
from epic_core.types.reports import Explanation, Stats


def explain(session: Session, item_id: str) -> Explanation:
    """Explain why an item is held."""
    store, namespace = session.store, session.namespace
    row = store.items.row(namespace, item_id)
    if row in session.space().expired_items:
        row = None  # it goes with the next change
    record = next((one for one in store.seen.records(namespace) if one.item_id == item_id), None)
    for item, reason, _ in store.retry_queue.waiting(namespace):
        if item.id == item_id and item.ends > time.time():
            note = f"Undecided, in the retry queue: {reason}"
            if row is None:
                return Explanation(item=item, entries=(), note=note)
            break
    else:
        note = ""
    if row is not None:
        entries = tuple(store.entries.of_item(namespace, row))
        if not entries and not note:
            note = "In the light tier, held by its text only" + (f": {record.why}." if record else ".")
        return Explanation(item=store.items.at([row])[row], entries=entries, note=note)
    if record is not None:
        return Explanation(item=Item(id=item_id, text=record.text), entries=(), note=f"Not held. {record.why}.")
    raise UnknownItemError(
        f"No item with the id {item_id!r} is held: it was never added, or it was not kept, and is not in the sample"
        " of those whose reason is on record."
    )


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
