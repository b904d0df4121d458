"""Encoder for an embedding model of an Ollama server."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

from epic_memory.encoders.adapted import AdaptedEncoder
from epic_memory.errors import EncoderError, LMError
from epic_memory.lm.http import Reply
from epic_memory.lm.ollama import digest_of, environment_key, ollama_server, server_address


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
    def fingerprint(self) -> str:
        """The model's digest on the server, found out by one request."""
        try:
            return digest_of(self._server, self._model)[:32]
        except LMError as error:
            raise self._explained(error) from error

    def _explained(self, error: Exception) -> EncoderError:
        return EncoderError(str(error)) if isinstance(error, LMError) else super()._explained(error)

    def _requests(self, texts: list[str]) -> Iterator[dict[str, Any]]:
        kept = {} if self._keep_alive is None else {"keep_alive": self._keep_alive}
        for start in range(0, len(texts), self._batch_size):
            yield {"model": self._model, "input": texts[start : start + self._batch_size], **kept}

    def _rows(self, replies: list[Reply]) -> list[Any]:
        return [row for reply in replies for row in self._server.json_of(reply)["embeddings"]]

    def _documents(self, texts: list[str]) -> list[Any]:
        return self._rows([self._server.send("POST", "/api/embed", each) for each in self._requests(texts)])

    async def _adocuments(self, texts: list[str]) -> list[Any]:
        return self._rows([await self._server.asend("POST", "/api/embed", each) for each in self._requests(texts)])

    def _query(self, text: str) -> Any:
        return self._documents([text])[0]

    async def _aquery(self, text: str) -> Any:
        return (await self._adocuments([text]))[0]
