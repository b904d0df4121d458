"""Construction: coarse filter, fine verification, instruction index, for one batch of items (section 3)."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

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
    tau_for_keep_rate,
)
from epic_memory.pipeline.commit import WriteBatch, written
from epic_memory.pipeline.expiry import drop_expired, has_expired
from epic_memory.pipeline.facts import add_facts
from epic_memory.pipeline.light_tier import trim
from epic_memory.pipeline.never import ruled_out
from epic_memory.pipeline.session import Session
from epic_memory.pipeline.tags import tagged
from epic_memory.pipeline.verify import VerdictBatches, batch_of, unverified
from epic_memory.preferences.foreign import count_foreign
from epic_memory.runtime.effects import Clock, Effects, run
from epic_memory.runtime.progress import Progress
from epic_memory.runtime.telemetry import counts_of, span
from epic_memory.storage.namespace import Namespace
from epic_memory.storage.tables.items import version_of
from epic_memory.types import BuildReport, Candidate, FloatArray, Item, Preference
from epic_memory.types.reports import NotKept
from epic_memory.verification import EmbeddedVerifier

PARTS = ("embedding", "coarse filter", "verification", "embedding instructions", "index")
_SMALL_SAMPLE = 100
_NEARLY_EVERYTHING = 0.5
_ENOUGH_TO_JUDGE = 50
_WRITTEN_AT_ONCE = 256
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
    if facts := [item for item in batch if item.fact]:
        if facts := (yield from _allowed(session, facts, report)):
            yield from add_facts(session, facts, report, clock)
        batch = [item for item in batch if not item.fact]
        if not batch:
            return
    if session.reader is not None:
        yield from reread_preferences(session, report)
    session.stamp_ledger()
    chunks = chunked(session, batch)
    if session.tagger is not None:
        chunks = yield from tagged(session, session.tagger, chunks, report)
    encoder, preferences, vectors, fresh, versions, stale = _looked_up(session, chunks, report)
    without = not preferences and (session.coarse or session.fine)
    if without and not (session.reserve and light):
        raise NoPreferencesError("The memory has no preferences yet. Add one first: memory.preferences.add('...').")
    allowed = yield from _allowed(session, fresh, report)
    if len(allowed) < len(fresh):
        # An earlier version of what is ruled out now does not stand for it.
        stale = [*stale, *({item.id for item in fresh} - {item.id for item in allowed})]
        fresh = allowed
    count_foreign(report, fresh, encoder)

    # E(x).
    embeddings: FloatArray = yield Embed(encoder, [item.content for item in fresh], "embedding")

    # Eq. 1-2, the coarse filter.
    expanded = yield from expanded_phrases(session, encoder, preferences)
    started = time.perf_counter()
    if session.keep_rate is not None:
        resolve_keep_rate(session, embeddings, vectors, expanded, report)
    candidates, rejected = (
        # Nothing says what matters: the light tier holds it by its text, and the first preference looks through it.
        ([], list(zip(fresh, embeddings, strict=True)))
        if without
        else coarse_stage(session, fresh, embeddings, preferences, vectors, expanded)
    )
    clock.add("coarse filter", started)
    report.passed += len(candidates)
    progress.begin(len(batch), len(chunks), done=len(chunks) - len(candidates))
    placed = set[str]()
    if rejected or stale:
        rest = WriteBatch(encoder=encoder, rejected=rejected if light else [], stale=stale, versions=versions)
        rest.discarded = [item for item, _ in rejected]
        rest.records = _below_tau(session, rejected, versions, preferences, vectors)
        yield from written(session, rest, report, clock)
        placed |= rest.placed

    # Eq. 3-5, fine verification, and Eq. 6, the entries, as the verdicts come.
    placed |= yield from settle(session, encoder, candidates, report, clock, progress, light=light)
    yield from _catch_up(session, encoder, fresh, embeddings, preferences, placed, report, clock, light=light)
    with session.lock:
        if session.reserve and session.space(look=False).light_rows and session.store.writable:
            report.no_room += trim(session)


def _allowed(session: Session, items: list[Item], report: BuildReport) -> Effects[list[Item]]:
    """Return the items that are about no topic that is ruled out, and count the others."""
    out = yield from ruled_out(session, [item.content for item in items])
    report.kept_out += sum(out)
    return [item for item, is_out in zip(items, out, strict=True) if not is_out]


def place_again(session: Session, encoder: Encoder, item: Item, embedding: FloatArray) -> Effects[None]:
    """Verify an item that was put back into the light tier; E(x) has the shape `(1, d)`."""
    # To an item without entries all preferences are new.
    yield from _catch_up(session, encoder, [item], embedding, [], set(), BuildReport(), Clock())


def _catch_up(
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
    """Match a batch with preferences that were added while it was being verified.

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
            some = [
                one
                for one in candidates
                if (one.item.id in there if retried else one.item.id not in there and one.item.id not in placed)
            ]
            if some:
                placed |= yield from settle(
                    session, encoder, some, uncounted, clock, Progress(), retried=retried, light=light
                )


