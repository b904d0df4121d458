"""Writing under a byte budget: room is made for each part of a batch before it is committed (docs/memory.md)."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epic_memory.errors import BudgetError, RetryQueueFullError
from epic_memory.pipeline.commit import WriteBatch, write
from epic_memory.pipeline.light_tier import item_bytes, leave
from epic_memory.pipeline.session import Session
from epic_memory.pipeline.verify import forget_gone, remember
from epic_memory.retention import AT_A_TIME, Held, choose, least_valuable_first
from epic_memory.runtime.effects import Clock
from epic_memory.storage.codecs import code_length
from epic_memory.storage.namespace import CommittedRows
from epic_memory.storage.tables.items import version_of
from epic_memory.storage.tables.seen import EVICTED
from epic_memory.types import BuildReport
from epic_memory.types.reports import NotKept

_ROUNDS = 30
# The share of the budget that the light tier frees at least when there is no room.
_LIGHT_SHARE = 20
_ROW = 120
# What is written needs besides its columns: pages are not full, and the SQL indexes take some.
_FILLING = 1.3
_SLACK = 6_000
_VERDICT = 300
_ATTEMPTS = 4

# The attributes of a `WriteBatch` that hold what comes.
_COMING = ("light", "undecided", "kept")


# writing


def written_within_budget(session: Session, batch: WriteBatch, report: BuildReport, clock: Clock) -> None:
    """Write a batch part by part, each after room has been made for it.

    Raises:
        RetryQueueFullError: as `write`.
        BudgetError: if the budget has no room for a single entry.
    """
    if batch.verdicts:
        needed = _SLACK + _VERDICT * min(len(batch.verdicts), session.store.verdicts.kept)
        make_room(session, needed, report, clock)
        remember(session, batch)
    for part in _parts(batch):
        _fitted(session, part, report, clock)
    forget_gone(session, batch.asked)


def _parts(batch: WriteBatch) -> Iterator[WriteBatch]:
    """Cut a batch into parts: first what goes, then what comes."""
    # The light tier before what was discarded: an item that waits is held before it leaves the retry queue.
    parts = (("stale", "leaving"), ("light",), ("discarded", "records"), ("undecided", "kept"))
    empty: dict[str, Any] = {name: [] for part in (*parts, ("verdicts", "asked")) for name in part}
    for names in parts:
        if any(getattr(batch, name) for name in names):
            yield replace(batch, **{**empty, **{name: getattr(batch, name) for name in names}})


def _bytes_of(session: Session, part: WriteBatch) -> int:
    """Return about how many bytes of the file a part takes."""
    code, small = (code_length(session.encoder.dimension, small=small) for small in (False, True))
    octets = 8 * len(part.discarded) + 600 * min(len(part.records), session.store.seen.records_room())
    octets += sum(item_bytes(item) + small for item, _ in part.light)
    octets += sum(item_bytes(item) + len(reason.encode()) + 200 for item, reason, _ in part.undecided)
    for kept in part.kept:
        texts = "".join(entry.instruction + entry.rationale for entry in kept.entries)
        octets += item_bytes(kept.item) + small + len(texts.encode()) + len(kept.entries) * (code + 160)
    return int(_FILLING * octets)


def _fitted(session: Session, part: WriteBatch, report: BuildReport, clock: Clock) -> None:
    """Write a part; halve what is more than is written at once, and what SQLite refuses."""
    budget, octets = session.budget, _bytes_of(session, part)
    assert budget is not None
    coming = [(name, one) for name in _COMING for one in getattr(part, name)]
    if not coming:
        make_room(session, octets + _SLACK, report, clock)
        write(session, part, report, clock)
        return
    alone = len(coming) == 1
    if octets <= (budget.largest_item if alone else budget.written_at_once):
        # One thing's pages may take more than was reckoned.
        for attempt in range(_ATTEMPTS if alone else 1):
            if not make_room(session, octets + _SLACK << attempt, report, clock):
                break
            with suppress(BudgetError):
                # Writing may change it.
                whole: dict[str, Any] = {name: list(getattr(part, name)) for name in _COMING}
                write(session, replace(part, **whole), report, clock)
                return
    if alone:
        _turn_down(session, part, octets, report, clock)
        return
    middle = len(coming) // 2
    for half in (coming[:middle], coming[middle:]):
        some: dict[str, Any] = {name: [one for kind, one in half if kind == name] for name in _COMING}
        _fitted(session, replace(part, **some), report, clock)


def _turn_down(session: Session, part: WriteBatch, octets: int, report: BuildReport, clock: Clock) -> None:
    """Record an item that does not fit into the budget.

    Raises:
        BudgetError: if nothing at all fits.
        RetryQueueFullError: if it is undecided, and must not be lost.
    """
    assert session.budget is not None
    item = part.items()[0]
    if part.undecided:
        raise RetryQueueFullError(
            f"The budget of {session.budget.total} bytes has no room for item {item.id!r} in the retry queue. It and"
            f" the items after it were not taken in. The reason was: {part.undecided[0][1][:300]} Mend it, call"
            " memory.retry(), then add the same items again."
        )
    with session.lock:
        empty = not session.space().item_of
    if octets <= session.budget.largest_item and empty:
        raise BudgetError(
            f"The budget of {session.budget.total} bytes has no room for item {item.id!r} ({len(item.text)}"
            f" characters): the file takes {session.store.file_bytes()}. Raise the budget."
        )
    record = NotKept(item_id=item.id, text=item.text, stage=EVICTED, reason="it does not fit into the budget")
    report.kept += len(part.kept)
    report.evicted += max(1, sum(len(kept.entries) for kept in part.kept))
    noted = replace(part, kept=[], light=[], discarded=[item], records=[(version_of(item), record)])
    write(session, noted, report, clock)


# making room


def make_room(session: Session, needed: int, report: BuildReport, clock: Clock | None = None) -> bool:
    """Free so many bytes, and tell whether they are free now.

    The history of facts goes first, the oldest edits before others, and then the light tier. What goes next is chosen
    by value, a tenth of what is held at a time.
    """
    budget = session.budget
    assert budget is not None

    def missing_bytes() -> int:
        page = session.store.pages()[2]
        return session.store.used_bytes() + needed - budget.pages(page) * page

    started, room = time.perf_counter(), False
    for _ in range(_ROUNDS):
        with session.lock:
            missing = missing_bytes()
            while missing > 0:
                with session.store.transaction():
                    gone = sum(each.drop_oldest(session.namespace, missing) for each in session.store.additions)
                if not gone:
                    break
                report.history += gone
                missing = missing_bytes()
            # More than is missing, so that the next items find room, too. What goes leaves gaps, too small for a page.
            while missing > 0 and (gone := leave(session, max(missing, budget.total // _LIGHT_SHARE))):
                report.no_room += gone
                missing = missing_bytes()
        room = missing <= 0
        if room:
            break
        with session.lock, session.store.reading():
            held, sizes = weigh(session)
        # Sizes are estimates. Where much is missing, half of it goes, and the rest is reckoned anew: no more than has
        # to.
        part = max(missing // 2, min(missing, budget.written_at_once))
        goal = max(part, int(AT_A_TIME * int(sizes.sum())))
        # Floors that took more than half of what is held would leave no room for anything new.
        preferences = max(1, len(np.unique(held.preferences)))
        floor = min(session.settings.floor, len(held) // 2 // preferences)
        doomed = choose(least_valuable_first(held), held, sizes, goal, floor)
        if not len(doomed):
            break
        report.evicted += evict(session, held.rows[doomed].tolist())
    if clock is not None:
        clock.add("making room", started)
    return room or missing_bytes() <= 0


def weigh(session: Session) -> tuple[Held, NDArray[np.int64]]:
    """Return the entries of the own namespace, and the bytes that each frees; entries share the bytes of an item."""
    store = session.store
    live = {None, *session.space().preference_rows}
    found = [entry for entry in store.entries.stored(session.namespace) if entry["preference"] in live]

    def column(name: str, kind: type, missing: float = np.nan) -> NDArray[Any]:
        return np.array([missing if entry[name] is None else entry[name] for entry in found], dtype=kind)

    items = column("item", np.int64)
    _, place, shared = np.unique(items, return_inverse=True, return_counts=True)
    held = Held(
        rows=column("row", np.int64),
        items=items,
        preferences=column("preference", np.int64, missing=-1),
        confidence=column("confidence", np.float32),
        similarity=column("similarity", np.float32),
    )
    own = column("text_bytes", np.int64) + (code_length(session.encoder.dimension) + _ROW)
    texts = column("item_bytes", np.int64) + _ROW
    return held, own + texts // shared[place.reshape(-1)] if found else own


def evict(session: Session, rows: Sequence[int]) -> int:
    """Remove entries, and the items nothing else holds, in one transaction; return how many went."""
    store, namespace = session.store, session.namespace
    with session.changing(session.encoder, committed := CommittedRows()):
        known = store.preferences.at(namespace)
        found = store.entries.stored(namespace, rows)
        items = store.items.held_at(sorted({entry["item"] for entry in found}))
        committed.gone = [entry["row"] for entry in found]
        store.entries.delete_rows(committed.gone)
        store.drop_orphans(list(items))
        left = store.items.present(list(items))
        committed.gone_items = [row for row in items if row not in left]
        gone = [items[row] for row in committed.gone_items]
        committed.seen = [held.digest for held in gone]
        committed.forgotten = store.seen.add(namespace, committed.seen) > 0
        store.verdicts.forget_chunks(namespace, [held.item.content for held in gone])
        reason = "the least valuable when there was no room"
        records = []
        for entry in found:
            held, preference = items[entry["item"]], entry["preference"]
            record = NotKept(
                item_id=held.item.id,
                text=held.item.text,
                stage=EVICTED,
                reason=reason,
                preference=known[preference].text if preference in known else "",
                similarity=float(entry["similarity"]),
            )
            records.append((held.digest, record))
        store.seen.put_records(namespace, records, {each.text: row for row, each in known.items()})
    return len(found)
