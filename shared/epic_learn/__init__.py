"""Learning: conversations, facts of the user, what is never kept, and proposals, which the user decides about."""

from epic_learn.adding import aadd_conversation, add_conversation

__all__ = ["aadd_conversation", "add_conversation"]