def _held_for(session: Session, item: Item) -> set[str | None]:
    """Return the ids of the preferences that an item is held for, in this version."""
    known = session.store.items.known(session.namespace, [item.id]).get(item.id)
    row = session.store.items.row(session.namespace, item.id)
    same = known is not None and known.is_version(item)
    return set(session.store.entries.preferences_of(row)) if same and row is not None else set()


def retry(session: Session, report: BuildReport, clock: Clock, progress: Progress) -> Effects[None]:
    """Verify the undecided items again: under the preferences they wait for, and those that came since."""
    drop_expired(session)
    yield from reread_preferences(session, report)
    with session.lock:
        encoder, space = session.encoder, session.space()
        store, namespace = session.store, session.namespace
        queue = store.retry_queue.waiting(namespace)
        preferences, vectors = list(space.preferences), space.vectors
        held = {item.id: _held_for(session, item) for item, _, _ in queue}
    items = [item for item, _, _ in queue]
    embeddings: FloatArray = yield Embed(encoder, [item.content for item in items], "embedding")
    expanded = yield from expanded_phrases(session, encoder, preferences)
    taus = session.taus(preferences) if session.coarse else np.float32(-1.0)
    near = (similarity(embeddings, vectors, expanded) >= taus).T
    candidates, orphans = [], []
    for column, (item, _, waiting) in enumerate(queue):
        rows = [
            row
            for row, preference in enumerate(preferences)
            if (preference.id in waiting or near[row, column]) and preference.id not in held[item.id]
        ]
        if rows:
            candidates.append(candidate_of(item, embeddings[column], rows, preferences, vectors))
        else:
            orphans.append(item)
    report.seen += len(queue)
    report.passed += len(queue)
    report.discarded += len(orphans)
    yield from written(session, WriteBatch(encoder=encoder, discarded=orphans, retried=True), report, clock)
    progress.expect(len(candidates))
    yield from settle(session, encoder, candidates, report, clock, progress, retried=True)


def resume(session: Session) -> None:
    """Have what waits verified in the background, on a day whose model's budget nobody has touched yet."""
    budget = session.model_budget
    if budget is None or not budget.is_new_day or not session.store.retry_queue.count(session.namespace):
        return
    clock = Clock()
    steps = retry(session, BuildReport(), clock, Progress())
    session.background.submit(lambda stopped: run(steps, clock, stopped=stopped))


def settle(
    session: Session,
    encoder: Encoder,
    candidates: Sequence[Candidate],
    report: BuildReport,
    clock: Clock,
    progress: Progress,
    *,
    retried: bool = False,
    light: bool = True,
) -> Effects[set[str]]:
    """Verify candidates, and write the verdicts as they come; what is discarded goes to the light tier if it may.

    Returns:
        Ids of the items that the memory holds now, in either tier.
    """
    placed = set[str]()
    if not session.fine:
        for start in range(0, len(candidates), _WRITTEN_AT_ONCE):
            kept = [unverified(candidate) for candidate in candidates[start : start + _WRITTEN_AT_ONCE]]
            batch = WriteBatch(encoder=encoder, kept=kept, retried=retried)
            yield from written(session, batch, report, clock)
            placed |= batch.placed
            progress.advance(len(kept))
        return placed
    before = counts_of(report)
    with span("verify", clock) as counts:
        verdicts = VerdictBatches(session, candidates, report)
        while (decided := (yield from verdicts.next_batch())) is not None:
            batch = yield from batch_of(session, encoder, verdicts.verifier, decided, report, retried=retried)
            batch.rejected = batch.rejected if light else []
            yield from written(session, batch, report, clock)
            placed |= batch.placed
            progress.advance(len(decided.decided))
            session.share_model_usage()
        after = counts_of(report)
        counts.update(candidates=len(candidates), **{name: after[name] - before[name] for name in _VERDICTS})
    return placed


