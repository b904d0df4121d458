"""Option of what makes proposals from a chat: whether it does, and which are accepted without asking."""

from __future__ import annotations

import logging
from typing import Any, Literal, TypeAlias

from epic_learn.proposal_report import Proposals
from epic_memory.errors import InvalidInputError

Proposing: TypeAlias = bool | Literal["auto"]
"""Mode of proposing: none, all that the user says, or "auto", which accepts what is said plainly."""

AUTO = 0.9
"""The confidence from which "auto" accepts a proposal."""


def checked_proposing(propose: Any, llm: object = None) -> Proposing:
    """Return the option; raise an InvalidInputError for another value, or a model that would read nothing."""
    if llm is not None and propose is False:
        raise InvalidInputError("llm reads for proposals what the user says: set propose=True, or leave llm out.")
    if not isinstance(propose, bool) and propose != "auto":
        raise InvalidInputError(f"propose must be True, False or 'auto', not {propose!r}.")
    return propose  # type: ignore[no-any-return]


def warn_of_failures(proposals: Proposals, logger: logging.Logger) -> None:
    """Warn of what a model could not read, or could not be kept."""
    for failure in proposals.report.failures:
        logger.warning("Not all that was said was read for proposals: %s", failure)
