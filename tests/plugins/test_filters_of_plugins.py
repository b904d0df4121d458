"""Filters of both frameworks as filters of the core: what they mean here, there, and what cannot be."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("langchain_core", reason="needs the extra langchain")
pytest.importorskip("llama_index.core", reason="needs the extra llamaindex")

from llama_index.core.vector_stores import FilterCondition, FilterOperator, MetadataFilter, MetadataFilters
from llama_index.core.vector_stores.utils import build_metadata_filter_fn

from epic_langchain.filters import filter_of as lc_filter_of
from epic_llamaindex.filters import SOURCE
from epic_llamaindex.filters import filter_of as li_filter_of
from epic_memory import Filter
from epic_memory.errors import InvalidInputError
from tables import table

# LangChain's

EN, DE, OLD = Filter.eq("lang", "en"), Filter.eq("lang", "de"), Filter.lt("year", 2020)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, None),
        ({}, None),
        (EN, EN),
        ({"lang": "en"}, EN),
        ({"lang": {"$eq": "en"}}, EN),
        ({"none": None}, Filter.eq("none", None)),
        ({"tags": ["x", "y"]}, Filter.eq("tags", ["x", "y"])),
        ({"deep": {"$eq": {"a": 1}}}, Filter.eq("deep", {"a": 1})),
        ({"lang": {"$ne": "en"}}, Filter.ne("lang", "en")),
        ({"year": {"$gt": 2020}}, Filter.gt("year", 2020)),
        ({"year": {"$gte": 2020}}, Filter.ge("year", 2020)),
        ({"year": {"$lt": 2020}}, OLD),
        ({"year": {"$lte": 2020}}, Filter.le("year", 2020)),
        ({"year": {"$in": [2019, "2021"]}}, Filter.in_("year", [2019, "2021"])),
        ({"year": {"$nin": []}}, Filter.not_in("year", [])),
        ({"year": {"$between": (2020, 2021)}}, Filter.between("year", 2020, 2021)),
        ({"year": {"$exists": True}}, Filter.exists("year")),
        ({"year": {"$exists": False}}, ~Filter.exists("year")),
        ({"year": {"$gt": 2019, "$lt": 2020}}, Filter.gt("year", 2019) & OLD),
        ({"lang": "en", "year": {"$lt": 2020}}, EN & OLD),
        ({"lang": {"$not": {"$eq": "en"}}}, ~EN),
        ({"$not": {"$not": {"lang": "en"}}}, ~~EN),
        ({"$and": [{"lang": "en"}, {"year": {"$lt": 2020}}]}, EN & OLD),
        ({"$or": [{"lang": "de"}, EN]}, DE | EN),
        ({"$or": [{"$and": [EN, OLD]}, {"lang": "de"}], "year": {"$lt": 2020}}, ((EN & OLD) | DE) & OLD),
    ],
    ids=str,
)
def test_a_mapping_is_a_filter(given: Any, expected: Filter | None) -> None:
    assert lc_filter_of(given) == expected


@pytest.mark.parametrize("operator", ["$and", "$or"])
def test_a_thousand_conditions_are_siblings(operator: str) -> None:
    made = lc_filter_of({operator: [{"year": {"$ne": year}} for year in range(1200)]})
    assert made is not None and len(made.parts) == 1200 and not made.matches({"lang": "en"})


@pytest.mark.parametrize(
    ("given", "match"),
    [*table(__file__, "what_is_no_filter_of_langchain"), ({3: 4}, "strings"), ([("year", 3)], "mapping")],
    ids=str,
)
def test_what_is_no_filter_of_langchain_is_refused(given: Any, match: str) -> None:
    with pytest.raises(InvalidInputError, match=match):
        lc_filter_of(given)


# LlamaIndex's

LISTS = [FilterOperator.IN, FilterOperator.NIN, FilterOperator.ANY, FilterOperator.ALL]
TEXTS = [FilterOperator.TEXT_MATCH, FilterOperator.TEXT_MATCH_INSENSITIVE]
SCALARS = [op for op in FilterOperator if op not in (*LISTS, *TEXTS, FilterOperator.IS_EMPTY)]


def one(operator: str, value: Any, key: str = "x") -> MetadataFilters:
    return MetadataFilters(filters=[MetadataFilter(key=key, value=value, operator=FilterOperator(operator))])


def matches(given: MetadataFilters | None, metadata: dict[str, Any]) -> bool:
    condition = li_filter_of(given)
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


def test_no_filters_restrict_nothing_and_one_of_the_core_is_taken_as_it_is() -> None:
    assert li_filter_of(None) is None
    for condition in (*FilterCondition, None):
        assert li_filter_of(MetadataFilters(filters=[], condition=condition)) is None
    given = Filter.eq("x", 1) & ~Filter.exists("y")
    assert li_filter_of(given) == given
    assert li_filter_of(Filter.eq("doc_id", "d")) == Filter.eq(SOURCE, "d")


@pytest.mark.parametrize("key", ["doc_id", "document_id", "ref_doc_id"])
def test_the_source_document_has_three_names(key: str) -> None:
    assert matches(one("==", "d", key), {SOURCE: "d"}) and not matches(one("==", "d", key), {SOURCE: "e"})
    assert li_filter_of(one("in", ["d"], key)) == li_filter_of(one("in", ["d"], "doc_id"))


@pytest.mark.parametrize(
    ("filters", "match"),
    [
        (one("in", "abc"), "takes a list, not 'abc'"),
        (one("nin", 1), "takes a list, not 1"),
        (one("any", "abc"), "takes a list"),
        (one("all", "abc"), "takes a list"),
        (one("text_match", 1), "takes a text, not 1"),
        (one("text_match_insensitive", ["a"]), "takes a text"),
        *(
            (one(op.value, None), "'x' has no value.*is_empty")
            for op in FilterOperator
            if op != FilterOperator.IS_EMPTY
        ),
        (one("==", 1, key=""), "name of a metadata key"),
        (MetadataFilters(filters=[MetadataFilters(filters=[])]), "without any filter"),
        ({"x": 1}, "MetadataFilters.*not dict"),
        (MetadataFilter(key="x", value=1), "MetadataFilters.*not MetadataFilter"),
        ([one("==", 1)], "MetadataFilters.*not list"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_filter_that_cannot_be_is_refused(filters: Any, match: str) -> None:
    with pytest.raises(InvalidInputError, match=match):
        li_filter_of(filters)
