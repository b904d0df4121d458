"""Custom events for LangChain's callbacks: the counts and seconds of a search or a judgement, never texts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langchain_core.callbacks import AsyncCallbackManager, CallbackManager

from epic_memory import BuildReport, Hits
from epic_memory.runtime.telemetry import counts_of, counts_of_search, measures

SEARCH, JUDGE = "epic.search", "epic.judge"


def tell_search(callbacks: CallbackManager, hits: Hits, k: int) -> None:
    """Send the event "epic.search" to the handlers of a run."""
    _tell(callbacks, SEARCH, measures(counts_of_search(hits, k), hits.timings))


async def atell_search(callbacks: AsyncCallbackManager, hits: Hits, k: int) -> None:
    """Send the event "epic.search" to the handlers of an asynchronous run."""
    await _atell(callbacks, SEARCH, measures(counts_of_search(hits, k), hits.timings))


def tell_judge(callbacks: object, report: BuildReport) -> None:
    """Send the event "epic.judge" to the handlers of a run; outside of a run, do nothing."""
    _tell(callbacks, JUDGE, measures(counts_of(report), report.timings))


async def atell_judge(callbacks: object, report: BuildReport) -> None:
    """Send the event "epic.judge" to the handlers of an asynchronous run; outside of a run, do nothing."""
    await _atell(callbacks, JUDGE, measures(counts_of(report), report.timings))


def _tell(callbacks: object, name: str, data: Mapping[str, Any]) -> None:
    if isinstance(callbacks, CallbackManager) and callbacks.handlers and callbacks.parent_run_id:
        callbacks.on_custom_event(name, dict(data), run_id=callbacks.parent_run_id)


async def _atell(callbacks: object, name: str, data: Mapping[str, Any]) -> None:
    if isinstance(callbacks, AsyncCallbackManager) and callbacks.handlers and callbacks.parent_run_id:
        await callbacks.on_custom_event(name, dict(data), run_id=callbacks.parent_run_id)
