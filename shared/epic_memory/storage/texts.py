"""Texts in RAM under row ids: embeddings, exact words, words as evidence, and turns of conversations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, TypeVar

import numpy as np

from epic_memory.preferences.evidence import AspectEmbeddings, worded
from epic_memory.storage.vector_index import VectorTable
from epic_memory.text.lexical_index import LexicalIndex
from epic_memory.text.stems import Words, words_of
from epic_memory.text.turns import SPEAKER, TURN, Turns
from epic_memory.types import FloatArray, Preference
from epic_memory.types.items import content_of, questions_of


class Text(Protocol):
    """An item, or what else has a text and metadata."""

    @property
    def text(self) -> str:
        """The text."""

    @property
    def metadata(self) -> Mapping[str, Any]:
        """Its metadata."""


Read: TypeAlias = Callable[[Sequence[int]], Mapping[int, Text]]
"""Returns texts by their rows."""

MOST_WORDED = 20_000
"""Number of texts up to which exact words are searched."""
_WORDS_KEPT = 4096
_PREFERENCES_KEPT = 256
K = TypeVar("K")
V = TypeVar("V")


def remembered(
    known: dict[K, V], wanted: Sequence[K], most: int, read: Callable[[Sequence[K]], Mapping[K, V]]
) -> dict[K, V]:
    """Return values by their keys: the known ones, and others that are read and known from then on.

    Args:
        known: The known values; all go where they would become more than `most`.
        wanted: The keys; those that nothing is read for are left out.
        most: How many values are kept.
        read: Returns the values of keys.
    """
    missing = [key for key in wanted if key not in known]
    if missing:
        if len(known) + len(missing) > most:
            known.clear()
            missing = list(wanted)
        known.update(read(missing))
    return {key: known[key] for key in wanted if key in known}


class Texts(VectorTable):
    """Embeddings of texts under int64 row ids, and what their words say, read when it is needed.

    Args:
        dimension: Length d of a vector.
        read: Reads texts of the file.
    """

    def __init__(self, dimension: int, read: Read) -> None:
        super().__init__(dimension)
        self._read = read
        self._lexical = LexicalIndex()
        self._turns: Turns | None = None
        self._words: dict[int, Words] = {}
        self._worded: dict[Preference, dict[int, float]] = {}

    def remove(self, rows: Sequence[int]) -> None:
        """Remove rows; unknown rows are ignored."""
        super().remove(rows)
        self._lexical.remove(rows)
        if self._turns is not None:
            self._turns.remove(rows)
        for row in rows:
            self._words.pop(row, None)
            for known in self._worded.values():
                known.pop(row, None)

    def lexical(self) -> LexicalIndex:
        """Return the index of the exact words of all texts; an empty one if there are too many texts."""
        if len(self) > MOST_WORDED:
            return LexicalIndex()
        if len(self._lexical) < len(self):
            missing = [row for row in self.rows.tolist() if row not in self._lexical]
            for start in range(0, len(missing), _WORDS_KEPT):
                texts = self._read(missing[start : start + _WORDS_KEPT])
                contents = {row: content_of(text.text, text.metadata) for row, text in texts.items()}
                self._lexical.add(
                    (row, "\n".join((content, *questions_of(texts[row].metadata)))) for row, content in contents.items()
                )
                for row, content in contents.items():
                    if not {SPEAKER, TURN}.isdisjoint(texts[row].metadata):
                        self._turns = self._turns or Turns()
                        self._turns.add(row, content, texts[row].metadata)
        return self._lexical

    def turns(self) -> Turns | None:
        """Return the turns of conversations among the texts; None if there were never any, or too many texts."""
        self.lexical()
        return self._turns if len(self) <= MOST_WORDED else None

    def contents(self, rows: Sequence[int]) -> list[str]:
        """Return what texts say, with their titles."""
        texts = self._read(rows)
        return [content_of(texts[row].text, texts[row].metadata) for row in rows]

    def metadata(self, rows: Sequence[int]) -> list[Mapping[str, Any]]:
        """Return the metadata of texts."""
        texts = self._read(rows)
        return [texts[row].metadata for row in rows]

    def worded(self, rows: Sequence[int], preference: Preference, sides: AspectEmbeddings) -> FloatArray:
        """Return the weights of texts' words under a preference, each computed once; shape `(n,)`.

        Args:
            rows: Of the texts.
            preference: The preference.
            sides: Its phrases and embeddings.
        """
        if len(self._worded) > _PREFERENCES_KEPT:
            self._worded.clear()

        def weights(some: Sequence[int]) -> dict[int, float]:
            words = remembered(self._words, some, _WORDS_KEPT, self._words_of)
            return {row: worded(sides, words[row]) for row in some}

        known = remembered(self._worded.setdefault(preference, {}), rows, _WORDS_KEPT, weights)
        return np.array([known[row] for row in rows], dtype=np.float32)

    def _words_of(self, rows: Sequence[int]) -> dict[int, Words]:
        return dict(zip(rows, map(words_of, self.contents(rows)), strict=True))
