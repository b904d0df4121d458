"""Encoder all-MiniLM-L6-v2 in 8 bits, by onnxruntime, without torch and without a download (extra `minilm`)."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from epic_memory.encoders.static import recall_taus_in
from epic_memory.encoders.wordpiece import WordPiece
from epic_memory.errors import EncoderError, MissingExtraError
from epic_memory.types import FloatArray

_MAX_TOKENS = 256
# Tokens encoded in one run: enough for full speed, at some 30 MB.
_TOKENS_AT_ONCE = 4096
_PACKAGE = "epic_minilm"
MINILM_NAME = "epic-minilm-v1"


class MiniLMEncoder:
    """The sentence-transformers model all-MiniLM-L6-v2 with weights in 8 bits, English.

    Text beyond the first 256 tokens does not count, as in the original. Texts of one length are encoded together, so
    that none needs padding and an embedding does not depend on the other texts. Safe to use from several threads.

    Args:
        threads: Threads that one call uses; default: as many as the machine has cores.

    Raises:
        MissingExtraError: if onnxruntime or the package with the weights is not installed.
        EncoderError: if the weights cannot be read.
    """

    dimension = 384
    languages = frozenset({"en"})

    def __init__(self, *, threads: int = 0) -> None:
        if not has_minilm():
            raise MissingExtraError(_PACKAGE, "minilm")
        import onnxruntime

        import epic_minilm

        folder = Path(epic_minilm.__file__).parent
        settings = onnxruntime.SessionOptions()
        settings.intra_op_num_threads = threads
        settings.log_severity_level = 3
        try:
            config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
            tokenizer = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
            self._session: Any = onnxruntime.InferenceSession(
                str(folder / "model.onnx"), settings, providers=["CPUExecutionProvider"]
            )
        except Exception as error:
            raise EncoderError(
                f"Cannot load the weights in {folder}: {error}. Install the extra minilm again."
            ) from error
        self.name = MINILM_NAME
        self.fingerprint = str(config["fingerprint"])
        self.tau, self.floor, self.relevant = (float(config[key]) for key in ("tau", "floor", "relevant"))
        self.recall_taus = recall_taus_in(config.get("recall_taus", {}))
        self._threads = threads
        self._tokenizer = WordPiece(tokenizer)
        vocabulary = tokenizer["model"]["vocab"]
        self._first, self._last = vocabulary["[CLS]"], vocabulary["[SEP]"]

    def encode(self, texts: Sequence[str]) -> FloatArray:
        """Return L2-normalised float32 embeddings, shape `(len(texts), 384)`."""
        tokens = self._tokenizer.encode(texts, _MAX_TOKENS - 2)
        of_length: dict[int, list[int]] = defaultdict(list)
        for place, ids in enumerate(tokens):
            of_length[len(ids) + 2].append(place)
        vectors = np.empty((len(texts), self.dimension), dtype=np.float32)
        for length, places in of_length.items():
            together = max(1, _TOKENS_AT_ONCE // length)
            for start in range(0, len(places), together):
                some = places[start : start + together]
                batch = np.array([[self._first, *tokens[place], self._last] for place in some], dtype=np.int64)
                (vectors[some],) = self._session.run(None, {"tokens": batch})
        return vectors

    async def aencode(self, texts: Sequence[str]) -> FloatArray:
        """Return embeddings as `encode` does, in a worker thread."""
        return await asyncio.to_thread(self.encode, texts)

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(MiniLMEncoder, threads=self._threads), ()


def has_minilm() -> bool:
    """Tell whether the extra `minilm` is installed."""
    weights = find_spec(_PACKAGE)
    # A folder of this name without the weights is no package.
    return weights is not None and weights.origin is not None and find_spec("onnxruntime") is not None
