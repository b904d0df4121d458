"""Facts of the user: held whatever the preferences are, and edited by what is said later.

A fact bypasses coarse filter and verification: "I work night shifts" matters although no preference is near it. It is
found by its text and by exact words, and never evicted. A new fact that updates an older one replaces it; one that says
that something is over ends it; one that says the same again changes nothing (`pipeline.fact_matching`). Where words do
not tell, the memory's language model is asked, if it has one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from epic_core.encoders.base import Embed
from epic_core.errors import BudgetError, InvalidInputError
from epic_core.pipeline.eviction import make_room
from epic_core.pipeline.expiry import drop_expired
from epic_core.pipeline.fact_matching import matched
from epic_core.pipeline.light_tier import item_bytes
from epic_core.pipeline.session import Session
from epic_core.runtime.effects import Clock, Effects
from epic_core.storage.namespace import CommittedRows, Namespace
from epic_core.text.statements import CHANGES, statement_of
from epic_core.types import BuildReport, FloatArray, Item
from epic_core.types.edits import Edit, EditKind
from epic_core.types.metadata import dumped_metadata
from epic_core.types.proposals import plain
from epic_core.types.validation import checked_moment
from epic_core.verification.base import base_verifier

if TYPE_CHECKING:
    from epic_core.lm.base import LanguageModel
    from epic_core.pipeline.fact_reader import Relation

MOST_FACTS = 100
"""Most facts of a namespace: they are not evicted, so they are few."""
LONGEST_FACT = 1000
"""Most characters of a fact."""
# From which cosine on statements are one.
_SAME = 0.97
_FILLING, _SLACK = 2, 6_000


def made_fact(
    fact: str | Item,
    type: str,
    subclass: str,
    metadata: Mapping[str, Any] | None,
    expires_at: datetime | str | None,
) -> Item:
    """Return a fact of the user as an item, from the arguments of `EpicMemory.add_fact`.

    Raises:
        InvalidInputError: for arguments that cannot be.
    """
    item = Item.of(fact)
    more = {"memory_type": type, "memory_subclass": subclass}
    for name, value in more.items():
        if not isinstance(value, str):
            raise InvalidInputError(f"{name} must be a text, not {value!r}.")
    if metadata is not None and not isinstance(metadata, Mapping):
        raise InvalidInputError(f"metadata must be a mapping, not {metadata!r}.")
    return replace(
        item,
        metadata={**item.metadata, **(metadata or {}), **{name: value for name, value in more.items() if value}},
        expires_at=item.expires_at if expires_at is None else checked_moment(expires_at),
        fact=True,
    )


@dataclass(frozen=True, kw_only=True)
class _Held:
    row: int
    item: Item
    vector: FloatArray


def add_facts(session: Session, items: Sequence[Item], report: BuildReport, clock: Clock) -> Effects[None]:
    """Take facts in, each edited into those that are held, in one transaction.

    Raises:
        InvalidInputError: for a text that is too long for a fact.
        BudgetError: if there are too many facts, or the budget has no room; nothing is written then.
    """
    for item in items:
        dumped_metadata(item.metadata, item.id)
        check_length(item.text)
    drop_expired(session)
    encoder = session.encoder
    vectors: FloatArray = yield Embed(encoder, [item.text for item in items], "embedding")
    if session.budget is not None:
        needed = _FILLING * sum(2 * item_bytes(item) for item in items) + _SLACK
        yield from make_room(session, needed, report, clock)
    answers = yield from _asked(session, items, vectors, report)
    started = time.perf_counter()
    edits: list[Edit] = []
    with session.changing(encoder, rows := CommittedRows()) as space:
        known = _facts(session, space)
        for item, vector in zip(items, vectors, strict=True):
            edit, gone = _decided(item, vector, known)
            if edit.kind == "insert" and item.id in answers:
                edit, gone = _by_model(item, answers[item.id], known) or (edit, gone)
            edits.append(_applied(session, edit, gone, vector, known, rows))
        _check_number(known)
        rows.incomplete = any(edit.old is not None or edit.displaced is not None for edit in edits)
    clock.add("index", started)
    report.seen += len(items)
    report.duplicates += sum(edit.kind == "duplicate" for edit in edits)
    report.facts += sum(edit.kind in ("insert", "replace") for edit in edits)
    report.edits += edits


def _holds(known: Sequence[_Held], text: str) -> bool:
    return any(plain(held.item.text) == plain(text) for held in known)


def check_length(text: str) -> None:
    """Raise InvalidInputError for a text that is too long for a fact."""
    if len(text) > LONGEST_FACT:
        raise InvalidInputError(
            f"A fact is a short statement of at most {LONGEST_FACT} characters; {text[:40]!r}... has {len(text)}."
            " Add it as an item: memory.add(...)."
        )


def facts_of(session: Session) -> list[Item]:
    """Return the facts that are held, oldest first."""
    with session.lock, session.store.reading():
        return [held.item for held in _facts(session, session.space())]


def change_fact(
    session: Session, text: str, old: str, expires_at: datetime | None, also: Callable[[], None]
) -> Effects[None]:
    """Write a fact in place of a certain one, or end that one if the text is empty.

    Args:
        session: The memory's.
        text: The new fact; empty for none.
        old: The text of the fact that it takes the place of; empty for none.
        expires_at: When the new fact stops to hold; None for never.
        also: Called in the same transaction.

    Raises:
        InvalidInputError: for a text that is too long for a fact.
    """
    check_length(text)
    new = [Item(text=text, fact=True, expires_at=expires_at)] if text else []
    vectors: FloatArray = yield Embed(session.encoder, [item.text for item in new], "embedding")
    with session.changing(session.encoder) as space:
        known = _facts(session, space)
        gone = next((held for held in known if held.item.text == old), None)
        rows, unheld = CommittedRows(), list[str]()
        for item, vector in zip(new, vectors, strict=True):
            edit, other = _decided(item, vector, known)
            if gone is not None and item.id != gone.item.id:
                edit, other = Edit(kind="replace", item=item, old=gone.item, reason="the user said so"), gone
            _applied(session, edit, other, vector, known, rows)
            unheld += [text] if edit.kind in ("duplicate", "end") else []
        if gone is not None and not new:
            over = Edit(kind="end", item=gone.item, old=gone.item, reason="the user said so")
            _applied(session, over, gone, gone.vector, known, rows)
        _check_number(known)
        also()
        # No words stay that no fact has, and that nobody could ask to forget.
        session.store.proposals.withdraw(session.namespace, [each for each in unheld if not _holds(known, each)])


def _check_number(known: Sequence[_Held]) -> None:
    if len(known) > MOST_FACTS:
        raise BudgetError(
            f"{MOST_FACTS} facts are the most, and there would be {len(known)}. Nothing was written. Forget some:"
            " memory.facts() lists them, memory.forget(id) removes one."
        )


def _asked(
    session: Session, items: Sequence[Item], vectors: FloatArray, report: BuildReport
) -> Effects[dict[str, tuple[Relation, str]]]:
    """Ask the memory's language model, if it has one, about facts whose words do not tell what they change.

    Returns:
        Id of a new fact to what it does, and the id of the fact that it does that to.
    """
    reader = base_verifier(session.verifier).aspect_reader if session.expander is None else session.expander
    lm: LanguageModel | None = getattr(reader, "lm", None)
    if lm is None:
        return {}
    # Models and what asks them are imported where there is one.
    from epic_core.pipeline.fact_reader import MOST_SHOWN, read_facts

    with session.lock, session.store.reading():
        known = _facts(session, session.space())
    unsure: list[tuple[Item, list[Item]]] = []
    for item, vector in zip(items, vectors, strict=True) if known else ():
        if _decided(item, vector, known)[0].kind == "insert":
            near = sorted(known, key=lambda held: -float(held.vector @ vector))[:MOST_SHOWN]
            unsure.append((item, [held.item for held in near]))
    if not unsure:
        return {}
    asked = [(item.text, [held.text for held in near]) for item, near in unsure]
    readings = yield from read_facts(lm, asked, report)
    return {
        item.id: (reading.relation, near[reading.place].id)
        for (item, near), reading in zip(unsure, readings, strict=True)
        if reading.place >= 0
    }


def _by_model(item: Item, answer: tuple[Relation, str], known: Sequence[_Held]) -> tuple[Edit, _Held | None] | None:
    """Return the edit that a model's answer calls for, or None if the fact it is about has gone in the meantime."""
    relation, old_id = answer
    held = next((held for held in known if held.item.id == old_id), None)
    if held is None:
        return None
    if relation == "same":
        return Edit(kind="duplicate", item=item, old=held.item, reason="the language model: it says the same"), None
    if relation == "over":
        return Edit(kind="end", item=item, old=held.item, reason="the language model: it says that this is over"), held
    return Edit(kind="replace", item=item, old=held.item, reason="the language model: it changes this"), held


