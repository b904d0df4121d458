"""What is measured of a chunk under a preference, for the embedded verifier: similarities, shared words, evidence.

A similarity of the whole says little: a preference is short, and a chunk speaks of many things. So what the preference
likes and avoids is looked for by itself, and by the lexicon's kinds of it (`evidence`), and words count by how rare
they are. What follows and what breaks the preference by its expansion is looked for likewise. For the stance, sentences
are looked at one by one, and whether each denies something counts.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from epic_core.preferences.evidence import COSINES, Sides, by_cosines, by_words
from epic_core.preferences.evidence import FEATURES as EVIDENCE
from epic_core.text.stems import Words, content_stems, stem, words_of
from epic_core.types import FloatArray
from epic_core.types.preferences import Expansion

# By words: how much of a phrase of the expansion is said, or denied.
EXPANDED = ("follows_said", "follows_denied", "breaks_said", "breaks_denied")
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
    "likes", "avoids", "likes_only", "avoids_only", "firmness", "values", "length", "short", "addressed", "listed",
    # Its expansion: the highest cosine with a question, the mean of the two highest with what follows and with what
    # breaks it, the higher of them, how far they are apart; whether there is none, or a borrowed one.
    "question", "follows", "breaks", "expanded", "apart", "no_expansion", "borrowed",
    *EXPANDED,
    *EVIDENCE,
)  # fmt: skip
# What tells on whose side it is: the lean of the whole, the evidence in the chunk, its cosines in the nearest
# sentences, and which way those lean that say something of the preference plainly, and those that deny something of it.
STANCE_MEASURES = (
    "lean",
    *EXPANDED,
    *EVIDENCE,
    *(f"sentence_{name}" for name in EVIDENCE[:COSINES]),
    "sentence_lean", "denying_lean", "sentence_sides", "denying_sides",
)  # fmt: skip
# What tells how likely the stance is right that is the likelier one.
SURE_MEASURES = ("lean", "lean_of_note", "lean_of_kept", "words_said", "relevance", "expanded", "phrase")
# So many characters for a word of the lexicon, and a text is full of them.
_DENSE = 30
_VALUES = re.compile(r"priorit|believ|explanation|discussion|approach|polic|perspective|principle|argument", re.I)
_ADDRESSED = re.compile(r"\b(?:you|your)\b", re.I)
_LISTED = re.compile(r"(?:^|\s)[1-9][.)]\s")
# Words without a capital.
_PLAIN = re.compile(r"\b[a-z]\w+")
_NOTHING_SAID = [0.0] * (MEASURES.index("names_only") - MEASURES.index("words") + 1)
_FOLLOWS, _BREAKS = MEASURES.index("follows"), MEASURES.index("breaks")
_SHORT, _EXPANDED, _PHRASE = (MEASURES.index(name) for name in ("short", "expanded", "phrase"))
_SAID = [
    MEASURES.index(name)
    for name in (*EXPANDED, *(f"{side}_{how}" for side in ("liked", "avoided") for how in ("said", "denied")))
]
# Odds beyond this say nothing more.
_SUREST = 4.0
# A text of no more words than this is a note; but not a stub with its title: "The Bees. The Bees may refer to:".
_NOTE = 30
_TITLED = re.compile(r"(?:(?:The|An?) )?(\w+)[^.\n]{0,60}[.\n]\s*(?:(?:The|An?) )?\1\b", re.I)
# A phrase of the expansion says something from so much idf on; what is said of it counts in full then.
_TELLING = 8.0
# How much more a near sentence counts than a far one.
_SHARPNESS = 12.0


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
    def kind(self) -> tuple[float, float, float, float]:
        """Its length, whether it is a note, whether it speaks to somebody, and whether it is a list."""
        words = len(self.text.split())
        addressed, listed = _ADDRESSED.search(self.text), _LISTED.search(self.text)
        note = words <= _NOTE and not _TITLED.match(self.text)
        return math.log(1 + words), float(note), float(bool(addressed)), float(bool(listed))


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
        deniable: Those of `every` that no phrase denies itself, as "gluten-free food" does gluten; with their idf.
        told: For each word of its expansion, the phrases that it is in, by number, and the share of each that it is.
        vectors: Of all that it is looked for by: those of `sides`, then of its questions, then of the expansion.
    """

    sides: Sides
    words: dict[str, float]
    phrases: list[dict[str, float]]
    kinds: frozenset[str]
    instead: frozenset[str]
    every: frozenset[str]
    beginnings: frozenset[str]
    values: float
    deniable: dict[str, float]
    told: dict[str, list[tuple[int, float]]]
    vectors: FloatArray

    @classmethod
    def of(cls, text: str, sides: Sides, rarity: Rarity, expansion: Expansion | None = None) -> Wanted:
        """Return a preference by its text, its sides, and the expansion that those are made of."""
        liked_kinds, avoided_kinds, liked_instead, avoided_instead = sides.kinds
        words = {word: rarity(word) for word in content_stems(text)}
        phrases = [{word: rarity(word) for word, _ in phrase} for phrase in sides.phrases]
        told = _told(expansion, rarity)
        denied = {word for phrase in sides.phrases for word, negates in phrase if negates}
        every = frozenset().union(words, told, *phrases, *sides.kinds)
        return cls(
            sides=sides,
            kinds=liked_kinds | avoided_kinds,
            instead=liked_instead | avoided_instead,
            words=words,
            phrases=phrases,
            every=every,
            beginnings=frozenset(run.split(" ", 1)[0] for run in every if " " in run),
            values=float(bool(_VALUES.search(text))),
            deniable={word: rarity(word) for word in every if word not in denied},
            told=told,
            vectors=np.concatenate([sides.vectors, sides.questions, sides.expanded]),
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
    every: list[float] = (wanted.vectors @ chunk.vector).tolist()
    near = every[: len(sides.vectors)]
    phrases = len(sides.phrases)
    groups = near[phrases:]
    said = wanted.among(chunk.words)
    likes, avoids = bool(sides.aspects.liked), bool(sides.aspects.avoided)
    return [
        float(chunk.vector @ preference),
        max(near[:phrases], default=0.0),
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
        *_by_expansion(sides, every),
        *_told_by(wanted, said),
        *by_cosines(sides, near),
        *by_words(sides, said),
    ]


def stance_measured(
    wanted: Wanted, measures: Sequence[float], vectors: FloatArray, said: Sequence[Words]
) -> list[float]:
    """Return `STANCE_MEASURES` of a chunk under a preference.

    Args:
        wanted: The preference.
        measures: `MEASURES` of the pair.
        vectors: Embeddings of the chunk's sentences, shape `(n, d)`.
        said: The words of each sentence.
    """
    sides = wanted.sides
    near: list[list[float]] = (vectors @ wanted.vectors.T).tolist()
    likes, phrases, known = len(sides.aspects.liked), len(sides.phrases), len(sides.vectors)
    first = known + len(sides.questions)
    middle = first + sides.follows
    total = 0.0
    # Of sentences that say it plainly, and of those that deny something of it: leans, then sides.
    leans, between = [0.0, 0.0], [0.0, 0.0]
    for row, words in zip(near, said, strict=True):
        follows, breaks = _highest_two(row[first:middle]), _highest_two(row[middle:])
        liked, avoided = max(row[:likes], default=0.0), max(row[likes:phrases], default=0.0)
        weight = math.exp(_SHARPNESS * max(follows, breaks, liked, avoided))
        denies = _denies(wanted.deniable, words)
        total += weight
        leans[denies] += weight * (follows - breaks)
        between[denies] += weight * (liked - avoided)
    nearest = [max(row[place] for row in near) for place in range(known)]
    return [
        measures[_FOLLOWS] - measures[_BREAKS],
        *measures[-len(EVIDENCE) - len(EXPANDED) :],
        *by_cosines(sides, nearest),
        *(lean / total for lean in leans),
        *(side / total for side in between),
    ]


def _denies(deniable: dict[str, float], words: Words) -> bool:
    """Return whether the rarest of some words is denied: "no casino in the hotel", not "unlike other hotels"."""
    if not words.negated:
        return False
    negated = max((deniable[word] for word in deniable.keys() & words.negated), default=0.0)
    return negated > 0.0 and negated >= max((deniable[word] for word in deniable.keys() & words.plain), default=0.0)


def sure_measured(relevance: float, stance: float, measures: Sequence[float]) -> list[float]:
    """Return `SURE_MEASURES` of a pair.

    Args:
        relevance: The log-odds that it is kept.
        stance: Those that it supports its preference.
        measures: `MEASURES` of the pair.
    """
    lean = min(_SUREST, abs(stance))
    likely = 1.0 / (1.0 + math.exp(-max(-_SUREST * 5, relevance)))
    said = max(measures[place] for place in _SAID)
    return [lean, lean * measures[_SHORT], lean * likely, lean * said, likely, measures[_EXPANDED], measures[_PHRASE]]


def _by_expansion(sides: Sides, near: Sequence[float]) -> list[float]:
    """Return those of `MEASURES` from "question" to "borrowed"."""
    first = len(sides.vectors) + len(sides.questions)
    middle = first + sides.follows
    question = max(near[len(sides.vectors) : first], default=0.0)
    if not len(sides.expanded):
        return [question, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0]
    follows, breaks = _highest_two(near[first:middle]), _highest_two(near[middle:])
    return [
        question, follows, breaks, max(follows, breaks), abs(follows - breaks), 0.0, float(sides.borrowed)
    ]  # fmt: skip


def _highest_two(cosines: Sequence[float]) -> float:
    """Return the mean of the two highest, as `evidence.highest_two` does of rows."""
    if len(cosines) < 2:
        return sum(cosines)
    return sum(sorted(cosines)[-2:]) / 2.0


def _told(expansion: Expansion | None, rarity: Rarity) -> dict[str, list[tuple[int, float]]]:
    """Return the words of an expansion with the phrases that they are in, those that break it by numbers below 0."""
    found: dict[str, list[tuple[int, float]]] = {}
    if expansion is None:
        return found
    for sign, phrases in ((1, expansion.follows), (-1, expansion.breaks)):
        for number, phrase in enumerate(phrases, start=1):
            # A phrase that denies something itself would have to be read twice.
            words = words_of(phrase)
            plain = {word: rarity(word) for word in content_stems(phrase) if word not in words.negated}
            total = max(_TELLING, sum(plain.values()))
            for word, idf in plain.items():
                found.setdefault(word, []).append((sign * number, idf / total))
    return found


def _told_by(wanted: Wanted, said: Words) -> list[float]:
    """Return `EXPANDED`: the largest share of a phrase that follows, then of one that breaks, said and denied."""
    values = []
    for words in said:
        shares: dict[int, float] = {}
        for word in words:
            for number, share in wanted.told.get(word, ()):
                shares[number] = shares.get(number, 0.0) + share
        values.append(max((share for number, share in shares.items() if number > 0), default=0.0))
        values.append(max((share for number, share in shares.items() if number < 0), default=0.0))
    follows, breaks, follows_denied, breaks_denied = values
    return [follows, follows_denied, breaks, breaks_denied]


def _by_words(wanted: Wanted, chunk: Chunk, said: AbstractSet[str]) -> list[float]:
    """Those of `MEASURES` from "words" to "names_only"."""
    shares = [_share(phrase, said) for phrase in wanted.phrases]
    found = {word: idf for phrase in wanted.phrases for word, idf in phrase.items() if word in said}
    kinds, instead = wanted.kinds & said, wanted.instead & said
    return [
        _share(wanted.words, said),
        max(shares, default=0.0),
        sum(shares) / max(1, len(shares)),
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
