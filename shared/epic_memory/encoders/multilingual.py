"""Encoder of twenty-one languages: a static token table of its own wheel (extra `multilingual`)."""

from __future__ import annotations

import json
import threading
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epic_memory.encoders.static import TokenTable, recall_taus_in
from epic_memory.encoders.unigram import Unigram
from epic_memory.errors import EncoderError, MissingExtraError
from epic_memory.types import FloatArray

_PACKAGE = "epic_multilingual"
MULTILINGUAL_NAME = "epic-multilingual-v1"
# A byte holds two numbers of four bits, each between -7 and 7.
_PAIRS = np.stack(np.divmod(np.arange(256), 16), axis=1).astype(np.float32) - 8.0


class MultilingualEncoder(TokenTable):
    """A bag of weighted token vectors for `languages`, in 4 bits, in which translations are near each other.

    The table is a student of multilingual-e5-small (`shared/tools/make_multilingual.py` made it). Text beyond the first
    512 tokens does not count; a text without any known token gets one fixed direction. Safe to use from threads.

    Args:
        folder: A folder with the table; default: that of the package.

    Raises:
        MissingExtraError: if the package with the table is not installed.
        EncoderError: if the table cannot be read.
    """

    name = MULTILINGUAL_NAME

    def __init__(self, folder: Path | None = None) -> None:
        folder = folder or _folder()
        if folder is None:
            raise MissingExtraError(_PACKAGE, "multilingual")
        try:
            config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
            pieces = (folder / "pieces.txt").read_text(encoding="utf-8").split("\n")
            scores = np.load(folder / "scores.npy").astype(np.float32).tolist()
            self._codes = np.concatenate([np.load(folder / f"rows_{part}.npy") for part in "ab"])
            self._scales = np.load(folder / "scales.npy").astype(np.float32)[:, None]
            if not len(pieces) == len(scores) == len(self._codes) == len(self._scales):
                raise ValueError(f"{len(pieces)} pieces, {len(scores)} scores, {len(self._codes)} rows")
            self.fingerprint = str(config["fingerprint"])
            self.languages = frozenset(config["languages"])
            self.tau, self.floor, self.relevant = (float(config[key]) for key in ("tau", "floor", "relevant"))
            self.worded = float(config["worded"])
            self.recall_taus = recall_taus_in(config.get("recall_taus", {}))
        except Exception as error:
            raise EncoderError(
                f"Cannot load the table in {folder}: {error}. Install the extra multilingual again."
            ) from error
        self._from = folder
        self._tokenizer = Unigram(pieces, scores)
        self.dimension = 2 * self._codes.shape[1]

    def _weighted(self, tokens: NDArray[np.int64]) -> FloatArray:
        vectors: FloatArray = _PAIRS[self._codes[tokens]].reshape(len(tokens), self.dimension)
        vectors *= self._scales[tokens]
        return vectors

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._from,)


_lock = threading.Lock()


@lru_cache(maxsize=1)
def _shared() -> MultilingualEncoder:
    return MultilingualEncoder()


def shared_multilingual() -> MultilingualEncoder:
    """Return the encoder, loaded once for each process."""
    with _lock:
        return _shared()


def has_multilingual() -> bool:
    """Tell whether the extra `multilingual` is installed."""
    return _folder() is not None


def _folder() -> Path | None:
    found = find_spec(_PACKAGE)
    # A folder of this name without the table is no package.
    return None if found is None or found.origin is None else Path(found.origin).parent
