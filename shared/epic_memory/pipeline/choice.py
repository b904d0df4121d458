"""Choice of what a search shows, by a chooser that a user gives."""

from __future__ import annotations

from collections.abc import Sequence

from epic_memory.encoders.base import Encoder
from epic_memory.errors import InvalidInputError
from epic_memory.types.results import Chooser


def checked_chooser(chooser: object, encoder: Encoder, keys: str) -> Chooser | None:
    """Check the chooser of a search by such keys, with an encoder.

    Raises:
        InvalidInputError: for what is no chooser, or one that was trained with another encoder.
    """
    if chooser is None:
        return None
    if isinstance(chooser, type) or not isinstance(chooser, Chooser):
        raise InvalidInputError(f"A chooser is an object such as epic_rerank.Adaptive(), not {chooser!r}.")
    if keys != "both":
        raise InvalidInputError('A chooser needs keys="both".')
    if chooser.encoder not in ("", encoder.fingerprint):
        raise InvalidInputError("This reranker was trained with another encoder. Train it again: epic rerank train.")
    return chooser


def pool(chooser: Chooser, chosen: list[int], order: Sequence[int]) -> list[int]:
    """Return the places of the k results of retrieval, and behind them as many more as a chooser wants."""
    known = set(chosen)
    missing = chooser.candidates - len(chosen)
    more = [place for place in order if place not in known] if missing > 0 else []
    return chosen + more[: max(0, missing)]
