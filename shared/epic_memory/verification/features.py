"""Features of a chunk under a preference, for the embedded verifier: similarities, shared words, evidence.

The similarity of the whole texts tells little: a preference is short, and a chunk has many topics. So liked and avoided
phrases are looked for separately, as are the lexicon's kinds of them (`preferences.evidence`), and words count by their
rarity. The phrases that follow or break the preference by its expansion are looked for in the same way.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from epic_memory.preferences.evidence import FEATURES as EVIDENCE
from epic_memory.preferences.evidence import AspectEmbeddings, broken_by, by_cosines, by_words, highest_two
from epic_memory.text.stems import Words, content_stems, stem, stems, words_of
from epic_memory.types import FloatArray
from epic_memory.types.preferences import Expansion
from epic_memory.types.weights import StageWeights

# By words: the share of an expansion's phrase that is stated, or denied.
EXPANDED = ("follows_said", "follows_denied", "breaks_said", "breaks_denied")
MEASURES = (
    # Cosines with the preference, with the nearest of its phrases, and with the lexicon's groups.
    "preference", "phrase", "group", "no_group",
    # Words, weighted by rarity: the share of the preference's, of the best phrase's, of all phrases' on average.
    "words", "phrase_words", "phrases_words",
    # Words of the lexicon: kinds, and these and alternatives for the length of the text.
    "kinds", "density",
    # Words that occur only as names, and not so in the preference: a film called "The Bees".
    "names_only",
    # Properties of the preference and of the text.
    "firmness", "length", "short",
    # The expansion: the means of the two highest cosines with what follows and with what breaks the preference.
    "follows", "breaks",
    *EXPANDED,
    *EVIDENCE,
    # Of a text that denies what the preference is about: by how much what follows it is nearer than what breaks it, and
    # what is liked than what is avoided; of others 0.
    "denying_lean", "denying_sides",
)  # fmt: skip
_STANCE = MEASURES.index("follows")
# Measures for the stance: of the expansion, and the evidence.
STANCE_MEASURES = MEASURES[_STANCE:]
# Measures for the chance that the likelier stance is right; the last one is 0 of what is no note.
SURE_MEASURES = ("lean", "words_said", "relevance", "expanded", "phrase", "beside")
# Words without a capital, or with the one that begins a sentence: "Smoking is allowed", but not "Slow Ferry".
_PLAIN = re.compile(r"\b[a-z]\w+|(?:^|(?<=[.!?:\n] ))[A-Z]\w+(?![\w'’-]*\s+[A-Z])", re.M)
_WORD = re.compile(r"[^\W_]+")
_PHRASE, _FOLLOWS, _BREAKS = (MEASURES.index(name) for name in ("phrase", "follows", "breaks"))
_SAID = [
    MEASURES.index(name)
    for name in (*EXPANDED, *(f"{side}_{how}" for side in ("liked", "avoided") for how in ("said", "denied")))
]
_TITLED = re.compile(r"(?:(?:The|An?) )?(\w+)[^.\n]{0,60}[.\n]\s*(?:(?:The|An?) )?\1\b", re.I)


@dataclass(frozen=True, kw_only=True)
class VerificationWeights(StageWeights):
    """Numbers in the measures of a pair, and of what is made of the fitted chances (`verifier.json`)."""

    dense: int  # with one word of the lexicon for this many characters, the density of a text is 1
    surest: float  # log-odds of the stance from which more are no further evidence
    note: int  # a text of at most this many words is a note, unless it is a stub: "The Bees. The Bees may refer to:"
    telling: float  # Idf at which a phrase of the expansion counts fully; phrases with less count in proportion


@dataclass(frozen=True, eq=False)
class Rarity:
    """The rarity of words: idf, from the number of texts that hold each stem, and the number of all texts."""

    counts: dict[str, int]
    texts: int

    def __call__(self, word: str) -> float:
        """Return the idf of a stem."""
        return math.log((self.texts + 1) / (self.counts.get(word, 0) + 1))


def lower_stems(text: str) -> frozenset[str]:
    """Return the stems of the words of a text that occur as other than names: in lower case, or at its beginning."""
    return frozenset(stem(word.lower()) for word in _PLAIN.findall(text))


@dataclass(frozen=True)
class Chunk:
    """A text, ready to be measured under preferences.

    Attributes:
        text: The text.
        vector: Its embedding, shape `(d,)`.
        beginnings: The stems with which the longer runs that matter begin; None: all.
    """

    text: str
    vector: FloatArray
    beginnings: AbstractSet[str] | None = None

    @cached_property
    def words(self) -> Words:
        """Its plain and negated runs of stems."""
        return words_of(self.text, beginnings=self.beginnings)

    @cached_property
    def lower(self) -> frozenset[str]:
        """The stems of words that occur as other than names."""
        return lower_stems(self.text)

    @cached_property
    def note(self) -> bool:
        """Return whether it is a note."""
        return len(self.text.split()) <= VerificationWeights.shipped().note and not _TITLED.match(self.text)

    @cached_property
    def length(self) -> float:
        """Logarithm of its number of words."""
        return math.log(1 + len(self.text.split()))


@dataclass(frozen=True)
class Wanted:
    """A preference, ready to be looked for in chunks.

    Attributes:
        sides: Its phrases and their embeddings.
        words: The stems of its text and their idf.
        phrases: The stems of each of its phrases and their idf.
        every: All of these words, the lexicon's, and those of the expansion.
        beginnings: The first stems of those that are runs of several.
        own: The stems of its text and its phrases.
        names: Those that are names in its text, too.
        broken: What its own expansion says breaks it, as runs of stems (`evidence.broken_by`).
        deniable: The words of `every` that no phrase negates itself, as "gluten-free food" does gluten, with their idf.
        holding: For each word of the expansion, the phrases that hold it, by number, and its share of each. The numbers
            of phrases that break the preference are negative.
    """

    sides: AspectEmbeddings
    words: dict[str, float]
    phrases: list[dict[str, float]]
    every: frozenset[str]
    beginnings: frozenset[str]
    own: frozenset[str]
    names: frozenset[str]
    broken: frozenset[str]
    deniable: dict[str, float]
    holding: dict[str, list[tuple[int, float]]]

    @classmethod
    def of(cls, text: str, sides: AspectEmbeddings, rarity: Rarity, expansion: Expansion | None = None) -> Wanted:
        """Return the preference with this text, these sides, and the expansion that the sides are made of."""
        words = {word: rarity(word) for word in content_stems(text)}
        phrases = [{word: rarity(word) for word, _ in phrase} for phrase in sides.phrases]
        holding = _phrases_holding(expansion, rarity)
        denied = {word for phrase in sides.phrases for word, negates in phrase if negates}
        broken = broken_by(expansion)
        every = frozenset().union(words, holding, broken, *phrases, *sides.kinds)
        own = frozenset().union(words, *phrases)
        return cls(
            sides=sides,
            words=words,
            phrases=phrases,
            every=every,
            beginnings=frozenset(run.split(" ", 1)[0] for run in every if " " in run),
            own=own,
            names=own - lower_stems(text),
            broken=broken,
            deniable={word: rarity(word) for word in every if word not in denied},
            holding=holding,
        )

    def among(self, words: Words) -> Words:
        """Return those of the words that belong to this preference, or to the lexicon's words for it."""
        return Words(self.every & words.plain, self.every & words.negated)

    def denies(self, words: Words) -> bool:
        """Tell whether a text denies the rarest of the words: "no casino in the hotel", not "unlike other hotels"."""
        negated = max((self.deniable[word] for word in self.deniable.keys() & words.negated), default=0.0)
        plain = max((self.deniable[word] for word in self.deniable.keys() & words.plain), default=0.0)
        return negated > 0.0 and negated >= plain

    def is_more(self, sentence: str) -> bool:
        """Tell whether a sentence says more than what it is about; a question or "Casino hotels." does not."""
        return not sentence.endswith("?") and not self.own.issuperset(stems(sentence))

    def rest_of(self, chunk: Chunk) -> str:
        """Return a text without the preference's own word, if it has one alone, denies it not, and has more to say."""
        words = [(word, stem(word.lower())) for word in _WORD.findall(chunk.text)]
        if len({one for _, one in words} & self.own) > 1 or self.own & chunk.words.negated:
            return chunk.text
        rest = " ".join(word for word, one in words if one not in self.own)
        return rest if content_stems(rest) else chunk.text

    def beside(self, rest: FloatArray) -> float:
        """Return how near the rest of a text is to what the preference is about, by its embedding, shape `(d,)`.

        A text may share a word with a preference and speak of something else: the coffee table has a scratch.
        """
        return float(highest_two(self.sides.keys @ rest))


