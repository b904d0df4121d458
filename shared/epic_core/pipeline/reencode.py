"""Reencoding: a memory taken over to another encoder."""

from __future__ import annotations

from epic_core.encoders.base import Embed, Encoder, described
from epic_core.pipeline.session import State
from epic_core.runtime.effects import Effects
from epic_core.types import FloatArray


def reencode_memory(state: State, encoder: Encoder) -> Effects[None]:
    """Embed everything anew, in one transaction."""
    while True:
        with state.lock:
            texts = state.store.embedded_texts()
        vectors: list[FloatArray] = []
        for table in texts:
            vectors += [(yield Embed(encoder, list(table.values()), "embedding"))]
        with state.lock:
            if not _embedded_anew(state, encoder, texts, vectors):
                continue  # something was written meanwhile
            # Only now, until it is committed the file is the old encoder's; and before anybody else writes.
            _adopt(state, encoder)
            return


def _embedded_anew(
    state: State, encoder: Encoder, texts: tuple[dict[int, str], ...], vectors: list[FloatArray]
) -> bool:
    """Write the embeddings of all texts, if they are still those that the file holds; whether they are."""
    with state.store.transaction():
        if state.store.embedded_texts() != texts:
            return False
        state.store.replace_vectors(
            *(dict(zip(table, rows, strict=True)) for table, rows in zip(texts, vectors, strict=True))
        )
        state.store.set_meta(encoder=described(encoder))
        for namespace in state.store.preferences.namespaces():
            state.store.set_meta(**{f"tau/{namespace}": None})
    return True


def _adopt(state: State, encoder: Encoder) -> None:
    from epic_core.verification import EmbeddedVerifier

    if type(state.verifier) is EmbeddedVerifier and state.verifier.encoder is state.encoder:
        state.verifier = EmbeddedVerifier(encoder, threshold=state.verifier.threshold)
    state.spaces.clear()
    state.expanded.clear()
    state.encoder = encoder
    state.own_tau = None
