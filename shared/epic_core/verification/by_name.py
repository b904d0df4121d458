"""Verifiers by name: that of a language model, "ollama/qwen3:4b"."""

from __future__ import annotations

from epic_core.encoders.base import Encoder
from epic_core.verification.base import Verifier
from epic_core.verification.embedded import EmbeddedVerifier


def verifier_of(verifier: Verifier | str | None, encoder: Encoder) -> Verifier:
    """Return the verifier that asks the model of a name; one is returned as it is, and None is the embedded one.

    Args:
        verifier: A name as `epic_core.lm.lm_of` takes it, for an `LMVerifier` with its defaults.
        encoder: Of the memory, for the embedded verifier.

    Raises:
        InvalidInputError: for a name that is none of a model, or one that needs a server's address.
    """
    if verifier is None:
        return EmbeddedVerifier(encoder)
    if not isinstance(verifier, str):
        return verifier
    from epic_core.lm.by_name import lm_of
    from epic_core.verification.lm import LMVerifier

    return LMVerifier(lm_of(verifier))
