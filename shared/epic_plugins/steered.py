"""Steered search in another store: the least relevance, the fallback's answer, and errors that say what failed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from epic_memory.encoders import Encoder
from epic_memory.errors import EncoderError, EncoderMismatchError, EpicError, InvalidInputError
from epic_memory.pipeline.candidates import least_topic
from epic_memory.steering.question_kind import question_kind
from epic_memory.types import FloatArray
from epic_memory.types.modes import MinScore
from epic_plugins.vector_stores import Least, refuses_dimension

T = TypeVar("T")


def least_of(encoder: Encoder, min_score: MinScore, query: str) -> Least | None:
    """Return what finds the least cosine of a search's documents; None if all are returned.

    Without the words of the query, an "auto" or "personal" `min_score` does not depend on the kind of question.
    """
    if min_score is None:
        return None

    def least(cosines: FloatArray) -> float:
        kind = question_kind(query) if query and isinstance(min_score, str) else None
        return least_topic(encoder, cosines, len(cosines), min_score, kind)

    return least


def of_fallback(found: Any, kind: type[T]) -> Sequence[T]:
    """Return what a fallback found; raise an InvalidInputError for anything but a list of this type."""
    if not isinstance(found, (list, tuple)) or not all(isinstance(one, kind) for one in found):
        raise InvalidInputError(f"The fallback returned {type(found).__name__}, not a list of {kind.__name__}.")
    return found


def explain_embedding(model: object, error: Exception) -> None:
    """Raise the error of a framework's embedding model as an EncoderError, unless it is ours already."""
    if not isinstance(error, EpicError):
        raise EncoderError(f"{type(model).__name__} could not embed the query: {error}") from error


def explain_dimension(store: object, encoder: Encoder, advice: str, vector: Sequence[float], error: Exception) -> None:
    """Raise the error that explains why a store, or a retriever over one, refused a vector of an encoder.

    Raises:
        EncoderMismatchError: if its vectors have another dimension; its message ends with the advice.
    """
    if not isinstance(error, EpicError) and refuses_dimension(error, vector):
        raise EncoderMismatchError(
            f"{type(store).__name__} refuses the query's embedding, {len(vector)} numbers made with {encoder.name}:"
            f" {error}. {advice}"
        ) from error
