"""Fits the weights of `epic_memory.steering.relevance` on queries and preferences of our own, and writes them.

    python shared/tools/fit_relevance.py

A preference matters to the question of its own case (`written/options.jsonl`, `written/preferences.jsonl`), with its
four options as candidates or with everything of ours. It does not matter to other cases' questions, to those of
`texts/*_questions.txt`, and to two that were written beside it (`written/beside.jsonl`): one that asks for facts about
its subject, one that asks for advice in a neighbouring matter.

The bias is such that of ten preferences taken at random some matter to `STEERED` of the questions in `texts`. First for
the bundled encoder, then, with all-MiniLM-L6-v2 (`epic_minilm`), for others. Printed as well: how often each kind of
question reaches a preference in cases left out of the fit, a tenth at a time.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from epic_memory.encoders import MiniLMEncoder, default_encoder, embed
from epic_memory.encoders.base import Encoder
from epic_memory.preferences.evidence import AspectEmbeddings, embed_aspects
from epic_memory.runtime.effects import run
from epic_memory.steering.question_kind import question_kind
from epic_memory.steering.relevance import FEATURES, Nearness, RelevanceWeights, encoding_samples, nearness
from epic_memory.types import FloatArray
from fitting import Array, Linear, logistic, write_weights, written

TEXTS = Path(__file__).parent / "texts"
PERSONA = 10
RIDGE = 3.0
FOLDS = 10
# By the query, and with candidates: where candidates are about something else, steering by them does little harm.
STEERED = (0.08, 0.14)


class Asked(NamedTuple):
    """A question under some preferences, of which the first matters or none does.

    Attributes:
        question: The question.
        preferences: Ten of them.
        options: What there is to choose from; None: everything of ours.
        matters: Whether the first preference does.
        unrelated: Whether the preferences were taken at random.
    """

    question: str
    preferences: list[str]
    options: list[str] | None
    matters: bool
    unrelated: bool = False


def lines(kind: str) -> list[str]:
    """Those of a kind of texts of our own."""
    found = [path.read_text(encoding="utf-8").splitlines() for path in sorted(TEXTS.glob(f"*_{kind}.txt"))]
    return [line for part in found for line in part if line.strip()]


def questions() -> Iterator[Asked]:
    """All that is fitted on."""
    draw = random.Random(0)
    cases = [*written("options.jsonl"), *written("preferences.jsonl")]
    every = list(dict.fromkeys(case["preference"] for case in cases))

    def persona(own: str) -> list[str]:
        return [own, *draw.sample([one for one in every if one != own], PERSONA - 1)]

    for case in cases:
        preferences = persona(case["preference"])
        yield Asked(case["question"], preferences, case["options"], True)
        yield Asked(case["question"], persona(case["preference"]), None, True)
    for record in written("beside.jsonl"):
        yield Asked(record["facts"], persona(record["preference"]), None, False)
        yield Asked(record["beside"], persona(record["preference"]), None, False)
    for question in lines("questions"):
        yield Asked(question, draw.sample(every, PERSONA), None, False, unrelated=True)


class Known:
    """An encoder, and what it has encoded."""

    def __init__(self, encoder: Encoder, asked: Sequence[Asked]) -> None:
        cases = [*written("options.jsonl"), *written("preferences.jsonl")]
        self._vectors: dict[str, FloatArray] = {}
        preferences = list(dict.fromkeys(one for each in asked for one in each.preferences))
        everything = list(
            dict.fromkeys([*(option for case in cases for option in case["options"]), *lines("passages")])
        )
        texts = list(dict.fromkeys([*preferences, *everything, *(one.question for one in asked)]))
        self._vectors = dict(zip(texts, embed(encoder, texts), strict=True))
        self._sides: dict[str, AspectEmbeddings] = dict(
            zip(preferences, embed_aspects(encoder, preferences), strict=True)
        )
        self._samples = run(encoding_samples(encoder))
        self._everything = self.of(everything)

    def of(self, texts: Sequence[str]) -> FloatArray:
        """Embeddings of texts, shape `(len(texts), d)`."""
        return np.stack([self._vectors[text] for text in texts])

    def features(self, asked: Asked) -> tuple[Array, Array]:
        """Return `FEATURES` of each preference, by the query and with candidates, each shape `(m, len(FEATURES))`."""
        query, vectors = self._vectors[asked.question], self.of(asked.preferences)
        to = Nearness(vectors, [self._sides[one] for one in asked.preferences], self._samples)
        kind = question_kind(asked.question)
        candidates = self._everything if asked.options is None else self.of(asked.options)
        choice = RelevanceWeights.shipped().unknown if kind is None else kind.choice
        near = [nearness(query, to, some) for some in (None, candidates)]
        plain, among = (np.stack([one, np.full(len(one), choice)], axis=1) for one in near)
        return plain, among


def fitted(found: Array, asked: Sequence[Asked], steered: float) -> Linear:
    """The weights, from features of shape `(len(asked), PERSONA, f)`."""
    matters = np.zeros(found.shape[:2])
    matters[:, 0] = [one.matters for one in asked]
    flat = found.reshape(-1, found.shape[-1]).astype(float)
    linear = logistic(flat, matters.ravel(), np.ones(len(flat)), RIDGE)
    unrelated = np.array([one.unrelated for one in asked])
    highest = np.sort(linear(found[unrelated]).max(axis=1))
    return Linear(linear.weights, linear.bias - float(highest[int(len(highest) * (1.0 - steered))]))


def main() -> None:
    asked = list(questions())
    weights: dict[str, dict[str, float]] = {}
    judged: dict[str, float] = {}
    for whose, encoder in {"static": default_encoder(), "other": MiniLMEncoder()}.items():
        known = Known(encoder, asked)
        measured = [known.features(one) for one in asked]
        print(encoder.name)
        for knows, found, steered in zip(("query", "choice"), zip(*measured, strict=True), STEERED, strict=True):
            every = np.array(found)
            linear = fitted(every, asked, steered)
            fold, unseen = np.arange(len(asked)) % FOLDS, np.zeros(every.shape[:2])
            for left_out in range(FOLDS):
                seen = [one for one, part in zip(asked, fold, strict=True) if part != left_out]
                unseen[fold == left_out] = fitted(every[fold != left_out], seen, steered)(every[fold == left_out])
            fields = zip((*FEATURES, "bias"), (*linear.weights, linear.bias), strict=True)
            weights[f"{whose}_{knows}"] = {name: round(float(weight), 2) for name, weight in fields}
            print(f"    {whose}_{knows}: {weights[f'{whose}_{knows}']}")
            for kind, chosen in (
                ("its own question", [one.matters for one in asked]),
                ("beside it", [not one.matters and not one.unrelated for one in asked]),
                ("taken at random (any of ten)", [one.unrelated for one in asked]),
            ):
                odds = unseen[np.array(chosen)]
                reached = (odds if "any" in kind else odds[:, :1]).max(axis=1) >= 0.0
                print(f"        matters to {kind}: {reached.mean():.3f}")
                judged[f"{whose}_{knows}: matters to {kind}"] = round(float(reached.mean()), 3)
    write_weights(
        RelevanceWeights,
        "shared/tools/fit_relevance.py",
        weights,
        on="written/options.jsonl, written/preferences.jsonl, written/beside.jsonl, texts/*_questions.txt",
        judged=judged,
    )


if __name__ == "__main__":
    main()
