"""Turns of conversations: whose they are, of which month and year, and which question each answers.

What is needed stands in an item's metadata: `speaker` is who said it, `time` when, and `turn` its number in its
`source`, or in one `conversation` of it. A turn that follows a question answers it, so a search reads it with the
question's words: "Two, Oscar and Bailey." says nothing of cats by itself. An item without speaker and number is no
turn, and nothing changes for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from epic_memory.text.lexical_index import Postings
from epic_memory.text.statements import MONTHS

SPEAKER, TIME, TURN, SOURCE, CONVERSATION = "speaker", "time", "turn", "source", "conversation"
"""The metadata keys of who said a text, when, its number, where it is from, and in which conversation of several."""
_MONTHS = [month.capitalize() for month in MONTHS]
_WORD = re.compile(r"[^\W_]+")
_YEAR = re.compile(r"\b(?:19|20)\d\d\b")
_ISO_MONTH = re.compile(r"\b\d{4}-(0[1-9]|1[0-2])\b")


Number: TypeAlias = tuple[str | None, str | None, int]
"""Source, conversation and number of a turn."""


class TurnRows(NamedTuple):
    """Rows of the turns; and of those that answer a question, each with the row of the question."""

    turns: NDArray[np.int64]
    answers: NDArray[np.int64]
    questions: NDArray[np.int64]


class Turns:
    """The turns among the items of a memory, by their rows."""

    def __init__(self) -> None:
        self._numbers: dict[int, Number | None] = {}
        self._row_of: dict[Number, int] = {}
        self._asking: set[int] = set()
        self._names = Postings()
        self._rows: TurnRows | None = None

    def add(self, row: int, text: str, metadata: Mapping[str, Any]) -> None:
        """Add an item under its row if it is a turn, in place of an earlier one of that row."""
        self.remove([row])
        turn = metadata.get(TURN)
        number = (
            (_text(metadata.get(SOURCE)), _text(metadata.get(CONVERSATION)), turn) if isinstance(turn, int) else None
        )
        speaker = metadata.get(SPEAKER)
        names = set(_WORD.findall(speaker.lower())) if isinstance(speaker, str) else set()
        if number is None and not names:
            return
        self._rows = None
        self._numbers[row] = number
        self._names.put(row, names | _months_and_years(metadata.get(TIME)))
        if number is not None:
            self._row_of[number] = row
            if "?" in text:
                self._asking.add(row)

    def remove(self, rows: Iterable[int]) -> None:
        """Remove rows; unknown rows are ignored."""
        for row in rows:
            if row not in self._numbers:
                continue
            self._rows = None
            self._asking.discard(row)
            number = self._numbers.pop(row)
            if number is not None and self._row_of.get(number) == row:
                del self._row_of[number]
            self._names.remove([row])

    def rows(self) -> TurnRows:
        """Return the rows of the turns, and of the answers and questions among them."""
        if self._rows is None:
            pairs = []
            for row in sorted(self._asking):
                source, conversation, turn = self._numbers[row] or (None, None, 0)
                answer = self._row_of.get((source, conversation, turn + 1))
                if answer is not None:
                    pairs.append((answer, row))
            answers, questions = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
            self._rows = TurnRows(np.array(sorted(self._numbers), dtype=np.int64), answers, questions)
        return self._rows

    def named(self, query: str) -> list[NDArray[np.int64]]:
        """Return the rows of each speaker that a query names, and of each month and year."""
        if not len(self._names):
            return []
        # Months are known with their capital: "may" is another word.
        words = {name for word in _WORD.findall(query) for name in (word.lower(), word)}
        return [self._names.rows(name) for name in words & self._names.rows_of.keys()]


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _months_and_years(time: object) -> set[str]:
    if not isinstance(time, str):
        return set()
    years = set(_YEAR.findall(time))
    numbers = _ISO_MONTH.findall(time)
    return years | ({_MONTHS[int(n) - 1] for n in numbers} or set(_WORD.findall(time)).intersection(_MONTHS))
