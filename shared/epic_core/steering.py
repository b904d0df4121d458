"""Stage 3, preference-guided query steering (Eq. 7-8), and its signed variant.

The paper moves a query towards the preference most similar to it:

    p* = argmax_p Sim(E(q), E(p))                          (Eq. 7)
    q~ = (E(q) + E(p*)) / ||E(q) + E(p*)||                 (Eq. 8)

For "I avoid hotels with casinos" that is towards casinos. The signed mode uses what a preference likes and
avoids (`aspects`), for every preference near the query, each with its weight w_p. Raw texts are searched with

    q~ ~ t + s * turn,   t = E(q) + sum_p w_p E(p),   turn = sum_p w_p (a * mean E(liked) - b * mean E(avoided)).

t is the topic: Eq. 8 with all near preferences in place of the nearest one. What is avoided is about the topic, too, so
the turn would lead away from what was asked: if it points away from t, only its part at right angles to t counts. Then
"hotels with casinos" turns from casinos and not from hotels. (`tests/benchmarks/bench_steered.py` measures it.)

Texts that are on topic already, such as the options of one question, are ranked by

    score(q, x) = cos(q, x) + sum_p w_p (a * max cos(liked, x) - b * max cos(avoided, x)).

A memory's instruction index holds what was already judged: an entry about casinos is there because this user
avoids them, and says so. There the topic has to be found, whatever its sign, and the entry's stance decides
(`retrieval`); so the index is searched with t alone.
"""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from epic_core.aspects import AspectVectors, aembed_aspects, embed_aspects
from epic_core.encoders.base import Encoder, aembed, aembed_query, embed, embed_query
from epic_core.errors import InvalidInputError
from epic_core.intake import unique_preferences
from epic_core.threads import in_thread
from epic_core.types import FloatArray, Preference

Mode: TypeAlias = Literal["paper", "signed", "off"]
MODES: tuple[str, ...] = get_args(Mode)

DEFAULT_FLOOR = 0.2
# Weights of the liked and the avoided side, and the width of the softmax over preferences.
LIKED_WEIGHT = 1.0
AVOIDED_WEIGHT = 1.0
TEMPERATURE = 0.1
# s: how far the turn goes.
TURN = 2.0


def default_floor(encoder: object) -> float:
    """The similarity below which a query is not steered: the encoder's own `floor`, else 0.2."""
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
        preferences: What steered it, most similar first; one in paper mode, none if no preference
            reaches the floor or the mode is "off".
        nearest: The highest Sim(E(q), E(p)), in [-1, 1]; None without preferences.
    """

    vector: FloatArray
    query: FloatArray
    preferences: tuple[SteeringPreference, ...]
    nearest: float | None


class QuerySteering:
    """Steers queries by a fixed set of preferences, each encoded once.

    Args:
        encoder: Encodes queries, preferences and their aspects.
        preferences: Texts or `Preference`s.
        mode: "paper" (Eq. 7-8), "signed" or "off".
        floor: Cosine in [-1, 1] below which a preference does not steer. Default: none in paper mode,
            whose equations have none; else the one that belongs to the encoder.
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
        if floor is None:
            floor = -1.0 if mode == "paper" else default_floor(encoder)
        if not -1.0 <= floor <= 1.0:
            raise InvalidInputError(f"floor must be a cosine between -1 and 1, not {floor!r}.")
        self.floor = floor
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
    def _aspects(self) -> list[AspectVectors]:
        # Only signed steering needs them, and only once.
        return embed_aspects(self.encoder, self._texts)

    @cached_property
    def _sides(self) -> FloatArray:
        """For each preference, what it likes less what it avoids: shape `(m, d)`."""
        directions = np.zeros_like(self.vectors)
        for row, sides in enumerate(self._aspects):
            if len(sides.liked):
                directions[row] += LIKED_WEIGHT * sides.liked.mean(axis=0)
            if len(sides.avoided):
                directions[row] -= AVOIDED_WEIGHT * sides.avoided.mean(axis=0)
        return directions

    def prepare(self) -> None:
        """Encode now what the mode needs, so that no query pays for it."""
        if self.mode == "signed":
            _ = self._sides

    async def aprepare(self) -> None:
        """As `prepare`, without blocking the event loop."""
        if self.mode == "signed" and self.preferences:
            if "_aspects" not in self.__dict__:
                self.__dict__["_aspects"] = await aembed_aspects(self.encoder, self._texts)
            _ = self._sides

    def steer(self, query: str) -> SteeredQuery:
        """Encode and steer a query."""
        return self.steer_vector(embed_query(self.encoder, query))

    async def asteer(self, query: str) -> SteeredQuery:
        """As `steer`, without blocking the event loop."""
        await self.aprepare()
        return self.steer_vector(await aembed_query(self.encoder, query))

    def steer_vector(self, query: FloatArray, *, only: NDArray[np.intp] | None = None) -> SteeredQuery:
        """Steer E(q), to search raw texts with.

        Args:
            query: A unit vector of shape `(d,)`.
            only: Rows of the preferences that may steer; default: all.
        """
        return self._steered(query, only, turns=self.mode == "signed")

    def steer_for_index(self, query: FloatArray, *, only: NDArray[np.intp] | None = None) -> SteeredQuery:
        """As `steer_vector`, for an index of instructions: in signed mode the vector is t, not q~."""
        return self._steered(query, only, turns=False)

    def _steered(self, query: FloatArray, only: NDArray[np.intp] | None, *, turns: bool) -> SteeredQuery:
        # Preferences are few: plain numbers are faster than short arrays.
        similarities: list[float] = ((self.vectors if only is None else self.vectors[only]) @ query).tolist()
        nearest = max(similarities, default=None)
        if nearest is None or self.mode == "off" or nearest < self.floor:
            return SteeredQuery(vector=query, query=query, preferences=(), nearest=nearest)
        if self.mode == "paper":
            places, weights = [similarities.index(nearest)], [1.0]  # Eq. 7
        else:
            places = [place for place, similarity in enumerate(similarities) if similarity >= self.floor]
            places.sort(key=similarities.__getitem__, reverse=True)
            shares = [math.exp((similarities[place] - nearest) / TEMPERATURE) for place in places]
            total = sum(shares)
            weights = [share / total for share in shares]
        rows: list[int] = places if only is None else only[places].tolist()
        by = np.array(weights, dtype=np.float32)
        topic = query + by @ self.vectors[rows]
        vector = _unit(topic, query)  # Eq. 8
        if turns:
            turn = by @ self._sides[rows]
            vector = _unit(
                topic + np.float32(TURN) * (turn - np.float32(min(float(turn @ vector), 0.0)) * vector), query
            )
        steering = tuple(
            SteeringPreference(preference=self.preferences[row], similarity=similarities[place], weight=weight)
            for row, place, weight in zip(rows, places, weights, strict=True)
        )
        return SteeredQuery(vector=vector, query=query, preferences=steering, nearest=nearest)

    def score(self, query: str, texts: Sequence[str]) -> FloatArray:
        """The scores by which raw texts are ranked for a query in this mode, shape `(len(texts),)`."""
        return self.score_vectors(self.steer(query), embed(self.encoder, texts))

    def score_vectors(self, steered: SteeredQuery, texts: FloatArray) -> FloatArray:
        """As `score`, for a steered query and embeddings of texts, shape `(n, d)`."""
        if self.mode != "signed":
            scores: FloatArray = texts @ steered.vector
            return scores
        scores = texts @ steered.query
        rows = {preference.id: row for row, preference in enumerate(self.preferences)}
        for chosen in steered.preferences:
            sides = self._aspects[rows[chosen.preference.id]]
            if len(sides.liked):
                scores += chosen.weight * LIKED_WEIGHT * (texts @ sides.liked.T).max(axis=1)
            if len(sides.avoided):
                scores -= chosen.weight * AVOIDED_WEIGHT * (texts @ sides.avoided.T).max(axis=1)
        return scores


