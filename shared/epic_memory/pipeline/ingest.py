"""Construction: coarse filter, fine verification, instruction index, for one batch of items (section 3)."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import numpy as np

from epic_memory.encoders.base import Embed, Encoder
from epic_memory.errors import NoPreferencesError
from epic_memory.pipeline.aspects import reread_preferences
from epic_memory.pipeline.coarse_filter import (
    Expanded,
    broken_in,
    candidate_of,
    coarse_filter,
    expanded_phrases,
    similarity,
)
from epic_memory.pipeline.commit import WriteBatch, written
from epic_memory.pipeline.light_tier import trim
from epic_memory.pipeline.removal import drop_expired
from epic_memory.pipeline.session import Session
from epic_memory.pipeline.verify import VerdictBatches, batch_of
from epic_memory.preferences.foreign import languages_known
from epic_memory.runtime.effects import Clock, Effects
from epic_memory.runtime.optional import optional
from epic_memory.runtime.telemetry import Progress, counts_of, span
from epic_memory.storage.namespace import Namespace
from epic_memory.storage.tables.items import version_of
from epic_memory.text.language import foreign_among
from epic_memory.types import BuildReport, Candidate, FloatArray, Item, Preference
from epic_memory.types.reports import NotKept

# Most items of a batch whose language is determined.
_LOOKED_AT = 200
_VERDICTS = ("kept", "discarded", "undecided", "cached", "calls")


def add_batch(
    session: Session,
    batch: Sequence[Item],
    report: BuildReport,
    clock: Clock,
    progress: Progress,
    *,
    light: bool = True,
) -> Effects[None]:
    """Take one batch through the three stages and write it; what is not kept goes to the light tier if it may."""
    if any(item.fact for item in batch):
        yield from _add_facts(session, [item for item in batch if item.fact], report, clock)
        batch = [item for item in batch if not item.fact]
        if not batch:
            return
    if session.reader is not None:
        yield from reread_preferences(session, report)
    session.stamp_ledger()
    chunks = session.chunked(batch)
    if session.settings.tagger is not None:
        chunks = yield from _tagged(session, chunks, report)
    with session.lock:
        if session.has_expired(session.space(look=False)):
            drop_expired(session)
        with session.store.reading():
            space, encoder = session.space(), session.encoder
            preferences, vectors = list(space.preferences), space.vectors
            fresh, versions, gone_ids = _new_among(session, space, chunks, report)
    no_preferences = not preferences and (session.settings.coarse or session.settings.fine)
    if no_preferences and not (session.reserve and light):
        raise NoPreferencesError("The memory has no preferences yet. Add one first: memory.preferences.add('...').")
    allowed = yield from _allowed(session, fresh, report)
    # If a new version is ruled out, the earlier one goes too.
    gone_ids = [*gone_ids, *({item.id for item in fresh} - {item.id for item in allowed})]
    fresh = allowed
    _count_foreign(encoder, fresh, report)

    # E(x).
    embeddings: FloatArray = yield Embed(encoder, [item.content for item in fresh], "embedding")

    # Eq. 1-2, the coarse filter.
    expanded = yield from expanded_phrases(session, encoder, preferences)
    started = time.perf_counter()
    candidates, rejected = (
        # Nothing says what matters: it is kept for its text, and the first preference is matched with it later.
        ([], list(zip(fresh, embeddings, strict=True)))
        if no_preferences
        else coarse_stage(session, fresh, embeddings, preferences, vectors, expanded)
    )
    clock.add("coarse filter", started)
    report.passed += len(candidates)
    progress.begin(len(batch), len(chunks), done=len(chunks) - len(candidates))
    placed = set[str]()
    if rejected or gone_ids:
        rest = WriteBatch(encoder=encoder, rejected=rejected if light else [], stale=gone_ids, versions=versions)
        rest.discarded = [item for item, _ in rejected]
        rest.records = _below_tau(session, rejected, versions, preferences, vectors)
        written(session, rest, report, clock)
        placed |= rest.placed

    # Eq. 3-5, fine verification, and Eq. 6, the entries, as the verdicts come.
    placed |= yield from settle(session, encoder, candidates, report, clock, progress, light=light, versions=versions)
    yield from catch_up(session, encoder, fresh, embeddings, preferences, placed, report, clock, light=light)
    with session.lock:
        if session.reserve and session.space(look=False).light_rows and session.store.writable:
            report.no_room += trim(session)


def _add_facts(session: Session, facts: list[Item], report: BuildReport, clock: Clock) -> Effects[None]:
    """Add those facts that are not about a topic that is ruled out."""
    with session.lock:
        session.space()  # sees what another process has ruled out
    if facts := (yield from _allowed(session, facts, report)):
        yield from optional("epic_learn.facts.editing", "add_facts")(session, facts, report, clock)


def _tagged(session: Session, chunks: list[Item], report: BuildReport) -> Effects[list[Item]]:
    """Return chunks with the tags that the memory's tagger gives them."""
    with session.lock, session.store.reading():
        known = session.store.items.known(session.namespace, [chunk.id for chunk in chunks], waiting=False)
    held = [one.item for one in known.values()]
    tagged: list[Item] = yield from optional("epic_rerank.tags", "tagged")(
        session.settings.tagger, chunks, held, report
    )
    return tagged


