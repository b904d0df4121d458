"""Commits: what was decided about some items, written in one transaction and then taken into the index."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from epic_memory.encoders.base import Encoder
from epic_memory.errors import RetryQueueFullError
from epic_memory.pipeline.light_tier import remove
from epic_memory.pipeline.session import Session
from epic_memory.runtime.effects import Clock
from epic_memory.storage.namespace import CommittedRows, Namespace
from epic_memory.storage.tables.entries import NewEntry
from epic_memory.storage.tables.items import version_of
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
    """

    encoder: Encoder
    kept: list[KeptItem] = field(default_factory=list)
    rejected: list[tuple[Item, FloatArray]] = field(default_factory=list)
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

    def items(self) -> list[Item]:
        """Return all items that it is about."""
        items = [kept.item for kept in self.kept]
        items += [item for item, _, _ in self.undecided]
        items += [item for item, _ in self.light]
        return items + self.discarded


def write(session: Session, batch: WriteBatch, report: BuildReport, clock: Clock) -> None:
    """Commit a batch and take it into the index.

    Raises:
        RetryQueueFullError: if not all undecided items found room; everything else is written.
    """
    started = time.perf_counter()
    with session.lock:
        with session.changing(batch.encoder, rows := CommittedRows()) as space:
            writing = _Writing(session, space, batch, rows)
            turned_away = writing.turn_away()
            writing.clear_the_way()
            for item, reason, preference_ids in batch.undecided:
                session.store.retry_queue.put(session.namespace, item, reason, preference_ids)
            remove(session, [row for row in batch.leaving if space.light(row)], rows)
            for item, embedding in batch.light:
                if item.id not in writing.held:
                    writing.put(item, embedding)
            for kept in batch.kept:
                writing.keep(kept)
            session.store.verdicts.remember(session.namespace, batch.version, lasting_verdicts(session, batch))
            writing.note()
            writing.forget_gone()
        if rows.incomplete:
            session.store.give_back()
    report.kept += writing.kept
    report.entries += len(rows.entries)
    report.discarded += len(batch.kept) - writing.kept
    report.undecided -= len(turned_away)
    clock.add("index", started)
    if turned_away:
        raise RetryQueueFullError(
            f"The retry queue is full: {session.retry_queue} items wait in it, and {len(turned_away)} more are"
            f" undecided (first {turned_away[0][0].id!r}). These and the items after them were not taken in. The last"
            f" reason was: {turned_away[-1][1][:300]} Mend it, call memory.retry(), then add the same items again."
        )


def lasting_verdicts(session: Session, batch: WriteBatch) -> list[tuple[Candidate, Verdict]]:
    """Return the verdicts of a batch, without those on items that have gone or changed. Call it under the lock."""
    if not batch.retried:
        return batch.verdicts
    items, namespace = session.store.items, session.namespace
    return [one for one in batch.verdicts if items.is_current(namespace, one[0].item)]