def measured(wanted: Wanted, chunks: Sequence[Chunk], preferences: Sequence[FloatArray]) -> FloatArray:
    """Return `MEASURES` of chunks under one preference, with E(p) for each of them; shape `(n, len(MEASURES))`."""
    sides = wanted.sides
    phrases, own = len(sides.phrases), len(sides.vectors)
    near = np.stack([sides.keys @ chunk.vector for chunk in chunks]).astype(np.float64)
    phrase = near[:, :phrases].max(axis=1, initial=-1.0) if phrases else np.zeros(len(chunks))
    group = near[:, phrases:own].max(axis=1) if own > phrases else np.zeros(len(chunks))
    follows = highest_two(near[:, own : own + sides.follows])
    breaks = highest_two(near[:, own + sides.follows :])
    by_side = by_cosines(sides, near[:, :own])
    measures = []
    for row, (chunk, preference) in enumerate(zip(chunks, preferences, strict=True)):
        words = wanted.among(chunk.words)
        denies = wanted.denies(words)
        measures.append(
            [
                chunk.vector @ preference,
                phrase[row],
                group[row],
                own == phrases,
                *_by_words(wanted, chunk, words.plain | words.negated),
                sides.aspects.firmness,
                chunk.length,
                chunk.note,
                follows[row],
                breaks[row],
                *_shares_of_phrases(wanted, words),
                *by_side[row],
                *by_words(sides, words),
                (follows[row] - breaks[row]) * denies,
                (by_side[row, 0] - by_side[row, 1]) * denies,
            ]
        )
    return np.array(measures, dtype=np.float32)


