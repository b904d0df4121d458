"""Matching of facts: what a new statement does to one that is held, and which facts answer a question.

Both are read off the words (`text.statements`): which words of one have a near word in the other, which
names and values they share, and whether a statement says that something has changed or is over. With f(n, o) the
features of a new statement n beside a held one o, and g(n) those of n alone,

    P(kind, o) = exp(w_kind f(n, o)) / (exp(w_insert g(n)) + sum of exp(w_kind' f(n, o')) over all held o' and kinds),

kind being replace, duplicate or end. Which fact o answers a question q, or none, is read off features of q and o in the
same way. Words are near by the bundled encoder's table, whichever encoder the memory uses, as the weights are fitted
for it (`shared/tools/fit_facts.py`).

A fact that is lost is worse than one that is held twice. So what seems to change, end or repeat a fact is held beside
it, and proposed; only the same words surely repeat one. Nothing seems to be a repetition that has a value, a name or a
sign of a change of its own.

A change told in other words ("I report to Carol" after "My boss is Bob") may leave both held, as losing a fact is
worse than holding two. A search decides less than an edit: it holds the earlier fact back,
names it beside the later one, and deletes nothing. With P(n, o), the probability that the later fact n changes, ends or
repeats o, and a(.) the log-odds that a fact answers the question, o is held back where

    log(P / (1 - P)) + both_answer (a(n) - a(o)) >= least_history

and n has the kinds of values that are asked for, or says that o is over: the landlord's name does not hide the rent
from "How much is the rent?". A fact that has a name of the question is never held back for one that has not.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import compress
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from epic_memory.encoders.static import default_encoder
from epic_memory.text.statement_pairs import denies, of_others, same_words, says_again
from epic_memory.text.statements import CHANGES, SIGNS, Statement, statement_of, thing_of
from epic_memory.text.stems import stem
from epic_memory.types import FloatArray
from epic_memory.types.weights import StageWeights

Kind: TypeAlias = Literal["replace", "duplicate", "end"]
KINDS: tuple[Kind, ...] = ("replace", "duplicate", "end")
BESIDE = (
    "one", "cosine", "forth", "back", "exact", "nearest", "names", "strange names", "strange words", "leads",
    "other when", "other number", "other name", "all values", "no value", "new values", "when for none",
    "number for none", "none for when", "none for number", "name for none", "fresh lead", "fresh words", *SIGNS,
    *(f"{sign}, back" for sign in SIGNS), "other, back", "other, exact", "all, back", "other, sign",
)  # fmt: skip
"""Features of a new statement beside a held one."""
ALONE = ("one", "facts", *SIGNS)
"""Features of a new statement by itself."""
ASKED = (
    "one", "cosine", "forth", "back", "exact", "nearest", "names", "strange names", "later", "ended",
    "when", "no when", "number", "no number", "name", "no name",
)  # fmt: skip
"""Features of a question beside a held fact."""
_NEARNESS = ("cosine", "forth", "back", "exact", "names", "leads")
# What a question asks for.
_WANTS = tuple(
    re.compile(words, re.I)
    for words in (
        r"\bwhen\b|\b(?:what|which) (?:time|day|date|evening|night|morning|month)|\bdeadline\b|\bhow late\b",
        r"\bhow (?:much|many|old|strong|big|tall|far|long|often)\b|\b(?:code|number|password|pin|combination|cost|price"
        r"|rate|size|dose|budget|rent|fee)\b|\bwhat (?:do|does) .* (?:cost|charge|pay|weigh)",
        r"\b(?:who|whose|whom|called|name|where)\b|\bwhich (?!day|date|evening|night|morning)",
    )
)
_RARE = 1e-6
# A question about what was.
_PAST = re.compile(
    r"\b(?:used to|previous\w*|former\w*|earlier|before|originally|at first|back then|in the past|history|ago"
    r"|(?:my|our|the) (?:old|first|last|ex)|did (?:i|we)|was|were|had|changed|last (?:year|month|week|spring|summer"
    r"|autumn|winter))\b",
    re.I,
)


@dataclass(frozen=True, kw_only=True)
class FactWeights(StageWeights):
    """Numbers by which facts are matched."""

    replace: tuple[float, ...]  # weights of `BESIDE` for a new statement that replaces a fact
    duplicate: tuple[float, ...]  # the same for one that repeats it
    end: tuple[float, ...]  # the same for one that ends it
    insert: tuple[float, ...]  # weights of `ALONE` for a statement that does nothing to any
    answer: tuple[float, ...]  # weights of `ASKED` for a fact that answers a question
    related: float  # "I'm no longer vegan" ends no fact of a sister: one of `_NEARNESS` has to be this much
    unlike: float  # cosine below which words have nothing to do with each other
    alike: float  # nearness of two words for one thing
    sure: float  # probability from which on a statement is about a fact
    same: float  # share of words from which a duplicate says what a fact says
    same_values: float  # the same for one with the same numbers
    both_answer: float  # how much better than an earlier fact a later one has to answer
    least_history: float  # log-odds from which an earlier fact is held back
    most_history: float  # beyond this, how much better one fact answers than another says nothing more

    @cached_property
    def rows(self) -> dict[str, FloatArray]:
        """The weights of features, by what they tell."""
        return {name: np.array(getattr(self, name), dtype=np.float32) for name in (*KINDS, "insert", "answer")}


class Match(NamedTuple):
    """Edit by a new statement, the position of the fact it is about, and how sure that is.

    Attributes:
        kind: What it does.
        place: The position of the fact.
        share: How likely it is about that fact, in [0, 1].
        sure: Whether it repeats the words of the fact.
    """

    kind: Kind
    place: int
    share: float = 1.0
    sure: bool = False


@lru_cache(maxsize=8192)
def _vector(text: str) -> FloatArray:
    vector: FloatArray = default_encoder().encode([text])[0]
    return vector


class FactWords:
    """Some facts with their words, vectors and weights.

    Args:
        texts: The facts, oldest first.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        self.texts = tuple(texts)
        self.statements = [statement_of(text) for text in texts]
        self.vectors = np.stack([_vector(text) for text in texts])
        self._rows_of: dict[str, list[int]] = {}
        for row, each in enumerate(self.statements):
            for one in {stem(word) for word in each.topic} | each.all_names:
                self._rows_of.setdefault(one, []).append(row)
        words = [word for each in self.statements for word in each.topic]
        self._word_vectors = np.stack([_vector(word) for word in words]) if words else self.vectors[:0]
        self._stems = np.array([stem(word) for word in words])
        self._things = np.array([thing_of(word) for word in words])
        self._owners = np.repeat(np.arange(len(texts)), [len(each.topic) for each in self.statements])
        self._word_weights = self.weights(self._stems.tolist())
        self._most = math.log1p(2.0 * (len(texts) + 1.0))

    def weights(self, words: Iterable[str]) -> FloatArray:
        """Return how telling stems or names are, by the number of facts that have them; shape `(n,)`."""
        return np.array([self._weight(word) for word in words], dtype=np.float32)

    def _weight(self, word: str) -> float:
        return math.log1p((len(self.statements) + 1.0) / (len(self._rows_of.get(word, ())) + 0.5))

    def share(self, common: Iterable[str]) -> float:
        """Return how telling the most telling of some stems or names is, in [0, 1]."""
        return max(map(self._weight, common), default=0.0) / self._most

    def known(self, words: Iterable[str]) -> set[str]:
        """Return those of some stems or names that any fact has."""
        return {word for word in words if word in self._rows_of}

    def having(self, words: Iterable[str]) -> FloatArray:
        """Return of each fact how telling the most telling of some words is that it has, shape `(n,)`."""
        found = np.zeros(len(self.statements), dtype=np.float32)
        for word in words:
            if rows := self._rows_of.get(word):
                found[rows] = np.maximum(found[rows], self.share([word]))
        return found

    def covered(self, statement: Statement) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return how near the words of a statement are to those of each fact.

        Returns:
            The share of the statement's words that have a near word in the fact, the share of the fact's words that
            have one in the statement, and the weight of the stems that both have; each shape `(n,)`.
        """
        numbers = FactWeights.shipped()
        count = len(self.statements)
        if not statement.topic or not len(self._stems):
            nothing = np.zeros(count, dtype=np.float32)
            return nothing, nothing.copy(), nothing.copy()
        stems = np.array([stem(word) for word in statement.topic])
        things = np.array([thing_of(word) or "-" for word in statement.topic])
        near = np.stack([_vector(word) for word in statement.topic]) @ self._word_vectors.T
        same = stems[:, None] == self._stems
        near = np.clip((near - numbers.unlike) / (1.0 - numbers.unlike), 0.0, numbers.alike)
        near = np.where(same, 1.0, np.where(things[:, None] == self._things, numbers.alike, near)).astype(np.float32)
        weights = self.weights(stems.tolist())
        owners, starts = np.unique(self._owners, return_index=True)
        best, has = (np.zeros((len(stems), count), dtype=np.float32) for _ in range(2))
        best[:, owners] = np.maximum.reduceat(near, starts, axis=1)
        has[:, owners] = np.maximum.reduceat(same.astype(np.float32), starts, axis=1)
        sums = np.bincount(self._owners, self._word_weights, minlength=count)
        found = np.bincount(self._owners, self._word_weights * near.max(axis=0), minlength=count)
        back = (found / np.maximum(sums, 1e-6)).astype(np.float32)
        return (weights @ best) / weights.sum(), back, (weights @ has) / np.float32(self._most)


@lru_cache(maxsize=8)
def fact_words(texts: tuple[str, ...]) -> FactWords:
    """Return facts with their words, made once for as long as they are the same."""
    return FactWords(texts)


def beside(text: str, held: FactWords) -> tuple[FloatArray, FloatArray]:
    """Return `BESIDE` of a statement with each held fact, shape `(n, len(BESIDE))`, and `ALONE`, shape `(a,)`."""
    new = statement_of(text)
    cosines = held.vectors @ _vector(text)
    forth, back, exact = held.covered(new)
    nearest = _ahead(forth + back + exact)
    signs = [float(sign in new.signs) for sign in SIGNS]
    changed = float(not CHANGES.isdisjoint(new.signs))
    rows = []
    for place, old in enumerate(held.statements):
        fresh, gone = new.names - old.all_names, old.names - new.all_names
        certain = (new.names & old.all_names) | (old.names & new.all_names)
        other_when = bool(new.when and old.when and not new.when <= old.when)
        other_number = bool(new.numbers and old.numbers and not new.numbers <= old.numbers)
        told = new.values | new.names | ({new.lead} & old.names)
        every = bool(told) and told <= old.values | old.all_names
        strange_words = held.known(new.stems) - old.stems
        other = float(other_when or other_number or bool(fresh and gone))
        rows.append([
            1.0, cosines[place], forth[place], back[place], exact[place], nearest[place],
            held.share(certain), held.share(held.known(new.all_names - old.all_names)), held.share(strange_words),
            held.share(new.all_names & old.all_names),
            other_when, other_number, fresh and gone, every, not told, new.values - old.values,
            new.when and not old.when, new.numbers and not old.numbers, old.when and not new.when,
            old.numbers and not new.numbers, fresh and not gone, new.begins_unlike(old),
            len([word for word in new.stems if word not in old.stems | old.all_names]) / max(1, len(new.stems)),
            *signs, *(sign * back[place] for sign in signs),
            other * back[place], other * exact[place], every * back[place], other * changed,
        ])  # fmt: skip
    flat = [[each if isinstance(each, float | np.floating) else bool(each) for each in row] for row in rows]
    return np.array(flat, np.float32), np.array([1.0, math.log1p(len(held.statements)), *signs], np.float32)


def _ahead(sums: FloatArray) -> FloatArray:
    """Return how far each of some sums is above the greatest of the others, shape `(n,)`."""
    second = np.partition(sums, -2)[-2] if len(sums) > 1 else np.float32(0.0)
    ahead: FloatArray = sums - np.where(sums == sums.max(), second, sums.max())
    return ahead


def probabilities(beside_each: FloatArray, alone: FloatArray, weights: dict[str, FloatArray]) -> FloatArray:
    """Return P(kind, o), shape `(n, 3)`, from the features of a statement."""
    scores = beside_each @ np.stack([weights[kind] for kind in KINDS], axis=1)
    insert = float(alone @ weights["insert"])
    top = max(insert, float(scores.max(initial=insert)))
    raised = np.exp(scores - top)
    shares: FloatArray = raised / (math.exp(insert - top) + raised.sum())
    return shares


def matched(text: str, texts: Sequence[str]) -> Match | None:
    """Return what a new statement does to which of the facts that are held, oldest first; None if to none of them."""
    if not texts:
        return None
    for place, old in enumerate(texts):
        if says_again(text, old):
            return Match("duplicate", place, sure=True)
    for place, old in enumerate(texts):
        if denies(text, old) and same_words(text, old) and "ended" not in statement_of(text).signs:
            return Match("replace", place)
    held = fact_words(tuple(texts))
    features, alone = beside(text, held)
    return decided(text, held, features, probabilities(features, alone, FactWeights.shipped().rows))


def possible(column: dict[str, FloatArray], shares: FloatArray) -> FloatArray:
    """Return P(kind, o), shape `(n, 3)`, with zeros where a statement has nothing to do with a fact."""
    shares = shares.copy()
    shares[np.max([column[name] for name in _NEARNESS], axis=0) < FactWeights.shipped().related] = 0.0
    return shares


@lru_cache(maxsize=1024)
def chances(text: str, texts: tuple[str, ...]) -> FloatArray:
    """Return how likely a statement changes, ends or repeats each of some earlier facts, shape `(n,)`, if it may."""
    held = fact_words(texts)
    features, alone = beside(text, held)
    column = {name: features[:, place] for place, name in enumerate(BESIDE)}
    shares: FloatArray = possible(column, probabilities(features, alone, FactWeights.shipped().rows)).sum(axis=1)
    if (CHANGES | {"ended"}).isdisjoint((new := statement_of(text)).signs):
        shares[[not _may_replace(text, new, held, place) for place in range(len(texts))]] = 0.0
    shares[[of_others(text, old) for old in texts]] = 0.0
    return shares


def decided(text: str, held: FactWords, features: FloatArray, shares: FloatArray) -> Match | None:
    """Choose the edit from P(kind, o), among those allowed for this pair."""
    weights = FactWeights.shipped()
    new = statement_of(text)
    column = {name: features[:, place] for place, name in enumerate(BESIDE)}
    signed = not (CHANGES | {"ended"}).isdisjoint(new.signs)
    shares = possible(column, shares)
    for place in range(len(held.statements)):
        if not signed and not _may_replace(text, new, held, place):
            shares[place, 0] = 0.0
        if "ended" in held.statements[place].signs:
            shares[place, 2] = 0.0
    place = int(shares.sum(axis=1).argmax())
    if shares[place].sum() < weights.sure:
        return None
    kind, old = KINDS[int(shares[place].argmax())], held.statements[place]
    fresh = (new.values | new.names) - old.values - old.all_names
    if kind == "duplicate":
        every, forth = bool(column["all values"][place]), column["forth"][place]
        same = forth >= weights.same or (every and (bool(new.values) or forth >= weights.same_values))
        same = same and ("ended" in new.signs) == ("ended" in old.signs)
        same = same and not (signed and column["fresh words"][place] > 0.0)
        if not same or fresh or new.begins_unlike(old) or denies(text, held.texts[place]):
            if not signed:
                return None
            kind = "end" if "ended" in new.signs and not fresh else "replace"
    if kind == "end" and (new.names - old.all_names or new.numbers - old.numbers):
        kind = "replace"
    return Match(kind, place, share=float(shares[place].sum()))


def _may_replace(text: str, new: Statement, held: FactWords, place: int) -> bool:
    """Tell whether a statement without a sign of a change may give another value for what a fact is about."""
    old = held.statements[place]
    if denies(text, held.texts[place]):
        return False
    names = bool(new.names - old.all_names and old.names - new.all_names)
    when, numbers = (
        bool(one and two and not one <= two) for one, two in ((new.when, old.when), (new.numbers, old.numbers))
    )
    return when + numbers + names < 2


def asked(question: str, held: FactWords) -> FloatArray:
    """Return `ASKED` of a question with each held fact, shape `(n, len(ASKED))`."""
    said = statement_of(question)
    count = len(held.statements)
    forth, back, exact = held.covered(said)
    names = held.having(said.all_names)
    nearest = _ahead(forth + back + exact + names)
    ended = ["ended" in each.signs for each in held.statements]
    rows = [
        np.ones(count), held.vectors @ _vector(question), forth, back, exact, nearest, names,
        np.max(names, initial=0.0) - names, np.arange(count) / max(1, count), ended,
    ]  # fmt: skip
    for wants, kind in zip(_WANTS, ("when", "numbers", "names"), strict=True):
        wanted, has = wants.search(question) is not None, [bool(getattr(each, kind)) for each in held.statements]
        rows += [wanted & np.array(has), wanted & ~np.array(has)]
    return np.stack([np.asarray(row, dtype=np.float32) for row in rows], axis=1)


def answer_scores(question: str, texts: Sequence[str]) -> FloatArray:
    """Return the logarithm of how many times as likely each fact answers a question as none does, shape `(n,)`."""
    scores: FloatArray = asked(question, fact_words(tuple(texts))) @ FactWeights.shipped().rows["answer"]
    return scores


def answering(scores: FloatArray) -> FloatArray:
    """Return how likely each fact is the one that answers, by its `answer_scores`; they sum to 1 at most."""
    top = max(0.0, float(scores.max()))
    raised = np.exp(scores - top)
    shares: FloatArray = raised / (math.exp(-top) + raised.sum())
    return shares


def held_back(question: str, texts: Sequence[str], scores: FloatArray) -> dict[int, int]:
    """Return the places of facts, oldest first, to hold back, each with the place of the fact that may replace it.

    A question about what was holds nothing back. `scores` are its `answer_scores`, shape `(n,)`.
    """
    weights = FactWeights.shipped()
    if len(texts) < 2 or _PAST.search(question):
        return {}
    statements = [statement_of(text) for text in texts]
    asked = statement_of(question).all_names
    named = [asked & each.all_names for each in statements]
    best = np.full(len(texts), -np.inf)
    wanted = [wants.search(question) is not None for wants in _WANTS]
    # Which of the values that the question asks for a statement has: a time, a number, a name.
    values = [tuple(map(bool, compress((each.when, each.numbers, each.names), wanted))) for each in statements]
    by = np.zeros(len(texts), dtype=np.int64)
    for new in range(1, len(texts)):
        share = np.clip(chances(texts[new], tuple(texts[:new])), _RARE, 1.0 - _RARE)
        odds = np.log(share / (1.0 - share)) + weights.both_answer * np.clip(
            scores[new] - scores[:new], -weights.most_history, weights.most_history
        )
        odds[[bool(names - named[new]) for names in named[:new]]] = -np.inf
        if "ended" not in statements[new].signs:
            lacks = [any(had and not has for had, has in zip(old, values[new], strict=True)) for old in values[:new]]
            odds[lacks] = -np.inf
        better = odds >= best[:new]
        best[:new][better], by[:new][better] = odds[better], new
    return {place: int(by[place]) for place in np.flatnonzero(best >= weights.least_history).tolist()}
