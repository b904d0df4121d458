"""Query steering: stage 3, preference-guided queries steered by a fixed set of preferences (section 3.3).

There are three modes: the paper's (`paper`, Eq. 7-8), the signed one (`signed`), and none.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from epic_memory.encoders.base import Embed, Encoder, embed, embed_query
from epic_memory.errors import InvalidInputError
from epic_memory.preferences.evidence import AspectEmbeddings
from epic_memory.runtime.batching import unique_preferences
from epic_memory.runtime.effects import Effects, run
from epic_memory.steering.question_kind import QuestionKind, kind_of
from epic_memory.types import FloatArray, Preference
from epic_memory.types.modes import Mode, checked_mode
from epic_memory.types.validation import checked_tau

NOTHING = 1e-6
"""Length of a vector of which nothing is left."""


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
        vector: q~, a unit vector of shape `(d,)`; E(q) if nothing steers.
        query: E(q), shape `(d,)`.
        preferences: The preferences that steered it, heaviest first; one in paper mode, none if no preference matters
            to the query, or none reaches the floor, or the mode is "off".
        nearest: The highest Sim(E(q), E(p)), in [-1, 1]; None without preferences.
        strength: How much steering counts altogether, in [0, 1]: less than 1 if even the most relevant preference only
            just matters and no floor was given.
        matters: All preferences that may matter, as of `Chosen`.
    """

    vector: FloatArray
    query: FloatArray
    preferences: tuple[SteeringPreference, ...]
    nearest: float | None
    strength: float = 1.0
    matters: tuple[tuple[Preference, float], ...] = ()


class Chosen(NamedTuple):
    """The preferences that steer a query, heaviest first.

    Attributes:
        rows: Their rows.
        similarities: Sim(E(q), E(p)) of each.
        weights: Their shares, which sum to one.
        strength: How much they count together, in [0, 1].
        nearest: The highest Sim(E(q), E(p)) of all preferences.
        matters: All preferences that may matter, heaviest first, each with the chance that it does; in paper mode those
            that steer.
    """

    rows: list[int]
    similarities: list[float]
    weights: list[float]
    strength: float
    nearest: float | None
    matters: tuple[tuple[Preference, float], ...] = ()


