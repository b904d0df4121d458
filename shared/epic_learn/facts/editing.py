"""Facts of the user: held whatever the preferences are, and edited by what is said later.

A fact bypasses coarse filter and verification: "I work night shifts" matters although no preference is near it. It is
found by its text and by exact words, and never evicted. A new fact with the words of an older one changes nothing. What
else it may do to an older one, replace or end it (`facts.matching`), the memory's language model decides, if it
has one; else both are held, and the change is proposed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from epic_learn.facts.matching import matched
from epic_learn.tables import EditTable, ProposalTable, was_decided
from epic_learn.types import Edit, EditKind, Proposal, plain
from epic_memory.encoders.base import Embed
from epic_memory.errors import BudgetError, InvalidInputError
from epic_memory.pipeline.eviction import make_room
from epic_memory.pipeline.light_tier import item_bytes
from epic_memory.pipeline.removal import drop_expired
from epic_memory.pipeline.session import Session
from epic_memory.runtime.effects import Clock, Effects
from epic_memory.storage.namespace import CommittedRows, Namespace
from epic_memory.types import BuildReport, FloatArray, Item
from epic_memory.types.items import QUESTIONS
from epic_memory.types.metadata import dumped_metadata
from epic_memory.types.validation import checked_moment

if TYPE_CHECKING:
    from epic_learn.facts.reader import Compared
    from epic_memory.lm.base import LanguageModel

MOST_FACTS = 100
"""Most facts of a namespace: they are not evicted, so they are few."""
LONGEST_FACT = 1000
"""Most characters of a fact."""
_FILLING, _SLACK = 2, 6_000
# In the history no edit quotes a fact that is not its own: that may be forgotten.
_ANOTHER = "another fact"
_BY_MODEL: dict[str, tuple[EditKind, str]] = {
    "same": ("duplicate", "it says the same"),
    "over": ("end", "it says that this is over"),
    "update": ("replace", "it changes this"),
}


def made_fact(
    fact: str | Item,
    type: str,
    subclass: str,
    metadata: Mapping[str, Any] | None,
    expires_at: datetime | str | None,
) -> Item:
    """Return a fact of the user as an item, from the arguments of `memory.facts.add`.

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
    vectors: FloatArray = yield Embed(encoder, [item.content for item in items], "embedding")
    if session.budget is not None:
        needed = _FILLING * sum(2 * item_bytes(item) for item in items) + _SLACK
        make_room(session, needed, report, clock)
    answers = yield from _asked(session, items, vectors, report)
    if answers:
        items = [
            replace(item, metadata={**item.metadata, QUESTIONS: list(answers[item.id][0].questions)})
            if item.id in answers and answers[item.id][0].questions
            else item
            for item in items
        ]
        vectors = yield Embed(encoder, [item.searched for item in items], "embedding")
    started = time.perf_counter()
    edits: list[Edit] = []
    with session.changing(encoder, rows := CommittedRows()) as space:
        known = _facts(session, space)
        for item, vector in zip(items, vectors, strict=True):
            edit, proposal = _decided(item, known)
            if edit.kind == "insert" and item.id in answers and (told := _by_model(item, *answers[item.id], known)):
                edit, proposal = told, None
            edit = _applied(session, edit, vector, known, rows)
            named = _ANOTHER if proposal is None else repr(proposal.old)
            edits.append(replace(edit, reason=edit.reason.replace(_ANOTHER, named)))
            _propose(session, proposal)
        _check_number(known)
        rows.incomplete = any(edit.old is not None or edit.displaced is not None for edit in edits)
    clock.add("index", started)
    report.seen += len(items)
    report.duplicates += sum(edit.kind == "duplicate" for edit in edits)
    report.facts += sum(edit.kind in ("insert", "replace") for edit in edits)
    report.edits += edits


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


def change_fact(session: Session, fact: Item | None, old: str, also: Callable[[], None]) -> Effects[None]:
    """Write a fact in place of the one with the text `old`, or end that one if there is no new one.

    `also` is called in the same transaction.

    Raises:
        InvalidInputError: for a text that is too long for a fact.
    """
    new, text = ([], "") if fact is None else ([fact], fact.text)
    check_length(text)
    vectors: FloatArray = yield Embed(session.encoder, [item.content for item in new], "embedding")
    with session.changing(session.encoder) as space:
        known = _facts(session, space)
        gone = next((held for held in known if held.item.text == old), None)
        rows, unheld = CommittedRows(), list[str]()
        for item, vector in zip(new, vectors, strict=True):
            if gone is not None and item.id in (held.item.id for held in known):
                continue
            edit, proposal = _decided(item, known)
            if gone is not None:
                edit = Edit(kind="replace", item=item, old=gone.item, reason="the user said so")
            else:
                _propose(session, proposal)
            _applied(session, edit, vector, known, rows)
            unheld += [text] if edit.kind in ("duplicate", "end") else []
        if gone in known and gone.item.text != text:
            # Nothing takes its place, or what does is held already.
            over = Edit(kind="end", item=gone.item, old=gone.item, reason="the user said so")
            _applied(session, over, gone.vector, known, rows)
        _check_number(known)
        also()
        # No words stay that no fact has, and that nobody could ask to forget.
        still = {plain(held.item.text) for held in known}
        ProposalTable(session.store).withdraw(session.namespace, [each for each in unheld if plain(each) not in still])


def _check_number(known: Sequence[_Held]) -> None:
    if len(known) > MOST_FACTS:
        raise BudgetError(
            f"{MOST_FACTS} facts are the most, and there would be {len(known)}. Nothing was written. Forget some:"
            " memory.facts are those, memory.forget(id) removes one."
        )


