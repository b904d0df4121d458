"""A chat model of any server that speaks OpenAI's protocol: vLLM, llama.cpp, LM Studio and others."""

from __future__ import annotations

import json
import re
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

from epic_core.errors import InvalidInputError, LMError, LMSetupError, LMUnavailableError
from epic_core.lm.base import Completion, Message, Schema, Token
from epic_core.lm.http import checked_limits, client_settings, sendable
from epic_core.lm.limits import Gate, LoopClients

_KEY = re.compile(r"[!-~]+")

# What servers refuse, by the words in their refusals; left out from then on.
_OPTIONAL = {"response_format": ("response_format", "json_schema", "grammar", "guided"), "logprobs": ("logprobs",)}
_OPTIONAL |= {name: (name,) for name in ("top_logprobs", "seed", "temperature", "stream_options")}


class OpenAICompatibleLM:
    """A model behind `POST {base_url}/chat/completions`: `OpenAICompatibleLM("http://localhost:8000/v1", "qwen3")`.

    Asked at temperature 0 and seed 0, held to a JSON schema where the server can. Settings that a server
    refuses (`response_format`, `logprobs`, `seed`, `temperature`) are left out from then on. Nothing is sent
    before the first call, and no key is taken from the environment.

    Args:
        base_url: Up to and including the version, as in `http://localhost:8000/v1`.
        model: The model's name on that server.
        api_key: Sent as a bearer token; None sends none.
        timeout: Seconds to wait for an answer; with `stream`, for its next token.
        concurrency: How many calls the server gets at once; raise it for servers that batch.
        context: Tokens that prompt and answer have together, if known: what cannot fit is not sent.
        logprobs: Ask for the probabilities that confidences are made of.
        stream: Receive the answer token by token.
        extra: More fields of the request, such as `{"chat_template_kwargs": {"enable_thinking": False}}`,
            which keeps Qwen3 on vLLM or llama.cpp from thinking.

    Raises:
        InvalidInputError: for an address or limits that cannot be.
        LMSetupError: on use, when the server does not know the model or refuses the key.
        LMUnavailableError: on use, when the server is not there, fails or takes too long.
        LMError: on use, when the server refuses the request.
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        api_key: str | None = None,
        timeout: float = 120.0,
        concurrency: int = 1,
        context: int | None = None,
        logprobs: bool = True,
        stream: bool = False,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        import httpx

        if not _is_address(base_url):
            raise InvalidInputError(f"base_url must be an address such as http://localhost:8000/v1, not {base_url!r}.")
        if not isinstance(model, str) or not model.strip():
            raise InvalidInputError(f"OpenAICompatibleLM needs the name of a model, not {model!r}.")
        if api_key is not None and not (isinstance(api_key, str) and _KEY.fullmatch(api_key)):
            raise InvalidInputError(
                "api_key must be printable ASCII without spaces or line ends. (It is not shown here.)"
            )
        checked_limits(timeout=timeout, context=context)
        address = httpx.URL(base_url)
        if address.userinfo:
            raise InvalidInputError("base_url must hold no user and no password. Give api_key= instead.")
        self.name = f"openai:{model}"
        self.concurrency = concurrency
        self.context = context
        self.base_url = base_url.rstrip("/")
        self._model = model
        self._stream = stream
        self._logprobs = logprobs
        self._extra = dict(extra or {})
        self._refused: set[str] = set()
        self._older_form = self._newer_limit = False
        self._gate = Gate(concurrency)
        self._key = api_key
        headers = {} if api_key is None else {"Authorization": f"Bearer {api_key}"}
        made = client_settings(timeout=timeout, concurrency=concurrency, host=address.host)
        made |= {"headers": headers}
        self._client = httpx.Client(**made)
        weakref.finalize(self, self._client.close)
        self._clients = LoopClients(
            lambda: httpx.AsyncClient(**made),
            lambda client: client.aclose(),
        )

    def check(self) -> None:
        """Ask the server whether it is there and lists the model.

        Raises:
            LMUnavailableError: if it is not there.
            LMSetupError: if it does not know the model, or refuses the key.
        """
        try:
            answer = self._client.get(f"{self.base_url}/models")
            if answer.status_code in (404, 405, 501):
                return  # a server without that list
            self._accept(answer.status_code, answer.headers, answer.text)
            listed = [str(model["id"]) for model in answer.json()["data"]]
        except (ValueError, KeyError, TypeError):
            return  # a list in another form
        except LMError:
            raise
        except Exception as error:
            raise self._explained(error) from error
        if listed and self._model not in listed:
            known = ", ".join(listed[:20])
            raise LMSetupError(
                f"The server at {self.base_url} does not know the model {self._model!r}. It has: {known}"
            )

    def session(self) -> AbstractAsyncContextManager[Any]:
        """Keeps the connections of the running event loop open between calls."""
        return self._clients.client()

    def complete(
        self, messages: Sequence[Message], *, schema: Schema | None = None, max_tokens: int | None = None
    ) -> Completion:
        """The model's answer."""
        with self._gate.enter():
            while True:
                request = self._request(messages, schema, max_tokens)
                try:
                    with self._client.stream("POST", f"{self.base_url}/chat/completions", json=request) as answer:
                        if answer.status_code >= 400:
                            answer.read()
                            if self._learns(answer.status_code, answer.text, request):
                                continue
                        if self._stream and answer.status_code < 300:
                            parts = _Parts(self._without_key)
                            for line in answer.iter_lines():
                                if parts.take(line):
                                    break
                            return parts.completion()
                        answer.read()
                        self._accept(answer.status_code, answer.headers, answer.text)
                        return _whole(answer.text, self._without_key)
                except LMError:
                    raise
                except Exception as error:
                    raise self._explained(error) from error

    async def acomplete(
        self, messages: Sequence[Message], *, schema: Schema | None = None, max_tokens: int | None = None
    ) -> Completion:
        """As `complete`, with an asynchronous client."""
        async with self._gate.aenter(), self._clients.client() as client:
            while True:
                request = self._request(messages, schema, max_tokens)
                try:
                    url = f"{self.base_url}/chat/completions"
                    async with client.stream("POST", url, json=request) as answer:
                        if answer.status_code >= 400:
                            await answer.aread()
                            if self._learns(answer.status_code, answer.text, request):
                                continue
                        if self._stream and answer.status_code < 300:
                            parts = _Parts(self._without_key)
                            async for line in answer.aiter_lines():
                                if parts.take(line):
                                    break
                            return parts.completion()
                        await answer.aread()
                        self._accept(answer.status_code, answer.headers, answer.text)
                        return _whole(answer.text, self._without_key)
                except LMError:
                    raise
                except Exception as error:
                    raise self._explained(error) from error

    def _request(self, messages: Sequence[Message], schema: Schema | None, max_tokens: int | None) -> dict[str, Any]:
        request: dict[str, Any] = {
            "model": self._model,
            "messages": sendable(messages),
            "temperature": 0,
            "seed": 0,
        }
        if max_tokens is not None:
            # OpenAI's own newer models know the limit by another name.
            request["max_completion_tokens" if self._newer_limit else "max_tokens"] = max_tokens
        if schema is not None:
            form = {"name": "answer", "schema": dict(schema), "strict": True}
            request["response_format"] = (
                {"type": "json_object", "schema": dict(schema)}
                if self._older_form
                else {"type": "json_schema", "json_schema": form}
            )
        if self._logprobs and "logprobs" not in self._refused:
            # Some servers give none unless they are asked for alternatives too.
            request |= {"logprobs": True, "top_logprobs": 1}
        if self._stream:
            request |= {"stream": True, "stream_options": {"include_usage": True}}
        return {name: value for name, value in (request | self._extra).items() if name not in self._refused}

    def _learns(self, status: int, said: str, request: Mapping[str, Any]) -> bool:
        """Whether the server refused a setting that can be left out, or the form of one."""
        said = said.lower()
        # Some servers call a form they do not know their own error.
        if status not in (400, 422, 501) and not (status == 500 and "response_format" in said):
            return False
        if "max_tokens" in request and "max_completion_tokens" in said:
            self._newer_limit = True
            return True
        named = {
            name for name, words in _OPTIONAL.items() if name in request and any(word in said for word in words)
        } - self._extra.keys()
        if "top_logprobs" in named:
            named.discard("logprobs")  # it may take the one without the other
        if "response_format" in named and request["response_format"]["type"] == "json_schema":
            self._older_form = True
            named.discard("response_format")
            self._refused |= named
            return True
        self._refused |= named
        return bool(named)

    def _accept(self, status: int, headers: Mapping[str, str], said: str) -> None:
        """Raise what a status means."""
        if status < 300:
            return
        if status < 400:
            place = self._without_key(headers.get("location", ""))[:300]
            raise LMSetupError(
                f"The server at {self.base_url} sends its callers elsewhere ({status}): {place}"
                " Give its new address as base_url."
            )
        said = f"({status}): {self._without_key(said)[:300]}"
        if status in (401, 403):
            raise LMSetupError(f"The server at {self.base_url} refuses this key or user {said} Give another api_key.")
        if status == 404:
            raise LMSetupError(
                f"The server at {self.base_url} does not know the model {self._model!r} {said}"
                " Check the model's name, and that base_url ends in /v1."
            )
        if status in (408, 409, 425, 429) or status >= 500:
            wait = headers.get("retry-after", "")
            raise LMUnavailableError(
                f"The server at {self.base_url} failed {said}",
                timed_out=status == 408,
                retry_after=float(wait) if wait.isdecimal() else None,
            )
        raise LMError(f"The server at {self.base_url} refused the request {said}")

    def _without_key(self, said: str) -> str:
        """What a server said, without the key it may have repeated."""
        return said if self._key is None else said.replace(self._key, "***")

    def _explained(self, error: Exception) -> LMError:
        import httpx

        if isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout)):
            return LMUnavailableError(
                f"No server answers at {self.base_url}. Start it (vllm serve MODEL, or llama-server -m FILE),"
                " or give another base_url."
            )
        if isinstance(error, httpx.TimeoutException):
            return LMUnavailableError(
                f"The server at {self.base_url} did not answer in time. Give it longer (timeout=), or take a smaller"
                " model.",
                timed_out=True,
            )
        said = self._without_key(str(error))[:300] or type(error).__name__
        return LMUnavailableError(f"The server at {self.base_url} gave no usable answer: {said}")


