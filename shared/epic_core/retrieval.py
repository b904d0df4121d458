"""Retrieval: embed the query, steer it, search the instruction index, merge entries into distinct items."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from epic_core.errors import InvalidInputError
from epic_core.fallback import SecondTier, hits_of
from epic_core.filters import Filter
from epic_core.relevance import default_floor
from epic_core.space import PENALTY, Space
from epic_core.state import State
from epic_core.steering import Mode, SteeredQuery, checked_mode
from epic_core.steps import Ask, Clock, Encode, Sample, Steps
from epic_core.store import Store
from epic_core.types import FloatArray, Hit, Hits, Preference, checked_k, checked_text

BY_VECTOR = "(a vector)"

StancePolicy: TypeAlias = Literal["prefer", "only_supports", "any"]


@dataclass(frozen=True, kw_only=True)
class Search:
    """The arguments of a search, checked."""

    query: str
    embed: tuple[str, ...]
    k: int
    filter: Filter | None
    mode: Mode
    preferences: tuple[str | Preference, ...] | None
    stance_policy: str
    namespace: str
    distinct: bool


def search(state: State, asked: Search, clock: Clock) -> Steps[Hits]:
    """Stage 3 and the search, with the fallback where the query matches no preference well."""
    encoder = state.encoder
    vector = mean_vector((yield Encode(encoder, asked.embed, "embedding", query=True)))
    yield from sampled(state, asked.namespace, asked.mode)
    if state.encoder is not encoder:  # embedded anew in the meantime
        return (yield from search(state, asked, clock))
    return (yield from found_near(state, asked, vector, clock))


def sampled(state: State, namespace: str, mode: Mode) -> Steps[None]:
    """Encodes what steering has to know of an encoder once, if there is anything to search."""
    with state.lock:
        space = state.space(namespace)
        steering = space.steering(mode) if space.item_of and mode == "signed" else None
    if steering is not None and steering.preferences and steering.samples is None:
        yield Sample(steering)


def found_near(state: State, asked: Search, vector: FloatArray, clock: Clock) -> Steps[Hits]:
    """As `search`, with E(q)."""
    with state.lock, state.store.reading():
        started = time.perf_counter()
        space = state.space(asked.namespace)
        positions = None if asked.preferences is None else space.positions(asked.preferences)
        steered = space.steering(asked.mode).steer_for_index(vector, only=positions)
        started = clock.add("steering", started)
        hits, rows = _first_tier(state.store, space, asked, steered, positions)
        clock.add("index", started)
        wanting = not rows or _matches_nothing(state, steered, hits[0], space.index.vector(rows[0]))
        # A callable knows nothing of other users: it is asked for one's own namespace only.
        own = asked.namespace == state.namespace or isinstance(state.fallback, SecondTier)
        asks = state.fallback is not None and wanting and own
        if asks and isinstance(state.fallback, SecondTier):
            hits = _merged(_second_tier(state.store, space, asked, vector), hits, asked.k)
            clock.add("index", started)
        vectors = [] if asks else [space.index.vector(row) for row in rows]
    if asks and not isinstance(state.fallback, SecondTier):
        found = yield Ask(state.fallback, asked.query, asked.k)
        broader = hits_of(found)
        if asked.filter is not None:
            broader = [hit for hit in broader if asked.filter.matches(hit.item.metadata)]
        hits = _merged(broader, hits, asked.k)
    with state.lock:
        state.count_uses(rows)
    return Hits(
        hits,
        vector=steered.vector,
        query=vector,
        vectors=vectors,
        timings=clock.parts,
        steered_by=[(s.preference.text, s.similarity, s.weight) for s in steered.preferences],
        fallback=asks,
    )


def search_vector(state: State, asked: Search, vector: FloatArray) -> Hits:
    """The entries nearest to a vector as it is; nothing steers, and no fallback is asked."""
    with state.lock, state.store.reading():
        space = state.space(asked.namespace)
        steered = SteeredQuery(vector=vector, query=vector, preferences=(), nearest=None)
        hits, rows = _first_tier(state.store, space, asked, steered, None)
        state.count_uses(rows)
        return Hits(hits, vector=vector, vectors=[space.index.vector(row) for row in rows])


def checked_vector(
    vector: Sequence[float] | FloatArray, dimension: int, of: object, what: str = "A vector to search for"
) -> FloatArray:
    """A vector of numbers as a unit vector, shape `(d,)`; one of zeros as it is.

    Raises:
        InvalidInputError: for another dimension than what is searched has, or numbers that are not finite.
    """
    try:
        array = np.asarray(vector, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInputError(f"{what} must be a list of numbers.") from None
    norm = float(np.linalg.norm(array)) if array.ndim == 1 else np.nan
    if not np.isfinite(norm):
        raise InvalidInputError(f"{what} must be a list of finite numbers.")
    if len(array) != dimension:
        raise InvalidInputError(
            f"The vector has {len(array)} dimensions, those of {of} have {dimension}. Embed it with the model that was"
            " used there."
        )
    unit: FloatArray = (array / norm if norm > 0.0 else array).astype(np.float32)
    return unit


def checked_search(
    state: State,
    query: str,
    k: int,
    *,
    filter: Filter | None,
    steering: Mode | None,
    preferences: Iterable[str | Preference] | None,
    stance_policy: str,
    namespace: str | None,
    distinct: bool,
    embed: Sequence[str] | None = None,
) -> Search:
    """The arguments of `EpicMemory.search`, or with `BY_VECTOR` for a query of a search by vector.

    Raises:
        InvalidInputError: for those that cannot be.
    """
    checked_text(query, "The query")
    if isinstance(preferences, (str, Preference)):
        preferences = [preferences]
    if preferences is not None and not isinstance(preferences, Iterable):
        raise InvalidInputError(f"preferences must be several texts, not {type(preferences).__name__}.")
    return Search(
        query=query,
        embed=(query,) if embed is None else _checked_texts(embed),
        k=checked_k(k),
        filter=checked_filter(filter),
        mode=state.steering if steering is None else checked_mode(steering),
        preferences=None if preferences is None else tuple(preferences),
        stance_policy=checked_stance_policy(stance_policy),
        namespace=state.namespace if namespace is None else checked_text(namespace, "The namespace"),
        distinct=distinct,
    )


def checked_stance_policy(policy: object) -> str:
    """The policy.

    Raises:
        InvalidInputError: for anything that is none.
    """
    known = get_args(StancePolicy)
    if policy not in known:
        raise InvalidInputError(f"stance_policy must be one of {', '.join(known)}; not {policy!r}.")
    return str(policy)


def checked_filter(filter: Filter | None) -> Filter | None:
    """The condition, or None.

    Raises:
        InvalidInputError: for anything else.
    """
    if filter is not None and not isinstance(filter, Filter):
        raise InvalidInputError(f"filter must be an epic_core.Filter, not {type(filter).__name__}.")
    return filter


def _checked_texts(embed: object) -> tuple[str, ...]:
    """The texts that are searched for in place of a query."""
    given = (embed,) if isinstance(embed, str) else embed
    if not isinstance(given, Iterable) or isinstance(given, (bytes, Mapping)):
        raise InvalidInputError(f"embed must be several texts, not {type(given).__name__}.")
    texts = tuple(checked_text(text, "A text of embed") for text in given)
    if not texts:
        raise InvalidInputError("embed has no texts. Leave it out to search for the query itself.")
    return texts


def mean_vector(vectors: FloatArray) -> FloatArray:
    """Unit vectors `(n, d)` as one: their mean as a unit vector, one alone as it is."""
    mean: FloatArray = vectors.mean(axis=0, dtype=np.float32)
    norm = float(np.linalg.norm(mean))
    if len(vectors) > 1 and norm > 0.0:
        mean /= np.float32(norm)
    return mean


def _matches_nothing(state: State, steered: SteeredQuery, first: Hit, entry: FloatArray) -> bool:
    """Whether a query is near no preference, or what was found first would not have been near without steering."""
    floor = default_floor(state.encoder)
    gained = float(entry @ (steered.vector - steered.query))
    return steered.nearest is None or steered.nearest < floor or first.score - gained < floor


def _merged(first: Iterable[Hit], then: Iterable[Hit], k: int) -> list[Hit]:
    """Hits of the fallback, filled up with the memory's own; each item once."""
    merged: dict[str, Hit] = {}
    for hit in (*first, *then):
        merged.setdefault(hit.item.id, hit)
    return list(merged.values())[:k]


