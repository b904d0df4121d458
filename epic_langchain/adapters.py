"""LangChain's models at the seams of the core: any `Embeddings` an encoder, any chat model a language model."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from copy import deepcopy
from functools import cached_property
from hashlib import blake2b
from itertools import combinations
from typing import Any

import numpy as np
from langchain_core.embeddings import Embeddings
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage, convert_to_messages
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.config import ensure_config

from epic_core.coarse import checked_tau
from epic_core.encoders import Encoder, default_encoder
from epic_core.encoders.base import checked
from epic_core.errors import EncoderError, InvalidInputError
from epic_core.lm import Completion, LanguageModel, Message
from epic_core.lm.base import Schema
from epic_core.lm.http import checked_limits, sendable
from epic_core.lm.limits import Gate
from epic_core.types import FloatArray
from epic_core.verification import EmbeddedVerifier, LMVerifier, Verifier
from epic_langchain.answers import cut_answer, only_thought, read
from epic_langchain.embeddings import EpicEmbeddings, is_encoder, kind_of
from epic_langchain.failures import explained, refused, said

RUN_NAME = "EPIC verification"
"""The name of the runs in which a model is called, as callbacks and traces see it."""

_calling: ContextVar[RunnableConfig | None] = ContextVar("epic_langchain_calling", default=None)

# Where models have their names.
_NAMES = ("model", "model_name", "model_id", "deployment_name", "azure_deployment", "deployment", "repo_id")


def _name_of(model: object) -> str:
    """`langchain:<class>:<model>`, or without the model where there is none to be seen."""
    named = (getattr(model, name, None) for name in _NAMES)
    found = [value for value in named if isinstance(value, str) and value.strip()]
    return ":".join(["langchain", type(model).__name__, *found[:1]])


def _checked_name(name: str | None, model: object) -> str:
    if name is not None and (not isinstance(name, str) or not name.strip()):
        raise InvalidInputError(f"name must be a text that is not empty, not {name!r}.")
    return _name_of(model) if name is None else name


# encoders


class LangChainEncoder:
    """Any LangChain `Embeddings` as an encoder: `LangChainEncoder(OllamaEmbeddings(model="nomic-embed-text"))`.

    Items and preferences are embedded as documents, a user's query as a query. Nothing is sent before the first use.

    Args:
        embeddings: The embeddings.
        name: Stored with a memory, which can be opened only with an encoder of that name. Default: made of the
            class and of the model's name, where it has one.
        fingerprint: Identifies the weights. Default: a digest of name and dimension, which cannot tell other
            weights under the same name; give one where that can happen.
        tau: The coarse filter's threshold that suits the model, a cosine in [-1, 1]. Default: the core's own.
        floor: The similarity from which a preference steers, a cosine in [-1, 1]. Default: the core's own.

    Attributes:
        embeddings: The embeddings.
        name: The name.
        tau, floor: Only where given.

    Raises:
        InvalidInputError: for arguments that cannot be.
        EncoderError: on use, when the model fails, or gives something that is no embedding for each text.
    """

    tau: float
    floor: float

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
        if fingerprint is not None and (not isinstance(fingerprint, str) or not fingerprint):
            raise InvalidInputError(f"fingerprint must be a text that is not empty, not {fingerprint!r}.")
        self.embeddings = embeddings
        self.name = _checked_name(name, embeddings)
        self._fingerprint = fingerprint
        if tau is not None:
            self.tau = checked_tau(tau)
        if floor is not None:
            self.floor = checked_tau(floor, "floor")

    @cached_property
    def dimension(self) -> int:
        """Length of an embedding: of the first one made, else of one that is made for this."""
        return int(self.encode(["dimension"]).shape[1])

    @property
    def fingerprint(self) -> str:
        """What was given, else a digest of name and dimension."""
        if self._fingerprint is not None:
            return self._fingerprint
        return blake2b(f"{self.name}\x1f{self.dimension}".encode("utf-8", "replace"), digest_size=16).hexdigest()

    def encode(self, texts: Sequence[str]) -> FloatArray:
        """L2-normalised float32 embeddings, shape `(len(texts), dimension)`."""
        if not texts:
            return np.empty((0, self.dimension), dtype=np.float32)
        try:
            vectors = self.embeddings.embed_documents(list(texts))
        except Exception as error:
            raise self._explained(error) from error
        return self._unit(texts, vectors)

    async def aencode(self, texts: Sequence[str]) -> FloatArray:
        """As `encode`, without blocking the event loop."""
        if not texts:
            return np.empty((0, self.dimension), dtype=np.float32)
        try:
            vectors = await self.embeddings.aembed_documents(list(texts))
        except Exception as error:
            raise self._explained(error) from error
        return self._unit(texts, vectors)

    def encode_query(self, text: str) -> FloatArray:
        """The L2-normalised float32 embedding of a user's query, shape `(dimension,)`."""
        try:
            vector = self.embeddings.embed_query(text)
        except Exception as error:
            raise self._explained(error) from error
        unit: FloatArray = self._unit([text], [vector])[0]
        return unit

    async def aencode_query(self, text: str) -> FloatArray:
        """As `encode_query`, without blocking the event loop."""
        try:
            vector = await self.embeddings.aembed_query(text)
        except Exception as error:
            raise self._explained(error) from error
        unit: FloatArray = self._unit([text], [vector])[0]
        return unit

    def _unit(self, texts: Sequence[str], vectors: object) -> FloatArray:
        try:
            array = np.asarray(vectors, dtype=np.float32)
        except (TypeError, ValueError) as error:
            raise EncoderError(
                f"The embeddings of {self.name} are not all lists of numbers of one length: {error}"
            ) from error
        if array.ndim != 2 or len(array) != len(texts) or not array.shape[1]:
            raise EncoderError(f"{self.name} gave embeddings of shape {array.shape} for {len(texts)} texts.")
        # Known now: asking for it later, on an event loop, would block.
        self.__dict__.setdefault("dimension", array.shape[1])
        return checked(self, texts, array)

    def _explained(self, error: Exception) -> EncoderError:
        if isinstance(error, EncoderError):
            return error
        return EncoderError(f"The embeddings of {self.name} failed: {said(error)}")


