"""Retrieval over the graph: a walk from the query's entities and nearest passages (HippoRAG 2), with steering.

The walk starts at entities that the query names and, with a smaller weight, at the passages whose instructions or texts
are nearest to the steered query; it ends at passages. If the query names no entity of the graph, those nearest
passages are the result.

Steering moves the second kind of start. In signed mode the most visited passages are also ranked by what their texts
say for and against the preferences that are relevant to them all (`QuerySteering.score_texts`).
"""

from __future__ import annotations

import time
from bisect import insort
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epic_graph.extraction.base import PhraseExtractor, entity_key
from epic_graph.loaded import LoadedGraph
from epic_memory.encoders.base import Embed, Encoder
from epic_memory.encoders.cache import TextVectors
from epic_memory.pipeline.candidates import candidates
from epic_memory.pipeline.search import (
    Search,
    best_entries,
    fact_hits,
    facts_by_text,
    made_hits,
    prepared,
    told_in,
)
from epic_memory.pipeline.search import search as held_search
from epic_memory.pipeline.session import Session
from epic_memory.preferences.foreign import is_foreign_to
from epic_memory.runtime.effects import Clock, Effects
from epic_memory.steering.query_steering import QuerySteering, SteeredQuery, Steerings
from epic_memory.steering.question_kind import QuestionKind, kind_of, recalls
from epic_memory.steering.ranking import Verdicts
from epic_memory.storage.namespace import Namespace
from epic_memory.types import FloatArray, Hit, Hits, Preference
from epic_memory.types.verdicts import penalties
from epic_memory.types.weights import StageWeights

# At how many passages the walk starts.
_STARTS = 50
# Of how many of the most visited passages the texts are scored in signed mode.
_SCORED = 20


@dataclass(frozen=True, kw_only=True)
class GraphWeights(StageWeights):
    """Numbers of the ranking by a walk."""

    damping: float  # probability that the walk goes on along an edge instead of restarting
    passage: float  # weight of the nearest passage as a start of the walk; an entity's is at most 1
    texts: float  # weight of the score of a text beside its share of the walk, which is at most 1
    left: Mapping[str, float]  # factor of a share by the stance: shares differ by orders of magnitude


class GraphHits(Hits):
    """Hits with the start of the walk.

    Attributes:
        entities: Names of the entities it started at, with their shares of the start; empty if the query names no
            entity of the graph, so that only similarity decided.
    """

    def __init__(self, hits: Iterable[Hit] = (), *, entities: Sequence[tuple[str, float]] = (), **about: Any) -> None:
        super().__init__(hits, **about)
        self.entities = list(entities)


class Reader:
    """Caches for scoring passages by their texts with one encoder: text embeddings, and steerings."""

    def __init__(self, encoder: Encoder) -> None:
        self.encoder = encoder
        self.texts = TextVectors(encoder)
        self.steerings = Steerings(encoder)


@dataclass(frozen=True, kw_only=True)
class Visited:
    """The result of a walk.

    Attributes:
        best: Entry rows of passages with their scores, best first.
        allowed: Entry rows that may be found; None for all.
        steered: The steered query.
        entities: The entities at which the walk began, with their shares.
        texts: The texts of the first passages, if these are to be scored; else empty.
        preferences: The preferences that may steer.
        matters: The preferences by how much they matter, heaviest first, each with the chance that it does.
    """

    best: list[tuple[int, float]]
    allowed: NDArray[np.int64] | None
    steered: SteeredQuery
    kind: QuestionKind | None
    entities: list[tuple[str, float]]
    texts: list[str]
    preferences: tuple[Preference, ...]
    matters: list[tuple[Preference, float]]


def search(
    session: Session,
    hold: Callable[[], LoadedGraph | None],
    reader: Reader,
    asked: Search,
    clock: Clock,
) -> Effects[GraphHits]:
    """Run stage 3 with the walk, and return the k best passages; without a start entity, the memory's own hits.

    Args:
        hold: Returns the graph in the file's current state, or None without one; the caller holds the lock.
        reader: The caches for the memory's encoder.
    """
    encoder = session.encoder
    named = [entity_key(name) for name in PhraseExtractor().names(asked.query)]
    (vector,) = yield Embed(encoder, [asked.query], "embedding", query=True)
    yield from prepared(session, asked.namespace, asked.mode)
    visited: Visited | None = None
    with session.lock, session.store.reading():
        started = time.perf_counter()
        held = hold()
        if held is not None and session.encoder is encoder and (seeds := _entity_seeds(held, named)):
            clock.add("linking", started)
            visited = _walked(session, held, asked, vector, seeds, clock)
    said: FloatArray | None = None
    if visited is not None and visited.texts:
        embeddings: FloatArray = yield from reader.texts.embedding(visited.texts, "telling apart")
        steering: QuerySteering = yield from reader.steerings.steering(visited.preferences, asked.mode)
        started = time.perf_counter()
        said = steering.score_texts(vector, visited.texts, embeddings, scaled=False, kind=visited.kind)
        clock.add("telling apart", started)
    if session.encoder is not encoder:  # the memory was embedded anew meanwhile
        return (yield from search(session, hold, Reader(session.encoder), asked, clock))
    if visited is None:
        hits = yield from held_search(session, asked, clock, vector)
        return GraphHits(hits, **vars(hits))
    with session.lock, session.store.reading():
        return _answered(session, asked, visited, said, clock)


