"""Retrieval: embed the query, find candidates by text, instruction and exact words, rank them, merge entries."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray
from typing_extensions import TypeIs

from epic_memory.encoders.base import Embed, Encoder
from epic_memory.encoders.static import default_encoder
from epic_memory.errors import InvalidInputError
from epic_memory.filters import Filter
from epic_memory.pipeline import candidates as finding
from epic_memory.pipeline import ranking
from epic_memory.pipeline.choice import check_trained_with, pool
from epic_memory.pipeline.fallback import AskFallback, hits_of, merged
from epic_memory.pipeline.on_demand import FOUND, Unjudged, judged_in_time, judges_on_demand, unjudged
from epic_memory.pipeline.session import Session
from epic_memory.runtime.effects import Clock, Effects
from epic_memory.runtime.telemetry import counts_of_search, span
from epic_memory.steering.query_steering import QuerySteering, SteeredQuery
from epic_memory.steering.question_kind import QuestionKind, question_kind
from epic_memory.steering.relevance import default_floor
from epic_memory.steering.signed import Chosen, QueryNames
from epic_memory.storage.namespace import Namespace
from epic_memory.storage.store import Store
from epic_memory.types import FloatArray, Hit, Hits, MemoryEntry, Preference, checked_k, checked_text
from epic_memory.types.modes import Mode
from epic_memory.types.results import Ranking
from epic_memory.types.search_options import SearchOptions, checked_options
from epic_memory.types.verdicts import penalties

# Most facts of the user that a context shows.
_FACTS = 3

BY_VECTOR = "(a vector)"


@dataclass(frozen=True, kw_only=True)
class Search:
    """A search, checked.

    Attributes:
        mode: How the query is steered, by the options or the memory.
        options: As the caller gave them.
    """

    query: str
    k: int
    filter: Filter | None
    namespace: str
    mode: Mode
    options: SearchOptions

    @property
    def words(self) -> str:
        """The query's words; empty for a search by vector."""
        return "" if self.query == BY_VECTOR else self.query

    @property
    def kind(self) -> QuestionKind | None:
        """The kind of the question, if it has words that tell."""
        return question_kind(self.words) if self.words else None


def search(session: Session, asked: Search, clock: Clock) -> Effects[Hits]:
    """Search, and ask the fallback where nothing held is relevant."""
    with span("search", clock) as counts:
        encoder = session.encoder
        vector, names = yield from _embedded(session, asked, encoder)
        hits = yield from found_near(session, asked, encoder, vector, clock, names)
        counts.update(counts_of_search(hits, asked.k))
        return hits


def preferences_by_weight(session: Session, query: str, namespace: str) -> Effects[list[tuple[Preference, float]]]:
    """Weigh the preferences by how much they matter to a query, heaviest first, each with the chance that it does.

    What is held about the query's topic helps to tell, as in a search.
    """
    asked = checked_search(session, query, 1, namespace=namespace, options=SearchOptions(steering="signed"))
    result = None
    while result is None:
        encoder = session.encoder
        vector, names = yield from _embedded(session, asked, encoder)
        yield from prepared(session, namespace, "signed")
        result = _held_near(session, asked, encoder, vector, names, Clock())
    return result.matters


def prepared(session: Session, namespace: str, mode: Mode) -> Effects[QuerySteering]:
    """Encode what steering needs of an encoder and of the preferences, once."""
    with session.lock:
        steering = session.steering_of(session.space(namespace), mode)
    yield from steering.preparing()
    return steering


def _embedded(session: Session, asked: Search, encoder: Encoder) -> Effects[tuple[FloatArray, QueryNames | None]]:
    """Return E(q), and the query's proper names if preferences are called by others."""
    with session.lock:
        space = session.space(asked.namespace, look=False)
        words = session.steering_of(space, asked.mode).names_apart(asked.query)
    vectors: FloatArray = yield Embed(encoder, [asked.query, *words], "embedding", query=True)
    return vectors[0], QueryNames(tuple(words), vectors[1:]) if words else None


