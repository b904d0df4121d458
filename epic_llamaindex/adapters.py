"""Adapters from LlamaIndex's models to the core: embedding models as an `Encoder`, an LLM as a `LanguageModel`."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.base.llms.types import ChatMessage, ChatResponse, MessageRole
from llama_index.core.constants import DEFAULT_CONTEXT_WINDOW
from llama_index.core.llms import LLM, CustomLLM
from llama_index.core.llms.structured_llm import StructuredLLM
from llama_index.core.schema import BaseComponent

from epic_core.encoders import Encoder, by_name, default_encoder
from epic_core.encoders.adapted import AdaptedEncoder, is_encoder
from epic_core.errors import InvalidInputError
from epic_core.lm import Completion, LanguageModel
from epic_core.lm.adapted import AdaptedLM, checked_name, limit_of, own_limit
from epic_core.lm.base import Schema
from epic_core.lm.failures import kind_of
from epic_core.runtime.threads import in_thread
from epic_core.verification import EmbeddedVerifier, LMVerifier, Verifier
from epic_llamaindex.answers import only_thought, read
from epic_llamaindex.embeddings import EpicEmbedding

# The attributes that hold a model's name; `metadata` has it as well, but may ask a server.
_NAMES = ("model_name", "model", "model_id", "deployment_name", "azure_deployment", "engine")

# Default names of the framework for models and classes that give no name of their own.
_NAMELESS = {"", "unknown", "base_component", "custom_llm"}


def _name_of(model: BaseComponent) -> str:
    """Return `llamaindex:<class>:<model>`, or `llamaindex:<class>` if the model gives no name."""
    kind = model.class_name()
    named = (getattr(model, name, None) for name in _NAMES)
    found = [value for value in named if isinstance(value, str) and value.strip() not in _NAMELESS]
    return ":".join(["llamaindex", type(model).__name__ if kind in _NAMELESS else kind, *found[:1]])


def _inherits(model: BaseComponent, base: type[BaseComponent], method: str) -> bool:
    """Tell whether a model's class inherits a method unchanged.

    The framework wraps methods anew in each class, so module and qualified name are compared.
    """
    own, given = getattr(type(model), method), getattr(base, method)
    return (own.__module__, own.__qualname__) == (given.__module__, given.__qualname__)


# encoders

# Settings that change what is embedded, or how; an unset one counts as absent. Other settings are left out, such as
# addresses, keys, timeouts and batch sizes: a setting that an update of an integration adds must not make an older
# file unusable.
_TOLD = (
    "model_name", "query_instruction", "text_instruction", "query_prefix", "text_prefix", "dimensions",
    "output_dimension", "mode", "task", "task_type", "input_type", "pooling",
)  # fmt: skip


def _settings_of(model: BaseEmbedding) -> str:
    """Return the settings that change embeddings, as text."""
    values = [(name, getattr(model, name, None)) for name in _TOLD]
    plain = [(name, getattr(value, "value", value)) for name, value in values]  # the value of an enumeration's member
    return "".join(f"\x1f{name}={value}" for name, value in plain if isinstance(value, (str, int)) and value)


class LlamaIndexEncoder(AdaptedEncoder):
    """Any LlamaIndex embedding model as an encoder: `LlamaIndexEncoder(OllamaEmbedding("nomic-embed-text"))`.

    Items and preferences are embedded as texts, a user's query as a query. Nothing is sent before the first use.
    A model without asynchronous calls of its own is called in a worker thread.

    Args:
        embed_model: The embedding model.
        name: Stored with a memory, which can be opened only with an encoder of that name. Default: made of the
            class and of the model's name.
        fingerprint: Identifies the weights. Default: a digest of name, dimension and the settings that change
            embeddings (the model's name, instructions or prefixes, dimensions, mode, task, input type, pooling). It
            stays the same if the weights change under the same name; give a fingerprint where that can happen, or where
            another setting matters.
        tau: The coarse filter's threshold that suits the model, a cosine in [-1, 1]. Default: the core's own.
        floor: The similarity from which a preference steers, a cosine in [-1, 1]. Default: the core's own.

    Attributes:
        embed_model: The embedding model.
        name: The name.
        tau, floor: Present only if they were given.

    Raises:
        InvalidInputError: if an argument is invalid.
        EncoderError: on use, if the model fails or does not return one embedding for each text.
    """

    def __init__(
        self,
        embed_model: BaseEmbedding,
        *,
        name: str | None = None,
        fingerprint: str | None = None,
        tau: float | None = None,
        floor: float | None = None,
    ) -> None:
        if not isinstance(embed_model, BaseEmbedding):
            raise InvalidInputError(f"embed_model must be a LlamaIndex embedding model, not {kind_of(embed_model)}.")
        made = checked_name(name, _name_of(embed_model))
        super().__init__(made, fingerprint=fingerprint, tau=tau, floor=floor, settings=_settings_of(embed_model))
        self.embed_model = embed_model
        # The framework's fall-backs for texts call the synchronous method on the event loop. A model that keeps them
        # has no real asynchronous call for a query either: there is no fall-back for queries, so every model has to
        # write one.
        asynchronous = ("_aget_text_embedding", "_aget_text_embeddings")
        self._in_thread = all(_inherits(embed_model, BaseEmbedding, method) for method in asynchronous)

    def _documents(self, texts: list[str]) -> object:
        return self.embed_model.get_text_embedding_batch(texts)

    async def _adocuments(self, texts: list[str]) -> object:
        if self._in_thread:
            return await in_thread(self._documents, texts)
        return await self.embed_model.aget_text_embedding_batch(texts)

    def _query(self, text: str) -> object:
        return self.embed_model.get_query_embedding(text)

    async def _aquery(self, text: str) -> object:
        if self._in_thread:
            return await in_thread(self._query, text)
        return await self.embed_model.aget_query_embedding(text)

    def __repr__(self) -> str:
        return f"LlamaIndexEncoder({self.name!r})"


def encoder_of(embed_model: BaseEmbedding | Encoder | str | None) -> Encoder:
    """Return an encoder for the embedding model a user gave: None is the embedded encoder, a string an encoder's name.

    Raises:
        InvalidInputError: for anything else.
    """
    if embed_model is None:
        return default_encoder()
    if isinstance(embed_model, EpicEmbedding):
        return embed_model.encoder
    if isinstance(embed_model, BaseEmbedding):
        return LlamaIndexEncoder(embed_model)
    if isinstance(embed_model, str):
        if by_name.is_encoder_name(embed_model):
            return by_name.encoder_of(embed_model)
    elif is_encoder(embed_model):
        return embed_model
    raise InvalidInputError(
        "embed_model must be a LlamaIndex embedding model, such as OllamaEmbedding(model_name=...), an encoder of"
        f" epic_core, the name of one ({by_name.NAMES}), or None for the embedded one; not {_told(embed_model)}."
    )


def _told(value: object) -> str:
    return repr(value) if isinstance(value, str) else kind_of(value)


# language models

_MOST_MADE = 256


class LlamaIndexLM(AdaptedLM):
    """Any LlamaIndex LLM as a language model: `LlamaIndexLM(Ollama(model="qwen3:4b", temperature=0))`.

    Temperature, timeouts and the like are the model's own settings; its own retries come before those of the verifier.
    The length of answers is limited by a setting that its class is known to have, on a copy that shares the model's
    clients; `Ollama` and LLMs of OpenAI's protocol are held to a JSON schema. A feature that the model refuses is not
    used again; neither is the limit once it has cut off a model that was still thinking. Confidences are computed from
    the log-probabilities in an answer: ask the model for them if it has a setting, as with `OpenAILike(...,
    logprobs=True)`. LlamaIndex's `Ollama` has none; `epic_core.lm.OllamaLM` has one for an Ollama server. Nothing is
    sent before the first use. A model without asynchronous calls of its own is called in a worker thread.

    Args:
        llm: The LLM itself, without `as_structured_llm`.
        name: The name under which verdicts are cached. Default: made of the class and of the model's name.
        concurrency: How many calls are made at once.
        context: Tokens for prompt and answer together, if known; a prompt that does not fit is not sent. Default: the
            LLM's `context_window`, if it was given one. An `Ollama` without one gets this value; by default it asks its
            server for it once, at the first use.
        structured: Whether the model is held to a schema, where that is possible.

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
        structured: bool = True,
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
            checked_name(name, _name_of(llm)),
            concurrency=concurrency,
            context=self._window(llm) if context is None else context,
            structured=structured and (self._is_ollama or self._is_openai),
            limited=self._is_ollama or self._limited_by is not None,
        )
        self.llm = llm
        self._in_thread = _inherits(llm, CustomLLM, "achat")  # its `achat` calls `chat` on the event loop
        self._ready: LLM | None = None if self._is_ollama else llm
        self._made: dict[int, LLM] = {}
        self._lock = threading.Lock()

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
        return read(answer)

    def _only_thought(self, answer: ChatResponse, completion: Completion) -> bool:
        return only_thought(answer, completion)

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
            made = self._made.get(limit)
            if made is None:
                # Copy the last copy, which already has its clients.
                last = next(reversed(self._made.values()), self._ready)
                if len(self._made) >= _MOST_MADE:
                    self._made.clear()
                made = self._made[limit] = self._limited(last, limit)
            return made

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

    def _limited(self, last: LLM, limit: int) -> LLM:
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


def lm_of(llm: LLM | LanguageModel) -> LanguageModel:
    """Return a language model for the model that a user gave.

    Raises:
        InvalidInputError: for anything but an LLM or a language model.
    """
    if isinstance(llm, LLM):
        return LlamaIndexLM(llm)
    if not isinstance(llm, (type, BaseComponent)) and callable(getattr(llm, "complete", None)):
        return llm
    raise InvalidInputError(
        "llm must be a LlamaIndex LLM, such as Ollama(model=...), a language model of epic_core, such as"
        f" OllamaLM(...), or a verifier of epic_core; not {kind_of(llm)}."
    )


def verifier_of(llm: LLM | LanguageModel | Verifier | None, encoder: Encoder) -> Verifier:
    """Return a verifier for the model that a user gave; None is the embedded verifier, which needs no model.

    Raises:
        InvalidInputError: for anything but an LLM, a language model, a verifier or None.
    """
    if llm is None:
        return EmbeddedVerifier(encoder)
    if not isinstance(llm, (type, BaseComponent)) and isinstance(llm, Verifier):
        return llm
    return LMVerifier(lm_of(llm))
