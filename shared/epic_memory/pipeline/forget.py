"""Forgetting items: their entries, texts, verdicts, history and traces leave the file."""

from __future__ import annotations

from collections.abc import Sequence

from epic_memory.errors import UnknownItemError
from epic_memory.pipeline.expiry import drop_expired
from epic_memory.pipeline.ingest import chunked
from epic_memory.pipeline.session import Session
from epic_memory.storage.namespace import CommittedRows
from epic_memory.storage.tables.items import version_of
from epic_memory.types import Item


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
            _forget_traces(session, everything, ids)
            for item_id in ids:
                row = store.items.row(namespace, item_id)
                if row is not None:
                    rows.gone += space.rows_of.get(row, [])
                    rows.gone_items.append(row)
            store.items.remove(namespace, ids)
    # Not before: what has expired and was not removed yet can be forgotten, too.
    drop_expired(session)
    store.give_back()
    return held


def _with_chunks(session: Session, item: str | Item) -> list[str | Item]:
    """Return an item, the chunks it is cut into, and the chunks it is held in."""
    item_id = item.id if isinstance(item, Item) else item
    cut: list[str | Item] = list(chunked(session, [item])) if isinstance(item, Item) else []
    chunks = [key for key in session.store.items.chunks_from(session.namespace, {item_id: 0}) if key != item_id]
    own = (
        [] if chunks and item_id not in session.store.items.known(session.namespace, [item_id]) and not cut else [item]
    )
    return [*own, *cut, *chunks]


def _checked_known(session: Session, items: Sequence[str | Item]) -> int:
    ids = [item for item in items if isinstance(item, str)]
    known, recorded = (
        session.store.items.known(session.namespace, ids),
        session.store.seen.recorded(session.namespace, ids),
    )
    edited = session.store.edits.texts_of(session.namespace, ids)
    for item_id in ids:
        if item_id not in known and item_id not in recorded and item_id not in edited:
            raise UnknownItemError(
                f"Nothing is known of an item with the id {item_id!r}. To forget that one was seen which was not kept,"
                " give the item itself (`memory.forget(Item(...))`)."
            )
    every = {item.id if isinstance(item, Item) else item for item in items}
    return len(session.store.items.known(session.namespace, sorted(every)))


def _forget_traces(session: Session, items: Sequence[str | Item], ids: Sequence[str]) -> None:
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
    texts += store.edits.texts_of(namespace, ids).values()
    store.verdicts.forget_chunks(namespace, texts)
    store.proposals.forget(namespace, texts)
    store.edits.forget(namespace, ids)
    store.seen.remove(namespace, digests)
    for item_id in ids:
        store.seen.forget_records(namespace, item_id=item_id)
