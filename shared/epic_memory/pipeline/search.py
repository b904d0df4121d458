"""Retrieval: embed the query, find candidates by text, instruction and exact words, rank them, merge entries."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from epic_memory.encoders.base import Embed, Encoder, checked_vector
from epic_memory.errors import InvalidInputError
from epic_memory.filters import Filter, checked_filter
from epic_memory.pipeline.candidates import (
    Candidates,
    candidates,
    distinct,
    facts_among,
    least_topic,
    ranked,
    relevant_among,
    verdicts_on,
)
from epic_memory.pipeline.on_demand import FOUND, Unjudged, judged_in_time, unjudged
from epic_memory.pipeline.session import Session
from epic_memory.preferences.foreign import is_foreign_to, language_for
from epic_memory.runtime.effects import Clock, Effects
from epic_memory.runtime.optional import optional
from epic_memory.runtime.telemetry import counts_of_search, span
from epic_memory.steering.query_steering import Chosen, QuerySteering, SteeredQuery
from epic_memory.steering.question_kind import asks_for_own, kind_of
from epic_memory.steering.ranking import Verdicts, votes
from epic_memory.steering.relevance import default_floor
from epic_memory.storage.namespace import Namespace
from epic_memory.types import FloatArray, Hit, Hits, MemoryEntry, Preference, checked_k, checked_text
from epic_memory.types.modes import Mode
from epic_memory.types.search_options import SearchOptions, checked_options

# Most facts of the user that a context shows.
_FACTS = 3


@dataclass(frozen=True, kw_only=True)
class Search:
    """A search, checked.

    Attributes:
        query: The query's words; empty for a search by vector.
        vector: What is searched for as it is, if no words are: nothing steers it, and no fallback is asked.
        mode: How the query is steered, by the options or the memory.
        options: As the caller gave them.
    """

    query: str
    vector: FloatArray | None
    k: int
    filter: Filter | None
    namespace: str
    mode: Mode
    options: SearchOptions


def search(session: Session, asked: Search, clock: Clock, vector: FloatArray | None = None) -> Effects[Hits]:
    """Search, with E(q) if it is known already, and ask the fallback where nothing held is relevant."""
    with span("search", clock) as counts:
        waited, encoder, vector = False, session.encoder, vector if asked.vector is None else asked.vector
        while True:
            if vector is None or encoder is not session.encoder:  # embedded anew in the meantime
                encoder = session.encoder
                (vector,) = yield Embed(encoder, [asked.query], "embedding", query=True)
            found = _held_near(session, asked, encoder, vector, clock)
            if found is None:
                yield from prepared(session, asked.namespace, asked.mode)
                continue
            hits, unjudged_yet = found
            if waited or not unjudged_yet or not (yield from judged_in_time(session, encoder, unjudged_yet)):
                break
            waited = True
        fallback = session.settings.fallback if asked.vector is None else None
        # A callable knows nothing of other users: it is asked for one's own namespace only.
        if fallback is not None and not hits.relevant and asked.namespace == session.namespace:
            add_broader = optional("epic_rerank.fallback", "add_broader")
            yield from add_broader(hits, fallback, asked.query, asked.k, asked.filter)
            hits.fallback, hits.vectors, hits.ranking = True, [], None
        hits.timings = dict(clock.parts)
        counts.update(counts_of_search(hits, asked.k))
        return hits


def preferences_by_weight(
    session: Session, query: str, namespace: str | None
) -> Effects[list[tuple[Preference, float]]]:
    """Weigh the preferences by how much they matter to a query, heaviest first, each with the chance that it does.

    What is held about the query's topic helps to tell, as in a search.
    """
    words, options = checked_text(query, "The query"), SearchOptions(steering="signed")
    asked = checked_search(session, words, 1, namespace=namespace, options=options)
    found = None
    while found is None:
        encoder = session.encoder
        (vector,) = yield Embed(encoder, [words], "embedding", query=True)
        yield from prepared(session, asked.namespace, "signed")
        found = _held_near(session, asked, encoder, vector, Clock())
    return found[0].matters


def prepared(session: Session, namespace: str, mode: Mode) -> Effects[None]:
    """Encode what steering needs of an encoder and of the preferences, once."""
    with session.lock:
        steering = session.steering_of(session.space(namespace), mode)
    yield from steering.preparing()


class _Scope(NamedTuple):
    """The part of a memory that a search looks at, and the vectors it looks with.

    Attributes:
        query: E(q), shape `(d,)`.
        vector: What is searched for: the paper steers it, signed steering ranks what was found.
        positions: Of the preferences that count; None for all.
        allowed: Entry rows that may be found; None for all.
    """

    space: Namespace
    steering: QuerySteering
    query: FloatArray
    vector: FloatArray
    positions: NDArray[np.intp] | None
    allowed: NDArray[np.int64] | None


def _held_near(
    session: Session, asked: Search, encoder: Encoder, query: FloatArray, clock: Clock
) -> tuple[Hits, Unjudged] | None:
    """Search what is held with E(q); return None if steering has to be prepared, or another encoder is used now.

    Beside the hits stands what nobody has judged under the preferences that matter.
    """
    with session.lock, session.store.reading():
        started = time.perf_counter()
        space, options, vector = session.space(asked.namespace), asked.options, query
        steering = session.steering_of(space, asked.mode)
        if not steering.ready or session.encoder is not encoder:
            return None
        positions = None if options.preferences is None else space.positions(options.preferences)
        if options.keys == "instruction" or asked.mode == "paper":
            steered = steering.steer_vector(query, only=positions, turns=False)
            vector = steered.vector
        started = clock.add("steering", started)
        allowed = space.allowed(asked.filter, positions, supporting=options.stance_policy == "only_supports")
        scope = _Scope(space, steering, query, vector, positions, allowed)
        if options.keys == "instruction":
            found: tuple[Hits, Unjudged] = _by_instruction(session, asked, scope, steered), ()
        else:
            found = _by_text(session, asked, scope)
        hits = found[0]
        hits.language = told_in(session, space, hits.matters)
        clock.add("index", started)
        return found


def told_in(session: Session, space: Namespace, matters: Sequence[object]) -> str | None:
    """Return the language of a context if the preferences that may matter, which are with the hits, do not tell it."""
    return session.settings.language or (None if matters else language_for(space.preferences))


def _by_text(session: Session, asked: Search, scope: _Scope) -> tuple[Hits, Unjudged]:
    """Find candidates by text and exact words, choose the preferences that matter, rank, and merge entries."""
    space, encoder, min_score = scope.space, session.encoder, asked.options.min_score
    items = None if scope.allowed is None else _items_allowed(asked, scope, scope.allowed)
    foreign = is_foreign_to(encoder, asked.query, space.preferences)
    found = candidates(space, encoder, asked.query, scope.vector, asked.k, items=items, foreign=foreign)
    kind = None if foreign else kind_of(encoder, asked.query, scope.query)
    of_notes = bool(space.preferences) or min_score == "personal"
    needed = kind if kind is None or of_notes else kind.of_documents()
    if found.lifts[1].any():  # who names a speaker asks what was said, in whatever words: "When did Tom move?"
        needed = None
    least = least_topic(encoder, found.topics, len(space.texts), "auto", needed)
    near = found.only(found.topics >= least)
    chosen = scope.steering.choose(
        scope.query,
        only=scope.positions,
        candidates=near.vectors,
        kind=kind,
        votes=votes(near.stances, near.topics, scope.steering.preferences),
    )
    verdicts, gained = None, np.zeros(len(found.rows), dtype=np.float32)
    if asked.options.stance_policy != "any":
        verdicts = verdicts_on(found, scope.steering, chosen, kind, scope.positions)
        gained = verdicts.fits(found.topics >= least) if isinstance(min_score, str) else gained
    keep, relevant = relevant_among(space, found, encoder, gained, min_score, needed)
    verdicts = None if verdicts is None else verdicts.only(keep)
    hits, unjudged_yet = _ranked(session, asked, scope, found.only(keep), chosen, verdicts)
    hits.relevant = relevant
    if min_score == "personal" and not asks_for_own(needed):
        hits.matters = [(preference, 0.0) for preference, _ in hits.matters]
    if relevant and space.facts:
        hits.facts = fact_hits(space, scope.vector, facts_among(space, found, encoder), found.earlier)
    return hits, unjudged_yet


def _ranked(
    session: Session, asked: Search, scope: _Scope, near: Candidates, chosen: Chosen, verdicts: Verdicts | None
) -> tuple[Hits, Unjudged]:
    """Rank what is relevant, and make hits of the best."""
    space, options, preferences = scope.space, asked.options, scope.steering.preferences
    scores = ranked(space, near, scope.steering, scope.query, chosen, verdicts)
    order: list[int] = np.lexsort((np.array(near.rows, dtype=np.int64), -scores)).tolist()
    shown = distinct(space, near, order, asked.k)
    if options.chooser is not None and options.chooser.candidates > len(shown):
        shown += [place for place in order if place not in shown][: options.chooser.candidates - len(shown)]
    # Beyond a cosine's range differences say nothing any more; the order is decided.
    best = [(near.rows[place], min(1.0, max(-1.0, float(scores[place])))) for place in shown]
    made = made_hits(space, scope.vector, best, scope.allowed, earlier=near.earlier)
    vectors, how = list(near.vectors[shown]), None
    if options.chooser is not None:
        how = options.chooser.choose(asked.query, scope.query, made, vectors, asked.k, chosen.matters)
        made, vectors = how.chosen(made, vectors)
    each = zip(chosen.rows, chosen.similarities, chosen.weights, strict=True)
    steered_by = [(preferences[row].text, cosine, share) for row, cosine, share in each]
    hits = Hits(made, vector=scope.vector, query=scope.query, vectors=vectors, steered_by=steered_by, ranking=how)
    hits.matters = list(chosen.matters)
    judges = session.on_demand is not None and asked.mode == "signed" and verdicts is not None
    if not judges or asked.namespace != session.namespace:
        return hits, ()
    return hits, unjudged(session, space, [near.rows[place] for place in order[:FOUND]], hits.matters)


def _by_instruction(session: Session, asked: Search, scope: _Scope, steered: SteeredQuery) -> Hits:
    """Find entries by their instructions alone, as the paper does."""
    space = scope.space
    best = best_entries(space, asked, scope.vector, scope.allowed)
    least = asked.options.min_score if isinstance(asked.options.min_score, float) else -np.inf
    best = [(row, score) for row, score in best if score >= least]
    # What steering made of the query does not count: it is near to whatever is held.
    near = float(space.index.vector(best[0][0]) @ scope.query) if best else -1.0
    # Facts of the user have no instructions: they are found by their text, and are no hits here.
    facts = fact_hits(space, scope.query, facts_by_text(session, space, asked, scope.query))
    items = [(space.item_of[row], score) for row, score in best]
    return Hits(
        made_hits(space, scope.vector, items, scope.allowed),
        vector=scope.vector,
        query=scope.query,
        vectors=[space.index.vector(row) for row, _ in best],
        steered_by=[(one.preference.text, one.similarity, one.weight) for one in steered.preferences],
        matters=steered.matters,
        relevant=near >= default_floor(session.encoder) or bool(facts),
        facts=facts,
    )


def facts_by_text(session: Session, space: Namespace, asked: Search, vector: FloatArray) -> list[tuple[int, float]]:
    """Return the facts of the user that are relevant to a query by their text alone, with their topics, best first."""
    facts = space.facts if asked.filter is None or not space.facts else space.facts & space.items_matching(asked.filter)
    if not facts:
        return []
    encoder = session.encoder
    found = candidates(space, encoder, asked.query, vector, 1, items=frozenset(facts))
    kind = kind_of(encoder, asked.query, vector)
    least = least_topic(encoder, found.topics, len(space.texts), "auto", kind)
    return facts_among(space, found.only(found.topics >= least), encoder)


def _items_allowed(asked: Search, scope: _Scope, allowed: NDArray[np.int64]) -> frozenset[int] | None:
    """Return the rows of the items that a search may find, beside the entries that it may; None for all."""
    space = scope.space
    matching = None if asked.filter is None else space.items_matching(asked.filter)
    if scope.positions is None and asked.options.stance_policy != "only_supports":
        return matching
    # The light tier holds what was verified for no preference. Facts are found whatever the preferences are.
    facts = space.facts if matching is None else space.facts & matching
    return frozenset({*facts, *(space.item_of[row] for row in allowed.tolist())})


def checked_search(
    session: Session,
    query: str | Sequence[float] | FloatArray,
    k: int,
    *,
    filter: Filter | None = None,
    namespace: str | None = None,
    options: SearchOptions = SearchOptions(),
) -> Search:
    """Check the arguments of `EpicMemory.search`.

    Raises:
        InvalidInputError: for those that cannot be.
    """
    options, vector, words = checked_options(options), None, ""
    given: Any = query
    if isinstance(given, (list, tuple)) or hasattr(given, "__array__"):
        vector = checked_vector(given, session.encoder.dimension, session.store.path or "this memory")
        options = replace(options, steering="off", preferences=None)
    else:
        words = checked_text(given, "The query")
    if options.chooser is not None and options.chooser.encoder not in ("", session.encoder.fingerprint):
        raise InvalidInputError("This reranker was trained with another encoder. Train it again: epic rerank train.")
    return Search(
        query=words,
        vector=vector,
        k=checked_k(k),
        filter=None if filter is None else checked_filter(filter),
        namespace=session.namespace if namespace is None else checked_text(namespace, "The namespace"),
        mode=session.settings.steering if options.steering is None else options.steering,
        options=options,
    )


def fact_hits(
    space: Namespace,
    vector: FloatArray,
    facts: Sequence[tuple[int, float]],
    earlier: Mapping[int, Sequence[int]] = {},
) -> list[Hit]:
    """Make hits of the best facts of the user, which have no entries."""
    return made_hits(space, vector, facts[:_FACTS], None, earlier=earlier)


def made_hits(
    space: Namespace,
    vector: FloatArray,
    best: Sequence[tuple[int, float]],
    allowed: NDArray[np.int64] | None,
    *,
    earlier: Mapping[int, Sequence[int]] = {},
) -> list[Hit]:
    """Make hits of item rows with their scores, each with those of its entries that a search may find.

    Args:
        space: What was searched.
        vector: What was searched for, shape `(d,)`.
        best: Item rows with their scores.
        allowed: Entry rows that may be found; None for all.
        earlier: Row of a fact to the rows of those that are held back for it, and named in its hit.
    """
    groups: list[Sequence[int]] = [space.rows_of.get(item, ()) for item, _ in best]
    if allowed is not None:
        allowed_rows = set(allowed.tolist())
        groups = [[row for row in rows if row in allowed_rows] for rows in groups]
    rows = [row for group in groups for row in group]
    scores: dict[int, float] = dict(zip(rows, (space.instructions(rows) @ vector).tolist(), strict=True))
    held = space.held([row for item, _ in best for row in (item, *earlier.get(item, ()))])
    entries = space.entries(scores, held)
    hits: list[Hit] = []
    for (item, score), group in zip(best, groups, strict=True):
        scored: list[MemoryEntry] = []
        for row in sorted(group, key=scores.__getitem__, reverse=True):
            # Faster than `replace`, which checks and makes every field anew.
            scored.append(entry := object.__new__(MemoryEntry))
            entry.__dict__.update(entries[row].__dict__, score=scores[row])
        before = tuple(held[row].item for row in earlier.get(item, ()))
        hits.append(
            Hit(item=held[item].item, score=score, entries=tuple(scored), tier=space.tier(item), earlier=before)
        )
    return hits


def best_entries(
    space: Namespace, asked: Search, vector: FloatArray, allowed: NDArray[np.int64] | None
) -> list[tuple[int, float]]:
    """Return the k best entry rows with their scores, best first; of each item only the best entry counts."""
    size = len(space.index) if allowed is None else len(allowed)
    fetch = min(size, 2 * asked.k + 8)
    prefers = asked.options.stance_policy == "prefer"
    while True:
        rows, scores = space.index.search(vector, fetch, allowed=allowed, penalised=prefers)
        best: dict[int, tuple[int, float]] = {}
        for row, score in zip(rows.tolist(), scores.tolist(), strict=True):
            best.setdefault(space.item_of[row], (row, score))
        if len(best) >= asked.k or fetch >= size:
            return list(best.values())[: asked.k]
        fetch = min(size, fetch * 4)
