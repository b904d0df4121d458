"""Encoder for any sentence-transformers model (extra `sentence-transformers`)."""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from epic_memory.errors import EncoderError, MissingExtraError
from epic_memory.types import FloatArray


class SentenceTransformerEncoder:
    """A sentence-transformers model, for instance `facebook/contriever` as in the paper.

    A model without a pooling layer of its own (Contriever) is mean pooled, as sentence-transformers does.

    Args:
        name_or_path: A folder, or a name that sentence-transformers can find.
        device: As sentence-transformers takes it; default: its choice.
        batch_size: Texts in one forward pass.

    Raises:
        MissingExtraError: if sentence-transformers is not installed.
        EncoderError: if the model cannot be loaded.
    """

    def __init__(self, name_or_path: str, *, device: str | None = None, batch_size: int = 32) -> None:
        try:
            from sentence_transformers import SentenceTransformer
        except ImportError as error:
            raise MissingExtraError("sentence-transformers", "sentence-transformers") from error
        try:
            self._model: Any = SentenceTransformer(str(name_or_path), device=device)
        except Exception as error:
            raise EncoderError(
                f"Cannot load the sentence-transformers model {str(name_or_path)!r}: {error}. "
                "Give a folder that holds a model, or download it first while you are online."
            ) from error
        self.name = f"sentence-transformers:{str(name_or_path).rstrip('/').split('/')[-1]}"
        self.dimension = int(self._model.encode(["dimension"], show_progress_bar=False).shape[1])
        # These were trained on English; other models' names do not tell their languages.
        english = self.name.removeprefix("sentence-transformers:").startswith("all-MiniLM-")
        self.languages: frozenset[str] | None = frozenset({"en"}) if english else None
        self.fingerprint = weights_digest(self._model.state_dict())
        self._batch_size = batch_size
        self._lock = threading.Lock()

    def encode(self, texts: Sequence[str]) -> FloatArray:
        """Return L2-normalised float32 embeddings, shape `(len(texts), dimension)`."""
        if not texts:
            return np.empty((0, self.dimension), dtype=np.float32)
        with self._lock:
            vectors = self._model.encode(
                list(texts),
                batch_size=self._batch_size,
                normalize_embeddings=True,
                convert_to_numpy=True,
                show_progress_bar=False,
            )
        return np.asarray(vectors, dtype=np.float32)

    async def aencode(self, texts: Sequence[str]) -> FloatArray:
        """Return embeddings as `encode` does, in a worker thread."""
        return await asyncio.to_thread(self.encode, texts)


def weights_digest(weights: Mapping[str, Any]) -> str:
    """Return a digest of a torch model's weights, by the name, the shape and the ends of each tensor."""
    digest = hashlib.sha256()
    for key, tensor in sorted(weights.items()):
        digest.update(f"{key}{tuple(tensor.shape)}".encode())
        # The ends of each tensor distinguish two trainings without hashing gigabytes.
        flat = tensor.detach().flatten()
        digest.update(flat[:64].float().cpu().numpy().tobytes())
        digest.update(flat[-64:].float().cpu().numpy().tobytes())
    return digest.hexdigest()[:32]