def _count_foreign(encoder: Encoder, items: Sequence[Item], report: BuildReport) -> None:
    """Count items in languages that the encoder does not know."""
    known = languages_known(encoder)
    if items and known is not None:
        for language, count in foreign_among([item.text for item in items], known, _LOOKED_AT).items():
            report.foreign[language] = report.foreign.get(language, 0) + count


def _allowed(session: Session, items: list[Item], report: BuildReport) -> Effects[list[Item]]:
    """Return the items that are about no topic that is ruled out, and count the others."""
    with session.lock:
        if not session.rules():
            return items
    out = yield from optional("epic_learn.never", "ruled_out")(session, [item.content for item in items])
    report.kept_out += sum(out)
    return [item for item, is_out in zip(items, out, strict=True) if not is_out]


def catch_up(
    session: Session,
    encoder: Encoder,
    items: list[Item],
    embeddings: FloatArray,
    seen: Sequence[Preference],
    placed: set[str],
    report: BuildReport,
    clock: Clock,
    *,
    light: bool = True,
) -> Effects[None]:
    """Match a batch with the preferences that are not among those it has `seen`, such as those added meanwhile.

    Of the items that were `placed` in the memory, by their ids, those that are not there were forgotten meanwhile.
    """
    known = {preference.id for preference in seen}
    while True:
        with session.lock:
            space = session.space(look=False)
            rows = [row for row, preference in enumerate(space.preferences) if preference.id not in known]
            added, vectors = [space.preferences[row] for row in rows], space.vectors[rows]
        if not added or not items:
            return
        known.update(preference.id for preference in added)
        expanded = yield from expanded_phrases(session, encoder, added)
        candidates, _ = coarse_stage(session, items, embeddings, added, vectors, expanded)
        with session.lock:
            there = {item.id for item in items if session.store.items.is_current(session.namespace, item)}
        # Counted already: an item is kept or not once.
        uncounted = BuildReport(usage=report.usage)
        for retried in (True, False):
            wanted = there if retried else {item.id for item in items} - there - placed
            if some := [one for one in candidates if one.item.id in wanted]:
                placed |= yield from settle(
                    session, encoder, some, uncounted, clock, Progress(), retried=retried, queued=True, light=light
                )


def retry(session: Session, report: BuildReport, clock: Clock, progress: Progress) -> Effects[None]:
    """Verify the undecided items again: under the preferences they wait for, and those that came since."""
    drop_expired(session)
    yield from reread_preferences(session, report)
    with session.lock:
        encoder, space = session.encoder, session.space()
        store, namespace = session.store, session.namespace
        queue = store.retry_queue.waiting(namespace)
        preferences, vectors = list(space.preferences), space.vectors
        ids = [item.id for item, _, _ in queue]
        known, row_of = store.items.known(namespace, ids), store.items.rows_of(namespace, ids)
        # The preferences that an item is held for, in this version.
        held = {
            item.id: set(store.entries.preferences_of(row_of[item.id]))
            for item, _, _ in queue
            if item.id in known and item.id in row_of and known[item.id].is_version(item)
        }
    items = [item for item, _, _ in queue]
    embeddings: FloatArray = yield Embed(encoder, [item.content for item in items], "embedding")
    expanded = yield from expanded_phrases(session, encoder, preferences)
    taus = session.taus(preferences) if session.settings.coarse else np.float32(-1.0)
    near = (similarity(embeddings, vectors, expanded) >= taus).T
    candidates, orphans = [], []
    for column, (item, _, waiting) in enumerate(queue):
        rows = [
            row
            for row, preference in enumerate(preferences)
            if (preference.id in waiting or near[row, column]) and preference.id not in held.get(item.id, ())
        ]
        if rows:
            candidates.append(candidate_of(item, embeddings[column], rows, preferences, vectors))
        else:
            orphans.append(item)
    report.seen += len(queue)
    report.passed += len(queue)
    report.discarded += sum(not held.get(item.id) for item in orphans)
    written(session, WriteBatch(encoder=encoder, discarded=orphans, retried=True), report, clock)
    progress.expect(len(candidates))
    yield from settle(session, encoder, candidates, report, clock, progress, retried=True)


def settle(
    session: Session,
    encoder: Encoder,
    candidates: Sequence[Candidate],
    report: BuildReport,
    clock: Clock,
    progress: Progress,
    *,
    retried: bool = False,
    queued: bool = False,
    light: bool = True,
    versions: Mapping[str, bytes] = {},
) -> Effects[set[str]]:
    """Verify candidates, and write the verdicts as they come; what is discarded goes to the light tier if it may.

    With `queued`, items stay in the retry queue for their other preferences. `versions` are digests by id, where known.

    Returns:
        Ids of the items that the memory holds now, in either tier.
    """
    placed = set[str]()
    before = counts_of(report)
    with span("verify", clock) as counts:
        verdicts = VerdictBatches(session, candidates, report)
        while (decided := (yield from verdicts.next_batch())) is not None:
            batch = yield from batch_of(session, encoder, verdicts.verifier, decided, report, retried=retried)
            batch.queued, batch.versions = queued, versions
            if not light:
                batch.rejected, batch.unjudged = [], []
            written(session, batch, report, clock)
            placed |= batch.placed
            progress.advance(len(decided.decided))
            session.share_model_usage()
        after = counts_of(report)
        counts.update(candidates=len(candidates), **{name: after[name] - before[name] for name in _VERDICTS})
    return placed


