"""Embeddings of what preferences mean in practice, which the coarse filter compares with texts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from epic_memory.encoders.base import Embed, Encoder
from epic_memory.pipeline.coarse_filter import Expanded
from epic_memory.pipeline.session import Session
from epic_memory.preferences.library import borrowed
from epic_memory.runtime.effects import Effects
from epic_memory.types import Preference

_EXPANDED_KEPT = 1024


def expanded_phrases(session: Session, encoder: Encoder, preferences: Sequence[Preference]) -> Effects[list[Expanded]]:
    """Return what each preference means in practice, embedded, by its own or a borrowed expansion; none without coarse
    stage.
    """
    if not session.coarse:
        return []
    with session.lock:
        known = dict(session.expanded) if session.encoder is encoder else {}
    missing = [preference for preference in preferences if preference not in known]
    wanting = [preference for preference in missing if preference.expansion is None]
    lent = dict(zip(wanting, borrowed(wanting), strict=True)) if wanting and session.borrows else {}
    texts: list[list[str]] = []
    for preference in missing:
        own, expansion = preference.expansion is not None, preference.expansion or lent.get(preference)
        phrases = [] if expansion is None else [*expansion.follows, *expansion.breaks]
        questions = list(expansion.questions) if own and expansion is not None else []
        texts += [phrases, questions or [preference.text] if phrases else []]
    vectors = np.empty((0, encoder.dimension), dtype=np.float32)
    if any(texts):
        vectors = yield Embed(encoder, [text for some in texts for text in some], "embedding")
    parts = iter(np.split(vectors, np.cumsum([len(some) for some in texts])[:-1]) if texts else [])
    new = {preference: Expanded(next(parts), next(parts)) for preference in missing}
    with session.lock:
        if session.encoder is encoder:
            if len(session.expanded) > _EXPANDED_KEPT:
                session.expanded.clear()
            session.expanded.update(new)
    known.update(new)
    return [known[preference] for preference in preferences]