def _facts(session: Session, space: Namespace) -> list[_Held]:
    rows = sorted(space.facts)
    held = space.held(session.store, rows)
    vectors = space.texts.vectors[space.texts.places(rows)]
    return [
        _Held(row=row, item=held[row].item, vector=vector.copy()) for row, vector in zip(rows, vectors, strict=True)
    ]


def _applied(
    session: Session, edit: Edit, gone: _Held | None, vector: FloatArray, known: list[_Held], rows: CommittedRows
) -> Edit:
    """Write one edit, keep the list of facts in step, and return it with its number."""
    if edit.kind == "duplicate":
        return edit
    store, namespace = session.store, session.namespace
    if gone is not None:
        store.items.remove(namespace, [gone.item.id])
        known.remove(gone)
        if edit.kind == "end" or plain(gone.item.text) != plain(edit.item.text):
            store.proposals.withdraw(namespace, [gone.item.text])
    if edit.kind != "end":
        found = store.items.known(namespace, [edit.item.id]).get(edit.item.id)
        if found is not None:
            # What was held, or waited to be verified, as an item is a fact from now on.
            edit = replace(edit, displaced=found.item)
            store.items.remove(namespace, [edit.item.id])
        row = store.items.put(namespace, edit.item, vector)
        rows.texts.append(row)
        known.append(_Held(row=row, item=edit.item, vector=vector))
    edit = replace(edit, at=time.time())
    return replace(edit, id=store.edits.put(namespace, edit))


