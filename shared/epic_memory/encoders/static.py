"""Embedded default encoder: a static token table, no torch, no download."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from epic_memory.encoders.base import Calibration
from epic_memory.encoders.wordpiece import WordPiece
from epic_memory.errors import EncoderError
from epic_memory.types import FloatArray

BUNDLED_NAME = "epic-static-v1"
BUNDLED = Path(__file__).parent.parent / "data" / "static_encoder"
MAX_TOKENS = 512
_BLOCK = 512
_POOLED = 32
# model2vec also cuts a text before it tokenises it; tokens of our texts are shorter on average.
_MAX_CHARACTERS = MAX_TOKENS * 16


class StaticEncoder:
    """A bag of weighted token vectors in the model2vec format.

    The bundled table is a student of all-MiniLM-L6-v2 (`shared/tools/make_static_encoder.py` made it). Text beyond the
    first 512 tokens does not count; a text without any known token gets one fixed direction, so that every embedding
    has length one. Safe to use from several threads.

    Args:
        path: A folder with a model2vec model (`model.safetensors`, `tokenizer.json`, `config.json`); default: the one
            in the package. Its tokenizer is one of BERT's kind.

    Raises:
        EncoderError: if the folder holds no readable model.
    """

    def __init__(self, path: str | Path | None = None) -> None:
        folder = Path(path) if path is not None else BUNDLED
        if not folder.is_dir():
            raise EncoderError(f"There is no encoder in {folder}. Give a folder that holds a model2vec model.")
        try:
            arrays, config, description = _read(folder)
            self._table = arrays["embeddings"]
            weights = arrays.get("weights")
            self._weights = None if weights is None else weights.astype(np.float32)
            self._rows = arrays.get("mapping")
            self._tokenizer: _Tokenizer = WordPiece(description)
        except Exception as error:
            raise EncoderError(f"Cannot load a model2vec model from {folder}: {error}") from error
        self.name = BUNDLED_NAME if path is None else f"model2vec:{folder.name}"
        self.dimension = int(self._table.shape[1])
        self.languages: frozenset[str] | None = frozenset({"en"}) if path is None else None
        self.fingerprint = self._fingerprint(description)
        usual = Calibration.shipped()
        self.tau = float(config.get("epic_tau", usual.tau))
        self.floor = float(config.get("epic_floor", usual.floor))
        self.relevant = float(config.get("epic_relevant", usual.floor + usual.above_floor))
        self.recall_taus = recall_taus_in(config.get("epic_recall_taus", {}))

    def _fingerprint(self, description: dict[str, Any]) -> str:
        digest = hashlib.sha256(np.ascontiguousarray(self._table).data)
        for array in (self._weights, self._rows):
            digest.update(b"-" if array is None else np.ascontiguousarray(array).tobytes())
        digest.update(json.dumps(description, sort_keys=True).encode())
        return digest.hexdigest()[:32]

    def encode(self, texts: Sequence[str]) -> FloatArray:
        """Return L2-normalised float32 embeddings, shape `(len(texts), dimension)`."""
        out = np.empty((len(texts), self.dimension), dtype=np.float32)
        for start in range(0, len(texts), _BLOCK):
            block = [
                text if len(text) <= _MAX_CHARACTERS else _shortened(text) for text in texts[start : start + _BLOCK]
            ]
            out[start : start + len(block)] = self._pool(block)
        return out

    def _pool(self, texts: list[str]) -> FloatArray:
        lists = self._tokenizer.encode(texts, MAX_TOKENS)
        tokens = np.fromiter(chain.from_iterable(lists), dtype=np.int64)
        sums = np.zeros((len(texts), self.dimension), dtype=np.float32)
        unknown = self._tokenizer.unknown
        known = np.ones(len(tokens), dtype=bool) if unknown is None else tokens != unknown
        if len(texts) > 1:
            owners = np.repeat(np.arange(len(texts)), [len(ids) for ids in lists])
            self._add_up(tokens[known], owners[known], sums)
        elif known.any():  # a query, which somebody waits for
            np.add.reduce(self._weighted(tokens[known]), axis=0, out=sums[0])
        norms = np.sqrt(np.einsum("ij,ij->i", sums, sums))
        zero = norms < 1e-12
        if zero.any():
            # The last axis carries the least of the table's variance, so it is near no topic in particular.
            sums[zero] = 0.0
            sums[zero, -1] = 1.0
            norms[zero] = 1.0
        result: FloatArray = sums / norms[:, None]
        return result

    def _add_up(self, tokens: NDArray[np.int64], owners: NDArray[np.intp], sums: FloatArray) -> None:
        """Add the vectors of tokens to the sums of the texts that own them."""
        edges = np.searchsorted(owners, np.arange(len(sums) + 1)).tolist()
        # A few texts at a time, so that their token vectors stay in the processor's cache.
        for first in range(0, len(sums), _POOLED):
            ends = edges[first : first + _POOLED + 1]
            vectors = self._weighted(tokens[ends[0] : ends[-1]])
            for row, (start, end) in enumerate(pairwise(ends), first):
                np.add.reduce(vectors[start - ends[0] : end - ends[0]], axis=0, out=sums[row])

    def _weighted(self, tokens: NDArray[np.int64]) -> FloatArray:
        """Return the vectors of tokens, times their weights, shape `(len(tokens), dimension)`."""
        vectors: FloatArray = self._table[tokens if self._rows is None else self._rows[tokens]].astype(np.float32)
        if self._weights is not None:
            vectors *= self._weights[tokens, None]
        return vectors

    async def aencode(self, texts: Sequence[str]) -> FloatArray:
        """Return embeddings as `encode` does, in a worker thread."""
        return await asyncio.to_thread(self.encode, texts)


class _Tokenizer(Protocol):
    """A tokenizer: texts in, ids of at most `longest` tokens each out."""

    @property
    def unknown(self) -> int | None:
        """The id of what the vocabulary does not hold, if there is one."""

    def encode(self, texts: Sequence[str], longest: int) -> list[list[int]]: ...


def recall_taus_in(config: Mapping[str, Sequence[float]]) -> dict[float, tuple[float, float]]:
    """Return an encoder's `recall_taus` from its configuration."""
    return {float(recall): (float(own), float(other)) for recall, (own, other) in config.items()}


def _read(folder: Path) -> tuple[dict[str, NDArray[Any]], dict[str, Any], dict[str, Any]]:
    """Return the arrays of a model2vec folder, its settings, and the description of its tokenizer."""
    from safetensors.numpy import load_file

    config, description = (json.loads((folder / name).read_text("utf-8")) for name in ("config.json", "tokenizer.json"))
    arrays = load_file(folder / "model.safetensors")
    rows, tokens = len(arrays.get("mapping", arrays["embeddings"])), len(description["model"]["vocab"])
    if rows < tokens:
        raise ValueError(f"The vocabulary has {tokens} tokens, the table {rows} rows.")
    return arrays, config, description


def _shortened(text: str) -> str:
    """Return the part of a long text that can matter; a long run of white space counts as one character."""
    return " ".join(text[: 16 * _MAX_CHARACTERS].split())[:_MAX_CHARACTERS]


@lru_cache(maxsize=1)
def default_encoder() -> StaticEncoder:
    """Return the bundled static encoder, loaded once for each process."""
    return StaticEncoder()
