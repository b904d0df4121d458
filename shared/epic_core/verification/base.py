"""The verifier seam: DM(x, P_rel(x)) -> Keep, Discard or Undecided, with instructions for what is kept."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import replace
from typing import Protocol, runtime_checkable

from epic_core.errors import VerifierError
from epic_core.types import Alignment, Candidate, Decision, Verdict


@runtime_checkable
class Verifier(Protocol):
    """Decides which candidates enter the memory and writes their instructions.

    A verifier may have `block` (an int): after so many verdicts they are committed; default 256.

    Verdicts come in the order of the candidates, one for each, as soon as they are there. A verdict that
    could not be reached is Undecided with the reason as its rationale; raising ends the batch, and the
    candidates without a verdict become Undecided.
    """

    @property
    def name(self) -> str:
        """Identifies the verifier, its model and its prompts."""
        ...

    def verify(self, candidates: Sequence[Candidate]) -> Iterator[Verdict]:
        """One verdict for each candidate, in order."""
        ...

    def averify(self, candidates: Sequence[Candidate]) -> AsyncIterator[Verdict]:
        """As `verify`, without blocking the event loop."""
        ...


def checked_verdict(candidate: Candidate, verdict: object) -> Verdict:
    """The verdict, with alignments only to preferences the candidate was given.

    Raises:
        VerifierError: if it is no verdict, aligns to a preference that was not asked about, or keeps
            without saying for which preference.
    """
    if not isinstance(verdict, Verdict):
        raise VerifierError(f"A verifier must yield Verdict objects, not {type(verdict).__name__}.")
    if verdict.decision is not Decision.KEEP:
        return replace(verdict, rationale=writable(verdict.rationale))
    asked = {preference.id for preference in candidate.preferences}
    unknown = [a.preference_id for a in verdict.alignments if a.preference_id not in asked]
    if unknown:
        raise VerifierError(f"A verdict aligns item {candidate.item.id!r} to preferences it was not asked about.")
    if not verdict.alignments:
        raise VerifierError(f"A verdict keeps item {candidate.item.id!r} but names no preference.")
    # One alignment for each preference: the first wins, the entry's id is made of the pair.
    first: dict[str, Alignment] = {}
    for alignment in verdict.alignments:
        if not alignment.instruction.strip():
            raise VerifierError(f"A verdict keeps item {candidate.item.id!r} with an empty instruction.")
        first.setdefault(alignment.preference_id, _cleaned(alignment))
    return replace(verdict, rationale=writable(verdict.rationale), alignments=tuple(first.values()))


def _cleaned(alignment: Alignment) -> Alignment:
    return replace(alignment, instruction=writable(alignment.instruction), rationale=writable(alignment.rationale))


def writable(text: str) -> str:
    """The text, with what a model writes but UTF-8 cannot hold replaced."""
    return text.encode("utf-8", "replace").decode("utf-8").replace("\x00", "")
