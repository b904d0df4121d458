"""Retention by value: which entries of a memory leave first when a byte budget is reached.

A policy puts the entries of one namespace in an order, and `choose` picks from its beginning the entries to remove.
Nothing here reads or writes a memory. Times are unix seconds, and a clock may go backwards: no age is negative.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from numbers import Real
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from epic_memory.errors import InvalidInputError
from epic_memory.types import FloatArray, Stance

Positions: TypeAlias = NDArray[np.intp]

_DAY = 86_400.0
_NEUTRAL = tuple(Stance).index(Stance.NEUTRAL)
# Redundancy compares at most this many pairs of entries: all pairs of 10,000 entries, and the least valuable ones of
# more.
_COMPARED = 100_000_000
# One block of cosines has at most this many values, 16 MB.
_BLOCK = 4_000_000


@dataclass(frozen=True, kw_only=True)
class Held:
    """The entries of one namespace as columns, n each, the oldest first.

    Attributes:
        rows: Entry rows, ascending, shape `(n,)`.
        items: Item rows, shape `(n,)`.
        preferences: Preference rows, -1 for an entry without one, shape `(n,)`.
        stances: Position in `tuple(Stance)`, shape `(n,)`.
        confidence: In [0, 1], nan if the verifier gave none, shape `(n,)`.
        similarity: Sim(E(x), E(p)) in [-1, 1], shape `(n,)`; nan counts as 0.
        uses: How often a search returned the entry, shape `(n,)`.
        used: When a search last did, in unix seconds, nan if never, shape `(n,)`.
        added: When the entry was written, in unix seconds, shape `(n,)`.
        vectors: Unit vectors of the entries' instructions, shape `(n, d)`.

    Raises:
        InvalidInputError: for columns of different lengths.
    """

    rows: NDArray[np.int64]
    items: NDArray[np.int64]
    preferences: NDArray[np.int64]
    stances: NDArray[np.int8]
    confidence: FloatArray
    similarity: FloatArray
    uses: NDArray[np.int64]
    used: NDArray[np.float64]
    added: NDArray[np.float64]
    vectors: FloatArray

    def __post_init__(self) -> None:
        shape = (len(self.rows),)
        for name, column in vars(self).items():
            if column.shape[:1] != shape or column.ndim != (2 if name == "vectors" else 1):
                raise InvalidInputError(f"{name} has shape {column.shape}; the columns must have {shape[0]} rows.")

    def __len__(self) -> int:
        return len(self.rows)

    def idle_days(self, now: float) -> NDArray[np.float64]:
        """Return each entry's days since its last use or addition, never negative, 0 if unknown; shape `(n,)`."""
        days = (now - np.fmax(self.used, self.added)) / _DAY
        return np.where(days > 0.0, days, 0.0)


@runtime_checkable
class RetentionPolicy(Protocol):
    """Protocol of a policy, which puts the entries of a namespace in the order in which they leave."""

    @property
    def name(self) -> str:
        """Stable name."""
        ...

    @property
    def share(self) -> float:
        """The part of the held bytes, in (0, 1], that is removed at a time if there is no room."""
        ...

    def order(self, held: Held, now: float) -> Positions:
        """Return the positions of all n entries, the first to leave first: shape `(n,)`, the same for equal inputs."""
        ...


@dataclass(frozen=True, kw_only=True)
class ByValue:
    """A policy by which the least valuable entry leaves first, and the older of two equal ones.

    The value of an entry is a weighted sum. Each part is a number between 0 and 1 (a cosine, for the similarity), so a
    weight tells how much confidence the whole range of a part is worth.

    - confidence; for an entry without one the median of the others, so that it neither protects nor condemns;
    - similarity: it adds little to the embedded verifier's confidence, but much if a language model is equally sure of
      everything, or gives no confidence;
    - use: u / (1 + u) for u uses, halved every `half_life` days since the last one; a small weight, because a search
      also returns entries that are merely near, and a returned entry is then kept and returned again;
    - freshness: 1 for an entry just added or used, halved every `half_life` days;
    - a neutral stance: such an entry does not tell what to do with its item;
    - redundancy: the nearness of the nearest more valuable entry of the same preference, 0 at a cosine of `near` and 1
      at the same vector. Of very many entries only the least valuable are compared with the others: in the order of
      their values, until 100 million pairs are compared.

    The weights are round numbers. In `tests/benchmarks/bench_retention.py` confidence is what matters: the other parts
    change little or nothing about which entries survive, use makes it slightly worse, and no stance is neutral there.

    Attributes:
        similarity, use, freshness, neutral, redundancy: Weights, 0 or more; the last two are subtracted.
        near: Cosine in [0, 1) from which an entry counts as redundant.
        half_life: Days, more than 0.
        share: In (0, 1].

    Raises:
        InvalidInputError: for a value out of its range.
    """

    similarity: float = 0.5
    use: float = 0.1
    freshness: float = 0.05
    neutral: float = 0.1
    redundancy: float = 0.5
    near: float = 0.95
    half_life: float = 30.0
    share: float = 0.1
    name: str = "by-value"

    def __post_init__(self) -> None:
        for weight in ("similarity", "use", "freshness", "neutral", "redundancy"):
            _checked(getattr(self, weight), weight, "a number from 0 to 1000", low=0.0, high=1000.0)
        _checked(self.half_life, "half_life", "a number of days from 0.001 to 100,000", low=1e-3, high=1e5)
        if not 0.0 <= _checked(self.near, "near", "a cosine in [0, 1)", low=0.0, high=1.0) < 1.0:
            raise InvalidInputError(f"near must be a cosine in [0, 1), not {self.near!r}.")
        _checked_share(self.share)

    def values(self, held: Held, now: float) -> FloatArray:
        """Return the value of each entry, finite, shape `(n,)`; higher is better, comparable within one call only."""
        confidence = np.clip(held.confidence.astype(np.float64), 0.0, 1.0)
        unknown = np.isnan(confidence)
        confidence[unknown] = 0.5 if unknown.all() else np.median(confidence[~unknown])
        remembered = np.exp2(-held.idle_days(now) / self.half_life)
        uses = np.maximum(held.uses, 0).astype(np.float64)
        value: NDArray[np.float64] = (
            confidence
            + self.similarity * np.clip(np.nan_to_num(held.similarity), -1.0, 1.0)
            + self.use * uses / (1.0 + uses) * remembered
            + self.freshness * remembered
            - self.neutral * (held.stances == _NEUTRAL)
        )
        if self.redundancy and len(held):
            value -= self.redundancy * np.clip((_nearest_better(held, value) - self.near) / (1.0 - self.near), 0.0, 1.0)
        return np.asarray(value, dtype=np.float32)

    def order(self, held: Held, now: float) -> Positions:
        """Return the positions, the least valuable first; shape `(n,)`."""
        return np.argsort(self.values(held, now), kind="stable")