def found_near(
    session: Session,
    asked: Search,
    encoder: Encoder,
    vector: FloatArray,
    clock: Clock,
    names: QueryNames | None = None,
) -> Effects[Hits]:
    """Search with E(q) of an encoder, and ask the fallback where nothing held is relevant."""
    result, waited = None, False
    while result is None:
        result = _held_near(session, asked, encoder, vector, names, clock)
        if result is None:
            yield from prepared(session, asked.namespace, asked.mode)
            if session.encoder is not encoder:  # embedded anew in the meantime
                return (yield from search(session, asked, clock))
        elif result.unjudged and not waited:
            waited = True
            result = None if (yield from judged_in_time(session, encoder, result.unjudged)) else result
    # A callable knows nothing of other users: it is asked for one's own namespace only.
    asks = session.fallback is not None and not result.relevant and asked.namespace == session.namespace
    hits = result.hits
    if asks:
        answer = yield AskFallback(session.fallback, asked.query, asked.k)
        broader = hits_of(answer)
        if asked.filter is not None:
            broader = [hit for hit in broader if asked.filter.matches(hit.item.metadata)]
        hits = merged(broader, hits, asked.k)
    return Hits(
        hits,
        vector=result.steered.vector,
        query=vector,
        vectors=[] if asks else result.vectors,
        timings=clock.parts,
        steered_by=[(s.preference.text, s.similarity, s.weight) for s in result.steered.preferences],
        matters=result.matters,
        fallback=asks,
        relevant=result.relevant,
        facts=result.facts,
        ranking=None if asks else result.ranking,
    )


def _held_near(
    session: Session, asked: Search, encoder: Encoder, vector: FloatArray, names: QueryNames | None, clock: Clock
) -> Found | None:
    """Search what is held with E(q); return None if steering has to be prepared, or another encoder is used now."""
    with session.lock, session.store.reading():
        started = time.perf_counter()
        space = session.space(asked.namespace)
        steering = session.steering_of(space, asked.mode)
        if not steering.ready or session.encoder is not encoder:
            return None
        positions = None if asked.options.preferences is None else space.positions(asked.options.preferences)
        # The paper steers what is searched for; signed steering ranks what was found.
        paper = asked.options.keys == "instruction" or asked.mode == "paper"
        steered = steering.steer_vector(vector, only=positions, turns=False) if paper else _unsteered(vector, names)
        started = clock.add("steering", started)
        result = _found(session, space, asked, steering, steered, positions)
        clock.add("index", started)
        return result


@dataclass(frozen=True, kw_only=True)
class Found:
    """The result of a search, before the fallback is asked.

    Attributes:
        hits: Best first.
        vectors: What each hit was found by, each shape `(d,)`.
        steered: The query with the preferences that steered it.
        relevant: Whether anything held is relevant to the query.
        matters: The preferences by how much they matter, heaviest first, each with the chance that it does.
        facts: The facts of the user that are relevant, best first.
        ranking: How they were chosen of more results.
        unjudged: What was found and nobody has judged under the preferences that matter.
    """

    hits: list[Hit]
    vectors: list[FloatArray]
    steered: SteeredQuery
    relevant: bool
    matters: list[tuple[Preference, float]]
    facts: Sequence[Hit] = ()
    ranking: Ranking | None = None
    unjudged: Unjudged = ()


def _unsteered(vector: FloatArray, names: QueryNames | None = None) -> SteeredQuery:
    return SteeredQuery(vector=vector, query=vector, preferences=(), nearest=None, names=names)