def warn(report: BuildReport, session: Session) -> None:
    """Add warnings to a finished report."""
    with session.lock:
        without = report.new > 0 and not session.space(look=False).preferences and (session.coarse or session.fine)
    if without:
        report.warnings.append(
            "The memory has no preferences: what comes is kept for its text as long as there is room, and found by its"
            " words. With preferences it keeps what matters, ranks by them and says how to use it:"
            " memory.preferences.add('...'), or memory.proposals.propose(messages), which reads them from"
            " conversations."
        )
        return
    if session.verified_by and type(session.verifier) is EmbeddedVerifier and (report.kept or report.discarded):
        report.warnings.append(
            f"Similarity decided this time; before, it was a language model ({session.verified_by}). To have it decide"
            " again, give the same verifier (`--llm` on the command line)."
        )
    if session.store.verdicts.dropped:
        report.warnings.append(
            f"{session.store.verdicts.dropped} verdicts were dropped from the cache, which keeps"
            f" {session.store.verdicts.kept}: they will be asked for again. Raise verdict_cache to keep them."
        )
        session.store.verdicts.dropped = 0
    if report.new >= _ENOUGH_TO_JUDGE and not report.kept and not report.undecided:
        where = (
            "the coarse filter let nothing through: lower tau, or set keep_rate"
            if not report.passed
            else ("fine verification discarded everything that passed the coarse filter")
        )
        report.warnings.append(f"Nothing was kept; {where}.")
    elif report.new >= _ENOUGH_TO_JUDGE and report.share_kept > _NEARLY_EVERYTHING:
        report.warnings.append(
            f"{report.share_kept:.0%} of the items were kept. If that is too many, raise tau or set keep_rate."
        )
    if report.evicted and session.budget is not None:
        report.warnings.append(
            f"{report.evicted} entries had to go, or did not fit, for the budget of {session.budget.total} bytes. Raise"
            " it to keep more; memory.file.not_kept() shows the last of them."
        )
    if report.waiting:
        report.warnings.append(f"{report.waiting} of the items held already wait in the retry queue: memory.retry().")
    if session.model_budget is not None and not session.model_budget.left and (report.undecided or report.unread):
        report.warnings.append(
            f"The model's budget of {session.model_budget} a day is used up: {report.undecided} items and"
            f" {len(report.unread)} preferences wait for tomorrow. memory.retry() takes them up, with a larger"
            " model_budget today."
        )
        return
    if report.unread:
        report.warnings.append(
            f"{len(report.unread)} preferences could not be read by the model, in whole or part: the parser's reading"
            " and the bundled library hold until the next change asks again. memory.preferences.aspects() and"
            " memory.preferences.expansions()"
            " show what is held."
        )
    if report.undecided:
        report.warnings.append(
            f"{report.undecided} items are undecided and wait in the retry queue; memory.retry() verifies them again."
        )


def chunked(session: Session, items: Sequence[Item]) -> list[Item]:
    """Return the items' chunks."""
    if session.chunker is None:
        return list(items)
    chunks: list[Item] = []
    for item in items:
        pieces = session.chunker.chunks(item.text)
        if len(pieces) == 1:
            chunks.append(item if pieces[0] == item.text else replace(item, text=pieces[0]))
            continue
        chunks += [
            Item(
                id=f"{item.id}#{number}",
                text=piece,
                metadata={**item.metadata, "chunk": number, "chunks": len(pieces)},
            )
            for number, piece in enumerate(pieces)
        ]
    return chunks


def _stale(session: Session, space: Namespace, chunks: Sequence[Item]) -> list[str]:
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


class _LookedUp(NamedTuple):
    """Knowledge of the memory about some chunks, from one state of the file.

    Attributes:
        encoder, preferences, vectors: Those in force, with E(p), shape `(m, d)`.
        fresh: The chunks that are new in this version; of several with one id, the last.
        versions: Digests of all chunks, by id.
        stale: Ids of held chunks that their documents do not have any more.
    """

    encoder: Encoder
    preferences: list[Preference]
    vectors: FloatArray
    fresh: list[Item]
    versions: dict[str, bytes]
    stale: list[str]


