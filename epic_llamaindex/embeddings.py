"""Adapter from an encoder to LlamaIndex's `BaseEmbedding`."""

from __future__ import annotations

from typing import Any

from llama_index.core.base.embeddings.base import BaseEmbedding, Embedding
from llama_index.core.bridge.pydantic import ConfigDict, PrivateAttr
from typing_extensions import Self

from epic_core.encoders import Encoder, aembed, by_name, default_encoder, embed
from epic_core.encoders.adapted import is_encoder
from epic_core.encoders.base import aembed_query, embed_query
from epic_core.errors import InvalidInputError
from epic_core.lm.failures import kind_of

_BATCH = 256


class EpicEmbedding(BaseEmbedding):
    """An encoder of this package for any component that takes an embedding model; by default the embedded encoder.

        index = VectorStoreIndex(nodes, embed_model=EpicEmbedding())  # no network, no key, no torch

    `to_dict` can store it; `from_dict` needs the encoder again unless it is the embedded one. It is hashed and stored
    by the encoder's name: a pipeline's cache treats two encoders of one name as the same.

    Args:
        encoder: An `epic_core` encoder, or the name of one, such as "ollama/nomic-embed-text"; default: the embedded
            encoder, `default_encoder()`.
        embed_batch_size: How many texts the encoder gets at once, 1 to 2048.
        **kwargs: As for `BaseEmbedding`: `callback_manager`, `num_workers`, `embeddings_cache`, `rate_limiter`.

    Attributes:
        encoder: The encoder.
        model_name: The encoder's name.

    Raises:
        InvalidInputError: if `encoder` is not an encoder, or not the one named `model_name`; on use, for a text that is
            not a string.
        ValidationError: if another argument is invalid.
        EncoderError: on use, if the encoder fails.
    """

    model_config = ConfigDict(extra="forbid")

    _encoder: Any = PrivateAttr()

    def __init__(self, encoder: Encoder | str | None = None, *, embed_batch_size: int = _BATCH, **kwargs: Any) -> None:
        if encoder is not None and not by_name.is_encoder_name(encoder) and not is_encoder(encoder):
            raise InvalidInputError(
                "encoder must be an encoder of epic_core, such as StaticEncoder(), or the name of one"
                f" ({by_name.NAMES}), not {repr(encoder) if isinstance(encoder, str) else kind_of(encoder)}."
                " LlamaIndex's own embedding models need no EpicEmbedding around them."
            )
        encoder = by_name.encoder_of(encoder)
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

    @classmethod
    def from_dict(cls, data: dict[str, Any], **kwargs: Any) -> Self:
        """Make an embedding model from the output of `to_dict`; give any but the embedded encoder again as `encoder=`.

        Raises:
            InvalidInputError: if that is not the encoder it was stored with.
        """
        return super().from_dict(data, **kwargs)

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        return self.model_copy()  # an encoder may hold objects that cannot be copied

    def __reduce__(self) -> Any:
        # Every process has the embedded encoder: it is not sent to the workers of a pipeline.
        encoder = None if self._encoder is default_encoder() else self._encoder
        kept = {name: getattr(self, name) for name in ("embed_batch_size", "num_workers", "embeddings_cache")}
        return _made, (type(self), encoder, kept)

    def _get_text_embeddings(self, texts: list[str]) -> list[Embedding]:
        vectors: list[Embedding] = embed(self.encoder, _checked(texts)).tolist() if texts else []
        return vectors

    async def _aget_text_embeddings(self, texts: list[str]) -> list[Embedding]:
        vectors: list[Embedding] = (await aembed(self.encoder, _checked(texts))).tolist() if texts else []
        return vectors

    def _get_text_embedding(self, text: str) -> Embedding:
        return self._get_text_embeddings([text])[0]

    async def _aget_text_embedding(self, text: str) -> Embedding:
        return (await self._aget_text_embeddings([text]))[0]

    def _get_query_embedding(self, query: str) -> Embedding:
        vector: Embedding = embed_query(self.encoder, *_checked([query])).tolist()
        return vector

    async def _aget_query_embedding(self, query: str) -> Embedding:
        vector: Embedding = (await aembed_query(self.encoder, *_checked([query]))).tolist()
        return vector


def _made(kind: type[EpicEmbedding], encoder: Encoder | None, kept: dict[str, Any]) -> EpicEmbedding:
    return kind(encoder, **kept)


def _checked(texts: list[str]) -> list[str]:
    for text in texts:
        if not isinstance(text, str):
            raise InvalidInputError(f"Only texts can be embedded, not {type(text).__name__}.")
    return texts