def stance_measured(measures: FloatArray) -> FloatArray:
    """Return `STANCE_MEASURES` of pairs, shape `(..., s)`, from their `MEASURES`."""
    return measures[..., _STANCE:]


def sure_measured(relevance: float, stance: float, measures: Sequence[float], beside: float) -> list[float]:
    """Return `SURE_MEASURES` of a pair.

    Args:
        relevance: The log-odds that it is kept.
        stance: The log-odds that it supports.
        measures: Its `MEASURES`.
        beside: What `Wanted.beside` returns of a note; 0 of other texts.
    """
    weights = VerificationWeights.shipped()
    lean = min(weights.surest, abs(stance))
    likely = 1.0 / (1.0 + math.exp(-max(-weights.surest * 5, relevance)))
    stated, expanded = max(measures[place] for place in _SAID), max(measures[_FOLLOWS], measures[_BREAKS])
    return [lean, lean * stated, likely, expanded, measures[_PHRASE], beside]


def _phrases_holding(expansion: Expansion | None, rarity: Rarity) -> dict[str, list[tuple[int, float]]]:
    """Return the words of an expansion with the phrases that hold them; phrases that break it have negative numbers."""
    found: dict[str, list[tuple[int, float]]] = {}
    if expansion is None:
        return found
    for sign, phrases in ((1, expansion.follows), (-1, expansion.breaks)):
        for number, phrase in enumerate(phrases, start=1):
            # Words that a phrase negates itself are left out: their meaning depends on both negations.
            words = words_of(phrase)
            plain = {word: rarity(word) for word in content_stems(phrase) if word not in words.negated}
            total = max(VerificationWeights.shipped().telling, sum(plain.values()))
            for word, idf in plain.items():
                found.setdefault(word, []).append((sign * number, idf / total))
    return found


def _shares_of_phrases(wanted: Wanted, words: Words) -> list[float]:
    """Return `EXPANDED`: the largest shares of a phrase that follows, then of one that breaks, stated and denied."""
    values = []
    for runs in words:
        shares: dict[int, float] = {}
        for word in runs:
            for number, share in wanted.holding.get(word, ()):
                shares[number] = shares.get(number, 0.0) + share
        values.append(max((share for number, share in shares.items() if number > 0), default=0.0))
        values.append(max((share for number, share in shares.items() if number < 0), default=0.0))
    follows, breaks, follows_denied, breaks_denied = values
    return [follows, follows_denied, breaks, breaks_denied]


def _by_words(wanted: Wanted, chunk: Chunk, words: AbstractSet[str]) -> list[float]:
    """Return the part of `MEASURES` from "words" to "names_only"."""
    if not words:
        return [0.0] * 6
    shares = [_share(phrase, words) for phrase in wanted.phrases]
    found = {word for phrase in wanted.phrases for word in phrase if word in words}
    liked_kinds, avoided_kinds, liked_instead, avoided_instead = wanted.sides.kinds
    kinds, instead = words & (liked_kinds | avoided_kinds), words & (liked_instead | avoided_instead)
    return [
        _share(wanted.words, words),
        max(shares, default=0.0),
        sum(shares) / max(1, len(shares)),
        math.log1p(len(kinds)),
        min(1.0, VerificationWeights.shipped().dense * len(kinds | instead) / len(chunk.text)),
        sum(word not in chunk.lower | wanted.names for word in found) / len(found) if found else 0.0,
    ]


def _share(words: dict[str, float], runs: AbstractSet[str]) -> float:
    """Return the share of the words, weighted by rarity, that are among the runs."""
    there = total = 0.0
    for word, idf in words.items():
        total += idf
        if word in runs:
            there += idf
    return there / total if total > 0.0 else 0.0
