"""Least relevance of the documents of another store, measured as a memory measures that of its items."""

from __future__ import annotations

from epic_memory.encoders import Encoder
from epic_memory.pipeline.candidates import least_topic
from epic_memory.steering.question_kind import question_kind
from epic_memory.steering.vector_stores import Least
from epic_memory.types import FloatArray
from epic_memory.types.modes import MinScore


def least_of(encoder: Encoder, min_score: MinScore, query: str) -> Least | None:
    """Return what finds the least cosine of a search's documents; None if all are returned.

    Args:
        encoder: Whose cosines they are.
        min_score: As for `EpicMemory.search`.
        query: The query's words; empty if unknown.
    """
    if min_score is None:
        return None

    def least(cosines: FloatArray) -> float:
        kind = question_kind(query) if query and min_score == "auto" else None
        return least_topic(encoder, cosines, len(cosines), min_score, kind)

    return least
