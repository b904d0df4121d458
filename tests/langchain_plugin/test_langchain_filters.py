"""LangChain's filters as filters of the core: each operator, and what cannot be."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("langchain_core", reason="needs the extra langchain")


from epic_langchain.filters import filter_of
from epic_memory import Filter
from epic_memory.errors import InvalidInputError
from tables import table

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
    assert filter_of(given) == expected


@pytest.mark.parametrize("operator", ["$and", "$or"])
def test_a_thousand_conditions_are_siblings(operator: str) -> None:
    made = filter_of({operator: [{"year": {"$ne": year}} for year in range(1200)]})
    assert made is not None and len(made.parts) == 1200 and not made.matches({"lang": "en"})


@pytest.mark.parametrize(
    ("given", "match"),
    [*table(__file__, "what_is_no_filter_is_refused"), ({3: 4}, "strings"), ([("year", 3)], "mapping")],
    ids=str,
)
def test_what_is_no_filter_is_refused(given: Any, match: str) -> None:
    with pytest.raises(InvalidInputError, match=match):
        filter_of(given)
