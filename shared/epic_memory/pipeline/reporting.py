"""Calls that change a memory: each is run, and returns a report of what it did."""

from __future__ import annotations

import copy
import inspect
from collections.abc import AsyncIterable, Callable, Iterator
from typing import TypeAlias

from epic_memory.errors import InvalidInputError
from epic_memory.pipeline.ingest import add_batch, retry
from epic_memory.pipeline.session import Session
from epic_memory.runtime.batching import Items, abatches, batches
from epic_memory.runtime.effects import Clock, Effects, arun, run
from epic_memory.runtime.telemetry import Progress, counts_of, span
from epic_memory.types import BuildReport, Item
from epic_memory.verification import EmbeddedVerifier

_NEARLY_EVERYTHING = 0.5
_ENOUGH_TO_JUDGE = 50

OnBatch: TypeAlias = Callable[[BuildReport], object]
"""Callback that receives the cumulative report after each batch."""
Reporting: TypeAlias = Callable[[BuildReport, Clock, Progress], Effects[None]]
"""Work that writes into a report what it does."""


def add_items(session: Session, items: Items, *, light: bool = True, progress: bool | OnBatch = False) -> BuildReport:
    """Offer items to a memory, each batch committed; see `EpicMemory.add`."""
    report, clock = _begun(session)
    _resume(session)
    with span("build", clock) as counts, Progress(items, shown=progress is True) as bar:
        for batch in batches(items):
            run(add_batch(session, batch, report, clock, bar, light=light), clock)
            counts.update(counts_of(report))
            if callable(progress):
                progress(copy.deepcopy(timed(session, report, clock)))
    return _finished(session, report, clock)


async def aadd_items(
    session: Session, items: Items | AsyncIterable[str | Item], *, light: bool = True, progress: bool | OnBatch = False
) -> BuildReport:
    """As `add_items`, without blocking the event loop; also takes an asynchronous iterable."""
    report, clock = _begun(session)
    _resume(session)
    with span("build", clock) as counts, Progress(items, shown=progress is True) as bar:
        async for batch in abatches(items):
            await arun(add_batch(session, batch, report, clock, bar, light=light), clock)
            counts.update(counts_of(report))
            if callable(progress):
                answer = progress(copy.deepcopy(timed(session, report, clock)))
                if inspect.isawaitable(answer):
                    await answer
    return _finished(session, report, clock)


def _resume(session: Session) -> None:
    """Have what waits verified in the background, on a day whose model's budget nobody has touched yet."""
    budget = session.model_budget
    if budget is None or not budget.is_new_day or not session.store.retry_queue.count(session.namespace):
        return
    clock = Clock()
    steps = retry(session, BuildReport(), clock, Progress())
    session.background.submit(lambda stopped: run(steps, clock, stopped=stopped))


def reported(session: Session, steps: Reporting, *, progress: bool = False) -> BuildReport:
    """Run work that changes a memory, and return its report; one that is not writable is a `ReadOnlyError`."""
    report, clock = _begun(session)
    with Progress(shown=progress) as bar:
        run(steps(report, clock, bar), clock)
    return _finished(session, report, clock)


async def areported(session: Session, steps: Reporting, *, progress: bool = False) -> BuildReport:
    """As `reported`, without blocking the event loop."""
    report, clock = _begun(session)
    with Progress(shown=progress) as bar:
        await arun(steps(report, clock, bar), clock)
    return _finished(session, report, clock)


def _begun(session: Session) -> tuple[BuildReport, Clock]:
    """Return an empty report, and the clock that its timings come from."""
    session.store.check_writable()
    session.share_model_usage()
    clock = Clock()
    parts = ("embedding", "coarse filter", "verification", "embedding instructions", "index")
    clock.parts.update(dict.fromkeys(parts, 0.0))
    return BuildReport(), clock


def timed(session: Session, report: BuildReport, clock: Clock) -> BuildReport:
    """Write into a report what took how long, and the tau in force; return it."""
    report.timings = dict(clock.parts)
    report.tau = session.tau if session.settings.coarse else None
    return report


def _finished(session: Session, report: BuildReport, clock: Clock) -> BuildReport:
    timed(session, report, clock)
    session.share_model_usage()
    report.warnings += _warnings(report, session)
    return report


def checked_report(report: BuildReport | None) -> BuildReport:
    """Return the report that a caller gave, or a new one; raise `InvalidInputError` for anything else."""
    if report is not None and not isinstance(report, BuildReport):
        raise InvalidInputError(f"report must be a BuildReport, not {report!r}.")
    return BuildReport() if report is None else report


def _warnings(report: BuildReport, session: Session) -> Iterator[str]:
    """Yield what a user should know of a finished call."""
    filters = session.settings.coarse or session.settings.fine
    with session.lock:
        preferences = session.space(look=False).preferences
    if report.new > 0 and filters and not preferences:
        yield (
            "The memory has no preferences: what comes is kept for its text as long as there is room, and found by its"
            " words. With preferences it keeps what matters, ranks by them and says how to use it:"
            " memory.preferences.add('...'), or memory.proposals.propose(messages), which reads them from"
            " conversations."
        )
        return
    if session.verified_by and type(session.verifier) is EmbeddedVerifier and (report.kept or report.discarded):
        yield (
            f"Similarity decided this time; before, it was a language model ({session.verified_by}). To have it decide"
            " again, give the same verifier (`--llm` on the command line)."
        )
    if session.store.verdicts.dropped:
        yield (
            f"{session.store.verdicts.dropped} verdicts were dropped from the cache, which keeps"
            f" {session.store.verdicts.kept}: they will be asked for again. Raise verdict_cache to keep them."
        )
        session.store.verdicts.dropped = 0
    if report.new >= _ENOUGH_TO_JUDGE:
        yield from _extremes(report)
    if report.evicted and session.budget is not None:
        yield (
            f"{report.evicted} entries had to go, or did not fit, for the budget of {session.budget.total} bytes. Raise"
            " it to keep more; memory.file.not_kept() shows the last of them."
        )
    if report.waiting:
        yield f"{report.waiting} of the items held already wait in the retry queue: memory.retry()."
    if session.model_budget is not None and not session.model_budget.left and (report.undecided or report.unread):
        yield (
            f"The model's budget of {session.model_budget} a day is used up: {report.undecided} items and"
            f" {len(report.unread)} preferences wait for tomorrow. memory.retry() takes them up, with a larger"
            " model_budget today."
        )
        return
    if report.unread:
        yield (
            f"{len(report.unread)} preferences could not be read by the model, in whole or part: the parser's reading"
            " and the bundled library hold until the next change asks again. memory.preferences.aspects() and"
            " memory.preferences.expansions() show what is held."
        )
    if report.undecided:
        yield f"{report.undecided} items are undecided and wait in the retry queue; memory.retry() verifies them again."


def _extremes(report: BuildReport) -> Iterator[str]:
    """Yield a warning if nothing or nearly everything of many items was kept."""
    if not report.kept and not report.undecided:
        if report.passed:
            yield "Nothing was kept; fine verification discarded everything that passed the coarse filter."
        else:
            yield "Nothing was kept; the coarse filter let nothing through: lower tau."
    elif report.share_kept > _NEARLY_EVERYTHING:
        yield f"{report.share_kept:.0%} of the items were kept. If that is too many, raise tau."
