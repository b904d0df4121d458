"""Lexical index: which held texts share a query's distinctive words, such as names and numbers.

An embedding captures the topic of a text, but blurs the names in it. A word is the more distinctive the fewer texts
have it, so each word w of the query counts its idf, as in BM25, and a text scores the share of the query's idf that it
holds:

    lexical(q, x) = sum of idf(w) over the words of q in x / sum of idf(w) over the words of q,   in [0, 1].

Words in more than a fifth of the texts (and in more than five) are left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from epic_core.text.stems import content_stems

_COMMON = 0.2
# Among a handful of texts, a single text is a fifth of them.
_FEW = 5
_LONGEST_QUERY = 64


class LexicalIndex:
    """An index from words to the rows that hold them."""

    def __init__(self) -> None:
        self._rows_of: dict[str, set[int]] = {}
        self._words_of: dict[int, tuple[str, ...]] = {}

    def __len__(self) -> int:
        return len(self._words_of)

    def __contains__(self, row: int) -> bool:
        return row in self._words_of

    def add(self, texts: Iterable[tuple[int, str]]) -> None:
        """Add texts under their rows, in place of earlier texts of those rows."""
        for row, text in texts:
            self.remove([row])
            words = tuple(set(content_stems(text)))
            self._words_of[row] = words
            for word in words:
                self._rows_of.setdefault(word, set()).add(row)

    def remove(self, rows: Iterable[int]) -> None:
        """Remove rows; unknown rows are ignored."""
        for row in rows:
            for word in self._words_of.pop(row, ()):
                rows_of = self._rows_of[word]
                rows_of.discard(row)
                if not rows_of:
                    del self._rows_of[word]

    def scores(self, query: str) -> dict[int, float]:
        """Return lexical(q, x) of every row that shares a distinctive word with a query."""
        words = self._telling(list(dict.fromkeys(content_stems(query)))[:_LONGEST_QUERY])
        whole = sum(idf for _, idf in words)
        found: dict[int, float] = {}
        for word, idf in words:
            for row in self._rows_of.get(word, ()):
                found[row] = found.get(row, 0.0) + idf / whole
        return found

    def _telling(self, words: Sequence[str]) -> list[tuple[str, float]]:
        """Return the distinctive words, each with its idf."""
        count = len(self)
        most = max(_FEW, _COMMON * count)
        told = []
        for word in words:
            having = len(self._rows_of.get(word, ()))
            if having <= most:
                # A word that no text has counts too: the query asks for something that the memory does not hold.
                told.append((word, math.log1p((count - having + 0.5) / (having + 0.5))))
        return told
