"""Expiry of whatever can expire, and removal of preferences with the entries that only they held."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from epic_memory.errors import BudgetError
from epic_memory.pipeline.session import Session
from epic_memory.storage.namespace import CommittedRows, Namespace
from epic_memory.types import Preference
from epic_memory.types.reports import NotKept


def has_expired(session: Session, space: Namespace) -> bool:
    """Tell whether anything has expired and was not removed yet."""
    return bool(space.expired or space.expired_items) or session.store.has_expired(session.namespace)


def drop_expired(session: Session) -> None:
    """Remove what has expired: items, edits, proposals; preferences with their entries, and the items left over."""
    with session.lock:
        with session.store.reading():
            expired = list((space := session.space()).expired)
            due = has_expired(session, space)
        if not due or not session.store.writable:
            return
        with suppress(BudgetError):
            _take_items_away(session)
        for preference in expired:
            # What cannot be done now is hidden all the same, and done another time.
            with suppress(BudgetError):
                take_away(session, preference, reason="its preference has expired")
        session.store.give_back()


def _take_items_away(session: Session) -> None:
    store, namespace = session.store, session.namespace
    with session.changing(session.encoder) as space:
        held = store.items.held_at(sorted(space.expired_items)).values()
        store.verdicts.forget_chunks(namespace, [one.item.content for one in held])
        store.edits.forget(namespace, [one.item.id for one in held])
        store.proposals.withdraw(namespace, [one.item.text for one in held if one.item.fact])
        store.items.remove(namespace, [one.item.id for one in held])
        store.drop_expired(namespace)


def take_away(
    session: Session, preference: Preference, *, reason: str | None = None, also: Callable[[], None] | None = None
) -> None:
    """Remove a preference, its entries, and the items nothing else holds.

    Args:
        session: The memory's.
        preference: One that is held.
        reason: Put on record for the items that go; None for nothing.
        also: Called in the same transaction.
    """
    store, namespace = session.store, session.namespace
    with session.lock:
        row = store.preferences.row(namespace, preference.id)
        if row is None:
            return
        with session.changing(session.encoder, rows := CommittedRows(preferences=True)) as space:
            # Of an expired preference nothing is in RAM, and items that only it held may come back.
            rows.incomplete = reason is not None
            if reason is not None and preference not in space.expired:
                return  # another process has added it anew
            items = store.entries.items_under(row)
            held = {} if reason is None else store.items.held_at(items)
            rows.gone = [entry for entry, under in space.preference_of.items() if under == row]
            store.remove_preference(namespace, preference.id, keep_texts=session.reserve > 0)
            left = store.items.present(items)
            rows.gone_items = [item_row for item_row in items if item_row not in left]
            records = [
                (one.digest, NotKept(item_id=one.item.id, text=one.item.text, stage="expired", reason=reason or ""))
                for item_row, one in held.items()
                if item_row not in left
            ]
            store.seen.put_records(namespace, records, {})
            if also is not None:
                also()
