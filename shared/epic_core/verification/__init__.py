"""Stage 2, preference-aligned fine verification: by a language model, or without one."""

from epic_core.verification.base import Rewriter, Verifier
from epic_core.verification.embedded import EmbeddedVerifier
from epic_core.verification.lm import LMVerifier
from epic_core.verification.prompts import Prompt, Prompts

__all__ = ["EmbeddedVerifier", "LMVerifier", "Prompt", "Prompts", "Rewriter", "Verifier"]