def _found(
    session: Session,
    space: Namespace,
    asked: Search,
    steering: QuerySteering,
    steered: SteeredQuery,
    positions: NDArray[np.intp] | None,
) -> Found:
    allowed = space.allowed(asked.filter, positions, supporting=asked.options.stance_policy == "only_supports")
    if asked.options.keys == "instruction":
        return _by_instruction(session, space, asked, steering, steered, positions, allowed)
    query, min_score = asked.words, asked.options.min_score
    items_allowed = _items_allowed(space, asked, positions, allowed)
    if of_months := finding.of_months(space, query):
        items_allowed, min_score = of_months if items_allowed is None else of_months & items_allowed, None
    candidates = finding.candidates(
        space, query, steered.vector, asked.k, entries_allowed=allowed, items_allowed=items_allowed
    )
    kind = _kind_of(session, asked, steered.query)
    chosen = ranking.chosen_for(space, candidates, steering, steered.query, kind, only=positions, names=steered.names)
    counts = asked.options.stance_policy != "any"
    verdicts = ranking.verdicts_on(candidates, steering, chosen, kind, only=positions) if counts else None
    by_topic = finding.least_topic(session.encoder, candidates.topics, len(space.texts), "auto", kind)
    fits = 0.0 if verdicts is None or min_score != "auto" else verdicts.fits(candidates.topics >= by_topic)
    fitting = candidates.topics + np.float32(fits)
    least = finding.least_topic(session.encoder, fitting, len(space.texts), min_score, kind, chosen.mattering)
    relevant = bool(least < np.inf and fitting.max(initial=-np.inf) >= least)
    keep = fitting >= least
    candidates, verdicts = candidates.only(keep), None if verdicts is None else verdicts.only(keep)
    scores = ranking.ranked(space, candidates, steering, steered.query, chosen, verdicts)
    steered = steering.steered_by(chosen, steered.query, steered.vector, names=steered.names)
    order = np.lexsort((np.array(candidates.rows, dtype=np.int64), -scores)).tolist()
    shown_first = ranking.distinct(space, candidates, order, asked.k)
    if asked.options.chooser is not None:
        shown_first = pool(asked.options.chooser, shown_first, order)
    # Beyond a cosine's range differences say nothing any more; the order is decided.
    best = [(candidates.rows[place], min(1.0, max(-1.0, float(scores[place])))) for place in shown_first]
    groups = [space.rows_of.get(item, []) for item, _ in best]
    hits = made_hits(session.store, space, steered.vector, best, groups, {}, allowed, candidates.earlier)
    vectors = list(candidates.vectors[shown_first])
    matters, shown = _matters(steering, steered, chosen), None
    if asked.options.chooser is not None:
        shown = asked.options.chooser.choose(asked.query, steered.query, hits, vectors, asked.k, matters)
        best, groups, hits, vectors = shown.chosen(best, groups, hits, vectors)
    return Found(
        hits=hits,
        vectors=vectors,
        steered=steered,
        relevant=relevant,
        matters=matters,
        facts=fact_hits(
            session.store,
            space,
            steered.vector,
            finding.facts_among(space, candidates, session.encoder),
            candidates.earlier,
        ),
        ranking=shown,
        unjudged=unjudged(session, space, [candidates.rows[place] for place in order[:FOUND]], matters)
        if session.on_demand is not None
        and asked.mode == "signed"
        and counts
        and asked.namespace == session.namespace
        and judges_on_demand(session)
        else (),
    )


def _by_instruction(
    session: Session,
    space: Namespace,
    asked: Search,
    steering: QuerySteering,
    steered: SteeredQuery,
    positions: NDArray[np.intp] | None,
    allowed: NDArray[np.int64] | None,
) -> Found:
    """Find entries by their instructions alone, as the paper does."""
    best, cosines = best_entries(space, asked, steered.vector, allowed)
    least = asked.options.min_score if isinstance(asked.options.min_score, float) else -np.inf
    best = [(row, score) for row, score in best if score >= least]
    hits = hits_at(session.store, space, asked, steered.vector, best, cosines, allowed)
    rows = [row for row, _ in best]
    # What steering made of the query does not count: it is near to whatever is held.
    near = float(space.index.vector(rows[0]) @ steered.query) if rows else -1.0
    # Facts of the user have no instructions: they are found by their text, and are no hits here.
    found = facts_by_text(session, space, asked, steered.query)
    facts = fact_hits(session.store, space, steered.query, found)
    return Found(
        hits=hits,
        vectors=[space.index.vector(row) for row in rows],
        steered=steered,
        relevant=near >= default_floor(session.encoder) or bool(facts),
        matters=_matters(steering, steered, steering.choose(steered.query, only=positions, names=steered.names)),
        facts=facts,
    )


