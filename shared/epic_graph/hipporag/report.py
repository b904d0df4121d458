"""Report on one change to a memory and to the graph of the HippoRAG instance that follows it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from epic_memory.types import BuildReport


@dataclass(kw_only=True)
class HippoReport:
    """The outcome of one change to the memory and the graph.

    Attributes:
        memory: The memory's report: what it kept, discarded, and could not decide.
        indexed: How many passages were added to the graph.
        removed: How many passages were removed from it.
        passages: How many it holds now, including those it held before.
        foreign: How many of these were there before and are not judged (`EpicHippoRAG.adopt`).
        failures: Why extraction failed for passages: item id to reason. These have no facts, and are found by their own
            text alone, until `retry` extracts them.
        seconds: Time spent on the graph.
        warnings: Warnings in words, besides the memory's own.
    """

    memory: BuildReport = field(default_factory=BuildReport)
    indexed: int = 0
    removed: int = 0
    passages: int = 0
    foreign: int = 0
    failures: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    warnings: list[str] = field(default_factory=list)

    def _lines(self) -> Iterator[str]:
        if self.memory.seen:
            yield str(self.memory)
        yield f"graph           {self.passages:>8} passages   (+{self.indexed} -{self.removed}, {self.seconds:.3f} s)"
        if self.foreign:
            yield f"not judged      {self.foreign:>8}   in the graph from before; adopt() does it"
        if self.failures:
            yield f"not extracted   {len(self.failures):>8}   found by their text alone; retry() tries again"
        for reason, count in Counter(self.failures.values()).most_common(3):
            yield f"not extracted ({count}): {reason}"
        for warning in self.warnings:
            yield f"warning: {warning}"

    def __str__(self) -> str:
        return "\n".join(self._lines())
