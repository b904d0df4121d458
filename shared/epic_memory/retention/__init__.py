"""Retention: which entries leave first when the byte budget is full, and what the budget counts."""

from epic_memory.retention.policies import ByValue, Held, Positions, RetentionPolicy

__all__ = ["ByValue", "Held", "Positions", "RetentionPolicy"]
