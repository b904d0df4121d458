"""Encoder for an embedding model of an Ollama server."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from functools import cached_property, partial
from typing import Any

from epic_memory.encoders.adapted import AdaptedEncoder
from epic_memory.errors import EncoderError
from epic_memory.lm.failures import said
from epic_memory.lm.http import awithin, client_settings, within
from epic_memory.lm.ollama import environment_key, ollama_package, server_address


class OllamaEncoder(AdaptedEncoder):
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
        super().__init__(f"ollama:{model}", fingerprint=None, tau=None, floor=None)
        self._ollama = ollama_package()
        address = server_address(host)
        self._host = host
        self._timeout = timeout
        self._made = client_settings(address, timeout=timeout, concurrency=1, key=environment_key(address))
        self._client: Any = self._ollama.Client(host=host, **self._made)
        weakref.finalize(self, self._client.close)
        self._batch_size = batch_size
        self._keep_alive = keep_alive
        self._model = model
        # all-minilm is all-MiniLM-L6-v2, trained on English; other models' names do not tell their languages.
        english = model.partition(":")[0] == "all-minilm"
        self.languages: frozenset[str] | None = frozenset({"en"}) if english else None

    @cached_property
    def fingerprint(self) -> str:
        """The model's digest on the server, found out by one request."""
        wanted = {self._model, f"{self._model}:latest"}
        try:
            models = within(self._timeout, self._client.list).models
        except Exception as error:
            raise self._explained(error) from error
        for model in models:
            if model.model in wanted and model.digest:
                return str(model.digest)[:32]
        raise self._not_pulled()

    def _not_pulled(self) -> EncoderError:
        return EncoderError(
            f"The Ollama server does not have the model {self._model!r}. Pull it: ollama pull {self._model}"
        )

    def _explained(self, error: Exception) -> EncoderError:
        if isinstance(error, ConnectionError):
            return EncoderError("No Ollama server answers. Start it: ollama serve (or set OLLAMA_HOST to its address).")
        if isinstance(error, self._ollama.ResponseError) and error.status_code == 404:
            return self._not_pulled()
        return EncoderError(f"The Ollama server failed on the model {self._model!r}: {said(error)}")

    def _requests(self, texts: list[str]) -> Iterator[dict[str, Any]]:
        for start in range(0, len(texts), self._batch_size):
            batch = texts[start : start + self._batch_size]
            yield {"model": self._model, "input": batch, "keep_alive": self._keep_alive}

    def _documents(self, texts: list[str]) -> list[Any]:
        made = (within(self._timeout, partial(self._client.embed, **each)) for each in self._requests(texts))
        return [row for answer in made for row in answer.embeddings]

    async def _adocuments(self, texts: list[str]) -> list[Any]:
        # A client belongs to one event loop; making it here lets any loop use this encoder.
        async with self._ollama.AsyncClient(host=self._host, **self._made) as client:
            made = [await awithin(self._timeout, client.embed(**each)) for each in self._requests(texts)]
        return [row for answer in made for row in answer.embeddings]

    def _query(self, text: str) -> Any:
        return self._documents([text])[0]

    async def _aquery(self, text: str) -> Any:
        return (await self._adocuments([text]))[0]
