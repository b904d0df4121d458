"""Reencoding: a memory taken over to another encoder."""

from __future__ import annotations

from collections.abc import Mapping

from epic_memory.encoders.base import Embed, Encoder, described
from epic_memory.pipeline.session import Session
from epic_memory.runtime.effects import Effects
from epic_memory.storage.sqlite.tables import Table
from epic_memory.types import FloatArray


def reencode_memory(session: Session, encoder: Encoder) -> Effects[None]:
    """Embed everything anew, in one transaction."""
    while True:
        with session.lock:
            texts = session.store.embedded_texts()
        vectors: dict[Table, dict[int, FloatArray]] = {}
        for table, of in texts.items():
            embedded: FloatArray = yield Embed(encoder, list(of.values()), "embedding")
            vectors[table] = dict(zip(of, embedded, strict=True))
        with session.lock:
            if not _embedded_anew(session, encoder, texts, vectors):
                continue  # something was written meanwhile
            # Only now, until it is committed the file is the old encoder's; and before anybody else writes.
            _adopt(session, encoder)
            return


def _embedded_anew(
    session: Session,
    encoder: Encoder,
    texts: Mapping[Table, Mapping[int, str]],
    vectors: Mapping[Table, Mapping[int, FloatArray]],
) -> bool:
    """Write the embeddings of all texts, if the file still holds these texts; tell whether it does."""
    with session.store.transaction():
        if session.store.embedded_texts() != texts:
            return False
        session.store.replace_vectors(vectors)
        session.store.set_meta(encoder=described(encoder))
        for namespace in session.store.preferences.namespaces():
            session.store.set_meta(**{f"tau/{namespace}": None})
            # Its features were another encoder's.
            session.store.learnt.forget(namespace)
    return True


def _adopt(session: Session, encoder: Encoder) -> None:
    from epic_memory.verification import EmbeddedVerifier

    if type(session.verifier) is EmbeddedVerifier and session.verifier.encoder is session.encoder:
        session.verifier = EmbeddedVerifier(encoder, threshold=session.verifier.threshold)
    session.spaces.clear()
    session.expanded.clear()
    session.encoder = encoder
    session.own_tau = None
