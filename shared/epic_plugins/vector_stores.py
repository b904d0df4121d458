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
from typing import Any, TypeAlias, TypeVar

import numpy as np

from epic_memory.encoders.base import Encoder
from epic_memory.encoders.cache import TextVectors
from epic_memory.errors import EncoderError, EncoderMismatchError, EpicError, InvalidInputError
from epic_memory.pipeline.candidates import least_topic
from epic_memory.runtime.effects import Call, Effects
from epic_memory.steering.query_steering import QuerySteering, SteeredQuery, Steerings
from epic_memory.steering.question_kind import kind_of, question_kind, recalls
from epic_memory.steering.ranking import Verdicts, stances_in
from epic_memory.types import FloatArray, Preference, Stance, checked_k
from epic_memory.types.modes import MinScore, Mode, checked_mode

T = TypeVar("T")
Fetch: TypeAlias = Callable[[list[float], int | None], Call | None]
Read: TypeAlias = Callable[[T], tuple[str, Mapping[str, Any]]]
Found: TypeAlias = list[tuple[T, float | None]]
"""Documents, best first, each with the score by which it was ranked; None if the store's order is kept."""

OVERFETCH = 4
"""How many times k documents are fetched to rank them by their stances."""
# Words in the errors of stores for a vector of the wrong dimension; each store has its own exception, and names the
# dimension.
_OTHER_DIMENSION = re.compile(r"dimension|shape|vector (?:size|length)", re.I)


@dataclass(frozen=True, kw_only=True)
class Target:
    """The vector with which a store is to be searched, and how it came about.

    Attributes:
        vector: The vector to search with, of the same length as the query's embedding; that embedding if nothing
            steers.
        words: The query's words, which tell what kind of question it is; empty if unknown.
        steered_by: The texts of the preferences that steered, heaviest first.
        query: The query as the preferences steer it, by which texts are ranked if stances decide; None if the store's
            order is kept.
        preferences: The preferences whose stances count.
        decide: Whether stances change the order.
    """

    vector: list[float]
    words: str = ""
    steered_by: tuple[str, ...] = ()
    query: SteeredQuery | None = field(default=None, repr=False, compare=False)
    preferences: tuple[Preference, ...] = field(default=(), repr=False, compare=False)
    decide: bool = field(default=True, repr=False, compare=False)

    def verdicts(self, metadata: Sequence[Mapping[str, Any]]) -> Verdicts:
        """Return the stances of documents, by their metadata, to the preferences."""
        assert self.query is not None
        weights = {one.preference.id: self.query.strength * one.weight for one in self.query.preferences}
        return Verdicts.of(list(map(stances_in, metadata)), self.preferences, weights, self.decide)