def _decided(item: Item, vector: FloatArray, known: Sequence[_Held]) -> tuple[Edit, _Held | None]:
    """Return what a new fact does to those that are held, and the one that goes for it."""
    for held in known:
        if held.item.id == item.id:
            same = held.item.text == item.text and held.item.expires_at == item.expires_at
            if same and held.item.metadata == item.metadata:
                return Edit(kind="duplicate", item=item, old=held.item, reason="it is held already"), None
            return Edit(kind="replace", item=item, old=held.item, reason="it has the same id"), held
    near = np.array([held.vector @ vector for held in known], dtype=np.float32)
    if len(near) and near.max() >= _SAME:
        old = known[int(near.argmax())]
        if statement_of(item.text).values == statement_of(old.item.text).values:
            return Edit(kind="duplicate", item=item, old=old.item, reason="it says the same"), None
    match = matched(item.text, [held.item.text for held in known])
    if match is not None:
        old = known[match.place]
        edit = Edit(kind=match.kind, item=item, old=old.item, reason=_reason(match.kind, item.text))
        return edit, None if match.kind == "duplicate" else old
    return Edit(kind="insert", item=item, reason="nothing held is about the same thing"), None


def _reason(kind: EditKind, text: str) -> str:
    if kind == "duplicate":
        return "it says the same"
    signs = statement_of(text).signs
    if kind == "end" or "ended" in signs:
        return "it says it is over"
    return "it says that this has changed" if signs & CHANGES else "it has another value for the same thing"
