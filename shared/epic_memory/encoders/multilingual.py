"""Encoder of twenty-one languages: a static token table of its own wheel (extra `multilingual`)."""

from __future__ import annotations

import json
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from epic_memory.encoders.static import StaticEncoder, recall_taus_in
from epic_memory.encoders.unigram import Unigram
from epic_memory.errors import EncoderError, MissingExtraError
from epic_memory.types import FloatArray

_PACKAGE = "epic_multilingual"
MULTILINGUAL_NAME = "epic-multilingual-v1"
# The two numbers of four bits of each byte, between -7 and 7.
_PAIRS = np.stack(np.divmod(np.arange(256), 16), axis=1).astype(np.float32) - 8.0


class MultilingualEncoder(StaticEncoder):
    """A bag of weighted token vectors for `languages`, in 4 bits, in which translations are near each other.

    The table, by default the installed one, is a student of multilingual-e5-small (shared/tools/make_multilingual.py).

    Raises:
        MissingExtraError: if the package with the table is not installed.
        EncoderError: if the table cannot be read.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._from = folder = folder or installed_table()
        if folder is None:
            raise MissingExtraError(_PACKAGE, "multilingual")
        try:
            config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
            pieces = (folder / "pieces.txt").read_text(encoding="utf-8").split("\n")
            scores = np.load(folder / "scores.npy").astype(np.float32).tolist()
            self._table = np.concatenate([np.load(folder / f"rows_{part}.npy") for part in "ab"])
            self._scales = np.load(folder / "scales.npy").astype(np.float32)[:, None]
            if not len(pieces) == len(self._table) == len(self._scales):
                raise ValueError(f"{len(pieces)} pieces, {len(self._table)} rows")
            kinds = json.loads((folder / "question_kind.json").read_text(encoding="utf-8"))
            embedding, bias = (np.array(kinds[part], dtype=np.float32) / 100.0 for part in ("embedding", "bias"))
            self.kinds: tuple[FloatArray, FloatArray] = embedding, bias
            self.languages = frozenset(config["languages"])
            self.tau, self.floor, self.relevant = (float(config[key]) for key in ("tau", "floor", "relevant"))
            self.worded, self.recall_taus = float(config["worded"]), recall_taus_in(config.get("recall_taus", {}))
            self.name, self.fingerprint = MULTILINGUAL_NAME, str(config["fingerprint"])
            self._tokenizer = Unigram(pieces, scores)
        except Exception as error:
            raise EncoderError(f"Cannot load {folder}: {error}. Install the extra multilingual again.") from error
        self.dimension = 2 * self._table.shape[1]

    def _weighted(self, tokens: NDArray[np.int64]) -> FloatArray:
        vectors: FloatArray = _PAIRS[self._table[tokens]].reshape(len(tokens), self.dimension)
        vectors *= self._scales[tokens]
        return vectors

    def __reduce__(self) -> tuple[type, tuple[Path | None]]:
        return type(self), (self._from,)


@lru_cache(maxsize=1)
def shared_table() -> MultilingualEncoder:
    """Return the encoder, loaded once for each process."""
    return MultilingualEncoder()


def installed_table() -> Path | None:
    """Return the folder of the table; None if the extra is not installed, as a folder of its name is no package."""
    found = find_spec(_PACKAGE)
    return None if found is None or found.origin is None else Path(found.origin).parent