class SteeredSearch:
    """Steered searches of other stores, for any number of users.

    Encoded preferences of the last 128 users and embeddings of the last 4,096 texts of documents are kept. Safe to use
    from several threads.

    Args:
        encoder: The encoder of the store's embeddings; encodes preferences, and texts if they have to be ranked.
    """

    def __init__(self, encoder: Encoder) -> None:
        self.encoder = encoder
        self._steerings = Steerings(encoder)
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
        plain = embedding if isinstance(embedding, list) else np.asarray(embedding).tolist()
        users = _live(preferences)
        if checked_mode(mode) == "off" or not users:
            return Target(vector=plain, words=query)
        steering: QuerySteering = yield from self._steerings.steering(users, mode)
        unit, length = _direction(embedding)
        if len(unit) != steering.vectors.shape[1]:
            raise EncoderError(
                f"The query's embedding has {len(unit)} numbers, those of the preferences {steering.vectors.shape[1]}."
                " Check the model: both have to be of one kind."
            )
        kind = kind_of(self.encoder, query, unit)
        steered = steering.steer_vector(unit, kind=kind)
        ranked: dict[str, Any] = {"words": query}
        if steering.mode == "signed":
            ranked |= {"query": steered, "preferences": tuple(steering.preferences), "decide": not recalls(kind)}
        if not steered.preferences:
            return Target(vector=plain, **ranked)
        # If embeddings do not have length one, a store that ranks by distance or dot product depends on their lengths.
        vector: list[float] = (steered.vector * np.float32(length)).tolist()
        return Target(vector=vector, steered_by=tuple(one.preference.text for one in steered.preferences), **ranked)

    def find(
        self, target: Target, k: int | None, fetch: Fetch, read: Read[T], min_score: MinScore = None
    ) -> Effects[Found[T]]:
        """Return the k best documents, best first.

        Args:
            target: The target of the search.
            k: How many, at least 1; None for as many as the store finds by itself.
            fetch: Returns the call that searches the store with a vector for a number of documents, best first; None
                if no more than before can be found.
            read: Returns the text and the metadata of a document.
            min_score: The least cosine of a text with what was searched for, or the encoder's own way to find it;
                None returns all.

        Raises:
            InvalidInputError: for an invalid k.
        """
        first = fetch(target.vector, None if k is None else checked_k(k))
        found: Sequence[T] = [] if first is None else (yield first)
        k = len(found) if k is None else k
        wanted = _to_rank(target, k, found, read)
        if not found or (not wanted and min_score is None):
            return [(document, None) for document in found[:k]]
        more = fetch(target.vector, wanted) if wanted > len(found) else None
        if more is not None:
            found = yield more
        contents = [read(document) for document in found]
        vectors: FloatArray = yield from self._texts.embedding([text for text, _ in contents])
        if min_score is not None:
            cosines: FloatArray = vectors @ _direction(target.vector)[0]
            kind = question_kind(target.words) if target.words and isinstance(min_score, str) else None
            least = least_topic(self.encoder, cosines, len(cosines), min_score, kind)
            kept = np.flatnonzero(cosines >= least).tolist()
            found, contents, vectors = [found[n] for n in kept], [contents[n] for n in kept], vectors[kept]
        if not wanted or not found:
            return [(document, None) for document in found[:k]]
        return _ranked(target, found, contents, vectors, k)


def explain_embedding(model: object, error: Exception) -> None:
    """Raise the error of a framework's embedding model as an EncoderError, unless it is ours already."""
    if not isinstance(error, EpicError):
        raise EncoderError(f"{type(model).__name__} could not embed the query: {error}") from error


def explain_dimension(store: object, encoder: Encoder, advice: str, vector: Sequence[float], error: Exception) -> None:
    """Raise the error that explains why a store, or a retriever over one, refused a vector of an encoder.

    Raises:
        EncoderMismatchError: if its vectors have another dimension; its message ends with the advice.
    """
    message = str(error)
    if not isinstance(error, EpicError) and _OTHER_DIMENSION.search(message) and str(len(vector)) in message:
        raise EncoderMismatchError(
            f"{type(store).__name__} refuses the query's embedding, {len(vector)} numbers made with {encoder.name}:"
            f" {error}. {advice}"
        ) from error


def _to_rank(target: Target, k: int, found: Sequence[T], read: Read[T]) -> int:
    """Return how many documents have to be ranked by their stances; 0 if the store's order is right."""
    if target.query is None or not found:
        return 0
    stances = target.verdicts([read(one)[1] for one in found[:k]]).stances
    if not any(of_all.any() for stance, of_all in stances.items() if stance is not Stance.NEUTRAL):
        return 0
    # If there are fewer than requested, the store has no more.
    return len(found) if len(found) < k else OVERFETCH * k


def _ranked(
    target: Target, found: Sequence[T], contents: Sequence[tuple[str, Mapping[str, Any]]], vectors: FloatArray, k: int
) -> Found[T]:
    assert target.query is not None
    topics: FloatArray = vectors @ target.query.query
    verdicts = target.verdicts([metadata for _, metadata in contents])
    scores: list[float] = verdicts.ranked(vectors @ target.query.vector, topics).tolist()
    # Documents with the same score stay in the store's order.
    order = sorted(range(len(found)), key=scores.__getitem__, reverse=True)
    return [(found[row], scores[row]) for row in order[:k]]


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
