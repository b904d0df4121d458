"""Commits: the outcome of verification written in one transaction, then taken into the index."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from epic_core.encoders.base import Encoder
from epic_core.errors import RetryQueueFullError
from epic_core.pipeline.light_tier import remove
from epic_core.pipeline.rewrites import Rewrite, put_rewrite
from epic_core.pipeline.session import Session
from epic_core.runtime.effects import Clock
from epic_core.storage.namespace import Addition, Namespace
from epic_core.storage.tables.entries import NewEntry
from epic_core.storage.tables.items import version_of
from epic_core.types import BuildReport, Candidate, FloatArray, Item, Preference, Verdict
from epic_core.types.reports import NotKept


@dataclass(kw_only=True)
class Outcome:
    """The rows to be written for some items in one transaction, and the encoder of their vectors.

    Attributes:
        vectors: E(x) of what is kept, by item id.
        rejected: What was discarded, with E(x), for the light tier.
        light: Those of them that the light tier takes.
        leaving: Rows of the items that leave the light tier for them.
        version: The name of the verifier.
        verdicts: What is to be remembered of its verdicts.
        asked: The preferences that new verdicts are about.
        rewrites: Item id to rewritten text, of kept items.
        retried: Whether the items come from the retry queue.
        records: Of what was discarded, some with the reasons, by their digests.
        unread: Whether a model is still to read the preference that is written with it.
    """

    kept: list[tuple[Item, list[NewEntry]]] = field(default_factory=list)
    vectors: dict[str, FloatArray] = field(default_factory=dict)
    rejected: list[tuple[Item, FloatArray]] = field(default_factory=list)
    light: list[tuple[Item, FloatArray]] = field(default_factory=list)
    leaving: list[int] = field(default_factory=list)
    undecided: list[tuple[Item, str, list[str]]] = field(default_factory=list)
    discarded: list[Item] = field(default_factory=list)
    stale: list[str] = field(default_factory=list)
    encoder: Encoder
    version: str = ""
    verdicts: list[tuple[Candidate, Verdict]] = field(default_factory=list)
    asked: list[Preference] = field(default_factory=list)
    rewrites: dict[str, Rewrite] = field(default_factory=dict)
    retried: bool = False
    records: list[tuple[bytes, NotKept]] = field(default_factory=list)
    unread: bool = False


def write(session: Session, outcome: Outcome, report: BuildReport, clock: Clock) -> bool:
    """Commit an outcome and take it into the index.

    Returns:
        Whether a text was rewritten for a preference that has gone in the meantime.

    Raises:
        RetryQueueFullError: if not all undecided items found room; everything else is written.
    """
    started = time.perf_counter()
    with session.lock:
        with session.changing(outcome.encoder) as space:
            writing = _Writing(session, space)
            turned_away = writing.turn_away(outcome)
            writing.clear_the_way(outcome)
            for item, reason, preference_ids in outcome.undecided:
                session.store.retry_queue.put(session.namespace, item, reason, preference_ids)
            remove(session, [row for row in outcome.leaving if space.light(row)], writing.addition)
            for item, embedding in outcome.light:
                writing.light(item, embedding)
            for item, entries in outcome.kept:
                writing.keep(item, entries, outcome.rewrites.get(item.id), outcome.vectors.get(item.id))
            session.store.verdicts.remember(session.namespace, outcome.version, outcome.verdicts)
            writing.note(outcome)
            outrun = writing.forget_gone(outcome)
            writing.addition.sums = session.store.sums()
        if writing.removed:
            session.store.give_back()
        else:
            space.apply(writing.addition)
    report.kept += writing.kept
    report.entries += writing.entries
    report.discarded += len(outcome.kept) - writing.kept
    report.undecided -= len(turned_away)
    clock.add("index", started)
    if turned_away:
        raise RetryQueueFullError(
            f"The retry queue is full: {session.retry_queue} items wait in it, and {len(turned_away)} more are"
            f" undecided (first {turned_away[0][0].id!r}). These and the items after them were not taken in. The last"
            f" reason was: {turned_away[-1][1][:300]} Mend it, call memory.retry(), then add the same items again."
        )
    return outrun


class _Writing:
    """The writing of one outcome, inside its transaction.

    Attributes:
        addition: The rows added, for the index.
        removed: Whether rows were removed or changed too, so that the index has to be read again.
        kept, entries: How many were written.
    """

    def __init__(self, session: Session, space: Namespace) -> None:
        self._store, self._namespace, self._room = session.store, session.namespace, session.retry_queue
        self._preference_rows = {p.id: row for p, row in zip(space.preferences, space.preference_rows, strict=True)}
        self._preference_texts = {p.text: row for p, row in zip(space.preferences, space.preference_rows, strict=True)}
        self._held: dict[str, int] = {}
        self.addition = Addition()
        self.removed = False
        self.kept = self.entries = 0

    def turn_away(self, outcome: Outcome) -> list[tuple[Item, str, list[str]]]:
        """Remove the undecided items that the retry queue has no room for from the outcome, and return them.

        Held versions of these items stay as they are.
        """
        if outcome.retried:
            self._drop_outdated(outcome)
        coming = len(outcome.undecided)
        if not coming or self._store.retry_queue.count(self._namespace) + coming <= self._room:
            return []
        waiting = {item.id for item, _, _ in self._store.retry_queue.waiting(self._namespace)}
        decided = {item.id for item in [*(i for i, _ in outcome.kept), *outcome.discarded]}
        # What waits already keeps its place, what was decided leaves it.
        room = max(0, self._room - len(waiting - decided))
        turned_away = [triple for triple in outcome.undecided if triple[0].id not in waiting][room:]
        gone = {item.id for item, _, _ in turned_away}
        outcome.undecided = [triple for triple in outcome.undecided if triple[0].id not in gone]
        return turned_away

    def clear_the_way(self, outcome: Outcome) -> None:
        """Remove earlier versions of the items, whatever was decided about the new ones."""
        items = [
            *(item for item, _ in outcome.kept),
            *(item for item, _, _ in outcome.undecided),
            *(item for item, _ in outcome.light),
            *outcome.discarded,
        ]
        known = self._store.items.known(self._namespace, [item.id for item in items])
        for item in items:
            if item.id in known and known[item.id].is_version(item):
                row = self._store.items.row(self._namespace, item.id)
                if row is not None:
                    # The same item, held under other preferences: it stays.
                    self._held[item.id] = row
        undecided = {item.id: item.text for item, _, _ in outcome.undecided}
        # A model that failed is no reason to forget a text that has not changed.
        gone = [i for i in known if i not in self._held and undecided.get(i) != known[i].text]
        current = {item.id: item.text for item in items}
        outdated = [held.text for i, held in known.items() if held.text != current[i]]
        outdated += [held.text for held in self._store.items.known(self._namespace, outcome.stale).values()]
        self._store.verdicts.forget_chunks(self._namespace, outdated)
        self._store.items.remove(self._namespace, [*gone, *outcome.stale])
        for item in outcome.discarded + [item for item, _ in outcome.kept]:
            self._store.retry_queue.drop(self._namespace, item.id)
        self.removed = bool(outcome.stale) or any(known[item_id].state == "held" for item_id in gone)

    def _drop_outdated(self, outcome: Outcome) -> None:
        """Forget verdicts about versions that were replaced while they were being verified again."""
        items = [*(i for i, _ in outcome.kept), *(i for i, _, _ in outcome.undecided), *outcome.discarded]
        items += [item for item, _ in outcome.light]
        current = {item.id for item in items if self._store.items.is_current(self._namespace, item)}
        outcome.kept = [pair for pair in outcome.kept if pair[0].id in current]
        outcome.undecided = [triple for triple in outcome.undecided if triple[0].id in current]
        outcome.light = [pair for pair in outcome.light if pair[0].id in current]
        outcome.discarded = [item for item in outcome.discarded if item.id in current]

    def light(self, item: Item, embedding: FloatArray) -> None:
        """Write an item of the light tier."""
        if item.id not in self._held:
            self._put(item, embedding)

    def _put(self, item: Item, embedding: FloatArray | None) -> int:
        row = self._store.items.put(self._namespace, item, embedding)
        if embedding is not None:
            self.addition.texts.append(row)
            self.addition.text_crcs.append(self._store.items.crc(row))
            self.addition.text_vectors.append(embedding)
        return row

    def keep(self, item: Item, entries: list[NewEntry], rewrite: Rewrite | None, embedding: FloatArray | None) -> None:
        """Write an item's entries, those whose preference has not gone in the meantime."""
        alive = [e for e in entries if e.preference_id is None or e.preference_id in self._preference_rows]
        if not alive:
            return
        row = self._held.get(item.id)
        if row is None:
            row = self._put(item, embedding)
        else:
            earlier = self._store.entries.preferences_of(row)
            again = [earlier[entry.preference_id] for entry in alive if entry.preference_id in earlier]
            self._store.entries.remove(again)
            self._store.items.promote(row)
            self.removed = True
        self.kept += 1
        recorded = self._store.seen.recorded(self._namespace, [item.id])
        if recorded:
            # What is held was not kept before: that is over, and its earlier versions are forgotten.
            self._store.seen.remove(self._namespace, recorded[item.id])
            self._store.seen.forget_records(self._namespace, item_id=item.id)
            self.addition.forgotten = True
        for entry in alive:
            entry_row, crc = self._store.entries.add(row, self._preference_rows.get(entry.preference_id or ""), entry)
            self.addition.rows.append(entry_row)
            self.addition.crcs.append(crc)
            self.addition.items.append(row)
            self.addition.preferences.append(
                -1 if entry.preference_id is None else self._preference_rows[entry.preference_id]
            )
            self.addition.stances.append(entry.stance)
            self.addition.vectors.append(entry.vector)
            self.entries += 1
        if rewrite is not None:
            put_rewrite(self._store, self._namespace, item, row, rewrite, alive[0].vector)
            self.removed = True

    def note(self, outcome: Outcome) -> None:
        """Write the digests of discarded items to the ledger, and the reasons of a sample."""
        if self._store.seen.kept != 0:
            seen = [version_of(item) for item in outcome.discarded]
            self.addition.seen += seen
            self.addition.forgotten |= self._store.seen.add(self._namespace, seen) > 0
        self._store.seen.put_records(self._namespace, outcome.records, self._preference_texts)

    def forget_gone(self, outcome: Outcome) -> bool:
        """Forget verdicts under preferences that were removed meanwhile; tell whether a text was rewritten for one."""
        rewritten = [preference for rewrite in outcome.rewrites.values() for preference in rewrite.preferences]
        for preference in {p.id: p for p in outcome.asked + rewritten if p.id not in self._preference_rows}.values():
            self._store.verdicts.forget_preference(self._namespace, preference)
        return any(preference.id not in self._preference_rows for preference in rewritten)
