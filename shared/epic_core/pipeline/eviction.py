"""Eviction under a byte budget: which items are shortened, judged again, or removed (docs/memory.md, "A budget")."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epic_core.encoders.base import Embed
from epic_core.errors import BudgetError, InvalidInputError, decoding
from epic_core.pipeline.commit import write
from epic_core.pipeline.light_tier import leave
from epic_core.pipeline.session import Session
from epic_core.pipeline.verify import VerdictBatches, outcome_of
from epic_core.retention.policies import Held, Positions, choose
from epic_core.runtime.effects import Clock, Effects
from epic_core.storage.namespace import Addition
from epic_core.storage.tables.entries import verifier_number
from epic_core.storage.tables.items import HeldItem, version_of
from epic_core.storage.tables.seen import EVICTED
from epic_core.storage.vector_codec import unpacked
from epic_core.text.extract import shortened
from epic_core.types import BuildReport, Candidate, FloatArray, Stance
from epic_core.types.reports import NotKept
from epic_core.verification.base import base_verifier

_ROUNDS = 30
# The share of the budget that the light tier frees at least when there is no room.
_LIGHT_SHARE = 20
_ROW = 120
_LONG = 300
_WORTH = 0.75
_JUDGED_AGAIN = 16
_STANCES = {str(stance): number for number, stance in enumerate(Stance)}


@dataclass(frozen=True, kw_only=True)
class Weighed:
    """The entries of a namespace with what each weighs.

    Attributes:
        held: The entries.
        sizes: Bytes that each frees, shape `(n,)`; an item's bytes are shared by its entries.
        verifiers: Numbers of those that decided, shape `(n,)`.
    """

    held: Held
    sizes: NDArray[np.int64]
    verifiers: NDArray[np.int64]


def missing_bytes(session: Session, needed: int) -> int:
    """Return how many of the bytes needed are not free; negative if there is room."""
    assert session.budget is not None
    count, free, page = session.store.pages()
    return (count - free) * page + needed - session.budget.pages(page) * page


def make_room(session: Session, needed: int, report: BuildReport) -> Effects[bool]:
    """Free so many bytes, and tell whether they are free now.

    What goes is chosen by the retention policy, its share at a time. Of what would go, the entries the verifier was
    least sure of are judged again if a language model has not judged them yet, and their items are shortened; only
    then they go.
    """
    assert session.budget is not None
    for _ in range(_ROUNDS):
        with session.lock:
            missing = missing_bytes(session, needed)
            # More than is missing, so that the next items find room, too. What goes leaves gaps, too small for a page.
            while missing > 0 and (gone := leave(session, max(missing, session.budget.total // _LIGHT_SHARE))):
                report.no_room += gone
                missing = missing_bytes(session, needed)
        if missing <= 0:
            return True
        session.write_uses()
        with session.lock, session.store.reading():
            weighed = weigh(session)
        doomed = _doomed(session, weighed, missing)
        if not len(doomed):
            return False
        spared = yield from _judge_again(session, weighed, doomed, report)
        spared |= _shorten(session, weighed, doomed, report)
        rows = [int(row) for row in weighed.held.rows[doomed] if int(row) not in spared]
        reason = f"the least valuable by {session.retention.name} when there was no room"
        report.evicted += evict(session, rows, reason)
    return missing_bytes(session, needed) <= 0


def weigh(session: Session) -> Weighed:
    """Return the entries of the own namespace, as a retention policy sees them."""
    store, dimension = session.store, session.encoder.dimension
    live = {None, *session.space().preference_rows}
    found = [entry for entry in store.entries.stored(session.namespace) if entry.preference in live]
    uses = store.entries.uses()
    items = np.array([entry.item for entry in found], dtype=np.int64)
    _, place, shared = np.unique(items, return_inverse=True, return_counts=True)
    with decoding(store.path):
        vectors = unpacked([entry.code for entry in found], dimension)
    used = [uses.get(entry.row) for entry in found]
    held = Held(
        rows=np.array([entry.row for entry in found], dtype=np.int64),
        items=items,
        preferences=np.array([-1 if one.preference is None else one.preference for one in found], dtype=np.int64),
        stances=np.array([_STANCES[entry.stance] for entry in found], dtype=np.int8),
        confidence=np.array([np.nan if one.confidence is None else one.confidence for one in found], dtype=np.float32),
        similarity=np.array([entry.similarity for entry in found], dtype=np.float32),
        uses=np.array([0 if one is None else one[0] for one in used], dtype=np.int64),
        used=np.array([np.nan if one is None else one[1] for one in used], dtype=np.float64),
        added=np.array([entry.added for entry in found], dtype=np.float64),
        vectors=vectors,
    )
    own = np.array([len(entry.code) + entry.text_bytes + _ROW for entry in found], dtype=np.int64)
    texts = np.array([entry.item_bytes + _ROW for entry in found], dtype=np.int64)
    return Weighed(
        held=held,
        sizes=own + texts // shared[place.reshape(-1)] if found else own,
        verifiers=np.array([entry.verifier for entry in found], dtype=np.int64),
    )


def _doomed(session: Session, weighed: Weighed, missing: int) -> Positions:
    held = weighed.held
    try:
        order = np.asarray(session.retention.order(held, time.time())).astype(np.intp, casting="same_kind")
    except TypeError as error:
        raise InvalidInputError(
            f"The retention policy {session.retention.name!r} must return positions, whole numbers; {error}."
        ) from None
    # What is missing is reckoned anew after each round: half of it at a time, so that no more goes than has to.
    goal = max(missing // 2, int(session.retention.share * int(weighed.sizes.sum())))
    # Floors that took more than half of what is held would leave no room for anything new.
    preferences = max(1, len(np.unique(held.preferences)))
    floor = min(session.floor, len(held) // 2 // preferences)
    return choose(order, held, weighed.sizes, goal, floor)


def _unsure(weighed: Weighed, doomed: Positions) -> Positions:
    """Return the entries that the verifier was less sure of than of the median entry."""
    confidence = weighed.held.confidence
    known = confidence[~np.isnan(confidence)]
    middle = float(np.median(known)) if len(known) else 1.0
    return doomed[~(confidence[doomed] >= middle)]


def _shorten(session: Session, weighed: Weighed, doomed: Positions, report: BuildReport) -> set[int]:
    """Shorten the items of entries that would go, and return the rows of the entries that stay therefore."""
    rows = {int(weighed.held.items[position]) for position in _unsure(weighed, doomed)}
    spared: set[int] = set()
    store, namespace = session.store, session.namespace
    with session.lock, store.reading():
        long = [row for row, held in store.items.held_at(sorted(rows)).items() if len(held.item.text) >= _LONG]
    if not long:
        return spared
    with session.changing(session.encoder):
        for row, held in store.items.held_at(long).items():
            entries = store.entries.lines(row)
            text = _shorter(held, [held.rewrite or columns["instruction"] for _, columns in entries])
            if text is None:
                continue
            store.verdicts.forget_chunks(namespace, [held.item.text])
            store.shorten(row, text)
            report.shortened += 1
            spared.update(entry for entry, _ in entries)
    return spared


def _shorter(held: HeldItem, instructions: Sequence[str]) -> str | None:
    """Return a shorter text if it saves enough; None if not, or if the text was shortened before."""
    text = held.item.text
    if len(text) < _LONG or not all(instructions) or version_of(held.item) != held.digest:
        return None
    less = shortened(text, instructions)
    return less if len(less) <= _WORTH * len(text) else None


def _judge_again(session: Session, weighed: Weighed, doomed: Positions, report: BuildReport) -> Effects[set[int]]:
    """Let a language model judge what another verifier kept, and return the rows of the entries that stay therefore."""
    verifier = session.verifier
    if not base_verifier(verifier).cached:
        return set()
    other = _unsure(weighed, doomed)
    other = other[weighed.verifiers[other] != verifier_number(verifier.name)][:_JUDGED_AGAIN]
    held = weighed.held
    with session.lock, session.store.reading():
        space = session.space()
        position_of = {row: position for position, row in enumerate(space.preference_rows)}
        items = session.store.items.at([int(row) for row in held.items[other]])
        asked: list[tuple[int, int, float]] = []
        for position in other.tolist():
            row, preference = int(held.items[position]), int(held.preferences[position])
            if row in items and preference in position_of:
                asked.append((row, position_of[preference], float(held.similarity[position])))
        preferences, vectors = list(space.preferences), space.vectors
    embeddings: FloatArray = yield Embed(session.encoder, [items[row].text for row, _, _ in asked], "embedding")
    candidates = [
        Candidate(
            item=items[row],
            embedding=embedding,
            preferences=(preferences[place],),
            similarities=(similarity,),
            preference_embeddings=vectors[[place]],
        )
        for (row, place, similarity), embedding in zip(asked, embeddings, strict=True)
    ]
    kept: set[tuple[str, str | None]] = set()
    again = BuildReport(usage=report.usage)
    verdicts = VerdictBatches(session, candidates, again)
    while (batch := (yield from verdicts.next_batch())) is not None:
        outcome = yield from outcome_of(session, session.encoder, verdicts.verifier, batch.decided, batch.new, again)
        # What it does not keep goes anyway; what it cannot say stays as it was judged.
        outcome.discarded, outcome.undecided, outcome.records, outcome.rejected = [], [], [], []
        try:
            write(session, outcome, BuildReport(), Clock())
        except BudgetError:
            continue  # no room for what it says: then they go
        kept.update((item.id, entry.preference_id) for item, entries in outcome.kept for entry in entries)
    with session.lock, session.store.reading():
        spared: set[int] = set()
        for item_id, preference_id in kept:
            item_row = session.store.items.row(session.namespace, item_id)
            if item_row is not None:
                entries = session.store.entries.preferences_of(item_row)
                spared |= {entries[preference_id]} if preference_id in entries else set()
        return spared


def evict(session: Session, rows: Sequence[int], reason: str | None) -> int:
    """Remove entries, and the items nothing else holds, in one transaction; return how many went.

    Args:
        session: The memory's.
        rows: The entries.
        reason: What is put on record; None for nothing.
    """
    if not rows:
        return 0
    with session.lock:
        with session.changing(session.encoder) as space:
            addition = _remove(session, rows, reason)
        space.apply(addition)
    return len(addition.gone)


def _remove(session: Session, rows: Sequence[int], reason: str | None) -> Addition:
    store, namespace = session.store, session.namespace
    known = store.preferences.at(namespace)
    found = store.entries.stored(namespace, rows)
    items = store.items.held_at(sorted({entry.item for entry in found}))
    store.entries.remove([entry.row for entry in found])
    store.drop_orphans(list(items))
    left = store.items.present(list(items))
    gone = [held for row, held in items.items() if row not in left]
    seen = [held.digest for held in gone]
    forgotten = store.seen.add(namespace, seen) > 0
    store.verdicts.forget_chunks(namespace, [held.item.text for held in gone])
    if reason is not None:
        records = []
        for entry in found:
            held, preference = items[entry.item], entry.preference
            text = known[preference].text if preference in known else ""
            record = NotKept(
                item_id=held.item.id,
                text=held.item.text,
                stage=EVICTED,
                reason=reason,
                preference=text,
                similarity=float(entry.similarity),
            )
            records.append((held.digest, record))
        store.seen.put_records(namespace, records, {each.text: row for row, each in known.items()})
    return Addition(
        gone=[entry.row for entry in found],
        gone_items=[row for row in items if row not in left],
        seen=seen,
        forgotten=forgotten,
        sums=store.sums(),
    )
