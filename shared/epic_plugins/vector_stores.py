"""Steered search in a framework's vector store, which is searched by vector.

Such a store returns its own documents, best first, with scores of its own kind or none. It is searched with q~
(`signed`), and its order is kept: fetching more and ranking their texts again follows preferences better, but drifts
from the topic (`tests/benchmarks/bench_steered.py`).

The exception is documents whose stance to the user's preferences is known. Documents that were verified before they
were stored have it in their metadata, and the verdict of a verifier that has read a text is worth more than a
direction: what conflicts stands below what does not (`ranking`). As long as no document found has a stance, the store's
order is kept; only otherwise are more fetched, and their texts embedded.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np

from epic_memory.encoders.base import Encoder
from epic_memory.encoders.cache import TextVectors
from epic_memory.errors import EncoderError, InvalidInputError
from epic_memory.runtime.effects import Call, Effects
from epic_memory.steering.query_steering import QuerySteering, SteeredQuery, Steerings
from epic_memory.steering.question_kind import kind_of, recalls
from epic_memory.steering.ranking import Verdicts, stances_in
from epic_memory.steering.relevance import default_floor
from epic_memory.types import FloatArray, Preference, Stance, checked_k
from epic_memory.types.modes import Mode, checked_mode
from epic_memory.types.validation import checked_tau, checked_whole

T = TypeVar("T")
Fetch: TypeAlias = Callable[[list[float], int], Call]
Read: TypeAlias = Callable[[T], tuple[str, Mapping[str, Any]]]
Least: TypeAlias = Callable[[FloatArray], float]
# Words in the errors of stores for a vector of the wrong dimension; each store has its own exception, and names the
# dimension.
_OTHER_DIMENSION = re.compile(r"dimension|shape|vector (?:size|length)", re.I)


@dataclass(frozen=True, kw_only=True)
class Target:
    """The vector with which a store is to be searched, and how it came about.

    Attributes:
        vector: The vector to search with, of the same length as the query's embedding; that embedding if nothing
            steers.
        steered_by: The texts of the preferences that steered, heaviest first.
        matched: Whether a preference is as similar to the query as the floor requires; if none is, a fallback may have
            better answers. True in mode "off", which uses no preference.
        query: The query as the preferences steer it, by which texts are ranked if stances decide; None if the store's
            order is kept.
        preferences: The preferences whose stances count.
        decide: Whether stances change the order.
    """

    vector: list[float]
    steered_by: tuple[str, ...] = ()
    matched: bool = True
    query: SteeredQuery | None = field(default=None, repr=False, compare=False)
    preferences: tuple[Preference, ...] = field(default=(), repr=False, compare=False)
    decide: bool = field(default=True, repr=False, compare=False)

    def verdicts(self, metadata: Sequence[Mapping[str, Any]]) -> Verdicts:
        """Return the stances of documents, by their metadata, to the preferences."""
        assert self.query is not None
        weights = {one.preference.id: self.query.strength * one.weight for one in self.query.preferences}
        return Verdicts.of(list(map(stances_in, metadata)), self.preferences, weights, self.decide)


@dataclass(frozen=True)
class Found(Generic[T]):
    """A document that a search found.

    Attributes:
        document: The store's document.
        score: The score it was ranked by, by nearness and stances; None if the store's order is kept.
    """

    document: T
    score: float | None = None


class SteeredSearch:
    """Steered searches of other stores, for any number of users.

    Encoded preferences of the last 128 users and embeddings of the last 4,096 texts of documents are kept. Safe to use
    from several threads.

    Args:
        encoder: The encoder of the store's embeddings; encodes preferences, and texts if they have to be ranked.
        floor: Value in [-1, 1] from which a preference steers and counts as matched. Default: the encoder's own floor
            for matching, rel(p) for steering (`relevance`); in paper mode everything steers.
        overfetch: How many times k documents are fetched and ranked in signed mode if one conflicts with a preference;
            with 1 no text is ever embedded, and stances are ignored.

    Raises:
        InvalidInputError: for an invalid floor or overfetch.
    """

    def __init__(self, encoder: Encoder, *, floor: float | None = None, overfetch: int = 4) -> None:
        self.encoder = encoder
        self.overfetch = checked_whole(overfetch, "overfetch", 1)
        self._floor = None if floor is None else checked_tau(floor, "floor")
        self._steerings = Steerings(encoder, floor=floor)
        self._texts = TextVectors(encoder)

    def target(
        self,
        embedding: Sequence[float] | FloatArray,
        preferences: Iterable[str | Preference],
        mode: Mode,
        query: str = "",
    ) -> Effects[Target]:
        """Return the vector to search a store with.

        Args:
            embedding: The query's embedding from the model, not necessarily of length one; d numbers.
            preferences: The user's preferences; expired ones do not steer.
            mode: "signed", "paper" or "off".
            query: The query's words, which tell whether preferences decide it; empty if unknown.

        Raises:
            InvalidInputError: for an invalid preference or mode.
            EncoderError: if the embedding is invalid, or the preferences cannot be encoded.
        """
        if checked_mode(mode) == "off":
            return Target(vector=_listed(embedding))
        users = _live(preferences)
        if not users:
            return Target(vector=_listed(embedding), matched=False)
        steering: QuerySteering = yield from self._steerings.steering(users, mode)
        unit, length = _direction(embedding)
        if len(unit) != steering.vectors.shape[1]:
            raise EncoderError(
                f"The query's embedding has {len(unit)} numbers, those of the preferences {steering.vectors.shape[1]}."
                " Check the model: both have to be of one kind."
            )
        kind = kind_of(self.encoder, query, unit)
        steered = steering.steer_vector(unit, kind=kind)
        ranked: dict[str, Any] = {}
        if steering.mode == "signed" and self.overfetch > 1:
            ranked = {"query": steered, "preferences": tuple(steering.preferences), "decide": not recalls(kind)}
        floor = default_floor(self.encoder) if self._floor is None else self._floor
        matched = steered.nearest is not None and steered.nearest >= floor
        if not steered.preferences:
            return Target(vector=_listed(embedding), matched=matched, **ranked)
        # If embeddings do not have length one, a store that ranks by distance or dot product depends on their lengths.
        vector: list[float] = (steered.vector * np.float32(length)).tolist()
        steered_by = tuple(one.preference.text for one in steered.preferences)
        return Target(vector=vector, steered_by=steered_by, matched=matched, **ranked)

    def find(
        self, target: Target, k: int, fetch: Fetch, read: Read[T], least: Least | None = None
    ) -> Effects[list[Found[T]]]:
        """Return the k best documents, best first.

        Args:
            target: The target of the search.
            k: How many, at least 1.
            fetch: Returns the call that searches the store with a vector for a number of documents, best first.
            read: Returns the text and the metadata of a document.
            least: Returns, from the cosines of the texts found with what was searched for, the cosine from which on
                texts are returned. Default: all are.

        Raises:
            InvalidInputError: for an invalid k.
        """
        found: Sequence[T] = yield fetch(target.vector, checked_k(k))
        wanted = self._to_rank(target, k, found, read)
        if not found or (not wanted and least is None):
            return [Found(document) for document in found[:k]]
        if wanted > len(found):
            found = yield fetch(target.vector, wanted)
        contents = [read(document) for document in found]
        vectors: FloatArray = yield from self._texts.embedding([text for text, _ in contents])
        if least is not None:
            cosines: FloatArray = vectors @ _direction(target.vector)[0]
            kept = np.flatnonzero(cosines >= least(cosines)).tolist()
            found, contents, vectors = [found[n] for n in kept], [contents[n] for n in kept], vectors[kept]
        if not wanted or not found:
            return [Found(document) for document in found[:k]]
        return _ranked(target, found, contents, vectors, k)

    def _to_rank(self, target: Target, k: int, found: Sequence[T], read: Read[T]) -> int:
        """Return how many documents have to be ranked by their stances; 0 if the store's order is right."""
        if target.query is None or not found:
            return 0
        stances = target.verdicts([read(one)[1] for one in found[:k]]).stances
        if not any(of_all.any() for stance, of_all in stances.items() if stance is not Stance.NEUTRAL):
            return 0
        # If there are fewer than requested, the store has no more.
        return len(found) if len(found) < k else self.overfetch * k


