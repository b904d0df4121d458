"""Base class of steering modes, with the two small modes: the paper's and none."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from epic_core.preferences.evidence import AspectEmbeddings
from epic_core.runtime.effects import Effects
from epic_core.steering.paper import nearest_preference, steered
from epic_core.text.stems import Words
from epic_core.types import FloatArray, Preference

# Length of a vector of which nothing is left.
_NOTHING = 1e-6


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


class SteeringMode(ABC):
    """One way to steer by a fixed set of preferences.

    Args:
        preferences: The preferences.
        vectors: E(p) of each, shape `(m, d)`.
        floor: Cosine in [-1, 1] from which a preference steers; None for the mode's own rule.
    """

    def __init__(self, preferences: Sequence[Preference], vectors: FloatArray, floor: float | None) -> None:
        self.preferences = preferences
        self.vectors = vectors
        self.floor = floor

    @property
    def ready(self) -> bool:
        """True if everything that the mode needs is encoded."""
        return True

    def preparing(self) -> Effects[None]:
        """Encode everything that the mode needs, so that no query has to wait for it."""
        yield from ()

    @abstractmethod
    def choose(
        self,
        query: FloatArray,
        only: NDArray[np.intp] | None,
        candidates: FloatArray | None,
        names: QueryNames | None = None,
    ) -> Chosen:
        """Choose the preferences that steer a query, and how much each counts.

        Args:
            query: E(q), shape `(d,)`.
            only: Rows of the preferences that may steer; None for all.
            candidates: Embeddings of the texts to choose from, shape `(n, d)`, if known.
            names: The query's, if preferences are called by others.
        """

    def names_apart(self, query: str) -> list[str]:
        """Return the proper names in a query, if a preference is called by others and the mode regards that."""
        return []

    def vector(self, query: FloatArray, chosen: Chosen, *, turns: bool) -> FloatArray:
        """Return q~, shape `(d,)`; with `turns` also turned away from avoided phrases, if the mode does that."""
        return query

    def score_texts(
        self,
        query: FloatArray,
        texts: Sequence[str],
        vectors: FloatArray,
        *,
        only: NDArray[np.intp] | None,
        words: Sequence[Words] | None,
        scaled: bool,
    ) -> FloatArray:
        """Score texts by their cosines with q~, shape `(n,)`."""
        scores: FloatArray = vectors @ self.vector(query, self.choose(query, only, None), turns=False)
        return scores

    def score_found(
        self,
        query: FloatArray,
        topics: FloatArray,
        vectors: FloatArray,
        words: Callable[[int, AspectEmbeddings], FloatArray],
        *,
        only: NDArray[np.intp] | None,
        names: QueryNames | None = None,
    ) -> tuple[FloatArray, Chosen]:
        """Score the texts of a search result by their topic alone, shape `(n,)`."""
        return topics.astype(np.float32, copy=True), self.choose(query, only, vectors)


class Off(SteeringMode):
    """No steering: the query stays unchanged."""

    def choose(
        self,
        query: FloatArray,
        only: NDArray[np.intp] | None,
        candidates: FloatArray | None,
        names: QueryNames | None = None,
    ) -> Chosen:
        """Choose no preference."""
        vectors = self.vectors if only is None else self.vectors[only]
        nearest = float((vectors @ query).max()) if len(vectors) else None
        return Chosen([], [], [], 0.0, nearest)


class Paper(SteeringMode):
    """Steering towards the nearest preference (Eq. 7-8), if it reaches the floor."""

    def choose(
        self,
        query: FloatArray,
        only: NDArray[np.intp] | None,
        candidates: FloatArray | None,
        names: QueryNames | None = None,
    ) -> Chosen:
        """Choose p* (Eq. 7)."""
        vectors = self.vectors if only is None else self.vectors[only]
        if not len(vectors):
            return Chosen([], [], [], 0.0, None)
        place = nearest_preference(query, vectors)
        nearest = float(vectors[place] @ query)
        if self.floor is not None and nearest < self.floor:
            return Chosen([], [], [], 0.0, nearest)
        return Chosen([place if only is None else int(only[place])], [nearest], [1.0], 1.0, nearest)

    def vector(self, query: FloatArray, chosen: Chosen, *, turns: bool) -> FloatArray:
        """Move the query towards p* (Eq. 8)."""
        return steered(query, self.vectors[chosen.rows[0]]) if chosen.rows else query
