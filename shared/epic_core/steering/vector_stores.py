"""Steered search of a store that is not ours: any vector store of a framework, searched by vector.

Such a store answers with its own documents, best first, and with scores of its own kind or none. It is searched with q~
(`steering`), and its order stands: to fetch more, embed the texts and rank them anew follows preferences better, and
leaves the topic (`tests/benchmarks/bench_steered.py`).

Unless it is known how documents stand to the preferences that steer. Documents that were verified before they were
stored say so in their metadata, and what a verifier has read says more than a direction does. They are ranked by

    cos(q~, E(x)) - penalty(stance of x),

a memory's own order. What the store has found is in this order already as long as nothing among it has a penalty: only
then are more fetched, and their texts embedded.
"""

from __future__ import annotations

import math
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np

from epic_core.encoders.base import Encoder
from epic_core.encoders.cache import TextVectors
from epic_core.errors import EncoderError, InvalidInputError
from epic_core.steering.cache import Steerings
from epic_core.steering.query_steering import QuerySteering
from epic_core.steering.relevance import default_floor
from epic_core.steering.stance import penalty_of
from epic_core.types import FloatArray, Preference, checked_k
from epic_core.types.modes import Mode, checked_mode

T = TypeVar("T")
Fetch: TypeAlias = Callable[[list[float], int], Sequence[T]]
AsyncFetch: TypeAlias = Callable[[list[float], int], Awaitable[Sequence[T]]]
Read: TypeAlias = Callable[[T], tuple[str, Mapping[str, Any]]]
# How stores put it that a vector is of the wrong dimension, each with an exception of its own; and they name it.
_OTHER_DIMENSION = re.compile(r"dimension|shape|vector (?:size|length)", re.I)


@dataclass(frozen=True, kw_only=True)
class Target:
    """What a store is to be searched for.

    Attributes:
        vector: What to search with, as long as the query's embedding was; that embedding where nothing steers.
        steered_by: The texts of the preferences that steered, heaviest first.
        matched: Whether a preference is as similar to the query as the floor asks; where none is, a fallback may know
            better. True in mode "off", which asks no preference.
        ranking: q~, the unit vector that texts are ranked by where stances decide, shape `(d,)`; None where the store's
            order stands.
    """

    vector: list[float]
    steered_by: tuple[str, ...] = ()
    matched: bool = True
    ranking: FloatArray | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True)
class Found(Generic[T]):
    """A document that a search found.

    Attributes:
        document: What the store returned.
        score: What it was ranked by, a cosine less a penalty; None where the store's order stands.
    """

    document: T
    score: float | None = None


