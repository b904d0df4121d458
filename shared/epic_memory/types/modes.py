"""Modes of steering, policies for stances and the least relevance of a hit, with their checks."""

from __future__ import annotations

from numbers import Real
from typing import Literal, TypeAlias, get_args

from epic_memory.errors import InvalidInputError
from epic_memory.types.validation import one_of

Mode: TypeAlias = Literal["paper", "signed", "off"]
StancePolicy: TypeAlias = Literal["prefer", "only_supports", "any"]
Automatic: TypeAlias = Literal["auto", "personal"]
MinScore: TypeAlias = float | Automatic | None


def checked_stance_policy(policy: object) -> StancePolicy:
    """Return the policy, or raise `InvalidInputError` if there is no such policy."""
    policies: tuple[StancePolicy, ...] = get_args(StancePolicy)
    return one_of("stance_policy", policy, policies)


def checked_mode(mode: object) -> Mode:
    """Return the mode, or raise `InvalidInputError` if there is no such mode."""
    modes: tuple[Mode, ...] = get_args(Mode)
    return one_of("The steering mode", mode, modes)


def checked_min_score(min_score: object) -> MinScore:
    """Return the least relevance of a hit, or raise `InvalidInputError` for what is none."""
    if min_score is None:
        return None
    if isinstance(min_score, str) and min_score in get_args(Automatic):
        chosen: Automatic = "personal" if min_score == "personal" else "auto"
        return chosen
    if not isinstance(min_score, Real) or isinstance(min_score, bool) or not -1.0 <= float(min_score) <= 1.0:
        raise InvalidInputError(
            f'min_score must be a cosine between -1 and 1, "auto", "personal" or None; not {min_score!r}.'
        )
    return float(min_score)
