"""Language model for any server that speaks OpenAI's protocol: vLLM, llama.cpp, LM Studio and others."""

from __future__ import annotations

import json
import re
import time
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from epic_memory.errors import InvalidInputError, LMError, LMSetupError, LMUnavailableError
from epic_memory.lm.base import SECONDS, Completion, LimitedLM, LoopClients, Message, Schema, is_cut, tokens_of
from epic_memory.lm.failures import of_status, too_slow
from epic_memory.lm.http import awithin, check_model, client_settings, count, sendable, within, without_key
from epic_memory.runtime.effects import Call, Effects

if TYPE_CHECKING:
    import httpx

# Settings that servers refuse, with patterns that find them in a refusal; a refused one is left out from then on.
_OPTIONAL = {"response_format": r"response_format|json_schema|grammar|guided\w*", "logprobs": "logprobs"}
_OPTIONAL |= {name: name for name in ("top_logprobs", "seed", "temperature")}

# The largest answer that is accepted, in bytes.
_MOST_BYTES = 16 * 2**20

# How many characters of a refusal are read.
_MOST_SAID = 2**20

# Lines of a message up to this length may be the server's own words, and are not removed as a repetition.
_SHORT_LINE = 10


# Settings in a form that a server refuses: the schema (llama-cpp-python) and the limit (OpenAI's newer models).
_OLDER_FORM, _NEWER_LIMIT = "json_schema", "max_tokens"


