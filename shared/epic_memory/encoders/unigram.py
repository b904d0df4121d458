"""Tokenizer of many languages: the likeliest pieces of each word, by a unigram model.

Chinese, Japanese and Thai have no spaces between words: there, a run of letters up to the next sign is cut as one word.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from itertools import chain, islice

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
