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
from epic_memory.pipeline.fallback import AskFallback, hits_of, merged
from epic_memory.pipeline.on_demand import FOUND, Unjudged, judged_in_time, unjudged
from epic_memory.pipeline.session import Session
from epic_memory.preferences.foreign import is_foreign_to
from epic_memory.runtime.effects import Clock, Effects
from epic_memory.runtime.telemetry import counts_of_search, span
from epic_memory.steering.query_steering import QuerySteering, SteeredQuery
from epic_memory.steering.question_kind import QuestionKind, kind_by_embedding, question_kind
from epic_memory.steering.relevance import default_floor, default_relevant
from epic_memory.steering.signed import Chosen, QueryNames
from epic_memory.storage.namespace import Namespace
from epic_memory.text.turns import names_month
from epic_memory.types import FloatArray, Hit, Hits, MemoryEntry, Preference, checked_k, checked_text
from epic_memory.types.modes import Mode
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
    found = None
    while found is None:
        encoder = session.encoder
        vector, names = yield from _embedded(session, asked, encoder)
        yield from prepared(session, namespace, "signed")
        found = _held_near(session, asked, encoder, vector, names, Clock())
    return found[0].matters


def prepared(session: Session, namespace: str, mode: Mode) -> Effects[QuerySteering]:
    """Encode what steering needs of an encoder and of the preferences, once."""
    with session.lock:
        steering = session.steering_of(session.space(namespace), mode)
    yield from steering.preparing()
    return steering


def _embedded(session: Session, asked: Search, encoder: Encoder) -> Effects[tuple[FloatArray, QueryNames | None]]:
    """Return E(q), and the query's proper names if a preference contains a different one."""
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
    waited = False
    while True:
        found = _held_near(session, asked, encoder, vector, names, clock)
        if found is None:
            yield from prepared(session, asked.namespace, asked.mode)
            if session.encoder is not encoder:  # embedded anew in the meantime
                return (yield from search(session, asked, clock))
            continue
        hits, unjudged_yet = found
        if waited or not unjudged_yet or not (yield from judged_in_time(session, encoder, unjudged_yet)):
            break
        waited = True
    fallback = session.settings.fallback
    # A callable knows nothing of other users: it is asked for one's own namespace only.
    if fallback is not None and not hits.relevant and asked.namespace == session.namespace:
        broader = hits_of((yield AskFallback(fallback, asked.query, asked.k)))
        if asked.filter is not None:
            broader = [hit for hit in broader if asked.filter.matches(hit.item.metadata)]
        hits[:] = merged(broader, hits, asked.k)
        hits.fallback, hits.vectors, hits.ranking = True, [], None
    hits.timings = dict(clock.parts)
    return hits


def _held_near(
    session: Session, asked: Search, encoder: Encoder, vector: FloatArray, names: QueryNames | None, clock: Clock
) -> tuple[Hits, Unjudged] | None:
    """Search what is held with E(q); return None if steering has to be prepared, or another encoder is used now.

    Beside the hits stands what nobody has judged under the preferences that matter.
    """
    with session.lock, session.store.reading():
        started = time.perf_counter()
        space = session.space(asked.namespace)
        steering = session.steering_of(space, asked.mode)
        if not steering.ready or session.encoder is not encoder:
            return None
        positions = None if asked.options.preferences is None else space.positions(asked.options.preferences)
        # The paper steers what is searched for; signed steering ranks what was found.
        if asked.options.keys == "instruction" or asked.mode == "paper":
            steered = steering.steer_vector(vector, only=positions, turns=False)
        else:
            steered = SteeredQuery(vector=vector, query=vector, preferences=(), nearest=None, names=names)
        started = clock.add("steering", started)
        found = _found(session, space, asked, steering, steered, positions)
        clock.add("index", started)
        return found


