"""Errors of a steered search that explain the failure of an embedding model or of a store."""

from __future__ import annotations

from collections.abc import Sequence

from epic_memory.encoders import Encoder
from epic_memory.errors import EncoderError, EncoderMismatchError, EpicError
from epic_memory.steering.vector_stores import refuses_dimension


def explain_embedding(model: object, error: Exception) -> None:
    """Raise the error of a framework's embedding model as ours.

    Raises:
        EncoderError: unless it is ours already.
    """
    if not isinstance(error, EpicError):
        raise EncoderError(f"{type(model).__name__} could not embed the query: {error}") from error


def explain_dimension(store: object, encoder: Encoder, advice: str, vector: Sequence[float], error: Exception) -> None:
    """Raise the error that explains why a store, or a retriever over one, refused a vector.

    Args:
        store: The store or the retriever.
        encoder: The maker of the vector.
        advice: A sentence about what to do.
        vector: The vector.
        error: The error of the store.

    Raises:
        EncoderMismatchError: if its vectors have another dimension.
    """
    if not isinstance(error, EpicError) and refuses_dimension(error, vector):
        raise EncoderMismatchError(
            f"{type(store).__name__} refuses the query's embedding, {len(vector)} numbers made with {encoder.name}:"
            f" {error}. {advice}"
        ) from error