def refuses_dimension(error: Exception, vector: Sequence[float]) -> bool:
    """Tell whether a store failed because its vectors have another dimension than the vector it was searched with."""
    message = str(error)
    return _OTHER_DIMENSION.search(message) is not None and str(len(vector)) in message


def _ranked(
    target: Target, found: Sequence[T], contents: Sequence[tuple[str, Mapping[str, Any]]], vectors: FloatArray, k: int
) -> list[Found[T]]:
    assert target.query is not None
    topics: FloatArray = vectors @ target.query.query
    verdicts = target.verdicts([metadata for _, metadata in contents])
    scores: list[float] = verdicts.ranked(vectors @ target.query.vector, topics).tolist()
    # Documents with the same score stay in the store's order.
    order = sorted(range(len(found)), key=scores.__getitem__, reverse=True)
    return [Found(found[row], scores[row]) for row in order[:k]]


def _live(preferences: Iterable[str | Preference]) -> tuple[str | Preference, ...]:
    """Return the preferences that have not expired, unchanged, so that the cache finds them at almost no cost."""
    if isinstance(preferences, (str, Preference)):
        preferences = (preferences,)
    if not isinstance(preferences, Iterable):
        raise InvalidInputError(f"preferences must be several texts, not {type(preferences).__name__}.")
    given = tuple(preferences)
    if all(type(preference) is str for preference in given):
        return given
    return tuple(one for one in given if not Preference.of(one).expired)


def _direction(embedding: Sequence[float] | FloatArray) -> tuple[FloatArray, float]:
    """Return the unit vector of an embedding, and the embedding's length."""
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