def _first_tier(
    store: Store, space: Space, asked: Search, steered: SteeredQuery, positions: NDArray[np.intp] | None
) -> tuple[list[Hit], list[int]]:
    """Hits, and the rows of the entries that made them."""
    allowed = space.allowed(asked.filter, positions, supporting=asked.stance_policy == "only_supports")
    best, cosines = best_entries(space, asked, steered.vector, allowed)
    return hits_at(store, space, asked, steered.vector, best, cosines, allowed), [row for row, _ in best]


def hits_at(
    store: Store,
    space: Space,
    asked: Search,
    vector: FloatArray,
    best: Sequence[tuple[int, float]],
    cosines: Mapping[int, float],
    allowed: NDArray[np.int64] | None,
) -> list[Hit]:
    """Hits of entry rows with their scores, each with all entries of its item that a search may find.

    Args:
        vector: What was searched for.
        cosines: With it, of entry rows where they are known already.
        allowed: Entry rows that may be found; None for all.
    """
    if not best:
        return []
    allowed_rows = None if allowed is None else set(allowed.tolist())
    groups: list[list[int]] = []
    scores: dict[int, float] = {}
    for row, _ in best:
        rows = space.rows_of[space.item_of[row]] if asked.distinct else [row]
        groups.append([row for row in rows if allowed_rows is None or row in allowed_rows])
        for member in groups[-1]:
            known = cosines.get(member)
            scores[member] = float(space.index.vector(member) @ vector) if known is None else known
    items = store.held_at(list({space.item_of[row] for row, _ in best}))
    preferences = dict(zip(space.preference_rows, space.preferences, strict=True))
    entries = store.entries_at(scores, items, preferences, space.namespace)
    hits = []
    for (row, score), rows in zip(best, groups, strict=True):
        ordered = sorted(rows, key=scores.__getitem__, reverse=True)
        hits.append(
            Hit(item=items[space.item_of[row]].item, score=score, entries=tuple(entries[member] for member in ordered))
        )
    return hits


