"""Selection that stops: how many of a ranking's hits a question needs (EMG-RAG, section 5 of its specification)."""

from __future__ import annotations

from collections.abc import Sequence

from epic_core.types import FloatArray, Hit


def taken(query: str, hits: Sequence[Hit], vectors: Sequence[FloatArray]) -> int:
    """Return how many of the hits to take."""
    return len(hits)
