"""Learning: conversations, facts of the user, what is never kept, and proposals, which the user decides about."""

from __future__ import annotations

from typing import TYPE_CHECKING

from epic_memory.runtime.optional import imported_later

if TYPE_CHECKING:
    from epic_learn.adding import aadd_conversation, add_conversation

__all__ = ["aadd_conversation", "add_conversation"]

# Imported on first use: a memory's file needs the tables only.
__getattr__, __dir__ = imported_later(__name__, dict.fromkeys(__all__, "adding"))
