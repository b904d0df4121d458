"""Stage 3, preference-guided query steering (Eq. 7-8), and its signed variant.

The paper moves a query towards the preference most similar to it:

    p* = argmax_p Sim(E(q), E(p))                          (Eq. 7)
    q~ = (E(q) + E(p*)) / ||E(q) + E(p*)||                 (Eq. 8)

For "I avoid hotels with casinos" that is towards casinos. The signed mode uses what a preference likes and
avoids (`aspects`), for every preference that is relevant to the query, each with its weight w_p.

How relevant one is, its similarity to the query alone says badly: "Where should I stay in Las Vegas?" is about no
casinos. What there is to choose from says more. With candidates, c the mean of those nearest to the query,

    rel(p) = (Sim(E(q), E(p)) + 2 Sim(c, E(p))) / 3,       w_p ~ exp(rel(p) / T)   where rel(p) reaches a floor.

Of two preferences that say the opposite of each other only one counts: the more relevant one; of about equally
relevant ones the firmer; then the later.

Candidates are ranked by what they say (`evidence`):

    score(q, x) = cos(q, x) + sum_p w_p (for_p(x) - against_p(x)),

less a penalty for a candidate much further than others from t, the topic. Where not even the most relevant preference
is clearly above the floor, everything that steers counts in part.

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
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from epic_core.encoders.base import Encoder, aembed, aembed_query, embed, embed_query
from epic_core.errors import InvalidInputError
from epic_core.evidence import Sides, asides_of, leanings, sides_of
from epic_core.threads import in_thread
from epic_core.types import FloatArray, Preference
from epic_core.words import Words, words_of

Mode: TypeAlias = Literal["paper", "signed", "off"]
MODES: tuple[str, ...] = get_args(Mode)

DEFAULT_FLOOR = 0.2
# How many of the candidates say what a query is about, and how much more than itself.
NEAREST = 8
CANDIDATES_WEIGHT = 2.0
# What the signed mode asks of a preference above the encoder's floor, and, as they say it more clearly, above that with
# candidates; it counts in full from RAMP above.
MARGIN = 0.09
CANDIDATES_MARGIN = 0.03
RAMP = 0.15
# Width of the softmax over preferences, without candidates and with.
TEMPERATURE = 0.1
CANDIDATES_TEMPERATURE = 0.02
# Weights of the liked and the avoided side of the turn, and s: how far it goes.
LIKED_WEIGHT = 1.0
AVOIDED_WEIGHT = 1.0
TURN = 2.0
# A candidate may be so much further from the topic t than the nearest one; beyond, each point costs so many.
SLACK = 0.3
OFF_TOPIC = 15.0
# From this cosine on, what one preference likes is what another avoids; what counts as about equally relevant.
CLASH = 0.8
TIE = 0.05
# A share below this changes no order worth the time.
_FELT = 0.01


def default_floor(encoder: object) -> float:
    """The similarity below which a query matches no preference: the encoder's own `floor`, else 0.2."""
    return float(getattr(encoder, "floor", DEFAULT_FLOOR))


