"""Reranker that learns from what helped: a Plackett-Luce policy over the results of a search (PURPLE)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from epic_memory.errors import InvalidInputError
from epic_memory.types import FloatArray, Hit, Preference
from epic_memory.types.results import Ranking
from epic_rerank.features import NAMES, features_of
from epic_rerank.policy import Floats, Lists, Pass, Weights, log_probability, sample, shapes, shares, untrained
from epic_rerank.training import Example, TrainingSettings, prior, train

CANDIDATES = 20
"""Number of results of a search that are reranked (N in the paper)."""

SIGNALS: Mapping[str, float] = {"used": 0.7, "copied": 0.9, "thumb": 1.0, "corrected": 0.0}
"""Rewards in [0, 1] of what a user does with a hit."""

FORMAT = 1
# Lists drawn from what was shown, for one feedback.
_LISTS = 24
_FEEDBACK = TrainingSettings(epochs=8, rate=0.005)


class LearnedReranker:
    """A reranker that has learnt which results help, and in which order.

        reranker = LearnedReranker()
        hits = memory.search("What should I cook tonight?", options=SearchOptions(chooser=reranker))

    Untrained it changes nothing: the order of retrieval is its prior. It holds numbers only, no text, and asks no
    model.

    Args:
        encoder: The fingerprint of the encoder that the features are made with; "" for any.
        weights: Of the network; None for an untrained one.
        trained_on: What it was trained on, in words and numbers.
    """

    def __init__(
        self, *, encoder: str = "", weights: Weights | None = None, trained_on: Mapping[str, Any] | None = None
    ) -> None:
        self.encoder = encoder
        self.weights = untrained(len(NAMES)) if weights is None else weights
        self.trained_on = dict(trained_on or {})

    @property
    def is_trained(self) -> bool:
        """True if it may change an order."""
        return bool(self.weights["w3"].any())

    def scores(self, features: Floats) -> Floats:
        """Return the score of each candidate, shape `(n,)`; only differences count."""
        if not len(features):
            return np.zeros(0)
        return prior(len(features)) + Pass(self.weights, features).scores

    def rank(self, features: Floats, k: int) -> Ranking:
        """Choose the k best candidates in order.

        Args:
            features: As `features.features_of` makes them, shape `(n, f)`.
            k: How many, at least 1.
        """
        scores = self.scores(features)
        k = min(k, len(scores))
        if not k:
            return Ranking(features=features, order=[], probabilities=[])
        order = np.argsort(-scores, kind="stable")[:k]
        return Ranking(features=features, order=order.tolist(), probabilities=shares(scores)[order].tolist())

    @property
    def candidates(self) -> int:
        """Number of results of a search that it chooses from."""
        return CANDIDATES

    def choose(
        self,
        query: str,
        vector: FloatArray | None,
        hits: Sequence[Hit],
        vectors: Sequence[FloatArray],
        k: int,
        matters: Sequence[tuple[Preference, float]] = (),
    ) -> Ranking:
        """Choose the k best of a search's hits; the arguments are those of `features.features_of` and of `rank`."""
        return self.rank(features_of(query, vector, hits, vectors, matters), k)

    def train(self, examples: Sequence[Example], settings: TrainingSettings | None = None) -> LearnedReranker:
        """Return a reranker that has learnt from examples; this one stays as it is.

        Raises:
            InvalidInputError: if there is nothing to learn from: no example has two lists of different reward.
        """
        if not any(float(example.rewards.std()) > 1e-9 for example in examples):
            raise InvalidInputError("There is nothing to learn: no example has lists of different reward.")
        weights = train(self.weights, examples, settings or TrainingSettings())
        return LearnedReranker(encoder=self.encoder, weights=weights, trained_on=self.trained_on)

    def learn(self, events: Sequence[Mapping[str, Any]], seed: int = 0) -> LearnedReranker:
        """Return a reranker that has learnt from feedback, as `feedback_event` makes it."""
        examples = feedback_examples(events, seed)
        if not examples:
            return self
        learnt = self.train(examples, _FEEDBACK)
        learnt.trained_on = {**self.trained_on, "feedback": int(self.trained_on.get("feedback", 0)) + 1}
        return learnt

    # the file

    def as_object(self) -> dict[str, Any]:
        """Return what JSON can hold of it: below 100 kB."""
        weights = {name: [float(f"{value:.6g}") for value in array.ravel()] for name, array in self.weights.items()}
        return {
            "kind": "epic-reranker",
            "format": FORMAT,
            "features": list(NAMES),
            "encoder": self.encoder,
            "trained_on": self.trained_on,
            "weights": weights,
        }

    @classmethod
    def from_object(cls, value: Any, *, encoder: str = "") -> LearnedReranker:
        """Return the reranker of an object.

        Args:
            value: What `as_object` returned.
            encoder: The fingerprint of the encoder it is to be used with; "" to leave it unchecked.

        Raises:
            InvalidInputError: for anything else, other features, or another encoder.
        """
        if not isinstance(value, Mapping) or value.get("kind") != "epic-reranker" or value.get("format") != FORMAT:
            raise InvalidInputError("This is no reranker of this version. Train one: epic rerank train.")
        if value.get("features") != list(NAMES):
            raise InvalidInputError("This reranker was trained with other features. Train it again: epic rerank train.")
        made_with = str(value.get("encoder", ""))
        if encoder and made_with and made_with != encoder:
            raise InvalidInputError(
                f"This reranker was trained with another encoder ({made_with}, not {encoder}). Train it again."
            )
        weights: Weights = {}
        for name, shape in shapes(len(NAMES)).items():
            try:
                weights[name] = np.array(value["weights"][name], dtype=np.float64).reshape(shape)
            except (KeyError, TypeError, ValueError):
                raise InvalidInputError(f"The weights {name!r} of this reranker are none.") from None
            if not np.isfinite(weights[name]).all():
                raise InvalidInputError(f"The weights {name!r} of this reranker are not all numbers.")
        return cls(encoder=made_with, weights=weights, trained_on=value.get("trained_on") or {})


