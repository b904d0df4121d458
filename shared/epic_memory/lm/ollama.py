"""Language model for a chat model of an Ollama server."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any

from epic_memory.errors import InvalidInputError, LMSetupError, LMUnavailableError
from epic_memory.lm.base import SECONDS, Completion, LimitedLM, Message, Schema, is_cut, tokens_of
from epic_memory.lm.http import ModelServer, check_model, count, sendable
from epic_memory.runtime.effects import Call, Effects

if TYPE_CHECKING:
    import httpx

_DEFAULT_PORTS = {"http": 80, "https": 443}
_PORT = 11434


class OllamaLM(LimitedLM):
    """A model that an Ollama server runs, such as `OllamaLM("qwen3:4b")`.

    It is asked at temperature 0 and seed 0, without thinking, and the server holds it to a JSON schema. Nothing is sent
    before the first call.

    Args:
        model: The model's name, pulled on the server: `ollama pull qwen3:4b`.
        host: Address of the server; default: `OLLAMA_HOST`, else Ollama's own default.
        api_key: Sent to this server as a bearer token. `OLLAMA_API_KEY` is sent to https://ollama.com only.
        timeout: Seconds for an answer as a whole, from the request to the last byte.
        concurrency: How many calls the server gets at once; a local one handles them one after the other anyway.
        context: Tokens for prompt and answer together. Sent to the server, whose own default may be smaller: it then
            cuts the prompt without saying so.
        keep_alive: How long the server keeps the model loaded, as Ollama takes it.
        think: Whether a thinking model thinks; None leaves it to the server. Models that cannot think are asked again
            without this setting.
        logprobs: Whether to ask for the probabilities from which confidences are computed.
        options: Further options of Ollama, such as `{"num_thread": 4}`.

    Raises:
        InvalidInputError: for an invalid name, address, key or limit.
        LMSetupError: on use, when the server does not have the model.
        LMUnavailableError: on use, when the server cannot be reached, fails or takes too long.
        LMError: on use, when the server refuses the request.
    """

    def __init__(
        self,
        model: str,
        *,
        host: str | None = None,
        api_key: str | None = None,
        timeout: float = SECONDS,
        concurrency: int = 1,
        context: int = 8192,
        keep_alive: float | str | None = "10m",
        think: bool | None = False,
        logprobs: bool = True,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        check_model("OllamaLM", model, api_key, timeout)
        super().__init__(f"ollama:{model}", concurrency=concurrency, context=context)
        self._model = model
        self._think = think
        self._settings = {"logprobs": logprobs or None, "keep_alive": keep_alive}
        self._options = {"temperature": 0, "seed": 0, "num_ctx": context, **(options or {})}
        address = server_address(host)
        self.host = str(address).rstrip("/")
        key = environment_key(address) if api_key is None else api_key
        self._server = ollama_server(address, model, timeout=timeout, concurrency=concurrency, key=key)

    def check(self) -> None:
        """Check that the server can be reached and has the model.

        Raises:
            LMUnavailableError: if it cannot be reached.
            LMSetupError: if it does not have the model.
        """
        digest_of(self._server, self._model)

    def session(self) -> AbstractAsyncContextManager[Any]:
        """Return a context that keeps the connection of the running event loop open between calls."""
        return self._server.clients.client()

    def _completing(
        self, messages: Sequence[Message], schema: Schema | None, max_tokens: int | None
    ) -> Effects[Completion]:
        limit = {} if max_tokens is None else {"num_predict": max_tokens}
        request = {
            "model": self._model,
            "messages": sendable(messages),
            "stream": False,
            "format": None if schema is None else dict(schema),
            "think": self._think,
            "options": {**self._options, **limit},
            **self._settings,
        }
        request = {name: value for name, value in request.items() if value is not None}
        answer = yield Call(self._server.send, self._server.asend, "POST", "/api/chat", request)
        if answer.status == 400 and "think" in request and "think" in answer.text.lower():
            self._think = None
            del request["think"]
            answer = yield Call(self._server.send, self._server.asend, "POST", "/api/chat", request)
        body = self._server.json_of(answer)
        with self._server.explaining():
            return _completion(body)


def ollama_server(address: httpx.URL, model: str, *, timeout: float, concurrency: int, key: str | None) -> ModelServer:
    """Return the Ollama server at an address, which is to have a model."""
    host, pull = str(address).rstrip("/"), f"ollama pull {model}"
    return ModelServer(
        address,
        f"The Ollama server at {host}",
        silent=f"No Ollama server answers at {host}. Start it: ollama serve (https://ollama.com/download has it), and"
        f" pull the model once: {pull}. Another address: OLLAMA_HOST, host=, or --llm-url on the command line.",
        unknown=f"The Ollama server at {host} does not have the model {model!r}. Pull it: {pull}",
        timeout=timeout,
        concurrency=concurrency,
        key=key,
    )


def digest_of(server: ModelServer, model: str) -> str:
    """Return the digest of a model on an Ollama server; one that it does not have is an `LMSetupError`."""
    listed = server.json_of(server.send("GET", "/api/tags"))
    with server.explaining():
        names = {str(one["name"]): str(one.get("digest") or "") for one in listed["models"]}
    for name in (model, f"{model}:latest"):
        if name in names:
            return names[name]
    raise LMSetupError(server.unknown)


def server_address(host: str | None) -> httpx.URL:
    """Return the address of an Ollama server: `host`, `OLLAMA_HOST` or this machine; Ollama's port if it has none."""
    import httpx

    given = os.environ.get("OLLAMA_HOST", "").strip() if host is None else host
    try:
        scheme = re.match(r"\w+(?=://)", given)
        url = httpx.URL(given if scheme else f"http://{given}")
        port = url.port or (_DEFAULT_PORTS[url.scheme] if scheme else _PORT)
        return url.copy_with(host=url.host or "127.0.0.1", port=port, query=None, fragment=None)
    except (TypeError, KeyError, httpx.InvalidURL) as error:
        raise InvalidInputError(f"{given!r} is no address of a server: {error}.") from None


def environment_key(address: httpx.URL) -> str | None:
    """Return the key in `OLLAMA_API_KEY` for the server that it is for, https://ollama.com; None for any other."""
    meant = address.scheme == "https" and address.host == "ollama.com"
    return (os.environ.get("OLLAMA_API_KEY") or None) if meant else None


def _completion(body: Any) -> Completion:
    if "error" in body:
        raise LMUnavailableError(f"The Ollama server failed: {body['error']}")
    if not body["done"]:
        raise EOFError("it broke off in the middle of an answer")
    return Completion(
        text=body["message"].get("content") or "",
        tokens=tokens_of(body.get("logprobs")),
        prompt_tokens=count(body.get("prompt_eval_count")),
        completion_tokens=count(body.get("eval_count")),
        cut=is_cut([body.get("done_reason")]),
    )
