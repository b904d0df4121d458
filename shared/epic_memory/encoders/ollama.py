"""Encoder for an embedding model of an Ollama server."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import numpy as np

from epic_memory.encoders.base import checked
from epic_memory.errors import EncoderError, LMError
from epic_memory.lm.ollama import OllamaServer
from epic_memory.types import FloatArray


class OllamaEncoder:
    """An Ollama embedding model, such as `OllamaEncoder("nomic-embed-text")`.

    Nothing is sent until the first use. The fingerprint is the digest that the server reports for the model.

    Args:
        model: The model's name, pulled on the server.
        host: Address of the server; default: `OLLAMA_HOST`, else Ollama's own default.
        timeout: Seconds for one request.
        batch_size: Texts in one request.

    Raises:
        MissingExtraError: if the package ollama is not installed.
        EncoderError: on use, if the server cannot be reached, fails, or does not have the model.
    """

    def __init__(
        self,
        model: str,
        *,
        host: str | None = None,
        timeout: float = 60.0,
        batch_size: int = 64,
    ) -> None:
        self.name = f"ollama:{model}"
        self._server = OllamaServer(host, model, timeout=timeout, concurrency=1)
        self._batch_size = batch_size
        self._model = model
        # all-minilm is all-MiniLM-L6-v2, trained on English; other models' names do not tell their languages.
        english = model.partition(":")[0] == "all-minilm"
        self.languages: frozenset[str] | None = frozenset({"en"}) if english else None

    @cached_property
    def dimension(self) -> int:
        """Length of an embedding: of the first one made, or else of one made to find out."""
        return int(self.encode(["dimension"]).shape[1])

    @cached_property
    def fingerprint(self) -> str:
        """The model's digest on the server, found out by one request."""
        with _explaining():
            digest = self._server.digest()[:32]
        if not digest:
            raise EncoderError(
                f"The Ollama server gives no digest of {self._model!r}: a change of it would go unnoticed."
            )
        return digest

    def encode(self, texts: Sequence[str]) -> FloatArray:
        """Return L2-normalised float32 embeddings, shape `(len(texts), dimension)`."""
        with _explaining():
            return self._of(texts, [self._server.ask("embed", **each) for each in self._requests(texts)])

    async def aencode(self, texts: Sequence[str]) -> FloatArray:
        """Return embeddings as `encode` does, without blocking the event loop."""
        with _explaining():
            return self._of(texts, [await self._server.aask("embed", **each) for each in self._requests(texts)])

    def _requests(self, texts: Sequence[str]) -> Iterator[dict[str, Any]]:
        for start in range(0, len(texts), self._batch_size):
            yield {"model": self._model, "input": list(texts[start : start + self._batch_size])}

    def _of(self, texts: Sequence[str], answers: Iterable[Any]) -> FloatArray:
        if not texts:
            return np.empty((0, self.dimension), dtype=np.float32)
        rows = [row for answer in answers for row in answer.embeddings]
        with self._server.explaining():
            length = len(rows[0])
        if not length:
            raise EncoderError(f"{self.name} gave an embedding without numbers.")
        # Set the dimension now: finding it out later, on an event loop, would block.
        self.__dict__.setdefault("dimension", length)
        return checked(self, texts, rows)


@contextmanager
def _explaining() -> Iterator[None]:
    """Return a context in which a failure of the server is an `EncoderError`."""
    try:
        yield
    except LMError as error:
        raise EncoderError(str(error)) from error
