"""Adapters from LlamaIndex's embedding models to an encoder, and from an encoder to an embedding model."""

from __future__ import annotations

from functools import partial
from typing import Any

from llama_index.core.base.embeddings.base import BaseEmbedding, Embedding
from llama_index.core.bridge.pydantic import ConfigDict, PrivateAttr
from llama_index.core.schema import BaseComponent
from typing_extensions import Self

from epic_memory.encoders import Encoder, default_encoder
from epic_memory.errors import InvalidInputError
from epic_memory.lm.failures import kind_of
from epic_memory.runtime.effects import arun, in_thread, run
from epic_plugins import adapted_lm
from epic_plugins.adapted_encoder import AdaptedEncoder
from epic_plugins.adapted_lm import checked_name
from epic_plugins.copies import Adapter
from epic_plugins.models import embeddings_of, own_encoder

# The attributes that hold a model's name; `metadata` has it as well, but may ask a server.
_NAMES = ("model_name", "model", "model_id", "deployment_name", "azure_deployment", "engine")

# Default names of the framework for models and classes that give no name of their own.
_NAMELESS = {"", "unknown", "base_component", "custom_llm"}


def name_of(model: BaseComponent) -> str:
    """Return `llamaindex:<class>:<model>`, or `llamaindex:<class>` if the model gives no name."""
    kind = model.class_name()
    kind = type(model).__name__ if kind in _NAMELESS else kind
    return adapted_lm.name_of("llamaindex", kind, model, _NAMES, _NAMELESS)


def inherits(model: BaseComponent, base: type[BaseComponent], method: str) -> bool:
    """Tell whether a model's class inherits a method unchanged.

    The framework wraps methods anew in each class, so module and qualified name are compared.
    """
    own, given = getattr(type(model), method), getattr(base, method)
    return (own.__module__, own.__qualname__) == (given.__module__, given.__qualname__)


# Settings that change what is embedded, or how; an unset one counts as absent. Other settings are left out, such as
# addresses, keys, timeouts and batch sizes: a setting that an update of an integration adds must not make an older
# file unusable.
_CHANGING = (
    "model_name", "query_instruction", "text_instruction", "query_prefix", "text_prefix", "dimensions",
    "output_dimension", "mode", "task", "task_type", "input_type", "pooling",
)  # fmt: skip


def _settings_of(model: BaseEmbedding) -> str:
    """Return the settings that change embeddings, as text."""
    values = [(name, getattr(model, name, None)) for name in _CHANGING]
    plain = [(name, getattr(value, "value", value)) for name, value in values]  # the value of an enumeration's member
    return "".join(f"\x1f{name}={value}" for name, value in plain if isinstance(value, (str, int)) and value)


class LlamaIndexEncoder(Adapter, AdaptedEncoder):
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
        made = checked_name(name, name_of(embed_model))
        super().__init__(made, fingerprint=fingerprint, tau=tau, floor=floor, settings=_settings_of(embed_model))
        self.embed_model = embed_model
        # The framework's fall-backs for texts call the synchronous method on the event loop. A model that keeps them
        # has no real asynchronous call for a query either: there is no fall-back for queries, so every model has to
        # write one.
        asynchronous = ("_aget_text_embedding", "_aget_text_embeddings")
        self._in_thread = all(inherits(embed_model, BaseEmbedding, method) for method in asynchronous)

    def _arguments(self) -> dict[str, Any]:
        return {"embed_model": self.embed_model, **self._given()}

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


class EpicEmbedding(BaseEmbedding):
    """An encoder of this package for any component that takes an embedding model; by default the embedded encoder.

        index = VectorStoreIndex(nodes, embed_model=EpicEmbedding())  # no network, no key, no torch

    `to_dict` stores the encoder's name, by which a pipeline's cache knows it; any but the embedded encoder is given
    again: `from_dict(data, encoder=...)`.

    Args:
        encoder: An `epic_memory` encoder, or the name of one, such as "ollama/nomic-embed-text"; default: "minilm"
            if that is installed, else "static".
        embed_batch_size: How many texts the encoder gets at once, 1 to 2048.
        **kwargs: As for `BaseEmbedding`: `callback_manager`, `num_workers`, `embeddings_cache`, `rate_limiter`.

    Raises:
        InvalidInputError: if `encoder` is not an encoder, or not the one named `model_name`; on use, for a text that is
            not a string.
        ValidationError: if another argument is invalid.
        EncoderError: on use, if the encoder fails.
    """

    model_config = ConfigDict(extra="forbid")

    _encoder: Any = PrivateAttr()

    def __init__(self, encoder: Encoder | str | None = None, *, embed_batch_size: int = 256, **kwargs: Any) -> None:
        encoder = own_encoder(encoder, "LlamaIndex's own embedding models need no EpicEmbedding around them.")
        if kwargs.setdefault("model_name", encoder.name) != encoder.name:
            raise InvalidInputError(
                f"This is the embedding of the encoder {kwargs['model_name']!r}, not of {encoder.name!r}."
                " Give that encoder: EpicEmbedding.from_dict(data, encoder=...)."
            )
        super().__init__(embed_batch_size=embed_batch_size, **kwargs)
        self._encoder = encoder

    @property
    def encoder(self) -> Encoder:
        """The encoder that makes the embeddings."""
        encoder: Encoder = self._encoder
        return encoder

    @classmethod
    def class_name(cls) -> str:
        """Return the name under which the component is stored."""
        return "EpicEmbedding"

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        return self.model_copy()  # an encoder may hold objects that cannot be copied

    def __reduce__(self) -> Any:
        # Every process has the embedded encoder: it is not sent to the workers of a pipeline.
        encoder = "static" if self._encoder is default_encoder() else self._encoder
        kept = {name: getattr(self, name) for name in ("embed_batch_size", "num_workers", "embeddings_cache")}
        return partial(type(self), **kept), (encoder,)

    def _get_text_embeddings(self, texts: list[str]) -> list[Embedding]:
        return run(embeddings_of(self.encoder, texts))

    async def _aget_text_embeddings(self, texts: list[str]) -> list[Embedding]:
        return await arun(embeddings_of(self.encoder, texts), threaded=False)

    def _get_text_embedding(self, text: str) -> Embedding:
        return self._get_text_embeddings([text])[0]

    async def _aget_text_embedding(self, text: str) -> Embedding:
        return (await self._aget_text_embeddings([text]))[0]

    def _get_query_embedding(self, query: str) -> Embedding:
        return run(embeddings_of(self.encoder, [query], query=True))[0]

    async def _aget_query_embedding(self, query: str) -> Embedding:
        return (await arun(embeddings_of(self.encoder, [query], query=True), threaded=False))[0]
