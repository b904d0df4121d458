"""Ranking of what a memory holds for a query: two keys and exact words find, evidence and stances rank.

An item is found by its text and by its instructions. With T(x) its cosine by text, I(x) the highest by an instruction
and L(x) its share of the query's telling words (`text.lexical_index`),

    topic(q, x) = T(x) + INSTRUCTED max(0, I(x) - T(x)) + WORDED L(x).

The topic decides whether anything held is relevant at all, and with a lift what is a candidate. Turns of conversations
have one (`text.turns`), as questions about what was said use its words. With x' the question that x answers, whose
words count as its own, and N(x) how many of its speaker and month the query names,

    lift(q, x) = (1 - w) (SAID L(x) + ANSWERED max(0, T(x'))) + NAMED N(x),

with w, how much a preference matters to the query: there evidence ranks. Among the candidates what a text says for and
against the preferences that matter ranks (`steering`), and so does what verification found: an entry's stance. Neither
replaces the topic.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from epic_core.filters import Filter
from epic_core.pipeline.fact_history import held_back
from epic_core.pipeline.fact_matching import answer_scores, answering
from epic_core.steering.query_steering import QuerySteering, SteeredQuery
from epic_core.steering.relevance import default_relevant
from epic_core.storage.namespace import Namespace
from epic_core.storage.store import Store
from epic_core.text.turns import SOURCE, names_month
from epic_core.types import FloatArray

# What an instruction that is nearer than its text adds, and what sharing all telling words does.
INSTRUCTED = 0.5
WORDED = 0.15
# What a fact gains that surely answers the question: "We moved to Braga" of "Where do I live?".
ASKED = 0.7
# What ranks a turn of a conversation besides: all telling words, the topic of the question that it answers, and being
# by a speaker or of a month that the query names.
SAID = 0.85
ANSWERED = 0.4
NAMED = 0.2
# How many candidates are looked at for k hits, at least.
_LEAST_CANDIDATES = 40
# What a verified stance counts under a preference that matters fully, and the least it counts under any.
SUPPORTS = 0.15
_LEAST_PENALTY = 0.3
_LIFTED = 0.2
# A topic so far below what is relevant is none, however sure the best is.
_LEAST_RELEVANT = 0.13
# How the topic that is nearest by chance grows with the logarithm of the number of items, beyond a few.
_BY_CHANCE = 0.03
_FEW = 40
# Beside an item that answers, one with less than this share of its topic has to be relevant by itself.
_LEAST_SHARE = 0.4
# What nobody has verified needs more.
_LEAST_LIGHT = 0.05
# What is told beside the hits has to fit better.
_LEAST_FACT = 0.05
# Texts this near to a better hit say the same.
_SAME = 0.985
# One in so many hits is of another source, where others are relevant, too.
_OTHERS = 4


@dataclass(frozen=True, kw_only=True)
class Candidates:
    """Items that may answer a query, by their topic and lift, best first.

    Attributes:
        rows: Item rows, shape `(n,)`.
        topics: topic(q, x) of each, shape `(n,)`.
        lifts: lift(q, x) of each in two parts, shape `(2, n)`: what a preference that matters takes away, and the rest.
        entries: Item row to the entry that was found for it, with its cosine, where one was.
        cosines: Entry row to cosine, of all entries that were found.
        earlier: Row of a fact to the rows of those that are held back, oldest first, as it may have replaced them.
    """

    rows: list[int]
    topics: FloatArray
    lifts: FloatArray
    entries: dict[int, tuple[int, float]]
    cosines: dict[int, float]
    earlier: dict[int, list[int]] = field(default_factory=dict)


def candidates(
    space: Namespace,
    store: Store,
    query: str,
    vector: FloatArray,
    k: int,
    *,
    entries_allowed: NDArray[np.int64] | None,
    items_allowed: frozenset[int] | None,
) -> Candidates:
    """Find the items whose topic is nearest to a query, and the turns with its words.

    Args:
        space: What is searched.
        store: Its file.
        query: The query's words; empty to leave them out of account.
        vector: What is searched for, shape `(d,)`.
        k: How many hits are wanted.
        entries_allowed: Entry rows that may be found; None for all.
        items_allowed: Item rows that may be found; None for all.
    """
    wanted = max(_LEAST_CANDIDATES, 2 * k + 8)
    rows, cosines = space.index.search(vector, wanted, allowed=entries_allowed)
    known = dict(zip(rows.tolist(), cosines.tolist(), strict=True))
    entries: dict[int, tuple[int, float]] = {}
    for row, cosine in known.items():
        entries.setdefault(space.item_of[row], (row, cosine))
    texts = space.texts.rows
    topics = space.texts.cosines(vector)
    exact, lifts = _exact_words(space, store, query, topics)
    topics += np.float32(WORDED) * exact
    earlier = _with_facts(space, store, query, topics, items_allowed) if space.facts and query else {}
    bare: list[int] = []
    if entries:
        places = space.texts.places(list(entries))
        held = places >= 0
        near = np.array([cosine for _, cosine in entries.values()], dtype=np.float32)[held]
        gained = near - topics[places[held]]
        topics[places[held]] += np.float32(INSTRUCTED) * np.maximum(gained, 0.0)
        # Items whose text has no vector are found by their instructions alone.
        bare = [] if held.all() else [row for row in entries if row not in space.texts]
    if items_allowed is not None:
        keep = np.array([row in items_allowed for row in texts.tolist()], dtype=bool)
        texts, topics, lifts = texts[keep], topics[keep], lifts[:, keep]
    if bare:
        texts = np.concatenate([texts, np.array(bare, dtype=np.int64)])
        topics = np.concatenate([topics, np.array([entries[row][1] for row in bare], dtype=np.float32)])
        lifts = np.concatenate([lifts, np.zeros((2, len(bare)), dtype=np.float32)], axis=1)
    ranks = topics + lifts.sum(axis=0)
    if len(ranks) > wanted:
        best = np.argpartition(-ranks, wanted - 1)[:wanted]
        texts, topics, lifts, ranks = texts[best], topics[best], lifts[:, best], ranks[best]
    order = np.lexsort((texts, -ranks))
    return Candidates(
        rows=texts[order].tolist(),
        topics=topics[order],
        lifts=lifts[:, order],
        entries=entries,
        cosines=known,
        earlier=earlier,
    )


def _with_facts(
    space: Namespace, store: Store, query: str, topics: FloatArray, allowed: frozenset[int] | None
) -> dict[int, list[int]]:
    """Add to the topics how surely facts answer a query, and hold back those that later ones may have replaced.

    Returns:
        Row of a fact to the rows of those that are held back for it. It takes over the best of their topics.
    """
    facts = sorted(space.facts)
    said = space.held(store, facts)
    places = space.texts.places(facts)
    scores = answer_scores(query, [said[row].item.text for row in facts])
    topics[places] += np.float32(ASKED) * answering(scores)
    keep = [place for place, row in enumerate(facts) if allowed is None or row in allowed]
    shown = [facts[place] for place in keep]
    replaced = held_back(query, [said[row].item.text for row in shown], scores[keep])
    earlier: dict[int, list[int]] = {}
    for old, new in sorted(replaced.items()):
        before, after = space.texts.place(shown[old]), space.texts.place(shown[new])
        topics[after] = max(topics[after], topics[before])
        topics[before] = -1.0
        earlier.setdefault(shown[new], []).extend([*earlier.pop(shown[old], []), shown[old]])
    return earlier


def of_months(space: Namespace, store: Store, query: str) -> frozenset[int] | None:
    """Return the rows of the items that a query asks for by a month and no topic; None if it does not."""
    # Turns are known once the words are.
    return space.turns.of_months(query) if names_month(query) and len(space.lexical(store)) else None


def _exact_words(space: Namespace, store: Store, query: str, cosines: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return L(x) of each text, shape `(n,)`, and lift(q, x) in two parts, shape `(2, n)`."""
    lifts = np.zeros((2, len(cosines)), dtype=np.float32)
    if not query or not len(index := space.lexical(store)):
        return lifts[0], lifts
    shares = index.shares(query)
    has = np.zeros((len(shares), len(cosines)), dtype=bool)
    if shares:
        having = [rows for rows, _ in shares]
        words = np.repeat(np.arange(len(shares)), [len(rows) for rows in having])
        has[words, space.texts.places(np.concatenate(having))] = True
    rows = space.turns.rows()
    turns, answers, questions = (space.texts.places(some) if len(some) else some for some in rows)
    if len(answers):
        has[:, answers] |= has[:, questions]
        lifts[0, answers] = np.float32(ANSWERED) * np.maximum(cosines[questions], 0.0)
    exact: FloatArray = (np.array([share for _, share in shares], dtype=np.float32)[:, None] * has).sum(axis=0)
    if len(turns):
        lifts[0, turns] += np.float32(SAID) * exact[turns]
        for named in space.turns.named(query):
            lifts[1, space.texts.places(named)] += np.float32(NAMED)
    return exact, lifts


