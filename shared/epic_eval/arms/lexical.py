"""BM25 over the raw passages, by bm25s; on disk lie the texts alone, as in the papers."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from epic_eval.arms.base import BaseArm, BuildCost, Passage, Retrieved, with_total, write_documents
from epic_memory import Item
from epic_memory.errors import MissingExtraError

_WORD = re.compile(r"\w+")


class BM25(BaseArm):
    """BM25 with k1 1.2 and b 0.75 over lower-cased words.

    Raises:
        MissingExtraError: without bm25s.
    """

    def __init__(self, name: str = "BM25") -> None:
        try:
            import bm25s
        except ImportError:
            raise MissingExtraError("bm25s", "eval") from None
        self.name = name
        self._library: Any = bm25s

    def build(self, corpus: Sequence[Item], preferences: Sequence[str], folder: Path) -> BuildCost:
        """Count words."""
        started = time.perf_counter()
        self.corpus = corpus
        self._index = self._library.BM25(k1=1.2, b=0.75)
        self._index.index([self._words(item.text) for item in corpus], show_progress=False)
        taken = time.perf_counter() - started
        self._bytes = with_total(documents=write_documents(folder, corpus))
        return BuildCost(seconds={"index": taken}, held=len(corpus))

    def retrieve(self, question: str, k: int) -> Retrieved:
        """Return the passages with the highest scores; those that share no word with the question are left out."""
        started = time.perf_counter()
        scores = self._index.get_scores(self._known(question))
        rows = (-scores).argsort(kind="stable")[:k]
        found = [self.corpus[int(row)] for row in rows if scores[row] > 0.0]
        return Retrieved(
            passages=tuple(Passage(item.id, item.text) for item in found), search=time.perf_counter() - started
        )

    def _known(self, text: str) -> list[str]:
        return [word for word in self._words(text) if word in self._index.vocab_dict] or [""]

    @staticmethod
    def _words(text: str) -> list[str]:
        return _WORD.findall(text.lower())

    def bytes(self) -> dict[str, int]:
        """Return the bytes of the texts."""
        return self._bytes