def _is_address(base_url: Any) -> bool:
    import httpx

    if not isinstance(base_url, str) or not base_url.startswith(("http://", "https://")):
        return False
    try:
        return bool(httpx.URL(base_url).host)
    except httpx.InvalidURL:
        return False


def _whole(text: str, without_key: Callable[[str], str]) -> Completion:
    """The completion in the body of an answer."""
    body = json.loads(text)
    if "error" in body and not body.get("choices"):
        raise LMUnavailableError(f"The server failed: {without_key(str(body['error']))[:300]}")
    choice = body["choices"][0]
    return _completion(choice["message"].get("content"), choice.get("logprobs"), body, choice.get("finish_reason"))


class _Parts:
    """The parts of an answer that a server sends as events."""

    def __init__(self, without_key: Callable[[str], str]) -> None:
        self._without_key = without_key
        self._text: list[str] = []
        self._tokens: list[Any] = []
        self._usage: Mapping[str, Any] = {}
        self._finish: Any = None
        self._ended = False

    def take(self, line: str) -> bool:
        """Take in one line; whether it was the last."""
        if not line.startswith("data:"):
            return False
        data = line[len("data:") :].strip()
        if data == "[DONE]":
            self._ended = True
            return True
        event = json.loads(data)
        if "error" in event:
            raise LMUnavailableError(f"The server broke off: {self._without_key(str(event['error']))[:300]}")
        self._usage = event.get("usage") or self._usage
        for choice in event.get("choices", ())[:1]:
            self._text.append((choice.get("delta") or {}).get("content") or "")
            self._tokens += (choice.get("logprobs") or {}).get("content") or ()
            self._finish = choice.get("finish_reason") or self._finish
        return False

    def completion(self) -> Completion:
        """What came, if the server said that it was all."""
        if not self._ended and self._finish is None:
            raise LMUnavailableError("The server broke off in the middle of an answer.")
        return _completion("".join(self._text), {"content": self._tokens}, {"usage": self._usage}, self._finish)


def _completion(text: str | None, logprobs: Any, body: Mapping[str, Any], finish: Any) -> Completion:
    usage = body.get("usage") or {}
    return Completion(
        text=text or "",
        tokens=_tokens((logprobs or {}).get("content") or ()),
        prompt_tokens=int(usage.get("prompt_tokens") or 0),
        completion_tokens=int(usage.get("completion_tokens") or 0),
        cut=finish == "length",
    )


def _tokens(given: Iterable[Mapping[str, Any]]) -> tuple[Token, ...] | None:
    return tuple(Token(str(token["token"]), float(token["logprob"])) for token in given) or None