def _walked(
    session: Session,
    held: LoadedGraph,
    asked: Search,
    vector: FloatArray,
    seeds: dict[int, float],
    clock: Clock,
) -> Visited:
    started = time.perf_counter()
    space = session.space(asked.namespace)
    positions = None if asked.options.preferences is None else space.positions(asked.options.preferences)
    steering = session.steering_of(space, asked.mode)
    kind = kind_of(session.encoder, asked.query, vector)
    steered = steering.steer_vector(vector, only=positions, kind=kind, turns=False)
    started = clock.add("steering", started)
    allowed = space.allowed(asked.filter, positions, supporting=asked.options.stance_policy == "only_supports")
    near, cosines = _near(session, space, replace(asked, k=max(asked.k, _STARTS)), steered.vector, allowed)
    started = clock.add("index", started)
    weights = GraphWeights.shipped()
    passages = _passage_seeds(space, near[:_STARTS], weights.passage)
    ids, shares = held.network.pagerank(seeds, passages, damping=weights.damping)
    scores_texts = asked.mode == "signed" and bool(space.preferences) and asked.options.stance_policy != "any"
    count = _fetched(asked)
    count = max(count, _SCORED) if scores_texts else count
    best = _best(space, replace(asked, k=count), steered.vector, near, cosines, allowed, ids, shares)
    started = clock.add("walk", started)
    texts: list[str] = []
    if scores_texts:
        rows = [space.item_of[row] for row, _ in best[:_SCORED]]
        items = session.store.items.at(rows)
        texts = [items[row].text for row in rows]
        clock.add("index", started)
    # As in a memory, what is held about the query's topic helps to tell which preferences matter.
    places = space.texts.places([space.item_of[row] for row, _ in near[: asked.k]])
    about = space.texts.vectors[places[places >= 0]]
    chosen = steering.choose(vector, only=positions, candidates=about, kind=kind)
    total = sum(seeds.values())
    names = [(held.name_of[row], weight / total) for row, weight in seeds.items()]
    return Visited(
        best=best,
        allowed=allowed,
        steered=steered,
        kind=kind,
        entities=sorted(names, key=lambda pair: -pair[1]),
        texts=texts,
        matters=list(chosen.matters) if asked.mode == "signed" else [],
        preferences=tuple(space.preferences if positions is None else [space.preferences[row] for row in positions]),
    )


def _near(
    session: Session, space: Namespace, asked: Search, vector: FloatArray, allowed: NDArray[np.int64] | None
) -> tuple[list[tuple[int, float]], dict[int, float]]:
    """Return the entry rows of the nearest passages with their scores, best first, and the known cosines.

    A passage is found by its text and by its instructions, as in a memory's search.
    """
    if asked.options.keys == "instruction":
        return best_entries(space, asked, vector, allowed), {}
    items = None if allowed is None else frozenset(space.item_of[row] for row in allowed.tolist())
    encoder = session.encoder
    foreign = is_foreign_to(encoder, asked.query, space.preferences)
    found = candidates(space, encoder, asked.query, vector, asked.k, items=items, foreign=foreign)
    rows_of = _allowed_rows(space, allowed)
    prefers = asked.options.stance_policy == "prefer"
    cosines: dict[int, float] = {}
    near: list[tuple[int, float]] = []
    for item, topic in zip(found.rows, found.topics.tolist(), strict=True):
        if rows := rows_of(item):
            row = _spoken_for(space, rows, vector, cosines)
            near.append((row, topic - (penalties()[space.stance_of[row]] if prefers else 0.0)))
    near.sort(key=lambda pair: -pair[1])
    return near[: asked.k], cosines