def _unit(vector: FloatArray, otherwise: FloatArray) -> FloatArray:
    length = math.sqrt(float(vector @ vector))
    # A query exactly opposite to what steers it cancels out; it is then left as it is.
    return (vector / np.float32(length)).astype(np.float32) if length > 1e-6 else otherwise


class Steerings:
    """`QuerySteering` for many users: each one's preferences are encoded when they first steer, and then kept.

    Safe to use from several threads; preferences that first steer twice at the same time may be encoded twice.

    Args:
        encoder: Encodes preferences and their aspects.
        floor: As `QuerySteering`'s.
        size: Of how many users the encoded preferences are kept, those used last.
    """

    def __init__(self, encoder: Encoder, *, floor: float | None = None, size: int = 128) -> None:
        self.encoder = encoder
        self.floor = floor
        self.size = size
        self._made: OrderedDict[tuple[Mode, tuple[str | Preference, ...]], QuerySteering] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, preferences: tuple[str | Preference, ...], mode: Mode) -> QuerySteering:
        """Steering by some preferences, ready for queries.

        Raises:
            InvalidInputError: for what is no preference or no mode, or a preference given twice.
        """
        found = self._find(preferences, mode)
        if found is None:
            found = QuerySteering(self.encoder, unique_preferences(preferences), mode, floor=self.floor)
            found.prepare()
            self._keep(preferences, found)
        return found

    async def aof(self, preferences: tuple[str | Preference, ...], mode: Mode) -> QuerySteering:
        """As `of`, without blocking the event loop."""
        found = self._find(preferences, mode)
        if found is None:
            unique = unique_preferences(preferences)
            found = await QuerySteering.acreate(self.encoder, unique, mode, floor=self.floor)
            self._keep(preferences, found)
        return found

    def _find(self, preferences: tuple[str | Preference, ...], mode: Mode) -> QuerySteering | None:
        key = (mode, preferences)
        with self._lock:
            found = self._made.get(key)
            if found is not None:
                self._made.move_to_end(key)
            return found

    def _keep(self, preferences: tuple[str | Preference, ...], made: QuerySteering) -> None:
        with self._lock:
            self._made[made.mode, preferences] = made
            while len(self._made) > self.size:
                self._made.popitem(last=False)
