"""Reports of calls: a change of a memory is run, and its report is completed."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TypeAlias

from epic_memory.errors import InvalidInputError
from epic_memory.pipeline.ingest import PARTS, warn
from epic_memory.pipeline.session import Session
from epic_memory.runtime.effects import Clock, Effects, arun, run
from epic_memory.runtime.progress import Progress
from epic_memory.types import BuildReport

Reporting: TypeAlias = Callable[[BuildReport, Clock, Progress], Effects[None]]
"""Work that writes into a report what it does."""


def reported(session: Session, steps: Reporting, *, progress: bool = False) -> BuildReport:
    """Run work that changes a memory, and return its report.

    Raises:
        ReadOnlyError: if the memory cannot be written.
    """
    session.store.check_writable()
    report, clock = begun(session)
    with Progress(shown=progress) as bar:
        run(steps(report, clock, bar), clock)
    return finished(session, report, clock)


async def areported(session: Session, steps: Reporting, *, progress: bool = False) -> BuildReport:
    """As `reported`, without blocking the event loop."""
    session.store.check_writable()
    report, clock = begun(session)
    with Progress(shown=progress) as bar:
        await arun(steps(report, clock, bar), clock)
    return finished(session, report, clock)


def begun(session: Session) -> tuple[BuildReport, Clock]:
    """Return an empty report, and the clock that its timings come from."""
    session.share_model_usage()
    clock = Clock()
    clock.parts.update(dict.fromkeys(PARTS, 0.0))
    return BuildReport(), clock


def timed(session: Session, report: BuildReport, clock: Clock) -> BuildReport:
    """Write into a report what took how long, and the tau in force; return it."""
    report.timings = dict(clock.parts)
    report.tau = session.tau if session.coarse else None
    return report


def finished(session: Session, report: BuildReport, clock: Clock) -> BuildReport:
    """Return a copy of a report, completed by timings and warnings."""
    report = copy.deepcopy(timed(session, report, clock))
    session.share_model_usage()
    warn(report, session)
    return report


def checked_report(report: BuildReport | None) -> BuildReport:
    """Return the report that a caller gave, or a new one.

    Raises:
        InvalidInputError: for anything else.
    """
    if report is not None and not isinstance(report, BuildReport):
        raise InvalidInputError(f"report must be a BuildReport, not {report!r}.")
    return BuildReport() if report is None else report