def ranked(
    space: Namespace,
    store: Store,
    found: Candidates,
    steering: QuerySteering,
    steered: SteeredQuery,
    *,
    only: NDArray[np.intp] | None,
    prefers: bool,
) -> tuple[FloatArray, SteeredQuery]:
    """Return the score of each candidate, shape `(n,)`, and the query with the preferences that matter to it.

    Args:
        space: What was searched.
        store: Its file.
        found: The candidates.
        steering: By the preferences.
        steered: The query, with the preferences that matter to it.
        only: Rows of the preferences that may steer; None for all.
        prefers: Whether stances and evidence count.
    """
    if not prefers or not found.rows:
        return found.topics + found.lifts.sum(axis=0), steered
    # How surely a fact answers does not tell how near the texts beside it are to the topic.
    facts = np.array([row in space.facts for row in found.rows], dtype=bool)
    most = found.topics[~facts].max(initial=-np.inf) if not facts.all() else np.inf
    topics = np.minimum(found.topics, np.where(facts, most, np.inf).astype(np.float32))
    scores = topics.copy()
    if steering.mode == "signed" and steering.preferences:
        vectors = vectors_of(space, found)
        scores, steered = steering.score_found(
            steered.query,
            topics,
            vectors,
            lambda row, sides: space.worded(store, found.rows, row, sides),
            only=only,
            names=steered.names,
        )
    mattering = steered.strength * max((one.weight for one in steered.preferences), default=0.0)
    lifts = np.float32(max(0.0, 1.0 - mattering)) * found.lifts[0] + found.lifts[1]
    weight_of = {one.preference.id: one.weight * steered.strength for one in steered.preferences}
    weights = {
        row: weight_of[preference.id]
        for row, preference in zip(space.preference_rows, space.preferences, strict=True)
        if preference.id in weight_of
    }
    felt = {row: max(_LEAST_PENALTY, weight) for row, weight in weights.items()}
    # What is further from the topic than this is not lifted by its stance.
    lifted = np.clip(1.0 - (topics.max() - topics) / _LIFTED, 0.0, 1.0)
    supports, penalties = [], []
    for item in found.rows:
        supported, penalised = space.judged(item)
        supports.append(sum([weights[row] for row in supported if row in weights]))
        penalties.append(sum([penalty * felt.get(row, _LEAST_PENALTY) for row, penalty in penalised]))
    gains = SUPPORTS * lifted * np.array(supports) - np.array(penalties)
    return scores + lifts + gains.astype(np.float32) + (found.topics - topics), steered


