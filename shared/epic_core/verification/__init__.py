"""Stage 2, preference-aligned fine verification: the seam, and the verifier that needs no language model."""

from epic_core.verification.base import Verifier
from epic_core.verification.embedded import EmbeddedVerifier

__all__ = ["EmbeddedVerifier", "Verifier"]
