"""LangChain's filters as filters of the core: each operator, and what cannot be."""

from __future__ import annotations

from typing import Any

import pytest

from epic_memory import Settings

pytest.importorskip("langchain_core", reason="needs the extra langchain")

from langchain_core.documents import Document
from langchain_core.structured_query import Comparator, Comparison, Operation, Operator, StructuredQuery

from epic_langchain import EpicRetriever, EpicTranslator, EpicVectorStore
from epic_langchain.filters import filter_of
from epic_memory import EpicMemory, Filter
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


# the filters that a self-query retriever's model writes


FILM = {"genre": "drama", "year": 1998, "tags": ["sea"], "seen": "2024-05-01"}


@pytest.mark.parametrize(
    ("comparator", "value", "expected"),
    [
        ("eq", 1998, Filter.eq("year", 1998)),
        ("ne", 1998, Filter.ne("year", 1998)),
        ("gt", 1990, Filter.gt("year", 1990)),
        ("gte", 1998, Filter.ge("year", 1998)),
        ("lt", 2000, Filter.lt("year", 2000)),
        ("lte", 1998, Filter.le("year", 1998)),
        ("in", [1998], Filter.in_("year", [1998])),
        ("nin", [1999], Filter.not_in("year", [1999])),
        ("contain", "9", Filter.contains("year", "9")),
        ("gt", {"type": "date", "date": "2024-05-01"}, Filter.gt("year", "2024-05-01")),
        ("lt", {"type": "datetime", "datetime": "2024-05-01T10:00:00"}, Filter.lt("year", "2024-05-01T10:00:00")),
    ],
    ids=str,
)
def test_a_comparison_of_a_structured_query(comparator: str, value: Any, expected: Filter) -> None:
    asked = Comparison(comparator=Comparator(comparator), attribute="year", value=value)
    assert asked.accept(EpicTranslator()) == expected


def test_operations_of_a_structured_query() -> None:
    translator = EpicTranslator()
    genre = Comparison(comparator=Comparator.EQ, attribute="genre", value="drama")
    year = Comparison(comparator=Comparator.LT, attribute="year", value=2000)
    both = Operation(operator=Operator.AND, arguments=[genre, year])
    neither = Operation(operator=Operator.NOT, arguments=[Operation(operator=Operator.OR, arguments=[genre, year])])
    for asked, matches in (
        (both, True),
        (neither, False),
        (Operation(operator=Operator.NOT, arguments=[neither]), True),
    ):
        query, options = translator.visit_structured_query(StructuredQuery(query="sea", filter=asked))
        assert query == "sea" and options["filter"].matches(FILM) is matches
    assert translator.visit_structured_query(StructuredQuery(query="sea", filter=None)) == ("sea", {})


@pytest.mark.parametrize(
    "asked",
    [
        Comparison(comparator=Comparator.LIKE, attribute="genre", value="dr%"),
        Operation(operator=Operator.NOT, arguments=[]),
        Operation(operator=Operator.AND, arguments=[]),
        Comparison(comparator=Comparator.IN, attribute="genre", value="drama"),
    ],
    ids=str,
)
def test_structured_queries_that_cannot_be(asked: Any) -> None:
    with pytest.raises(ValueError):
        asked.accept(EpicTranslator())


def test_stores_and_retrievers_take_what_is_translated() -> None:
    texts = [Document(page_content="A drama at sea.", metadata=FILM), Document(page_content="A drama in town.")]
    asked = StructuredQuery(
        query="A drama.", filter=Comparison(comparator=Comparator.CONTAIN, attribute="tags", value="sea")
    )
    query, options = EpicTranslator().visit_structured_query(asked)
    store = EpicVectorStore.from_documents(texts)
    assert [document.metadata for document in store.search(query, "similarity", **options)] == [FILM]
    retriever = EpicRetriever(memory=EpicMemory(["I love dramas."], settings=Settings(coarse=False, fine=False)))
    retriever.add_documents(texts)
    assert [document.page_content for document in retriever.invoke(query, **options)] == ["A drama at sea."]