def vectors_of(space: Namespace, found: Candidates, items: Sequence[int] | None = None) -> FloatArray:
    """Return E(x) of the candidates, or of some of their items, shape `(n, d)`.

    Of one without it is the embedding of its nearest instruction.
    """
    items = found.rows if items is None else items
    places = space.texts.places(items)
    if not (places < 0).any():
        return space.texts.vectors[places]
    rows = [
        space.texts.vectors[place] if place >= 0 else space.index.vector(found.entries[item][0])
        for place, item in zip(places.tolist(), items, strict=True)
    ]
    return np.stack(rows)


def least_topic(encoder: object, topics: FloatArray, held: int, min_score: float | str | None) -> float:
    """Return from which topic on items are relevant; infinite if none is.

    The best topic decides whether the query is about anything that is held. The surer it is, the less the others need,
    but what has less than two fifths of its topic has to be relevant by itself. Among many texts one is near to any
    query by chance, so the best one's topic has to grow with the logarithm of their number.

    Args:
        encoder: Whose cosines they are.
        topics: Of the candidates.
        held: How many items there are.
        min_score: The least topic; "auto" for the encoder's own, None for none.
    """
    if min_score is None:
        return -np.inf
    if isinstance(min_score, float):
        return min_score
    enough = default_relevant(encoder)
    best = float(topics.max(initial=-np.inf))
    if best < enough + _BY_CHANCE * math.log(max(1.0, held / _FEW)):
        return float(np.inf)
    return max(enough - _LEAST_RELEVANT, 2.0 * enough - best, min(enough, _LEAST_SHARE * best))


