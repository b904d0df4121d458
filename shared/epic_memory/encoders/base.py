"""Protocol of encoders, E(t) = g(t) / ||g(t)||, and the checks that every caller of an encoder makes."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np

from epic_memory.errors import EncoderError, InvalidInputError
from epic_memory.runtime.effects import Effect, in_thread
from epic_memory.types import FloatArray
from epic_memory.types.weights import StageWeights

_UNIT_TOLERANCE = 1e-3


@runtime_checkable
class Encoder(Protocol):
    """Protocol that the core requires of an embedding model.

    An encoder may have more:
        tau, floor, relevant: Floats; the coarse filter's threshold, steering's floor, and the cosine of a query with a
            text from which the text answers it. Default: those of `default_tau`, `relevance.default_floor` and
            `relevance.default_relevant`.
        recall_taus: The coarse filter's thresholds by the share of what matters that passes (`taus_for_recall`).
        worded: A float; what sharing all telling words adds to a text's cosine. Default: `CandidateWeights.worded`.
        languages: The ISO codes of the languages it knows, a set; a memory counts items in others. None, the default:
            not stated, as for a multilingual model.
        borrow: A bool; False if preferences are not to borrow expansions from the bundled library, some fifty phrases
            for each preference. Default: True.
        encode_query, aencode_query: Take one text, a user's query, and return its embedding, shape `(dimension,)`, for
            models that embed queries differently from documents. Default: queries are encoded like all other texts.
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
        """Identifier of the weights, which changes when they change."""
        ...

    def encode(self, texts: Sequence[str]) -> FloatArray:
        """Return L2-normalised float32 embeddings, shape `(len(texts), dimension)`."""
        ...

    async def aencode(self, texts: Sequence[str]) -> FloatArray:
        """Return embeddings as `encode` does, without blocking the event loop."""
        ...


def embed(encoder: Encoder, texts: Sequence[str]) -> FloatArray:
    """Encode texts and check the result.

    Returns:
        C-contiguous float32 unit vectors, shape `(len(texts), d)`.

    Raises:
        EncoderError: for a wrong shape, NaN, infinity or a zero vector.
    """
    if not texts:
        return np.empty((0, encoder.dimension), dtype=np.float32)
    return checked(encoder, texts, encoder.encode(texts))


async def aembed(encoder: Encoder, texts: Sequence[str]) -> FloatArray:
    """Encode texts as `embed` does, without blocking the event loop."""
    if not texts:
        # For the shape an encoder may have to ask a server.
        return await in_thread(embed, encoder, texts)
    return checked(encoder, texts, await encoder.aencode(texts))


def embed_query(encoder: Encoder, text: str) -> FloatArray:
    """Encode a user's query, with the encoder's `encode_query` if it has one, and check the result.

    Returns:
        A float32 unit vector, shape `(d,)`.

    Raises:
        EncoderError: as `embed`.
    """
    encode: Callable[[str], FloatArray] | None = getattr(encoder, "encode_query", None)
    vectors = embed(encoder, [text]) if encode is None else checked(encoder, [text], [encode(text)])
    vector: FloatArray = vectors[0]
    return vector


async def aembed_query(encoder: Encoder, text: str) -> FloatArray:
    """Encode a query as `embed_query` does, without blocking the event loop."""
    encode: Callable[[str], Awaitable[FloatArray]] | None = getattr(encoder, "aencode_query", None)
    if encode is None and hasattr(encoder, "encode_query"):
        return await in_thread(embed_query, encoder, text)
    vectors = await aembed(encoder, [text]) if encode is None else checked(encoder, [text], [await encode(text)])
    vector: FloatArray = vectors[0]
    return vector


def checked(encoder: Encoder, texts: Sequence[str], vectors: object) -> FloatArray:
    """Return the embeddings as float32 unit vectors; another shape, NaN, infinity or zero is an `EncoderError`."""
    try:
        array = np.ascontiguousarray(vectors, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise EncoderError(f"Encoder {encoder.name!r} returned no numeric array: {error}") from error
    if array.shape != (len(texts), encoder.dimension):
        raise EncoderError(
            f"Encoder {encoder.name!r} returned shape {array.shape} for {len(texts)} texts of dimension"
            f" {encoder.dimension}. Its `dimension` or its `encode` is wrong."
        )
    # One multiply-add for each row finds NaN, infinity, zero and lengths other than one.
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


@dataclass(frozen=True, kw_only=True)
class Calibration(StageWeights):
    """Cosines of an encoder that says nothing of its own."""

    tau: float  # threshold of the coarse filter
    floor: float  # similarity below which a query matches no preference
    above_floor: float  # distance above the floor from which a text answers a query


def default_tau(encoder: object) -> float:
    """Return the coarse filter's threshold for an encoder: its own `tau`, else the paper's 0.3."""
    return float(getattr(encoder, "tau", Calibration.shipped().tau))


def taus_for_recall(encoder: object, recall: float) -> tuple[float, float] | None:
    """Return the thresholds with which about this share of what matters passes the coarse filter.

    Returns:
        For preferences with an expansion of their own, and for others; None for an encoder that was not measured (its
        attribute `recall_taus`, which `shared/tools/fit_coarse.py` prints).
    """
    measured: Mapping[float, tuple[float, float]] | None = getattr(encoder, "recall_taus", None)
    if not measured:
        return None
    shares = sorted(measured)
    own, other = (float(np.interp(recall, shares, [measured[each][kind] for each in shares])) for kind in (0, 1))
    return own, other


def checked_vector(
    vector: Sequence[float] | FloatArray, dimension: int | None, of: object, what: str = "A vector to search for"
) -> FloatArray:
    """Return a vector of numbers as a float32 unit vector, shape `(d,)`; a zero vector stays zero.

    Raises:
        InvalidInputError: for another dimension than `dimension`, unless that is None, or numbers that are not finite.
    """
    try:
        array = np.asarray(vector, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInputError(f"{what} must be a list of numbers.") from None
    norm = float(np.linalg.norm(array)) if array.ndim == 1 else np.nan
    if not np.isfinite(norm):
        raise InvalidInputError(f"{what} must be a list of finite numbers.")
    if dimension is not None and len(array) != dimension:
        raise InvalidInputError(
            f"The vector has {len(array)} dimensions, those of {of} have {dimension}. Embed it with the model that was"
            " used there."
        )
    unit: FloatArray = (array / norm if norm > 0.0 else array).astype(np.float32)
    return unit


def described(encoder: Encoder) -> dict[str, Any]:
    """Return the description of an encoder that a file stores."""
    return {"name": encoder.name, "dimension": encoder.dimension, "fingerprint": encoder.fingerprint}


@dataclass
class Embed(Effect):
    """An effect whose result is the embeddings of texts or queries, float32 of shape `(len(texts), d)`.

    It still runs after an interruption, because verdicts already reached are written with their embeddings.
    """

    encoder: Encoder
    texts: Sequence[str]
    part: str
    query: bool = False
    saves: ClassVar[bool] = True

    def run(self, stopped: threading.Event | None) -> FloatArray:
        """Encode the texts."""
        if self.query:
            return np.stack([embed_query(self.encoder, text) for text in self.texts])
        return embed(self.encoder, self.texts)

    async def arun(self) -> FloatArray:
        """Encode the texts without blocking the event loop."""
        if self.query:
            return np.stack([await aembed_query(self.encoder, text) for text in self.texts])
        return await aembed(self.encoder, self.texts)