class OpenAICompatibleLM(LimitedLM):
    """A model behind `POST {base_url}/chat/completions`: `OpenAICompatibleLM("http://localhost:8000/v1", "qwen3")`.

    It is asked at temperature 0 and seed 0, and held to a JSON schema if the server supports it. Settings that a server
    refuses (`response_format`, `logprobs`, `seed`, `temperature`) are left out from then on. Nothing is sent before the
    first call, and no key is taken from the environment.

    Args:
        base_url: Up to and including the version, as in `http://localhost:8000/v1`.
        model: The model's name on that server.
        api_key: Sent as a bearer token; None sends none.
        timeout: Seconds for an answer as a whole, from the request to the last byte.
        concurrency: How many calls the server gets at once; raise it for servers that batch.
        context: Tokens for prompt and answer together, if known; a prompt that does not fit is not sent.
        logprobs: Whether to ask for the probabilities from which confidences are computed.
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
        timeout: float = SECONDS,
        concurrency: int = 1,
        context: int | None = None,
        logprobs: bool = True,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        import httpx

        check_model("OpenAICompatibleLM", model, api_key, timeout)
        try:
            address = httpx.URL(base_url)
        except (TypeError, httpx.InvalidURL):
            address = httpx.URL()
        if address.scheme not in ("http", "https") or not address.host:
            raise InvalidInputError(f"base_url must be an address such as http://localhost:8000/v1, not {base_url!r}.")
        if address.userinfo:
            raise InvalidInputError("base_url must hold no user and no password. Give api_key= instead.")
        super().__init__(f"openai:{model}", concurrency=concurrency, context=context)
        self.base_url = base_url.rstrip("/")
        self._model = model
        self._logprobs = logprobs
        self._extra = dict(extra or {})
        # Settings that the server refuses, or refuses in this form.
        self._left_out: frozenset[str] = frozenset()
        self._timeout = timeout
        self._key = api_key
        made = client_settings(address, timeout=timeout, concurrency=concurrency, key=api_key)
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
        with self._explaining():
            answer = self._send("GET", "/models")
            if answer.status == 404 and self._send("GET", "/v1/models").status == 200:
                raise LMSetupError(
                    f"There is nothing at {self.base_url}/models, but at {self.base_url}/v1/models."
                    f" Give {self.base_url}/v1 as base_url."
                )
            if answer.status in (404, 405, 501):
                return  # the server does not list its models
            self._accept(answer)
            try:
                listed = [str(model["id"]) for model in json.loads(answer.text)["data"]]
            except (ValueError, KeyError, TypeError):
                return  # the list has an unknown form
        if listed and self._model not in listed:
            known = ", ".join(listed[:20])
            raise LMSetupError(
                f"The server at {self.base_url} does not know the model {self._model!r}. It has: {known}"
            )

    def _send(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> _Answer:
        def sent() -> _Answer:
            received = _Body(self._timeout)
            with self._client.stream(method, self.base_url + path, json=body) as answer:
                for piece in answer.iter_bytes():
                    received.take(piece)
            return received.of(answer)

        with self._explaining():
            return within(self._timeout, sent)

    async def _asend(self, method: str, path: str, body: Mapping[str, Any]) -> _Answer:
        async def sent() -> _Answer:
            received = _Body(self._timeout)
            async with (
                self._clients.client() as client,
                client.stream(method, self.base_url + path, json=body) as answer,
            ):
                async for piece in answer.aiter_bytes():
                    received.take(piece)
            return received.of(answer)

        with self._explaining():
            return await awithin(self._timeout, sent())

    def session(self) -> AbstractAsyncContextManager[Any]:
        """Return a context that keeps the connections of the running event loop open between calls."""
        return self._clients.client()

    def post(self, path: str, fields: Mapping[str, Any]) -> Any:
        """Send a request to the model, with fields of its own, and return the JSON of the answer.

        The path goes behind `base_url`, as "/chat/completions" does; the errors are those of the class.
        """
        return self._run(self._posting(path, fields))

    def _posting(self, path: str, fields: Mapping[str, Any]) -> Effects[Any]:
        answer = yield Call(self._send, self._asend, "POST", path, {"model": self._model, **self._extra, **fields})
        with self._explaining():
            self._accept(answer)
            return json.loads(answer.text)

    def _completing(
        self, messages: Sequence[Message], schema: Schema | None, max_tokens: int | None
    ) -> Effects[Completion]:
        left_out = self._left_out
        while True:
            request = self._request(messages, schema, max_tokens, left_out)
            answer = yield Call(self._send, self._asend, "POST", "/chat/completions", request)
            learnt = self._learnt(answer.status, answer.text, request, left_out)
            if learnt is None:
                with self._explaining():
                    self._accept(answer)
                    completion = self._completion(answer.text)
                # Only what helped is left out from now on.
                self._left_out |= left_out
                return completion
            left_out = learnt

    def _completion(self, text: str) -> Completion:
        body = json.loads(text)
        if "error" in body and not body.get("choices"):
            raise LMUnavailableError(f"The server failed: {without_key(str(body['error']), self._key)[:300]}")
        choice = body["choices"][0]
        usage = body.get("usage")
        counts = usage if isinstance(usage, Mapping) else {}
        return Completion(
            text=_text(choice["message"].get("content")),
            tokens=tokens_of(choice.get("logprobs")),
            prompt_tokens=count(counts.get("prompt_tokens")),
            completion_tokens=count(counts.get("completion_tokens")),
            cut=is_cut([choice.get("finish_reason")]),
        )

    def _request(
        self, messages: Sequence[Message], schema: Schema | None, max_tokens: int | None, left_out: frozenset[str]
    ) -> dict[str, Any]:
        request: dict[str, Any] = {
            "model": self._model,
            "messages": sendable(messages),
            "temperature": 0,
            "seed": 0,
        }
        if max_tokens is not None:
            # OpenAI's own newer models have another name for the limit.
            request["max_completion_tokens" if _NEWER_LIMIT in left_out else "max_tokens"] = max_tokens
        if schema is not None:
            form = {"name": "answer", "schema": dict(schema), "strict": True}
            request["response_format"] = (
                {"type": "json_object", "schema": dict(schema)}
                if _OLDER_FORM in left_out
                else {"type": "json_schema", "json_schema": form}
            )
        if self._logprobs and "logprobs" not in left_out:
            # Some servers give no log-probabilities unless asked for alternatives too.
            request |= {"logprobs": True, "top_logprobs": 1}
        return {name: value for name, value in (request | self._extra).items() if name not in left_out}

    def _learnt(
        self, status: int, said: str, request: Mapping[str, Any], left_out: frozenset[str]
    ) -> frozenset[str] | None:
        """Return the settings to leave out from now on, if the server refused one of them or its form; else None."""
        if status not in (400, 422, 500, 501):
            return None
        said = _own_words(said[:_MOST_SAID], request["messages"])
        # Some servers report an unknown response format as an error of their own.
        if status == 500 and not _names("response_format", said):
            return None
        own = self._extra.keys()
        if request.keys() - own >= {"max_tokens"} and _names("max_completion_tokens", said):
            return left_out | {_NEWER_LIMIT}
        named = {name for name, words in _OPTIONAL.items() if name in request and _names(words, said)} - own
        if "top_logprobs" in named:
            named.discard("logprobs")  # the server may accept `logprobs` without `top_logprobs`
        if "response_format" in named and _OLDER_FORM not in left_out:
            named = named - {"response_format"} | {_OLDER_FORM}
        return left_out | named if named else None

    def _accept(self, answer: _Answer) -> None:
        """Raise the error that a status stands for, if it is not a success."""
        if answer.status < 300:
            return
        told = without_key(answer.headers.get("location", "") if answer.status < 400 else answer.text, self._key)[:300]
        unknown = (
            f"The server at {self.base_url} does not know the model {self._model!r} ({answer.status}): {told}"
            " Check the model's name, and that base_url ends in /v1."
        )
        wait = answer.headers.get("retry-after")
        raise of_status(f"The server at {self.base_url}", answer.status, told, unknown=unknown, wait=wait)

    @contextmanager
    def _explaining(self) -> Iterator[None]:
        """Return a context in which any failure is raised as an `LMError`."""
        try:
            yield
        except LMError:
            raise
        except Exception as error:
            raise self._explained(error) from error

    def _explained(self, error: Exception) -> LMError:
        import httpx

        if isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout)):
            return LMUnavailableError(
                f"No server answers at {self.base_url}. Start it (vllm serve MODEL, or llama-server -m FILE),"
                " or give another base_url."
            )
        if isinstance(error, httpx.TimeoutException):
            return too_slow(f"The server at {self.base_url}", self._timeout)
        said = without_key(str(error), self._key)[:300] or type(error).__name__
        return LMUnavailableError(f"The server at {self.base_url} gave no usable answer: {said}")


class _Answer(NamedTuple):
    """A server's answer as it came."""

    status: int
    headers: Mapping[str, str]
    text: str


