"""Steered search of a store that is not ours: any vector store of a framework, searched by vector.

Such a store answers with its own documents, best first, and with scores of its own kind or none. In signed mode
it is searched with q~ (`steering`). To fetch more and score the texts by `QuerySteering.score_vectors` does no
better than that, and embeds every text (`tests/benchmarks/bench_steered.py`); so the store's order stands.

Unless it is known how documents stand to the preferences that steer. Documents that were verified before they were
stored say so in their metadata, and what a verifier read says more than a direction does. They are ranked by

    cos(q~, E(x)) - penalty(stance of x),

a memory's own order. What the store has found is already in this order as long as nothing among it has a penalty:
only then are more fetched, and their texts embedded.
"""

from __future__ import annotations

import json
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from numbers import Integral
from threading import Lock
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np

from epic_core.encoders.base import Encoder, aembed, embed
from epic_core.errors import EncoderError, InvalidInputError
from epic_core.space import PENALTY
from epic_core.steering import Mode, SteeredQuery, Steerings, checked_mode, default_floor
from epic_core.types import FloatArray, Preference, Stance

T = TypeVar("T")
Fetch: TypeAlias = Callable[[list[float], int], Sequence[T]]
AsyncFetch: TypeAlias = Callable[[list[float], int], Awaitable[Sequence[T]]]
Read: TypeAlias = Callable[[T], tuple[str, Mapping[str, Any]]]


@dataclass(frozen=True, kw_only=True)
class Target:
    """What a store is to be searched for.

    Attributes:
        vector: What to search with, as long as the query's embedding was; that embedding where nothing steers.
        steered_by: The texts of the preferences that steered, most similar first.
        matched: Whether a preference is as similar to the query as the floor asks; where none is, a fallback may know
            better. True in mode "off", which asks no preference.
    """

    vector: list[float]
    steered_by: tuple[str, ...] = ()
    matched: bool = True
    _steered: SteeredQuery | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True)
class Found(Generic[T]):
    """A document that a search found.

    Attributes:
        document: What the store returned.
        score: Its cosine with q~, less its stance's penalty, where stances decided; else None.
    """

    document: T
    score: float | None = None


