"""Candidates for a query: the texts whose topic is nearest, from which nearness on they are relevant, and their ranks.

With T(x) the cosine of the query with a text and L(x) the text's share of the query's telling words
(`text.lexical_index`),

    topic(q, x) = T(x) + worded L(x),

or, of a query in a language that the encoder does not know,

    topic(q, x) = foreign_near T(x) + foreign_worded L(x).

An instruction quotes the preference and is near whatever the preference is near, whatever it says: it finds nothing
here. (`keys="instruction"`, the paper's way, searches by nothing else.)

The topic decides whether anything held is relevant at all, and with a lift what is a candidate. Turns of conversations
have one (`text.turns`), as questions about what was said use its words. With x' the question that x answers, whose
words count as its own, and N(x) how many of its speaker and month the query names,

    lift(q, x) = (1 - w) (said L(x) + answered max(0, T(x'))) + named N(x),

with w, how much a preference matters to the query: there the evidence in the texts (`steering.signed`) and their
stances (`steering.ranking`) rank. A memory and a collection are ranked by the same functions.

Names in formulas that are not explained are fields of `CandidateWeights`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from epic_memory.pipeline.fact_matching import answer_scores, answering, held_back
from epic_memory.steering.query_steering import Chosen, QuerySteering
from epic_memory.steering.question_kind import QuestionKind, any_kind, recalls
from epic_memory.steering.ranking import Verdicts
from epic_memory.steering.relevance import default_relevant
from epic_memory.storage.texts import Texts
from epic_memory.text.turns import SOURCE
from epic_memory.types import FloatArray
from epic_memory.types.items import questions_of
from epic_memory.types.verdicts import Stances
from epic_memory.types.weights import StageWeights

# Features of an item's relevance: by how much its topic is above the encoder's own bound, and below the best topic, and
# the log-odds of what kind of question it is.
RELEVANT = ("topic", "behind", "choice", "recall", "others")
# How many candidates are looked at for k hits, at least.
_LEAST_CANDIDATES = 40


@dataclass(frozen=True, kw_only=True)
class CandidateWeights(StageWeights):
    """Numbers that find candidates, and tell which are relevant."""

    worded: float  # what sharing all telling words adds to a topic, unless the encoder says otherwise
    foreign_near: float  # what the cosine counts for a query in a language that the encoder does not know
    foreign_worded: float  # what sharing all telling words adds to a topic there
    asked: float  # what a fact gains that surely answers the question: "We moved to Braga" of "Where do I live?"
    said: float  # what all telling words lift a turn of a conversation
    answered: float  # what the topic of the question that it answers lifts it
    named: float  # what being by a speaker or of a month that the query names lifts it
    relevant: Mapping[str, float]  # of `RELEVANT`, the log-odds that an item is needed, and their "bias"
    needed: float  # log-odds from which it is shown
    options: tuple[float, float]  # how much less suffices for a choice: of the best item, and of those behind it
    by_chance: float  # growth of the topic that is nearest by chance with the logarithm of the number of items
    few: float  # number of items beyond which it grows
    least_few: float  # least share of that number that counts
    least_fact: float  # how much more than relevant a fact has to be that is told beside the hits


@dataclass(frozen=True, kw_only=True)
class RankingWeights(StageWeights):
    """Numbers of what repeats other hits."""

    same: float  # cosine from which texts say the same as a better hit
    others: int  # one in so many hits is of another source, where others are relevant, too


class Shelf(Protocol):
    """Searchable rows: the items of a memory's namespace, or the records of a collection."""

    @property
    def texts(self) -> Texts:
        """E(x), by item row."""

    @property
    def facts(self) -> AbstractSet[int]:
        """Rows of the items that are facts of the user."""

    def near(self, vector: FloatArray, k: int | None) -> tuple[NDArray[np.intp] | None, FloatArray]:
        """Return the places in `texts` of those that may be the k nearest, and of the facts, with their cosines.

        None for all of them, which is the case without a k.
        """

    def stances(self, row: int) -> Stances:
        """Return the stances of an item."""


