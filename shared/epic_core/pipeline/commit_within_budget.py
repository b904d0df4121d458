"""Verification and commit of candidates, batch by batch, within the byte budget where there is one."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from epic_core.encoders.base import Encoder
from epic_core.errors import BudgetError, RetryQueueFullError
from epic_core.pipeline.bytes import ROW, item_bytes
from epic_core.pipeline.commit import Outcome, write
from epic_core.pipeline.eviction import make_room
from epic_core.pipeline.light_tier import admitted
from epic_core.pipeline.rewrites import renew_rewrites
from epic_core.pipeline.session import Session
from epic_core.pipeline.verify import VerdictBatches, forget_gone, outcome_of, remember, unverified
from epic_core.runtime.effects import Clock, Effects
from epic_core.runtime.progress import Progress
from epic_core.storage.tables.items import version_of
from epic_core.storage.tables.seen import EVICTED
from epic_core.storage.vector_codec import code_length
from epic_core.types import BuildReport, Candidate, Item
from epic_core.types.reports import NotKept

_KNOWN_AT_ONCE = 256
_FILLING = 1.3
_SLACK = 6_000
_ATTEMPTS = 4


def settle(
    session: Session,
    encoder: Encoder,
    candidates: Sequence[Candidate],
    report: BuildReport,
    clock: Clock,
    progress: Progress,
    *,
    retried: bool = False,
) -> Effects[None]:
    """Verify candidates and write the verdicts as they come."""

    if session.fine:
        verdicts = VerdictBatches(session, candidates, report)
        while (batch := (yield from verdicts.next_batch())) is not None:
            outcome = yield from outcome_of(session, encoder, verdicts.verifier, batch.decided, batch.new, report)
            outcome.retried = retried
            renew = yield from written(session, outcome, report, clock)
            progress.advance(len(batch.decided))
            if renew:
                yield from renew_rewrites(session, encoder, report)
        return
    for start in range(0, len(candidates), _KNOWN_AT_ONCE):
        block = candidates[start : start + _KNOWN_AT_ONCE]
        kept = [(candidate.item, unverified(candidate)) for candidate in block]
        vectors = {candidate.item.id: candidate.embedding for candidate in block}
        outcome = Outcome(encoder=encoder, kept=kept, vectors=vectors, retried=retried)
        yield from written(session, outcome, report, clock)
        progress.advance(len(block))


def written(session: Session, outcome: Outcome, report: BuildReport, clock: Clock) -> Effects[bool]:
    """Write an outcome; under a budget piece by piece, each after room has been made for it.

    Returns:
        Whether a text was rewritten for a preference that has gone in the meantime.

    Raises:
        RetryQueueFullError: as `write`.
        BudgetError: if the budget has no room for a single entry.
    """
    if outcome.rejected:
        with session.lock, session.store.reading():
            outcome.light, outcome.leaving = admitted(session, session.space(), outcome.rejected)
        report.light += len(outcome.light)
        report.no_room += len(outcome.rejected) - len(outcome.light)
    if session.budget is None:
        return write(session, outcome, report, clock)
    if outcome.verdicts:
        yield from _timed(
            make_room(session, _SLACK + 300 * min(len(outcome.verdicts), session.store.verdicts.kept), report), clock
        )
        remember(session, outcome)
    renew = False
    for piece in _pieces(session, outcome):
        renew |= yield from _fitted(session, piece, report, clock)
    forget_gone(session, outcome.asked)
    return renew


def _pieces(session: Session, outcome: Outcome) -> Iterator[Outcome]:
    """Cut an outcome so that each piece has room within the budget: first what goes, then what comes."""
    assert session.budget is not None
    empty = replace(
        outcome, kept=[], light=[], leaving=[], undecided=[], discarded=[], stale=[], verdicts=[], asked=[], records=[]
    )
    if outcome.stale or outcome.leaving:
        yield replace(empty, stale=outcome.stale, leaving=outcome.leaving)
    # Before they are noted as discarded: an item that waits is held before it leaves the retry queue.
    coming: list[tuple[str, Any]] = [("light", one) for one in outcome.light]
    yield from _cut(session, empty, coming)
    if outcome.discarded or outcome.records:
        yield replace(empty, discarded=outcome.discarded, records=outcome.records)
    coming = [("undecided", one) for one in outcome.undecided] + [("kept", one) for one in outcome.kept]
    yield from _cut(session, empty, coming)


def _cut(session: Session, empty: Outcome, coming: Sequence[tuple[str, Any]]) -> Iterator[Outcome]:
    """Collect items into pieces of about as many bytes as are written at once."""
    assert session.budget is not None
    piece, octets = _copy(empty), 0
    for kind, one in coming:
        alone = _copy(empty)
        getattr(alone, kind).append(one)
        size = _bytes(session, alone) - _SLACK
        if octets and octets + size > session.budget.written_at_once:
            yield piece
            piece, octets = _copy(empty), 0
        getattr(piece, kind).append(one)
        octets += size
    if octets:
        yield piece


def _copy(empty: Outcome) -> Outcome:
    return replace(empty, kept=[], light=[], undecided=[])


def _halves(piece: Outcome) -> Iterator[Outcome]:
    """Cut a piece in two."""
    empty = replace(piece, kept=[], light=[], undecided=[], discarded=[], records=[])
    coming: list[tuple[str, Any]] = [
        (kind, one) for kind in ("light", "undecided", "kept") for one in getattr(piece, kind)
    ]
    middle = len(coming) // 2
    for part in (coming[:middle], coming[middle:]):
        half = _copy(empty)
        for kind, one in part:
            getattr(half, kind).append(one)
        yield half


def _fitted(session: Session, piece: Outcome, report: BuildReport, clock: Clock) -> Effects[bool]:
    assert session.budget is not None
    needed = _bytes(session, piece)
    items = len(piece.kept) + len(piece.light) + len(piece.undecided)
    if not items:
        yield from _timed(make_room(session, needed, report), clock)
        return write(session, piece, report, clock)
    if items > 1 or needed - _SLACK <= session.budget.largest_item:
        for attempt in range(_ATTEMPTS):
            room = yield from _timed(make_room(session, needed << attempt, report), clock)
            if not room:
                break
            try:
                return write(session, piece, report, clock)
            except BudgetError:
                if items > 1:
                    break
                continue  # its pages take more than was reckoned
    if items > 1:
        renew = False
        for half in _halves(piece):
            renew |= yield from _fitted(session, half, report, clock)
        return renew
    return _turn_down(session, piece, report, clock)


def _timed(steps: Effects[bool], clock: Clock) -> Effects[bool]:
    started = time.perf_counter()
    room = yield from steps
    clock.add("making room", started)
    return room


def _turn_down(session: Session, piece: Outcome, report: BuildReport, clock: Clock) -> bool:
    """Record an item that does not fit into the budget.

    Raises:
        BudgetError: if nothing at all fits.
        RetryQueueFullError: if it is undecided, and must not be lost.
    """
    assert session.budget is not None
    item: Item = (piece.undecided[0] if piece.undecided else (piece.kept or piece.light)[0])[0]
    if piece.undecided:
        raise RetryQueueFullError(
            f"The budget of {session.budget.total} bytes has no room for item {item.id!r} in the retry queue. It and"
            f" the items after it were not taken in. The reason was: {piece.undecided[0][1][:300]} Mend it, call"
            " memory.retry(), then add the same items again."
        )
    with session.lock:
        empty = not len(session.space().index)
    if _bytes(session, piece) - _SLACK <= session.budget.largest_item and empty:
        raise BudgetError(
            f"The budget of {session.budget.total} bytes has no room for item {item.id!r} ({len(item.text)}"
            f" characters): the file takes {session.store.file_bytes()}. Raise the budget."
        )
    record = NotKept(item_id=item.id, text=item.text, stage=EVICTED, reason="it does not fit into the budget")
    report.kept += len(piece.kept)
    report.evicted += max(1, sum(len(entries) for _, entries in piece.kept))
    noted = replace(piece, kept=[], light=[], discarded=[item], records=[(version_of(item), record)])
    return write(session, noted, report, clock)


def _bytes(session: Session, piece: Outcome) -> int:
    """Estimate how many bytes a piece takes in the file."""
    code, small = (code_length(session.encoder.dimension, small=small) for small in (False, True))
    items = [*(item for item, _ in piece.kept), *(item for item, _ in piece.light)]
    octets = sum(item_bytes(item) + small for item in items)
    for _, entries in piece.kept:
        octets += sum(code + len(entry.instruction.encode()) + len(entry.rationale.encode()) + ROW for entry in entries)
    octets += sum(len(rewrite.text.encode()) for rewrite in piece.rewrites.values())
    octets += sum(item_bytes(item) + len(reason.encode()) + 200 for item, reason, _ in piece.undecided)
    octets += 8 * len(piece.discarded) + 600 * min(len(piece.records), session.store.seen.records_room())
    return int(_FILLING * octets) + _SLACK