def facts_by_text(session: Session, space: Namespace, asked: Search, vector: FloatArray) -> list[tuple[int, float]]:
    """Return the facts of the user that are relevant to a query by their text alone, with their topics, best first."""
    where = asked.filter
    allowed = None if where is None else partial(space.items_matching, where)
    return finding.facts_by_text(space, session.encoder, asked.words, vector, _kind_of(session, asked, vector), allowed)


def _matters(steering: QuerySteering, steered: SteeredQuery, chosen: Chosen) -> list[tuple[Preference, float]]:
    if chosen.matters is not None:
        return list(chosen.matters)
    return [(one.preference, one.weight) for one in steered.preferences]


def _kind_of(session: Session, asked: Search, vector: FloatArray) -> QuestionKind | None:
    """Return the kind of the question, if it has words that tell; E(q) is not encoded again by the same encoder."""
    if not asked.words:
        return None
    bundled = session.encoder.fingerprint == default_encoder().fingerprint
    return question_kind(asked.words, vector if bundled else None)


def _items_allowed(
    space: Namespace, asked: Search, positions: NDArray[np.intp] | None, allowed: NDArray[np.int64] | None
) -> frozenset[int] | None:
    """Return the rows of the items that a search may find; None for all."""
    if allowed is None:
        return None
    matching = None if asked.filter is None else space.items_matching(asked.filter)
    if positions is None and asked.options.stance_policy != "only_supports":
        return matching
    # The light tier holds what was verified for no preference. Facts are found whatever the preferences are.
    facts = space.facts if matching is None else space.facts & matching
    return frozenset({*facts, *(space.item_of[row] for row in allowed.tolist())})


def is_vector(query: object) -> TypeIs[Sequence[float] | FloatArray]:
    """Tell whether a query is a vector, not a text."""
    return isinstance(query, (list, tuple)) or hasattr(query, "__array__")


def search_vector(session: Session, asked: Search, vector: FloatArray) -> Effects[Hits]:
    """Find what is nearest to a vector as it is; nothing steers, and no fallback is asked."""
    yield from ()
    with session.lock, session.store.reading():
        space = session.space(asked.namespace)
        result = _found(session, space, asked, session.steering_of(space, "off"), _unsteered(vector), None)
        return Hits(result.hits, vector=vector, vectors=result.vectors, relevant=result.relevant, facts=result.facts)


def checked_search(
    session: Session,
    query: str,
    k: int,
    *,
    filter: Filter | None = None,
    namespace: str | None = None,
    options: SearchOptions = SearchOptions(),
) -> Search:
    """Check the arguments of `EpicMemory.search`, or with `BY_VECTOR` for a query of a search by vector.

    Raises:
        InvalidInputError: for those that cannot be.
    """
    checked_text(query, "The query")
    options = checked_options(options)
    check_trained_with(options.chooser, session.encoder)
    return Search(
        query=query,
        k=checked_k(k),
        filter=checked_filter(filter),
        namespace=session.namespace if namespace is None else checked_text(namespace, "The namespace"),
        mode=session.steering if options.steering is None else options.steering,
        options=options,
    )


def checked_filter(filter: Filter | None) -> Filter | None:
    """Check a filter.

    Raises:
        InvalidInputError: for anything else.
    """
    if filter is not None and not isinstance(filter, Filter):
        kind = type(filter).__name__
        raise InvalidInputError(
            f'filter must be an epic_memory.Filter, not {kind}. Write one such as Filter.ge("stars", 4).'
        )
    return filter


