"""What is measured of a chunk under a preference, for the embedded verifier: similarities, shared words, evidence.

A similarity of the whole says little: a preference is short, and a chunk speaks of many things. So sentences are looked
at one by one; words count by how rare they are; what the preference likes and avoids is looked for by itself, and by
the lexicon's kinds of it (`evidence`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property

from epic_core.evidence import FEATURES as EVIDENCE
from epic_core.evidence import Sides, by_words
from epic_core.types import FloatArray
from epic_core.words import Words, content_stems, stem, stems, words_of

MEASURES = (
    # Cosines: the chunk or its nearest sentences with the preference, its phrases, and the lexicon's groups.
    "chunk", "sentence", "two_sentences", "chunk_phrase", "sentence_phrase", "sentence_phrases", "chunk_group",
    "sentence_group", "no_group",
    # Words, by their rarity: the share of the preference's, of its phrases', of a phrase's in one sentence.
    "words", "phrase_words", "phrases_words", "sentence_words", "rarest_found",
    # Words of the lexicon: of kinds, of what is taken instead; in one sentence; the share of sentences with any; for
    # the length of the text.
    "kinds", "instead", "sentence_kinds", "sentences_hit", "density",
    # Words that are there as names only: a film called "The Bees".
    "names_only",
    # What the preference and the text are like.
    "likes", "avoids", "likes_only", "avoids_only", "firmness", "values", "length", "addressed", "listed",
    *(f"chunk_{name}" for name in EVIDENCE),
    *(f"sentence_{name}" for name in EVIDENCE[:6]),
)  # fmt: skip
# So many characters for a word of the lexicon, and a text is full of them.
_DENSE = 30
_VALUES = re.compile(r"priorit|believ|explanation|discussion|approach|polic|perspective|principle|argument", re.I)
_ADDRESSED = re.compile(r"\b(?:you|your)\b", re.I)
_LISTED = re.compile(r"(?:^|\s)[1-9][.)]\s")
# Words without a capital.

_PLAIN = re.compile(r"\b[a-z]\w+")


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
        text, sentences: The text and its sentences.
        vector, vectors: Their embeddings, shapes `(d,)` and `(len(sentences), d)`.
    """

    text: str
    sentences: Sequence[str]
    vector: FloatArray
    vectors: FloatArray

    @cached_property
    def words(self) -> Words:
        """Of the whole text."""
        return words_of(self.text)

    @cached_property
    def runs(self) -> frozenset[str]:
        """The same, negated or not."""
        return self.words.plain | self.words.negated if self.words.negated else self.words.plain

    @cached_property
    def sentence_stems(self) -> list[str]:
        """The stems of each sentence, with a space around each."""
        return [f" {' '.join(stems(sentence))} " for sentence in self.sentences]

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
        values: Whether it is about values or ways of explaining rather than things.
    """

    sides: Sides
    words: dict[str, float]
    phrases: list[dict[str, float]]
    kinds: frozenset[str]
    instead: frozenset[str]
    values: float

    @classmethod
    def of(cls, text: str, sides: Sides, rarity: Rarity) -> Wanted:
        """A preference by its text and its sides."""
        liked_kinds, avoided_kinds, liked_instead, avoided_instead = sides.kinds
        return cls(
            sides=sides,
            kinds=liked_kinds | avoided_kinds,
            instead=liked_instead | avoided_instead,
            words={word: rarity(word) for word in content_stems(text)},
            phrases=[{word: rarity(word) for word, _ in phrase} for phrase in sides.phrases],
            values=float(bool(_VALUES.search(text))),
        )


def measured(wanted: Wanted, chunk: Chunk, preference: FloatArray) -> list[float]:
    """`MEASURES` of a chunk under a preference.

    Args:
        wanted: The preference.
        chunk: The text.
        preference: E(p), shape `(d,)`.
    """
    sides = wanted.sides
    near, nears = sides.vectors @ chunk.vector, chunk.vectors @ sides.vectors.T
    # Short arrays: plain numbers are faster.
    first, *others = sorted((chunk.vectors @ preference).tolist(), reverse=True)
    chunk_near: list[float] = near.tolist()
    sentence_near: list[float] = nears.max(axis=0).tolist()
    phrases, liked = len(sides.phrases), len(sides.aspects.liked)
    has_groups = len(chunk_near) > phrases
    runs = chunk.runs
    shares = [_share(phrase, runs) for phrase in wanted.phrases]
    found = {word: idf for phrase in wanted.phrases for word, idf in phrase.items() if word in runs}
    kinds, instead = wanted.kinds & runs, wanted.instead & runs
    every = kinds | instead
    # What the text does not have, no sentence has.
    sentence_share, by_sentence = 0.0, [0]
    if found:
        sentence_share = max(
            _share(phrase, {word for word in phrase if word in found and f" {word} " in said})
            for said in chunk.sentence_stems
            for phrase in wanted.phrases
        )
    if every:
        by_sentence = [sum(f" {run} " in said for run in every) for said in chunk.sentence_stems]
    likes, avoids = bool(sides.aspects.liked), bool(sides.aspects.avoided)
    values: list[float] = [
        float(chunk.vector @ preference),
        first,
        (first + others[0]) / 2.0 if others else first,
        max(chunk_near[:phrases]),
        max(sentence_near[:phrases]),
        sum(sentence_near[:phrases]) / phrases,
        max(chunk_near[phrases:]) if has_groups else 0.0,
        max(sentence_near[phrases:]) if has_groups else 0.0,
        float(not has_groups),
        _share(wanted.words, runs),
        max(shares),
        sum(shares) / len(shares),
        sentence_share,
        max(found.values(), default=0.0),
        math.log1p(len(kinds)),
        math.log1p(len(instead)),
        math.log1p(max(by_sentence)),
        sum(count > 0 for count in by_sentence) / len(by_sentence),
        min(1.0, _DENSE * len(every) / len(chunk.text)),
        sum(word not in chunk.lower for word in found) / len(found) if found else 0.0,
        float(likes),
        float(avoids),
        float(likes and not avoids),
        float(avoids and not likes),
        sides.aspects.firmness,
        wanted.values,
        *chunk.kind,
    ]
    # The evidence, in the chunk and then in its nearest sentences.
    for cosines in (chunk_near, sentence_near):
        values.append(max(cosines[:liked], default=0.0))
        values.append(max(cosines[liked:phrases], default=0.0))
        values += [cosines[row] if row >= 0 else 0.0 for row in sides.group_rows]
        if cosines is chunk_near:
            values += by_words(sides, chunk.words)
    return values


def _share(words: dict[str, float], runs: AbstractSet[str]) -> float:
    """The share of some words, by their rarity, that are among others."""
    there = total = 0.0
    for word, idf in words.items():
        total += idf
        if word in runs:
            there += idf
    return there / total if total > 0.0 else 0.0
