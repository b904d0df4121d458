"""Retention: which entries leave first when the byte budget is full, and what the budget counts."""

from epic_core.retention.policies import ByValue, Ebbinghaus, Fifo, Held, Positions, Random, RetentionPolicy, UsageFifo

__all__ = ["ByValue", "Ebbinghaus", "Fifo", "Held", "Positions", "Random", "RetentionPolicy", "UsageFifo"]
