"""Signed steering: towards liked and away from avoided phrases; a variant of query steering (section 3.3).

The paper moves a query towards the preference most similar to it (`paper`, Eq. 7-8): for "I avoid hotels with casinos"
towards casinos. The signed mode uses the liked and the avoided phrases of every preference that is relevant to the
query, each preference with its weight w_p.

rel(p) is the relevance of a preference, in log-odds (`relevance`). Its nearness to the query determines its share, w_p
~ exp(kappa near(p)). If there are candidates, their topic counts as well. The strength of steering altogether is the
chance 1 / (1 + exp(-steepness max rel(p))) that any preference matters.

A preference with a proper name of its own ("I'm learning Portuguese") is near to a question by another name alone
("Where should I stay in Porto?"): near(p) is then computed without the question's names (`QueryNames`).

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
decides afterwards (`pipeline.ranking`); so the index is searched with t alone.

Names in formulas that are not explained are fields of `SteeringWeights`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from epic_memory.encoders.base import Encoder
from epic_memory.preferences.evidence import (
    AspectEmbeddings,
    embed_aspects,
    embedding_aspects,
    highest_two,
    phrase_words,
    stance_scores,
)
from epic_memory.preferences.parser import aspects_of
from epic_memory.runtime.effects import Effects, run
from epic_memory.steering.question_kind import QuestionKind, by_preference
from epic_memory.steering.relevance import (
    Nearness,
    Samples,
    chances_to_matter,
    default_relevant,
    encoding_samples,
    features,
    nearness,
    relevance,
)
from epic_memory.text.statements import statement_of
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


# A longer text is no question with a name in it; no question has more names that tell what it is about.
_LONGEST_QUESTION, _MOST_NAMES = 500, 8
# Length of a vector of which nothing is left.
_NOTHING = 1e-6


class QueryNames(NamedTuple):
    """Proper names in a query, and their embeddings, shape `(n, d)`.

    "Where should I stay in Rome?" is near "I love Italian food" by the name alone. So for preferences that are called
    by another name than the query's, its names are left out.
    """

    words: tuple[str, ...]
    vectors: FloatArray

    def left_out_of(self, vectors: FloatArray) -> FloatArray:
        """Return unit vectors `(..., d)` without what they have in common with the names, of length one again."""
        basis = np.linalg.qr(self.vectors.T)[0].astype(np.float32)
        left = vectors - (vectors @ basis) @ basis.T
        lengths = np.linalg.norm(left, axis=-1, keepdims=True)
        rest: FloatArray = np.where(lengths > _NOTHING, left / np.maximum(lengths, np.float32(_NOTHING)), vectors)
        return rest


class Chosen(NamedTuple):
    """The preferences that steer a query, heaviest first; `strength` is how much they count together."""

    rows: list[int]
    similarities: list[float]
    weights: list[float]
    strength: float
    nearest: float | None
    matters: tuple[tuple[Preference, float], ...] | None = None

    @property
    def mattering(self) -> float:
        """Relevance of the heaviest preference to the query, in [0, 1]."""
        return self.strength * max(self.weights, default=0.0)


@dataclass(eq=False, repr=False)
class Signed:
    """Steering by the liked and avoided phrases of preferences, weighted by how much each matters to the query.

    The arguments are those of `QuerySteering`; the floor is one of near(p).
    """

    encoder: Encoder
    preferences: Sequence[Preference]
    vectors: FloatArray
    floor: float | None
    borrow: bool

    @cached_property
    def _samples(self) -> Samples:
        return run(encoding_samples(self.encoder))

    @cached_property
    def _sides(self) -> list[AspectEmbeddings]:
        # Computed on first use, because only signed steering needs them.
        return embed_aspects(self.encoder, self.preferences, borrow=self.borrow)

    @cached_property
    def _directions(self) -> FloatArray:
        """For each preference, the liked minus the avoided phrases: shape `(m, d)`."""
        directions = np.zeros_like(self.vectors)
        for row, sides in enumerate(self._sides):
            if len(sides.liked):
                directions[row] += sides.liked.mean(axis=0)
            if len(sides.avoided):
                directions[row] -= sides.avoided.mean(axis=0)
        return directions

    @cached_property
    def _nearness(self) -> Nearness:
        return Nearness(self.vectors, self._sides, self._samples.background)

    @cached_property
    def _clashes(self) -> frozenset[tuple[int, int]]:
        """Pairs of preferences, the earlier one first, of which one likes what the other avoids.

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

    @property
    def ready(self) -> bool:
        """True if samples and phrases are encoded."""
        return not self.preferences or ("_samples" in self.__dict__ and "_sides" in self.__dict__)

    def preparing(self) -> Effects[None]:
        """Encode samples and phrases."""
        if self.preferences:
            if "_samples" not in self.__dict__:
                self._samples = yield from encoding_samples(self.encoder)
            if "_sides" not in self.__dict__:
                self._sides = yield from embedding_aspects(self.encoder, self.preferences, borrow=self.borrow)
            _ = self._directions, self._nearness, self._keys, self._clashes

    def vector(self, query: FloatArray, chosen: Chosen, *, turns: bool) -> FloatArray:
        """Return t, which is Eq. 8 with all relevant preferences by their weights; with `turns`, q~."""
        by = np.array(chosen.weights, dtype=np.float32)
        topic = query + np.float32(chosen.strength) * (by @ self.vectors[chosen.rows])
        vector = _unit(topic, query)
        if turns:
            turn = np.float32(chosen.strength) * (by @ self._directions[chosen.rows])
            vector = _unit(
                topic
                + np.float32(SteeringWeights.shipped().turn)
                * (turn - np.float32(min(float(turn @ vector), 0.0)) * vector),
                query,
            )
        return vector

    @cached_property
    def _names(self) -> list[frozenset[str]]:
        """The proper names by which each preference calls what it is about."""
        return [statement_of(preference.text).names for preference in self.preferences]

    def names_apart(self, query: str) -> list[str]:
        """Return the proper names in a query, if a preference is called by others."""
        if len(query) > _LONGEST_QUESTION or not any(self._names):
            return []
        names = statement_of(query).names
        return sorted(names)[:_MOST_NAMES] if any(own and own.isdisjoint(names) for own in self._names) else []

    def choose(
        self,
        query: FloatArray,
        only: NDArray[np.intp] | None,
        candidates: FloatArray | None,
        names: QueryNames | None = None,
        kind: QuestionKind | None = None,
        votes: FloatArray | None = None,
    ) -> Chosen:
        """Choose by nearness and rel(p).

        Args:
            query: E(q), shape `(d,)`.
            only: Rows of the preferences that may steer; None for all.
            candidates: Embeddings of the texts to choose from, shape `(n, d)`, if known.
            names: The query's, if preferences are called by others.
            kind: Of the question, if it is known: to some kinds no preference matters.
            votes: For each preference the share, in [0, 1], of what was found that was judged to follow or break it.
        """
        weights = SteeringWeights.shipped()
        decided = by_preference(kind)
        vectors = self.vectors if only is None else self.vectors[only]
        # Preferences are few: plain numbers are faster than short arrays.
        similarities: list[float] = (vectors @ query).tolist()
        nearest = max(similarities, default=None)
        if nearest is None:
            return Chosen([], [], [], 0.0, nearest)
        rows: list[int] = list(range(len(similarities))) if only is None else only.tolist()
        near, odds, reached = self._weighed(query, candidates, rows, names, kind, votes)
        every = self._not_overruled(list(range(len(rows))), near, rows)
        chances = chances_to_matter(self.encoder, near, kind)
        matters = tuple((self.preferences[rows[place]], chances[place]) for place in every)
        places = self._not_overruled([place for place, reaches in enumerate(reached) if reaches], near, rows)
        if not places:
            return Chosen([], [], [], 0.0, nearest, matters)
        shares = [math.exp(weights.kappa * (near[place] - near[places[0]])) for place in places]
        total = sum(shares)
        best = max(odds[place] for place in places)
        return Chosen(
            rows=[rows[place] for place in places],
            similarities=[similarities[place] for place in places],
            weights=[share / total for share in shares],
            strength=decided * (_chance(best) if self.floor is None else 1.0),
            nearest=nearest,
            matters=matters,
        )

    def _weighed(
        self,
        query: FloatArray,
        candidates: FloatArray | None,
        rows: list[int],
        names: QueryNames | None,
        kind: QuestionKind | None,
        votes: FloatArray | None,
    ) -> tuple[list[float], list[float], list[bool]]:
        """Return near(p) and rel(p) of the preferences in some rows, and whether each may steer."""
        weights = SteeringWeights.shipped()
        known = candidates if candidates is not None and len(candidates) else None
        every = features(query, self.vectors, self._samples, self._nearness, known, kind)
        if names is not None:
            apart = [bool(own) and own.isdisjoint(names.words) for own in self._names]
            left = names.left_out_of(np.stack([query, *(() if known is None else known)]))
            near = nearness(left[0], self._nearness, left[1:])
            every[0] = np.where(apart, near, every[0])
        if votes is not None:
            every[0] = every[0] + np.float32(weights.vote) * votes
        found = [feature[rows] for feature in every]
        odds = relevance(self.encoder, found, candidates=known is not None)
        reached = odds >= weights.least if self.floor is None else found[0] >= self.floor
        return found[0].tolist(), odds.tolist(), reached.tolist()

    def _not_overruled(self, places: list[int], relevances: list[float], rows: list[int]) -> list[int]:
        """Sort places by nearness, highest first, without those that a contradicting preference overrules."""
        places = sorted(places, key=relevances.__getitem__, reverse=True)
        if len(places) < 2 or not self._clashes:
            return places
        overruled: set[int] = set()
        for number, one in enumerate(places):
            for other in places[number + 1 :]:
                pair = min(rows[one], rows[other]), max(rows[one], rows[other])
                if pair in self._clashes and overruled.isdisjoint((one, other)):
                    loses = other
                    if relevances[one] - relevances[other] <= SteeringWeights.shipped().tie:
                        # Both are about equally near: the firmer one wins, then the later.
                        firm = {place: aspects_of(self.preferences[rows[place]]).firmness for place in (one, other)}
                        loses = min(one, other, key=lambda place: (firm[place], rows[place]))
                    overruled.add(loses)
        return [place for place in places if place not in overruled]

    def score_texts(
        self,
        query: FloatArray,
        texts: Sequence[str],
        vectors: FloatArray,
        *,
        scaled: bool,
        kind: QuestionKind | None,
    ) -> FloatArray:
        """Score texts by their cosines with E(q) and their evidence for or against preferences, shape `(n,)`."""
        weights = SteeringWeights.shipped()
        chosen = self.choose(query, None, vectors, kind=kind)
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
        sides, keys = self._sides[row], self._keys[row]
        cosines = vectors @ keys.T
        about = highest_two(cosines)
        own = len(sides.vectors)
        near, to_keys = cosines[:, 1:], keys[1:] @ query
        expanded = near[:, own:] - toward[:, None] * to_keys[own:]
        scores = stance_scores(sides, words, near[:, :own], toward, to_keys[:own], expanded)
        evidence: FloatArray = np.tanh(scores / np.float32(SteeringWeights.shipped().saturation))
        return evidence, about

    @cached_property
    def _keys(self) -> list[FloatArray]:
        """Embeddings of each preference itself, its phrases and its expansion's phrases, shape `(1 + n, d)`."""
        return [
            np.concatenate([self.vectors[row : row + 1], sides.vectors, sides.expanded])
            for row, sides in enumerate(self._sides)
        ]


def _chance(odds: float) -> float:
    return 1.0 / (1.0 + math.exp(-SteeringWeights.shipped().steepness * max(-40.0, min(odds, 40.0))))


def _unit(vector: FloatArray, otherwise: FloatArray) -> FloatArray:
    length = math.sqrt(float(vector @ vector))
    # A query exactly opposite to the preferences cancels out; it is then left unchanged.
    return (vector / np.float32(length)).astype(np.float32) if length > 1e-6 else otherwise
