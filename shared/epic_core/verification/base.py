"""The verifier seam: DM(x, P_rel(x)) -> Keep, Discard or Undecided, with instructions for what is kept."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from types import AsyncGeneratorType, GeneratorType
from typing import Any, Protocol, runtime_checkable

from epic_core.errors import VerifierError
from epic_core.types import Alignment, Candidate, Decision, Item, Preference, Usage, Verdict
from epic_core.types.validation import writable


@runtime_checkable
class Verifier(Protocol):
    """Decides which candidates enter the memory and writes their instructions.

    Verdicts come in the order of the candidates, one for each, as soon as they are there. A verdict that
    could not be reached is Undecided with the reason as its rationale; raising ends the batch, and the
    candidates without a verdict become Undecided.

    These three are enough. `BaseVerifier` declares what a verifier may have besides, with its defaults.
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


@dataclass(frozen=True, kw_only=True)
class Rewriting:
    """An item to be rewritten for the preferences it is kept under, and why it is kept."""

    item: Item
    preferences: tuple[Preference, ...]
    rationale: str = ""


@dataclass(frozen=True, kw_only=True)
class Rewritten:
    """A rewritten text x^; or, with an empty text, why there is none and what was answered instead."""

    text: str = ""
    failure: str = ""
    answer: str = ""
    usage: Usage = field(default_factory=Usage, compare=False, repr=False)


@runtime_checkable
class Rewriter(Protocol):
    """Writes items anew, for the preferences they are kept under.

    Attributes:
        name: Identifies the rewriter; its texts are cached under it.
    """

    name: str

    def stream(self, rewritings: Sequence[Rewriting]) -> Iterator[tuple[int, Rewritten]]:
        """`(position, rewritten)` for each rewriting, in any order."""
        ...

    def astream(self, rewritings: Sequence[Rewriting]) -> AsyncIterator[tuple[int, Rewritten]]:
        """As `stream`, without blocking the event loop."""
        ...


class BaseVerifier(ABC):
    """A verifier with all it may have.

    Attributes:
        name: Identifies the verifier, its model and its prompts.
        block: After so many verdicts, or a twentieth of a second, they are committed.
        cached: Whether its verdicts are worth keeping, under its name.
        rewriter: Rewrites what is kept; with one, a verdict needs no instructions.
        aspect_reader: The model that reads what preferences like and avoid (`preferences.lm_reader`).
        threshold: What decides between Keep and Discard, where that is a number; another one is another verifier.
    """

    name: str
    block: int = 256
    cached: bool = False
    rewriter: Rewriter | None = None
    aspect_reader: Any = None
    threshold: float | None = None

    @abstractmethod
    def verify(self, candidates: Sequence[Candidate]) -> Iterator[Verdict]:
        """Yield one verdict for each candidate, in order."""

    @abstractmethod
    def averify(self, candidates: Sequence[Candidate]) -> AsyncIterator[Verdict]:
        """As `verify`, without blocking the event loop."""

    def stream(self, candidates: Sequence[Candidate]) -> Iterator[tuple[int, Verdict]]:
        """Yield `(position, verdict)` in any order, so that one slow item holds up no other."""
        verdicts = self.verify(candidates)
        try:
            yield from enumerate(verdicts)
        finally:
            if isinstance(verdicts, GeneratorType):
                verdicts.close()

    async def astream(self, candidates: Sequence[Candidate]) -> AsyncIterator[tuple[int, Verdict]]:
        """As `stream`, without blocking the event loop."""
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
    """A verifier that only follows the protocol, with the defaults for what it lacks."""

    def __init__(self, verifier: Verifier) -> None:
        self._verifier = verifier
        self.name = verifier.name
        for name in ("block", "cached", "rewriter", "aspect_reader", "threshold", "stream", "astream"):
            own = getattr(verifier, name, None)
            if own is not None:
                setattr(self, name, own)

    def verify(self, candidates: Sequence[Candidate]) -> Iterator[Verdict]:
        """Ask the verifier."""
        return self._verifier.verify(candidates)

    def averify(self, candidates: Sequence[Candidate]) -> AsyncIterator[Verdict]:
        """Ask the verifier."""
        return self._verifier.averify(candidates)


def base_verifier(verifier: Verifier) -> BaseVerifier:
    """Return a verifier with everything that `BaseVerifier` declares: itself, or one that asks it."""
    return verifier if isinstance(verifier, BaseVerifier) else _Adapted(verifier)


def combined(verdicts: Sequence[Verdict]) -> Verdict:
    """One verdict of several on the same item under different preferences: Keep if any keeps."""
    if len(verdicts) == 1:
        return verdicts[0]
    kept = [verdict for verdict in verdicts if verdict.decision is Decision.KEEP]
    if not kept:
        known = [verdict.confidence for verdict in verdicts if verdict.confidence is not None]
        return replace(verdicts[0], confidence=min(known, default=None))
    alignments = tuple(
        replace(
            alignment,
            confidence=verdict.confidence if alignment.confidence is None else alignment.confidence,
            rationale=alignment.rationale or verdict.rationale,
        )
        for verdict in kept
        for alignment in verdict.alignments
    )
    known = [verdict.confidence for verdict in kept if verdict.confidence is not None]
    return replace(kept[0], alignments=alignments, confidence=max(known, default=None))


def checked_verdict(candidate: Candidate, verdict: object, *, rewritten: bool = False) -> Verdict:
    """The verdict, with alignments only to preferences the candidate was given.

    Args:
        candidate: What was asked about.
        verdict: The answer.
        rewritten: Whether what is kept will be rewritten, and needs no instructions.

    Raises:
        VerifierError: if it is no verdict, aligns to a preference that was not asked about, or keeps
            without saying for which preference.
    """
    if not isinstance(verdict, Verdict):
        raise VerifierError(f"A verifier must yield Verdict objects, not {type(verdict).__name__}.")
    for confidence in (verdict.confidence, *(alignment.confidence for alignment in verdict.alignments)):
        # Not-a-number is less than nothing, too.
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
    # One alignment for each preference: the first wins, the entry's id is made of the pair.
    first: dict[str, Alignment] = {}
    for alignment in verdict.alignments:
        if not alignment.instruction.strip() and not rewritten:
            raise VerifierError(f"A verdict keeps item {candidate.item.id!r} with an empty instruction.")
        first.setdefault(alignment.preference_id, _cleaned(alignment))
    return replace(verdict, rationale=writable(verdict.rationale), alignments=tuple(first.values()))


def _cleaned(alignment: Alignment) -> Alignment:
    return replace(alignment, instruction=writable(alignment.instruction), rationale=writable(alignment.rationale))
