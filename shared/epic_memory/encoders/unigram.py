"""Tokenizer of many languages: the likeliest pieces of each word, by a unigram model.

A text is brought to small letters and cut into words. Chinese, Japanese and Thai have no spaces between words: there, a
run of letters up to the next sign is cut as if it were one word, by the same model.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from itertools import chain, islice
from typing import Any

_REMEMBERED = 1 << 16
START = "\u2581"
"""The sign before the first piece of a word."""
_DENSE = "\u0e00-\u0e7f\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
# Vowels and other signs above and below letters, which \w leaves out: Latin, Arabic, Devanagari.
_MARKS = "\u0300-\u036f\u064b-\u065f\u0670\u0900-\u0963"
_WORD = f"[^\\W_{_DENSE}]"
_UNITS = re.compile(f"([{_DENSE}]+)|({_WORD}+(?:[{_MARKS}]+{_WORD}*)*)")
# What the cheapest way through a word pays for a character that no piece has; more than any piece costs.
_UNKNOWN = -40.0


def units(text: str) -> list[str]:
    """Return the words of a text, each after `START`, and its runs in scripts without spaces."""
    found = _UNITS.findall(unicodedata.normalize("NFKC", text).lower())
    return [dense or START + word for dense, word in found]


class Unigram:
    """Tokenizer that cuts words into the pieces whose log-probabilities sum to the most. Safe to use from threads.

    Args:
        pieces: The vocabulary; one that begins a word has `START` before it.
        scores: Their log-probabilities.
    """

    unknown: int | None = None
    """No id: characters that no piece has are left out."""

    def __init__(self, pieces: Sequence[str], scores: Sequence[float]) -> None:
        self._known = {piece: (number, score) for number, (piece, score) in enumerate(zip(pieces, scores, strict=True))}
        # The longest piece that begins with a character.
        self._longest: dict[str, int] = {}
        for piece in pieces:
            self._longest[piece[0]] = max(len(piece), self._longest.get(piece[0], 1))
        self._pieces = lru_cache(_REMEMBERED)(self._cut)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_pieces"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._pieces = lru_cache(_REMEMBERED)(self._cut)

    def encode(self, texts: Sequence[str], longest: int) -> list[list[int]]:
        """Return the ids of the pieces of each text, at most the first `longest` of each."""
        return [list(islice(chain.from_iterable(map(self._pieces, units(text))), longest)) for text in texts]

    def _cut(self, unit: str) -> tuple[int, ...]:
        whole = self._known.get(unit)
        if whole is not None and unit[0] == START:
            return (whole[0],)
        # Viterbi: the best sum up to each place, and the piece that ends there with the place where it begins.
        best = [0.0, *[-float("inf")] * len(unit)]
        last: list[tuple[int, int | None]] = [(0, None)] * len(best)
        for start, character in enumerate(unit):
            if best[start] + _UNKNOWN > best[start + 1]:
                best[start + 1], last[start + 1] = best[start] + _UNKNOWN, (start, None)
            for end in range(start + 1, min(len(unit), start + self._longest.get(character, 0)) + 1):
                piece = self._known.get(unit[start:end])
                if piece is not None and best[start] + piece[1] > best[end]:
                    best[end], last[end] = best[start] + piece[1], (start, piece[0])
        ids: list[int] = []
        place = len(unit)
        while place:
            place, number = last[place]
            if number is not None:
                ids.append(number)
        return tuple(reversed(ids))