def _answered(session: Session, asked: Search, visited: Visited, said: FloatArray | None, clock: Clock) -> GraphHits:
    started = time.perf_counter()
    space, best, steered = session.space(asked.namespace), visited.best, visited.steered
    if said is not None:
        # Scoring a text never lowers its rank: passages that were not scored stay behind.
        gained = (GraphWeights.shipped().texts * (said - said.min(initial=np.inf))).tolist()
        first = [(row, share + gain) for (row, share), gain in zip(best, gained, strict=False)]
        best = sorted(first, key=lambda pair: -pair[1]) + best[len(first) :]
    # Without passages that have gone meanwhile.
    best = [(row, score) for row, score in best if row in space.item_of]
    best = _yielding(space, asked, visited, best)[: _fetched(asked)]
    items = [(space.item_of[row], score) for row, score in best]
    hits = made_hits(space, steered.vector, items, visited.allowed)
    vectors, shown = list(space.instructions([row for row, _ in best])), None
    if asked.options.chooser is not None:
        shown = asked.options.chooser.choose(asked.query, steered.query, hits, vectors, asked.k, visited.matters)
        best, hits, vectors = shown.chosen(best, hits, vectors)
    facts = facts_by_text(session, space, asked, steered.query)
    clock.add("index", started)
    return GraphHits(
        hits,
        vector=steered.vector,
        query=steered.query,
        vectors=vectors,
        timings=clock.parts,
        steered_by=[(s.preference.text, s.similarity, s.weight) for s in steered.preferences],
        matters=visited.matters,
        facts=fact_hits(space, steered.query, facts),
        entities=visited.entities,
        ranking=shown,
        language=told_in(session, space, visited.matters),
    )


def _yielding(
    space: Namespace, asked: Search, visited: Visited, best: list[tuple[int, float]]
) -> list[tuple[int, float]]:
    """Return passages with those that conflict with a preference below others that answer, as in a memory."""
    if asked.options.stance_policy == "any" or recalls(visited.kind) or not best:
        return best
    items = [space.item_of[row] for row, _ in best]
    verdicts = Verdicts.of([space.stances(item) for item in items], visited.preferences, {})
    places = space.texts.places(items)
    topics = np.where(places < 0, 0.0, space.texts.cosines(visited.steered.query)[places]).astype(np.float32)
    scores = verdicts.yielding(np.array([score for _, score in best], dtype=np.float32), topics)
    order = np.argsort(-scores, kind="stable").tolist()
    return [(best[place][0], float(scores[place])) for place in order]


def _fetched(asked: Search) -> int:
    return asked.k if asked.options.chooser is None else max(asked.k, asked.options.chooser.candidates)


def _entity_seeds(held: LoadedGraph, named: Sequence[str]) -> dict[int, float]:
    """Return entity row to weight, for the entities that a query names: one over how many passages mention it."""
    rows = [held.row_of[key] for key in named if key in held.row_of]
    return {row: 1.0 / max(1, count) for row, count in zip(rows, held.network.mentions(rows), strict=True)}


def _passage_seeds(space: Namespace, best: Sequence[tuple[int, float]], weight: float) -> dict[int, float]:
    """Return item row to weight: from `weight` for the nearest passage down to 0 for the last."""
    if not best:
        return {}
    scores = [score for _, score in best]
    low, high = min(scores), max(scores)
    return {space.item_of[row]: weight * ((score - low) / (high - low) if high > low else 1.0) for row, score in best}


def _best(
    space: Namespace,
    asked: Search,
    vector: FloatArray,
    near: Sequence[tuple[int, float]],
    cosines: dict[int, float],
    allowed: NDArray[np.int64] | None,
    ids: NDArray[np.int64],
    shares: FloatArray,
) -> list[tuple[int, float]]:
    """Return the k best passages, each by its best entry row, with its share of the walk as score.

    The most visited passage's share is 1; a share is multiplied by a factor for the stance. Passages that the walk does
    not reach come last, by similarity.
    """
    rows_of = _allowed_rows(space, allowed)
    reached = np.flatnonzero(shares > 0.0)
    order = reached[np.lexsort((ids[reached], -shares[reached]))]
    found: list[tuple[int, float]] = []
    scores: list[float] = []
    items = set()
    for item, share in zip(ids[order].tolist(), (shares[order] / shares[order[:1]]).tolist(), strict=True):
        if len(scores) >= asked.k and share <= scores[-asked.k]:
            break  # no later passage can score higher
        if rows := rows_of(item):
            row = _spoken_for(space, rows, vector, cosines)
            left = GraphWeights.shipped().left[space.stance_of[row].value]
            score = share * (left if asked.options.stance_policy == "prefer" else 1.0)
            found.append((row, score))
            insort(scores, score)
            items.add(item)
    found.sort(key=lambda pair: -pair[1])
    found += [(row, 0.0) for row, _ in near if space.item_of[row] not in items]
    return found[: asked.k]


def _allowed_rows(space: Namespace, allowed: NDArray[np.int64] | None) -> Callable[[int], Sequence[int]]:
    """Return a function of an item's row to those of its entries' rows that may be found."""
    if allowed is None:
        return lambda item: space.rows_of.get(item, ())
    rows = set(allowed.tolist())
    return lambda item: [row for row in space.rows_of.get(item, ()) if row in rows]


def _spoken_for(space: Namespace, rows: Sequence[int], vector: FloatArray, cosines: dict[int, float]) -> int:
    """Return the best-scoring entry of an item, as a memory's search does."""
    for row in rows:
        if row not in cosines:
            cosines[row] = float(space.instructions([row])[0] @ vector)
    return max(rows, key=lambda row: (cosines[row] - penalties()[space.stance_of[row]], row))