class SteeredSearch:
    """Steers searches of other people's stores, for any number of users.

    What is encoded is kept, as far as it was used last: the preferences of 128 users, and 4,096 texts of documents
    that were ranked by their stance. Safe to use from several threads.

    Args:
        encoder: Of the store's embeddings; encodes preferences, and texts where they have to be ranked.
        floor: Cosine in [-1, 1] from which a preference steers and counts as matched. Default: the encoder's own; in
            paper mode everything steers.
        overfetch: How many times k are fetched and ranked where a document stands against a preference. 0 leaves
            stances out of account.

    Raises:
        InvalidInputError: for a floor or an overfetch that cannot be.
    """

    def __init__(self, encoder: Encoder, *, floor: float | None = None, overfetch: int = 4) -> None:
        if floor is not None and not -1.0 <= floor <= 1.0:
            raise InvalidInputError(f"floor must be a cosine between -1 and 1, not {floor!r}.")
        if not isinstance(overfetch, Integral) or isinstance(overfetch, bool) or overfetch < 0:
            raise InvalidInputError(f"overfetch must be a whole number of at least 0, not {overfetch!r}.")
        self.encoder = encoder
        self.overfetch = int(overfetch)
        self._floor = floor
        self._steerings = Steerings(encoder, floor=floor)
        self._texts = TextVectors(encoder)

    def target(self, embedding: Sequence[float], preferences: Iterable[str | Preference], mode: Mode) -> Target:
        """What to search for.

        Args:
            embedding: Of the query, as the model gives it, of any length; d numbers.
            preferences: The user's; those that have expired do not steer, and what is given twice steers once.
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
        unit, length = _direction(embedding)
        return self._target(embedding, length, self._steerings.of(users, mode).steer_vector(unit), mode)

    async def atarget(self, embedding: Sequence[float], preferences: Iterable[str | Preference], mode: Mode) -> Target:
        """As `target`, without blocking the event loop."""
        if checked_mode(mode) == "off":
            return Target(vector=_listed(embedding))
        users = _live(preferences)
        if not users:
            return Target(vector=_listed(embedding), matched=False)
        unit, length = _direction(embedding)
        return self._target(embedding, length, (await self._steerings.aof(users, mode)).steer_vector(unit), mode)

    def _target(self, embedding: Sequence[float], length: float, steered: SteeredQuery, mode: Mode) -> Target:
        floor = default_floor(self.encoder) if self._floor is None else self._floor
        matched = steered.nearest is not None and steered.nearest >= floor
        if not steered.preferences:
            return Target(vector=_listed(embedding), matched=matched)
        # Where embeddings have lengths of their own, a store that goes by distance or dot product goes by them too.
        vector: list[float] = (steered.vector * np.float32(length)).tolist()
        return Target(
            vector=vector,
            steered_by=tuple(one.preference.text for one in steered.preferences),
            matched=matched,
            _steered=steered if mode == "signed" else None,
        )

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
        return _ranked(target, k, found, read, self._texts.of([read(document)[0] for document in found]))

    async def afind(self, target: Target, k: int, fetch: AsyncFetch[T], read: Read[T]) -> list[Found[T]]:
        """As `find`, without blocking the event loop."""
        found = await fetch(target.vector, checked_k(k))
        wanted = self._to_rank(target, k, found, read)
        if not wanted:
            return [Found(document) for document in found[:k]]
        if wanted > len(found):
            found = await fetch(target.vector, wanted)
        return _ranked(target, k, found, read, await self._texts.aof([read(document)[0] for document in found]))

    def _to_rank(self, target: Target, k: int, found: Sequence[T], read: Read[T]) -> int:
        """How many documents have to be ranked by their stances; 0 if the store's order is right."""
        if target._steered is None or not self.overfetch:
            return 0
        if not any(_penalty(read(document)[1], target.steered_by) for document in found):
            return 0
        # Fewer than asked for: there are no more.
        return len(found) if len(found) < k else self.overfetch * k


def checked_k(k: int) -> int:
    """How many documents to find.

    Raises:
        InvalidInputError: unless it is a whole number of at least 1.
    """
    if not isinstance(k, Integral) or isinstance(k, bool) or k < 1:
        raise InvalidInputError(f"k must be a whole number of at least 1, not {k!r}.")
    return int(k)


class TextVectors:
    """Embeddings of texts, each encoded when it is first asked for, and kept as long as it is among the last used.

    Safe to use from several threads.

    Args:
        encoder: Encodes texts.
        size: How many are kept.
    """

    def __init__(self, encoder: Encoder, *, size: int = 4096) -> None:
        self.encoder = encoder
        self.size = size
        self._kept: OrderedDict[bytes, FloatArray] = OrderedDict()
        self._lock = Lock()

    def of(self, texts: Sequence[str]) -> FloatArray:
        """Unit vectors, shape `(len(texts), d)`, of at least one text."""
        keys, known, missing = self._known(texts)
        if missing:
            known |= self._keep(missing, embed(self.encoder, list(missing.values())))
        return np.stack([known[key] for key in keys])

    async def aof(self, texts: Sequence[str]) -> FloatArray:
        """As `of`, without blocking the event loop."""
        keys, known, missing = self._known(texts)
        if missing:
            known |= self._keep(missing, await aembed(self.encoder, list(missing.values())))
        return np.stack([known[key] for key in keys])

    def _known(self, texts: Sequence[str]) -> tuple[list[bytes], dict[bytes, FloatArray], dict[bytes, str]]:
        keys = [blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest() for text in texts]
        known: dict[bytes, FloatArray] = {}
        missing: dict[bytes, str] = {}
        with self._lock:
            for key, text in zip(keys, texts, strict=True):
                vector = self._kept.get(key)
                if vector is None:
                    missing[key] = text
                else:
                    self._kept.move_to_end(key)
                    known[key] = vector
        return keys, known, missing

    def _keep(self, texts: Mapping[bytes, str], vectors: FloatArray) -> dict[bytes, FloatArray]:
        # Copies: a row would keep all the others alive.
        made = {key: vector.copy() for key, vector in zip(texts, vectors, strict=True)}
        with self._lock:
            self._kept.update(made)
            while len(self._kept) > self.size:
                self._kept.popitem(last=False)
        return made


