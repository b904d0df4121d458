"""Collections: vector stores of a framework, with the keys and the steering of a memory."""

from epic_core.collection.collection import Collection, Condition, Key, Match, Matches, Record

__all__ = ["Collection", "Condition", "Key", "Match", "Matches", "Record"]
