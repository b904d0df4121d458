"""Collections: the storage of a framework's vector store, with the keys and the steering of a memory."""

from epic_memory.collection.collection import Collection, Condition, Key, Match, Matches, Record, holds_memory

__all__ = ["Collection", "Condition", "Key", "Match", "Matches", "Record", "holds_memory"]
