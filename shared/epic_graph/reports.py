"""Report on adding passages to a graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from epic_graph.extraction.base import Extraction, Unextracted
from epic_memory.types import BuildReport, Usage

_NOTED = 100


@dataclass(kw_only=True)
class GraphReport:
    """The outcome of one `add` or `update` of a graph.

    Attributes:
        memory: The memory's report: coarse filter and fine verification.
        passages: How many passages were added to the graph, failed ones included.
        without_entities: How many of these have no entity: they are found by their own text.
        failed: How many of these the extractor failed for: they are found by their own text, until `retry` extracts
            them.
        entities: How many entities are new.
        facts: How many facts the passages have.
        no_room: How many passages stay outside the graph because of the byte budget.
        evicted: How many entries were evicted to make room for the graph, because of the byte budget.
        timings: Seconds by part, without the memory's: "extraction", "writing".
        usage: The language model's usage in extraction.
        failures: Why extraction failed: item id to reason, the first hundred.
        answers: Unreadable answers of a model: item id to answer, for the same hundred.
    """

    memory: BuildReport = field(default_factory=BuildReport)
    passages: int = 0
    without_entities: int = 0
    failed: int = 0
    entities: int = 0
    facts: int = 0
    no_room: int = 0
    evicted: int = 0
    timings: dict[str, float] = field(default_factory=dict)
    usage: Usage = field(default_factory=Usage)
    failures: dict[str, str] = field(default_factory=dict)
    answers: dict[str, str] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        """The sum of all parts, the memory's included."""
        return self.memory.seconds + sum(self.timings.values())

    def note(self, item_id: str, reason: str, answer: Extraction | Unextracted) -> None:
        """Record why extraction failed, for the first hundred passages."""
        if len(self.failures) < _NOTED:
            self.failures[item_id] = reason
            if isinstance(answer, Unextracted) and answer.answer:
                self.answers[item_id] = answer.answer

    def _lines(self) -> Iterator[str]:
        if self.memory.seen:
            yield str(self.memory)
        bare = f"   ({self.without_entities} without an entity)" if self.without_entities else ""
        yield f"graph           {self.passages:>8} passages{bare}"
        yield f"                {self.entities:>8} new entities, {self.facts} facts"
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
