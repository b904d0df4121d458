"""Lexical index: which held texts share a query's distinctive words, such as names and numbers.

An embedding captures the topic of a text, but blurs the names in it. A word is the more distinctive the fewer texts
have it, so each word w of the query counts its idf, as in BM25, and a text scores the share of the query's idf that it
holds:

    lexical(q, x) = sum of idf(w) over the words of q in x / sum of idf(w) over the words of q,   in [0, 1].

Words in more than a fifth of the texts (and in more than five) are left out.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from epic_memory.text.stems import content_stems

# Scripts without spaces between words, and Hangul, whose words end in particles: Thai, Lao, Burmese, Khmer, kana, Han.
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]+"
)

_COMMON = 0.2
# Among a handful of texts, a single text is a fifth of them.
_FEW = 5
_LONGEST_QUERY = 64


class Postings:
    """Rows by their words.

    Attributes:
        rows_of: The rows of each word.
    """

    def __init__(self) -> None:
        # Most words are in one text only, and a tuple of numbers is half a list, and no work for the garbage collector.
        self.rows_of: dict[str, Sequence[int]] = {}
        self._words_of: dict[int, Collection[str]] = {}
        self._sorted: dict[str, NDArray[np.int64]] = {}

    def __len__(self) -> int:
        return len(self._words_of)

    def __contains__(self, row: int) -> bool:
        return row in self._words_of

    def put(self, row: int, words: Collection[str]) -> None:
        """Write a row with its words, each once, in place of an earlier one."""
        if row in self:
            self.remove([row])
        self._words_of[row], alone = words, (row,)
        for word in words:
            rows = self.rows_of.get(word)
            if isinstance(rows, list):
                rows.append(row)
            else:
                self.rows_of[word] = alone if rows is None else [*rows, row]
        if self._sorted:
            for word in words:
                self._sorted.pop(word, None)

    def remove(self, rows: Iterable[int]) -> None:
        """Remove rows; unknown rows are ignored."""
        for row in rows:
            for word in self._words_of.pop(row, ()):
                self._sorted.pop(word, None)
                having = self.rows_of[word]
                if isinstance(having, list) and len(having) > 1:
                    having.remove(row)
                else:
                    del self.rows_of[word]

    def rows(self, word: str) -> NDArray[np.int64]:
        """Return the rows of a word that any has, ascending."""
        rows = self._sorted.get(word)
        if rows is None:
            rows = self._sorted[word] = np.sort(np.fromiter(self.rows_of[word], dtype=np.int64))
        return rows


@lru_cache(maxsize=1)
def _marks() -> dict[int, None]:
    return dict.fromkeys(code for code in range(0x300, 0x11000) if unicodedata.category(chr(code))[0] == "M")


def index_words(text: str) -> list[str]:
    """Return the words by which a text is found, in order: stems, and pairs of signs in scripts without spaces."""
    if text.isascii():
        return content_stems(text)
    # One form for each sign, and no marks on signs, at which words would be cut.
    words = content_stems(unicodedata.normalize("NFKC", text).translate(_marks()))
    if not _UNSPACED.search(text):
        return words
    found = []
    for word in words:
        found += _UNSPACED.sub(" ", word).split()
        for run in _UNSPACED.findall(word):
            found += [run[start : start + 2] for start in range(len(run) - 1)] or [run]
    return found


class LexicalIndex(Postings):
    """An index from words to the rows that hold them."""

    def add(self, texts: Iterable[tuple[int, str]]) -> None:
        """Add texts under their rows, in place of earlier texts of those rows."""
        for row, text in texts:
            self.put(row, tuple(set(index_words(text))))

    def shares(self, query: str) -> list[tuple[NDArray[np.int64], float]]:
        """Return for each distinctive word of a query that a text has: the rows that have it, and its share.

        lexical(q, x) is the sum of the shares of the words that x has.
        """
        count = len(self)
        idf: dict[str, float] = {}
        for word in list(dict.fromkeys(index_words(query)))[:_LONGEST_QUERY]:
            having = len(self.rows_of.get(word, ()))
            if having <= max(_FEW, _COMMON * count):
                # A word that no text has counts too: the query asks for something that the memory does not hold.
                idf[word] = math.log1p((count - having + 0.5) / (having + 0.5))
        whole = sum(idf.values())
        return [(self.rows(word), each / whole) for word, each in idf.items() if word in self.rows_of]
