"""Preferences added to, replaced in and removed from a memory that holds items."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from epic_memory.encoders.base import Embed, Encoder
from epic_memory.errors import BudgetError, DuplicatePreferenceError, InvalidInputError, RetryQueueFullError
from epic_memory.pipeline.aspects import read_preferences, reread_preferences, restate
from epic_memory.pipeline.coarse_filter import (
    Expanded,
    broken_in,
    candidate_of,
    coarse_filter,
    expanded_phrases,
    similarity,
)
from epic_memory.pipeline.commit import WriteBatch
from epic_memory.pipeline.eviction import make_room
from epic_memory.pipeline.ingest import settle
from epic_memory.pipeline.removal import drop_expired, take_away
from epic_memory.pipeline.session import Session
from epic_memory.pipeline.verify import VerdictBatches, batch_of, remember
from epic_memory.preferences.evidence import broken_by
from epic_memory.preferences.foreign import warn_of_unread
from epic_memory.runtime.effects import Clock, Effects
from epic_memory.runtime.telemetry import Progress
from epic_memory.storage.codecs import rounded
from epic_memory.storage.namespace import Namespace
from epic_memory.storage.tables.entries import PlacedEntry
from epic_memory.types import BuildReport, Candidate, FloatArray, Preference

# Standard deviations, times the root of the dimension, that a cosine with E(x) as it is stored may differ at most.
_CODED = 1.0
# About how many bytes an entry takes besides its texts.
_ENTRY = 600


class _New(NamedTuple):
    """A preference to be written, with E(p), whether a model is still to read it, and the one it replaces.

    `also` is called in the transaction in which it comes into force.
    """

    preference: Preference
    vector: FloatArray
    unread: bool
    replacing: Preference | None
    also: Callable[[], None] | None


def add_preference(
    session: Session,
    preference: Preference,
    report: BuildReport,
    clock: Clock,
    progress: Progress,
    *,
    replacing: Preference | None = None,
    also: Callable[[], None] | None = None,
) -> Effects[None]:
    """Add a preference, or put it in another's place, and match the held items with it.

    `also` is called in the transaction that puts it in force.
    """
    if preference.expires_at is not None and preference.expires_at.timestamp() <= time.time():
        raise InvalidInputError(f"The preference {preference.text!r} has expired already.")
    drop_expired(session)
    with session.lock:
        _check_new(session.space(), preference, replacing)
        encoder, versions = session.encoder, session.store.items.versions(session.namespace)
    yield from reread_preferences(session, report)
    ((preference, unread),) = yield from read_preferences(session, [preference], report)
    warn_of_unread(report, [preference], encoder)
    # As the file will give it back: later items are matched with that.
    vectors: FloatArray = rounded((yield Embed(encoder, [preference.text], "embedding")))
    expanded = yield from expanded_phrases(session, encoder, [preference])
    candidates = yield from _matching(session, encoder, versions, preference, vectors, expanded, clock)
    report.seen, report.passed = len(versions), len(candidates)
    batch = WriteBatch(encoder=encoder)
    progress.expect(len(candidates))
    verdicts = VerdictBatches(session, candidates, report)
    while (decided := (yield from verdicts.next_batch())) is not None:
        part = yield from batch_of(session, encoder, verdicts.verifier, decided, report, retried=True)
        # The preference is written with all it holds, at once; what a model said on the way is kept all the same.
        remember(session, part)
        batch.kept += part.kept
        batch.undecided += part.undecided
        progress.advance(len(decided.decided))
    new = _New(preference, vectors[0], unread, replacing, also)
    now = _put_in_force(session, new, batch, versions, report, clock)
    # Items that came while the others were being verified.
    late = {row: version for row, version in now.items() if versions.get(row) != version}
    candidates = yield from _matching(session, encoder, late, preference, vectors, expanded, clock)
    uncounted = BuildReport(usage=report.usage)
    yield from settle(session, encoder, candidates, uncounted, clock, Progress(), retried=True, queued=True)


def replace_preference(
    session: Session,
    old: str | Preference,
    preference: Preference,
    report: BuildReport,
    clock: Clock,
    progress: Progress,
    *,
    also: Callable[[], None] | None = None,
) -> Effects[None]:
    """Put a preference in another's place as `add_preference` adds one."""
    with session.lock:
        space = session.space()
        replacing = space.preferences[space.find(old)]
    if replacing.id == preference.id and replacing.means(preference):
        # Another spelling, or another end: what is held for it stays, and what was said of it that it does not bring.
        encoder = session.encoder
        vectors: FloatArray = yield Embed(encoder, [preference.text], "embedding")
        with session.changing(encoder) as space:
            session.store.set_preference(session.namespace, preference, vectors[0])
            restate(session, space, preference)
            if also is not None:
                also()
    else:
        yield from add_preference(session, preference, report, clock, progress, replacing=replacing, also=also)


def remove_preference(
    session: Session,
    preference: str | Preference,
    report: BuildReport,
    clock: Clock,
    progress: Progress,
    *,
    also: Callable[[], None] | None = None,
) -> Effects[None]:
    """Remove a preference, its entries, and the items nothing else holds; call `also` in the same transaction."""
    drop_expired(session)
    with session.lock:
        space = session.space()
        found = space.preferences[space.find(preference)]
    take_away(session, found, also=also)
    session.store.give_back()
    yield from ()