class _Body:
    """The body of an answer, of limited size, which has to arrive within `timeout` seconds from now."""

    def __init__(self, timeout: float) -> None:
        self._until = time.monotonic() + timeout
        self._bytes = bytearray()

    def take(self, piece: bytes) -> None:
        """Add the next bytes."""
        import httpx

        self._bytes += piece
        if len(self._bytes) > _MOST_BYTES:
            raise LMUnavailableError("The server does not end its answer, which is longer than it may be.")
        if time.monotonic() > self._until:
            raise httpx.ReadTimeout("the answer is not complete in time")

    def of(self, answer: httpx.Response) -> _Answer:
        """Return the answer with the text received."""
        text = self._bytes.decode(answer.encoding or "utf-8", "replace")
        return _Answer(answer.status_code, answer.headers, text)


def _text(content: Any) -> str:
    """Return the text of a message, whose content is text or a list of parts, some of which are text."""
    if content is None or isinstance(content, str):
        return content or ""
    if isinstance(content, list) and all(isinstance(part, Mapping) for part in content):
        texts = [part.get("text") for part in content if part.get("type") == "text"]
        if all(isinstance(text, str) for text in texts):
            return "".join(texts)
    raise TypeError(f"the content of its message is neither text nor parts of text: {content}")


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
    text = re.sub(r"(?<!\\)\\+u([0-9a-fA-F]{4})", lambda found: chr(int(found[1], 16)), text)
    text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return re.sub(r"\\+", "", re.sub(r"(?:(?<!\\)\\+[nrt]|\s)+", " ", text)).lower()


def _names(words: str, said: str) -> bool:
    """Tell whether the text holds one of the words, given as a pattern."""
    return re.search(rf"\b(?:{words})\b", said, re.ASCII) is not None
