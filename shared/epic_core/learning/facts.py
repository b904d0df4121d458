"""Facts about the user: statements that no preference has to call for."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from epic_core.encoders.base import Embed
from epic_core.filters import Filter
from epic_core.pipeline.light_tier import item_bytes, trim
from epic_core.pipeline.session import Session
from epic_core.runtime.effects import Effects
from epic_core.types import FloatArray, Item, stable_id

_IS_FACT = Filter.eq("memory_type", "fact")


def facts(session: Session) -> list[Item]:
    """Return the facts that are held, oldest first."""
    with session.lock, session.store.reading():
        rows = sorted(session.space().items_matching(_IS_FACT))
        held = session.store.items.at(rows)
    return [held[row] for row in rows]


def write_fact(
    session: Session, text: str, old: str, expires_at: datetime | None, also: Callable[[], None]
) -> Effects[None]:
    """Write a fact in place of another one, or end one if the text is empty, and call `also` in the same transaction.

    A fact is an ordinary item of the light tier with `memory_type` "fact" in its metadata.
    """
    gone = [item.id for item in facts(session) if old and item.text == old]
    encoder = session.encoder
    vectors: FloatArray = yield Embed(encoder, [text] if text else [], "embedding")
    until = {} if expires_at is None else {"expires_at": expires_at.isoformat()}
    new = [Item(id=stable_id("fact", text), text=text, metadata={"memory_type": "fact", **until})] if text else []
    if new and session.reserve:
        trim(session, sum(map(item_bytes, new)))
    with session.changing(encoder):
        session.store.items.remove(session.namespace, [*gone, *(item.id for item in new)])
        for item, vector in zip(new, vectors, strict=True):
            session.store.items.put(session.namespace, item, vector)
        if gone:
            session.store.proposals.forget(session.namespace, [old])
        also()
    session.store.give_back()