@dataclass(frozen=True, kw_only=True)
class Candidates:
    """Items that may answer a query, by their topic and lift, best first.

    Attributes:
        rows: Item rows, shape `(n,)`.
        topics: topic(q, x) of each, shape `(n,)`.
        lifts: lift(q, x) of each in two parts, shape `(2, n)`: what a preference that matters takes away, and the rest.
        vectors: E(x) of each, shape `(n, d)`.
        stances: Its stances.
        earlier: Row of a fact to the rows of those that are held back, oldest first, as it may have replaced them.
    """

    rows: list[int]
    topics: FloatArray
    lifts: FloatArray
    vectors: FloatArray
    stances: list[Stances]
    earlier: dict[int, list[int]] = field(default_factory=dict)

    def only(self, keep: NDArray[np.bool_]) -> Candidates:
        """Return some of the candidates."""
        if keep.all():
            return self
        places = np.flatnonzero(keep).tolist()
        return replace(
            self,
            rows=[self.rows[place] for place in places],
            topics=self.topics[places],
            lifts=self.lifts[:, places],
            vectors=self.vectors[places],
            stances=[self.stances[place] for place in places],
        )


def candidates(
    shelf: Shelf,
    encoder: object,
    query: str,
    vector: FloatArray,
    k: int,
    *,
    items: AbstractSet[int] | None,
    foreign: bool | None = False,
) -> Candidates:
    """Find the items whose topic is nearest to a vector, shape `(d,)`, and the turns with the words of a query.

    Only these rows of items may be found; None for all. `foreign` says that the encoder does not know the query's
    language; None that it may not: then words rank if any text has one of them.
    """
    weights = CandidateWeights.shipped()
    wanted = max(_LEAST_CANDIDATES, 2 * k + 8)
    looked_at, topics = shelf.near(vector, wanted if items is None else None)
    rows = shelf.texts.rows if looked_at is None else shelf.texts.rows[looked_at]
    exact, lifts = _exact_words(shelf, query, topics)
    if foreign is None:
        foreign = bool(exact.any())
    if foreign:
        topics *= np.float32(weights.foreign_near)
    topics += np.float32(weights.foreign_worded if foreign else getattr(encoder, "worded", weights.worded)) * exact
    earlier = _with_facts(shelf, query, looked_at, topics, items) if shelf.facts and query else {}
    if items is not None:
        keep = np.isin(rows, np.fromiter(items, dtype=np.int64, count=len(items)))
        rows, topics, lifts = rows[keep], topics[keep], lifts[:, keep]
    ranks = topics + lifts.sum(axis=0)
    if len(ranks) > wanted:
        best = np.argpartition(-ranks, wanted - 1)[:wanted]
        rows, topics, lifts, ranks = rows[best], topics[best], lifts[:, best], ranks[best]
    order = np.lexsort((rows, -ranks))
    best_rows: list[int] = rows[order].tolist()
    return Candidates(
        rows=best_rows,
        topics=topics[order],
        lifts=lifts[:, order],
        vectors=shelf.texts.vectors[shelf.texts.places(best_rows)],
        stances=[shelf.stances(row) for row in best_rows],
        earlier=earlier,
    )


def _with_facts(
    shelf: Shelf,
    query: str,
    looked_at: NDArray[np.intp] | None,
    topics: FloatArray,
    allowed: AbstractSet[int] | None,
) -> dict[int, list[int]]:
    """Add to the topics how surely facts answer a query, and hold back those that later ones may have replaced.

    Returns:
        Row of a fact to the rows of those that are held back for it. It takes over the best of their topics.
    """
    facts = sorted(shelf.facts)
    said = dict(zip(facts, shelf.texts.contents(facts), strict=True))
    places = shelf.texts.places(facts)
    if looked_at is not None:
        places = np.searchsorted(looked_at, places)
    place_of = dict(zip(facts, places.tolist(), strict=True))
    # A fact answers what the questions answer that it is said to answer.
    asked = [
        (place, text)
        for place, (row, metadata) in enumerate(zip(facts, shelf.texts.metadata(facts), strict=True))
        for text in (said[row], *questions_of(metadata))
    ]
    scores = np.full(len(facts), -np.inf, dtype=np.float32)
    np.maximum.at(scores, [place for place, _ in asked], answer_scores(query, [text for _, text in asked]))
    topics[places] += np.float32(CandidateWeights.shipped().asked) * answering(scores)
    keep = [place for place, row in enumerate(facts) if allowed is None or row in allowed]
    shown = [facts[place] for place in keep]
    replaced = held_back(query, [said[row] for row in shown], scores[keep])
    earlier: dict[int, list[int]] = {}
    for old, new in sorted(replaced.items()):
        before, after = place_of[shown[old]], place_of[shown[new]]
        topics[after] = max(topics[after], topics[before])
        topics[before] = -1.0
        earlier.setdefault(shown[new], []).extend([*earlier.pop(shown[old], []), shown[old]])
    return earlier


