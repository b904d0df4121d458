"""Report of what reading a conversation for proposals did, and the list of proposals with it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from epic_learn.types import Proposal
from epic_memory.types import Usage


class LeftOut(NamedTuple):
    """Something that the user said, or may have said, of themselves, and why it is not proposed."""

    turn: int
    quote: str
    reason: str


@dataclass(kw_only=True)
class ProposalReport:
    """Counts of what reading a conversation for proposals did.

    Attributes:
        turns: Turns read.
        own: Of them, the user's own.
        unusable: What of the messages could not be used: reason to count.
        dropped: Readings that were not proposed: reason to count.
        left_out: Of them, those of which the words are known, in the order of their turns.
        accepted: Proposals that `auto` accepted.
        failures: What went wrong, such as a model that did not answer; what was read before is kept.
        usage: Calls, retries, tokens and seconds of the language model.
    """

    turns: int = 0
    own: int = 0
    unusable: dict[str, int] = field(default_factory=dict)
    dropped: Counter[str] = field(default_factory=Counter)
    left_out: list[LeftOut] = field(default_factory=list)
    accepted: list[Proposal] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)

    def leave_out(self, turn: int, quote: str, reason: str) -> None:
        """Note what is not proposed, and why."""
        self.dropped[reason] += 1
        self.left_out.append(LeftOut(turn, quote, reason))

    def _lines(self) -> Iterator[str]:
        yield f"read            {self.turns:>8} turn{'' if self.turns == 1 else 's'}, {self.own} of them the user's own"
        for name, counts in (("not used", self.unusable), ("not proposed", self.dropped)):
            if counts:
                reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(counts.items()))
                yield f"{name:<16}{sum(counts.values()):>8}   ({reasons})"
        if self.accepted:
            yield f"accepted        {len(self.accepted):>8}"
        if self.usage.calls:
            yield f"language model  {self.usage.calls:>8} calls   {self.usage.seconds:.1f} s"
        yield from (f"failed: {failure}" for failure in self.failures)

    def __str__(self) -> str:
        return "\n".join(self._lines())


class Proposals(list[Proposal]):
    """Open proposals, in the order of their turns, and the report of how they were found."""

    def __init__(self, proposals: Iterable[Proposal] = (), report: ProposalReport | None = None) -> None:
        super().__init__(proposals)
        self.report = ProposalReport() if report is None else report
