"""Explanations and sizes: why an item is held, and what the file holds."""

from __future__ import annotations

import time

from epic_memory.errors import UnknownItemError
from epic_memory.pipeline.session import MODEL_BUDGET, Session
from epic_memory.storage.sizes import sizes
from epic_memory.types import Item
from epic_memory.types.reports import Explanation, Stats


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
        item = store.items.at([row])[row]
        if not entries and not note:
            if item.fact and record is None:
                note = "A fact of the user, which is held whatever the preferences are."
            else:
                note = f"In the light tier, kept for its text only{f': {record.why}' if record else ''}."
        return Explanation(item=item, entries=entries, note=note)
    if record is not None:
        return Explanation(item=Item(id=item_id, text=record.text), entries=(), note=f"Not held. {record.why}.")
    raise UnknownItemError(
        f"No item with the id {item_id!r} is held: it was never added, or it was not kept, and is not in the sample"
        " of those whose reason is on record. `epic why-not FILE TEXT` says why a text is not kept."
    )


def stats(session: Session) -> Stats:
    """Return counts and sizes."""
    space, used, record = session.spaces.get(session.namespace), None, session.store.meta_of(MODEL_BUDGET)
    if record is not None:
        # Models are imported where there is one.
        from epic_memory.lm.budget import used_today

        used = used_today(record)
    return Stats(
        counts=session.store.counts(session.namespace),
        bytes=sizes(session.store),
        encoder=session.encoder.name,
        verifier=session.verifier.name,
        tau=session.tau,
        verified_by=session.verified_by,
        budget=None if session.budget is None else session.budget.total,
        unread=len(session.store.preferences.unread(session.namespace)),
        model_use=used,
        searched=None if space is None else space.texts.described(),
    )
