"""Lexicon: the words by which everyday concepts show in a text, and the words for their alternatives.

A word embedding places *steak* near *meat*; it does not tell that someone who avoids meat would take tofu. The lexicon
holds both for some two thousand concepts of everyday life: *kinds*, the words that show a concept without naming it,
and *instead*, what one takes in its place. For a diet or a condition ("vegan") the kinds are what suits it, and instead
is what it rules out.

`data/lexicon.tsv.bz2` has a line for each concept: names, kinds and instead, separated by tabs; each is a list
separated by semicolons. `shared/tools/make_lexicon.py` makes it.
"""

from __future__ import annotations

import bz2
from collections.abc import Iterable
from functools import lru_cache
from importlib.resources import files
from typing import NamedTuple

from epic_memory.text.phrases import sections
from epic_memory.text.stems import stems

# Stems that negate the words after them, and stems that negate the words before them.
_BEFORE, _AFTER = frozenset({"non", "no", "without"}), frozenset({"fre", "free"})
_OPPOSITE: dict[str, str] = {}
for _pair in sections("opposites")["opposites"]:
    _one, _other = _pair.split()
    _OPPOSITE.setdefault(_one, _other)
    _OPPOSITE.setdefault(_other, _one)


class Concept(NamedTuple):
    """One line of the lexicon."""

    names: tuple[str, ...]
    kinds: tuple[str, ...]
    instead: tuple[str, ...]


class Lexicon:
    """A finder of concepts in phrases.

    Args:
        concepts: Their names are matched by stems; the longest name counts.
    """

    def __init__(self, concepts: Iterable[Concept]) -> None:
        self._by_first: dict[str, list[tuple[tuple[str, ...], Concept]]] = {}
        for concept in concepts:
            for name in concept.names:
                key = tuple(stems(name))
                if key:
                    self._by_first.setdefault(key[0], []).append((key, concept))
        for known in self._by_first.values():
            known.sort(key=lambda entry: -len(entry[0]))

    def concepts(self, phrase: str) -> list[Concept]:
        """Return the concepts that a phrase names, in order; no word belongs to two.

        A concept that the phrase negates ("meat-free", "non-alcoholic") is returned turned around: its instead are the
        kinds.
        """
        words = tuple(stems(phrase))
        found, place = [], 0
        while place < len(words):
            step = 1
            for key, concept in self._by_first.get(words[place], ()):
                step = len(key)
                if words[place : place + step] == key:
                    before, after = words[max(0, place - 1) : place], words[place + step : place + step + 1]
                    denied = bool(_BEFORE.intersection(before) or _AFTER.intersection(after))
                    found.append(Concept(concept.names, concept.instead, concept.kinds) if denied else concept)
                    break
                step = 1
            place += step
        return found


def opposites(phrases: Iterable[str]) -> list[str]:
    """Return phrases with the opposite meaning, where a single word decides it: "low noise" for "high noise"."""
    found = []
    for phrase in phrases:
        words = phrase.lower().split()
        for place, word in enumerate(words):
            if word in _OPPOSITE:
                found.append(" ".join([*words[:place], _OPPOSITE[word], *words[place + 1 :]]))
                break
    return found


@lru_cache(maxsize=1)
def default_lexicon() -> Lexicon:
    """Return the bundled lexicon, loaded once for each process."""
    text = bz2.decompress((files("epic_memory") / "data" / "lexicon.tsv.bz2").read_bytes()).decode()
    return Lexicon(
        Concept(*(tuple(part for part in column.split(";") if part) for column in line.split("\t")))
        for line in text.splitlines()
    )
