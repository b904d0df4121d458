"""Language model for any server that speaks OpenAI's protocol: vLLM, llama.cpp, LM Studio and others."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from epic_memory.errors import InvalidInputError, LMSetupError, LMUnavailableError
from epic_memory.lm.base import SECONDS, Completion, LimitedLM, Message, Schema, is_cut, tokens_of
from epic_memory.lm.http import HttpServer, check_model, count, sendable
from epic_memory.runtime.effects import Call, Effects

# Settings that servers refuse, with patterns that find them in a refusal; a refused one is left out from then on.
_OPTIONAL = {"response_format": r"response_format|json_schema|grammar|guided\w*", "logprobs": "logprobs"}
_OPTIONAL |= {name: name for name in ("top_logprobs", "seed", "temperature")}

# How many characters of a refusal are read.
_MOST_SAID = 2**20

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
        self._server = HttpServer(
            address,
            f"The server at {self.base_url}",
            silent=f"No server answers at {self.base_url}. Start it (vllm serve MODEL, or llama-server -m FILE), or"
            " give another base_url.",
            unknown=f"The server at {self.base_url} does not know the model {model!r}. Check the model's name, and that"
            " base_url ends in /v1",
            timeout=timeout,
            concurrency=concurrency,
            key=api_key,
        )
        self._clients = self._server.clients

    def check(self) -> None:
        """Check that the server can be reached and lists the model.

        Raises:
            LMUnavailableError: if it cannot be reached.
            LMSetupError: if it does not know the model, or refuses the key.
        """
        answer = self._server.send("GET", "/models")
        if answer.status == 404 and self._server.send("GET", "/v1/models").status == 200:
            raise LMSetupError(
                f"There is nothing at {self.base_url}/models, but at {self.base_url}/v1/models."
                f" Give {self.base_url}/v1 as base_url."
            )
        if answer.status in (404, 405, 501):
            return  # the server does not list its models
        if answer.status >= 300:
            self._server.json_of(answer)  # raises what the status stands for
        try:
            listed = [str(model["id"]) for model in json.loads(answer.text)["data"]]
        except (ValueError, KeyError, TypeError):
            return  # the list has an unknown form
        if listed and self._model not in listed:
            known = ", ".join(listed[:20])
            raise LMSetupError(
                f"The server at {self.base_url} does not know the model {self._model!r}. It has: {known}"
            )

    def post(self, path: str, fields: Mapping[str, Any]) -> Any:
        """Send a request to the model, with fields of its own, and return the JSON of the answer.

        The path goes behind `base_url`, as "/chat/completions" does; the errors are those of the class.
        """
        with self._threads:
            answer = self._server.send("POST", path, {"model": self._model, **self._extra, **fields})
        return self._server.json_of(answer)

    def _completing(
        self, messages: Sequence[Message], schema: Schema | None, max_tokens: int | None
    ) -> Effects[Completion]:
        left_out = self._left_out
        while True:
            request = self._request(messages, schema, max_tokens, left_out)
            answer = yield Call(self._server.send, self._server.asend, "POST", "/chat/completions", request)
            learnt = self._learnt(answer.status, answer.text, request, left_out)
            if learnt is None:
                body = self._server.json_of(answer)
                with self._server.explaining():
                    completion = self._completion(body)
                # Only what helped is left out from now on.
                self._left_out |= left_out
                return completion
            left_out = learnt

    def _completion(self, body: Any) -> Completion:
        if "error" in body and not body.get("choices"):
            raise LMUnavailableError(f"The server failed: {self._server.shown(str(body['error']))}")
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
        said = re.sub(r"(?<!\\)\\+u[0-9a-f]{4}", " ", said[:_MOST_SAID].lower())
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


def _text(content: Any) -> str:
    """Return the text of a message, whose content is text or a list of parts, some of which are text."""
    if content is None or isinstance(content, str):
        return content or ""
    if isinstance(content, list) and all(isinstance(part, Mapping) for part in content):
        texts = [part.get("text") for part in content if part.get("type") == "text"]
        if all(isinstance(text, str) for text in texts):
            return "".join(texts)
    raise TypeError(f"the content of its message is neither text nor parts of text: {content}")


def _names(words: str, said: str) -> bool:
    """Tell whether the text holds one of the words, given as a pattern."""
    return re.search(rf"\b(?:{words})\b", said, re.ASCII) is not None
