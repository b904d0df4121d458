"""Commits: what was decided about some items, written in one transaction and then taken into the index."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from epic_memory.encoders.base import Encoder
from epic_memory.errors import RetryQueueFullError
from epic_memory.pipeline.light_tier import admitted, remove
from epic_memory.pipeline.session import Session
from epic_memory.runtime.effects import Clock
from epic_memory.storage.namespace import CommittedRows, Namespace
from epic_memory.storage.tables.entries import NewEntry, PlacedEntry
from epic_memory.storage.tables.items import HeldItem, version_of
from epic_memory.types import BuildReport, Candidate, FloatArray, Item, Preference, Verdict
from epic_memory.types.reports import NotKept


@dataclass(frozen=True, kw_only=True)
class KeptItem:
    """An item to be kept, with its entries and E(x)."""

    item: Item
    entries: list[NewEntry]
    vector: FloatArray


@dataclass(kw_only=True)
class WriteBatch:
    """The rows to be written for some items in one transaction, and the encoder of their vectors.

    Attributes:
        rejected: What was discarded, with E(x), for the light tier.
        unjudged: What is undecided, with E(x), for the light tier meanwhile.
        light: Those of them that the light tier takes.
        leaving: Rows of the items that leave the light tier for them.
        undecided: Items with the reason and the ids of the preferences that they are to be verified under.
        stale: Ids of items that their documents do not have any more.
        version: The name of the verifier.
        verdicts: What is to be remembered of its verdicts.
        asked: The preferences that new verdicts are about.
        retried: Whether the items were in the memory before: what has gone or changed since then is left out.
        queued: Whether they go on waiting in the retry queue, if they do.
        records: Of what was discarded, some with the reasons, by their digests.
        versions: Digests of items, by id, where they are known already.
        placed: Ids of the items that the memory holds once it is written, in either tier.
    """

    encoder: Encoder
    kept: list[KeptItem] = field(default_factory=list)
    rejected: list[tuple[Item, FloatArray]] = field(default_factory=list)
    unjudged: list[tuple[Item, FloatArray]] = field(default_factory=list)
    light: list[tuple[Item, FloatArray]] = field(default_factory=list)
    leaving: list[int] = field(default_factory=list)
    undecided: list[tuple[Item, str, list[str]]] = field(default_factory=list)
    discarded: list[Item] = field(default_factory=list)
    stale: list[str] = field(default_factory=list)
    version: str = ""
    verdicts: list[tuple[Candidate, Verdict]] = field(default_factory=list)
    asked: list[Preference] = field(default_factory=list)
    retried: bool = False
    queued: bool = False
    records: list[tuple[bytes, NotKept]] = field(default_factory=list)
    versions: Mapping[str, bytes] = field(default_factory=dict)
    placed: set[str] = field(default_factory=set)

    def items(self) -> list[Item]:
        """Return all items that it is about."""
        items = [kept.item for kept in self.kept]
        items += [item for item, _, _ in self.undecided]
        items += [item for item, _ in self.light]
        return items + self.discarded


def written(session: Session, batch: WriteBatch, report: BuildReport, clock: Clock) -> None:
    """Write a batch (Eq. 6), with what the light tier takes of what was rejected, or waits for a verdict.

    Raises:
        RetryQueueFullError: as `write`.
        BudgetError: if a byte budget has no room for a single entry.
    """
    if batch.rejected or batch.unjudged:
        with session.lock, session.store.reading():
            if batch.unjudged:
                there = session.store.items.known(
                    session.namespace, [item.id for item, _ in batch.unjudged], waiting=False
                )
                # What is held as it is asks for no room.
                batch.unjudged = [
                    (item, vector)
                    for item, vector in batch.unjudged
                    if item.id not in there or not there[item.id].is_version(item)
                ]
            batch.light, batch.leaving = admitted(session, session.space(), [*batch.rejected, *batch.unjudged])
        waiting = {item.id for item, _ in batch.unjudged}
        taken = sum(item.id not in waiting for item, _ in batch.light)
        report.light += taken
        report.no_room += len(batch.rejected) - taken + len(batch.leaving)
    if session.budget is None:
        write(session, batch, report, clock)
    else:
        # Eviction writes itself.
        from epic_memory.pipeline.eviction import written_within_budget

        written_within_budget(session, batch, report, clock)


def write(session: Session, batch: WriteBatch, report: BuildReport, clock: Clock) -> None:
    """Commit a batch and take it into the index.

    Raises:
        RetryQueueFullError: if not all undecided items found room; everything else is written.
    """
    started = time.perf_counter()
    with session.lock:
        with session.changing(batch.encoder, rows := CommittedRows()) as space:
            if batch.retried:
                _drop_outdated(session, batch)
            refused = _refuse_undecided(session, batch) if batch.undecided else []
            held = _remove_earlier(session, space, batch, rows)
            for item, reason, preference_ids in batch.undecided:
                session.store.retry_queue.put(session.namespace, item, reason, preference_ids)
            if batch.leaving:
                remove(session, [row for row in batch.leaving if row in space.light_rows], rows)
            kept = _put(session, space, batch, held, rows)
            _record(session, space, batch, rows)
        if rows.incomplete:
            session.store.give_back()
    report.kept += kept
    report.entries += sum(len(entries.rows) for entries in rows.entries)
    report.discarded += len(batch.kept) - kept
    report.undecided -= len(refused)
    clock.add("index", started)
    if refused:
        raise RetryQueueFullError(
            f"The retry queue is full: {session.retry_queue} items wait in it, and {len(refused)} more are"
            f" undecided (first {refused[0][0].id!r}). These and the items after them were not taken in. The last"
            f" reason was: {refused[-1][1][:300]} Mend it, call memory.retry(), then add the same items again."
        )


def lasting_verdicts(session: Session, batch: WriteBatch) -> list[tuple[Candidate, Verdict]]:
    """Return the verdicts of a batch, without those on items that have gone or changed. Call it under the lock."""
    if not batch.retried:
        return batch.verdicts
    items, namespace = session.store.items, session.namespace
    return [one for one in batch.verdicts if items.is_current(namespace, one[0].item)]


def _drop_outdated(session: Session, batch: WriteBatch) -> None:
    """Forget verdicts about versions that were replaced while they were being verified again."""
    items, namespace = session.store.items, session.namespace
    current = {item.id for item in batch.items() if items.is_current(namespace, item)}
    batch.kept = [kept for kept in batch.kept if kept.item.id in current]
    batch.undecided = [triple for triple in batch.undecided if triple[0].id in current]
    batch.light = [pair for pair in batch.light if pair[0].id in current]
    batch.discarded = [item for item in batch.discarded if item.id in current]


def _refuse_undecided(session: Session, batch: WriteBatch) -> list[tuple[Item, str, list[str]]]:
    """Remove the undecided items that the retry queue has no room for from the batch, and return them.

    Held versions of these items stay as they are.
    """
    queue, namespace = session.store.retry_queue, session.namespace
    if queue.count(namespace) + len(batch.undecided) <= session.retry_queue:
        return []
    waiting = {item.id for item, _, _ in queue.waiting(namespace)}
    decided = {item.id for item in [*(kept.item for kept in batch.kept), *batch.discarded]}
    # What waits already keeps its place, what was decided leaves it.
    room = max(0, session.retry_queue - len(waiting - decided))
    refused = [triple for triple in batch.undecided if triple[0].id not in waiting][room:]
    gone = {item.id for item, _, _ in refused}
    batch.undecided = [triple for triple in batch.undecided if triple[0].id not in gone]
    batch.light = [pair for pair in batch.light if pair[0].id not in gone]
    return refused


def _remove_earlier(
    session: Session, space: Namespace, batch: WriteBatch, rows: CommittedRows
) -> dict[str, tuple[int, HeldItem]]:
    """Remove earlier versions of the items, whatever was decided about the new ones.

    Returns:
        Id to row and item, of those that are held in the same version: under other preferences, or by their texts.
    """
    store, namespace = session.store, session.namespace
    items = batch.items()
    known = store.items.known(namespace, [item.id for item in items], waiting=space.has_rows("pending"))
    held: dict[str, tuple[int, HeldItem]] = {}
    if known:
        undecided = {item.id: item.content for item, _, _ in batch.undecided}
        for item in items:
            found = known.get(item.id)
            if found is not None and not found.waits and found.is_version(item):
                row = store.items.row(namespace, item.id)
                held |= {} if row is None else {item.id: (row, found)}
        # A model that failed is no reason to forget a text that has not changed.
        gone = [key for key in known if key not in held and undecided.get(key) != known[key].item.content]
        earlier = store.items.rows_of(namespace, [key for key in known if key not in held and key not in gone])
        light = {item.id for item, _ in batch.light}
        # With other metadata: what was kept is found until the new version is judged, what waits itself is replaced.
        renewed = [key for key, row in earlier.items() if key in light and row in space.light_rows]
        store.items.remove(namespace, renewed, waiting=False, marked="version")
        batch.light = [pair for pair in batch.light if pair[0].id in renewed or pair[0].id not in earlier]
        current = {item.id: item.content for item in items}
        store.verdicts.forget_chunks(
            namespace, [one.item.content for key, one in known.items() if one.item.content != current[key]]
        )
        store.items.remove(namespace, gone, marked="version")
        rows.incomplete = bool(renewed) or any(not known[key].waits for key in gone)
    if batch.stale:
        stale = store.items.known(namespace, batch.stale).values()
        store.verdicts.forget_chunks(namespace, [one.item.content for one in stale])
        store.items.remove(namespace, batch.stale, marked="item")
        rows.incomplete = True
    if not batch.queued and space.has_rows("pending"):
        store.retry_queue.delete_ids(
            namespace, [item.id for item in (*batch.discarded, *(one.item for one in batch.kept))]
        )
    return held


def _put(
    session: Session,
    space: Namespace,
    batch: WriteBatch,
    held: Mapping[str, tuple[int, HeldItem]],
    rows: CommittedRows,
) -> int:
    """Write items of both tiers, and entries (Eq. 6); return how many items were kept.

    An entry whose preference has gone in the meantime is left out, and so is an item of which none is left.
    """
    store, namespace = session.store, session.namespace
    place = {one.id: (row, one.text) for one, row in zip(space.preferences, space.preference_rows, strict=True)}
    alive = [
        (kept, [one for one in kept.entries if one.preference_id is None or one.preference_id in place])
        for kept in batch.kept
    ]
    alive = [(kept, entries) for kept, entries in alive if entries]
    new = [*batch.light, *((kept.item, kept.vector) for kept, _ in alive)]
    new = [(item, vector) for item, vector in new if item.id not in held]
    at = {key: (row, one.item.text) for key, (row, one) in held.items()}
    if new:
        items, vectors = [item for item, _ in new], np.stack([vector for _, vector in new])
        rows.texts.append(store.items.put_all(namespace, items, vectors, batch.versions))
        numbered = zip(new, rows.texts[-1].rows, strict=True)
        at.update((item.id, (row, item.text)) for (item, _), row in numbered)
    for kept, entries in alive:
        if kept.item.id in held:
            earlier = store.entries.preferences_of(at[kept.item.id][0])
            store.entries.delete_rows([earlier[e.preference_id] for e in entries if e.preference_id in earlier])
            rows.incomplete = True
    if space.has_rows("not_kept"):
        # What is kept now was not kept before: that is over, and its earlier versions are forgotten.
        for item_id, digests in store.seen.recorded(namespace, [kept.item.id for kept, _ in alive]).items():
            store.seen.remove(namespace, digests)
            store.seen.forget_records(namespace, id=item_id)
            rows.forgotten = True
    placed = []
    for kept, entries in alive:
        item_row, text = at[kept.item.id]
        for entry in entries:
            row, preference = place.get(entry.preference_id or "", (None, ""))
            placed.append(PlacedEntry(entry, item_row, row, (text, preference)))
    if placed:
        rows.entries.append(store.entries.put_all(placed))
    batch.placed |= {item.id for item, _ in batch.light} | {kept.item.id for kept, _ in alive}
    return len(alive)


def _record(session: Session, space: Namespace, batch: WriteBatch, rows: CommittedRows) -> None:
    """Write new verdicts, the digests of what was discarded, and the reasons for a sample of it."""
    store, namespace = session.store, session.namespace
    if batch.verdicts:
        store.verdicts.remember(namespace, batch.version, lasting_verdicts(session, batch))
    if batch.discarded and store.seen.kept != 0:
        seen = [batch.versions.get(item.id) or version_of(item) for item in batch.discarded]
        rows.seen += seen
        rows.forgotten |= store.seen.add(namespace, seen) > 0
    live = dict(zip(space.preferences, space.preference_rows, strict=True))
    if batch.records:
        store.seen.put_records(namespace, batch.records, {one.text: row for one, row in live.items()})
    # Verdicts under preferences that were removed meanwhile.
    for preference in {one.id: one for one in batch.asked}.values():
        if preference.id not in {one.id for one in live}:
            store.verdicts.forget_preference(namespace, preference)
