"""Option of what makes proposals from a chat: whether it does, and which are accepted without asking."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from epic_core.errors import InvalidInputError

Proposing: TypeAlias = bool | Literal["auto"]
"""Whether what the user says is proposed; "auto" accepts what is said plainly."""

AUTO = 0.9
"""The confidence from which "auto" accepts a proposal."""


def checked_proposing(propose: Any) -> Proposing:
    """Return the option, or raise InvalidInputError."""
    if not isinstance(propose, bool) and propose != "auto":
        raise InvalidInputError(f"propose must be True, False or 'auto', not {propose!r}.")
    return propose  # type: ignore[no-any-return]