def stance_to(metadata: Mapping[str, Any], preferences: Collection[str]) -> Stance | None:
    """How a document stands to some preferences, by its metadata: its worst stance, from supports to conflicts.

    `epic_alignments` (JSON, a list of objects with `preference` and `stance`) tells of each preference; without it,
    `epic_stance` of `epic_preference`, or of whoever asks if that is not said. What cannot be read says nothing.

    Returns:
        None if it is not known.
    """
    stances = [
        _STANCES.get(str(told.get("stance")))
        for told in _told(metadata)
        if told.get("preference") is None or str(told["preference"]) in preferences
    ]
    return max(filter(None, stances), key=PENALTY.__getitem__, default=None)


_STANCES = {stance.value: stance for stance in Stance}


def _told(metadata: Mapping[str, Any]) -> list[dict[str, Any]]:
    alignments = metadata.get("epic_alignments")
    if isinstance(alignments, str):
        try:
            alignments = json.loads(alignments)
        except (ValueError, RecursionError):
            alignments = None
    if isinstance(alignments, list):
        return [told for told in alignments if isinstance(told, dict)]
    return [{"preference": metadata.get("epic_preference"), "stance": metadata.get("epic_stance")}]


def _penalty(metadata: Mapping[str, Any], preferences: Collection[str]) -> float:
    if "epic_stance" not in metadata and "epic_alignments" not in metadata:
        return 0.0
    stance = stance_to(metadata, preferences)
    return 0.0 if stance is None else PENALTY[stance]


def _ranked(target: Target, k: int, found: Sequence[T], read: Read[T], vectors: FloatArray) -> list[Found[T]]:
    assert target._steered is not None
    penalties = np.array([_penalty(read(document)[1], target.steered_by) for document in found], dtype=np.float32)
    scores = vectors @ target._steered.vector - penalties
    return [Found(found[row], float(scores[row])) for row in np.argsort(-scores, kind="stable")[:k]]


def _live(preferences: Iterable[str | Preference]) -> tuple[str | Preference, ...]:
    """Those that have not expired, each once; as they were given, so that looking them up costs next to nothing."""
    if isinstance(preferences, (str, Preference)):
        preferences = (preferences,)
    if not isinstance(preferences, Iterable):
        raise InvalidInputError(f"preferences must be several texts, not {type(preferences).__name__}.")
    now = time.time()
    live = []
    for preference in preferences:
        if isinstance(preference, Preference):
            if preference.expires_at is not None and preference.expires_at.timestamp() <= now:
                continue
        elif not isinstance(preference, str):
            raise InvalidInputError(f"A preference must be a text, not {type(preference).__name__}.")
        live.append(preference)
    return tuple(dict.fromkeys(live))


def _direction(embedding: Sequence[float]) -> tuple[FloatArray, float]:
    """The unit vector, and the length that was taken off."""
    vector = np.asarray(embedding, dtype=np.float32)
    length = float(np.linalg.norm(vector)) if vector.ndim == 1 else 0.0
    if not 0.0 < length < np.inf:
        raise EncoderError(
            "The embedding of the query is not one list of finite numbers, or all of them are zero. Check the model."
        )
    return (vector / length).astype(np.float32), length


def _listed(embedding: Sequence[float]) -> list[float]:
    return embedding if isinstance(embedding, list) else list(map(float, embedding))
