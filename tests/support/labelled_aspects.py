"""How well the aspect parser reads preferences that people labelled.

A phrase is matched if it and one of the other list share enough words: a token F1 of at least 0.5, articles and the
like left out. Precision is the share of the parser's phrases that labels match, recall the share of labels that its
phrases match, each on the right side; a scope is one phrase.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from epic_memory.preferences.parser import parse_aspects
from epic_memory.types.preferences import FIRMNESS, Aspects

LABELLED = Path(__file__).resolve().parents[2] / "shared" / "tools" / "written" / "preferences.jsonl"
ENOUGH = 0.5
_STOP = frozenset((
    "a", "an", "the", "of", "or", "and", "to", "in", "for", "with", "on", "at", "by", "that", "which", "is", "are",
    "be", "any", "my", "i", "no",
))  # fmt: skip
_WORD = re.compile(r"\w+")


@dataclass
class Count:
    """How many phrases were read and labelled, and how many of each are matched."""

    read: int = 0
    read_right: int = 0
    labelled: int = 0
    labelled_found: int = 0

    def add(self, read: Sequence[str], labelled: Sequence[str]) -> bool:
        """Count a side of a sentence; whether all of it is right."""
        right = sum(any(matches(one, other) for other in labelled) for one in read)
        found = sum(any(matches(one, other) for other in read) for one in labelled)
        self.read += len(read)
        self.read_right += right
        self.labelled += len(labelled)
        self.labelled_found += found
        return right == len(read) and found == len(labelled)

    @property
    def precision(self) -> float:
        """The share of what was read that is right."""
        return self.read_right / max(1, self.read)

    @property
    def recall(self) -> float:
        """The share of what was labelled that was read."""
        return self.labelled_found / max(1, self.labelled)


@dataclass
class Measured:
    """Of some sentences: phrases of both sides and of each, scopes, and shares of sentences."""

    sentences: int = 0
    both: Count = field(default_factory=Count)
    sides: dict[str, Count] = field(default_factory=lambda: {"liked": Count(), "avoided": Count()})
    scope: Count = field(default_factory=Count)
    sides_right: int = 0
    firmness_right: int = 0
    all_right: int = 0

    def add(self, record: dict[str, Any], read: Aspects) -> bool:
        """Count a sentence; whether everything is right."""
        self.sentences += 1
        sides = True
        for name, count in self.sides.items():
            self.both.add(getattr(read, name), record[name])
            sides &= count.add(getattr(read, name), record[name])
        firmness = read.firmness == FIRMNESS[record["firmness"]]
        scope = self.scope.add(*([one] if one else [] for one in (read.scope, record["scope"])))
        self.sides_right += sides
        self.firmness_right += firmness
        self.all_right += sides and firmness and scope
        return sides and firmness and scope


def matches(one: str, other: str) -> bool:
    """Whether two phrases share enough words."""
    first, second = _words(one), _words(other)
    return 2 * len(first & second) >= ENOUGH * (len(first) + len(second)) > 0


def labelled() -> list[dict[str, Any]]:
    """The labelled sentences."""
    with LABELLED.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def measure(records: Sequence[dict[str, Any]]) -> Measured:
    """The parser on some of them."""
    measured = Measured()
    for record in records:
        measured.add(record, parse_aspects(record["preference"]))
    return measured


def _words(phrase: str) -> set[str]:
    words = set(_WORD.findall(phrase.lower()))
    return words - _STOP or words
