"""Adding of items of any number: batch by batch, each committed, with one report."""

from __future__ import annotations

import copy
import inspect
from collections.abc import AsyncIterable, Callable
from typing import TypeAlias

from epic_memory.pipeline.ingest import add_batch, resume
from epic_memory.pipeline.reporting import begun, finished, timed
from epic_memory.pipeline.session import Session
from epic_memory.runtime.batching import Items, abatches, batches
from epic_memory.runtime.effects import arun, run
from epic_memory.runtime.progress import Progress
from epic_memory.runtime.telemetry import counts_of, span
from epic_memory.types import BuildReport, Item

OnBatch: TypeAlias = Callable[[BuildReport], object]
"""Callback that receives the cumulative report after each batch."""


def add_items(session: Session, items: Items, *, light: bool = True, progress: bool | OnBatch = False) -> BuildReport:
    """Offer items to a memory; see `EpicMemory.add`."""
    session.store.check_writable()
    report, clock = begun(session)
    resume(session)
    with span("build", clock) as counts, Progress(items, shown=progress is True) as bar:
        for batch in batches(items):
            run(add_batch(session, batch, report, clock, bar, light=light), clock)
            counts.update(counts_of(report))
            if callable(progress):
                progress(copy.deepcopy(timed(session, report, clock)))
    return finished(session, report, clock)


async def aadd_items(
    session: Session,
    items: Items | AsyncIterable[str | Item],
    *,
    light: bool = True,
    progress: bool | OnBatch = False,
) -> BuildReport:
    """As `add_items`, without blocking the event loop; also takes an asynchronous iterable."""
    session.store.check_writable()
    report, clock = begun(session)
    resume(session)
    with span("build", clock) as counts, Progress(items, shown=progress is True) as bar:
        async for batch in abatches(items):
            await arun(add_batch(session, batch, report, clock, bar, light=light), clock)
            counts.update(counts_of(report))
            if callable(progress):
                answer = progress(copy.deepcopy(timed(session, report, clock)))
                if inspect.isawaitable(answer):
                    await answer
    return finished(session, report, clock)
