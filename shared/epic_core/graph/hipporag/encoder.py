"""Embedding model of a HippoRAG instance as an encoder, so that preferences steer in its own space."""

from __future__ import annotations

from typing import Any

from epic_core.encoders.adapted import AdaptedEncoder
from epic_core.runtime.threads import in_thread


class HippoEncoder(AdaptedEncoder):
    """Encoder that embeds texts as a HippoRAG instance embeds its passages.

    Args:
        hipporag: The instance.
    """

    def __init__(self, hipporag: Any) -> None:
        name = f"hipporag:{hipporag.global_config.embedding_model_name}"
        super().__init__(name, fingerprint=None, tau=None, floor=None)
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