def feedback_event(ranking: Ranking, signals: Sequence[float]) -> dict[str, Any]:
    """Return what is kept of one feedback: features, the list shown and the signals, as JSON.

    Args:
        ranking: How the list was chosen.
        signals: The reward of each hit shown, in [0, 1], in the order shown.
    """
    return {
        "features": [[float(f"{value:.3g}") for value in row] for row in ranking.features],
        "order": ranking.order,
        "signals": [float(signal) for signal in signals],
    }


def feedback_examples(events: Sequence[Mapping[str, Any]], seed: int = 0) -> list[Example]:
    """Make examples of feedback: other orders of what was shown, with the reward that each would have had.

    A hit is taken to be worth the same wherever it stands, less 1 / log2(rank + 1) for its place. What was not shown is
    left out of account.
    """
    generator = np.random.default_rng(seed)
    made = []
    for event in events:
        shown, signals = list(event["order"]), np.array(event["signals"], dtype=np.float64)
        if len(shown) < 2 or float(signals.std()) < 1e-9:
            continue
        features = np.array(event["features"], dtype=np.float64)
        among = np.zeros(len(features), dtype=bool)
        among[shown] = True
        scores = np.where(among, prior(len(features)), -np.inf)
        lists: Lists = sample(scores, len(shown), _LISTS, generator)
        worth = np.zeros(len(features))
        worth[shown] = signals
        rewards = worth[lists] @ (1.0 / np.log2(np.arange(len(shown)) + 2.0))
        made.append(
            Example(
                features=features,
                lists=lists,
                rewards=rewards,
                drawn=log_probability(scores, lists),
                among=among,
            )
        )
    return made
