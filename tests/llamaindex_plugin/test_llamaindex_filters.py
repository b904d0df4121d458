"""LlamaIndex's metadata filters: what they mean here, and to LlamaIndex's own store."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from llama_index.core.vector_stores import FilterCondition, FilterOperator, MetadataFilter, MetadataFilters
from llama_index.core.vector_stores.utils import build_metadata_filter_fn

from epic_llamaindex.filters import SOURCE, filter_of
from epic_memory import Filter
from epic_memory.errors import InvalidInputError
from tables import table

LISTS = [FilterOperator.IN, FilterOperator.NIN, FilterOperator.ANY, FilterOperator.ALL]
TEXTS = [FilterOperator.TEXT_MATCH, FilterOperator.TEXT_MATCH_INSENSITIVE]
SCALARS = [op for op in FilterOperator if op not in (*LISTS, *TEXTS, FilterOperator.IS_EMPTY)]


def one(operator: str, value: Any, key: str = "x") -> MetadataFilters:
    return MetadataFilters(filters=[MetadataFilter(key=key, value=value, operator=FilterOperator(operator))])


def matches(given: MetadataFilters | None, metadata: dict[str, Any]) -> bool:
    condition = filter_of(given)
    return condition is None or condition.matches(metadata)


WORDS = st.sampled_from(["", "a", "B", "ab", "Ab", "b a"])
NUMBERS = st.integers(-2, 2) | st.sampled_from([0.5, 1.0, -1.5])
VALUES = WORDS | NUMBERS
SEVERAL = st.lists(WORDS, max_size=3) | st.lists(st.integers(-2, 2), max_size=3)
KEYS = st.sampled_from("xyz")
FILTERS = (
    st.builds(MetadataFilter, key=KEYS, value=VALUES, operator=st.sampled_from(SCALARS))
    | st.builds(MetadataFilter, key=KEYS, value=SEVERAL, operator=st.sampled_from(LISTS))
    | st.builds(MetadataFilter, key=KEYS, value=WORDS, operator=st.sampled_from(TEXTS))
    | st.builds(MetadataFilter, key=KEYS, value=st.none(), operator=st.just(FilterOperator.IS_EMPTY))
)
CONDITIONS = st.sampled_from([*FilterCondition, None])
JOINED = st.builds(MetadataFilters, filters=st.lists(FILTERS, max_size=3), condition=CONDITIONS)
METADATA = st.dictionaries(KEYS, VALUES | st.none() | st.lists(WORDS, max_size=3), max_size=3)


def theirs(filters: MetadataFilters, metadata: dict[str, Any]) -> bool | None:
    """Return the answer of LlamaIndex's own store; None where it raises."""
    try:
        return build_metadata_filter_fn(lambda _: metadata, filters)("n")
    except TypeError:
        return None


def about_lists(given: MetadataFilter, metadata: dict[str, Any]) -> bool:
    """Tell whether a list of the metadata is compared as a whole there, and by its elements here."""
    operators = (FilterOperator.EQ, FilterOperator.NE, *LISTS[:2])
    return given.operator in operators and isinstance(metadata.get(given.key), list)


@given(FILTERS, METADATA)
def test_a_filter_means_what_it_means_to_llamaindex(given: MetadataFilter, metadata: dict[str, Any]) -> None:
    filters = MetadataFilters(filters=[given])
    right = theirs(filters, metadata)
    found = matches(filters, metadata)
    if right is None:  # what does not compare: a text match looks into lists, nothing else matches
        held = metadata[given.key]
        assert found is (given.operator in TEXTS and isinstance(held, list) and _whole(given, held))
    elif not about_lists(given, metadata):
        assert found is right


def _whole(given: MetadataFilter, held: list[str]) -> bool:
    if given.operator is FilterOperator.TEXT_MATCH:
        return given.value in held
    return str(given.value).lower() in [element.lower() for element in held]


@given(JOINED, METADATA)
def test_joined_filters_mean_what_they_mean_to_llamaindex(filters: MetadataFilters, metadata: dict[str, Any]) -> None:
    right = theirs(filters, metadata)
    if right is not None and not any(about_lists(each, metadata) for each in filters.filters):  # type: ignore[arg-type]
        assert matches(filters, metadata) is right


@given(st.lists(JOINED.filter(lambda made: made.filters), min_size=1, max_size=3), CONDITIONS, METADATA)
def test_nested_filters_follow_logic(
    parts: list[MetadataFilters], condition: FilterCondition | None, metadata: dict[str, Any]
) -> None:
    each = [matches(part, metadata) for part in parts]
    right = {FilterCondition.OR: any(each), FilterCondition.NOT: not any(each)}.get(condition, all(each))  # type: ignore[arg-type]
    before = repr(parts)
    assert matches(MetadataFilters(filters=parts, condition=condition), metadata) is right  # type: ignore[arg-type]
    assert repr(parts) == before


@pytest.mark.parametrize(("operator", "value", "matching", "others"), table(__file__, "each_operator"))
def test_each_operator(operator: str, value: Any, matching: list[Any], others: list[Any]) -> None:
    assert [held for held in matching if not matches(one(operator, value), {"x": held})] == []
    assert [held for held in others if matches(one(operator, value), {"x": held})] == []
    missing = operator in ("!=", "nin", "is_empty")
    assert matches(one(operator, value), {"y": "a"}) is missing


@pytest.mark.parametrize("condition", [*FilterCondition, None])
def test_no_filters_restrict_nothing(condition: FilterCondition | None) -> None:
    assert filter_of(MetadataFilters(filters=[], condition=condition)) is None
    assert filter_of(None) is None


def test_a_filter_of_the_core_is_taken_as_it_is() -> None:
    given = Filter.eq("x", 1) & ~Filter.exists("y")
    assert filter_of(given) == given
    assert filter_of(Filter.eq("doc_id", "d")) == Filter.eq(SOURCE, "d")


@pytest.mark.parametrize("key", ["doc_id", "document_id", "ref_doc_id"])
def test_the_source_document_has_three_names(key: str) -> None:
    assert matches(one("==", "d", key), {SOURCE: "d"}) and not matches(one("==", "d", key), {SOURCE: "e"})
    assert filter_of(one("in", ["d"], key)) == filter_of(one("in", ["d"], "doc_id"))


@pytest.mark.parametrize("operator", [op for op in FilterOperator if op is not FilterOperator.IS_EMPTY])
def test_a_filter_without_a_value_is_refused(operator: FilterOperator) -> None:
    with pytest.raises(InvalidInputError, match=r"'x' has no value.*is_empty"):
        filter_of(one(operator.value, None))


@pytest.mark.parametrize(
    ("filters", "match"),
    [
        (one("in", "abc"), "takes a list, not 'abc'"),
        (one("nin", 1), "takes a list, not 1"),
        (one("any", "abc"), "takes a list"),
        (one("all", "abc"), "takes a list"),
        (one("text_match", 1), "takes a text, not 1"),
        (one("text_match_insensitive", ["a"]), "takes a text"),
        (one("==", 1, key=""), "name of a metadata key"),
        (MetadataFilters(filters=[MetadataFilters(filters=[])]), "without any filter"),
        ({"x": 1}, "MetadataFilters.*not dict"),
        (MetadataFilter(key="x", value=1), "MetadataFilters.*not MetadataFilter"),
        ([one("==", 1)], "MetadataFilters.*not list"),
    ],
    ids=range(11),
)
def test_a_filter_that_cannot_be_is_refused(filters: Any, match: str) -> None:
    with pytest.raises(InvalidInputError, match=match):
        filter_of(filters)
