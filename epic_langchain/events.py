"""Custom events for LangChain's callbacks: the counts and seconds of a search or a judgement, never texts."""

from __future__ import annotations

from typing import Any

from langchain_core.callbacks import AsyncCallbackManager, CallbackManager

from epic_memory import BuildReport, Hits
from epic_memory.runtime.effects import Call
from epic_memory.runtime.telemetry import counts_of, counts_of_search, measures

SEARCH, JUDGE = "epic.search", "epic.judge"


def search_event(callbacks: object, hits: Hits, k: int) -> Call:
    """Return the call that sends the event "epic.search" to the handlers of a run."""
    return Call(_tell, _atell, callbacks, SEARCH, measures(counts_of_search(hits, k), hits.timings))


def judge_event(callbacks: object, report: BuildReport) -> Call:
    """Return the call that sends the event "epic.judge" to the handlers of a run; outside of a run, it does nothing."""
    return Call(_tell, _atell, callbacks, JUDGE, measures(counts_of(report), report.timings))


def _tell(callbacks: object, name: str, data: Any) -> None:
    if isinstance(callbacks, CallbackManager) and callbacks.handlers and callbacks.parent_run_id:
        callbacks.on_custom_event(name, data, run_id=callbacks.parent_run_id)


async def _atell(callbacks: object, name: str, data: Any) -> None:
    if isinstance(callbacks, AsyncCallbackManager) and callbacks.handlers and callbacks.parent_run_id:
        await callbacks.on_custom_event(name, data, run_id=callbacks.parent_run_id)