def _asked(
    session: Session, items: Sequence[Item], vectors: FloatArray, report: BuildReport
) -> Effects[dict[str, tuple[Compared, str]]]:
    """Ask the memory's language model, if it has one, about facts whose words do not tell what they change.

    Returns:
        Id of a new fact to what was read of it, and the id of the fact that it does something to; empty for none.
    """
    reader = session.reader
    lm: LanguageModel | None = getattr(reader, "lm", None)
    if lm is None:
        return {}
    # Models and what asks them are imported where there is one.
    from epic_learn.facts.reader import MOST_SHOWN, read_facts

    with session.lock, session.store.reading():
        known = _facts(session, session.space())
    unsure: list[tuple[Item, list[Item]]] = []
    for item, vector in zip(items, vectors, strict=True) if known else ():
        if _decided(item, known)[0].kind == "insert":
            near = sorted(known, key=lambda held: -float(held.vector @ vector))[:MOST_SHOWN]
            unsure.append((item, [held.item for held in near]))
    if not unsure:
        return {}
    asked = [(item.text, [held.text for held in near]) for item, near in unsure]
    readings = yield from read_facts(lm, asked, report)
    return {
        item.id: (reading, "" if reading.decision == "new" else near[reading.number - 1].id)
        for (item, near), reading in zip(unsure, readings, strict=True)
    }


def _by_model(item: Item, reading: Compared, old_id: str, known: Sequence[_Held]) -> Edit | None:
    """Return the edit that a model's answer calls for, or None if there is none or the fact it is about has gone."""
    held = next((held for held in known if held.item.id == old_id), None)
    if held is None:
        return None
    kind, what = _BY_MODEL[reading.decision]
    return Edit(kind=kind, item=item, old=held.item, reason=f"the language model: {what}")


def _facts(session: Session, space: Namespace) -> list[_Held]:
    rows = sorted(space.facts)
    held = space.held(rows)
    vectors = space.texts.vectors[space.texts.places(rows)]
    return [
        _Held(row=row, item=held[row].item, vector=vector.copy()) for row, vector in zip(rows, vectors, strict=True)
    ]


def _applied(session: Session, edit: Edit, vector: FloatArray, known: list[_Held], rows: CommittedRows) -> Edit:
    """Write one edit, keep the list of facts in step, and return it with its number."""
    if edit.kind == "duplicate":
        return edit
    store, namespace = session.store, session.namespace
    if edit.old is not None:
        gone = next(held for held in known if held.item is edit.old)
        marked = "version" if gone.item.id == edit.item.id and edit.kind != "end" else "item"
        store.items.remove(namespace, [gone.item.id], marked=marked)
        known.remove(gone)
        if edit.kind == "end" or plain(gone.item.text) != plain(edit.item.text):
            ProposalTable(store).withdraw(namespace, [gone.item.text])
    if edit.kind != "end":
        found = store.items.known(namespace, [edit.item.id]).get(edit.item.id)
        if found is not None:
            # What was held, or waited to be verified, as an item is a fact from now on.
            edit = replace(edit, displaced=found.item)
            store.items.remove(namespace, [edit.item.id], marked="version")
        rows.texts.append(store.items.put_all(namespace, [edit.item], vector[None]))
        known.append(_Held(row=rows.texts[-1].rows[0], item=edit.item, vector=vector))
    edit = replace(edit, at=time.time())
    return replace(edit, id=EditTable(store).put(namespace, edit))


def _propose(session: Session, proposal: Proposal | None) -> None:
    """Keep a proposal as open, unless it is open already or was decided before."""
    store, namespace = session.store, session.namespace
    if proposal is None or was_decided(proposal, ProposalTable(store).decided(namespace)):
        return
    if ProposalTable(store).find(namespace, proposal.id) is None:
        ProposalTable(store).put(namespace, proposal, "open")


def _decided(item: Item, known: Sequence[_Held]) -> tuple[Edit, Proposal | None]:
    """Return what a new fact does to those that are held, and what is proposed besides."""
    for held in known:
        if held.item.id == item.id:
            same = held.item.text == item.text and held.item.expires_at == item.expires_at
            # By the metadata that the user gave.
            if same and {**held.item.metadata, QUESTIONS: None} == {**item.metadata, QUESTIONS: None}:
                return Edit(kind="duplicate", item=item, old=held.item, reason="it is held already"), None
            return Edit(kind="replace", item=item, old=held.item, reason="it has the same id"), None
    match = matched(item.text, [held.item.text for held in known])
    if match is None:
        return Edit(kind="insert", item=item, reason="nothing held is about the same thing"), None
    old = known[match.place]
    if match.sure:
        return Edit(kind="duplicate", item=item, old=old.item, reason="it says the same"), None
    proposal = Proposal(
        kind="end_fact" if match.kind == "end" else "update_fact",
        text="" if match.kind == "end" else item.text,
        old=old.item.text,
        quote=item.text,
        confidence=match.share,
        # A proposal is of whoever worded the fact: who is to decide must not take an assistant's for their own.
        source="agent" if item.metadata.get("origin") == "assistant" else "facts",
        expires_at=item.expires_at,
    )
    change = {"end": "ends", "duplicate": "repeats"}.get(match.kind, "changes")
    unsure = f"perhaps it {change} {_ANOTHER}: a proposal waits"
    return Edit(kind="insert", item=item, reason=unsure), proposal
