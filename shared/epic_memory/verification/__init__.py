"""Verification: stage 2, preference-aligned fine verification by a language model or without one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from epic_memory.runtime.optional import imported_later
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

# Imported on first use: a memory without a language model needs none of these modules.
_MODULES = {"LMVerifier": "lm", "Prompt": "lm"}

__getattr__, __dir__ = imported_later(__name__, _MODULES)
