"""Scores of a run: the measures of every arm and set, question by question."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean, median

from epic_eval.answering import request_of
from epic_eval.asking import ModelCost
from epic_eval.datasets import Data, Persona
from epic_eval.experiments.retrieval import Asked, Retrieval
from epic_eval.journal import Record
from epic_eval.metrics import Estimate, estimate, proxies

MIB = 2**20


class Scores:
    """The measures of what arms retrieved.

    Args:
        retrieval: The run.
        arms: Whose.
    """

    def __init__(self, retrieval: Retrieval, arms: Sequence[str]) -> None:
        self.retrieval = retrieval
        self.arms = list(arms)
        self._values: dict[tuple[str, str, str], list[tuple[object, float]]] = {}
        results = {arm: retrieval.results(arm) for arm in self.arms}
        self._records = {arm: [record for _, record in answered] for arm, answered in results.items()}
        for arm, answered in results.items():
            for asked, record in answered:
                found = proxies(
                    retrieval.data,
                    asked.question,
                    passages=record["passages"],
                    opening=record["opening"],
                    order=record["order"],
                )
                found["told"] = float(len(record["opening"]))
                # Four characters make a token, about.
                prompt = request_of(record, "guided").messages
                found["tokens"] = sum(len(message.content) for message in prompt) / 4
                for measure, value in found.items():
                    self.add(arm, asked, measure, value)

    @property
    def data(self) -> Data:
        """The run's data."""
        return self.retrieval.data

    def add(self, arm: str, asked: Asked, measure: str, value: float) -> None:
        """Add a measure of a question that is known from elsewhere."""
        self._values.setdefault((arm, asked.set, measure), []).append((asked.persona, value))

    def knows(self, measure: str) -> bool:
        """Tell whether a measure is known of any question."""
        return any(known == measure for _, _, known in self._values)

    def model_cost(self, arm: str) -> tuple[ModelCost, ModelCost]:
        """Return what the model's calls of an arm took, in building and in asking."""
        costs = ModelCost(), ModelCost()
        builds = {record["key"]: record for each in self.data.datasets for record in self.builds(arm, each.name)}
        for cost, records in zip(costs, (builds.values(), self._records[arm]), strict=True):
            for record in records:
                cost.add(ModelCost(**record.get("model", {})))
        return costs

    def values(self, arm: str, dataset: str, measure: str) -> list[tuple[object, float]]:
        """Return (persona, value) for each question."""
        return self._values.get((arm, dataset, measure), [])

    def of(self, arm: str, dataset: str, measure: str) -> Estimate | None:
        """Return the mean over personas; None if nothing is known."""
        return estimate(self.values(arm, dataset, measure))

    def mean(self, arm: str, dataset: str, measure: str) -> float | None:
        """Return the mean over personas without its interval; None if nothing is known."""
        found = self.of(arm, dataset, measure)
        return None if found is None else found.mean

    def mib(self, arm: str, dataset: str) -> float | None:
        """Return the mean MiB of what an arm built; None if nothing was built."""
        size = self.bytes(arm, dataset)
        return None if size is None else size["total"] / MIB

    def build_seconds(self, arm: str, dataset: str) -> float | None:
        """Return the mean seconds of building, without the corpus's embedding; None if nothing was built."""
        builds = self.builds(arm, dataset)
        return mean(sum(record["seconds"].values()) for record in builds) if builds else None

    def milliseconds(self, arm: str, dataset: str) -> tuple[float, float, float, float] | None:
        """Return mean encoding, mean search, median search and mean steering of a question; None for no questions."""
        parts = ("encoding", "search", "steering")
        taken = [tuple(record[part] for part in parts) for record in self._records[arm] if record["set"] == dataset]
        if not taken:
            return None
        encoding, search, steering = (1000 * mean(part) for part in zip(*taken, strict=True))
        return encoding, search, 1000 * median(each for _, each, _ in taken), steering

    def personas(self, dataset: str) -> tuple[Persona, ...]:
        """Return the personas of a set."""
        return next(each.personas for each in self.data.datasets if each.name == dataset)

    def builds(self, arm: str, dataset: str) -> list[Record]:
        """Return what an arm built for the personas of a set; what is built once counts for each of them."""
        return self.retrieval.builds(arm, self.personas(dataset))

    def bytes(self, arm: str, dataset: str) -> dict[str, float] | None:
        """Return the mean bytes by part; None if nothing was built."""
        built = [record["bytes"] for record in self.builds(arm, dataset)]
        if not built:
            return None
        parts = dict.fromkeys(part for each in built for part in each)
        return {part: sum(each.get(part, 0) for each in built) / len(built) for part in parts}