class _Writing:
    """The writing of one batch, inside its transaction.

    Attributes:
        held: The rows of items that are held in the same version, by their ids.
        kept: How many items were kept.
    """

    def __init__(self, session: Session, space: Namespace, batch: WriteBatch, rows: CommittedRows) -> None:
        self._store, self._namespace, self._room = session.store, session.namespace, session.retry_queue
        self._row_of = {p.id: row for p, row in zip(space.preferences, space.preference_rows, strict=True)}
        self._row_of_text = {p.text: self._row_of[p.id] for p in space.preferences}
        self._batch = batch
        self._rows = rows
        self._recorded = session.store.seen.recorded(session.namespace, [kept.item.id for kept in batch.kept])
        self.held: dict[str, int] = {}
        self.kept = 0

    def turn_away(self) -> list[tuple[Item, str, list[str]]]:
        """Remove the undecided items that the retry queue has no room for from the batch, and return them.

        Held versions of these items stay as they are.
        """
        batch = self._batch
        if batch.retried:
            self._drop_outdated()
        coming = len(batch.undecided)
        if not coming or self._store.retry_queue.count(self._namespace) + coming <= self._room:
            return []
        waiting = {item.id for item, _, _ in self._store.retry_queue.waiting(self._namespace)}
        decided = {item.id for item in [*(kept.item for kept in batch.kept), *batch.discarded]}
        # What waits already keeps its place, what was decided leaves it.
        room = max(0, self._room - len(waiting - decided))
        turned_away = [triple for triple in batch.undecided if triple[0].id not in waiting][room:]
        gone = {item.id for item, _, _ in turned_away}
        batch.undecided = [triple for triple in batch.undecided if triple[0].id not in gone]
        return turned_away

    def _drop_outdated(self) -> None:
        """Forget verdicts about versions that were replaced while they were being verified again."""
        batch = self._batch
        current = {item.id for item in batch.items() if self._store.items.is_current(self._namespace, item)}
        batch.kept = [kept for kept in batch.kept if kept.item.id in current]
        batch.undecided = [triple for triple in batch.undecided if triple[0].id in current]
        batch.light = [pair for pair in batch.light if pair[0].id in current]
        batch.discarded = [item for item in batch.discarded if item.id in current]

    def clear_the_way(self) -> None:
        """Remove earlier versions of the items, whatever was decided about the new ones."""
        batch, store, namespace = self._batch, self._store, self._namespace
        items = batch.items()
        known = store.items.known(namespace, [item.id for item in items])
        for item in items:
            if item.id in known and not known[item.id].waits and known[item.id].is_version(item):
                # The same item, held under other preferences: it stays.
                row = store.items.row(namespace, item.id)
                self.held |= {} if row is None else {item.id: row}
        undecided = {item.id: item.content for item, _, _ in batch.undecided}
        # A model that failed is no reason to forget a text that has not changed.
        gone = [key for key in known if key not in self.held and undecided.get(key) != known[key].item.content]
        current = {item.id: item.content for item in items}
        outdated = [held.item.content for key, held in known.items() if held.item.content != current[key]]
        outdated += [held.item.content for held in store.items.known(namespace, batch.stale).values()]
        store.verdicts.forget_chunks(namespace, outdated)
        store.items.remove(namespace, [*gone, *batch.stale])
        for item in [] if batch.queued else batch.discarded + [kept.item for kept in batch.kept]:
            store.retry_queue.drop(namespace, item.id)
        self._rows.incomplete = bool(batch.stale) or any(not known[key].waits for key in gone)

    def put(self, item: Item, embedding: FloatArray) -> int:
        """Write an item, and return its row."""
        row = self._store.items.put(self._namespace, item, embedding)
        self._rows.texts.append(row)
        return row

    def keep(self, kept: KeptItem) -> None:
        """Write an item's entries, those whose preference has not gone in the meantime."""
        store, item = self._store, kept.item
        alive = [e for e in kept.entries if e.preference_id is None or e.preference_id in self._row_of]
        if not alive:
            return
        row = self.held.get(item.id)
        if row is None:
            row = self.put(item, kept.vector)
        else:
            earlier = store.entries.preferences_of(row)
            store.entries.remove([earlier[e.preference_id] for e in alive if e.preference_id in earlier])
            store.items.promote(row)
            self._rows.incomplete = True
        self.kept += 1
        if item.id in self._recorded:
            # What is held was not kept before: that is over, and its earlier versions are forgotten.
            store.seen.remove(self._namespace, self._recorded[item.id])
            store.seen.forget_records(self._namespace, item_id=item.id)
            self._rows.forgotten = True
        for entry in alive:
            self._rows.entries.append(store.entries.add(row, self._row_of.get(entry.preference_id or ""), entry))

    def note(self) -> None:
        """Write the digests of discarded items to the ledger, and the reasons of a sample."""
        if self._store.seen.kept != 0:
            seen = [version_of(item) for item in self._batch.discarded]
            self._rows.seen += seen
            self._rows.forgotten |= self._store.seen.add(self._namespace, seen) > 0
        self._store.seen.put_records(self._namespace, self._batch.records, self._row_of_text)

    def forget_gone(self) -> None:
        """Forget verdicts under preferences that were removed meanwhile."""
        for preference in {p.id: p for p in self._batch.asked if p.id not in self._row_of}.values():
            self._store.verdicts.forget_preference(self._namespace, preference)
