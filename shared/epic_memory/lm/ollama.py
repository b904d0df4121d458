"""Language model for a chat model of an Ollama server."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from epic_memory.errors import InvalidInputError, LMSetupError, MissingExtraError
from epic_memory.lm.base import SECONDS, Completion, LimitedLM, Message, Schema, is_cut, tokens_of
from epic_memory.lm.http import ModelServer, awithin, check_model, count, sendable, tls_context, within
from epic_memory.runtime.effects import Attempt, Effects

if TYPE_CHECKING:
    import httpx


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
        MissingExtraError: if the package ollama is not installed.
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
        self._server = OllamaServer(host, model, timeout=timeout, concurrency=concurrency, api_key=api_key)
        self.host, self._clients = self._server.host, self._server.clients

    def check(self) -> None:
        """Check that the server can be reached and has the model.

        Raises:
            LMUnavailableError: if it cannot be reached.
            LMSetupError: if it does not have the model.
        """
        self._server.digest()

    def _completing(
        self, messages: Sequence[Message], schema: Schema | None, max_tokens: int | None
    ) -> Effects[Completion]:
        limit = {} if max_tokens is None else {"num_predict": max_tokens}
        request: dict[str, Any] = {
            "model": self._model,
            "messages": sendable(messages),
            "format": schema,
            "think": self._think,
            "options": {**self._options, **limit},
            **self._settings,
        }
        while True:
            answer = yield Attempt(self._server.ask, self._server.aask, "chat", **request)
            if not isinstance(answer, Exception):
                with self._server.explaining():
                    return _completion(answer)
            self._learn(answer, request)

    def _learn(self, error: Exception, request: dict[str, Any]) -> None:
        """Remove a setting that the server or the client refused from the request; raise the error if there is none."""
        cause = error.__cause__
        refused = getattr(cause, "status_code", None) == 400
        if isinstance(cause, ValueError) and request["logprobs"] and "logprob" in str(cause):
            # The client refuses an answer in which a probability is missing.
            request["logprobs"] = None
        elif refused and request["think"] is not None and "think" in str(cause).lower():
            self._think = request["think"] = None
        else:
            raise error


class OllamaServer(ModelServer):
    """An Ollama server, which is to have a model, asked by the client of the package ollama.

    Args:
        host, api_key: As `OllamaLM` takes them.
        model: The model's name.
        timeout, concurrency: As `ModelServer` takes them.
    """

    def __init__(
        self, host: str | None, model: str, *, timeout: float, concurrency: int, api_key: str | None = None
    ) -> None:
        ollama = ollama_package()
        address = server_address(host)
        # The environment's key is for https://ollama.com alone.
        if api_key is None and address.scheme == "https" and address.host == "ollama.com":
            api_key = os.environ.get("OLLAMA_API_KEY") or None
        self.host, self._model, pull = str(address).rstrip("/"), model, f"ollama pull {model}"
        super().__init__(
            address,
            f"The Ollama server at {self.host}",
            partial(ollama.Client, host=self.host),
            partial(ollama.AsyncClient, host=self.host),
            ollama.AsyncClient.close,
            silent=f"No Ollama server answers at {self.host}. Start it: ollama serve (https://ollama.com/download has"
            f" it), and pull the model once: {pull}. Another address: OLLAMA_HOST, host=, or --llm-url on the command"
            " line.",
            unknown=f"The Ollama server at {self.host} does not have the model {model!r}. Pull it: {pull}",
            timeout=timeout,
            concurrency=concurrency,
            key=api_key,
        )

    def ask(self, method: str, **fields: Any) -> Any:
        """Return what a method of the client returns."""

        def asked() -> Any:
            with self._refusing():
                return getattr(self.client, method)(**fields)

        with self.explaining():
            return within(self._timeout, asked)

    async def aask(self, method: str, **fields: Any) -> Any:
        """Return an answer as `ask` does, without blocking the event loop."""

        async def asked() -> Any:
            async with self.clients.client() as client:
                with self._refusing():
                    return await getattr(client, method)(**fields)

        with self.explaining():
            return await awithin(self._timeout, asked())

    @contextmanager
    def _refusing(self) -> Iterator[None]:
        """Return a context in which a status that is no success is raised as an `LMError`."""
        import ollama

        try:
            yield
        except ollama.ResponseError as error:
            # The headers are not in the package's error, but in the one of httpx in whose place it was raised.
            headers = getattr(getattr(error.__context__, "response", None), "headers", {})
            raise self.refusal(error.status_code, str(error.error), headers) from error

    def digest(self) -> str:
        """Return the model's digest; a model that the server does not have is an `LMSetupError`."""
        digests = {each.model: each.digest or "" for each in self.ask("list").models}
        for name in (self._model, f"{self._model}:latest"):
            if name in digests:
                return digests[name]
        raise LMSetupError(self.unknown)


def ollama_package() -> Any:
    """Return the package ollama, which makes a client for `OLLAMA_HOST` when it is imported."""
    try:
        import ollama
    except ImportError as error:  # a base dependency, but environments are edited by hand
        raise MissingExtraError("ollama", "all") from error
    except ValueError as error:
        raise _no_address(None, error) from None
    return ollama


def server_address(host: str | None) -> httpx.URL:
    """Return the address at which the `ollama` client looks for a server: `host`, `OLLAMA_HOST`, or its own default."""
    import httpx

    ollama = ollama_package()
    try:
        with ollama.Client(host=host, verify=tls_context()) as client:
            address: httpx.URL = client._client.base_url
    except (ValueError, AttributeError, httpx.InvalidURL) as error:
        raise _no_address(host, error) from None
    return address


def _no_address(host: object, error: Exception) -> InvalidInputError:
    return InvalidInputError(f"{host or os.environ.get('OLLAMA_HOST')!r} is no address of a server: {error}.")


def _completion(answer: Any) -> Completion:
    if not answer.done:
        raise EOFError("it broke off in the middle of an answer")
    return Completion(
        text=answer.message.content or "",
        tokens=tokens_of(answer.logprobs),
        prompt_tokens=count(answer.prompt_eval_count),
        completion_tokens=count(answer.eval_count),
        cut=is_cut([answer.done_reason]),
    )