class QuerySteering:
    """Steering of queries by a fixed set of preferences, each encoded once.

    With mode "signed", the default, this makes a `steering.signed.Signed`.

    Args:
        encoder: Encodes queries, preferences and their aspects.
        preferences: Texts or `Preference`s.
        mode: "paper" (Eq. 7-8), "signed" or "off".
        floor: Value in [-1, 1] from which a preference steers: of its cosine with the query in paper mode, of near(p)
            in signed mode, where steering then counts at full strength. Default: none in paper mode; in
            signed mode the relevance of preferences decides (`relevance`).
        vectors: E(p) of the preferences if known already, shape `(m, d)`.
        borrow: Whether preferences without an expansion borrow from the bundled library.

    Attributes:
        ready: Whether everything that the mode needs is encoded.

    Raises:
        InvalidInputError: for an unknown mode or a floor outside [-1, 1].
    """

    def __new__(cls, encoder: Encoder, preferences: Any, mode: Mode = "signed", **_: Any) -> QuerySteering:
        """Make the kind of steering that belongs to the mode."""
        if checked_mode(mode) != "signed":
            return object.__new__(cls)
        from epic_memory.steering.signed import Signed

        return object.__new__(Signed)

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
        given = [preferences] if isinstance(preferences, (str, Preference)) else preferences
        self.preferences = tuple(map(Preference.of, given))
        self.mode = mode
        self.floor = None if floor is None else checked_tau(floor, "floor")
        self.vectors = embed(encoder, [one.text for one in self.preferences]) if vectors is None else vectors
        self.ready = mode != "signed" or not self.preferences

    def preparing(self) -> Effects[None]:
        """Encode everything that the mode needs, so that no query has to wait for it."""
        yield from ()

    def steer(self, query: str) -> SteeredQuery:
        """Encode and steer a query."""
        vector = embed_query(self.encoder, query)
        return self.steer_vector(vector, kind=kind_of(self.encoder, query, vector))

    def steer_vector(
        self,
        query: FloatArray,
        *,
        only: NDArray[np.intp] | None = None,
        candidates: FloatArray | None = None,
        kind: QuestionKind | None = None,
        turns: bool = True,
    ) -> SteeredQuery:
        """Steer E(q).

        Args:
            query: A unit vector of shape `(d,)`.
            only: Rows of the preferences that may steer; default: all.
            candidates: Embeddings of the texts to choose from, shape `(n, d)`; those nearest to the query help to
                determine which preferences are relevant.
            kind: Of the question, if it is known.
            turns: Whether raw texts are searched; False for an index of instructions: in signed mode the vector is t,
                not q~.
        """
        chosen = self.choose(query, only=only, candidates=candidates, kind=kind)
        return SteeredQuery(
            vector=self.moved(query, chosen, turns=turns) if chosen.rows else query,
            query=query,
            preferences=tuple(
                SteeringPreference(preference=self.preferences[row], similarity=similarity, weight=weight)
                for row, similarity, weight in zip(chosen.rows, chosen.similarities, chosen.weights, strict=True)
            ),
            nearest=chosen.nearest,
            strength=chosen.strength,
            matters=chosen.matters,
        )

    def choose(
        self,
        query: FloatArray,
        *,
        only: NDArray[np.intp] | None = None,
        candidates: FloatArray | None = None,
        kind: QuestionKind | None = None,
        votes: FloatArray | None = None,
    ) -> Chosen:
        """Choose the preferences that steer a query: outside signed mode p* (Eq. 7), or none.

        Args:
            query: E(q), a unit vector of shape `(d,)`.
            only: Rows of the preferences that may steer; default: all.
            candidates: Embeddings of the texts to choose from, shape `(n, d)`; signed mode heeds them and what follows.
            kind: Of the question (`kind_of`), if it is known: to some kinds no preference matters.
            votes: For each preference the share, in [0, 1], of what was found that was judged to follow or break it
                (`ranking.votes`), shape `(m,)`.
        """
        rows = np.arange(len(self.vectors)) if only is None else only
        if not len(rows):
            return Chosen([], [], [], 0.0, None)
        # p* = argmax_p Sim(E(q), E(p)) (Eq. 7)
        row = int(rows[np.argmax(self.vectors[rows] @ query)])
        nearest = float(self.vectors[row] @ query)
        if self.mode == "off" or (self.floor is not None and nearest < self.floor):
            return Chosen([], [], [], 0.0, nearest)
        return Chosen([row], [nearest], [1.0], 1.0, nearest, ((self.preferences[row], 1.0),))

    def moved(self, query: FloatArray, chosen: Chosen, *, turns: bool) -> FloatArray:
        """Return the query moved to chosen preferences (Eq. 8); in signed mode with `turns` also away from phrases."""
        # q~ = (E(q) + E(p*)) / ||E(q) + E(p*)|| (Eq. 8)
        moved = query + self.vectors[chosen.rows[0]]
        length = np.linalg.norm(moved)
        # A query that is the exact opposite of the preference cancels out with it; it is then left unchanged.
        return (moved / length).astype(np.float32) if length > NOTHING else query

    def score(self, query: str, texts: Sequence[str]) -> FloatArray:
        """Return the scores by which raw texts are ranked for a query in this mode, shape `(len(texts),)`.

        Scores are comparable only within one call.

        Raises:
            InvalidInputError: if `texts` is one text.
        """
        if isinstance(texts, str):
            raise InvalidInputError("score ranks several texts; give a list of them.")
        vector = embed_query(self.encoder, query)
        kind = kind_of(self.encoder, query, vector)
        return self.score_texts(vector, texts, embed(self.encoder, texts), kind=kind)

    def score_texts(
        self,
        query: FloatArray,
        texts: Sequence[str],
        vectors: FloatArray,
        *,
        scaled: bool = True,
        kind: QuestionKind | None = None,
    ) -> FloatArray:
        """Return scores as `score` does, for a query and texts that are already encoded.

        Args:
            query: E(q), shape `(d,)`.
            texts: The texts to rank.
            vectors: Their embeddings, shape `(len(texts), d)`.
            scaled: Whether the scores are brought back to the scale of a cosine.
            kind: Of the question, if it is known.
        """
        scores: FloatArray = vectors @ self.steer_vector(query).vector
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
        """Return scores of the texts of a search result, some of which may be about another topic, shape `(n,)`.

        Args:
            query: E(q), shape `(d,)`.
            topics: The nearness of each text to the query's topic, shape `(n,)`.
            vectors: Their embeddings, shape `(n, d)`.
            words: Returns the weight of the texts' words under a preference with its phrases, shape `(n,)`
                (`evidence.worded`).
            chosen: The preferences that steer.
            bounds: Returns the lowest and the highest evidence of each text for the preference in a row, each shape
                `(n,)`, by what was judged of it (`ranking.Verdicts`); default: -1 and 1.
        """
        return topics.astype(np.float32, copy=True)


class Steerings:
    """A cache of `QuerySteering` for the `size` users served last; preferences are encoded when they first steer.

    Safe to use from several threads; preferences that first steer twice at the same time may be encoded twice.
    """

    def __init__(self, encoder: Encoder, *, floor: float | None = None, size: int = 128) -> None:
        self.encoder = encoder
        self.floor = floor
        self.size = size
        self._made: OrderedDict[tuple[Mode, tuple[str | Preference, ...]], QuerySteering] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, preferences: tuple[str | Preference, ...], mode: Mode) -> QuerySteering:
        """Return steering by these preferences, ready for queries; one given twice is an `InvalidInputError`."""
        return run(self.steering(preferences, mode))

    def steering(self, preferences: tuple[str | Preference, ...], mode: Mode) -> Effects[QuerySteering]:
        """Return steering as `of` does, in effects."""
        key = (mode, preferences)
        with self._lock:
            known = self._made.get(key)
            if known is not None:
                self._made.move_to_end(key)
                return known
        unique = unique_preferences(preferences)
        vectors = yield Embed(self.encoder, [preference.text for preference in unique], "steering")
        made = QuerySteering(self.encoder, unique, mode, floor=self.floor, vectors=vectors)
        yield from made.preparing()
        with self._lock:
            self._made[key] = made
            while len(self._made) > self.size:
                self._made.popitem(last=False)
        return made
