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

# Imported on first use: a memory without a language model needs none of these modules.
_MODULES = {"LMVerifier": "lm", "Prompt": "lm"}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