def _gone_ids(session: Session, space: Namespace, chunks: Sequence[Item]) -> list[str]:
    """Return the ids of held chunks that the documents of these chunks do not have any more."""
    waiting = space.has_rows("pending")
    if not waiting and not space.has_rows("items"):
        return []
    firsts: dict[str, int] = {}
    for chunk in chunks:
        number, count = chunk.metadata.get("chunk"), chunk.metadata.get("chunks")
        if number is None or count is None:
            firsts[chunk.id] = 0
        elif number == 0 and chunk.id.endswith("#0"):
            firsts[chunk.id[:-2]] = count
    return session.store.items.chunks_from(session.namespace, firsts, waiting=waiting)


def _new_among(
    session: Session, space: Namespace, chunks: list[Item], report: BuildReport
) -> tuple[list[Item], dict[str, bytes], list[str]]:
    """Look chunks up in the file, and count those that are known in a report.

    Returns:
        The chunks that are new in this version, of several with one id the last; the digests of all chunks, by id; and
        the ids of held chunks that their documents do not have any more.
    """
    latest = {item.id: item for item in chunks}
    versions = {key: version_of(item) for key, item in latest.items()}
    known = session.store.items.known(session.namespace, list(latest), waiting=space.has_rows("pending"))
    current = {
        key
        for key, held in known.items()
        # A fact of the user stays one, though its text comes as an item.
        if held.digest == versions[key] or (held.item.fact and held.item.text == latest[key].text)
    }
    queue, namespace = session.store.retry_queue, session.namespace
    if space.has_rows("pending") and (waiting := queue.rows_of(namespace, list(current)).keys()):
        # What is offered now takes the place of another version that waits.
        current -= {
            item.id
            for item, _, _ in queue.waiting(namespace)
            if item.id in waiting and version_of(item) != versions[item.id]
        }
        report.waiting += len(waiting & current)
    fresh = [item for item in latest.values() if item.id not in current]
    report.seen += len(chunks)
    report.duplicates += len(chunks) - len(latest) + len(current)
    if fresh and space.has_rows("ledger"):
        seen = space.was_seen([versions[item.id] for item in fresh])
        # One whose earlier version is held replaces it, whatever was decided about it before.
        unseen = [item for item, before in zip(fresh, seen, strict=True) if not before or item.id in known]
        report.known += len(fresh) - len(unseen)
        fresh = unseen
    return fresh, versions, _gone_ids(session, space, chunks)


def _below_tau(
    session: Session,
    rejected: Sequence[tuple[Item, FloatArray]],
    versions: Mapping[str, bytes],
    preferences: Sequence[Preference],
    vectors: FloatArray,
) -> list[tuple[bytes, NotKept]]:
    """Return records of items that the coarse filter left out: a sample, those with the smallest digests."""
    limit = session.store.seen.records_room()
    if not limit or not preferences:
        return []
    records = []
    for item, embedding in sorted(rejected, key=lambda one: (versions[one[0].id], one[0].id))[:limit]:
        near = vectors @ embedding
        record = NotKept(
            item_id=item.id,
            text=item.text,
            stage="coarse filter",
            reason=f"below tau {session.tau:.3f}",
            preference=preferences[int(near.argmax())].text,
            similarity=float(near.max()),
        )
        records.append((versions[item.id], record))
    return records


def coarse_stage(
    session: Session,
    items: list[Item],
    embeddings: FloatArray,
    preferences: list[Preference],
    vectors: FloatArray,
    expanded: Sequence[Expanded],
) -> tuple[list[Candidate], list[tuple[Item, FloatArray]]]:
    """Split items into candidates, and those below tau with E(x); `expanded` is as `expanded_phrases` gives it."""
    if not session.settings.coarse:
        # Without either stage nothing says which preferences an item is for.
        every = range(len(preferences) if session.settings.fine else 0)
        both = zip(items, embeddings, strict=True)
        return [candidate_of(item, embedding, every, preferences, vectors) for item, embedding in both], []
    named = broken_in([item.content for item in items], preferences)
    passing = coarse_filter(embeddings, vectors, session.taus(preferences), expanded=expanded, named=named)
    passed = np.flatnonzero(passing.any(axis=1)).tolist()
    candidates = [
        candidate_of(items[row], embeddings[row], np.flatnonzero(passing[row]).tolist(), preferences, vectors)
        for row in passed
    ]
    below = set(range(len(items))).difference(passed)
    return candidates, [(items[row], embeddings[row]) for row in sorted(below)]