def encoder_of(embeddings: Embeddings | Encoder | None) -> Encoder:
    """What LangChain's users give as embeddings, as an encoder; None is the embedded one.

    Raises:
        InvalidInputError: for anything else.
    """
    if embeddings is None:
        return default_encoder()
    if isinstance(embeddings, EpicEmbeddings):
        return embeddings.encoder
    if isinstance(embeddings, Embeddings):
        return LangChainEncoder(embeddings)
    if is_encoder(embeddings):
        return embeddings
    raise InvalidInputError(
        "The embeddings must be LangChain Embeddings, such as OllamaEmbeddings(model=...), an encoder of epic_core,"
        f" or None for the embedded one; not {kind_of(embeddings)}."
    )


# language models

# A model's own name for the limit of an answer.
_LIMITS = ("max_tokens", "num_predict", "max_output_tokens", "max_completion_tokens", "max_new_tokens")
_MOST_MADE = 256

# What a request may have to do without.
_SCHEMA, _LIMIT = "schema", "limit"

# LangGraph leaves calls with this tag out of the messages it streams to a user.
_NOT_STREAMED = "nostream"


@contextmanager
def calling_with(config: RunnableConfig | None) -> Iterator[None]:
    """Inside, models are called with this config: `calling_with({"callbacks": run_manager.get_child()})`.

    It holds for the threads and tasks that are started inside, too. None leaves it to LangChain, which takes
    the config of the runnable that is running (in asynchronous code from Python 3.11 on). Do not yield inside: it
    would hold for the caller as well.
    """
    token = _calling.set(config)
    try:
        yield
    finally:
        _calling.reset(token)


def _config() -> RunnableConfig:
    """The config of one call."""
    config = ensure_config(_calling.get())
    config.pop("run_id", None)  # it is one run's, and there are many calls
    config["run_name"] = RUN_NAME
    config["tags"] = [*(config.get("tags") or ()), _NOT_STREAMED]
    return config


