"""Steered queries, and the preferences that steered them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from epic_core.types import FloatArray, Preference


@dataclass(frozen=True, kw_only=True)
class SteeringPreference:
    """A preference that steers a query.

    Attributes:
        preference: The preference.
        similarity: Sim(E(q), E(p)), in [-1, 1].
        weight: Its share, in (0, 1]; all of a query's weights sum to one.
    """

    preference: Preference
    similarity: float
    weight: float


@dataclass(frozen=True, kw_only=True)
class SteeredQuery:
    """A query after steering.

    Attributes:
        vector: q~, a unit vector of shape `(d,)`; E(q) if nothing steers.
        query: E(q), shape `(d,)`.
        preferences: The preferences that steered it, heaviest first; one in paper mode, none if no preference matters
            to the query, or none reaches the floor, or the mode is "off".
        nearest: The highest Sim(E(q), E(p)), in [-1, 1]; None without preferences.
        strength: How much steering counts altogether, in [0, 1]: less than 1 if even the most relevant preference only
            just matters and no floor was given.
        matters: All preferences by how much they matter, heaviest first, each with the chance that it does; None if
            that was not computed.
    """

    vector: FloatArray
    query: FloatArray
    preferences: tuple[SteeringPreference, ...]
    nearest: float | None
    strength: float = 1.0
    matters: tuple[tuple[Preference, float], ...] | None = None


class Chosen(NamedTuple):
    """The preferences that steer a query, heaviest first; `strength` is how much they count together."""

    rows: list[int]
    similarities: list[float]
    weights: list[float]
    strength: float
    nearest: float | None
    matters: tuple[tuple[Preference, float], ...] | None = None
