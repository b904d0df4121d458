"""Adapter from a LlamaIndex LLM to a language model of the core, and the verifier made of it."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

from llama_index.core.base.llms.types import ChatMessage, ChatResponse, MessageRole
from llama_index.core.constants import DEFAULT_CONTEXT_WINDOW
from llama_index.core.llms import LLM, CustomLLM
from llama_index.core.llms.structured_llm import StructuredLLM

from epic_llamaindex.models.answers import completion_of, has_thought
from epic_llamaindex.models.encoder import inherits, name_of
from epic_memory.errors import InvalidInputError
from epic_memory.lm import Completion
from epic_memory.lm.base import Schema
from epic_memory.lm.failures import kind_of
from epic_memory.runtime.effects import in_thread
from epic_plugins.adapted_lm import AdaptedLM, checked_name, limit_of, own_limit
from epic_plugins.copies import Adapter


class LlamaIndexLM(Adapter, AdaptedLM):
    """Any LlamaIndex LLM as a language model: `LlamaIndexLM(Ollama(model="qwen3:4b", temperature=0))`.

    Temperature, timeouts and the like are the model's own settings; its own retries come before those of the verifier.
    The length of answers is limited by a setting that its class is known to have, on a copy that shares the model's
    clients; `Ollama` and LLMs of OpenAI's protocol are held to a JSON schema. A feature that the model refuses is not
    used again; neither is the limit once it has cut off a model that was still thinking. Confidences are computed from
    the log-probabilities in an answer: ask the model for them if it has a setting, as with `OpenAILike(...,
    logprobs=True)`. LlamaIndex's `Ollama` has none; `epic_memory.lm.OllamaLM` has one for an Ollama server. Nothing is
    sent before the first use. A model without asynchronous calls of its own is called in a worker thread.

    Args:
        llm: The LLM itself, without `as_structured_llm`.
        name: The name under which verdicts are cached. Default: made of the class and of the model's name.
        concurrency: How many calls are made at once.
        context: Tokens for prompt and answer together, if known; a prompt that does not fit is not sent. Default: the
            LLM's `context_window`, if it was given one. An `Ollama` without one gets this value; by default it asks its
            server for it once, at the first use.

    Raises:
        InvalidInputError: if an argument is invalid.
        LMSetupError: on use, when the server does not know the model or refuses the key.
        LMUnavailableError: on use, when the server cannot be reached, fails or takes too long.
        LMError: on use, when the server refuses the request.
    """

    def __init__(
        self,
        llm: LLM,
        *,
        name: str | None = None,
        concurrency: int = 1,
        context: int | None = None,
    ) -> None:
        if not isinstance(llm, LLM):
            raise InvalidInputError(f"llm must be a LlamaIndex LLM, such as Ollama(model=...), not {kind_of(llm)}.")
        if isinstance(llm, StructuredLLM):
            raise InvalidInputError("llm must be the LLM itself, without as_structured_llm: that gives one form only.")
        kinds = {kind.__name__ for kind in type(llm).__mro__ if kind.__module__.startswith("llama_index.llms.")}
        self._is_ollama = "Ollama" in kinds
        self._is_openai = bool(kinds & {"OpenAI", "LiteLLM"})
        self._limited_by = limit_of(type(llm).model_fields)
        super().__init__(
            checked_name(name, name_of(llm)),
            concurrency=concurrency,
            context=self._window(llm) if context is None else context,
            structured=self._is_ollama or self._is_openai,
            limited=self._is_ollama or self._limited_by is not None,
        )
        self.llm = llm
        self._in_thread = inherits(llm, CustomLLM, "achat")  # its `achat` calls `chat` on the event loop
        self._ready: LLM | None = None if self._is_ollama else llm
        self._limited: tuple[int, LLM] | None = None
        self._lock = threading.Lock()

    def _arguments(self) -> dict[str, Any]:
        return {"llm": self.llm, **self._settings()}

    def _window(self, llm: LLM) -> int | None:
        """Return the context size the model was given, or None; `metadata` is not read, as it may ask a server."""
        own: Any = llm.additional_kwargs.get("num_ctx") if self._is_ollama else None  # type: ignore[attr-defined]
        if own is None and "context_window" in llm.model_fields_set:
            own = getattr(llm, "context_window", None)
        return own if isinstance(own, int) and own > 0 else None

    def _ask(self, messages: list[dict[str, str]], schema: Schema | None, limit: int | None) -> Any:
        return self._model(limit).chat(_messages(messages), **self._form(schema))

    async def _aask(self, messages: list[dict[str, str]], schema: Schema | None, limit: int | None) -> Any:
        if self._in_thread:
            return await in_thread(self._ask, messages, schema, limit)
        model = self._model(limit) if self._ready is not None else await in_thread(self._model, limit)
        return await model.achat(_messages(messages), **self._form(schema))

    def _read(self, answer: ChatResponse) -> Completion:
        return completion_of(answer)

    def _has_thought(self, answer: ChatResponse) -> bool:
        return has_thought(answer)

    def _form(self, schema: Schema | None) -> Mapping[str, Any]:
        """Return the arguments that hold a call to a schema."""
        if schema is None:
            return {}
        if self._is_ollama:
            return {"format": dict(schema)}
        form = {"name": "answer", "schema": dict(schema), "strict": True}
        return {"response_format": {"type": "json_schema", "json_schema": form}}

    def _model(self, limit: int | None) -> LLM:
        """Return the LLM, or a copy with limited answers; it may ask Ollama's server for the context size."""
        with self._lock:
            if self._ready is None:
                self._ready = self._with_window()
            if limit is None:
                return self._ready
            if self._limited is None or self._limited[0] != limit:
                # Copy the last copy, which already has its clients.
                last = self._ready if self._limited is None else self._limited[1]
                self._limited = limit, self._with_limit(last, limit)
            return self._limited[1]

    def _with_window(self) -> LLM:
        """Return a copy of Ollama's LLM that knows its context size; else it asks in each call, on the event loop."""
        llm: Any = self.llm.model_copy()
        if self.context is None:
            try:
                self.context = llm.get_context_window()
            except AttributeError:  # the server gives no details of its model
                self.context = DEFAULT_CONTEXT_WINDOW
        if llm.context_window == -1:
            llm.context_window = self.context
        return llm  # type: ignore[no-any-return]

    def _with_limit(self, last: LLM, limit: int) -> LLM:
        if self._is_ollama:
            options = self.llm.additional_kwargs  # type: ignore[attr-defined]
            own = options.get("num_predict")
            if isinstance(own, int) and 0 < own <= limit:
                return self._ready or last
            return last.model_copy(update={"additional_kwargs": {**options, "num_predict": limit}})
        if self._limited_by is None or own_limit(self.llm, self._limited_by, limit):
            return self.llm
        return last.model_copy(update={self._limited_by: limit})


def _messages(messages: Sequence[Mapping[str, str]]) -> list[ChatMessage]:
    return [ChatMessage(role=MessageRole(each["role"]), content=each["content"]) for each in messages]