def checked_mode(mode: str) -> Mode:
    """The mode.

    Raises:
        InvalidInputError: if there is no such mode.
    """
    for known in get_args(Mode):
        if mode == known:
            return known  # type: ignore[no-any-return]
    raise InvalidInputError(f"Steering knows the modes {', '.join(MODES)}; not {mode!r}.")


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
        preferences: What steered it, heaviest first; one in paper mode, none if no preference
            reaches the floor or the mode is "off".
        nearest: The highest Sim(E(q), E(p)), in [-1, 1]; None without preferences.
        strength: How much of it all counts, in [0, 1]: less than 1 if no preference is clearly above the floor.
    """

    vector: FloatArray
    query: FloatArray
    preferences: tuple[SteeringPreference, ...]
    nearest: float | None
    strength: float = 1.0


class _Chosen(NamedTuple):
    """The preferences that steer a query, heaviest first; `strength` is how much they count together."""

    rows: list[int]
    similarities: list[float]
    weights: list[float]
    strength: float
    nearest: float | None


class QuerySteering:
    """Steers queries by a fixed set of preferences, each encoded once.

    Args:
        encoder: Encodes queries, preferences and their aspects.
        preferences: Texts or `Preference`s.
        mode: "paper" (Eq. 7-8), "signed" or "off".
        floor: Cosine in [-1, 1] below which a preference does not steer. Default: none in paper mode,
            whose equations have none; else a little above the one that belongs to the encoder.
        vectors: E(p) of the preferences where they are known already, shape `(m, d)`.

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
    ) -> None:
        self.encoder = encoder
        if isinstance(preferences, (str, Preference)):
            preferences = [preferences]
        self.preferences = tuple(Preference.of(preference) for preference in preferences)
        self.mode: Mode = checked_mode(mode)
        given = floor
        if floor is None:
            floor = min(1.0, default_floor(encoder) + MARGIN) if mode == "signed" else -1.0
        if not -1.0 <= floor <= 1.0:
            raise InvalidInputError(f"floor must be a cosine between -1 and 1, not {floor!r}.")
        self.floor = floor
        # A floor that was given is the floor.
        self._margin = CANDIDATES_MARGIN if given is None else 0.0
        self.vectors = embed(encoder, self._texts) if vectors is None else vectors

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
        return sides_of(self.encoder, self.preferences)

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
    def _clashes(self) -> frozenset[tuple[int, int]]:
        """Pairs of preferences, the earlier one first, of which one likes what the other avoids."""
        liked = [(row, place) for row, sides in enumerate(self._sides) for place in range(len(sides.liked))]
        avoided = [(row, place) for row, sides in enumerate(self._sides) for place in range(len(sides.avoided))]
        if not liked or not avoided:
            return frozenset()
        cosines = (
            np.concatenate([sides.liked for sides in self._sides])
            @ np.concatenate([sides.avoided for sides in self._sides]).T
        )
        found = set()
        for one, other in np.argwhere(cosines >= CLASH).tolist():
            (likes, wanted), (avoids, unwanted) = liked[one], avoided[other]
            # Who likes beaches can avoid crowded ones: only the same words clash.
            if likes != avoids and self._sides[likes].liked_stems(wanted) == self._sides[avoids].avoided_stems(
                unwanted
            ):
                found.add((min(likes, avoids), max(likes, avoids)))
        return frozenset(found)

    def prepare(self) -> None:
        """Encode now what the mode needs, so that no query pays for it."""
        if self.mode == "signed":
            _ = self._directions, self._clashes

    async def aprepare(self) -> None:
        """As `prepare`, without blocking the event loop."""
        if self.mode == "signed" and self.preferences:
            if "_sides" not in self.__dict__:
                self.__dict__["_sides"] = await asides_of(self.encoder, self.preferences)
            self.prepare()

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
            return SteeredQuery(vector=query, query=query, preferences=(), nearest=chosen.nearest, strength=0.0)
        by = np.array(chosen.weights, dtype=np.float32)
        topic = query + np.float32(chosen.strength) * (by @ self.vectors[chosen.rows])
        vector = _unit(topic, query)  # Eq. 8
        if turns:
            turn = np.float32(chosen.strength) * (by @ self._directions[chosen.rows])
            vector = _unit(
                topic + np.float32(TURN) * (turn - np.float32(min(float(turn @ vector), 0.0)) * vector), query
            )
        steering = tuple(
            SteeringPreference(preference=self.preferences[row], similarity=similarity, weight=weight)
            for row, similarity, weight in zip(chosen.rows, chosen.similarities, chosen.weights, strict=True)
        )
        return SteeredQuery(
            vector=vector, query=query, preferences=steering, nearest=chosen.nearest, strength=chosen.strength
        )

    def _choose(self, query: FloatArray, only: NDArray[np.intp] | None, candidates: FloatArray | None) -> _Chosen:
        """Which preferences steer a query, and how much."""
        vectors = self.vectors if only is None else self.vectors[only]
        # Preferences are few: plain numbers are faster than short arrays.
        similarities: list[float] = (vectors @ query).tolist()
        nearest = max(similarities, default=None)
        if nearest is None or self.mode == "off" or (self.mode == "paper" and nearest < self.floor):
            return _Chosen([], [], [], 0.0, nearest)
        rows: list[int] = list(range(len(similarities))) if only is None else only.tolist()
        if self.mode == "paper":
            place = similarities.index(nearest)  # Eq. 7
            return _Chosen([rows[place]], [nearest], [1.0], 1.0, nearest)
        relevances, floor, width = similarities, self.floor, TEMPERATURE
        if candidates is not None and len(candidates):
            meant = query + np.float32(CANDIDATES_WEIGHT) * _center(query, candidates)
            relevances = ((vectors @ meant) / (1 + CANDIDATES_WEIGHT)).tolist()
            floor, width = floor + self._margin, CANDIDATES_TEMPERATURE
        places = self._not_overruled(
            [place for place, relevance in enumerate(relevances) if relevance >= floor], relevances, rows
        )
        if not places:
            return _Chosen([], [], [], 0.0, nearest)
        best = relevances[places[0]]
        shares = [math.exp((relevances[place] - best) / width) for place in places]
        total = sum(shares)
        return _Chosen(
            rows=[rows[place] for place in places],
            similarities=[similarities[place] for place in places],
            weights=[share / total for share in shares],
            strength=min(1.0, (best - floor) / RAMP),
            nearest=nearest,
        )

    def _not_overruled(self, places: list[int], relevances: list[float], rows: list[int]) -> list[int]:
        """Places by relevance, highest first, without those whose opposite is meant."""
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
                        loses = min(
                            one, other, key=lambda place: (self._sides[rows[place]].aspects.firmness, rows[place])
                        )
                    overruled.add(loses)
        return [place for place in places if place not in overruled]

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
    ) -> FloatArray:
        """As `score`, where everything is encoded.

        Args:
            query: E(q), shape `(d,)`.
            texts: What is ranked.
            vectors: Their embeddings, shape `(len(texts), d)`.
            only: Rows of the preferences that may steer; default: all.
            words: Those of the texts, where they are known.
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
        # What says nothing against a preference because it speaks of something else does not come first for that.
        topic = query + np.array(chosen.weights, dtype=np.float32) @ self.vectors[chosen.rows]
        topical = vectors @ _unit(topic, query)
        astray = np.maximum(topical.max(initial=-1.0) - topical - np.float32(SLACK), 0.0)
        scores -= np.float32(OFF_TOPIC * chosen.strength) * astray
        for row, weight in zip(chosen.rows, chosen.weights, strict=True):
            if weight >= _FELT:
                sides = self._sides[row]
                found = leanings(sides, said, vectors @ sides.vectors.T, toward, sides.vectors @ query)
                scores += np.float32(chosen.strength * weight) * found
        return scores


def _center(query: FloatArray, candidates: FloatArray) -> FloatArray:
    """The mean direction of the candidates nearest to a query, shape `(d,)`."""
    if len(candidates) > NEAREST:
        candidates = candidates[np.argpartition(candidates @ query, -NEAREST)[-NEAREST:]]
    return _unit(candidates.sum(axis=0), query)


def _unit(vector: FloatArray, otherwise: FloatArray) -> FloatArray:
    length = math.sqrt(float(vector @ vector))
    # A query exactly opposite to what steers it cancels out; it is then left as it is.
    return (vector / np.float32(length)).astype(np.float32) if length > 1e-6 else otherwise
