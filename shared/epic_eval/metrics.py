"""Measures of tier 0, which no model answers or judges, and means over personas with intervals."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from epic_eval.datasets import Case, Data, Question
from epic_memory import Item

MEASURES: dict[str, str] = {
    "accuracy": "a model's answers that a judge found to follow the preference and to help, in %",
    "choice": "the option that follows the question's preference comes before those that break it (chance 0.25;"
    " none of the four among the first hundred is a failure)",
    "breaking": "how many of the options that break it are among the five passages",
    "none": "none of the four options is among the first hundred",
    "label": "the first passage that a reader judged for the question's preference: 1 if it supports it, 1/2 if it does"
    " both, else 0, and 0 for none",
    "named": "the question's own preference is in what a model is told: among the preferences the arm puts first, or in"
    " its guidance",
}
"""The measures by name; all but the first need no model, and none of those is an accuracy."""
WORTH = {"supports": 1.0, "mixed": 0.5}

_RESAMPLES = 2_000


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A mean over personas with its 95 % interval.

    Attributes:
        mean: Of the personas' means.
        low, high: By bootstrap over personas, as questions of one persona are not independent.
        personas, questions: How many there were.
    """

    mean: float
    low: float
    high: float
    personas: int
    questions: int

    def __str__(self) -> str:
        # One persona says nothing about others.
        return f"{self.mean:.2f}" + (f" [{self.low:.2f}, {self.high:.2f}]" if self.personas > 1 else "")


def estimate(values: Iterable[tuple[object, float]]) -> Estimate | None:
    """Return the mean of values, each with its persona; None for no values."""
    known = list(values)
    if not known:
        return None
    means = np.array(list(_means(known).values()))
    low, high = interval(means)
    return Estimate(mean=float(means.mean()), low=low, high=high, personas=len(means), questions=len(known))


def interval(means: Sequence[float] | np.ndarray) -> tuple[float, float]:
    """Return the 95 % bootstrap interval of the mean of independent values; the same for the same values."""
    known = np.asarray(means, dtype=float)
    rows = np.random.default_rng(0).integers(len(known), size=(_RESAMPLES, len(known)))
    low, high = np.percentile(known[rows].mean(axis=1), [2.5, 97.5])
    return float(low), float(high)


def proxies(
    data: Data,
    question: Question,
    *,
    passages: Sequence[Mapping[str, Any]],
    opening: Sequence[str],
    order: Sequence[str],
) -> dict[str, float]:
    """Return the measures of one question; those for which nothing is known of it are left out.

    Args:
        data: Cases and labels.
        question: The question.
        passages: The five, with `id`, `text` and `guidance`.
        opening: The preferences that the arm tells.
        order: The ids of the first hundred passages.
    """
    place = {item: number for number, item in enumerate(order)}
    guidance = [line for passage in passages for line in passage["guidance"]]
    told = question.preference in opening or any(question.preference in line for line in guidance)
    found = {"named": float(told)}
    if (case := case_for(data.cases, question)) is not None:
        ids = [Item(text=option).id for option in case.options]
        follows, *breaks = (place.get(each, len(order) + 1) for each in ids)
        found["choice"] = float(follows < min(breaks))
        five = {passage["id"] for passage in passages}
        found["breaking"] = float(sum(each in five for each in ids[1:]))
        found["none"] = float(not place.keys() & set(ids))
    stances = data.labels.get(question.preference, {})
    if any(stances.values()):
        first = next((stances[item] for item in order if item in stances), "")
        found["label"] = WORTH.get(first, 0.0)
    return found


def case_for(cases: Mapping[str, Sequence[Case]], question: Question) -> Case | None:
    """Return the multiple choice of a question: the one with its words, else the first of its preference."""
    of = cases.get(question.preference, ())
    return next((case for case in of if case.question == question.text), of[0] if of else None)


def paired(
    one: Iterable[tuple[object, float]], other: Iterable[tuple[object, float]]
) -> tuple[float, float, float] | None:
    """Return the mean difference one - other over the personas that both have, and its interval."""
    firsts, seconds = _means(one), _means(other)
    differences = [firsts[persona] - seconds[persona] for persona in firsts if persona in seconds]
    if not differences:
        return None
    return (float(np.mean(differences)), *interval(differences))


def _means(values: Iterable[tuple[object, float]]) -> dict[object, float]:
    groups: dict[object, list[float]] = defaultdict(list)
    for persona, value in values:
        groups[persona].append(value)
    return {persona: float(np.mean(group)) for persona, group in groups.items()}


def overlaps(answer: str, reference: str) -> dict[str, float]:
    """Return how far an answer has the words of a reference.

    ROUGE-1, -2 and -L are F1; BLEU is of up to four words in a row, from two on with one added to both counts; EM is 1
    if the texts are the same but for case, spaces and punctuation.
    """
    one, other = (re.findall(r"\w+", text.casefold()) for text in (answer, reference))
    longest = np.zeros((len(one) + 1, len(other) + 1), dtype=int)
    for row, word in enumerate(one, start=1):
        for column, another in enumerate(other, start=1):
            same = longest[row - 1, column - 1] + 1
            longest[row, column] = same if word == another else max(longest[row - 1, column], longest[row, column - 1])
    logs = []
    for size in range(1, 5):
        both, added = _shared(one, other, size), int(size > 1)
        logs.append(math.log(max(both + added, 1e-9) / max(len(one) - size + 1 + added, 1)))
    brevity = min(0.0, 1.0 - len(other) / max(len(one), 1))
    rouge = {n: 2 * _shared(one, other, n) / max(len(one) + len(other) - 2 * n + 2, 1) for n in (1, 2)}
    return {
        "R-1": rouge[1],
        "R-2": rouge[2],
        "R-L": 2 * float(longest[-1, -1]) / max(len(one) + len(other), 1),
        "BLEU": math.exp(brevity + sum(logs) / 4) if one else 0.0,
        "EM": float(one == other),
    }


def _shared(one: Sequence[str], other: Sequence[str], size: int) -> int:
    """Return how many runs of `size` words two texts share."""
    first, second = (Counter(zip(*(words[n:] for n in range(size)), strict=False)) for words in (one, other))
    return (first & second).total()