def _found(
    session: Session,
    space: Namespace,
    asked: Search,
    steering: QuerySteering,
    steered: SteeredQuery,
    positions: NDArray[np.intp] | None,
) -> tuple[Hits, Unjudged]:
    """Find candidates by text and exact words, choose the preferences that matter, rank, and merge entries."""
    options, encoder = asked.options, session.encoder
    allowed = space.allowed(asked.filter, positions, supporting=options.stance_policy == "only_supports")
    if options.keys == "instruction":
        return _by_instruction(session, space, asked, steering, steered, positions, allowed), ()
    query, min_score = asked.words, options.min_score
    items = None if allowed is None else _items_allowed(space, asked, positions, allowed)
    # Asked for by a month and no topic.
    if names_month(query) and (of_months := space.texts.turns().of_months(query)) is not None:
        items, min_score = of_months if items is None else of_months & items, None
    foreign = is_foreign_to(encoder, query, space.preferences)
    candidates = finding.candidates(
        space, encoder, query, steered.vector, asked.k, entries_allowed=allowed, items_allowed=items, foreign=foreign
    )
    kind = None if foreign else _kind_of(session, asked, steered.query)
    chosen = ranking.chosen_for(space, candidates, steering, steered.query, kind, only=positions, names=steered.names)
    stances_count = options.stance_policy != "any"
    verdicts = ranking.verdicts_on(candidates, steering, chosen, kind, only=positions) if stances_count else None
    # Who names a speaker asks what was said, in whatever words: "When did Tom move?"
    needed = None if candidates.lifts[1].any() else kind
    if needed is not None and not space.preferences:
        needed = needed.of_documents()
    least_by_topic = finding.least_topic(encoder, candidates.topics, len(space.texts), "auto", needed)
    bonus = 0.0 if verdicts is None or min_score != "auto" else verdicts.fits(candidates.topics >= least_by_topic)
    fitting = candidates.topics + np.float32(bonus)
    least = finding.least_topic(encoder, fitting, len(space.texts), min_score, needed)
    relevant = bool(least < np.inf and fitting.max(initial=-np.inf) >= least)
    keep = fitting >= least
    facts = []
    if relevant and space.facts:
        # A fact that answers surely says nothing of how near texts have to be, nor they of facts told beside them.
        are_facts = np.array([row in space.facts for row in candidates.rows], dtype=bool)
        keep &= are_facts
        keep |= ~are_facts & (
            fitting >= finding.least_topic(encoder, fitting[~are_facts], len(space.texts), min_score, needed)
        )
        facts = finding.facts_among(space, candidates, encoder)
    if relevant:  # What suits the user need not be as near as the best one.
        keep |= (fitting > candidates.topics) & (fitting >= default_relevant(encoder))
    candidates, verdicts = candidates.only(keep), None if verdicts is None else verdicts.only(keep)
    scores = ranking.ranked(space, candidates, steering, steered.query, chosen, verdicts)
    steered = steering.steered_by(chosen, steered.query, steered.vector, names=steered.names)
    order = np.lexsort((np.array(candidates.rows, dtype=np.int64), -scores)).tolist()
    shown = ranking.distinct(space, candidates, order, asked.k)
    chooser = options.chooser
    if chooser is not None and chooser.candidates > len(shown):
        known = set(shown)
        shown += [place for place in order if place not in known][: chooser.candidates - len(shown)]
    # Beyond a cosine's range differences say nothing any more; the order is decided.
    best = [(candidates.rows[place], min(1.0, max(-1.0, float(scores[place])))) for place in shown]
    groups = [space.rows_of.get(item, ()) for item, _ in best]
    found = made_hits(space, steered.vector, best, groups, allowed, earlier=candidates.earlier)
    vectors, how = list(candidates.vectors[shown]), None
    matters = _matters(steering, steered, chosen)
    if chooser is not None:
        how = chooser.choose(asked.query, steered.query, found, vectors, asked.k, matters)
        found, vectors = how.chosen(found, vectors)
    hits = Hits(
        found,
        vector=steered.vector,
        query=steered.query,
        vectors=vectors,
        steered_by=[(one.preference.text, one.similarity, one.weight) for one in steered.preferences],
        matters=matters,
        relevant=relevant,
        facts=fact_hits(space, steered.vector, facts, candidates.earlier) if facts else [],
        ranking=how,
    )
    if session.on_demand is None or asked.mode != "signed" or not stances_count or asked.namespace != session.namespace:
        return hits, ()
    return hits, unjudged(session, space, [candidates.rows[place] for place in order[:FOUND]], matters)


