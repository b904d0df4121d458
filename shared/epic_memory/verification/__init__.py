"""Verification: stage 2, preference-aligned fine verification by a language model or without one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from epic_memory.verification.base import BaseVerifier, Verifier
from epic_memory.verification.embedded import EmbeddedVerifier

if TYPE_CHECKING:
    from epic_memory.lm.prompting import Prompt
    from epic_memory.verification.lm import LMVerifier

__all__ = [
    "BaseVerifier",
    "EmbeddedVerifier",
    "LMVerifier",
    "Prompt",
    "Verifier",
]


def __getattr__(name: str) -> object:
    if name not in ("LMVerifier", "Prompt"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # A memory without a language model needs none of these modules.
    from epic_memory.verification import lm

    return getattr(lm, name)
