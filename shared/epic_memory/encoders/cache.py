"""Embeddings of the texts used last."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from hashlib import blake2b
from threading import Lock
from typing import TypeAlias

import numpy as np

from epic_memory.encoders.base import Embed, Encoder
from epic_memory.runtime.effects import Effects, arun, run
from epic_memory.types import FloatArray

Key: TypeAlias = str | bytes


# Texts longer than this are cached under a digest.
_LONGEST_KEY = 1000


class TextVectors:
    """A cache of the embeddings of the texts used last; a text that is not in it is encoded.

    Safe to use from several threads.

    Args:
        encoder: Encodes texts.
        size: How many embeddings are kept.
    """

    def __init__(self, encoder: Encoder, *, size: int = 4096) -> None:
        self.encoder = encoder
        self.size = size
        self._kept: OrderedDict[Key, FloatArray] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._kept)

    def of(self, texts: Sequence[str]) -> FloatArray:
        """Return unit vectors, shape `(len(texts), d)`, of at least one text."""
        return run(self.embedding(texts))

    async def aof(self, texts: Sequence[str]) -> FloatArray:
        """Return unit vectors as `of` does, without blocking the event loop."""
        return await arun(self.embedding(texts), threaded=False)

    def embedding(self, texts: Sequence[str], part: str = "embedding") -> Effects[FloatArray]:
        """Return unit vectors as `of` does, in an effect."""
        keys = [text if len(text) <= _LONGEST_KEY else _digest(text) for text in texts]
        with self._lock:
            found = {key: self._kept[key] for key in keys if key in self._kept}
            for key in found:
                self._kept.move_to_end(key)
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in found}
        if missing:
            vectors = yield Embed(self.encoder, list(missing.values()), part)
            # Copies, each of shape (1, d): a view would keep the whole array alive.
            made = {key: vectors[row : row + 1].copy() for row, key in enumerate(missing)}
            found |= made
            with self._lock:
                self._kept.update(made)
                while len(self._kept) > self.size:
                    self._kept.popitem(last=False)
        return np.concatenate([found[key] for key in keys])


def _digest(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