def _looked_up(session: Session, chunks: list[Item], report: BuildReport) -> _LookedUp:
    """Look chunks up, count those that are known in a report, and remove first what has expired."""
    with session.lock:
        with session.store.reading():
            if not has_expired(session, space := session.space()):
                return _compared(session, space, chunks, report)
        drop_expired(session)
        with session.store.reading():
            return _compared(session, session.space(), chunks, report)


def _compared(session: Session, space: Namespace, chunks: list[Item], report: BuildReport) -> _LookedUp:
    latest = {item.id: item for item in chunks}
    report.seen += len(chunks)
    report.duplicates += len(chunks) - len(latest)
    versions = {key: version_of(item) for key, item in latest.items()}
    return _LookedUp(
        encoder=session.encoder,
        preferences=list(space.preferences),
        vectors=space.vectors,
        fresh=_fresh(session, space, latest, versions, report),
        versions=versions,
        stale=_stale(session, space, chunks),
    )


def _fresh(
    session: Session, space: Namespace, latest: Mapping[str, Item], versions: Mapping[str, bytes], report: BuildReport
) -> list[Item]:
    """Return the items that are new in this version, and count the others."""
    known = session.store.items.known(session.namespace, list(latest), waiting=space.has_rows("pending"))
    current = {
        key
        for key, held in known.items()
        # A fact of the user stays one, though its text comes as an item.
        if held.digest == versions[key] or (held.item.fact and held.item.text == latest[key].text)
    }
    other = [item for item in latest.values() if item.id not in current]
    report.waiting += sum(known[key].waits for key in current)
    report.duplicates += len(current)
    if not other or not space.has_rows("ledger"):
        return other
    seen = space.was_seen([versions[item.id] for item in other])
    # One whose earlier version is held replaces it, whatever was decided about it before.
    fresh = [item for item, before in zip(other, seen, strict=True) if not before or item.id in known]
    report.known += len(other) - len(fresh)
    return fresh


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


def resolve_keep_rate(
    session: Session,
    embeddings: FloatArray,
    vectors: FloatArray,
    expanded: Sequence[Expanded],
    report: BuildReport,
) -> None:
    """Set tau by the first items, where a share of them was asked for."""
    if session.keep_rate is None or session.own_tau is not None or not session.coarse or not len(embeddings):
        return
    tau = tau_for_keep_rate(embeddings, vectors, session.keep_rate, expanded)
    with session.lock, session.store.transaction():
        session.store.set_meta(**{f"tau/{session.namespace}": tau})
    session.own_tau = tau
    # The ledger belongs to this tau: nothing was decided before.
    session.stamp_ledger()
    if len(embeddings) < _SMALL_SAMPLE:
        report.warnings.append(
            f"keep_rate was resolved to tau {tau:.3f} on {len(embeddings)} items only; a larger first batch is surer."
        )


def coarse_stage(
    session: Session,
    items: list[Item],
    embeddings: FloatArray,
    preferences: list[Preference],
    vectors: FloatArray,
    expanded: Sequence[Expanded],
) -> tuple[list[Candidate], list[tuple[Item, FloatArray]]]:
    """Split items into candidates, and those below tau with E(x); `expanded` is as `expanded_phrases` gives it."""
    if not session.coarse:
        # Without either stage nothing says which preferences an item is for.
        rows = range(len(preferences) if session.fine else 0)
        return [
            candidate_of(item, e, rows, preferences, vectors) for item, e in zip(items, embeddings, strict=True)
        ], []
    named = broken_in([item.content for item in items], preferences)
    matches = coarse_filter(embeddings, vectors, session.taus(preferences), expanded=expanded, named=named)
    candidates = []
    starts = np.searchsorted(matches.items, matches.passed, side="left")
    ends = np.searchsorted(matches.items, matches.passed, side="right")
    for row, start, end in zip(matches.passed, starts, ends, strict=True):
        columns = [int(column) for column in matches.preferences[start:end]]
        candidates.append(candidate_of(items[row], embeddings[row], columns, preferences, vectors))
    passed = set(matches.passed.tolist())
    return candidates, [(item, embeddings[row]) for row, item in enumerate(items) if row not in passed]
