"""Encoder for an embedding model of an Ollama server."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from typing import Any

import numpy as np

from epic_memory.errors import EncoderError
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
        keep_alive: float | str | None = None,
    ) -> None:
        from epic_memory.lm.http import client_settings
        from epic_memory.lm.ollama import environment_key, ollama_package, server_address

        self._ollama = ollama_package()
        address = server_address(host)
        self._host = host
        self._timeout = timeout
        self._settings = client_settings(address, timeout=timeout, concurrency=1, key=environment_key(address))
        self._client: Any = self._ollama.Client(host=host, **self._settings)
        weakref.finalize(self, self._client.close)
        self._batch_size = batch_size
        self._keep_alive = keep_alive
        self._model = model
        self.name = f"ollama:{model}"
        # all-minilm is all-MiniLM-L6-v2, trained on English; other models' names do not tell their languages.
        english = model.partition(":")[0] == "all-minilm"
        self.languages: frozenset[str] | None = frozenset({"en"}) if english else None

    @cached_property
    def dimension(self) -> int:
        """Length of an embedding, found out by one request."""
        return int(self.encode(["dimension"]).shape[1])

    @cached_property
    def fingerprint(self) -> str:
        """The model's digest on the server, found out by one request."""
        from epic_memory.lm.http import within

        wanted = {self._model, f"{self._model}:latest"}
        with self._explained():
            models = within(self._timeout, self._client.list).models
        for model in models:
            if model.model in wanted and model.digest:
                return str(model.digest)[:32]
        raise self._not_pulled()

    def _not_pulled(self) -> EncoderError:
        return EncoderError(
            f"The Ollama server does not have the model {self._model!r}. Pull it: ollama pull {self._model}"
        )

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Raise an error of the server as an `EncoderError` that says what to do."""
        try:
            yield
        except ConnectionError as error:
            raise EncoderError(
                "No Ollama server answers. Start it: ollama serve (or set OLLAMA_HOST to its address)."
            ) from error
        except Exception as error:
            if isinstance(error, self._ollama.ResponseError) and error.status_code == 404:
                raise self._not_pulled() from error
            raise EncoderError(
                f"The Ollama server failed on the model {self._model!r}: {error or type(error).__name__}"
            ) from error

    def _batches(self, texts: Sequence[str]) -> list[list[str]]:
        return [list(texts[i : i + self._batch_size]) for i in range(0, len(texts), self._batch_size)]

    def _unit(self, rows: list[Sequence[float]], count: int) -> FloatArray:
        if not count:
            return np.empty((0, self.dimension), dtype=np.float32)
        if len(rows) != count:
            raise EncoderError(f"The model {self._model!r} gave {len(rows)} embeddings for {count} texts.")
        lengths = {len(row) for row in rows}
        if len(lengths) != 1 or not min(lengths):
            raise EncoderError(f"The model {self._model!r} gave embeddings of several lengths, {sorted(lengths)}.")
        array = np.asarray(rows, dtype=np.float32)
        # Set the dimension now: finding it out later, on an event loop, would block.
        self.__dict__.setdefault("dimension", array.shape[1])
        norms = np.linalg.norm(array, axis=1, keepdims=True)
        # A zero row stays zero: the caller's check names its text.
        norms[norms == 0.0] = 1.0
        result: FloatArray = array / norms
        return result

    def encode(self, texts: Sequence[str]) -> FloatArray:
        """Return L2-normalised float32 embeddings, shape `(len(texts), dimension)`."""
        from epic_memory.lm.http import within

        rows: list[Sequence[float]] = []
        with self._explained():
            for batch in self._batches(texts):
                request = {"model": self._model, "input": batch, "keep_alive": self._keep_alive}
                answer = within(self._timeout, partial(self._client.embed, **request))
                rows.extend(answer.embeddings)
        return self._unit(rows, len(texts))

    async def aencode(self, texts: Sequence[str]) -> FloatArray:
        """Return embeddings as `encode` does, with Ollama's asynchronous client."""
        from epic_memory.lm.http import awithin

        rows: list[Sequence[float]] = []
        with self._explained():
            # A client belongs to one event loop; making it here lets any loop use this encoder.
            async with self._ollama.AsyncClient(host=self._host, **self._settings) as client:
                for batch in self._batches(texts):
                    request = {"model": self._model, "input": batch, "keep_alive": self._keep_alive}
                    answer = await awithin(self._timeout, client.embed(**request))
                    rows.extend(answer.embeddings)
        return self._unit(rows, len(texts))
