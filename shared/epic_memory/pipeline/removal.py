"""Removal: of what has expired, of preferences with the entries that only they held, and of what is to be forgotten."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

from epic_memory.errors import BudgetError, UnknownItemError
from epic_memory.pipeline.session import Session
from epic_memory.storage.namespace import CommittedRows
from epic_memory.storage.tables.items import version_of
from epic_memory.types import Item, Preference
from epic_memory.types.reports import NotKept


def drop_expired(session: Session) -> None:
    """Remove what has expired: items, edits, proposals; preferences with their entries, and the items left over."""
    with session.lock:
        with session.store.reading():
            expired = list((space := session.space()).expired)
            due = session.has_expired(space)
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
        for addition in store.additions:
            addition.expire(namespace, [one.item for one in held])
        store.items.remove(namespace, [one.item.id for one in held])
        store.drop_expired(namespace)


def take_away(
    session: Session, preference: Preference, *, reason: str | None = None, also: Callable[[], None] | None = None
) -> None:
    """Remove a preference that is held, its entries, and the items nothing else holds; call `also` in the transaction.

    A reason, which expiry has, is put on record for the items that go.
    """
    store, namespace = session.store, session.namespace
    with session.lock, session.changing(session.encoder) as space:
        row = store.preferences.row(namespace, preference.id)
        if row is None or (reason is not None and preference not in space.expired):
            return  # another process has removed it, or added it anew
        held = {} if reason is None else store.items.held_at(store.entries.items_under(row))
        items = store.take_out(namespace, row, preference.id)[1]
        store.drop_orphans(items, keep_texts=session.reserve > 0)
        for addition in store.additions:
            addition.mark(namespace, [f"preference {preference.id}"], gone=True)
        left = store.items.present(list(held))
        records = [
            (one.digest, NotKept(item_id=one.item.id, text=one.item.text, stage="expired", reason=reason or ""))
            for item_row, one in held.items()
            if item_row not in left
        ]
        store.seen.put_records(namespace, records, {})
        if also is not None:
            also()


def forget(session: Session, items: Sequence[str | Item]) -> int:
    """Forget items, and that they were seen; return how many of them were held or waited.

    Raises:
        UnknownItemError: for an id of which nothing is known; nothing is forgotten then.
    """
    store, namespace = session.store, session.namespace
    with session.lock:
        everything = [part for item in items for part in _with_chunks(session, item)]
        held = _checked_known(session, everything)
        ids = list(dict.fromkeys(item.id if isinstance(item, Item) else item for item in everything))
        with session.changing(session.encoder, rows := CommittedRows(forgotten=True)) as space:
            forget_traces(session, everything, ids)
            for item_id in ids:
                row = store.items.row(namespace, item_id)
                if row is not None:
                    rows.gone += space.rows_of.get(row, [])
                    rows.gone_items.append(row)
            store.items.remove(namespace, ids, marked="item")
    # Not before: what has expired and was not removed yet can be forgotten, too.
    drop_expired(session)
    store.give_back()
    return held


def _with_chunks(session: Session, item: str | Item) -> list[str | Item]:
    """Return an item, the chunks it is cut into, and the chunks it is held in."""
    item_id = item.id if isinstance(item, Item) else item
    cut: list[str | Item] = list(session.chunked([item])) if isinstance(item, Item) else []
    chunks = [key for key in session.store.items.chunks_from(session.namespace, {item_id: 0}) if key != item_id]
    own = (
        [] if chunks and item_id not in session.store.items.known(session.namespace, [item_id]) and not cut else [item]
    )
    return [*own, *cut, *chunks]


def _checked_known(session: Session, items: Sequence[str | Item]) -> int:
    ids = [item for item in items if isinstance(item, str)]
    store, namespace = session.store, session.namespace
    known, recorded = store.items.known(namespace, ids), store.seen.recorded(namespace, ids)
    edited = store.texts_of(namespace, ids)
    for item_id in ids:
        if item_id not in known and item_id not in recorded and item_id not in edited:
            raise UnknownItemError(
                f"Nothing is known of an item with the id {item_id!r}. To forget that one was seen which was not kept,"
                " give the item itself (`memory.forget(Item(...))`)."
            )
    every = {item.id if isinstance(item, Item) else item for item in items}
    return len(store.items.known(namespace, sorted(every)))


def forget_traces(session: Session, items: Sequence[str | Item], ids: Sequence[str]) -> None:
    """Forget the verdicts on items, their digests in the ledger, and the reasons why they were not kept."""
    store, namespace = session.store, session.namespace
    known, recorded = store.items.known(namespace, ids), store.seen.recorded(namespace, ids)
    digests = {held.digest for held in known.values()}
    digests |= {digest for found in recorded.values() for digest in found}
    texts = [text for held in known.values() for text in {held.item.text, held.item.content}]
    for item in items:
        if isinstance(item, Item):
            digests.add(version_of(item))
            texts += {item.text, item.content}
    # Also a fact that was replaced or ended, and is held by its history only.
    texts += store.texts_of(namespace, ids).values()
    store.verdicts.forget_chunks(namespace, texts)
    store.forget(namespace, ids, texts)
    store.seen.remove(namespace, digests)
    for item_id in ids:
        store.seen.forget_records(namespace, id=item_id)
