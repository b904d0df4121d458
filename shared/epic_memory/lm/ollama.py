"""Language model for a chat model of an Ollama server."""

from __future__ import annotations

import os
import weakref
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any

from epic_memory.errors import InvalidInputError, LMError, LMSetupError, LMUnavailableError, MissingExtraError
from epic_memory.lm.base import SECONDS, Completion, LimitedLM, LoopClients, Message, Schema, is_cut, tokens_of
from epic_memory.lm.failures import of_status, too_slow
from epic_memory.lm.http import awithin, check_model, client_settings, count, sendable, tls_context, within, without_key
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
        ollama = ollama_package()
        check_model("OllamaLM", model, api_key, timeout)
        super().__init__(f"ollama:{model}", concurrency=concurrency, context=context)
        self._model = model
        self._think = think
        self._timeout = timeout
        self._settings = {"logprobs": logprobs or None, "keep_alive": keep_alive}
        self._options = {"temperature": 0, "seed": 0, "num_ctx": context, **(options or {})}
        self._ollama = ollama
        address = server_address(host)
        self.host = str(address).rstrip("/")
        self._key = environment_key(address) if api_key is None else api_key
        made = client_settings(address, timeout=timeout, concurrency=concurrency, key=self._key)
        self._client: Any = ollama.Client(host=host, **made)
        weakref.finalize(self, self._client.close)
        self._clients: LoopClients[Any] = LoopClients(
            lambda: ollama.AsyncClient(host=host, **made),
            lambda client: client.close(),
        )

    def check(self) -> None:
        """Check that the server can be reached and has the model.

        Raises:
            LMUnavailableError: if it cannot be reached.
            LMSetupError: if it does not have the model.
        """
        try:
            models = within(self._timeout, self._client.list).models
        except Exception as error:
            raise self._explained(error) from error
        if not {self._model, f"{self._model}:latest"} & {model.model for model in models}:
            raise self._not_pulled()

    def session(self) -> AbstractAsyncContextManager[Any]:
        """Return a context that keeps the connection of the running event loop open between calls."""
        return self._clients.client()

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
            answer = yield Attempt(self._chat, self._achat, **request)
            try:
                if isinstance(answer, Exception):
                    raise answer
                return _completion(answer)
            except Exception as error:
                self._learn(error, request)

    def _chat(self, **request: Any) -> Any:
        return within(self._timeout, lambda: self._client.chat(**request))

    async def _achat(self, **request: Any) -> Any:
        async with self._clients.client() as client:
            return await awithin(self._timeout, client.chat(**request))

    def _learn(self, error: Exception, request: dict[str, Any]) -> None:
        """Remove a setting that the server refused from the request; raise the error's meaning if there is none."""
        refused = isinstance(error, self._ollama.ResponseError) and error.status_code == 400
        if isinstance(error, ValueError) and request["logprobs"] and "logprob" in str(error):
            # The client refuses an answer in which a probability is missing.
            request["logprobs"] = None
        elif refused and request["think"] is not None and "think" in str(error).lower():
            self._think = request["think"] = None
        else:
            raise self._explained(error) from error

    def _not_pulled(self) -> LMSetupError:
        return LMSetupError(
            f"The Ollama server at {self.host} does not have the model {self._model!r}."
            f" Pull it: ollama pull {self._model}"
        )

    def _explained(self, error: Exception) -> LMError:
        import httpx

        if isinstance(error, (ConnectionError, httpx.ConnectError, httpx.ConnectTimeout)):
            return LMUnavailableError(
                f"No Ollama server answers at {self.host}. Start it: ollama serve (https://ollama.com/download has it),"
                f" and pull the model once: ollama pull {self._model}."
                " Another address: OLLAMA_HOST, host=, or --llm-url on the command line."
            )
        if isinstance(error, httpx.TimeoutException):
            return too_slow(f"The model {self._model!r} of the Ollama server", self._timeout)
        if not isinstance(error, self._ollama.ResponseError):
            said = without_key(str(error), self._key)[:300] or type(error).__name__
            return LMUnavailableError(f"The Ollama server failed on the model {self._model!r}: {said}")
        said, status = without_key(str(error.error), self._key)[:300], error.status_code
        if status < 300:
            return LMUnavailableError(f"The Ollama server failed on the model {self._model!r}: {said}")
        return of_status(f"The Ollama server at {self.host}", status, said, unknown=str(self._not_pulled()))


def ollama_package() -> Any:
    """Return the package ollama, which makes a client for `OLLAMA_HOST` when it is imported."""
    try:
        import ollama
    except ImportError as error:  # a base dependency, but environments are edited by hand
        raise MissingExtraError("ollama", "all") from error
    except ValueError as error:
        raise InvalidInputError(f"OLLAMA_HOST is no address of a server: {error}.") from None
    return ollama


def server_address(host: str | None) -> httpx.URL:
    """Return the address at which the `ollama` client looks for a server: `host`, `OLLAMA_HOST`, or its own default."""
    import httpx

    ollama = ollama_package()
    try:
        with ollama.Client(host=host, verify=tls_context()) as client:
            address: httpx.URL = client._client.base_url
    except (ValueError, AttributeError, httpx.InvalidURL) as error:
        raise InvalidInputError(f"{host!r} is no address of a server: {error}.") from None
    return address


def environment_key(address: httpx.URL) -> str | None:
    """Return the key in `OLLAMA_API_KEY` for the server that it is for, https://ollama.com; None for any other."""
    meant = address.scheme == "https" and address.host == "ollama.com"
    return (os.environ.get("OLLAMA_API_KEY") or None) if meant else None


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
