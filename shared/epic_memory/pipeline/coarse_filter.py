"""Stage 1, semantic-based coarse filtering (Eq. 1-2): P_rel(x) = {p : Sim(E(x), E(p)) >= tau}.

A preference that is expanded is compared by what it means in practice: with F and B the phrases that follow and break
it, and Q the questions for which it matters,

    Sim(x, p) = (mean of the three highest Sim(E(x), E(f)), f in F or B, + mean of the two highest Sim(E(x), E(q))) / 2.

Where the expansion is borrowed, Q is the preference itself. A text that names what breaks a preference by an expansion
of its own passes at any rate. `shared/tools/fit_coarse.py` measures which tau lets which share of what matters pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from epic_memory.encoders.base import Embed, Encoder
from epic_memory.errors import InvalidInputError
from epic_memory.preferences.evidence import broken_by
from epic_memory.preferences.library import borrowed
from epic_memory.runtime.effects import Effects
from epic_memory.text.stems import stems
from epic_memory.types import Candidate, FloatArray, Item, Preference
from epic_memory.types.validation import checked_tau
from epic_memory.types.weights import StageWeights

if TYPE_CHECKING:
    from epic_memory.pipeline.session import Session

_EXPANDED_KEPT = 1024


@dataclass(frozen=True, kw_only=True)
class CoarseWeights(StageWeights):
    """Numbers of phrases by which an expanded preference is compared."""

    nearest_phrases: int  # how many of the nearest phrases that follow or break it count
    nearest_questions: int  # how many of the nearest questions for which it matters count


class Expanded(NamedTuple):
    """Embeddings of what a preference means in practice; both are empty for one without an expansion.

    Attributes:
        phrases: What follows and breaks it, shape `(f, d)`.
        questions: For which it matters, shape `(n, d)`.
    """

    phrases: FloatArray
    questions: FloatArray


def expanded_phrases(session: Session, encoder: Encoder, preferences: Sequence[Preference]) -> Effects[list[Expanded]]:
    """Return what each preference means in practice, embedded, by its own or a borrowed expansion.

    Without the coarse stage nothing is returned.
    """
    if not session.settings.coarse:
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


def similarity(
    embeddings: FloatArray, preferences: FloatArray, expanded: Sequence[Expanded] | None = None
) -> FloatArray:
    """Return Sim(x, p) of items and preferences, shape `(n, m)`: a cosine, or by the expansions as above."""
    weights = CoarseWeights.shipped()
    similarities: FloatArray = embeddings @ preferences.T
    for number, (phrases, questions) in enumerate(expanded or ()):
        if len(phrases):
            similarities[:, number] = 0.5 * _highest(embeddings @ phrases.T, weights.nearest_phrases)
            similarities[:, number] += 0.5 * _highest(embeddings @ questions.T, weights.nearest_questions)
    return similarities


def _highest(cosines: FloatArray, count: int) -> FloatArray:
    """Return the mean of the highest values of each row, shape `(n,)`."""
    count = min(count, cosines.shape[1])
    cosines.partition(cosines.shape[1] - count, axis=1)
    mean: FloatArray = cosines[:, cosines.shape[1] - count :].sum(axis=1) / np.float32(count)
    return mean


def broken_in(texts: Sequence[str], preferences: Sequence[Preference]) -> NDArray[np.bool_] | None:
    """Return which texts name what breaks a preference by its own expansion, shape `(n, m)`; None if none has one."""
    broken = [broken_by(preference.expansion) for preference in preferences]
    if not any(broken):
        return None
    said = [f" {' '.join(stems(text))} " for text in texts]
    named = [any(f" {run} " in text for run in runs) for text in said for runs in broken]
    return np.array(named, dtype=bool).reshape(len(texts), len(broken))


def coarse_filter(
    embeddings: FloatArray,
    preferences: FloatArray,
    tau: float | FloatArray,
    *,
    expanded: Sequence[Expanded] | None = None,
    named: NDArray[np.bool_] | None = None,
) -> NDArray[np.bool_]:
    """Return which items pass for which preferences, shape `(n, m)`.

    Args:
        embeddings: Unit vectors E(x), shape `(n, d)`.
        preferences: Unit vectors E(p), shape `(m, d)`.
        tau: Threshold in [-1, 1], or one for each preference, shape `(m,)`; a pair at exactly tau passes.
        expanded: What each preference means in practice.
        named: Pairs that pass whatever their similarity, shape `(n, m)` (`broken_in`).

    Raises:
        InvalidInputError: for shapes that do not fit, or tau outside [-1, 1].
    """
    threshold = tau if isinstance(tau, np.ndarray) else np.float32(checked_tau(tau))
    if embeddings.ndim != 2 or preferences.ndim != 2 or embeddings.shape[1] != preferences.shape[1]:
        raise InvalidInputError(
            f"Embeddings {embeddings.shape} and preferences {preferences.shape} must be (n, d) and (m, d)."
        )
    passing: NDArray[np.bool_] = similarity(embeddings, preferences, expanded) >= threshold
    return passing if named is None else passing | named


def candidate_of(
    item: Item, embedding: FloatArray, rows: Sequence[int], preferences: Sequence[Preference], vectors: FloatArray
) -> Candidate:
    """Return an item as a candidate under the preferences in some rows, most similar first."""
    near = vectors[list(rows)]
    similarities = near @ embedding
    order = np.argsort(-similarities, kind="stable")
    return Candidate(
        item=item,
        embedding=embedding,
        preferences=tuple(preferences[rows[position]] for position in order),
        similarities=tuple(float(similarities[position]) for position in order),
        preference_embeddings=near[order],
    )
