"""What is measured of a chunk under a preference, for the embedded verifier: similarities, shared words, evidence.

A similarity of the whole says little: a preference is short, and a chunk speaks of many things. So what the preference
likes and avoids is looked for by itself, and by the lexicon's kinds of it (`evidence`), and words count by how rare
they are. For the stance, sentences are looked at one by one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property

from epic_core.evidence import COSINES, Sides, by_cosines, by_words
from epic_core.evidence import FEATURES as EVIDENCE
from epic_core.types import FloatArray
from epic_core.words import Words, content_stems, stem, words_of

MEASURES = (
    # Cosines: with the preference, the nearest of its phrases, and of the lexicon's groups.
    "preference", "phrase", "group", "no_group",
    # Words, by their rarity: the share of the preference's, of a phrase's, of its phrases'; the rarest.
    "words", "phrase_words", "phrases_words", "rarest_found",
    # Words of the lexicon: of kinds, of what is taken instead; for the length of the text.
    "kinds", "instead", "density",
    # Words that are there as names only: a film called "The Bees".
    "names_only",
    # What the preference and the text are like.
    "likes", "avoids", "likes_only", "avoids_only", "firmness", "values", "length", "addressed", "listed",
    *EVIDENCE,
)  # fmt: skip
# What tells on whose side it is: the evidence in the chunk, and its cosines in the nearest sentences.
STANCE_MEASURES = (*EVIDENCE, *(f"sentence_{name}" for name in EVIDENCE[:COSINES]))
# So many characters for a word of the lexicon, and a text is full of them.
_DENSE = 30
_VALUES = re.compile(r"priorit|believ|explanation|discussion|approach|polic|perspective|principle|argument", re.I)
_ADDRESSED = re.compile(r"\b(?:you|your)\b", re.I)
_LISTED = re.compile(r"(?:^|\s)[1-9][.)]\s")
# Words without a capital.
_PLAIN = re.compile(r"\b[a-z]\w+")
_NOTHING_SAID = [0.0] * (MEASURES.index("names_only") - MEASURES.index("words") + 1)


class Rarity:
    """How rare words are: idf, from how many of some texts hold each.

    Args:
        counts: Of stems, those that are not rare.
        texts: Of how many texts.
    """

    def __init__(self, counts: dict[str, int], texts: int) -> None:
        self.counts = counts
        self.texts = texts

    def __call__(self, word: str) -> float:
        """The idf of a stem."""
        return math.log((self.texts + 1) / (self.counts.get(word, 0) + 1))


@dataclass(frozen=True)
class Chunk:
    """A text, ready to be measured under preferences.

    Attributes:
        text: The text.
        vector: Its embedding, shape `(d,)`.
        beginnings: What the longer runs of words begin with that are looked for; None: all are.
    """

    text: str
    vector: FloatArray
    beginnings: AbstractSet[str] | None = None

    @cached_property
    def words(self) -> Words:
        """What it says."""
        return words_of(self.text, beginnings=self.beginnings)

    @cached_property
    def lower(self) -> frozenset[str]:
        """The stems of words that are written small somewhere."""
        return frozenset(stem(word) for word in _PLAIN.findall(self.text))

    @cached_property
    def kind(self) -> tuple[float, float, float]:
        """Its length, whether it speaks to somebody, and whether it is a list."""
        length = math.log(1 + len(self.text.split()))
        return length, float(bool(_ADDRESSED.search(self.text))), float(bool(_LISTED.search(self.text)))


@dataclass(frozen=True)
class Wanted:
    """A preference, ready to be looked for in chunks.

    Attributes:
        sides: What it likes and avoids.
        words: Its words and their idf.
        phrases: Of each of its phrases.
        kinds, instead: The lexicon's words of either side.
        every: All of these words.
        beginnings: What those begin with that are runs of several.
        values: Whether it is about values or ways of explaining rather than things.
    """

    sides: Sides
    words: dict[str, float]
    phrases: list[dict[str, float]]
    kinds: frozenset[str]
    instead: frozenset[str]
    every: frozenset[str]
    beginnings: frozenset[str]
    values: float

    @classmethod
    def of(cls, text: str, sides: Sides, rarity: Rarity) -> Wanted:
        """A preference by its text and its sides."""
        liked_kinds, avoided_kinds, liked_instead, avoided_instead = sides.kinds
        words = {word: rarity(word) for word in content_stems(text)}
        phrases = [{word: rarity(word) for word, _ in phrase} for phrase in sides.phrases]
        every = frozenset().union(words, *phrases, *sides.kinds)
        return cls(
            sides=sides,
            kinds=liked_kinds | avoided_kinds,
            instead=liked_instead | avoided_instead,
            words=words,
            phrases=phrases,
            every=every,
            beginnings=frozenset(run.split(" ", 1)[0] for run in every if " " in run),
            values=float(bool(_VALUES.search(text))),
        )

    def among(self, words: Words) -> Words:
        """Of some words, those that are this preference's, or the lexicon's for it."""
        return Words(self.every & words.plain, self.every & words.negated)


def measured(wanted: Wanted, chunk: Chunk, preference: FloatArray) -> list[float]:
    """`MEASURES` of a chunk under a preference.

    Args:
        wanted: The preference.
        chunk: The text.
        preference: E(p), shape `(d,)`.
    """
    sides = wanted.sides
    # Short arrays: plain numbers are faster.
    near: list[float] = (sides.vectors @ chunk.vector).tolist()
    phrases = len(sides.phrases)
    groups = near[phrases:]
    said = wanted.among(chunk.words)
    likes, avoids = bool(sides.aspects.liked), bool(sides.aspects.avoided)
    return [
        float(chunk.vector @ preference),
        max(near[:phrases]),
        max(groups, default=0.0),
        float(not groups),
        *(_by_words(wanted, chunk, said.plain | said.negated) if said.plain or said.negated else _NOTHING_SAID),
        float(likes),
        float(avoids),
        float(likes and not avoids),
        float(avoids and not likes),
        sides.aspects.firmness,
        wanted.values,
        *chunk.kind,
        *by_cosines(sides, near),
        *by_words(sides, said),
    ]


def stance_measured(wanted: Wanted, measures: Sequence[float], vectors: FloatArray) -> list[float]:
    """`STANCE_MEASURES` of a chunk under a preference.

    Args:
        wanted: The preference.
        measures: `MEASURES` of the pair.
        vectors: Embeddings of the chunk's sentences, shape `(n, d)`.
    """
    near: list[float] = (vectors @ wanted.sides.vectors.T).max(axis=0).tolist()
    return [*measures[-len(EVIDENCE) :], *by_cosines(wanted.sides, near)]


def _by_words(wanted: Wanted, chunk: Chunk, said: AbstractSet[str]) -> list[float]:
    """Those of `MEASURES` from "words" to "names_only"."""
    shares = [_share(phrase, said) for phrase in wanted.phrases]
    found = {word: idf for phrase in wanted.phrases for word, idf in phrase.items() if word in said}
    kinds, instead = wanted.kinds & said, wanted.instead & said
    return [
        _share(wanted.words, said),
        max(shares),
        sum(shares) / len(shares),
        max(found.values(), default=0.0),
        math.log1p(len(kinds)),
        math.log1p(len(instead)),
        min(1.0, _DENSE * len(kinds | instead) / len(chunk.text)),
        sum(word not in chunk.lower for word in found) / len(found) if found else 0.0,
    ]


def _share(words: dict[str, float], runs: AbstractSet[str]) -> float:
    """The share of some words, by their rarity, that are among others."""
    there = total = 0.0
    for word, idf in words.items():
        total += idf
        if word in runs:
            there += idf
    return there / total if total > 0.0 else 0.0
