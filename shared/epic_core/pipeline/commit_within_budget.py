"""Verify candidates and write the verdicts as they come, within the byte budget where there is one."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

from epic_core.encoders.base import Encoder
from epic_core.errors import BudgetError, RetryQueueFullError
from epic_core.pipeline.bytes import ROW, item_bytes
from epic_core.pipeline.commit import Outcome, write
from epic_core.pipeline.eviction import make_room, pieces
from epic_core.pipeline.light_tier import admitted
from epic_core.pipeline.rewrites import renew_rewrites
from epic_core.pipeline.session import State
from epic_core.pipeline.verify import VerdictBatches, forget_gone, outcome_of, remember, unverified
from epic_core.runtime.effects import Clock, Effects
from epic_core.runtime.progress import Progress
from epic_core.storage.tables.items import version_of
from epic_core.storage.tables.seen import EVICTED
from epic_core.storage.vector_codec import code_length
from epic_core.types import BuildReport, Candidate, Item
from epic_core.types.reports import NotKept

_KNOWN_AT_ONCE = 256
_DISCARDED = 24
_FILLING = 1.3
_SLACK = 6_000
_ATTEMPTS = 4


def settle(
    state: State,
    encoder: Encoder,
    candidates: Sequence[Candidate],
    report: BuildReport,
    clock: Clock,
    progress: Progress,
    *,
    retried: bool = False,
) -> Effects[None]:
    """Verify candidates and write the verdicts as they come."""

    if state.fine:
        verdicts = VerdictBatches(state, candidates, report)
        while (batch := (yield from verdicts.next_batch())) is not None:
            outcome = yield from outcome_of(state, encoder, verdicts.verifier, batch.decided, batch.new, report)
            outcome.retried = retried
            renew = yield from written(state, outcome, report, clock)
            progress.advance(len(batch.decided))
            if renew:
                yield from renew_rewrites(state, encoder, report)
        return
    for start in range(0, len(candidates), _KNOWN_AT_ONCE):
        block = candidates[start : start + _KNOWN_AT_ONCE]
        kept = [(candidate.item, unverified(candidate)) for candidate in block]
        vectors = {candidate.item.id: candidate.embedding for candidate in block}
        outcome = Outcome(encoder=encoder, kept=kept, vectors=vectors, retried=retried)
        yield from written(state, outcome, report, clock)
        progress.advance(len(block))


def written(state: State, outcome: Outcome, report: BuildReport, clock: Clock) -> Effects[bool]:
    """`write`, after room has been made for it: under a budget in small pieces.

    Returns:
        Whether a text was rewritten for a preference that has gone in the meantime.

    Raises:
        RetryQueueFullError: as `write`.
        BudgetError: if the budget has no room for a single entry.
    """
    if outcome.rejected:
        with state.lock, state.store.reading():
            outcome.light, outcome.leaving = admitted(state, state.space(), outcome.rejected)
        report.light += len(outcome.light)
        report.no_room += len(outcome.rejected) - len(outcome.light)
    if state.budget is None:
        return write(state, outcome, report, clock)
    if outcome.verdicts:
        yield from _timed(make_room(state, _SLACK + 300 * len(outcome.verdicts), report), clock)
        remember(state, outcome)
    renew = False
    # Where earlier versions have to go first, they go one by one.
    ids = [item.id for item in outcome.discarded]
    held = bool(ids) and bool(state.store.items.known(state.namespace, ids))
    for piece in _pieces(outcome, min(4, pieces(state.budget)), 1 if held else _DISCARDED):
        renew |= yield from _fitted(state, piece, report, clock)
    forget_gone(state, outcome.asked)
    return renew


def _pieces(outcome: Outcome, step: int, discarded: int = _DISCARDED) -> Iterator[Outcome]:
    """An outcome in pieces of so many items."""
    empty = replace(
        outcome, kept=[], light=[], leaving=[], undecided=[], discarded=[], stale=[], verdicts=[], asked=[], records=[]
    )
    for start in range(0, len(outcome.stale), step):
        yield replace(empty, stale=outcome.stale[start : start + step])
    for start in range(0, len(outcome.leaving), step):
        yield replace(empty, leaving=outcome.leaving[start : start + step])
    # Before they are noted as discarded: an item that waits is held before it leaves the retry queue.
    for start in range(0, len(outcome.light), step):
        yield replace(empty, light=outcome.light[start : start + step])
    for start in range(0, len(outcome.discarded), discarded):
        yield replace(empty, discarded=outcome.discarded[start : start + discarded])
    if outcome.records:
        yield replace(empty, records=outcome.records)
    for start in range(0, len(outcome.undecided), step):
        yield replace(empty, undecided=outcome.undecided[start : start + step])
    for start in range(0, len(outcome.kept), step):
        yield replace(empty, kept=outcome.kept[start : start + step])


def _fitted(state: State, piece: Outcome, report: BuildReport, clock: Clock) -> Effects[bool]:
    assert state.budget is not None
    needed = _bytes(state, piece)
    items = len(piece.kept) + len(piece.light) + len(piece.undecided)
    if not items:
        yield from _timed(make_room(state, needed, report), clock)
        return write(state, piece, report, clock)
    if needed <= state.budget.largest_item:
        for attempt in range(_ATTEMPTS):
            room = yield from _timed(make_room(state, needed << attempt, report), clock)
            if not room:
                break
            try:
                return write(state, piece, report, clock)
            except BudgetError:
                continue  # its pages take more than was reckoned
    if items > 1:
        renew = False
        for single in _pieces(piece, 1):
            renew |= yield from _fitted(state, single, report, clock)
        return renew
    return _turn_down(state, piece, report, clock)


def _timed(steps: Effects[bool], clock: Clock) -> Effects[bool]:
    started = time.perf_counter()
    room = yield from steps
    clock.add("making room", started)
    return room


def _turn_down(state: State, piece: Outcome, report: BuildReport, clock: Clock) -> bool:
    """Note an item that does not fit.

    Raises:
        BudgetError: if nothing at all fits.
        RetryQueueFullError: if it is undecided, and must not be lost.
    """
    assert state.budget is not None
    item: Item = (piece.undecided[0] if piece.undecided else (piece.kept or piece.light)[0])[0]
    if piece.undecided:
        raise RetryQueueFullError(
            f"The budget of {state.budget.total} bytes has no room for item {item.id!r} in the retry queue. It and the"
            f" items after it were not taken in. The reason was: {piece.undecided[0][1][:300]} Mend it, call"
            " memory.retry(), then add the same items again."
        )
    with state.lock:
        empty = not len(state.space().index)
    if _bytes(state, piece) <= state.budget.largest_item and empty:
        raise BudgetError(
            f"The budget of {state.budget.total} bytes has no room for item {item.id!r} ({len(item.text)} characters):"
            f" the file takes {state.store.file_bytes()}, and {state.budget.journal} are kept free for changing it"
            " safely. Raise the budget."
        )
    record = NotKept(item_id=item.id, text=item.text, stage=EVICTED, reason="it does not fit into the budget")
    report.kept += len(piece.kept)
    report.evicted += max(1, sum(len(entries) for _, entries in piece.kept))
    noted = replace(piece, kept=[], light=[], discarded=[item], records=[(version_of(item), record)])
    return write(state, noted, report, clock)


def _bytes(state: State, piece: Outcome) -> int:
    """About how many bytes a piece takes in the file."""
    code, small = (code_length(state.encoder.dimension, small=small) for small in (False, True))
    items = [*(item for item, _ in piece.kept), *(item for item, _ in piece.light)]
    octets = sum(item_bytes(item) + small for item in items)
    for _, entries in piece.kept:
        octets += sum(code + len(entry.instruction.encode()) + len(entry.rationale.encode()) + ROW for entry in entries)
    octets += sum(len(rewrite.text.encode()) for rewrite in piece.rewrites.values())
    octets += sum(item_bytes(item) + len(reason.encode()) + 200 for item, reason, _ in piece.undecided)
    octets += 8 * len(piece.discarded) + 600 * min(len(piece.records), state.store.seen.records_room())
    return int(_FILLING * octets) + _SLACK
