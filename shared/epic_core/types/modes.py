"""Modes of steering and policies for stances, with their checks."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

from epic_core.types.validation import one_of

Mode: TypeAlias = Literal["paper", "signed", "off"]
StancePolicy: TypeAlias = Literal["prefer", "only_supports", "any"]


def checked_stance_policy(policy: object) -> StancePolicy:
    """Return the policy, or raise `InvalidInputError` if there is no such policy."""
    policies: tuple[StancePolicy, ...] = get_args(StancePolicy)
    return one_of("stance_policy", policy, policies)


def checked_mode(mode: object) -> Mode:
    """Return the mode, or raise `InvalidInputError` if there is no such mode."""
    modes: tuple[Mode, ...] = get_args(Mode)
    return one_of("The steering mode", mode, modes)
