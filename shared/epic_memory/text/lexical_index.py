"""Lexical index: which held texts share a query's distinctive words, such as names and numbers.

An embedding captures the topic of a text, but blurs the names in it. A word is the more distinctive the fewer texts
have it, so each word w of the query counts its idf, as in BM25, and a text scores the share of the query's idf that it
holds:

    lexical(q, x) = sum of idf(w) over the words of q in x / sum of idf(w) over the words of q,   in [0, 1].

Words in more than a fifth of the texts (and in more than five) are left out.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from epic_memory.text.stems import content_stems

_COMMON = 0.2
# Among a handful of texts, a single text is a fifth of them.
_FEW = 5
_LONGEST_QUERY = 64


class LexicalIndex:
    """An index from words to the rows that hold them."""

    def __init__(self) -> None:
        # Lists, as most words are in one text only: a set takes three times the RAM.
        self._rows_of: defaultdict[str, list[int]] = defaultdict(list)
        self._words_of: dict[int, tuple[str, ...]] = {}
        self._sorted: dict[str, NDArray[np.int64]] = {}

    def __len__(self) -> int:
        return len(self._words_of)

    def __contains__(self, row: int) -> bool:
        return row in self._words_of

    def add(self, texts: Iterable[tuple[int, str]]) -> None:
        """Add texts under their rows, in place of earlier texts of those rows."""
        for row, text in texts:
            if row in self._words_of:
                self.remove([row])
            words = tuple(set(content_stems(text)))
            self._words_of[row] = words
            for word in words:
                self._rows_of[word].append(row)
            if self._sorted:
                for word in words:
                    self._sorted.pop(word, None)

    def remove(self, rows: Iterable[int]) -> None:
        """Remove rows; unknown rows are ignored."""
        for row in rows:
            for word in self._words_of.pop(row, ()):
                rows_of = self._rows_of[word]
                rows_of.remove(row)
                self._sorted.pop(word, None)
                if not rows_of:
                    del self._rows_of[word]

    def shares(self, query: str) -> list[tuple[NDArray[np.int64], float]]:
        """Return for each distinctive word of a query that a text has: the rows that have it, and its share.

        lexical(q, x) is the sum of the shares of the words that x has.
        """
        words = self._distinctive(list(dict.fromkeys(content_stems(query)))[:_LONGEST_QUERY])
        whole = sum(idf for _, idf in words)
        return [(self._rows(word), idf / whole) for word, idf in words if word in self._rows_of]

    def _rows(self, word: str) -> NDArray[np.int64]:
        rows = self._sorted.get(word)
        if rows is None:
            rows = self._sorted[word] = np.sort(np.fromiter(self._rows_of[word], dtype=np.int64))
        return rows

    def _distinctive(self, words: Sequence[str]) -> list[tuple[str, float]]:
        """Return the distinctive words, each with its idf."""
        count = len(self)
        most = max(_FEW, _COMMON * count)
        found = []
        for word in words:
            having = len(self._rows_of.get(word, ()))
            if having <= most:
                # A word that no text has counts too: the query asks for something that the memory does not hold.
                found.append((word, math.log1p((count - having + 0.5) / (having + 0.5))))
        return found