def _exact_words(shelf: Shelf, query: str, cosines: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return L(x) of each text, shape `(n,)`, and lift(q, x) in two parts, shape `(2, n)`."""
    exact: FloatArray = np.zeros(len(cosines), dtype=np.float32)
    lifts = np.zeros((2, len(cosines)), dtype=np.float32)
    texts = shelf.texts
    shares = texts.lexical().shares(query) if query else ()
    turns = texts.turns() if query else None
    if turns is None:
        for rows, share in shares:
            exact[texts.places(rows)] += np.float32(share)
        return exact, lifts
    weights = CandidateWeights.shipped()
    spoken, answers, questions = (texts.places(some) if len(some) else some for some in turns.rows())
    if len(answers):
        lifts[0, answers] = np.float32(weights.answered) * np.maximum(cosines[questions], 0.0)
    for rows, share in shares:
        has = np.zeros(len(cosines), dtype=bool)
        has[texts.places(rows)] = True
        has[answers] |= has[questions]
        exact[has] += np.float32(share)
    lifts[0, spoken] += np.float32(weights.said) * exact[spoken]
    for named in turns.named(query):
        lifts[1, texts.places(named)] += np.float32(weights.named)
    return exact, lifts


def least_topic(
    encoder: object,
    topics: FloatArray,
    count: int,
    min_score: float | str | None,
    kind: QuestionKind | None = None,
) -> float:
    """Return from which topic on items are relevant; infinite if none is.

    The best one is relevant if a logistic regression (`RELEVANT`) finds it likely to be needed: the nearer its topic,
    the more, and the more so if the question asks for the user's own matters. "How do I boil an egg?" has to be nearer
    to be answered by the memory. Then others are if they are near enough by themselves, or not far behind the best.
    Among many texts one is near to any query by chance, so the best topic has to grow with the logarithm of their
    number.

    Args:
        encoder: Whose cosines they are.
        topics: Of the candidates.
        count: How many items there are.
        min_score: The least topic; "auto" for what is relevant, None for none.
        kind: Of the question; None if it is unknown.
    """
    weights = CandidateWeights.shipped()
    if min_score is None:
        return -np.inf
    if isinstance(min_score, float):
        return min_score
    best = float(topics.max(initial=-np.inf))
    asked = kind or any_kind()
    of = weights.relevant
    enough = default_relevant(encoder)
    bound = enough + weights.by_chance * math.log(max(weights.least_few, count / weights.few))
    missing = weights.needed - of["bias"] - sum(of[name] * one for name, one in asked.odds.items())
    for_best, for_others = (missing - asked.choice * less for less in weights.options)
    if best < bound + for_best / of["topic"]:
        return float(np.inf)
    # Where topic (t - bound) + behind (best - t) is as much, if it is not relevant by itself.
    return min(best, enough, (for_others + of["topic"] * bound - of["behind"] * best) / (of["topic"] - of["behind"]))


def facts_among(shelf: Shelf, found: Candidates, encoder: object) -> list[tuple[int, float]]:
    """Return the facts of the user that are worth telling among candidates: item rows with their topics, best first."""
    least = default_relevant(encoder) + CandidateWeights.shipped().least_fact
    topics = zip(found.rows, found.topics.tolist(), strict=True)
    return [(row, float(topic)) for row, topic in topics if row in shelf.facts and topic >= least]


def relevant_among(
    shelf: Shelf,
    found: Candidates,
    encoder: object,
    gained: FloatArray,
    min_score: float | str | None,
    kind: QuestionKind | None,
) -> tuple[NDArray[np.bool_], bool]:
    """Return which candidates are relevant, shape `(n,)`, and whether any is.

    Args:
        shelf, found, encoder, min_score, kind: As for `candidates` and `least_topic`.
        gained: What topics gain by verdicts, shape `(n,)`: what suits the user need not be as near as the best one.
    """
    fitting = found.topics + gained
    least = least_topic(encoder, fitting, len(shelf.texts), min_score, kind)
    keep: NDArray[np.bool_] = fitting >= least
    if not fitting.max(initial=-np.inf) >= least:
        return keep, False
    if shelf.facts:
        # A fact that answers surely says nothing of how near texts have to be, nor they of facts told beside them.
        texts = np.array([row not in shelf.facts for row in found.rows], dtype=bool)
        keep[texts] = fitting[texts] >= least_topic(encoder, fitting[texts], len(shelf.texts), min_score, kind)
    return keep | (fitting > found.topics) & (fitting >= default_relevant(encoder)), True


def verdicts_on(
    found: Candidates,
    steering: QuerySteering,
    chosen: Chosen,
    kind: QuestionKind | None,
    only: NDArray[np.intp] | None = None,
) -> Verdicts:
    """Return the stances of candidates to the preferences in the rows `only` (None for all), with what each counts."""
    weights = zip(chosen.rows, chosen.weights, strict=True)
    felt = {steering.preferences[row].id: chosen.strength * weight for row, weight in weights}
    return Verdicts.of(found.stances, steering.preferences, felt, not recalls(kind), only=only)


def ranked(
    shelf: Shelf,
    found: Candidates,
    steering: QuerySteering,
    query: FloatArray,
    chosen: Chosen,
    verdicts: Verdicts | None,
) -> FloatArray:
    """Return the score of each candidate for E(q), shape `(n,)`; without verdicts no stance and no evidence counts."""
    if verdicts is None or not found.rows:
        alone: FloatArray = found.topics + found.lifts.sum(axis=0)
        return alone
    topics = found.topics
    if shelf.facts:
        # How surely a fact answers does not tell how near the texts beside it are to the topic.
        facts = np.array([row in shelf.facts for row in found.rows], dtype=bool)
        most = topics[~facts].max(initial=-np.inf) if not facts.all() else np.inf
        topics = np.where(facts, np.minimum(topics, np.float32(most)), topics)
    worded = partial(shelf.texts.worded, found.rows)
    scores = steering.score_found(query, topics, found.vectors, worded, chosen, verdicts.bounds)
    mattering = chosen.strength * max(chosen.weights, default=0.0)
    lifts = np.float32(max(0.0, 1.0 - mattering)) * found.lifts[0] + found.lifts[1]
    total: FloatArray = scores + lifts + (found.topics - topics)
    return verdicts.ranked(total, topics)


def distinct(shelf: Shelf, found: Candidates, order: Sequence[int], k: int) -> list[int]:
    """Choose k of the candidates' places in an order, best first.

    What repeats a better one, or its source once too often, is chosen only if there is no other.
    """
    weights = RankingWeights.shipped()
    chosen: list[int] = []
    same: list[int] = []
    of_source: dict[str, int] = {}
    repeats = np.zeros(len(found.rows), dtype=bool)
    first = shelf.texts.metadata([found.rows[place] for place in order[:k]])
    for number, place in enumerate(order):
        if repeats[place]:
            same.append(place)
            continue
        metadata = first[number] if number < len(first) else shelf.texts.metadata([found.rows[place]])[0]
        source = metadata.get(SOURCE)
        if isinstance(source, str):
            of_source[source] = of_source.get(source, 0) + 1
            if of_source[source] > k - k // weights.others:
                same.append(place)
                continue
        repeats |= np.einsum("ij,j->i", found.vectors, found.vectors[place]) >= weights.same
        chosen.append(place)
        if len(chosen) == k:
            break
    shown = set((chosen + same)[:k])
    return [place for place in order if place in shown]