class SteeredSearch:
    """Steers searches of other people's stores, for any number of users.

    What is encoded is kept, as far as it was used last: the preferences of 128 users, and 4,096 texts of documents.
    Safe to use from several threads.

    Args:
        encoder: Of the store's embeddings; encodes preferences, and texts where they have to be ranked.
        floor: Cosine in [-1, 1] from which a preference steers and counts as matched. Default: the encoder's own
            to be matched, rel(p) to steer (`relevance`); in paper mode everything steers.
        overfetch: How many times k are fetched and ranked in signed mode where a document stands against a preference;
            with 1 no text is ever embedded, and stances are left out of account.

    Raises:
        InvalidInputError: for a floor or an overfetch that cannot be.
    """

    def __init__(self, encoder: Encoder, *, floor: float | None = None, overfetch: int = 4) -> None:
        if floor is not None and not -1.0 <= floor <= 1.0:
            raise InvalidInputError(f"floor must be a cosine between -1 and 1, not {floor!r}.")
        self.encoder = encoder
        self.overfetch = checked_overfetch(overfetch)
        self._floor = floor
        self._steerings = Steerings(encoder, floor=floor)
        self._texts = TextVectors(encoder)

    def target(
        self, embedding: Sequence[float] | FloatArray, preferences: Iterable[str | Preference], mode: Mode
    ) -> Target:
        """What to search for.

        Args:
            embedding: Of the query, as the model gives it, of any length; d numbers.
            preferences: The user's; those that have expired do not steer.
            mode: "signed", "paper" or "off".

        Raises:
            InvalidInputError: for what is no preference or no mode.
            EncoderError: if the embedding is none, or the preferences cannot be encoded.
        """
        if checked_mode(mode) == "off":
            return Target(vector=_listed(embedding))
        users = _live(preferences)
        if not users:
            return Target(vector=_listed(embedding), matched=False)
        return self._target(embedding, self._steerings.of(users, mode))

    async def atarget(
        self, embedding: Sequence[float] | FloatArray, preferences: Iterable[str | Preference], mode: Mode
    ) -> Target:
        """As `target`, without blocking the event loop."""
        if checked_mode(mode) == "off":
            return Target(vector=_listed(embedding))
        users = _live(preferences)
        if not users:
            return Target(vector=_listed(embedding), matched=False)
        return self._target(embedding, await self._steerings.aof(users, mode))

    def _target(self, embedding: Sequence[float] | FloatArray, steering: QuerySteering) -> Target:
        unit, length = _direction(embedding)
        if len(unit) != steering.vectors.shape[1]:
            raise EncoderError(
                f"The query's embedding has {len(unit)} numbers, those of the preferences {steering.vectors.shape[1]}."
                " Check the model: both have to be of one kind."
            )
        steered = steering.steer_vector(unit)
        ranking = steered.vector if steering.mode == "signed" and self.overfetch > 1 else None
        floor = default_floor(self.encoder) if self._floor is None else self._floor
        matched = steered.nearest is not None and steered.nearest >= floor
        if not steered.preferences:
            return Target(vector=_listed(embedding), matched=matched)
        # Where embeddings have lengths of their own, a store that goes by distance or dot product goes by them too.
        vector: list[float] = (steered.vector * np.float32(length)).tolist()
        steered_by = tuple(one.preference.text for one in steered.preferences)
        return Target(vector=vector, steered_by=steered_by, matched=matched, ranking=ranking)

    def find(self, target: Target, k: int, fetch: Fetch[T], read: Read[T]) -> list[Found[T]]:
        """The k best documents, best first.

        Args:
            target: What to search for.
            k: How many, at least 1.
            fetch: Searches the store with a vector for a number of documents, best first.
            read: The text and the metadata of a document.

        Raises:
            InvalidInputError: for a k that cannot be.
        """
        found = fetch(target.vector, checked_k(k))
        wanted = self._to_rank(target, k, found, read)
        if not wanted:
            return [Found(document) for document in found[:k]]
        if wanted > len(found):
            found = fetch(target.vector, wanted)
        told = [read(document) for document in found]
        return _ranked(target, found, told, self._texts.of([text for text, _ in told]), k)

    async def afind(self, target: Target, k: int, fetch: AsyncFetch[T], read: Read[T]) -> list[Found[T]]:
        """As `find`, without blocking the event loop."""
        found = await fetch(target.vector, checked_k(k))
        wanted = self._to_rank(target, k, found, read)
        if not wanted:
            return [Found(document) for document in found[:k]]
        if wanted > len(found):
            found = await fetch(target.vector, wanted)
        told = [read(document) for document in found]
        return _ranked(target, found, told, await self._texts.aof([text for text, _ in told]), k)

    def _to_rank(self, target: Target, k: int, found: Sequence[T], read: Read[T]) -> int:
        """How many documents have to be ranked by their stances; 0 if the store's order is right."""
        if target.ranking is None or not any(penalty_of(read(one)[1], target.steered_by) for one in found[:k]):
            return 0
        # Fewer than asked for: there are no more.
        return len(found) if len(found) < k else self.overfetch * k


def checked_overfetch(overfetch: object) -> int:
    """How many times k are fetched where documents are ranked.

    Raises:
        InvalidInputError: for anything but a whole number of at least 1.
    """
    if not isinstance(overfetch, Integral) or isinstance(overfetch, bool) or overfetch < 1:
        raise InvalidInputError(f"overfetch must be a whole number of at least 1, not {overfetch!r}.")
    return int(overfetch)


def refuses_dimension(error: Exception, vector: Sequence[float]) -> bool:
    """Whether a store failed because it holds vectors of another dimension than the one it was asked with."""
    said = str(error)
    return _OTHER_DIMENSION.search(said) is not None and str(len(vector)) in said


def _ranked(
    target: Target, found: Sequence[T], told: Sequence[tuple[str, Mapping[str, Any]]], vectors: FloatArray, k: int
) -> list[Found[T]]:
    assert target.ranking is not None
    cosines: list[float] = (vectors @ target.ranking).tolist()
    scores = [
        cosine - penalty_of(metadata, target.steered_by) for cosine, (_, metadata) in zip(cosines, told, strict=True)
    ]
    # Documents with the same score stay in the store's order.
    order = sorted(range(len(found)), key=scores.__getitem__, reverse=True)
    return [Found(found[row], scores[row]) for row in order[:k]]


def _live(preferences: Iterable[str | Preference]) -> tuple[str | Preference, ...]:
    """Those that have not expired; as they were given, so that looking them up costs next to nothing."""
    if isinstance(preferences, (str, Preference)):
        preferences = (preferences,)
    if not isinstance(preferences, Iterable):
        raise InvalidInputError(f"preferences must be several texts, not {type(preferences).__name__}.")
    given = tuple(preferences)
    if all(type(preference) is str for preference in given):
        return given
    return tuple(one for one in given if not Preference.of(one).expired)


def _direction(embedding: Sequence[float] | FloatArray) -> tuple[FloatArray, float]:
    """The unit vector, and the length that was taken off."""
    vector = np.asarray(embedding, dtype=np.float32)
    length = math.sqrt(float(vector @ vector)) if vector.ndim == 1 else 0.0
    if not 0.0 < length < math.inf:
        raise EncoderError(
            "The embedding of the query is not one list of finite numbers, or all of them are zero. Check the model."
        )
    return vector / np.float32(length), length


def _listed(embedding: Sequence[float] | FloatArray) -> list[float]:
    if isinstance(embedding, list):
        return embedding
    listed: list[float] = np.asarray(embedding).tolist()
    return listed
