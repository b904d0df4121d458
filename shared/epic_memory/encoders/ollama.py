"""Encoder for an embedding model of an Ollama server."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import numpy as np

from epic_memory.encoders.base import checked
from epic_memory.errors import EncoderError, LMError
from epic_memory.lm.http import Reply
from epic_memory.lm.ollama import digest_of, environment_key, ollama_server, server_address
from epic_memory.types import FloatArray


class OllamaEncoder:
    """An Ollama embedding model, such as `OllamaEncoder("nomic-embed-text")`.

    Nothing is sent until the first use. The fingerprint is the digest that the server reports for the model.

    Args:
        model: The model's name, pulled on the server.
        host: Address of the server; default: `OLLAMA_HOST`, else Ollama's own default.
        timeout: Seconds for one request.
        batch_size: Texts in one request.
        keep_alive: How long the server keeps the model loaded, as Ollama takes it.

    Raises:
        EncoderError: on use, if the server cannot be reached, fails, or does not have the model.
    """

    def __init__(
        self,
        model: str,
        *,
        host: str | None = None,
        timeout: float = 60.0,
        batch_size: int = 64,
        keep_alive: float | str | None = None,
    ) -> None:
        self.name = f"ollama:{model}"
        address = server_address(host)
        key = environment_key(address)
        self._server = ollama_server(address, model, timeout=timeout, concurrency=1, key=key)
        self._batch_size = batch_size
        self._keep_alive = keep_alive
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
            return digest_of(self._server, self._model)[:32]

    def encode(self, texts: Sequence[str]) -> FloatArray:
        """Return L2-normalised float32 embeddings, shape `(len(texts), dimension)`."""
        with _explaining():
            return self._of(texts, [self._server.send("POST", "/api/embed", each) for each in self._requests(texts)])

    async def aencode(self, texts: Sequence[str]) -> FloatArray:
        """Return embeddings as `encode` does, without blocking the event loop."""
        with _explaining():
            replies = [await self._server.asend("POST", "/api/embed", each) for each in self._requests(texts)]
            return self._of(texts, replies)

    def _requests(self, texts: Sequence[str]) -> Iterator[dict[str, Any]]:
        kept = {} if self._keep_alive is None else {"keep_alive": self._keep_alive}
        for start in range(0, len(texts), self._batch_size):
            yield {"model": self._model, "input": list(texts[start : start + self._batch_size]), **kept}

    def _of(self, texts: Sequence[str], replies: Iterable[Reply]) -> FloatArray:
        if not texts:
            return np.empty((0, self.dimension), dtype=np.float32)
        bodies = [self._server.json_of(reply) for reply in replies]
        with self._server.explaining():
            rows = [row for body in bodies for row in body["embeddings"]]
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
