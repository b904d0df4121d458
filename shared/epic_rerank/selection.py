"""Selection that stops: which of a search's hits a question needs (EMG-RAG, section 4.3).

One hit after the other, in the order of the search, is taken or left by a logistic regression on how near it is and on
what it adds to those taken before, or on what leads from them to it: words, and names above all, that the question does
not have. The paper's policy is trained on by reinforcement; measured on questions never seen, that was no better, so
the regression, its warm start, is the policy (`tests/benchmarks/bench_selection.py`).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from epic_memory.types import FloatArray, Hit, Preference
from epic_memory.types.results import Ranking
from epic_memory.types.weights import StageWeights
from epic_rerank.features import word_set
from epic_rerank.policy import Floats
from epic_rerank.reranker import LearnedReranker

NAMES = (
    "score",  # of the search
    "share of best",  # of the best score
    "behind previous",  # how far behind the candidate before
    "rank",  # logarithm of the rank, from 0
    "words",  # share of the query's content words that it has
    "new words",  # and of those that no hit taken before has
    "covered",  # share of the query's content words that the hits taken have
    "redundant",  # the largest cosine with a hit that is taken
    "taken",  # logarithm of 1 + the number of hits taken
    "linked",  # logarithm of 1 + how rare, among the hits, the words are that it shares with a hit taken, not the query
    "named",  # how rare the rarest name among these is
)
"""The names of the features, in order."""


@dataclass(frozen=True, kw_only=True)
class Policy(StageWeights):
    """A logistic regression that takes a hit or leaves it.

    Attributes:
        mean, scale: Of each feature, which is standardised by them.
        weights, bias: Of the regression.
        threshold: The probability from which a hit is taken.
    """

    mean: tuple[float, ...]
    scale: tuple[float, ...]
    weights: tuple[float, ...]
    bias: float
    threshold: float

    @cached_property
    def _line(self) -> tuple[Floats, float]:
        """The regression on features that are not standardised."""
        weights = np.array(self.weights) / np.array(self.scale)
        return weights, self.bias - float(weights @ np.array(self.mean))

    def takes(self, features: Floats) -> bool:
        """Tell whether a hit with these features is taken."""
        weights, bias = self._line
        return 1.0 / (1.0 + math.exp(-float(weights @ features) - bias)) > self.threshold


class MemorySelection(Policy):
    """The policy for a memory's search, whose scores are cosines."""


class GraphSelection(Policy):
    """The policy for a walk over a graph, whose scores are shares."""


class Walk:
    """The state of a selection among hits in the order of a search: what each next hit is like, given those taken."""

    def __init__(self, query: str, hits: Sequence[Hit], vectors: Sequence[FloatArray]) -> None:
        asked = word_set(query)
        self._asked = max(1, len(asked))
        words = [word_set(hit.item.text) for hit in hits]
        self._has = [asked & has for has in words]
        self._others = [has - asked for has in words]
        self._names = [_names(hit.item.text) - asked for hit in hits]
        counts = Counter(word for has in self._others for word in has)
        self._rarity = {word: math.log((len(hits) + 1) / count) for word, count in counts.items()}
        self._scores = [hit.score for hit in hits]
        self._near = np.stack(vectors) @ np.stack(vectors).T if len(vectors) == len(hits) and hits else None
        self._covered: set[str] = set()
        self.taken: list[int] = []

    def features(self, place: int) -> Floats:
        """Return the features of the hit at a place, shape `(len(NAMES),)`."""
        best, score, has = max(self._scores), self._scores[place], self._has[place]
        redundant = linked = named = 0.0
        if self.taken and self._near is not None:
            redundant = float(self._near[place, self.taken].max())
        for other in self.taken:
            shared = self._others[place] & self._others[other]
            linked = max(linked, sum(self._rarity[word] for word in sorted(shared)))
            names = self._names[place] & self._names[other]
            named = max((named, *(self._rarity[word] for word in names)))
        return np.array(
            [
                score,
                score / best if best > 0.0 else 1.0,
                self._scores[place - 1] - score if place else 0.0,
                math.log1p(place),
                len(has) / self._asked,
                len(has - self._covered) / self._asked,
                len(self._covered) / self._asked,
                redundant,
                math.log1p(len(self.taken)),
                math.log1p(linked),
                named,
            ]
        )

    def take(self, place: int) -> None:
        """Take the hit at a place."""
        self.taken.append(place)
        self._covered |= self._has[place]


def _names(text: str) -> frozenset[str]:
    """Return the stems of a text's content words that begin with a capital."""
    return word_set(" ".join(word for word in re.findall(r"[^\W\d_]\w*", text) if word[0].isupper()))


def taken(query: str, hits: Sequence[Hit], vectors: Sequence[FloatArray], policy: Policy) -> list[int]:
    """Return the places of the hits that a question needs, in order; never none where there are any."""
    walk = Walk(query, hits, vectors)
    for place in range(len(hits)):
        if place == 0 or policy.takes(walk.features(place)):
            walk.take(place)
    return walk.taken


@dataclass(frozen=True, kw_only=True)
class Adaptive:
    """Chooser that returns as many hits as a question needs, at most k.

        hits = memory.search("What should I cook tonight?", k=8, options=SearchOptions(chooser=Adaptive()))

    Attributes:
        reranker: Orders the results first; None for the order of retrieval.
        policy: Takes a hit or leaves it: `MemorySelection.shipped()`, or that of `GraphSelection` for a `GraphMemory`.
    """

    reranker: LearnedReranker | None = None
    policy: Policy = field(default_factory=MemorySelection.shipped)

    @property
    def encoder(self) -> str:
        """The fingerprint of the encoder that the reranker was trained with; "" for any."""
        return "" if self.reranker is None else self.reranker.encoder

    @property
    def candidates(self) -> int:
        """Number of results of a search that are chosen from."""
        return 0 if self.reranker is None else self.reranker.candidates

    def choose(
        self,
        query: str,
        vector: FloatArray | None,
        hits: Sequence[Hit],
        vectors: Sequence[FloatArray],
        k: int,
        matters: Sequence[tuple[Preference, float]] = (),
    ) -> Ranking:
        """Choose at most k hits; the arguments are those of `LearnedReranker.choose`."""
        if self.reranker is None:
            count = min(k, len(hits))
            ranking = Ranking(features=np.zeros((len(hits), 0)), order=list(range(count)), probabilities=[1.0] * count)
        else:
            ranking = self.reranker.choose(query, vector, hits, vectors, k, matters)
        ordered, embeddings = ranking.chosen(hits, vectors)
        needed = taken(query, ordered, embeddings, self.policy)
        return replace(
            ranking,
            order=[ranking.order[place] for place in needed],
            probabilities=[ranking.probabilities[place] for place in needed],
        )
