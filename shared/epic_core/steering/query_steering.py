"""Stage 3, preference-guided query steering (Eq. 7-8), and its signed variant.

The paper moves a query towards the preference most similar to it:

    p* = argmax_p Sim(E(q), E(p))                          (Eq. 7)
    q~ = (E(q) + E(p*)) / ||E(q) + E(p*)||                 (Eq. 8)

For "I avoid hotels with casinos" that is towards casinos. The signed mode uses what a preference likes and
avoids (`aspects`), for every preference that is relevant to the query, each with its weight w_p.

How relevant one is, is rel(p), in log-odds (`relevance`); which is the heaviest, its nearness says, and its share is
w_p ~ exp(KAPPA near(p)). With candidates, what they are about is asked, too. How much steering counts altogether, its
strength, is the chance 1 / (1 + exp(-STEEPNESS max rel(p))) that any preference matters.

Of two preferences that say the opposite of each other only one counts: the nearer one; of about equally near ones the
firmer; then the later.

Candidates among which there is to choose are ranked by what they say (`evidence`):

    score(q, x) = cos(q, x) + strength SAYS sum_p w_p told_p(x),    told_p(x) = tanh((for_p(x) - against_p(x)) / 2).

What a search has found may be about something else, and its topic comes first:

    score(q, x) = topic(q, x) + strength sum_p w_p (ABOUT about_p(x) + SAYS_FOUND told_p(x) g(about_p(x))),

less a penalty for a text much further from the topic than others. about_p(x) is how near the text is to what the
preference speaks of, whatever its side, and g a step from 0 to 1: a text that speaks of something else neither follows
a preference nor breaks it.

Where raw texts can be searched by a vector only, it is

    q~ ~ t + s * turn,   t = E(q) + sum_p w_p E(p),   turn = sum_p w_p (a * mean E(liked) - b * mean E(avoided)).

t is the topic: Eq. 8 with all relevant preferences in place of the nearest one. What is avoided is about the topic,
too, so the turn would lead away from what was asked: if it points away from t, only its part at right angles to t
counts. Then "hotels with casinos" turns from casinos and not from hotels. (`tests/benchmarks/bench_steered.py`
measures it.)

A memory's instruction index holds what was already judged: an entry about casinos is there because this user
avoids them, and says so. There the topic has to be found, whatever its sign, and the entry's stance decides
(`retrieval`); so the index is searched with t alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from epic_core.encoders.base import Encoder, aembed, aembed_query, embed, embed_query
from epic_core.errors import InvalidInputError
from epic_core.preferences.evidence import Sides, asides_of, highest_two, leanings, phrase_words, sides_of
from epic_core.preferences.parser import aspects_of
from epic_core.runtime.threads import in_thread
from epic_core.steering.relevance import (
    RELEVANT,
    Nearness,
    Samples,
    asamples_of,
    default_relevant,
    features,
    known_samples,
    relevance,
    samples_of,
)
from epic_core.text.stems import Words, words_of
from epic_core.types import FloatArray, Preference
from epic_core.types.modes import Mode, checked_mode

# From which rel(p) on a preference steers at all, and how fast the strength grows with it.
LEAST = -1.5
STEEPNESS = 1.5
# How sharply the nearest preference takes the largest share.
KAPPA = 20.0
# Weights of the liked and the avoided side of the turn, and s: how far it goes.
LIKED_WEIGHT = 1.0
AVOIDED_WEIGHT = 1.0
TURN = 2.0
# What a text's subject and what it says count beside its cosine with the query; from which nearness on it is about a
# preference, and how steep that step is. Chosen on cases of our own, round numbers in flat optima.
ABOUT = 0.5
SAYS_FOUND = 0.25
SAYS_WRITTEN = 0.4
SAYS = 2.0
SATURATION = 2.0
MIDDLE = 0.3
STEP = 20.0
# A candidate may be so much further from the query than the nearest one; beyond, each point costs so many.
SLACK = 0.2
OFF_TOPIC = 2.0
# What counts as about equally near.
TIE = 0.02
# A share below this changes no order worth the time.
_FELT = 0.02


@dataclass(frozen=True, kw_only=True)
class SteeringPreference:
    """A preference that steers a query.

    Attributes:
        preference: The preference.
        similarity: Sim(E(q), E(p)), in [-1, 1].
        weight: Its share, in (0, 1]; all of a query's weights sum to one.
    """

    preference: Preference
    similarity: float
    weight: float


@dataclass(frozen=True, kw_only=True)
class SteeredQuery:
    """A query after steering.

    Attributes:
        vector: q~, a unit vector of shape `(d,)`; E(q) where nothing steers.
        query: E(q), shape `(d,)`.
        preferences: What steered it, heaviest first; one in paper mode, none if no preference matters to the query, or
            none reaches the floor, or the mode is "off".
        nearest: The highest Sim(E(q), E(p)), in [-1, 1]; None without preferences.
        strength: How much of it all counts, in [0, 1]: less than 1 if even the most relevant preference only just
            matters and no floor was given.
        matters: All preferences by how much they matter, heaviest first, each with the chance that it does; None where
            that was not weighed.
    """

    vector: FloatArray
    query: FloatArray
    preferences: tuple[SteeringPreference, ...]
    nearest: float | None
    strength: float = 1.0
    matters: tuple[tuple[Preference, float], ...] | None = None


class _Chosen(NamedTuple):
    """The preferences that steer a query, heaviest first; `strength` is how much they count together."""

    rows: list[int]
    similarities: list[float]
    weights: list[float]
    strength: float
    nearest: float | None
    matters: tuple[tuple[Preference, float], ...] | None = None


class QuerySteering:
    """Steers queries by a fixed set of preferences, each encoded once.

    Args:
        encoder: Encodes queries, preferences and their aspects.
        preferences: Texts or `Preference`s.
        mode: "paper" (Eq. 7-8), "signed" or "off".
        floor: Cosine in [-1, 1] from which a preference steers, of the query, or in signed mode of what there is to
            choose from; how much each counts is rel(p) all the same. Default: none in paper mode, whose equations have
            none; else rel(p) decides that, too (`relevance`).
        vectors: E(p) of the preferences where they are known already, shape `(m, d)`.
        borrow: Whether preferences without an expansion borrow from the bundled library.

    Raises:
        InvalidInputError: for an unknown mode or a floor outside [-1, 1].
    """

    def __init__(
        self,
        encoder: Encoder,
        preferences: Sequence[str | Preference],
        mode: Mode = "signed",
        *,
        floor: float | None = None,
        vectors: FloatArray | None = None,
        borrow: bool = True,
    ) -> None:
        self.encoder = encoder
        self.borrow = borrow
        if isinstance(preferences, (str, Preference)):
            preferences = [preferences]
        self.preferences = tuple(Preference.of(preference) for preference in preferences)
        self.mode: Mode = checked_mode(mode)
        if floor is not None and not -1.0 <= floor <= 1.0:
            raise InvalidInputError(f"floor must be a cosine between -1 and 1, not {floor!r}.")
        self.floor = floor
        self.vectors = embed(encoder, self._texts) if vectors is None else vectors
        self.samples = known_samples(encoder)

    @classmethod
    async def acreate(
        cls,
        encoder: Encoder,
        preferences: Sequence[str | Preference],
        mode: Mode = "signed",
        *,
        floor: float | None = None,
    ) -> QuerySteering:
        """As the constructor with `prepare`, without blocking the event loop."""
        unencoded = np.empty((0, 0), dtype=np.float32)
        steering = cls(encoder, preferences, mode, floor=floor, vectors=unencoded)
        if not steering.preferences:
            # The shape of no embeddings: an encoder may have to ask a server for its dimension.
            steering.vectors = await in_thread(embed, encoder, [])
            return steering
        steering.vectors = await aembed(encoder, steering._texts)
        await steering.aprepare()
        return steering

    @property
    def _texts(self) -> list[str]:
        return [preference.text for preference in self.preferences]

    @cached_property
    def _sides(self) -> list[Sides]:
        # Only signed steering needs them, and only once.
        return sides_of(self.encoder, self.preferences, borrow=self.borrow)

    @cached_property
    def _directions(self) -> FloatArray:
        """For each preference, what it likes less what it avoids: shape `(m, d)`."""
        directions = np.zeros_like(self.vectors)
        for row, sides in enumerate(self._sides):
            if len(sides.liked):
                directions[row] += LIKED_WEIGHT * sides.liked.mean(axis=0)
            if len(sides.avoided):
                directions[row] -= AVOIDED_WEIGHT * sides.avoided.mean(axis=0)
        return directions

    @cached_property
    def _nearness(self) -> Nearness:
        return Nearness(self.vectors, self._sides)

    @cached_property
    def _clashes(self) -> frozenset[tuple[int, int]]:
        """Pairs of preferences, the earlier one first, of which one likes what the other avoids.

        In the same words: who likes beaches can avoid crowded ones.
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
        """Whether everything is encoded that the mode needs."""
        needs = self.mode == "signed" and bool(self.preferences)
        return not needs or (self.samples is not None and "_sides" in self.__dict__)

    def prepare(self) -> None:
        """Encode now what the mode needs, so that no query pays for it."""
        if self.mode == "signed" and self.preferences:
            self.sample()
            _ = self._directions, self._nearness, self._keys, self._clashes

    async def aprepare(self) -> None:
        """As `prepare`, without blocking the event loop."""
        if self.mode == "signed" and self.preferences:
            await self.asample()
            if "_sides" not in self.__dict__:
                self.__dict__["_sides"] = await asides_of(self.encoder, self.preferences, borrow=self.borrow)
            self.prepare()

    def sample(self) -> Samples:
        """Encode now what signed mode has to know of an encoder (`relevance`), once for each encoder."""
        if self.samples is None:
            self.samples = samples_of(self.encoder)
        return self.samples

    async def asample(self) -> Samples:
        """As `sample`, without blocking the event loop."""
        if self.samples is None:
            self.samples = await asamples_of(self.encoder)
        return self.samples

    def steer(self, query: str) -> SteeredQuery:
        """Encode and steer a query."""
        return self.steer_vector(embed_query(self.encoder, query))

    async def asteer(self, query: str) -> SteeredQuery:
        """As `steer`, without blocking the event loop."""
        await self.aprepare()
        return self.steer_vector(await aembed_query(self.encoder, query))

    def steer_vector(
        self, query: FloatArray, *, only: NDArray[np.intp] | None = None, candidates: FloatArray | None = None
    ) -> SteeredQuery:
        """Steer E(q), to search raw texts with.

        Args:
            query: A unit vector of shape `(d,)`.
            only: Rows of the preferences that may steer; default: all.
            candidates: Embeddings of what there is to choose from, shape `(n, d)`; those nearest to the query say
                which preferences are relevant.
        """
        return self._steered(query, only, candidates, turns=self.mode == "signed")

    def steer_for_index(
        self, query: FloatArray, *, only: NDArray[np.intp] | None = None, candidates: FloatArray | None = None
    ) -> SteeredQuery:
        """As `steer_vector`, for an index of instructions: in signed mode the vector is t, not q~."""
        return self._steered(query, only, candidates, turns=False)

    def _steered(
        self, query: FloatArray, only: NDArray[np.intp] | None, candidates: FloatArray | None, *, turns: bool
    ) -> SteeredQuery:
        chosen = self._choose(query, only, candidates)
        if not chosen.rows:
            return self._steered_by(chosen, query)
        by = np.array(chosen.weights, dtype=np.float32)
        topic = query + np.float32(chosen.strength) * (by @ self.vectors[chosen.rows])
        vector = _unit(topic, query)  # Eq. 8
        if turns:
            turn = np.float32(chosen.strength) * (by @ self._directions[chosen.rows])
            vector = _unit(
                topic + np.float32(TURN) * (turn - np.float32(min(float(turn @ vector), 0.0)) * vector), query
            )
        return replace(self._steered_by(chosen, query), vector=vector)

    def _steered_by(self, chosen: _Chosen, query: FloatArray) -> SteeredQuery:
        """Return a query as it is, with the preferences that matter to it."""
        steering = tuple(
            SteeringPreference(preference=self.preferences[row], similarity=similarity, weight=weight)
            for row, similarity, weight in zip(chosen.rows, chosen.similarities, chosen.weights, strict=True)
        )
        return SteeredQuery(
            vector=query,
            query=query,
            preferences=steering,
            nearest=chosen.nearest,
            strength=chosen.strength,
            matters=chosen.matters,
        )

    def _choose(self, query: FloatArray, only: NDArray[np.intp] | None, candidates: FloatArray | None) -> _Chosen:
        """Which preferences steer a query, and how much."""
        vectors = self.vectors if only is None else self.vectors[only]
        # Preferences are few: plain numbers are faster than short arrays.
        similarities: list[float] = (vectors @ query).tolist()
        nearest = max(similarities, default=None)
        below = nearest is not None and self.floor is not None and nearest < self.floor
        if nearest is None or self.mode == "off" or (self.mode == "paper" and below):
            return _Chosen([], [], [], 0.0, nearest)
        rows: list[int] = list(range(len(similarities))) if only is None else only.tolist()
        if self.mode == "paper":
            place = similarities.index(nearest)  # Eq. 7
            return _Chosen([rows[place]], [nearest], [1.0], 1.0, nearest)
        near, odds, reached = self._weighed(query, candidates, rows)
        every = self._not_overruled(list(range(len(rows))), near, rows)
        matters = tuple((self.preferences[rows[place]], _chance(odds[place])) for place in every)
        places = self._not_overruled([place for place, reaches in enumerate(reached) if reaches], near, rows)
        if not places:
            return _Chosen([], [], [], 0.0, nearest, matters)
        shares = [math.exp(KAPPA * (near[place] - near[places[0]])) for place in places]
        total = sum(shares)
        best = max(odds[place] for place in places)
        return _Chosen(
            rows=[rows[place] for place in places],
            similarities=[similarities[place] for place in places],
            weights=[share / total for share in shares],
            strength=_chance(best) if self.floor is None else 1.0,
            nearest=nearest,
            matters=matters,
        )

    def _weighed(
        self, query: FloatArray, candidates: FloatArray | None, rows: list[int]
    ) -> tuple[list[float], list[float], list[bool]]:
        """Return near(p) and rel(p) of the preferences in some rows, and which of them may steer."""
        known = candidates if candidates is not None and len(candidates) else None
        every = features(query, self.vectors, self.sample(), self._nearness, known)
        found = [feature[rows] for feature in every]
        odds = relevance(self.encoder, found, candidates=known is not None)
        reached = odds >= LEAST if self.floor is None else found[0] >= self.floor
        return found[0].tolist(), odds.tolist(), reached.tolist()

    def matters(
        self, query: FloatArray, *, only: NDArray[np.intp] | None = None, candidates: FloatArray | None = None
    ) -> list[tuple[Preference, float]]:
        """Return the preferences by how much they matter to a query, heaviest first, each with the chance that it does.

        Args:
            query: A unit vector of shape `(d,)`.
            only: Rows of the preferences that may matter; default: all.
            candidates: Embeddings of what there is to choose from, shape `(n, d)`.
        """
        rows: list[int] = list(range(len(self.preferences))) if only is None else only.tolist()
        if not rows:
            return []
        near, odds, _ = self._weighed(query, candidates, rows)
        places = self._not_overruled(list(range(len(rows))), near, rows)
        return [(self.preferences[rows[place]], _chance(odds[place])) for place in places]

    def _not_overruled(self, places: list[int], relevances: list[float], rows: list[int]) -> list[int]:
        """Sort places by nearness, highest first, without those whose opposite is meant."""
        places = sorted(places, key=relevances.__getitem__, reverse=True)
        if len(places) < 2 or not self._clashes:
            return places
        overruled: set[int] = set()
        for number, one in enumerate(places):
            for other in places[number + 1 :]:
                pair = min(rows[one], rows[other]), max(rows[one], rows[other])
                if pair in self._clashes and overruled.isdisjoint((one, other)):
                    loses = other
                    if relevances[one] - relevances[other] <= TIE:
                        # About equally relevant: the firmer one, then the later.
                        loses = min(one, other, key=lambda place: (self._firmness[rows[place]], rows[place]))
                    overruled.add(loses)
        return [place for place in places if place not in overruled]

    @cached_property
    def _firmness(self) -> list[float]:
        return [aspects_of(preference).firmness for preference in self.preferences]

    def score(self, query: str, texts: Sequence[str]) -> FloatArray:
        """The scores by which raw texts are ranked for a query in this mode, shape `(len(texts),)`.

        They compare the texts of one call.

        Raises:
            InvalidInputError: if `texts` is one text.
        """
        if isinstance(texts, str):
            raise InvalidInputError("score ranks several texts; give a list of them.")
        return self.score_texts(embed_query(self.encoder, query), texts, embed(self.encoder, texts))

    async def ascore(self, query: str, texts: Sequence[str]) -> FloatArray:
        """As `score`, without blocking the event loop."""
        await self.aprepare()
        return self.score_texts(await aembed_query(self.encoder, query), texts, await aembed(self.encoder, texts))

    def score_texts(
        self,
        query: FloatArray,
        texts: Sequence[str],
        vectors: FloatArray,
        *,
        only: NDArray[np.intp] | None = None,
        words: Sequence[Words] | None = None,
        scaled: bool = True,
    ) -> FloatArray:
        """As `score`, where everything is encoded.

        Args:
            query: E(q), shape `(d,)`.
            texts: What is ranked.
            vectors: Their embeddings, shape `(len(texts), d)`.
            only: Rows of the preferences that may steer; default: all.
            words: Those of the texts, where they are known.
            scaled: Whether the scores are brought back to the scale of a cosine.
        """
        if self.mode != "signed":
            scores: FloatArray = vectors @ self._steered(query, only, None, turns=False).vector
            return scores
        chosen = self._choose(query, only, vectors)
        scores = vectors @ query
        if not chosen.rows:
            return scores
        said = [words_of(text) for text in texts] if words is None else words
        toward = scores.copy()
        for row, weight in zip(chosen.rows, chosen.weights, strict=True):
            if weight >= _FELT:
                told, _ = self._told(row, query, vectors, said, toward)
                scores += np.float32(chosen.strength * weight * SAYS) * told
        if scaled:
            scores /= np.float32(1.0 + chosen.strength * SAYS)
        return scores

    def score_found(
        self,
        query: FloatArray,
        topics: FloatArray,
        vectors: FloatArray,
        words: Callable[[int, Sides], FloatArray],
        *,
        only: NDArray[np.intp] | None = None,
    ) -> tuple[FloatArray, SteeredQuery]:
        """Rank what a search has found, some of which may be about something else.

        Args:
            query: E(q), shape `(d,)`.
            topics: How near each text is to the query's topic, shape `(n,)`.
            vectors: Their embeddings, shape `(n, d)`.
            words: Gives what the texts' words count under the preference in a row, shape `(n,)` (`evidence.worded`).
            only: Rows of the preferences that may steer; default: all.

        Returns:
            The scores, shape `(n,)`, and the query with the preferences that matter to it.
        """
        chosen = self._choose(query, only, vectors)
        scores = topics.astype(np.float32, copy=True)
        steered = self._steered_by(chosen, query)
        if not chosen.rows:
            return scores, steered
        scores -= np.float32(OFF_TOPIC) * np.maximum(topics.max(initial=-1.0) - topics - np.float32(SLACK), 0.0)
        toward = vectors @ query
        middle = MIDDLE + default_relevant(self.encoder) - RELEVANT
        for row, weight in zip(chosen.rows, chosen.weights, strict=True):
            if weight >= _FELT:
                told, about = self._told(row, query, vectors, words(row, self._sides[row]), toward)
                speaks = 1.0 / (1.0 + np.exp(np.float32(-STEP) * (about - np.float32(middle))))
                gained = np.float32(ABOUT) * about + np.float32(self._says(row)) * told * speaks
                scores += np.float32(chosen.strength * weight) * gained
        scores /= np.float32(1.0 + chosen.strength * (ABOUT + SAYS_WRITTEN))
        return scores, steered

    def _says(self, row: int) -> float:
        """Return how much what a text says counts: an expansion written for the preference knows it better."""
        sides = self._sides[row]
        return SAYS_WRITTEN if len(sides.expanded) and not sides.borrowed else SAYS_FOUND

    def _told(
        self,
        row: int,
        query: FloatArray,
        vectors: FloatArray,
        said: Sequence[Words] | FloatArray,
        toward: FloatArray,
    ) -> tuple[FloatArray, FloatArray]:
        """Return what texts say for or against a preference, in [-1, 1], and how near they are to its subject."""
        sides, keys = self._sides[row], self._keys[row]
        cosines = vectors @ keys.T
        about = highest_two(cosines)
        own = len(sides.vectors)
        near, to_keys = cosines[:, 1:], keys[1:] @ query
        expanded = near[:, own:] - np.outer(toward, to_keys[own:])
        found = leanings(sides, said, near[:, :own], toward, to_keys[:own], expanded)
        told: FloatArray = np.tanh(found / np.float32(SATURATION))
        return told, about

    @cached_property
    def _keys(self) -> list[FloatArray]:
        """For each preference itself, its sides and its expansion's phrases, shape `(1 + n, d)`."""
        return [
            np.concatenate([self.vectors[row : row + 1], sides.vectors, sides.expanded])
            for row, sides in enumerate(self._sides)
        ]


def _chance(odds: float) -> float:
    return 1.0 / (1.0 + math.exp(-STEEPNESS * max(-40.0, min(odds, 40.0))))


def _unit(vector: FloatArray, otherwise: FloatArray) -> FloatArray:
    length = math.sqrt(float(vector @ vector))
    # A query exactly opposite to what steers it cancels out; it is then left as it is.
    return (vector / np.float32(length)).astype(np.float32) if length > 1e-6 else otherwise
