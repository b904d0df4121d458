"""Base class of the plugins' encoders, which adapts a framework's embedding model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from functools import cached_property, partial
from hashlib import blake2b
from typing import Any

import numpy as np

from epic_memory.encoders.base import checked
from epic_memory.errors import EncoderError, InvalidInputError
from epic_memory.lm.failures import said
from epic_memory.runtime.effects import Attempt, Effects, arun, run
from epic_memory.types import FloatArray
from epic_memory.types.validation import checked_tau
from epic_plugins.adapted_lm import MOST_ENDED, of_ended_loop


class AdaptedEncoder(ABC):
    """Base of an encoder that asks a framework's embedding model.

    Items and preferences are embedded as documents, a user's query as a query. Nothing is sent before the first use.

    Args:
        name: Stored with a memory, which can be opened only with an encoder of that name.
        fingerprint: Identifies the weights. Default: a digest of name, dimension and settings, which stays the same if
            the weights change under the same name.
        tau, floor: Values that suit the model, cosines in [-1, 1]. Default: the core's own.
        settings: Further settings that change the embeddings, for the digest.

    Attributes:
        name: The name.
        tau, floor: Present only if they were given.

    Raises:
        InvalidInputError: if an argument is invalid.
        EncoderError: on use, if the model fails or does not return one embedding for each text.
    """

    tau: float
    floor: float

    def __init__(
        self, name: str, *, fingerprint: str | None, tau: float | None, floor: float | None, settings: str = ""
    ) -> None:
        if fingerprint is not None and (not isinstance(fingerprint, str) or not fingerprint):
            raise InvalidInputError(f"fingerprint must be a text that is not empty, not {fingerprint!r}.")
        self.name = name
        self._fingerprint = fingerprint
        self._settings = settings
        if tau is not None:
            self.tau = checked_tau(tau)
        if floor is not None:
            self.floor = checked_tau(floor, "floor")

    def _given(self) -> dict[str, Any]:
        """Return the constructor's arguments beside the model."""
        values = {name: getattr(self, name, None) for name in ("tau", "floor")}
        return {"name": self.name, "fingerprint": self._fingerprint, **values}

    @abstractmethod
    def _documents(self, texts: list[str]) -> object:
        """Return the model's embeddings of texts that are to be found: a list of numbers for each."""

    @abstractmethod
    async def _adocuments(self, texts: list[str]) -> object:
        """Return embeddings as `_documents` does, without blocking the event loop."""

    @abstractmethod
    def _query(self, text: str) -> object:
        """Return the model's embedding of a query: a list of numbers."""

    @abstractmethod
    async def _aquery(self, text: str) -> object:
        """Return an embedding as `_query` does, without blocking the event loop."""

    @cached_property
    def dimension(self) -> int:
        """Length of an embedding: of the first one made, or else of one made to find out."""
        return int(self.encode(["dimension"]).shape[1])

    @property
    def fingerprint(self) -> str:
        """The fingerprint that was given, else a digest of name, dimension and settings."""
        if self._fingerprint is not None:
            return self._fingerprint
        identity = f"{self.name}\x1f{self.dimension}{self._settings}"
        return blake2b(identity.encode("utf-8", "replace"), digest_size=16).hexdigest()

    def encode(self, texts: Sequence[str]) -> FloatArray:
        """Return L2-normalised float32 embeddings, shape `(len(texts), dimension)`."""
        return run(self._embedding(list(texts)))

    async def aencode(self, texts: Sequence[str]) -> FloatArray:
        """Return embeddings as `encode` does, without blocking the event loop."""
        return await arun(self._embedding(list(texts)), threaded=False)

    def encode_query(self, text: str) -> FloatArray:
        """Return the L2-normalised float32 embedding of a user's query, shape `(dimension,)`."""
        vector: FloatArray = run(self._embedding([text], query=True))[0]
        return vector

    async def aencode_query(self, text: str) -> FloatArray:
        """Return an embedding as `encode_query` does, without blocking the event loop."""
        vector: FloatArray = (await arun(self._embedding([text], query=True), threaded=False))[0]
        return vector

    def _embedding(self, texts: list[str], *, query: bool = False) -> Effects[FloatArray]:
        """Embed documents, or one query."""
        if not texts:
            return np.empty((0, self.dimension), dtype=np.float32)
        given: Any = texts[0] if query else texts
        embed, aembed = (self._query, self._aquery) if query else (self._documents, self._adocuments)
        vectors = yield Attempt(embed, partial(_anew, aembed), given)
        if isinstance(vectors, EncoderError):
            raise vectors
        if isinstance(vectors, Exception):
            raise self._explained(vectors) from vectors
        return self._unit(texts, [vectors] if query else vectors)

    def _explained(self, error: Exception) -> EncoderError:
        return EncoderError(f"The embeddings of {self.name} failed: {said(error)}")

    def _unit(self, texts: Sequence[str], vectors: object) -> FloatArray:
        try:
            array = np.asarray(vectors, dtype=np.float32)
        except (TypeError, ValueError) as error:
            raise EncoderError(
                f"The embeddings of {self.name} are not all lists of numbers of one length: {error}"
            ) from error
        if array.ndim != 2 or len(array) != len(texts) or not array.shape[1]:
            raise EncoderError(f"{self.name} gave embeddings of shape {array.shape} for {len(texts)} texts.")
        # Set the dimension now: finding it out later, on an event loop, would block.
        self.__dict__.setdefault("dimension", array.shape[1])
        return checked(self, texts, array)


async def _anew(embed: Callable[[Any], Awaitable[object]], given: Any) -> object:
    """Embed; try again if a connection of the client belonged to an event loop that has ended."""
    for _ in range(MOST_ENDED):
        try:
            return await embed(given)
        except Exception as error:
            if not of_ended_loop(error):
                raise
    return await embed(given)
