"""Learning: conversations as they are, and proposals of what to remember from them, for the user to decide about."""

from epic_learn.adding import aadd_conversation, add_conversation

__all__ = ["aadd_conversation", "add_conversation"]
