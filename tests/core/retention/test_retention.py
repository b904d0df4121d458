"""Which entries go first: by value, and how many a preference keeps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from epic_memory.retention import Held, choose, least_valuable_first

DTYPES = {"confidence": np.float32, "similarity": np.float32}


def held(count: int, **columns: Any) -> Held:
    """Entries that differ in the columns given only."""
    made: dict[str, Any] = {
        "rows": range(1, count + 1),
        "items": range(count),
        "preferences": [0] * count,
        "confidence": [0.8] * count,
        "similarity": [0.4] * count,
    }
    return Held(**{name: np.array(value, dtype=DTYPES.get(name, np.int64)) for name, value in (made | columns).items()})


def any_held(count: int, seed: int, preferences: int = 3) -> Held:
    """Anything that a memory, a clock and a verifier may do to the columns."""
    generator = np.random.default_rng(seed)
    return held(
        count,
        rows=np.sort(generator.choice(10 * count + 1, size=count, replace=False)),
        preferences=generator.integers(-1, preferences, size=count),
        confidence=np.where(generator.random(count) < 0.3, np.nan, generator.random(count)),
        similarity=generator.uniform(-1, 1, size=count),
    )


@given(count=st.integers(0, 40), seed=st.integers(0, 2**20))
def test_an_order_has_every_position_once(count: int, seed: int) -> None:
    assert sorted(least_valuable_first(any_held(count, seed)).tolist()) == list(range(count))


UNKNOWN = np.nan
ORDERS: dict[str, tuple[Held, list[int]]] = {
    "the least confident": (held(3, confidence=[0.9, 0.5, 0.7]), [1, 2, 0]),
    "of equal ones the oldest": (held(4), [0, 1, 2, 3]),
    "of equally confident ones the least similar": (held(3, similarity=[0.5, 0.6, 0.3]), [2, 0, 1]),
    "unknown as the median": (held(4, confidence=[UNKNOWN, 0.9, 0.6, 0.8]), [2, 0, 3, 1]),
    "none known": (held(3, confidence=[UNKNOWN] * 3, similarity=[0.5, 0.3, 0.4]), [1, 2, 0]),
}


@pytest.mark.parametrize(("entries", "order"), ORDERS.values(), ids=ORDERS)
def test_what_goes_first(entries: Held, order: list[int]) -> None:
    assert least_valuable_first(entries).tolist() == order


def chosen(order: list[int], entries: Held, sizes: list[int], needed: int, floor: int) -> list[int]:
    """The rows that go until so many bytes are free."""
    return choose(np.array(order, dtype=np.int64), entries, np.array(sizes, dtype=np.int64), needed, floor).tolist()


def test_just_enough_go_in_the_order_given() -> None:
    for needed, count in ((-5, 0), (0, 0), (1, 1), (30, 1), (31, 2), (40, 2), (41, 3), (101, 4)):
        assert chosen([2, 0, 3, 1], held(4), [10, 20, 30, 40], needed, 0) == [2, 0, 3, 1][:count]
    assert chosen([], held(0), [], 100, 0) == [] and chosen([0, 1], held(2), [0, 1], 1, 0) == [0, 1]


@pytest.mark.parametrize(("needed", "floor", "rows"), [(3, 1, [0, 1, 4]), (99, 2, [0]), (99, 10, [])])
def test_a_preference_keeps_its_floor_and_the_next_one_goes(needed: int, floor: int, rows: list[int]) -> None:
    assert chosen([0, 1, 2, 3, 4, 5], held(6, preferences=[0, 0, 0, 1, -1, -1]), [1] * 6, needed, floor) == rows
