"""Steering in the embedding space of a HippoRAG instance, which need not be a memory's own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from epic_core.encoders.adapted import AdaptedEncoder
from epic_core.runtime.threads import in_thread
from epic_core.steering.base import SteeredQuery
from epic_core.steering.cache import Steerings
from epic_core.types import FloatArray, Preference
from epic_core.types.modes import Mode


class HippoEncoder(AdaptedEncoder):
    """The embedding model of a HippoRAG instance as an encoder: it embeds texts as the instance embeds its passages.

    Args:
        hipporag: The instance.
        floor: The cosine from which a preference steers, for this model.
    """

    def __init__(self, hipporag: Any, *, floor: float | None = None) -> None:
        config = getattr(hipporag, "global_config", None)
        name = f"hipporag:{getattr(config, 'embedding_model_name', type(hipporag.embedding_model).__name__)}"
        super().__init__(name, fingerprint=None, tau=None, floor=floor)
        self._hipporag = hipporag

    def _documents(self, texts: list[str]) -> object:
        # Looked up each time, as the instance's model may be replaced.
        return self._hipporag.embedding_model.batch_encode(texts)

    async def _adocuments(self, texts: list[str]) -> object:
        return await in_thread(self._documents, texts)

    def _query(self, text: str) -> object:
        return self.encode([text])[0]

    async def _aquery(self, text: str) -> object:
        return await in_thread(self._query, text)


class QueryMover:
    """Function that steers the embeddings of a call's queries, and records the result.

    Args:
        steerings: The steerings of the instance's encoder.
        preferences: The user's; without any, nothing is steered.
        mode: "signed" or "paper".

    Attributes:
        steered: The steered passage vector of each query, by the query's text.
    """

    def __init__(self, steerings: Steerings, preferences: Sequence[Preference], mode: Mode) -> None:
        self._steering = steerings.of(tuple(preferences), mode)
        self.steered: dict[str, SteeredQuery] = {}

    def __call__(self, text: str, kind: str, vector: FloatArray) -> FloatArray:
        """Return the vector to search with, a unit vector, as `vector` has to be."""
        steered = self._steering.steer_vector(vector)
        if kind == "passage":
            self.steered[text] = steered
        return steered.vector
