"""Modes of steering and policies for stances, with their checks."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

from epic_core.errors import InvalidInputError

StancePolicy: TypeAlias = Literal["prefer", "only_supports", "any"]


def checked_stance_policy(policy: object) -> str:
    """Return the policy if it is known.

    Raises:
        InvalidInputError: if there is no such policy.
    """
    known = get_args(StancePolicy)
    if policy not in known:
        raise InvalidInputError(f"stance_policy must be one of {', '.join(known)}; not {policy!r}.")
    return str(policy)


Mode: TypeAlias = Literal["paper", "signed", "off"]


def checked_mode(mode: str) -> Mode:
    """Return the mode if it is known.

    Raises:
        InvalidInputError: if there is no such mode.
    """
    for known in get_args(Mode):
        if mode == known:
            return known  # type: ignore[no-any-return]
    raise InvalidInputError(f"Steering knows the modes {', '.join(MODES)}; not {mode!r}.")


MODES: tuple[str, ...] = get_args(Mode)
