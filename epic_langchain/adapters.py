"""Adapters from LangChain's models to the core: `Embeddings` as an `Encoder`, a chat model as a `LanguageModel`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from copy import deepcopy
from typing import Any

from langchain_core.embeddings import Embeddings
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import convert_to_messages
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.config import ensure_config

from epic_core.encoders import Encoder, by_name, default_encoder
from epic_core.encoders.adapted import AdaptedEncoder, is_encoder
from epic_core.errors import InvalidInputError
from epic_core.lm import Completion, LanguageModel
from epic_core.lm.adapted import AdaptedLM, checked_name, limit_of, own_limit
from epic_core.lm.base import Schema
from epic_core.lm.failures import kind_of
from epic_core.verification import EmbeddedVerifier, LMVerifier, Verifier
from epic_langchain.answers import cut_answer, only_thought, read
from epic_langchain.embeddings import EpicEmbeddings
from epic_langchain.failures import refused

RUN_NAME = "EPIC verification"
"""Name of the runs that call a model, as callbacks and traces show it."""

_calling: ContextVar[RunnableConfig | None] = ContextVar("epic_langchain_calling", default=None)

# The attributes in which LangChain's classes keep the model's name.
_NAMES = ("model", "model_name", "model_id", "deployment_name", "azure_deployment", "deployment", "repo_id")


def _name_of(model: object) -> str:
    """Return `langchain:<class>:<model>`, or `langchain:<class>` if the object does not name its model."""
    named = (getattr(model, name, None) for name in _NAMES)
    found = [value for value in named if isinstance(value, str) and value.strip()]
    return ":".join(["langchain", type(model).__name__, *found[:1]])


# encoders


class LangChainEncoder(AdaptedEncoder):
    """Any LangChain `Embeddings` as an encoder: `LangChainEncoder(OllamaEmbeddings(model="nomic-embed-text"))`.

    Items and preferences are embedded as documents, a user's query as a query. Nothing is sent before the first use.

    Args:
        embeddings: The embeddings.
        name: Stored with a memory, which can be opened only with an encoder of that name. Default: made of the
            class and of the model's name, where it has one.
        fingerprint: Identifies the weights. Default: a digest of name and dimension, which stays the same if the
            weights change under the same name; give a fingerprint where that can happen.
        tau: The coarse filter's threshold that suits the model, a cosine in [-1, 1]. Default: the core's own.
        floor: The similarity from which a preference steers, a cosine in [-1, 1]. Default: the core's own.

    Attributes:
        embeddings: The embeddings.
        name: The name.
        tau, floor: Present only if they were given.

    Raises:
        InvalidInputError: if an argument is invalid.
        EncoderError: on use, if the model fails or does not return one embedding for each text.
    """

    def __init__(
        self,
        embeddings: Embeddings,
        *,
        name: str | None = None,
        fingerprint: str | None = None,
        tau: float | None = None,
        floor: float | None = None,
    ) -> None:
        if not isinstance(embeddings, Embeddings):
            raise InvalidInputError(f"embeddings must be LangChain Embeddings, not {kind_of(embeddings)}.")
        super().__init__(checked_name(name, _name_of(embeddings)), fingerprint=fingerprint, tau=tau, floor=floor)
        self.embeddings = embeddings

    def _documents(self, texts: list[str]) -> object:
        return self.embeddings.embed_documents(texts)

    async def _adocuments(self, texts: list[str]) -> object:
        return await self.embeddings.aembed_documents(texts)

    def _query(self, text: str) -> object:
        return self.embeddings.embed_query(text)

    async def _aquery(self, text: str) -> object:
        return await self.embeddings.aembed_query(text)


def encoder_of(embeddings: Embeddings | Encoder | str | None) -> Encoder:
    """Return an encoder for the embeddings a user gave: None is the embedded encoder, a string an encoder's name.

    Raises:
        InvalidInputError: for anything else.
    """
    if embeddings is None:
        return default_encoder()
    if isinstance(embeddings, EpicEmbeddings):
        return embeddings.encoder
    if isinstance(embeddings, Embeddings):
        return LangChainEncoder(embeddings)
    if isinstance(embeddings, str):
        if by_name.is_encoder_name(embeddings):
            return by_name.encoder_of(embeddings)
    elif is_encoder(embeddings):
        return embeddings
    raise InvalidInputError(
        "The embeddings must be LangChain Embeddings, such as OllamaEmbeddings(model=...), an encoder of epic_core,"
        f" the name of one ({by_name.NAMES}), or None for the embedded one; not {_told(embeddings)}."
    )


def _told(value: object) -> str:
    return repr(value) if isinstance(value, str) else kind_of(value)


# language models

_MOST_MADE = 256

# LangGraph leaves calls with this tag out of the messages that it streams to a user.
_NOT_STREAMED = "nostream"


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


class LangChainLM(AdaptedLM):
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
        structured: Whether the model is held to a schema, where that is possible.

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
        structured: bool = True,
    ) -> None:
        if not isinstance(model, BaseChatModel):
            raise InvalidInputError(
                f"model must be a LangChain chat model, such as ChatOllama(model=...), not {kind_of(model)}."
                " Give the model itself, without bind, with_retry or with_fallbacks."
            )
        own = getattr(model, "num_ctx", None)
        self._limited_by = limit_of(type(model).model_fields)
        super().__init__(
            checked_name(name, _name_of(model)),
            concurrency=concurrency,
            context=own if context is None and isinstance(own, int) and own > 0 else context,
            structured=structured,
            limited=self._limited_by is not None,
        )
        self.model = model
        self._made: dict[tuple[str, int | None], Runnable[Any, Any]] = {}

    def _ask(self, messages: list[dict[str, str]], schema: Schema | None, limit: int | None) -> Any:
        return self._runnable(schema, limit).invoke(convert_to_messages(messages), _config())

    async def _aask(self, messages: list[dict[str, str]], schema: Schema | None, limit: int | None) -> Any:
        return await self._runnable(schema, limit).ainvoke(convert_to_messages(messages), _config())

    def _read(self, answer: Any) -> Completion:
        return read(answer)

    def _only_thought(self, answer: Any, completion: Completion) -> bool:
        return only_thought(answer, completion)

    def _held(self, error: Exception) -> Any | None:
        return cut_answer(error)

    def _refused(self, error: Exception) -> bool:
        return refused(error)

    def _runnable(self, schema: Schema | None, limit: int | None) -> Runnable[Any, Any]:
        """Return the model with a limit to its answers, and held to the schema if it can be."""
        key = json.dumps(schema), limit
        made = self._made.get(key)
        if made is None:
            if len(self._made) >= _MOST_MADE:
                self._made.clear()
            made = self._made[key] = self._held_to(schema, self._limited(limit))
        return made

    def _limited(self, limit: int | None) -> BaseChatModel:
        if self._limited_by is None or limit is None:
            return self.model
        if own_limit(self.model, self._limited_by, limit):
            return self.model
        # Set on a copy: not every model takes the limit per call, and a model held to a schema takes no other settings.
        model = self.model.model_copy(update={self._limited_by: limit})
        model.__dict__.pop("_serialized", None)  # a cache key made from the old settings
        return model

    def _held_to(self, schema: Schema | None, model: BaseChatModel) -> Runnable[Any, Any]:
        if schema is None:
            return model
        # Where the model calls a function to answer, the title is the function's name.
        named = {"title": "answer", "description": "The answer, in the form that is asked for.", **schema}
        try:
            return model.with_structured_output(deepcopy(named), include_raw=True)
        except (NotImplementedError, AttributeError, TypeError, ValueError):
            self._unstructured()
            return model


def lm_of(llm: BaseChatModel | LanguageModel) -> LanguageModel:
    """Return a language model for the model that a user gave.

    Raises:
        InvalidInputError: for anything but a chat model or a language model.
    """
    if isinstance(llm, BaseChatModel):
        return LangChainLM(llm)
    if not isinstance(llm, (type, Runnable)) and callable(getattr(llm, "complete", None)):
        return llm
    raise InvalidInputError(_NO_MODEL.format(kind_of(llm)))


def verifier_of(llm: BaseChatModel | LanguageModel | Verifier | None, encoder: Encoder) -> Verifier:
    """Return a verifier for the model that a user gave; None is the embedded verifier, which needs no model.

    Raises:
        InvalidInputError: for anything but a chat model, a language model, a verifier or None.
    """
    if llm is None:
        return EmbeddedVerifier(encoder)
    if not isinstance(llm, (type, Runnable)) and isinstance(llm, Verifier):
        return llm
    return LMVerifier(lm_of(llm))


_NO_MODEL = (
    "The model must be a LangChain chat model, such as ChatOllama(model=...), without bind, with_retry or"
    " with_fallbacks; or a language model of epic_core, such as OllamaLM(...); not {}."
)