def facts_among(space: Namespace, found: Candidates, encoder: object) -> list[tuple[int, float]]:
    """Return the facts of the user that are worth telling among candidates: item rows with their topics, best first."""
    least = default_relevant(encoder) + _LEAST_FACT
    topics = zip(found.rows, found.topics.tolist(), strict=True)
    return [(row, float(topic)) for row, topic in topics if row in space.facts and topic >= least]


def facts_by_text(
    space: Namespace, store: Store, encoder: object, query: str, vector: FloatArray, condition: Filter | None
) -> list[tuple[int, float]]:
    """Return the facts of the user that are relevant by their text alone: item rows with their topics, best first."""
    facts = space.facts if condition is None else space.facts & space.items_matching(condition)
    if not facts:
        return []
    none = np.empty(0, dtype=np.int64)
    found = candidates(space, store, query, vector, 1, entries_allowed=none, items_allowed=frozenset(facts))
    least = least_topic(encoder, found.topics, len(space.texts), "auto")
    return facts_among(space, worth_ranking(space, found, least, encoder, "auto"), encoder)


def worth_ranking(
    space: Namespace, found: Candidates, least: float, encoder: object, min_score: float | str | None
) -> Candidates:
    """Leave out items with less topic than `least`, and those of the light tier that are barely about the topic."""
    keep = found.topics >= least
    if min_score == "auto":
        light = np.array([space.light(row) for row in found.rows], dtype=bool)
        keep &= ~light | (found.topics >= np.float64(default_relevant(encoder) - _LEAST_LIGHT))
    if keep.all():
        return found
    places = np.flatnonzero(keep).tolist()
    return replace(
        found, rows=[found.rows[place] for place in places], topics=found.topics[places], lifts=found.lifts[:, places]
    )


def distinct(space: Namespace, store: Store, items: Sequence[int], order: Iterable[int], k: int) -> list[int]:
    """Choose the k best places in an order; what repeats a better one, or its source once too often, comes last.

    Args:
        space: What was searched.
        store: Its file.
        items: Item rows.
        order: Places in `items`, best first.
        k: How many.
    """
    chosen: list[int] = []
    same: list[int] = []
    of_source: dict[str, int] = {}
    taken = np.empty((min(k, len(items)), space.texts.dimension), dtype=np.float32)
    for place in order:
        at = space.texts.place(items[place])
        if at >= 0 and chosen and float((taken[: len(chosen)] @ space.texts.vectors[at]).max()) >= _SAME:
            same.append(place)
            continue
        source = space.held(store, [items[place]])[items[place]].item.metadata.get(SOURCE)
        if isinstance(source, str):
            of_source[source] = of_source.get(source, 0) + 1
            if of_source[source] > k - k // _OTHERS:
                same.append(place)
                continue
        taken[len(chosen)] = space.texts.vectors[at] if at >= 0 else 0.0
        chosen.append(place)
        if len(chosen) == k:
            break
    return (chosen + same)[:k]
