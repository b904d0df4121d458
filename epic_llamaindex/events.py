"""Events of LlamaIndex's instrumentation: the counts and seconds of a search or a judgement, never texts."""

from __future__ import annotations

from llama_index_instrumentation.base import BaseEvent
from typing_extensions import override

from epic_memory import BuildReport, Hits
from epic_memory.runtime.telemetry import counts_of, counts_of_search, measures


class EpicEvent(BaseEvent):
    """Event at the end of a search or a judgement, inside the span of the component.

    Attributes:
        measures: Counts ("epic.hits") and seconds by part ("epic.seconds.embedding"), as in OpenTelemetry's spans.
    """

    measures: dict[str, int | float]

    @classmethod
    @override
    def class_name(cls) -> str:
        return cls.__name__


class EpicSearchEvent(EpicEvent):
    """Event of a search in a memory or a graph."""


class EpicJudgeEvent(EpicEvent):
    """Event of a judgement of nodes."""


def search_event(hits: Hits, k: int) -> EpicSearchEvent:
    """Return the event of a search."""
    return EpicSearchEvent(measures=measures(counts_of_search(hits, k), hits.timings))


def judge_event(report: BuildReport) -> EpicJudgeEvent:
    """Return the event of a judgement."""
    return EpicJudgeEvent(measures=measures(counts_of(report), report.timings))
