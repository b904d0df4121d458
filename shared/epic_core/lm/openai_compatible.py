"""Language model for any server that speaks OpenAI's protocol: vLLM, llama.cpp, LM Studio and others."""

from __future__ import annotations

import json
import re
import weakref
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from epic_core.errors import InvalidInputError, LMError, LMSetupError, LMUnavailableError
from epic_core.lm.base import Completion, Message, Schema
from epic_core.lm.http import checked_limits, client_settings, most_parts, sendable
from epic_core.lm.limits import Gate, LoopClients
from epic_core.lm.openai_answers import Body, Parts, whole_answer

if TYPE_CHECKING:
    import httpx

_KEY = re.compile(r"[!-~]+")


# Settings that servers refuse, with patterns that find them in a refusal; a refused one is left out from then on.
_OPTIONAL = {"response_format": r"response_format|json_schema|grammar|guided\w*", "logprobs": "logprobs"}
_OPTIONAL |= {name: name for name in ("top_logprobs", "seed", "temperature", "stream_options")}

# How many characters of a refusal are read.
_MOST_SAID = 2**20

# Lines of a message up to this length may be the server's own words, and are not removed as a repetition.
_SHORT_LINE = 10


@dataclass(frozen=True, kw_only=True)
class _LeftOut:
    """Settings that a server refuses, and settings that it wants in another form."""

    names: frozenset[str] = frozenset()
    older_form: bool = False
    newer_limit: bool = False

    def __or__(self, other: _LeftOut) -> _LeftOut:
        return _LeftOut(
            names=self.names | other.names,
            older_form=self.older_form or other.older_form,
            newer_limit=self.newer_limit or other.newer_limit,
        )


