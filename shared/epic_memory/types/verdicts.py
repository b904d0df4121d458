"""Verdicts of fine verification, and the candidates that a verifier receives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from typing import TypeAlias

from epic_memory.types.arrays import FloatArray
from epic_memory.types.items import Item
from epic_memory.types.preferences import Preference
from epic_memory.types.weights import StageWeights


class Stance(str, Enum):
    """Relation of an item to a preference."""

    SUPPORTS = "supports"
    CONFLICTS = "conflicts"
    MIXED = "mixed"
    NEUTRAL = "neutral"

    def __str__(self) -> str:
        return self.value


class Decision(str, Enum):
    """Decision of fine verification about an item. A failed model call is Undecided, never Discard."""

    KEEP = "Keep"
    DISCARD = "Discard"
    UNDECIDED = "Undecided"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, kw_only=True)
class Alignment:
    """Result of fine verification for an item under one preference (section 3.2 of the paper).

    Attributes:
        preference_id: The preference.
        instruction: i_x(p), how and when to use the item under the preference.
        stance: Whether the item supports the preference, conflicts with it, both, or neither.
        confidence: In [0, 1], or None if the verifier has none.
        rationale: Why, under this preference; empty if the verdict's rationale covers it.
    """

    preference_id: str
    instruction: str
    stance: Stance = Stance.NEUTRAL
    confidence: float | None = None
    rationale: str = ""


@dataclass(kw_only=True)
class Usage:
    """Calls, tokens and seconds of a language model.

    Attributes:
        calls: Requests sent, including those that failed.
        retries: Requests sent because an earlier one failed or its answer could not be understood.
        prompt_tokens, completion_tokens: As the server counts them.
        seconds: Sum of the durations of all calls, also of calls at the same time.
    """

    calls: int = 0
    retries: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    seconds: float = 0.0

    def add(self, other: Usage) -> None:
        """Add another usage to this one."""
        self.calls += other.calls
        self.retries += other.retries
        self.prompt_tokens += other.prompt_tokens
        self.completion_tokens += other.completion_tokens
        self.seconds += other.seconds


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Answer of the Decision Module for one item.

    Attributes:
        decision: Keep, Discard or Undecided.
        rationale: Why; for Undecided, what failed.
        alignments: P'_rel(x), one for each preference the item is kept for; empty unless Keep.
        confidence: Of the decision, in [0, 1], or None.
        answer: For Undecided, the model's answer that could not be understood.
        usage: Calls, tokens and seconds of the language model, or None.
    """

    decision: Decision
    rationale: str = ""
    alignments: tuple[Alignment, ...] = ()
    confidence: float | None = None
    answer: str = ""
    usage: Usage | None = field(default=None, compare=False, repr=False)

    def completed(self) -> list[Alignment]:
        """Return the alignments, with the verdict's confidence and rationale where one has none of its own."""
        return [
            replace(
                one,
                confidence=self.confidence if one.confidence is None else one.confidence,
                rationale=one.rationale or self.rationale,
            )
            for one in self.alignments
        ]


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """An item that passed the coarse filter, with its preferences P_rel(x): the input of a verifier.

    Attributes:
        item: The item x.
        embedding: E(x), shape `(d,)`.
        preferences: P_rel(x), most similar first.
        similarities: Sim(E(x), E(p)) for each of them, in [-1, 1].
        preference_embeddings: E(p) for each of them, shape `(len(preferences), d)`.
    """

    item: Item
    embedding: FloatArray
    preferences: tuple[Preference, ...]
    similarities: tuple[float, ...]
    preference_embeddings: FloatArray


Stances: TypeAlias = Mapping[str | None, Stance]
"""The stances of a text by the text of each preference; None for a stance to no preference in particular."""


@dataclass(frozen=True, kw_only=True)
class PenaltyWeights(StageWeights):
    """Penalties of a text by its stance to a preference that matters."""

    neutral: float  # by each stance; what supports a preference loses nothing
    mixed: float  # by each stance; what supports a preference loses nothing
    conflicts: float  # by each stance; what supports a preference loses nothing

    @cached_property
    def by_stance(self) -> Mapping[Stance, float]:
        """The penalties of all stances."""
        return {stance: getattr(self, stance.value, 0.0) for stance in Stance}


def penalties() -> Mapping[Stance, float]:
    """Return what a text loses by each stance: the worse, the more."""
    return PenaltyWeights.shipped().by_stance


@dataclass(frozen=True, kw_only=True)
class Judged:
    """An item and the verdict on it.

    Attributes:
        item: The item.
        verdict: Keep with one alignment for each preference, strongest first; Discard; or Undecided.
        preferences: The preferences of the alignments, in their order.
        similarities: Sim(E(x), E(p)) for each of them, in [-1, 1].
    """

    item: Item
    verdict: Verdict
    preferences: tuple[Preference, ...] = ()
    similarities: tuple[float, ...] = ()

    @property
    def kept(self) -> bool:
        """True if the item is kept for this user."""
        return self.verdict.decision is Decision.KEEP


def combined(verdicts: Sequence[Verdict]) -> Verdict:
    """Combine verdicts on the same item under different preferences into one: Keep if any keeps."""
    if len(verdicts) == 1:
        return verdicts[0]
    kept = [verdict for verdict in verdicts if verdict.decision is Decision.KEEP]
    if not kept:
        known = [verdict.confidence for verdict in verdicts if verdict.confidence is not None]
        return replace(verdicts[0], confidence=min(known, default=None))
    alignments = tuple(alignment for verdict in kept for alignment in verdict.completed())
    known = [verdict.confidence for verdict in kept if verdict.confidence is not None]
    return replace(kept[0], alignments=alignments, confidence=max(known, default=None))
