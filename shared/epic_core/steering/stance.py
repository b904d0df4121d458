"""Stances that an item's metadata states, and the penalties for them."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any

from epic_core.types import Stance
from epic_core.types.verdicts import PENALTY


def penalty_of(metadata: Mapping[str, Any], preferences: Collection[str]) -> float:
    """Return the penalty for the stance to some preferences; 0 if it is unknown."""
    if "epic_stance" not in metadata and "epic_alignments" not in metadata:
        return 0.0
    stance = stance_to(metadata, preferences)
    return 0.0 if stance is None else PENALTY[stance]


def stance_to(metadata: Mapping[str, Any], preferences: Collection[str]) -> Stance | None:
    """Return the stance of a document to some preferences, by its metadata: the worst, from supports to conflicts.

    `epic_alignments` (JSON, a list of objects with `preference` and `stance`) holds the stance to each preference;
    without it, `epic_stance` is the stance to `epic_preference`, or to any preference if that is missing. Unreadable
    values are ignored.

    Returns:
        The stance, or None if it is unknown.
    """
    stances = [
        _STANCES.get(str(alignment.get("stance")))
        for alignment in _alignments(metadata)
        if alignment.get("preference") is None or str(alignment["preference"]) in preferences
    ]
    return max(filter(None, stances), key=PENALTY.__getitem__, default=None)


def _alignments(metadata: Mapping[str, Any]) -> list[dict[str, Any]]:
    alignments = metadata.get("epic_alignments")
    if isinstance(alignments, str):
        try:
            alignments = json.loads(alignments)
        except (ValueError, RecursionError):
            alignments = None
    if isinstance(alignments, list):
        return [alignment for alignment in alignments if isinstance(alignment, dict)]
    return [{"preference": metadata.get("epic_preference"), "stance": metadata.get("epic_stance")}]


_STANCES = {stance.value: stance for stance in Stance}
