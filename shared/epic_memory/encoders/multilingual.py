"""Encoder of twenty-one languages: a static token table of its own wheel (extra `multilingual`), and its tokenizer.

The tokenizer cuts words into their likeliest pieces, by a unigram model. Chinese, Japanese and Thai have no spaces
between words: there, a run of letters up to the next sign is cut as one word.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from importlib.util import find_spec
from itertools import chain, islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from epic_memory.encoders.static import StaticEncoder, recall_taus_in
from epic_memory.errors import EncoderError, MissingExtraError
from epic_memory.types import FloatArray

START = "\u2581"  # the sign before the first piece of a word
_DENSE = "\u0e00-\u0e7f\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
# Vowels and other signs above and below letters, which \w leaves out: Latin, Arabic, Devanagari.
_MARKS = "\u0300-\u036f\u064b-\u065f\u0670\u0900-\u0963"
_WORD = f"[^\\W_{_DENSE}]"
_UNITS = re.compile(f"([{_DENSE}]+)|({_WORD}+(?:[{_MARKS}]+{_WORD}*)*)")
# No piece: what a character costs that no piece has, more than any piece, and what longer parts of words cost.
_UNKNOWN, _NONE = (None, -40.0), (None, -float("inf"))


def units(text: str) -> list[str]:
    """Return the words of a text in small letters, each after `START`, and its runs in scripts without spaces."""
    return [dense or START + word for dense, word in _UNITS.findall(unicodedata.normalize("NFKC", text).lower())]


class Unigram:
    """Tokenizer that cuts words into the pieces whose scores, log-probabilities, sum to the most.

    A piece that begins a word has `START` before it. Safe to use from several threads.
    """

    unknown: int | None = None  # characters that no piece has are left out

    def __init__(self, pieces: Sequence[str], scores: Sequence[float]) -> None:
        self._known = {piece: (number, score) for number, (piece, score) in enumerate(zip(pieces, scores, strict=True))}
        # The length of the longest piece that begins with a character.
        self._longest = {piece[0]: len(piece) for piece in sorted(pieces, key=len)}
        self.pieces_of = lru_cache(1 << 16)(self._cut)

    def encode(self, texts: Sequence[str], longest: int) -> list[list[int]]:
        """Return the ids of the pieces of each text, at most the first `longest` of each."""
        return [list(islice(chain.from_iterable(map(self.pieces_of, units(text))), longest)) for text in texts]

    def _cut(self, unit: str) -> tuple[int, ...]:
        if unit[0] == START and unit in self._known:
            return (self._known[unit][0],)
        # Viterbi: the best sum up to each place, and where the piece begins that ends there, with its id.
        best = [0.0, *[_NONE[1]] * len(unit)]
        last: list[tuple[int, int | None]] = [(0, None)] * len(best)
        for start, character in enumerate(unit):
            for end in range(start + 1, min(len(unit), start + self._longest.get(character, 1)) + 1):
                number, score = self._known.get(unit[start:end], _UNKNOWN if end == start + 1 else _NONE)
                if best[start] + score > best[end]:
                    best[end], last[end] = best[start] + score, (start, number)
        ids, place = [], len(unit)
        while place:
            place, number = last[place]
            ids.append(number)
        return tuple(number for number in reversed(ids) if number is not None)


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


def installed_table() -> Path | None:
    """Return the folder of the table; None if the extra is not installed, as a folder of its name is no package."""
    found = find_spec(_PACKAGE)
    return None if found is None or found.origin is None else Path(found.origin).parent
