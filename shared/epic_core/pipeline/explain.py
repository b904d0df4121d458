"""Explanations, entries, embeddings and sizes: why an item is held, and what the file holds."""

from __future__ import annotations

import time
from dataclasses import replace

from epic_core.errors import UnknownItemError
from epic_core.pipeline.session import Session
from epic_core.storage.sizes import sizes
from epic_core.types import Embeddings, Item, MemoryEntry, Preference
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


def entries(session: Session, preference: str | Preference | None) -> list[MemoryEntry]:
    """Return the entries that are held, oldest first: all, or those of one preference."""
    space, store = session.space(), session.store
    rows = sorted(space.item_of)
    if preference is not None:
        wanted = space.preference_rows[space.find(preference)]
        rows = [row for row in rows if space.preference_of[row] == wanted]
    held = store.items.held_at(sorted({space.item_of[row] for row in rows}))
    preferences = dict(zip(space.preference_rows, space.preferences, strict=True))
    found = store.entries.at(dict.fromkeys(rows, 0.0), held, preferences, space.namespace)
    return [replace(found[row], score=None) for row in rows]


def embeddings(session: Session) -> Embeddings:
    """Return the embeddings of the held items and of the preferences."""
    space = session.space()
    rows = space.texts.rows.tolist()
    held = session.store.items.at(rows)
    return Embeddings(
        items=[held[row].id for row in rows],
        vectors=space.texts.vectors.copy(),
        preferences=[each.id for each in space.preferences],
        preference_vectors=space.vectors.copy(),
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
