"""Edits: what adding a fact did to the facts that were held."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from epic_memory.types.items import Item

EditKind: TypeAlias = Literal["insert", "replace", "duplicate", "end"]


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
