"""Protocols of verifiers, DM(x, P_rel(x)) -> Keep, Discard or Undecided, with checks of verdicts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import replace
from types import AsyncGeneratorType, GeneratorType
from typing import Any, Protocol, runtime_checkable

from epic_memory.errors import VerifierError
from epic_memory.types import Alignment, Candidate, Decision, Verdict
from epic_memory.types.validation import writable

EMBEDDED = "embedded-v5"
"""The name of the verifier without a model."""


@runtime_checkable
class Verifier(Protocol):
    """Protocol of a verifier, which decides which candidates enter the memory and writes their instructions.

    Verdicts come in the order of the candidates, one for each, as soon as they are ready. A verdict that could not be
    reached is Undecided, with the reason as its rationale; an exception ends the batch, and the candidates without a
    verdict become Undecided.

    These three members are enough. `BaseVerifier` declares the optional ones, with their defaults.
    """

    @property
    def name(self) -> str:
        """Identifier of the verifier, its model and its prompts."""
        ...

    def verify(self, candidates: Sequence[Candidate]) -> Iterator[Verdict]:
        """Yield one verdict for each candidate, in order."""
        ...

    def averify(self, candidates: Sequence[Candidate]) -> AsyncIterator[Verdict]:
        """Yield verdicts as `verify` does, without blocking the event loop."""
        ...


class BaseVerifier(ABC):
    """Base class of verifiers, with defaults for all optional members.

    Attributes:
        name: Identifies the verifier, its model and its prompts.
        block: Verdicts are committed once there are this many, or after a twentieth of a second.
        cached: Whether to cache its verdicts under its name.
        aspect_reader: The model that reads what preferences like and avoid (`preferences.lm_reader`).
        threshold: The number that separates Keep from Discard, if there is one; with another threshold it counts as
            another verifier.
    """

    name: str
    block: int = 256
    cached: bool = False
    aspect_reader: Any = None
    threshold: float | None = None

    @abstractmethod
    def verify(self, candidates: Sequence[Candidate]) -> Iterator[Verdict]:
        """Yield one verdict for each candidate, in order."""

    @abstractmethod
    def averify(self, candidates: Sequence[Candidate]) -> AsyncIterator[Verdict]:
        """Yield verdicts as `verify` does, without blocking the event loop."""

    def stream(self, candidates: Sequence[Candidate]) -> Iterator[tuple[int, Verdict]]:
        """Yield `(position, verdict)` in any order, so that one slow item holds up no other."""
        verdicts = self.verify(candidates)
        try:
            yield from enumerate(verdicts)
        finally:
            if isinstance(verdicts, GeneratorType):
                verdicts.close()

    async def astream(self, candidates: Sequence[Candidate]) -> AsyncIterator[tuple[int, Verdict]]:
        """Yield positions and verdicts as `stream` does, without blocking the event loop."""
        position = 0
        verdicts = self.averify(candidates)
        try:
            async for verdict in verdicts:
                yield position, verdict
                position += 1
        finally:
            if isinstance(verdicts, AsyncGeneratorType):
                await verdicts.aclose()


class _Adapted(BaseVerifier):
    """A verifier that only follows the protocol, with the defaults of `BaseVerifier` for the rest."""

    def __init__(self, verifier: Verifier) -> None:
        self._verifier = verifier
        self.name = verifier.name
        for name in ("block", "cached", "aspect_reader", "threshold", "stream", "astream"):
            own = getattr(verifier, name, None)
            if own is not None:
                setattr(self, name, own)

    def verify(self, candidates: Sequence[Candidate]) -> Iterator[Verdict]:
        """Yield the verifier's verdicts."""
        return self._verifier.verify(candidates)

    def averify(self, candidates: Sequence[Candidate]) -> AsyncIterator[Verdict]:
        """Yield the verifier's verdicts, without blocking the event loop."""
        return self._verifier.averify(candidates)


def base_verifier(verifier: Verifier) -> BaseVerifier:
    """Return a `BaseVerifier`: the verifier itself, or one that asks it."""
    return verifier if isinstance(verifier, BaseVerifier) else _Adapted(verifier)


def checked_verdict(candidate: Candidate, verdict: object) -> Verdict:
    """Return the verdict, with one alignment for each preference.

    Args:
        candidate: The candidate that was judged.
        verdict: The verdict.

    Raises:
        VerifierError: if it is not a verdict, has a confidence outside [0, 1], aligns to a preference that was not
            asked about, or keeps without a preference or with an empty instruction.
    """
    if not isinstance(verdict, Verdict):
        raise VerifierError(f"A verifier must yield Verdict objects, not {type(verdict).__name__}.")
    for confidence in (verdict.confidence, *(alignment.confidence for alignment in verdict.alignments)):
        # The comparison fails for not-a-number, too.
        if confidence is not None and not 0.0 <= confidence <= 1.0:
            raise VerifierError(f"A verdict's confidence must be between 0 and 1, or None; not {confidence!r}.")
    if verdict.decision is not Decision.KEEP:
        return replace(verdict, rationale=writable(verdict.rationale), answer=writable(verdict.answer))
    asked = {preference.id for preference in candidate.preferences}
    unknown = [a.preference_id for a in verdict.alignments if a.preference_id not in asked]
    if unknown:
        raise VerifierError(f"A verdict aligns item {candidate.item.id!r} to preferences it was not asked about.")
    if not verdict.alignments:
        raise VerifierError(f"A verdict keeps item {candidate.item.id!r} but names no preference.")
    # The first alignment of a preference wins: an entry's id is made of item and preference, so there can be only one.
    first: dict[str, Alignment] = {}
    for alignment in verdict.alignments:
        if not alignment.instruction.strip():
            raise VerifierError(f"A verdict keeps item {candidate.item.id!r} with an empty instruction.")
        cleaned = replace(
            alignment, instruction=writable(alignment.instruction), rationale=writable(alignment.rationale)
        )
        first.setdefault(alignment.preference_id, cleaned)
    return replace(verdict, rationale=writable(verdict.rationale), alignments=tuple(first.values()))
