"""Signed steering: towards liked and away from avoided phrases; a variant of query steering (section 3.3).

The paper moves a query towards the preference most similar to it (Eq. 7-8): for "I avoid hotels with casinos"
towards casinos. The signed mode uses the liked and the avoided phrases of every preference that is relevant to the
query, each preference with its weight w_p.

rel(p) is the relevance of a preference, in log-odds (`relevance`). Its nearness to the query determines its share, w_p
~ exp(kappa near(p)). If there are candidates, their topic counts as well. The strength of steering altogether is the
chance 1 / (1 + exp(-steepness max rel(p))) that any preference matters.

Of two preferences that contradict each other only one counts: the nearer one; of about equally near ones the firmer;
then the later.

Candidates to choose from are ranked by their content (`preferences.evidence`):

    score(q, x) = cos(q, x) + strength says sum_p w_p says_p(x),    says_p(x) = tanh((for_p(x) - against_p(x)) / 2).

A search result may be about another topic, so its topic comes first:

    score(q, x) = topic(q, x) + strength sum_p w_p (about about_p(x) + says_found says_p(x) g(about_p(x))),

less a penalty for a text much further from the topic than others; says_written replaces says_found for a preference
whose expansion was written for it. about_p(x) is the nearness of the text to the subject of the preference, whether
liked or avoided, and g a step from 0 to 1: a text about something else neither follows a preference nor breaks it.

If raw texts can be searched only by a vector, the vector is

    q~ ~ t + s * turn,   t = E(q) + sum_p w_p E(p),   turn = sum_p w_p (mean E(liked) - mean E(avoided)).

t is the topic: Eq. 8 with all relevant preferences in place of the nearest one. Avoided phrases are about the topic,
too, so the turn would lead away from the subject of the query: if it points away from t, only its part at right angles
to t counts. Then "hotels with casinos" turns from casinos and not from hotels. (`tests/benchmarks/bench_steered.py`
measures it.)

A memory's instruction index holds items already judged: an entry about casinos is there because this user avoids them,
and its instruction says so. There the topic has to be found, whether it is liked or avoided, and the entry's stance
decides afterwards (`pipeline.candidates`); so the index is searched with t alone.

Names in formulas that are not explained are fields of `SteeringWeights`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from epic_memory.preferences.evidence import (
    AspectEmbeddings,
    embedding_aspects,
    highest_two,
    phrase_words,
    stance_scores,
)
from epic_memory.preferences.parser import aspects_of
from epic_memory.runtime.effects import Effects, run
from epic_memory.steering.query_steering import NOTHING, Chosen, QuerySteering
from epic_memory.steering.question_kind import QuestionKind, by_preference
from epic_memory.steering.relevance import (
    Nearness,
    chances_to_matter,
    default_relevant,
    encoding_samples,
    nearness,
    relevance,
)
from epic_memory.text.stems import Words, words_of
from epic_memory.types import FloatArray, Preference
from epic_memory.types.weights import StageWeights


@dataclass(frozen=True, kw_only=True)
class SteeringWeights(StageWeights):
    """Numbers of signed steering."""

    least: float  # smallest rel(p) at which a preference steers at all
    steepness: float  # growth of the strength with rel(p)
    kappa: float  # how sharply the nearest preference takes the largest share
    turn: float  # length of the turn, s
    about: float  # weight of a text's subject next to its cosine with the query
    says_found: float  # weight of its evidence, in a search
    says_written: float  # the same, for a preference whose expansion was written for it
    says: float  # the same, among candidates to choose from
    saturation: float  # the evidence of which a text has 76 %
    middle: float  # nearness from which a text is about a preference
    step: float  # steepness of that step
    slack: float  # how much further from the topic than the nearest a text may be
    off_topic: float  # factor of the distance beyond, which is subtracted
    tie: float  # largest difference at which two preferences are about equally near
    vote: float  # how much nearer a preference is if all that answers the query was judged to follow or break it
    felt: float  # share below which a preference is skipped, as it hardly changes the order


class Signed(QuerySteering):
    """Steering by the liked and avoided phrases of preferences, weighted by how much each matters to the query.

    The floor is one of near(p).
    """

    _sides: list[AspectEmbeddings]
    _directions: FloatArray  # for each preference, the liked minus the avoided phrases: shape `(m, d)`
    _nearness: Nearness
    _clashes: frozenset[tuple[int, int]]

    def preparing(self) -> Effects[None]:
        """Encode samples and phrases, once."""
        if self.ready:
            return
        samples = yield from encoding_samples(self.encoder)
        self._sides = yield from embedding_aspects(self.encoder, self.preferences, borrow=self.borrow)
        self._directions = np.zeros_like(self.vectors)
        for row, sides in enumerate(self._sides):
            if len(sides.liked):
                self._directions[row] += sides.liked.mean(axis=0)
            if len(sides.avoided):
                self._directions[row] -= sides.avoided.mean(axis=0)
        self._nearness = Nearness(self.vectors, self._sides, samples)
        self._clashes = self._clashing()
        self.ready = True

    def _clashing(self) -> frozenset[tuple[int, int]]:
        """Return the pairs of preferences, the earlier one first, of which one likes what the other avoids.

        The phrases must have the same words: a user who likes beaches can avoid crowded ones.
        """
        liking: dict[frozenset[tuple[str, bool]], list[int]] = {}
        read = [aspects_of(preference) for preference in self.preferences]
        for row, aspects in enumerate(read):
            for phrase in aspects.liked:
                if words := frozenset(phrase_words(phrase)):
                    liking.setdefault(words, []).append(row)
        return frozenset(
            (min(likes, avoids), max(likes, avoids))
            for avoids, aspects in enumerate(read)
            for phrase in aspects.avoided
            for likes in liking.get(frozenset(phrase_words(phrase)), ())
            if likes != avoids
        )

    def moved(self, query: FloatArray, chosen: Chosen, *, turns: bool) -> FloatArray:
        """Return t, which is Eq. 8 with all relevant preferences by their weights; with `turns`, q~."""
        by = np.array([chosen.strength * weight for weight in chosen.weights], dtype=np.float32)
        topic = query + by @ self.vectors[chosen.rows]
        vector = _unit(topic, query)
        if not turns:
            return vector
        turn = by @ self._directions[chosen.rows]
        turn = turn - np.float32(min(float(turn @ vector), 0.0)) * vector
        return _unit(topic + np.float32(SteeringWeights.shipped().turn) * turn, query)

    def choose(
        self,
        query: FloatArray,
        *,
        only: NDArray[np.intp] | None = None,
        candidates: FloatArray | None = None,
        kind: QuestionKind | None = None,
        votes: FloatArray | None = None,
    ) -> Chosen:
        """Choose by nearness and rel(p)."""
        weights = SteeringWeights.shipped()
        rows: list[int] = list(range(len(self.vectors))) if only is None else only.tolist()
        if not rows:
            return Chosen([], [], [], 0.0, None)
        if not self.ready:
            run(self.preparing())
        known = candidates if candidates is not None and len(candidates) else None
        found = nearness(query, self._nearness, known)
        if votes is not None:
            found = found + np.float32(weights.vote) * votes
        every = relevance(self.encoder, found, kind, candidates=known is not None)
        reached = (every >= weights.least if self.floor is None else found >= self.floor).tolist()
        # Preferences are few: plain numbers are faster than short arrays.
        near, odds, similarities = found.tolist(), every.tolist(), (self.vectors @ query).tolist()
        nearest = max(similarities[row] for row in rows)
        chances = dict(zip(rows, chances_to_matter(self.encoder, [near[row] for row in rows], kind), strict=True))
        matters = tuple((self.preferences[row], chances[row]) for row in self._not_overruled(rows, near))
        steering = self._not_overruled([row for row in rows if reached[row]], near)
        if not steering:
            return Chosen([], [], [], 0.0, nearest, matters)
        shares = [math.exp(weights.kappa * (near[row] - near[steering[0]])) for row in steering]
        total, best = sum(shares), max(-40.0, min(max(odds[row] for row in steering), 40.0))
        chance = 1.0 if self.floor is not None else 1.0 / (1.0 + math.exp(-weights.steepness * best))
        return Chosen(
            rows=steering,
            similarities=[similarities[row] for row in steering],
            weights=[share / total for share in shares],
            strength=by_preference(kind) * chance,
            nearest=nearest,
            matters=matters,
        )

    def _not_overruled(self, rows: list[int], near: Sequence[float]) -> list[int]:
        """Sort rows by nearness, highest first, without those that a contradicting preference overrules."""
        rows = sorted(rows, key=near.__getitem__, reverse=True)
        overruled: set[int] = set()
        for one, other in combinations(rows, 2) if self._clashes else ():
            if (min(one, other), max(one, other)) in self._clashes and overruled.isdisjoint((one, other)):
                loses = other
                if near[one] - near[other] <= SteeringWeights.shipped().tie:
                    # Both are about equally near: the firmer one wins, then the later.
                    loses = min(one, other, key=lambda row: (aspects_of(self.preferences[row]).firmness, row))
                overruled.add(loses)
        return [row for row in rows if row not in overruled]

    def score_texts(
        self,
        query: FloatArray,
        texts: Sequence[str],
        vectors: FloatArray,
        *,
        scaled: bool = True,
        kind: QuestionKind | None = None,
    ) -> FloatArray:
        """Score texts by their cosines with E(q) and their evidence for or against preferences, shape `(n,)`."""
        weights = SteeringWeights.shipped()
        chosen = self.choose(query, candidates=vectors, kind=kind)
        scores = vectors @ query
        if not chosen.rows:
            return scores
        words = [words_of(text) for text in texts]
        toward = scores.copy()
        for row, weight in zip(chosen.rows, chosen.weights, strict=True):
            if weight >= weights.felt:
                evidence, _ = self._evidence(row, query, vectors, words, toward)
                scores += np.float32(chosen.strength * weight * weights.says) * evidence
        if scaled:
            scores /= np.float32(1.0 + chosen.strength * weights.says)
        return scores

    def score_found(
        self,
        query: FloatArray,
        topics: FloatArray,
        vectors: FloatArray,
        words: Callable[[Preference, AspectEmbeddings], FloatArray],
        chosen: Chosen,
        bounds: Callable[[int], tuple[FloatArray, FloatArray]] | None = None,
    ) -> FloatArray:
        """Score the texts of a search result, shape `(n,)`: by the topic first, then by their evidence."""
        weights = SteeringWeights.shipped()
        scores = topics.astype(np.float32, copy=True)
        if not chosen.rows:
            return scores
        scores -= np.float32(weights.off_topic) * np.maximum(
            topics.max(initial=-1.0) - topics - np.float32(weights.slack), 0.0
        )
        toward = vectors @ query
        middle = weights.middle + default_relevant(self.encoder) - default_relevant(None)
        for row, weight in zip(chosen.rows, chosen.weights, strict=True):
            if weight >= weights.felt:
                evidence, about = self._evidence(
                    row, query, vectors, words(self.preferences[row], self._sides[row]), toward
                )
                if bounds is not None:
                    evidence = np.clip(evidence, *bounds(row))
                speaks = 1.0 / (1.0 + np.exp(np.float32(-weights.step) * (about - np.float32(middle))))
                written = len(self._sides[row].expanded) and not self._sides[row].borrowed
                says = weights.says_written if written else weights.says_found
                gained = np.float32(weights.about) * about + np.float32(says) * evidence * speaks
                scores += np.float32(chosen.strength * weight) * gained
        scores /= np.float32(1.0 + chosen.strength * (weights.about + weights.says_written))
        return scores

    def _evidence(
        self,
        row: int,
        query: FloatArray,
        vectors: FloatArray,
        words: Sequence[Words] | FloatArray,
        toward: FloatArray,
    ) -> tuple[FloatArray, FloatArray]:
        """Return texts' evidence for or against a preference, in [-1, 1], and their nearness to its subject."""
        sides, own = self._sides[row], len(self._sides[row].vectors)
        near, to_keys = vectors @ sides.keys.T, sides.keys @ query
        about = highest_two(np.column_stack([vectors @ self.vectors[row], near]))
        expanded = near[:, own:] - toward[:, None] * to_keys[own:]
        scores = stance_scores(sides, words, near[:, :own], toward, to_keys[:own], expanded)
        evidence: FloatArray = np.tanh(scores / np.float32(SteeringWeights.shipped().saturation))
        return evidence, about


def _unit(vector: FloatArray, otherwise: FloatArray) -> FloatArray:
    length = math.sqrt(float(vector @ vector))
    # A query exactly opposite to the preferences cancels out; it is then left unchanged.
    return (vector / np.float32(length)).astype(np.float32) if length > NOTHING else otherwise
