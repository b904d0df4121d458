"""What taking passages into a graph did, and what a graph holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from epic_core.graph.extraction.base import Extraction, Unextracted
from epic_core.types import BuildReport, Usage

_NOTED = 100


@dataclass(kw_only=True)
class GraphReport:
    """What one `add` or `update` of a graph did.

    Attributes:
        memory: What the memory did: coarse filter and fine verification.
        passages: Taken into the graph, those that failed included.
        without_entities: Of these, those in which no entity was found: their own text finds them.
        failed: Of these, those the extractor failed for: their own text finds them, until `retry` has them extracted.
        entities: New ones.
        facts: Of the passages.
        synonyms: Edges between new entities and such as are called much alike.
        no_room: Passages that stay outside the graph because of the byte budget.
        evicted: Entries that had to go for the graph, because of the byte budget.
        timings: Seconds by part, those of the memory apart: "extraction", "embedding entities", "synonyms", "writing".
        usage: What extraction took of a language model.
        failures: Why extraction failed: item id to reason, the first hundred.
        answers: What a model said that could not be understood: item id to answer, of the same hundred.
    """

    memory: BuildReport = field(default_factory=BuildReport)
    passages: int = 0
    without_entities: int = 0
    failed: int = 0
    entities: int = 0
    facts: int = 0
    synonyms: int = 0
    no_room: int = 0
    evicted: int = 0
    timings: dict[str, float] = field(default_factory=dict)
    usage: Usage = field(default_factory=Usage)
    failures: dict[str, str] = field(default_factory=dict)
    answers: dict[str, str] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        """All parts together, those of the memory included."""
        return self.memory.seconds + sum(self.timings.values())

    def note(self, item_id: str, reason: str, answer: Extraction | Unextracted) -> None:
        """Note why extraction failed, of the first hundred."""
        if len(self.failures) < _NOTED:
            self.failures[item_id] = reason
            if isinstance(answer, Unextracted) and answer.answer:
                self.answers[item_id] = answer.answer

    def _lines(self) -> Iterator[str]:
        if self.memory.seen:
            yield str(self.memory)
        bare = f"   ({self.without_entities} without an entity)" if self.without_entities else ""
        yield f"graph           {self.passages:>8} passages{bare}"
        yield f"                {self.entities:>8} new entities, {self.facts} facts, {self.synonyms} synonyms"
        if self.usage.calls:
            yield f"extraction      {self.usage.calls:>8} calls   {self.usage.seconds:.1f} s in calls"
        if self.failed:
            yield f"not extracted   {self.failed:>8}   found by their text alone; graph.retry() tries again"
        if self.no_room:
            yield f"no room         {self.no_room:>8}   found by their text alone; raise the budget"
        parts = ", ".join(f"{part} {seconds:.3f}" for part, seconds in self.timings.items())
        yield f"graph seconds   {sum(self.timings.values()):>8.3f}   ({parts})"
        for reason, count in Counter(self.failures.values()).most_common(3):
            yield f"not extracted ({count}): {reason}"

    def __str__(self) -> str:
        return "\n".join(self._lines())


@dataclass(frozen=True, kw_only=True)
class Neighbour:
    """An entity that shares an edge with another.

    Attributes:
        name: Its name.
        weight: Of the edge: how many passages tell such a fact, and the cosine of the names where they are synonyms.
    """

    name: str
    weight: float