def checked_policy(policy: object) -> None:
    """Raise an `InvalidInputError` for a policy without a name, a share above 0 and at most 1, or a method `order`."""
    if isinstance(policy, type) or not callable(getattr(policy, "order", None)):
        raise InvalidInputError(f"retention must be an object with a method order(held, now), not {policy!r}.")
    if not isinstance(getattr(policy, "name", None), str):
        raise InvalidInputError(f"The retention policy {policy!r} needs a name.")
    _checked_share(getattr(policy, "share", None))


def choose(order: Positions, held: Held, sizes: NDArray[np.int64], needed: int, floor: int) -> Positions:
    """Pick the entries to remove: the first of an order until they make enough room.

    No preference is left with fewer than `floor` entries by this; entries without a preference count as one group. A
    group that has fewer already keeps all of them.

    Args:
        order: Positions of all n entries, the first to leave first, shape `(n,)`.
        held: The entries.
        sizes: Bytes that each entry frees, 0 or more, shape `(n,)`.
        needed: Bytes to free.
        floor: Entries that each preference keeps, 0 or more.

    Returns:
        Positions in the order given, just enough of them to free `needed` bytes; all that may leave if that is too
            little; none if `needed` is not above 0.

    Raises:
        InvalidInputError: if the order does not have each position once, or for sizes or a floor out of range.
    """
    count = len(held)
    if order.shape != (count,) or not np.array_equal(np.sort(order), np.arange(count)):
        raise InvalidInputError(f"The order must have each of the {count} positions once. Check the retention policy.")
    if sizes.shape != (count,) or (sizes < 0).any():
        raise InvalidInputError(f"sizes must be {count} numbers of bytes, none below 0.")
    if floor < 0:
        raise InvalidInputError(f"floor must be 0 or more, not {floor!r}.")
    if needed <= 0 or not count:
        return np.empty(0, dtype=np.intp)
    _, group, counts = np.unique(held.preferences[order], return_inverse=True, return_counts=True)
    group = group.reshape(-1)
    # After a stable sort by group, an entry's rank in its group is its place minus the place where the group begins.
    sorted_by_group = np.argsort(group, kind="stable")
    rank = np.empty(count, dtype=np.int64)
    rank[sorted_by_group] = np.arange(count) - np.repeat(np.cumsum(counts) - counts, counts)
    may_go = order[rank < counts[group] - floor]
    enough = int(np.searchsorted(np.cumsum(sizes[may_go]), needed)) + 1
    return may_go[:enough].astype(np.intp)


def _nearest_better(held: Held, value: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return each entry's highest cosine with a more valuable entry of its preference, 0 if none was compared; `(n,)`.

    Of two equal values the newer entry counts as the more valuable. The entries are compared from the least valuable
    on, until `_COMPARED` pairs are used up: an entry far above those that leave now need not be compared now.
    """
    nearest = np.zeros(len(held), dtype=np.float64)
    for members, worst in _by_preference(held, value):
        vectors = held.vectors[members]
        step = max(1, _BLOCK // len(members))
        for start in range(0, worst, step):
            end = min(start + step, worst)
            # Members are in the order of their values: only those after an entry are more valuable.
            cosines = np.triu(vectors[start:end] @ vectors[start + 1 :].T)
            nearest[members[start:end]] = cosines.max(axis=1, initial=0.0)
    return nearest


def _by_preference(held: Held, value: NDArray[np.float64]) -> Iterator[tuple[Positions, int]]:
    """Yield the entries of each preference from the least valuable on, and how many of them are to be compared."""
    ranked = np.argsort(value, kind="stable")
    _, group, counts = np.unique(held.preferences[ranked], return_inverse=True, return_counts=True)
    group = group.reshape(-1)
    compared = np.cumsum(counts[group]) <= _COMPARED
    many = np.bincount(group, weights=compared, minlength=len(counts)).astype(np.int64)
    by_group = ranked[np.argsort(group, kind="stable")]
    for members, worst in zip(np.split(by_group, np.cumsum(counts)[:-1]), many.tolist(), strict=True):
        if worst:
            yield members, worst


def _checked(value: float, what: str, wanted: str, *, low: float, high: float) -> float:
    if not isinstance(value, Real) or isinstance(value, bool) or not low <= value <= high:
        raise InvalidInputError(f"{what} must be {wanted}, not {value!r}.")
    return float(value)


def _checked_share(share: object) -> None:
    if not isinstance(share, Real) or isinstance(share, bool) or not 0.0 < float(share) <= 1.0:
        raise InvalidInputError(f"share must be a number above 0 and at most 1, not {share!r}.")
