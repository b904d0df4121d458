"""History among facts: which of two facts that are held is the earlier value of the other, for a question.

A change told in other words ("I report to Carol" after "My boss is Bob") may leave both held, as losing a fact is
worse than holding two (`pipeline.fact_matching`). A search decides less than an edit: it holds the earlier fact back,
names it beside the later one, and deletes nothing. With P(n, o), the probability that the later fact n changes, ends or
repeats o, and a(.) the log-odds that a fact answers the question, o is held back where

    log(P / (1 - P)) + both_answer (a(n) - a(o)) >= least_history

and n has the kinds of values that are asked for, or says that o is over: the landlord's name does not hide the rent
from "How much is the rent?". A fact that has a name of the question is never held back for one that has not.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from epic_memory.pipeline.fact_matching import FactWeights, chances, wanted_values
from epic_memory.text.statements import statement_of
from epic_memory.types import FloatArray

_RARE = 1e-6
# A question about what was.
_PAST = re.compile(
    r"\b(?:used to|previous\w*|former\w*|earlier|before|originally|at first|back then|in the past|history|ago"
    r"|(?:my|our|the) (?:old|first|last|ex)|did (?:i|we)|was|were|had|changed|last (?:year|month|week|spring|summer"
    r"|autumn|winter))\b",
    re.I,
)


def asks_of_the_past(question: str) -> bool:
    """Tell whether a question is about what was: "What did I use to drive?"."""
    return _PAST.search(question) is not None


def held_back(question: str, texts: Sequence[str], scores: FloatArray) -> dict[int, int]:
    """Return the places of facts to hold back for a question, each with the place of the fact that may replace it.

    Args:
        question: The question; about what was, it holds nothing back.
        texts: The facts, oldest first.
        scores: `answer_scores` of the question, shape `(n,)`.
    """
    weights = FactWeights.shipped()
    if len(texts) < 2 or asks_of_the_past(question):
        return {}
    statements = [statement_of(text) for text in texts]
    asked = statement_of(question).all_names
    named = [asked & each.all_names for each in statements]
    best = np.full(len(texts), -np.inf)
    values = [wanted_values(question, each) for each in statements]
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