class OpenAICompatibleLM:
    """A model behind `POST {base_url}/chat/completions`: `OpenAICompatibleLM("http://localhost:8000/v1", "qwen3")`.

    It is asked at temperature 0 and seed 0, and held to a JSON schema if the server supports it. Settings that a server
    refuses (`response_format`, `logprobs`, `seed`, `temperature`) are left out from then on. Nothing is sent before the
    first call, and no key is taken from the environment.

    Args:
        base_url: Up to and including the version, as in `http://localhost:8000/v1`.
        model: The model's name on that server.
        api_key: Sent as a bearer token; None sends none.
        timeout: Seconds for an answer as a whole, from the request to the last byte; it is also the longest wait for a
            silent server, so that no answer takes more than a few times as long. With `stream`, seconds until more of
            the answer comes: the whole may take longer, but its length is limited.
        concurrency: How many calls the server gets at once; raise it for servers that batch.
        context: Tokens for prompt and answer together, if known; a prompt that does not fit is not sent.
        logprobs: Whether to ask for the probabilities from which confidences are computed.
        stream: Whether to receive the answer token by token.
        extra: Further fields of the request, such as `{"chat_template_kwargs": {"enable_thinking": False}}`, which
            keeps Qwen3 on vLLM or llama.cpp from thinking.

    Raises:
        InvalidInputError: for an invalid address, name, key or limit.
        LMSetupError: on use, when the server does not know the model or refuses the key.
        LMUnavailableError: on use, when the server cannot be reached, fails or takes too long.
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
        self._left_out = _LeftOut()
        self._timeout = timeout
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
        """Check that the server can be reached and lists the model.

        Raises:
            LMUnavailableError: if it cannot be reached.
            LMSetupError: if it does not know the model, or refuses the key.
        """
        try:
            status, headers, said = self._got("/models")
            if status == 404 and self._got("/v1/models")[0] == 200:
                raise LMSetupError(
                    f"There is nothing at {self.base_url}/models, but at {self.base_url}/v1/models."
                    f" Give {self.base_url}/v1 as base_url."
                )
            if status in (404, 405, 501):
                return  # the server does not list its models
            self._accept(status, headers, said)
            listed = [str(model["id"]) for model in json.loads(said)["data"]]
        except (ValueError, KeyError, TypeError):
            return  # the list has an unknown form
        except LMError:
            raise
        except Exception as error:
            raise self._explained(error) from error
        if listed and self._model not in listed:
            known = ", ".join(listed[:20])
            raise LMSetupError(
                f"The server at {self.base_url} does not know the model {self._model!r}. It has: {known}"
            )

    def _got(self, path: str) -> tuple[int, Mapping[str, str], str]:
        """Return status, headers and body of a GET request to a path."""
        body = Body(self._timeout)
        with self._client.stream("GET", f"{self.base_url}{path}") as answer:
            for piece in answer.iter_bytes():
                body.take(piece)
            return answer.status_code, answer.headers, body.text(answer)

    def session(self) -> AbstractAsyncContextManager[Any]:
        """Return a context that keeps the connections of the running event loop open between calls."""
        return self._clients.client()

    def complete(
        self, messages: Sequence[Message], *, schema: Schema | None = None, max_tokens: int | None = None
    ) -> Completion:
        """Return the model's answer."""
        with self._gate.enter():
            left_out = self._left_out
            while True:
                request = self._request(messages, schema, max_tokens, left_out)
                body = Body(self._timeout)
                try:
                    with self._client.stream("POST", f"{self.base_url}/chat/completions", json=request) as answer:
                        receiver = self._receiver(answer, request, body)
                        for piece in answer.iter_bytes():
                            if receiver.take(piece):
                                break
                    outcome = self._outcome(answer, receiver, request, left_out)
                except LMError:
                    raise
                except Exception as error:
                    raise self._explained(error) from error
                if isinstance(outcome, Completion):
                    self._left_out |= left_out
                    return outcome
                left_out = outcome

    async def acomplete(
        self, messages: Sequence[Message], *, schema: Schema | None = None, max_tokens: int | None = None
    ) -> Completion:
        """Return an answer as `complete` does, with an asynchronous client."""
        async with self._gate.aenter(), self._clients.client() as client:
            left_out = self._left_out
            while True:
                request = self._request(messages, schema, max_tokens, left_out)
                body = Body(self._timeout)
                try:
                    url = f"{self.base_url}/chat/completions"
                    async with client.stream("POST", url, json=request) as answer:
                        receiver = self._receiver(answer, request, body)
                        async for piece in answer.aiter_bytes():
                            if receiver.take(piece):
                                break
                    outcome = self._outcome(answer, receiver, request, left_out)
                except LMError:
                    raise
                except Exception as error:
                    raise self._explained(error) from error
                if isinstance(outcome, Completion):
                    self._left_out |= left_out
                    return outcome
                left_out = outcome

    def _receiver(self, answer: httpx.Response, request: Mapping[str, Any], body: Body) -> Body | Parts:
        """Return the receiver of the answer: for the whole body, or for the parts of a stream."""
        if not self._stream or answer.status_code >= 300:
            return body
        return Parts(self._without_key, most_parts(request.get("max_tokens", request.get("max_completion_tokens"))))

    def _outcome(
        self, answer: httpx.Response, receiver: Body | Parts, request: Mapping[str, Any], left_out: _LeftOut
    ) -> Completion | _LeftOut:
        """Return the completion, or the settings that the request has to leave out to get one."""
        if isinstance(receiver, Parts):
            return receiver.completion()
        said = receiver.text(answer)
        learnt = self._learnt(answer.status_code, said, request, left_out)
        if learnt is not None:
            return learnt
        self._accept(answer.status_code, answer.headers, said)
        return whole_answer(said, self._without_key)

    def _request(
        self, messages: Sequence[Message], schema: Schema | None, max_tokens: int | None, left_out: _LeftOut
    ) -> dict[str, Any]:
        request: dict[str, Any] = {
            "model": self._model,
            "messages": sendable(messages),
            "temperature": 0,
            "seed": 0,
        }
        if max_tokens is not None:
            # OpenAI's own newer models have another name for the limit.
            request["max_completion_tokens" if left_out.newer_limit else "max_tokens"] = max_tokens
        if schema is not None:
            form = {"name": "answer", "schema": dict(schema), "strict": True}
            request["response_format"] = (
                {"type": "json_object", "schema": dict(schema)}
                if left_out.older_form
                else {"type": "json_schema", "json_schema": form}
            )
        if self._logprobs and "logprobs" not in left_out.names:
            # Some servers give no log-probabilities unless asked for alternatives too.
            request |= {"logprobs": True, "top_logprobs": 1}
        if self._stream:
            request |= {"stream": True, "stream_options": {"include_usage": True}}
        return {name: value for name, value in (request | self._extra).items() if name not in left_out.names}

    def _learnt(self, status: int, said: str, request: Mapping[str, Any], left_out: _LeftOut) -> _LeftOut | None:
        """Return the settings to leave out from now on, if the server refused one of them or its form; else None."""
        if status not in (400, 422, 500, 501):
            return None
        said = _own_words(said[:_MOST_SAID], request["messages"])
        # Some servers report an unknown response format as an error of their own.
        if status == 500 and not _names("response_format", said):
            return None
        own = self._extra.keys()
        if request.keys() - own >= {"max_tokens"} and _names("max_completion_tokens", said):
            return replace(left_out, newer_limit=True)
        named = {name for name, words in _OPTIONAL.items() if name in request and _names(words, said)} - own
        if "top_logprobs" in named:
            named.discard("logprobs")  # the server may accept `logprobs` without `top_logprobs`
        if "response_format" in named and not left_out.older_form:
            named.discard("response_format")
            left_out = replace(left_out, older_form=True)
        elif not named:
            return None
        return replace(left_out, names=left_out.names | named)

    def _accept(self, status: int, headers: Mapping[str, str], said: str) -> None:
        """Raise the error that a status stands for, if it is not a success."""
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
        """Return a server's text without the key, which it may have repeated."""
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


def _own_words(said: str, messages: Iterable[Mapping[str, str]]) -> str:
    """Return a server's text in lower case, without the parts that it repeats from the messages."""
    said = _unescaped(said)
    for message in messages:
        content = message["content"]
        for text in (content, *sorted(content.splitlines(), key=len, reverse=True)):
            repeated = _unescaped(text).strip()
            if len(repeated) > _SHORT_LINE:
                said = said.replace(repeated, " ")
    return said


def _unescaped(text: str) -> str:
    """Return a text in lower case with single spaces, the same however often it was escaped as JSON."""
    text = re.sub(r"\\+u([0-9a-fA-F]{4})", lambda found: chr(int(found[1], 16)), text)
    text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return re.sub(r"\\+", "", re.sub(r"(?:\\+[nrt]|\s)+", " ", text)).lower()


def _names(words: str, said: str) -> bool:
    """Tell whether the text holds one of the words, given as a pattern."""
    return re.search(rf"\b(?:{words})\b", said, re.ASCII) is not None
