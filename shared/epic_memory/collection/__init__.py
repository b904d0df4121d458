"""Collections: the storage of a framework's vector store, with the keys and the steering of a memory."""

from epic_memory.collection.collection import Collection, Condition, Key, Match, Matches, Record
from epic_memory.storage.tables.collections import COLLECTION

__all__ = ["COLLECTION", "Collection", "Condition", "Key", "Match", "Matches", "Record"]