def hits_at(
    store: Store,
    space: Namespace,
    asked: Search,
    vector: FloatArray,
    best: Sequence[tuple[int, float]],
    cosines: Mapping[int, float],
    allowed: NDArray[np.int64] | None,
) -> list[Hit]:
    """Make hits of entry rows with their scores, each with all entries of its item that a search may find.

    Args:
        vector: What was searched for, shape `(d,)`.
        cosines: With it, of entry rows where they are known already.
        allowed: Entry rows that may be found; None for all.
    """
    items = [(space.item_of[row], score) for row, score in best]
    groups = [space.rows_of[item] for item, _ in items]
    return made_hits(store, space, vector, items, groups, cosines, allowed)


def fact_hits(
    store: Store,
    space: Namespace,
    vector: FloatArray,
    facts: Sequence[tuple[int, float]],
    earlier: Mapping[int, Sequence[int]] | None = None,
) -> list[Hit]:
    """Make hits of the best facts of the user, which have no entries."""
    facts = facts[:_FACTS]
    return made_hits(store, space, vector, facts, [[]] * len(facts), {}, None, earlier) if facts else []


def made_hits(
    store: Store,
    space: Namespace,
    vector: FloatArray,
    best: Sequence[tuple[int, float]],
    groups: Sequence[Sequence[int]],
    cosines: Mapping[int, float],
    allowed: NDArray[np.int64] | None,
    earlier: Mapping[int, Sequence[int]] | None = None,
) -> list[Hit]:
    """Make hits of item rows with their scores, each with those of a group of entries that a search may find.

    Facts that are held back for one of them (`earlier`, row to rows) are named in its hit.
    """
    earlier = earlier or {}
    if allowed is not None:
        allowed_rows = set(allowed.tolist())
        groups = [[row for row in rows if row in allowed_rows] for rows in groups]
    scores = {
        row: cosines[row] if row in cosines else float(space.index.vector(row) @ vector)
        for rows in groups
        for row in rows
    }
    held = space.held([row for item, _ in best for row in (item, *earlier.get(item, ()))])
    entries = space.entries(scores, held)
    hits = []
    for (item, score), rows in zip(best, groups, strict=True):
        ordered = sorted(rows, key=scores.__getitem__, reverse=True)
        hits.append(
            Hit(
                item=held[item].item,
                score=score,
                entries=tuple(_scored(entries[row], scores[row]) for row in ordered),
                tier="fact" if item in space.facts else "light" if space.light(item) else "memory",
                earlier=tuple(held[row].item for row in earlier.get(item, ())),
            )
        )
    return hits


def _scored(entry: MemoryEntry, score: float) -> MemoryEntry:
    """Return an entry with its score; faster than `replace`, which checks and makes every field anew."""
    made = object.__new__(MemoryEntry)
    made.__dict__.update(entry.__dict__, score=score)
    return made


def best_entries(
    space: Namespace, asked: Search, vector: FloatArray, allowed: NDArray[np.int64] | None
) -> tuple[list[tuple[int, float]], dict[int, float]]:
    """Return the k best entry rows with their scores, best first, and the cosines of all rows looked at.

    Of each item only the best entry counts.
    """
    size = len(space.index) if allowed is None else len(allowed)
    fetch = min(size, 2 * asked.k + 8)
    prefers = asked.options.stance_policy == "prefer"
    while True:
        rows, scores = space.index.search(vector, fetch, allowed=allowed, penalised=prefers)
        best: dict[int, tuple[int, float]] = {}
        cosines: dict[int, float] = {}
        for row, score in zip(rows.tolist(), scores.tolist(), strict=True):
            best.setdefault(space.item_of[row], (row, score))
            cosines[row] = score + penalties()[space.stance_of[row]] if prefers else score
        if len(best) >= asked.k or fetch >= size:
            return list(best.values())[: asked.k], cosines
        fetch = min(size, fetch * 4)
