"""The encoder seam: E(t) = g(t) / ||g(t)||, and what every caller of an encoder checks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from epic_core.errors import EncoderError
from epic_core.types import FloatArray

_UNIT_TOLERANCE = 1e-3


@runtime_checkable
class Encoder(Protocol):
    """What the core asks of an embedding model.

    An encoder may also have `tau` and `floor` (floats): the coarse filter's threshold and steering's
    floor that suit it. Without them, those of `coarse.default_tau` and `steering.default_floor` are used.
    """

    @property
    def name(self) -> str:
        """Stable name of the model, stored with a memory."""
        ...

    @property
    def dimension(self) -> int:
        """Length d of an embedding."""
        ...

    @property
    def fingerprint(self) -> str:
        """Identifies the weights; changes when they change."""
        ...

    def encode(self, texts: Sequence[str]) -> FloatArray:
        """L2-normalised float32 embeddings, shape `(len(texts), dimension)`."""
        ...

    async def aencode(self, texts: Sequence[str]) -> FloatArray:
        """As `encode`, without blocking the event loop."""
        ...


def embed(encoder: Encoder, texts: Sequence[str]) -> FloatArray:
    """Encode texts and check the result.

    Returns:
        C-contiguous float32 unit vectors, shape `(len(texts), d)`.

    Raises:
        EncoderError: for another shape than asked for, NaN, infinity or a zero vector.
    """
    if not texts:
        return np.empty((0, encoder.dimension), dtype=np.float32)
    return checked(encoder, texts, encoder.encode(texts))


async def aembed(encoder: Encoder, texts: Sequence[str]) -> FloatArray:
    """As `embed`, without blocking the event loop."""
    if not texts:
        return np.empty((0, encoder.dimension), dtype=np.float32)
    return checked(encoder, texts, await encoder.aencode(texts))


def checked(encoder: Encoder, texts: Sequence[str], vectors: object) -> FloatArray:
    """The embeddings as float32 unit vectors, or an EncoderError that says which text failed."""
    try:
        array = np.ascontiguousarray(vectors, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise EncoderError(f"Encoder {encoder.name!r} returned no numeric array: {error}") from error
    if array.shape != (len(texts), encoder.dimension):
        raise EncoderError(
            f"Encoder {encoder.name!r} returned shape {array.shape} for {len(texts)} texts of dimension"
            f" {encoder.dimension}. Its `dimension` or its `encode` is wrong."
        )
    # One multiply-add each row finds NaN, infinity, zero and lengths other than one.
    squares = np.einsum("ij,ij->i", array, array)
    if np.all(np.abs(squares - 1.0) <= _UNIT_TOLERANCE):
        return array
    bad = np.flatnonzero(~(np.isfinite(squares) & (squares > 0.0)))
    if bad.size:
        what = "a zero vector" if squares[bad[0]] == 0.0 else "a vector that is not finite"
        raise EncoderError(
            f"Encoder {encoder.name!r} returned {what} for the text {texts[bad[0]][:80]!r}"
            f" ({bad.size} of {len(texts)} texts). Check the model, or leave those texts out."
        )
    normalised: FloatArray = array / np.sqrt(squares)[:, None]
    return normalised
