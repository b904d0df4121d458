"""Adapter from a LangChain chat model to a language model of the core, and the verifier made of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from copy import deepcopy
from typing import Any

from langchain_core.exceptions import OutputParserException
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import convert_to_messages
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.config import ensure_config

from epic_langchain.models.answers import completion_of, cut_answer, has_thought
from epic_langchain.models.encoder import name_of
from epic_memory.errors import InvalidInputError
from epic_memory.lm import Completion
from epic_memory.lm.base import Schema
from epic_memory.lm.failures import kind_of
from epic_plugins.adapted_lm import AdaptedLM, checked_name, limit_of, own_limit
from epic_plugins.copies import Adapter

RUN_NAME = "EPIC verification"
"""Name of the runs that call a model, as callbacks and traces show it."""

NO_MODEL = (
    "The model must be a LangChain chat model, such as ChatOllama(model=...), without bind, with_retry or"
    " with_fallbacks; or a language model of epic_memory, such as OllamaLM(...)"
)
"""The beginning of the error for anything else."""

# LangGraph leaves calls with this tag out of the messages that it streams to a user.
_NOT_STREAMED = "nostream"
_calling: ContextVar[RunnableConfig | None] = ContextVar("epic_langchain_calling", default=None)


@contextmanager
def calling_with(config: RunnableConfig | None) -> Iterator[None]:
    """Call models with this config inside the block: `calling_with({"callbacks": run_manager.get_child()})`.

    The config also applies to threads and tasks started inside. With None, LangChain takes the config of the
    runnable that is running (in asynchronous code from Python 3.11 on). Do not yield inside the block: the config
    would apply to the caller as well.
    """
    token = _calling.set(config)
    try:
        yield
    finally:
        _calling.reset(token)


def _config() -> RunnableConfig:
    """Return the config for one call of a model."""
    config = ensure_config(_calling.get())
    config.pop("run_id", None)  # a run id belongs to one run, and a run makes many calls
    config["run_name"] = RUN_NAME
    config["tags"] = [*(config.get("tags") or ()), _NOT_STREAMED]
    return config


class LangChainLM(Adapter, AdaptedLM):
    """Any LangChain chat model as a language model: `LangChainLM(ChatOllama(model="qwen3:4b", temperature=0))`.

    Temperature, timeouts and the like are the model's own settings; its own retries come before those of the
    verifier. The model's abilities are found out on use: `with_structured_output` holds it to a JSON schema, and a
    setting that its class is known to have limits the length of its answers. A feature that the model refuses is not
    used again; neither is the limit once it has cut off a model that was still thinking. Confidences are computed from
    the log-probabilities in an answer's metadata: ask the model for them, as with `ChatOllama(..., logprobs=True)`.

    Args:
        model: The chat model itself, without anything bound to it.
        name: The name under which verdicts are cached. Default: made of the class and of the model's name, where it
            has one.
        concurrency: How many calls are made at once.
        context: Tokens for prompt and answer together, if known; a prompt that does not fit is not sent. Default: the
            model's `num_ctx`, if it has one.

    Raises:
        InvalidInputError: if an argument is invalid.
        LMSetupError: on use, when the server does not know the model or refuses the key.
        LMUnavailableError: on use, when the server cannot be reached, fails or takes too long.
        LMError: on use, when the server refuses the request.
    """

    def __init__(
        self,
        model: BaseChatModel,
        *,
        name: str | None = None,
        concurrency: int = 1,
        context: int | None = None,
    ) -> None:
        if not isinstance(model, BaseChatModel):
            raise InvalidInputError(f"{NO_MODEL}; not {kind_of(model)}.")
        own = getattr(model, "num_ctx", None)
        self._limited_by = limit_of(type(model).model_fields)
        super().__init__(
            checked_name(name, name_of(model)),
            concurrency=concurrency,
            context=own if context is None and isinstance(own, int) and own > 0 else context,
            limited=self._limited_by is not None,
        )
        self.model = model

    def _arguments(self) -> dict[str, Any]:
        return {"model": self.model, **self._settings()}

    def _ask(self, messages: list[dict[str, str]], schema: Schema | None, limit: int | None) -> Any:
        return self._runnable(schema, limit).invoke(convert_to_messages(messages), _config())

    async def _aask(self, messages: list[dict[str, str]], schema: Schema | None, limit: int | None) -> Any:
        return await self._runnable(schema, limit).ainvoke(convert_to_messages(messages), _config())

    def _read(self, answer: Any) -> Completion:
        return completion_of(answer)

    def _has_thought(self, answer: Any) -> bool:
        return has_thought(answer)

    def _held(self, error: Exception) -> Any | None:
        return cut_answer(error)

    def _refused(self, error: Exception) -> bool:
        return isinstance(error, OutputParserException) or super()._refused(error)

    def _runnable(self, schema: Schema | None, limit: int | None) -> Runnable[Any, Any]:
        """Return the model with a limit to its answers, and held to the schema if it can be."""
        model = self._limited(limit)
        if schema is None:
            return model
        # Where the model calls a function to answer, the title is the function's name.
        named = {"title": "answer", "description": "The answer, in the form that is asked for.", **schema}
        try:
            return model.with_structured_output(deepcopy(named), include_raw=True)
        except (NotImplementedError, AttributeError, TypeError, ValueError):
            self._unstructured()
            return model

    def _limited(self, limit: int | None) -> BaseChatModel:
        if self._limited_by is None or limit is None or own_limit(self.model, self._limited_by, limit):
            return self.model
        # Set on a copy: not every model takes the limit per call, and a model held to a schema takes no other settings.
        model = self.model.model_copy(update={self._limited_by: limit})
        model.__dict__.pop("_serialized", None)  # a cache key made from the old settings
        return model
