"""Adapters from LangChain's `Embeddings` to an encoder, and from an encoder to `Embeddings`."""

from __future__ import annotations

from typing import Any

from langchain_core.embeddings import Embeddings
from typing_extensions import Self

from epic_memory.encoders import Encoder, default_encoder
from epic_memory.errors import InvalidInputError
from epic_memory.lm.failures import kind_of
from epic_memory.runtime.effects import arun, run
from epic_plugins import adapted_lm
from epic_plugins.adapted_encoder import AdaptedEncoder
from epic_plugins.adapted_lm import checked_name
from epic_plugins.copies import Adapter
from epic_plugins.models import embeddings_of, own_encoder

# The attributes in which LangChain's classes keep the model's name.
_NAMES = ("model", "model_name", "model_id", "deployment_name", "azure_deployment", "deployment", "repo_id")


def name_of(model: object) -> str:
    """Return `langchain:<class>:<model>`, or `langchain:<class>` if the object does not name its model."""
    return adapted_lm.name_of("langchain", type(model).__name__, model, _NAMES)


class LangChainEncoder(Adapter, AdaptedEncoder):
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
        super().__init__(checked_name(name, name_of(embeddings)), fingerprint=fingerprint, tau=tau, floor=floor)
        self.embeddings = embeddings

    def _arguments(self) -> dict[str, Any]:
        return {"embeddings": self.embeddings, **self._given()}

    def _documents(self, texts: list[str]) -> object:
        return self.embeddings.embed_documents(texts)

    async def _adocuments(self, texts: list[str]) -> object:
        return await self.embeddings.aembed_documents(texts)

    def _query(self, text: str) -> object:
        return self.embeddings.embed_query(text)

    async def _aquery(self, text: str) -> object:
        return await self.embeddings.aembed_query(text)


class EpicEmbeddings(Embeddings):
    """An encoder of this package for any component that takes LangChain embeddings; by default the embedded encoder.

        store = Chroma("notes", embedding_function=EpicEmbeddings())  # no network, no key, no torch

    Args:
        encoder: An `epic_memory` encoder, or the name of one, such as "ollama/nomic-embed-text"; default: "minilm"
            if that is installed, else "static".

    Raises:
        InvalidInputError: if `encoder` is not an encoder or the name of one; on use, for a text that is not a string.
        EncoderError: on use, if the encoder fails.
    """

    def __init__(self, encoder: Encoder | str | None = None) -> None:
        self.encoder = own_encoder(encoder, "LangChain's own embeddings need no EpicEmbeddings around them.")

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return the unit vectors of texts, each a list of `encoder.dimension` floats."""
        return run(embeddings_of(self.encoder, texts))

    def embed_query(self, text: str) -> list[float]:
        """Return the unit vector of a query, a list of `encoder.dimension` floats."""
        return run(embeddings_of(self.encoder, [text], query=True))[0]

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        """Do the same as `embed_documents` without blocking the event loop."""
        return await arun(embeddings_of(self.encoder, texts), threaded=False)

    async def aembed_query(self, text: str) -> list[float]:
        """Do the same as `embed_query` without blocking the event loop."""
        return (await arun(embeddings_of(self.encoder, [text], query=True), threaded=False))[0]

    def __reduce__(self) -> Any:
        # Every process has the embedded encoder.
        return type(self), ("static" if self.encoder is default_encoder() else self.encoder,)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return type(self)(self.encoder)  # an encoder may hold objects that cannot be copied

    def __repr__(self) -> str:
        return f"EpicEmbeddings(encoder={self.encoder.name!r})"