def _put_in_force(
    session: Session,
    new: _New,
    batch: WriteBatch,
    versions: Mapping[int, int],
    report: BuildReport,
    clock: Clock,
) -> dict[int, int]:
    """Write a preference with all that it holds, in place of another's; return the versions of the items then.

    Where a budget has no room for that, some is made; what does not fit all the same is not held for the preference.
    """
    made = False
    while True:
        started = time.perf_counter()
        try:
            with session.changing(batch.encoder) as space:
                _check_new(space, new.preference, new.replacing)
                waiting = session.store.retry_queue.count(session.namespace)
                if batch.undecided and waiting + len(batch.undecided) > session.retry_queue:
                    raise RetryQueueFullError(
                        f"{len(batch.undecided)} held items are undecided under {new.preference.text!r}, and the retry"
                        f" queue takes {session.retry_queue}. Nothing was changed. The last reason was:"
                        f" {batch.undecided[-1][1][:300]} Mend it, and do it again: what was decided is remembered."
                    )
                now, placed = _write(session, space, new, batch, versions)
            break
        except BudgetError:
            if session.budget is None or (made and not batch.kept):
                raise
            texts = (entry.instruction + entry.rationale for kept in batch.kept for entry in kept.entries)
            needed = sum(_ENTRY + len(text.encode()) for text in texts)
            # Room for more than is written at once would cost the items that are to be held for the preference.
            if fits := needed <= session.budget.written_at_once:
                make_room(session, needed, report, clock)
            if made or not fits:
                report.evicted += len(batch.kept) - len(batch.kept) // 2
                batch.kept = batch.kept[: len(batch.kept) // 2]
            made |= fits
    report.kept += len({one.item for one in placed})
    report.entries += len(placed)
    clock.add("index", started)
    if new.replacing is not None:
        session.store.give_back()
    return now


def _matching(
    session: Session,
    encoder: Encoder,
    versions: Mapping[int, int],
    preference: Preference,
    vectors: FloatArray,
    expanded: Sequence[Expanded],
    clock: Clock,
) -> Effects[list[Candidate]]:
    """Return the items in some rows that pass the coarse filter of a preference.

    Only those are read and embedded that are near to it by E(x) as the file keeps it, which differs little from E(x).
    """
    if not versions or not (session.settings.coarse or session.settings.fine):
        return []
    tau = session.taus([preference]) if session.settings.coarse else np.full(1, -1.0, dtype=np.float32)
    with session.lock:
        space, rows = session.space(look=False), np.fromiter(versions, dtype=np.int64)
        if session.settings.coarse and not broken_by(preference.expansion):
            places = space.texts.places(rows)
            near = similarity(space.texts.vectors, vectors, expanded)[places, 0]
            rows = rows[(places < 0) | (near >= tau - _CODED / np.sqrt(encoder.dimension))]
        items = list(session.store.items.at(rows.tolist()).values())
    embeddings: FloatArray = yield Embed(encoder, [item.content for item in items], "embedding")
    started = time.perf_counter()
    named = broken_in([item.content for item in items], [preference])
    passing = np.flatnonzero(coarse_filter(embeddings, vectors, tau, expanded=expanded, named=named)).tolist()
    clock.add("coarse filter", started)
    return [candidate_of(items[row], embeddings[row], [0], [preference], vectors) for row in passing]


def _write(
    session: Session,
    space: Namespace,
    new: _New,
    batch: WriteBatch,
    versions: Mapping[int, int],
) -> tuple[dict[int, int], list[PlacedEntry]]:
    """Write a preference and what it holds, and take out the one it replaces.

    Returns:
        The versions of the items, and the entries that were written.
    """
    store, namespace = session.store, session.namespace
    position: int | None = None
    left: list[int] = []
    if new.replacing is not None:
        old = space.preference_rows[space.find(new.replacing)]
        position, left = store.take_out(namespace, old, new.replacing.id)
        for addition in store.additions:
            addition.follow(namespace, new.replacing.id, new.preference.id)
    preference = store.preferences.add(namespace, new.preference, new.vector, position=position, unread=new.unread)
    # What was discarded was discarded under the others.
    store.seen.clear(namespace)
    # What has gone, or has another text by now, is left out.
    now = store.items.versions(namespace)
    row_of = store.items.rows_of(namespace, [kept.item.id for kept in batch.kept])
    placed = [
        PlacedEntry(entry, row, preference, (kept.item.text, new.preference.text))
        for kept in batch.kept
        if (row := row_of.get(kept.item.id)) is not None and now.get(row, -1) == versions.get(row)
        for entry in kept.entries
    ]
    if placed:
        store.entries.put_all(placed)
    for item, reason, ids in batch.undecided:
        store.retry_queue.put(namespace, item, reason, ids)
    # Last: an item that only the old preference held may be held by the new one.
    store.drop_orphans(left, keep_texts=session.reserve > 0)
    if new.also is not None:
        new.also()
    return now, placed


def _check_new(space: Namespace, preference: Preference, replacing: Preference | None) -> None:
    held = {each.id for each in space.preferences} - {None if replacing is None else replacing.id}
    if preference.id in held:
        raise DuplicatePreferenceError(f"The preference {preference.text!r} is held already.")
