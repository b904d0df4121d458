"""Steered search in a framework's vector store, which is searched by vector.

Such a store returns its own documents, best first, with scores of its own kind or none. It is searched with q~
(`signed`), and its order is kept: fetching more and ranking their texts again follows preferences better, but drifts
from the topic (`tests/benchmarks/bench_steered.py`).

The exception is documents whose stance to the steering preferences is known. Documents that were verified before they
were stored have it in their metadata, and the verdict of a verifier that has read a text is worth more than a
direction. They are ranked by

    cos(q~, E(x)) - penalty(stance of x),

the order of a memory. As long as no document found has a penalty, the store's order is this order already; only
otherwise are more fetched, and their texts embedded.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np

from epic_core.encoders.base import Encoder
from epic_core.encoders.cache import TextVectors
from epic_core.errors import EncoderError, InvalidInputError
from epic_core.runtime.calls import Call
from epic_core.runtime.effects import Effects, arun, run
from epic_core.steering.query_steering import QuerySteering, Steerings
from epic_core.steering.relevance import default_floor
from epic_core.types import FloatArray, Preference, Stance, checked_k
from epic_core.types.modes import Mode, checked_mode
from epic_core.types.validation import checked_tau, checked_whole
from epic_core.types.verdicts import PENALTY

T = TypeVar("T")
Fetch: TypeAlias = Callable[[list[float], int], Sequence[T]]
AsyncFetch: TypeAlias = Callable[[list[float], int], Awaitable[Sequence[T]]]
Read: TypeAlias = Callable[[T], tuple[str, Mapping[str, Any]]]
_STANCES = {stance.value: stance for stance in Stance}
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
        ranking: q~, the unit vector by which texts are ranked if stances decide, shape `(d,)`; None if the store's
            order is kept.
    """

    vector: list[float]
    steered_by: tuple[str, ...] = ()
    matched: bool = True
    ranking: FloatArray | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True)
class Found(Generic[T]):
    """A document that a search found.

    Attributes:
        document: The store's document.
        score: The score it was ranked by, a cosine minus a penalty; None if the store's order is kept.
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
        self, embedding: Sequence[float] | FloatArray, preferences: Iterable[str | Preference], mode: Mode
    ) -> Target:
        """Return the vector to search a store with.

        Args:
            embedding: The query's embedding from the model, not necessarily of length one; d numbers.
            preferences: The user's preferences; expired ones do not steer.
            mode: "signed", "paper" or "off".

        Raises:
            InvalidInputError: for an invalid preference or mode.
            EncoderError: if the embedding is invalid, or the preferences cannot be encoded.
        """
        return run(self._aim(embedding, preferences, mode))

    async def atarget(
        self, embedding: Sequence[float] | FloatArray, preferences: Iterable[str | Preference], mode: Mode
    ) -> Target:
        """Return the vector as `target` does, without blocking the event loop."""
        return await arun(self._aim(embedding, preferences, mode), threaded=False)

    def _aim(
        self, embedding: Sequence[float] | FloatArray, preferences: Iterable[str | Preference], mode: Mode
    ) -> Effects[Target]:
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
        steered = steering.steer_vector(unit)
        ranking = steered.vector if steering.mode == "signed" and self.overfetch > 1 else None
        floor = default_floor(self.encoder) if self._floor is None else self._floor
        matched = steered.nearest is not None and steered.nearest >= floor
        if not steered.preferences:
            return Target(vector=_listed(embedding), matched=matched)
        # If embeddings do not have length one, a store that ranks by distance or dot product depends on their lengths.
        vector: list[float] = (steered.vector * np.float32(length)).tolist()
        steered_by = tuple(one.preference.text for one in steered.preferences)
        return Target(vector=vector, steered_by=steered_by, matched=matched, ranking=ranking)

    def find(self, target: Target, k: int, fetch: Fetch[T], read: Read[T]) -> list[Found[T]]:
        """Return the k best documents, best first.

        Args:
            target: The target of the search.
            k: How many, at least 1.
            fetch: Searches the store with a vector for a number of documents, best first.
            read: Returns the text and the metadata of a document.

        Raises:
            InvalidInputError: for an invalid k.
        """
        return run(self._finding(target, k, fetch, read))

    async def afind(self, target: Target, k: int, fetch: AsyncFetch[T], read: Read[T]) -> list[Found[T]]:
        """Return documents as `find` does, without blocking the event loop."""
        return await arun(self._finding(target, k, fetch, read), threaded=False)

    def _finding(self, target: Target, k: int, fetch: Callable[..., Any], read: Read[T]) -> Effects[list[Found[T]]]:
        found: Sequence[T] = yield Call(fetch, fetch, target.vector, checked_k(k))
        wanted = self._to_rank(target, k, found, read)
        if not wanted:
            return [Found(document) for document in found[:k]]
        if wanted > len(found):
            found = yield Call(fetch, fetch, target.vector, wanted)
        contents = [read(document) for document in found]
        vectors = yield from self._texts.embedding([text for text, _ in contents])
        return _ranked(target, found, contents, vectors, k)

    def _to_rank(self, target: Target, k: int, found: Sequence[T], read: Read[T]) -> int:
        """Return how many documents have to be ranked by their stances; 0 if the store's order is right."""
        if target.ranking is None or not any(penalty_of(read(one)[1], target.steered_by) for one in found[:k]):
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
    assert target.ranking is not None
    cosines: list[float] = (vectors @ target.ranking).tolist()
    scores = [
        cosine - penalty_of(metadata, target.steered_by)
        for cosine, (_, metadata) in zip(cosines, contents, strict=True)
    ]
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


def penalty_of(metadata: Mapping[str, Any], preferences: Collection[str]) -> float:
    """Return the penalty for the stance to some preferences; 0 if it is unknown."""
    if "epic_stance" not in metadata and "epic_alignments" not in metadata:
        return 0.0
    stance = stance_to(metadata, preferences)
    return 0.0 if stance is None else PENALTY[stance]


def stance_to(metadata: Mapping[str, Any], preferences: Collection[str]) -> Stance | None:
    """Return the stance of a document to some preferences, by its metadata: the worst, from supports to conflicts.

    `epic_alignments` (JSON, a list of objects with `preference` and `stance`) holds the stance to each preference;
    without it, `epic_stance` is the stance to `epic_preference`, or to any preference if that is missing. Unreadable
    values are ignored.

    Returns:
        The stance, or None if it is unknown.
    """
    stances = [
        _STANCES.get(str(alignment.get("stance")))
        for alignment in _alignments(metadata)
        if alignment.get("preference") is None or str(alignment["preference"]) in preferences
    ]
    return max(filter(None, stances), key=PENALTY.__getitem__, default=None)


def _alignments(metadata: Mapping[str, Any]) -> list[dict[str, Any]]:
    alignments = metadata.get("epic_alignments")
    if isinstance(alignments, str):
        try:
            alignments = json.loads(alignments)
        except (ValueError, RecursionError):
            alignments = None
    if isinstance(alignments, list):
        return [alignment for alignment in alignments if isinstance(alignment, dict)]
    return [{"preference": metadata.get("epic_preference"), "stance": metadata.get("epic_stance")}]
