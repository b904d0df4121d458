"""Proposals, changes that the user's own words call for, in force once accepted; edits, what adding a fact did."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias, get_args

from epic_memory.errors import InvalidInputError
from epic_memory.types.items import Item
from epic_memory.types.validation import checked_moment, checked_text, one_of, stable_id

ProposalKind: TypeAlias = Literal[
    "add_preference", "replace_preference", "remove_preference", "add_fact", "update_fact", "end_fact"
]
ProposalState: TypeAlias = Literal["open", "accepted", "rejected"]
EditKind: TypeAlias = Literal["insert", "replace", "duplicate", "end"]

_MOST_TURNS = 2**53
_WITHOUT_TEXT = ("remove_preference", "end_fact")
_WITHOUT_OLD = ("add_preference", "add_fact")


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """A change that the user's words call for.

    Attributes:
        kind: What is to be done.
        text: The new preference or fact; empty for a removal or an end.
        old: The preference or fact that it replaces, removes, updates or ends; empty for an addition.
        quote: The user's words, letter by letter as they stand in the turn.
        sentence: The whole sentence in which the quote stands; empty if not known.
        speaker: Who said it; empty if not known.
        said_at: When; None if not known.
        conversation: The title or name of the conversation; empty if not known.
        turn: The place of the turn in the conversation, from 1; 0 for an answer to a question of ours.
        confidence: How sure it is that the user means it, in (0, 1].
        source: Who read it: "cues", "onboarding", "facts" for what a new fact may change, or the name of a language
            model.
        expires_at: Until when it holds; None for always.
        ends: The user's words that say until when, if no date could be made of them: `expires_at` is a guess then.

    Raises:
        InvalidInputError: for an unknown kind, a missing text, a turn that is none, or a confidence outside (0, 1].
    """

    kind: ProposalKind
    text: str = ""
    old: str = ""
    quote: str
    sentence: str = ""
    speaker: str = ""
    said_at: datetime | None = None
    conversation: str = ""
    turn: int = 0
    confidence: float = 1.0
    source: str = "cues"
    expires_at: datetime | None = None
    ends: str = ""

    def __post_init__(self) -> None:
        one_of("kind", self.kind, get_args(ProposalKind))
        if not isinstance(self.turn, int) or isinstance(self.turn, bool) or not 0 <= self.turn < _MOST_TURNS:
            raise InvalidInputError(f"The turn of a proposal must be its place in the conversation, not {self.turn!r}.")
        checked_text(self.source, "The source of a proposal")
        for name, without in (("text", _WITHOUT_TEXT), ("old", _WITHOUT_OLD)):
            value = getattr(self, name)
            if self.kind not in without:
                value = checked_text(value, f"The {name} of a proposal to {self.kind}")
            object.__setattr__(self, name, value.strip())
        checked_text(self.quote, "The quote of a proposal")
        for name in ("sentence", "speaker", "conversation", "ends"):
            if not isinstance(getattr(self, name), str):
                raise InvalidInputError(f"The {name} of a proposal must be a text, not {getattr(self, name)!r}.")
        for name in ("expires_at", "said_at"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, checked_moment(getattr(self, name)))
        if not isinstance(self.confidence, (int, float)) or not 0.0 < self.confidence <= 1.0:
            raise InvalidInputError(f"confidence must be a number in (0, 1], not {self.confidence!r}.")

    @property
    def id(self) -> str:
        """A uuid5 of kind, text and old, which ignores case and the amount of white space."""
        return stable_id("proposal", self.kind, plain(self.text), plain(self.old))

    @property
    def about_preference(self) -> bool:
        """Return whether it is about a preference, not a fact."""
        return self.kind.endswith("preference")

    @property
    def over(self) -> bool:
        """Return whether the time for which it would hold has passed."""
        return self.expires_at is not None and self.expires_at.timestamp() <= time.time()

    @property
    def origin(self) -> str:
        """Who said it, when, in which conversation and turn, and the whole sentence."""
        when = "" if self.said_at is None else f"{self.said_at:%Y-%m-%d}, "
        said = " ".join((self.sentence or self.quote).split())
        where = f"{self.conversation!r}, " if self.conversation else ""
        return f"{self.speaker}{', ' if self.speaker else ''}{when}{where}turn {self.turn}: {said!r}"

    def __str__(self) -> str:
        change = " -> ".join(part for part in (self.old, self.text) if part)
        until = "" if self.expires_at is None else f"  (until {self.expires_at:%Y-%m-%d %H:%M} UTC)"
        said = f", for {self.ends!r}" if self.ends else ""
        return f"{self.kind.replace('_', ' ')}: {change}{until[:-1]}{said}{until[-1:]}"


@dataclass(frozen=True, kw_only=True)
class Edit:
    """Effect of adding one fact.

    Attributes:
        kind: "insert", "replace" (the old fact went for it), "duplicate" (it was known, and nothing changed) or "end"
            (it says that the old fact is over, which went).
        item: The fact that was added.
        old: The fact that it replaced, repeated or ended; None for an insert.
        reason: Why, in words.
        displaced: What was held under the fact's id as an item like any other; None for nothing.
        id: Number under which `MemoryFacts.undo` takes it back; 0 for a duplicate.
        at: When, in Unix seconds.
    """

    kind: EditKind
    item: Item
    old: Item | None = None
    reason: str = ""
    displaced: Item | None = None
    id: int = 0
    at: float = 0.0

    @property
    def touched(self) -> frozenset[str]:
        """The ids of the facts that it added, replaced or ended."""
        added = {self.item.id} if self.kind != "end" else set()
        return frozenset(added | ({self.old.id} if self.old is not None else set()))

    def __str__(self) -> str:
        old = f" (before: {self.old.text})" if self.old is not None else ""
        return f"{self.kind}: {self.item.text}{old}" + (f" - {self.reason}" if self.reason else "")


def plain(text: str) -> str:
    """Return a text in lower case, with single spaces."""
    return " ".join(text.split()).casefold()
