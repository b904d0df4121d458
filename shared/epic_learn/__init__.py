"""Learning: conversations, facts of the user, what is never kept, and proposals, which the user decides about."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from epic_learn.adding import aadd_conversation, add_conversation

__all__ = ["aadd_conversation", "add_conversation"]


def __getattr__(name: str) -> object:
    # Imported on first use: a memory's file needs the tables only.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from epic_learn import adding

    value: object = getattr(adding, name)
    return value