class LangChainLM:
    """Any LangChain chat model as a language model: `LangChainLM(ChatOllama(model="qwen3:4b", temperature=0))`.

    Temperature, timeouts and the like are the model's own, as it was made; the model's own retries come before
    those of the verifier. What it can do is found out as it is used: it is held to a JSON schema by its
    `with_structured_output`, and its answers are limited in their length by a setting it is known to have. What it
    refuses is left out from then on, and so is the limit where it cuts off a model that is still thinking.
    Confidences are made of the log-probabilities in an answer's metadata: ask the model for them, as with
    `ChatOllama(..., logprobs=True)`.

    Args:
        model: The chat model itself, without anything bound to it.
        name: Verdicts are cached under it. Default: made of the class and of the model's name, where it has one.
        concurrency: How many calls are made at once.
        context: Tokens that prompt and answer have together, if known: what cannot fit is not sent. Default: the
            model's `num_ctx`, if it has one.
        structured: Whether the model is held to a schema, where it can be.

    Raises:
        InvalidInputError: for arguments that cannot be.
        LMSetupError: on use, when the server does not know the model or refuses the key.
        LMUnavailableError: on use, when the server is not there, fails or takes too long.
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
        checked_limits(timeout=1.0, context=context)
        own = getattr(model, "num_ctx", None)
        self.model = model
        self.name = _checked_name(name, model)
        self.concurrency = concurrency
        self.context = own if context is None and isinstance(own, int) and own > 0 else context
        self._gate = Gate(concurrency)
        self._limited_by = next((limit for limit in _LIMITS if limit in type(model).model_fields), None)
        self._left_out: frozenset[str] = frozenset() if structured else frozenset({_SCHEMA})
        self._taken: frozenset[str] = frozenset()
        self._made: dict[tuple[str, int | None], Runnable[Any, Any]] = {}

    def complete(
        self, messages: Sequence[Message], *, schema: Schema | None = None, max_tokens: int | None = None
    ) -> Completion:
        """The model's answer."""
        attempts = _Attempts(self, schema, max_tokens)
        sent = convert_to_messages(sendable(messages))
        with self._gate.enter():
            while True:
                try:
                    answer = attempts.runnable().invoke(sent, _config())
                except Exception as error:
                    answer = attempts.failed(error)
                    if answer is None:
                        continue
                completion = attempts.completion(answer)
                if completion is not None:
                    return completion

    async def acomplete(
        self, messages: Sequence[Message], *, schema: Schema | None = None, max_tokens: int | None = None
    ) -> Completion:
        """As `complete`, without blocking the event loop."""
        attempts = _Attempts(self, schema, max_tokens)
        sent = convert_to_messages(sendable(messages))
        async with self._gate.aenter():
            while True:
                try:
                    answer = await attempts.runnable().ainvoke(sent, _config())
                except Exception as error:
                    answer = attempts.failed(error)
                    if answer is None:
                        continue
                completion = attempts.completion(answer)
                if completion is not None:
                    return completion

    def _runnable(self, schema: Schema | None, limit: int | None) -> Runnable[Any, Any]:
        """The model, held to a schema if it can be, and with a limit to its answers."""
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
        own = getattr(self.model, self._limited_by)
        if isinstance(own, int) and 0 < own <= limit:
            return self.model
        # A setting, as not every model takes it with a call; what holds a model to a schema takes no other settings.
        model = self.model.model_copy(update={self._limited_by: limit})
        model.__dict__.pop("_serialized", None)  # made of the settings; a cache of answers goes by it
        return model

    def _held_to(self, schema: Schema | None, model: BaseChatModel) -> Runnable[Any, Any]:
        if schema is None:
            return model
        # Where the model calls a function instead, this is the function's name.
        named = {"title": "answer", "description": "The answer, in the form that is asked for.", **schema}
        try:
            return model.with_structured_output(deepcopy(named), include_raw=True)
        except (NotImplementedError, AttributeError, TypeError, ValueError):
            self._left_out |= {_SCHEMA}
            return model

    def __repr__(self) -> str:
        return f"LangChainLM({self.name!r})"


class _Attempts:
    """The attempts at one answer: as it is wanted, then without what the model may have refused."""

    def __init__(self, lm: LangChainLM, schema: Schema | None, max_tokens: int | None) -> None:
        self._lm = lm
        self._schema = schema
        self._max_tokens = max_tokens
        given = {_SCHEMA: schema is not None, _LIMIT: max_tokens is not None and lm._limited_by is not None}
        self._wanted = frozenset(name for name, is_given in given.items() if is_given) - lm._left_out
        # What the model took before is not what it refuses now.
        doubted = sorted(self._wanted - lm._taken, reverse=True)
        self._ways = [self._wanted.difference(less) for size in range(3) for less in combinations(doubted, size)]

    def runnable(self) -> Runnable[Any, Any]:
        """What is to be called next."""
        way = self._ways[0]
        return self._lm._runnable(self._schema if _SCHEMA in way else None, self._max_tokens if _LIMIT in way else None)

    def failed(self, error: Exception) -> BaseMessage | None:
        """The answer that an error holds; None if there is another way to ask; else raises what the error means."""
        held = cut_answer(error)
        if held is not None:
            return held
        if len(self._ways) > 1 and refused(error):
            del self._ways[0]
            return None
        failure = explained(error, self._lm.name)
        if failure is error:
            raise error
        raise failure from error

    def completion(self, answer: object) -> Completion | None:
        """What was answered; None where the model has to be asked again, as it did not come to an answer."""
        way, lm = self._ways[0], self._lm
        completion = read(answer)
        if _LIMIT in way and only_thought(answer, completion):
            self._ways = [way - {_LIMIT}]
            return None
        lm._left_out |= self._wanted - way
        lm._taken |= way
        return completion


def lm_of(llm: BaseChatModel | LanguageModel) -> LanguageModel:
    """What LangChain's users give as a model, as a language model.

    Raises:
        InvalidInputError: for anything but a chat model or a language model.
    """
    if isinstance(llm, BaseChatModel):
        return LangChainLM(llm)
    if not isinstance(llm, (type, Runnable)) and callable(getattr(llm, "complete", None)):
        return llm
    raise InvalidInputError(_NO_MODEL.format(kind_of(llm)))


def verifier_of(llm: BaseChatModel | LanguageModel | Verifier | None, encoder: Encoder) -> Verifier:
    """What LangChain's users give as a model, as a verifier; None is the embedded one, which needs no model.

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
