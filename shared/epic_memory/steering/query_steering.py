"""Query steering: stage 3, preference-guided queries steered by a fixed set of preferences (section 3.3).

There are three modes: the paper's (`paper`, Eq. 7-8), the signed one (`signed`), and none.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epic_memory.encoders.base import Embed, Encoder, embed, embed_query
from epic_memory.errors import InvalidInputError
from epic_memory.preferences.evidence import AspectEmbeddings
from epic_memory.runtime.batching import unique_preferences
from epic_memory.runtime.effects import Effects, run
from epic_memory.steering.paper import nearest_preference, steered
from epic_memory.steering.question_kind import QuestionKind, question_kind
from epic_memory.steering.signed import Chosen, QueryNames, Signed
from epic_memory.types import FloatArray, Preference
from epic_memory.types.modes import Mode, checked_mode
from epic_memory.types.validation import checked_tau


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
        matters: All preferences by how much they matter, heaviest first, each with the chance that it does; None if
            that was not computed.
        names: The proper names in the query, if preferences are called by others.
    """

    vector: FloatArray
    query: FloatArray
    preferences: tuple[SteeringPreference, ...]
    nearest: float | None
    strength: float = 1.0
    matters: tuple[tuple[Preference, float], ...] | None = None
    names: QueryNames | None = None


class QuerySteering:
    """Steering of queries by a fixed set of preferences, each encoded once.

    Args:
        encoder: Encodes queries, preferences and their aspects.
        preferences: Texts or `Preference`s.
        mode: "paper" (Eq. 7-8), "signed" or "off".
        floor: Value in [-1, 1] from which a preference steers: of its cosine with the query in paper mode, of near(p)
            in signed mode, where steering then counts at full strength. Default: none in paper mode; in
            signed mode the relevance of preferences decides (`relevance`).
        vectors: E(p) of the preferences if known already, shape `(m, d)`.
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
        given = [preferences] if isinstance(preferences, (str, Preference)) else preferences
        self.preferences = tuple(map(Preference.of, given))
        self.mode: Mode = checked_mode(mode)
        self.floor = None if floor is None else checked_tau(floor, "floor")
        self.vectors = embed(encoder, [one.text for one in self.preferences]) if vectors is None else vectors
        signed = self.mode == "signed"
        self._signed = Signed(encoder, self.preferences, self.vectors, self.floor, borrow) if signed else None

    @property
    def ready(self) -> bool:
        """True if everything that the mode needs is encoded."""
        return self._signed is None or self._signed.ready

    def preparing(self) -> Effects[None]:
        """Encode everything that the mode needs, so that no query has to wait for it."""
        if self._signed is not None:
            yield from self._signed.preparing()

    def steer(self, query: str) -> SteeredQuery:
        """Encode and steer a query."""
        return self.steer_vector(embed_query(self.encoder, query), kind=question_kind(query))

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
        return self.steered_by(chosen, query, self._vector(query, chosen, turns=turns))

    def choose(
        self,
        query: FloatArray,
        *,
        only: NDArray[np.intp] | None = None,
        candidates: FloatArray | None = None,
        names: QueryNames | None = None,
        kind: QuestionKind | None = None,
        votes: FloatArray | None = None,
    ) -> Chosen:
        """Choose the preferences that steer a query: outside signed mode p* (Eq. 7), or none.

        Args:
            query: E(q), a unit vector of shape `(d,)`.
            only: Rows of the preferences that may steer; default: all.
            candidates: Embeddings of the texts to choose from, shape `(n, d)`.
            names: The query's proper names, if preferences are called by others (`names_apart`).
            kind: Of the question (`question_kind`), if it is known; signed mode steers by it.
            votes: What the verdicts on the texts found say of each preference (`ranking.votes`), shape `(m,)`.
        """
        if self._signed is not None:
            return self._signed.choose(query, only, candidates, names, kind, votes)
        vectors = self.vectors if only is None else self.vectors[only]
        if not len(vectors):
            return Chosen([], [], [], 0.0, None)
        if self.mode == "off":
            return Chosen([], [], [], 0.0, float((vectors @ query).max()))
        place = nearest_preference(query, vectors)
        nearest = float(vectors[place] @ query)
        if self.floor is not None and nearest < self.floor:
            return Chosen([], [], [], 0.0, nearest)
        return Chosen([place if only is None else int(only[place])], [nearest], [1.0], 1.0, nearest)

    def _vector(self, query: FloatArray, chosen: Chosen, *, turns: bool) -> FloatArray:
        """Return the query moved to the chosen preferences (Eq. 8), with `turns` also away from avoided phrases."""
        if not chosen.rows:
            return query
        if self._signed is not None:
            return self._signed.vector(query, chosen, turns=turns)
        return steered(query, self.vectors[chosen.rows[0]])

    def steered_by(
        self, chosen: Chosen, query: FloatArray, vector: FloatArray, *, names: QueryNames | None = None
    ) -> SteeredQuery:
        """Return the query with the preferences that were chosen, and the vector that is searched for."""
        return SteeredQuery(
            vector=vector,
            query=query,
            preferences=tuple(
                SteeringPreference(preference=self.preferences[row], similarity=similarity, weight=weight)
                for row, similarity, weight in zip(chosen.rows, chosen.similarities, chosen.weights, strict=True)
            ),
            nearest=chosen.nearest,
            strength=chosen.strength,
            matters=chosen.matters,
            names=names,
        )

    def names_apart(self, query: str) -> list[str]:
        """Return the proper names in a query, to be encoded, if a preference is called by others; else none."""
        return [] if self._signed is None else self._signed.names_apart(query)

    def matters(
        self,
        query: FloatArray,
        *,
        only: NDArray[np.intp] | None = None,
        candidates: FloatArray | None = None,
    ) -> list[tuple[Preference, float]]:
        """Return the preferences by how much they matter to a query, heaviest first, each with the chance it does.

        Args:
            query: A unit vector of shape `(d,)`.
            only: Rows of the preferences that may matter; default: all.
            candidates: Embeddings of the texts to choose from, shape `(n, d)`.
        """
        return list(self.choose(query, only=only, candidates=candidates).matters or ())

    def score(self, query: str, texts: Sequence[str]) -> FloatArray:
        """Return the scores by which raw texts are ranked for a query in this mode, shape `(len(texts),)`.

        Scores are comparable only within one call.

        Raises:
            InvalidInputError: if `texts` is one text.
        """
        if isinstance(texts, str):
            raise InvalidInputError("score ranks several texts; give a list of them.")
        vector, kind = embed_query(self.encoder, query), question_kind(query)
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
        if self._signed is not None:
            return self._signed.score_texts(query, texts, vectors, scaled=scaled, kind=kind)
        scores: FloatArray = vectors @ self._vector(query, self.choose(query), turns=False)
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
        if self._signed is None:
            return topics.astype(np.float32, copy=True)
        return self._signed.score_found(query, topics, vectors, words, chosen, bounds)


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