def _by_instruction(
    session: Session,
    space: Namespace,
    asked: Search,
    steering: QuerySteering,
    steered: SteeredQuery,
    positions: NDArray[np.intp] | None,
    allowed: NDArray[np.int64] | None,
) -> Hits:
    """Find entries by their instructions alone, as the paper does."""
    best, cosines = best_entries(space, asked, steered.vector, allowed)
    least = asked.options.min_score if isinstance(asked.options.min_score, float) else -np.inf
    best = [(row, score) for row, score in best if score >= least]
    # What steering made of the query does not count: it is near to whatever is held.
    near = float(space.index.vector(best[0][0]) @ steered.query) if best else -1.0
    # Facts of the user have no instructions: they are found by their text, and are no hits here.
    facts = fact_hits(space, steered.query, facts_by_text(session, space, asked, steered.query))
    return Hits(
        hits_at(space, steered.vector, best, cosines, allowed),
        vector=steered.vector,
        query=steered.query,
        vectors=[space.index.vector(row) for row, _ in best],
        steered_by=[(one.preference.text, one.similarity, one.weight) for one in steered.preferences],
        matters=_matters(steering, steered, steering.choose(steered.query, only=positions, names=steered.names)),
        relevant=near >= default_floor(session.encoder) or bool(facts),
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
    return question_kind(asked.words, vector if bundled else None) or kind_by_embedding(session.encoder, vector)


def _items_allowed(
    space: Namespace, asked: Search, positions: NDArray[np.intp] | None, allowed: NDArray[np.int64]
) -> frozenset[int] | None:
    """Return the rows of the items that a search may find, beside the entries that it may; None for all."""
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
        unsteered = SteeredQuery(vector=vector, query=vector, preferences=(), nearest=None)
        return _found(session, space, asked, session.steering_of(space, "off"), unsteered, None)[0]


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
    if options.chooser is not None and options.chooser.encoder not in ("", session.encoder.fingerprint):
        raise InvalidInputError("This reranker was trained with another encoder. Train it again: epic rerank train.")
    return Search(
        query=query,
        k=checked_k(k),
        filter=checked_filter(filter),
        namespace=session.namespace if namespace is None else checked_text(namespace, "The namespace"),
        mode=session.settings.steering if options.steering is None else options.steering,
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
    space: Namespace,
    vector: FloatArray,
    best: Sequence[tuple[int, float]],
    cosines: Mapping[int, float],
    allowed: NDArray[np.int64] | None,
) -> list[Hit]:
    """Make hits of entry rows with their scores, each with all entries of its item that a search may find."""
    items = [(space.item_of[row], score) for row, score in best]
    return made_hits(space, vector, items, [space.rows_of[item] for item, _ in items], allowed, cosines=cosines)


def fact_hits(
    space: Namespace,
    vector: FloatArray,
    facts: Sequence[tuple[int, float]],
    earlier: Mapping[int, Sequence[int]] = {},
) -> list[Hit]:
    """Make hits of the best facts of the user, which have no entries."""
    facts = facts[:_FACTS]
    return made_hits(space, vector, facts, [[]] * len(facts), None, earlier=earlier) if facts else []


def made_hits(
    space: Namespace,
    vector: FloatArray,
    best: Sequence[tuple[int, float]],
    groups: Sequence[Sequence[int]],
    allowed: NDArray[np.int64] | None,
    *,
    cosines: Mapping[int, float] = {},
    earlier: Mapping[int, Sequence[int]] = {},
) -> list[Hit]:
    """Make hits of item rows with their scores, each with those of a group of entries that a search may find.

    Args:
        space: What was searched.
        vector: What was searched for, shape `(d,)`.
        best: Item rows with their scores.
        groups: Of each the rows of its entries.
        allowed: Entry rows that may be found; None for all.
        cosines: With the vector, of entry rows where they are known already.
        earlier: Row of a fact to the rows of those that are held back for it, and named in its hit.
    """
    if allowed is not None:
        allowed_rows = set(allowed.tolist())
        groups = [[row for row in rows if row in allowed_rows] for rows in groups]
    entry_rows = [row for rows in groups for row in rows]
    unknown = [row for row in entry_rows if row not in cosines]
    near = (space.instructions(unknown) @ vector).tolist() if unknown else []
    scores = {**dict(zip(unknown, near, strict=True)), **{row: cosines[row] for row in entry_rows if row in cosines}}
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
                tier=_tier_of(space, item),
                earlier=tuple(held[row].item for row in earlier.get(item, ())),
            )
        )
    return hits


def _tier_of(space: Namespace, item: int) -> str:
    if item in space.facts:
        return "fact"
    return "memory" if not space.light(item) else "waiting" if space.waits(item) else "light"


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
