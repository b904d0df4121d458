"""Adapter from an encoder to LangChain's `Embeddings`."""

from __future__ import annotations

from collections.abc import Sequence

from langchain_core.embeddings import Embeddings

from epic_core.encoders import Encoder, aembed, by_name, embed
from epic_core.encoders.adapted import is_encoder
from epic_core.encoders.base import aembed_query, embed_query
from epic_core.errors import InvalidInputError
from epic_core.lm.failures import kind_of


class EpicEmbeddings(Embeddings):
    """An encoder of this package for any component that takes LangChain embeddings; by default the embedded encoder.

        store = Chroma("notes", embedding_function=EpicEmbeddings())  # no network, no key, no torch

    Args:
        encoder: An `epic_core` encoder, or the name of one, such as "ollama/nomic-embed-text"; default: the embedded
            encoder, `default_encoder()`.

    Attributes:
        encoder: The encoder.

    Raises:
        InvalidInputError: if `encoder` is not an encoder or the name of one; on use, for a text that is not a string.
        EncoderError: on use, if the encoder fails.
    """

    def __init__(self, encoder: Encoder | str | None = None) -> None:
        if encoder is not None and not by_name.is_encoder_name(encoder) and not is_encoder(encoder):
            raise InvalidInputError(
                "encoder must be an encoder of epic_core, such as StaticEncoder(), or the name of one"
                f" ({by_name.NAMES}), not {repr(encoder) if isinstance(encoder, str) else kind_of(encoder)}."
                " LangChain's own embeddings need no EpicEmbeddings around them."
            )
        self.encoder: Encoder = by_name.encoder_of(encoder)

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return the unit vectors of texts, each a list of `encoder.dimension` floats."""
        vectors: list[list[float]] = embed(self.encoder, _checked(texts)).tolist() if texts else []
        return vectors

    def embed_query(self, text: str) -> list[float]:
        """Return the unit vector of a query, a list of `encoder.dimension` floats."""
        vector: list[float] = embed_query(self.encoder, *_checked([text])).tolist()
        return vector

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        """Do the same as `embed_documents` without blocking the event loop."""
        vectors: list[list[float]] = (await aembed(self.encoder, _checked(texts))).tolist() if texts else []
        return vectors

    async def aembed_query(self, text: str) -> list[float]:
        """Do the same as `embed_query` without blocking the event loop."""
        vector: list[float] = (await aembed_query(self.encoder, *_checked([text]))).tolist()
        return vector

    def __repr__(self) -> str:
        return f"EpicEmbeddings(encoder={self.encoder.name!r})"


def _checked(texts: Sequence[str]) -> Sequence[str]:
    if isinstance(texts, str):
        raise InvalidInputError("embed_documents takes a list of texts, not one text. For that there is embed_query.")
    for text in texts:
        if not isinstance(text, str):
            raise InvalidInputError(f"Only texts can be embedded, not {type(text).__name__}.")
    return texts