def best_entries(
    space: Space, asked: Search, vector: FloatArray, allowed: NDArray[np.int64] | None
) -> tuple[list[tuple[int, float]], dict[int, float]]:
    """The k best entry rows with their scores, best first, and the cosines of all rows looked at.

    Of each item only the best entry counts, unless told otherwise.
    """
    size = len(space.index) if allowed is None else len(allowed)
    fetch = min(size, 2 * asked.k + 8 if asked.distinct else asked.k)
    prefers = asked.stance_policy == "prefer"
    while True:
        rows, scores = space.index.search(vector, fetch, allowed=allowed, penalised=prefers)
        best: dict[int, tuple[int, float]] = {}
        cosines: dict[int, float] = {}
        for row, score in zip(rows.tolist(), scores.tolist(), strict=True):
            best.setdefault(space.item_of[row] if asked.distinct else row, (row, score))
            cosines[row] = score + PENALTY[space.stance_of[row]] if prefers else score
        if len(best) >= asked.k or fetch >= size:
            return list(best.values())[: asked.k], cosines
        fetch = min(size, fetch * 4)


def _second_tier(store: Store, space: Space, asked: Search, vector: FloatArray) -> list[Hit]:
    """The nearest texts of the second tier, by the query as it is."""
    allowed = None
    if asked.filter is not None:
        allowed = np.array(sorted(space.items_matching(asked.filter)), dtype=np.int64)
    rows, cosines = space.second.search(vector, asked.k, allowed=allowed)
    items = store.items_at(rows.tolist()) if len(rows) else {}
    return [
        Hit(item=items[row], score=cosine, tier="second")
        for row, cosine in zip(rows.tolist(), cosines.tolist(), strict=True)
    ]
