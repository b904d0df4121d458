"""Verifiers by the name of a language model, such as "ollama/qwen3:4b"."""

from __future__ import annotations

from epic_core.encoders.base import Encoder
from epic_core.verification.base import Verifier
from epic_core.verification.embedded import EmbeddedVerifier


def verifier_of(verifier: Verifier | str | None, encoder: Encoder) -> Verifier:
    """Return the verifier for the name of a model; return a verifier unchanged, and the embedded one for None.

    Args:
        verifier: A verifier, or a name as `epic_core.lm.lm_of` takes it, for an `LMVerifier` with its defaults.
        encoder: The encoder of the memory, for the embedded verifier.

    Raises:
        InvalidInputError: for an unknown name, or one that needs a server's address.
    """
    if verifier is None:
        return EmbeddedVerifier(encoder)
    if not isinstance(verifier, str):
        return verifier
    from epic_core.lm.by_name import lm_of
    from epic_core.verification.lm import LMVerifier

    return LMVerifier(lm_of(verifier))
