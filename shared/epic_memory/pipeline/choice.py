"""Choice of what a search shows, by a chooser that a user gives."""

from __future__ import annotations

from collections.abc import Sequence

from epic_memory.encoders.base import Encoder
from epic_memory.errors import InvalidInputError
from epic_memory.types.results import Chooser


def check_trained_with(chooser: Chooser | None, encoder: Encoder) -> None:
    """Refuse a chooser that was trained with another encoder.

    Raises:
        InvalidInputError: if it was.
    """
    if chooser is not None and chooser.encoder not in ("", encoder.fingerprint):
        raise InvalidInputError("This reranker was trained with another encoder. Train it again: epic rerank train.")


def pool(chooser: Chooser, chosen: list[int], order: Sequence[int]) -> list[int]:
    """Return the places of the k results of retrieval, and behind them as many more as a chooser wants."""
    known = set(chosen)
    missing = chooser.candidates - len(chosen)
    more = [place for place in order if place not in known] if missing > 0 else []
    return chosen + more[: max(0, missing)]
