"""Steering: stage 3, queries moved towards a user's likes and away from their dislikes (Eq. 7-8, section 3.3)."""

from epic_memory.steering.query_steering import QuerySteering, SteeredQuery
from epic_memory.types.modes import Mode

__all__ = ["Mode", "QuerySteering", "SteeredQuery"]
