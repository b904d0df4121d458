"""Filters: conditions over metadata, and how they join."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epic_memory import Filter
from epic_memory.errors import InvalidInputError
from tables import table

OPERATORS = ["eq", "ne", "gt", "ge", "lt", "le"]
VALUES = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([0.5, 1.0]) | st.sampled_from(["a", "b", ""])
METADATA = st.dictionaries(st.sampled_from("xyz"), VALUES | st.lists(VALUES, max_size=3), max_size=3)
LEAVES = (
    st.builds(Filter, st.sampled_from(OPERATORS), st.sampled_from("xyz"), VALUES)
    | st.builds(Filter, st.sampled_from(["in", "nin"]), st.sampled_from("xyz"), st.lists(VALUES, max_size=3))
    | st.builds(Filter.contains, st.sampled_from("xyz"), VALUES)
    | st.builds(Filter.icontains, st.sampled_from("xyz"), st.sampled_from(["a", "B", ""]))
    | st.builds(Filter.exists, st.sampled_from("xyz"))
    | st.builds(Filter.empty, st.sampled_from("xyz"))
)
FILTERS = st.recursive(
    LEAVES, lambda f: st.builds(lambda a, b: a & b, f, f) | st.builds(lambda a, b: a | b, f, f) | f.map(lambda a: ~a)
)


@pytest.mark.parametrize(("name", "arguments", "matching", "others"), table(__file__, "each_operator"), ids=str)
def test_each_operator(name: str, arguments: list[Any], matching: list[Any], others: list[Any]) -> None:
    condition = getattr(Filter, name)("x", *arguments)
    assert [value for value in matching if not condition.matches({"x": value})] == []
    assert [value for value in others if condition.matches({"x": value})] == []


@pytest.mark.parametrize("operator", [*OPERATORS, "in", "nin", "contains", "icontains", "exists"])
def test_a_missing_key_fails_every_test(operator: str) -> None:
    condition = Filter(operator, "x", [1] if operator in ("in", "nin") else "1")
    assert not condition.matches({}) and not condition.matches({"y": 1})
    assert (~condition).matches({"y": 1})
    # What is missing is empty.
    assert Filter.empty("x").matches({"y": 1}) and not (~Filter.empty("x")).matches({})


@given(FILTERS, METADATA)
def test_keys_can_be_renamed(condition: Filter, metadata: dict[str, Any]) -> None:
    renamed = condition.renamed(lambda key: f"my.{key}")

    assert renamed.matches({f"my.{key}": value for key, value in metadata.items()}) is condition.matches(metadata)
    assert renamed.renamed(lambda key: key.removeprefix("my.")) == condition


def test_what_conditions_let_through_is_remembered_for_each() -> None:
    conditions = [
        make("x", value) for make in (Filter.eq, Filter.contains) for value in (1, 1.0, True, "1", (1,), (True,))
    ] + [Filter.icontains("x", "1"), Filter.exists("x"), Filter.empty("x"), Filter.empty("y")]
    assert len({condition.identity() for condition in conditions}) == len(conditions)
    assert Filter.contains("x", "a").identity() == Filter.contains("x", "a").identity() is not None
    assert Filter.contains("x", ["a"]).identity() == Filter.contains("x", ["a"]).identity() is not None
    assert Filter.contains("x", {"a": 1}).identity() is None


@given(FILTERS, FILTERS, METADATA)
def test_joined_filters_follow_logic(a: Filter, b: Filter, metadata: dict[str, Any]) -> None:
    before = repr(metadata)
    left, right = a.matches(metadata), b.matches(metadata)

    assert (a & b).matches(metadata) is (left and right)
    assert (a | b).matches(metadata) is (left or right)
    assert (~a).matches(metadata) is (not left)
    assert (~(a & b)).matches(metadata) is (~a | ~b).matches(metadata)
    assert (~(a | b)).matches(metadata) is (~a & ~b).matches(metadata)
    assert (~~a).matches(metadata) is left
    assert a.matches(metadata) is left and repr(metadata) == before


@given(st.sampled_from("xyz"), VALUES, METADATA)
def test_a_present_value_is_either_equal_or_not(key: str, value: Any, metadata: dict[str, Any]) -> None:
    equal = Filter.eq(key, value).matches(metadata)
    differs = Filter.ne(key, value).matches(metadata)

    assert (equal or differs) is (key in metadata)
    assert not (equal and differs)
    assert Filter.in_(key, [value]).matches(metadata) is equal
    assert Filter.not_in(key, [value]).matches(metadata) is differs


def test_equal_filters_are_equal_can_be_keys_and_are_joined_by_signs_and_not_by_words() -> None:
    assert Filter.in_("x", ["a", "b"]) == Filter.in_("x", ("a", "b"))
    one, two = Filter.eq("x", 1), Filter.eq("y", 2)
    assert len({one & Filter.exists("y"), one & Filter.exists("y")}) == 1
    # More than two join at once.
    parts = (one, two, Filter.eq("z", 3))
    assert Filter("and", parts=parts).matches({"x": 1, "y": 2, "z": 3})
    assert not Filter("and", parts=parts).matches({"x": 1, "y": 2})
    assert Filter("or", parts=parts).matches({"z": 3})
    with pytest.raises(InvalidInputError, match="join filters with &"):
        assert one and two
    with pytest.raises(InvalidInputError, match="join filters with &"):
        assert not one


@pytest.mark.parametrize(
    "given",
    [
        *(("like", "x", 1), ("", "x", 1), ("eq", "", 1), ("eq",), ("eq", None, 1), ("eq", 3, 1), ("and",), ("not",)),
        *(("in", "x", "abc"), ("nin", "x", b"abc"), ("icontains", "x", 1), ("icontains", "x", None)),
        *(("contains", "", "a"), ("empty", ""), ("and", "", None, ({"x": 1},)), ("or", "", None, [Filter.exists("x")])),
        ("not", "", None, (Filter.exists("x"), Filter.exists("y"))),
    ],
)
def test_a_filter_that_cannot_be_is_refused(given: tuple[Any, ...]) -> None:
    with pytest.raises(InvalidInputError, match=r"eq, ne.*'like'" if given[0] == "like" else r"[Ff]ilter"):
        Filter(*given)
    for other in ({"y": 2}, None):
        with pytest.raises(InvalidInputError, match="filter 'and' needs filters"):
            Filter.eq("x", 1) & other  # type: ignore[operator]
