"""`EpicVectorStore`: what langchain-tests leaves out."""

from __future__ import annotations

import asyncio
import copy
import json
import math
import os
import random
import sqlite3
import subprocess
import sys
import threading
import warnings
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("langchain_core", reason="needs the extra langchain")

from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import InMemoryVectorStore

from epic_core import EpicMemory, Filter, Item
from epic_core.errors import (
    EncoderError,
    EncoderMismatchError,
    InvalidInputError,
    MemoryClosedError,
    ReadOnlyError,
    StoreError,
)
from epic_core.types import Stance
from epic_langchain import EpicDocumentTransformer, EpicEmbeddings, EpicVectorStore
from helpers import HashEncoder, KeepAll, UndecidedAll

TOLERANCE = 2e-3


class RandomEmbeddings(Embeddings):
    """A random direction for each text, the same each time; of the length that it happens to have."""

    def __init__(self, size: int = 24, model: str = "random") -> None:
        self.size = size
        self.model = model

    def embed_query(self, text: str) -> list[float]:
        vector: list[float] = np.random.default_rng(zlib.crc32(text.encode())).normal(size=self.size).tolist()
        return vector

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self.embed_query(text) for text in texts]


class OffTheLoop(RandomEmbeddings):
    """Fails where it is called synchronously on an event loop."""

    def embed_query(self, text: str) -> list[float]:
        with pytest.raises(RuntimeError):
            asyncio.get_running_loop()
        return super().embed_query(text)

    async def aembed_query(self, text: str) -> list[float]:
        await asyncio.sleep(0)
        return RandomEmbeddings.embed_query(self, text)

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        return [await self.aembed_query(text) for text in texts]


class Failing(RandomEmbeddings):
    """Fails at the texts that say so, after those before them."""

    def embed_query(self, text: str) -> list[float]:
        if "fail" in text:
            raise ConnectionError("the server has gone")
        return super().embed_query(text)


def words() -> HashEncoder:
    """Texts are as similar as the words they share."""
    return HashEncoder(512)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "me.vectors"


@pytest.fixture(params=["RAM", "file"])
def store(request: pytest.FixtureRequest, path: Path) -> Iterator[EpicVectorStore]:
    with EpicVectorStore(words(), path=path if request.param == "file" else None) as made:
        yield made


def ids(documents: Sequence[Document]) -> list[str]:
    return [str(document.id) for document in documents]


async def both(store: EpicVectorStore, name: str, *arguments: Any, **options: Any) -> Any:
    """What a method gives, sync and async: a value, or an error."""
    gave: list[Any] = []
    try:
        gave.append(getattr(store, name)(*arguments, **options))
    except Exception as error:
        gave.append(error)
    try:
        gave.append(await getattr(store, f"a{name}")(*arguments, **options))
    except Exception as error:
        gave.append(error)
    if isinstance(gave[0], Exception) or isinstance(gave[1], Exception):
        assert (type(gave[0]), str(gave[0])) == (type(gave[1]), str(gave[1]))
        raise gave[0]
    assert gave[0] == gave[1]
    return gave[0]


# the same as LangChain's own

TEXTS = ["red wine", "night train", "green hills", "blue sky", "a vegan stew", "casino hotels", "red wine!", "train"]
IDS = [f"id{n}" for n in range(6)]
DOCUMENTS = st.builds(
    lambda text, number, tag: Document(page_content=text, metadata={"n": number, "tags": [tag]}),
    st.sampled_from(TEXTS),
    st.integers(0, 3),
    st.sampled_from("ab"),
)
OPERATIONS = st.one_of(
    st.tuples(st.just("add"), st.lists(st.tuples(DOCUMENTS, st.sampled_from(IDS)), max_size=5)),
    st.tuples(st.just("add texts"), st.lists(st.tuples(DOCUMENTS, st.sampled_from(IDS)), max_size=3)),
    st.tuples(st.just("add without ids"), st.lists(DOCUMENTS, max_size=3)),
    st.tuples(st.just("delete"), st.lists(st.sampled_from([*IDS, "none"]), max_size=4)),
    st.tuples(st.just("reopen"), st.none()),
)
QUERIES = st.tuples(
    st.sampled_from([*TEXTS, "wine in the train"]), st.integers(1, 9), st.sampled_from([None, 1, 2]), st.floats(0, 1)
)


class Alike:
    """An `EpicVectorStore` in RAM, called asynchronously, and one in a file, beside an `InMemoryVectorStore`."""

    def __init__(self, embeddings: Embeddings, path: Path) -> None:
        self.embeddings = embeddings
        self.path = path
        self.right = InMemoryVectorStore(embeddings)
        self.ram = EpicVectorStore(embeddings)
        self.file = EpicVectorStore(embeddings, path=path)
        self.held: list[str] = []

    def apply(self, operation: str, given: Any) -> None:
        """Do the same to all three."""
        if operation == "reopen":
            self.file.close()
            self.file = EpicVectorStore(self.embeddings, path=self.path)
        elif operation == "delete":
            self.right.delete(given)
            assert self.file.delete(given) is True is asyncio.run(self.ram.adelete(given))
        elif operation == "add without ids":
            made = self.file.add_documents(given)
            assert len(set(made)) == len(given) and not set(made) & set(self.held)
            self.held += made
            assert asyncio.run(self.ram.aadd_documents(given, ids=made)) == made
            self.right.add_documents(given, ids=made)
        elif operation == "add texts":
            texts = [document.page_content for document, _ in given]
            metadatas = [document.metadata for document, _ in given]
            made = [one for _, one in given]
            assert self.file.add_texts(texts, metadatas, ids=made) == made
            assert asyncio.run(self.ram.aadd_texts(texts, metadatas, ids=made)) == made
            self.right.add_texts(texts, metadatas, ids=made)
        else:
            documents = [document.model_copy(update={"id": one}) for document, one in given]
            made = [one for _, one in given]
            assert self.file.add_documents(documents) == asyncio.run(self.ram.aadd_documents(documents)) == made
            self.right.add_documents(documents)

    def compare(self, query: str, k: int, number: int | None, lambda_mult: float) -> None:
        """All three find the same, as far as ten bits can tell."""
        everything = [*IDS, "none", *self.held]
        by_id = {document.id: document for document in self.right.get_by_ids(everything)}
        found = self.file.get_by_ids(everything)
        assert found == self.right.get_by_ids(everything) == asyncio.run(self.ram.aget_by_ids(everything))
        vector = self.embeddings.embed_query(query)
        options: dict[str, Any] = {}
        if number is not None:
            options["filter"] = lambda document: document.metadata["n"] >= number
        ranked = self.right.similarity_search_with_score(query, 99, **options)
        right = {str(document.id): score for document, score in ranked}
        for scored in (
            self.file.similarity_search_with_score(query, k, **options),
            self.file.similarity_search_with_score_by_vector(vector, k, **options),
        ):
            assert len({document.id for document, _ in scored}) == len(scored) == min(k, len(ranked))
            for (document, score), (_, expected) in zip(scored, ranked, strict=False):
                assert document == by_id[document.id]
                assert score == pytest.approx(expected, abs=TOLERANCE)
                assert score == pytest.approx(right[str(document.id)], abs=TOLERANCE)
        documents = self.file.similarity_search(query, k, **options)
        assert documents == [d for d, _ in self.file.similarity_search_with_score(query, k, **options)]
        assert documents == asyncio.run(self.ram.asimilarity_search(query, k, **options))
        diverse = self.file.max_marginal_relevance_search(query, k, 99, lambda_mult, **options)
        assert diverse == asyncio.run(self.ram.amax_marginal_relevance_search(query, k, 99, lambda_mult, **options))
        self.compare_diverse(ids(diverse), vector, right, k, lambda_mult)
        assert len(ids(self.file.max_marginal_relevance_search(query, k, 2, **options))) == min(k, len(ranked))

    def compare_diverse(
        self, chosen: list[str], vector: list[float], right: dict[str, float], k: int, lambda_mult: float
    ) -> None:
        """Each of the chosen is the best there is, given those before it, by the vectors as they were embedded."""
        assert len(set(chosen)) == len(chosen) == min(k, len(right))
        vectors = {one: np.array(self.right.store[one]["vector"]) for one in right}
        unit = {one: given / np.linalg.norm(given) for one, given in vectors.items()}
        for place, one in enumerate(chosen):
            before = chosen[:place]

            def value(other: str, before: list[str] = before) -> float:
                if not before:
                    return right[other]
                redundant = max(float(unit[other] @ unit[taken]) for taken in before)
                return lambda_mult * right[other] - (1 - lambda_mult) * redundant

            best = max(value(other) for other in right if other not in before)
            assert value(one) == pytest.approx(best, abs=2 * TOLERANCE)

    def close(self) -> None:
        self.file.close()
        self.ram.close()


@pytest.mark.parametrize("embeddings", [RandomEmbeddings(), EpicEmbeddings()], ids=["random", "embedded"])
@pytest.mark.slow
def test_it_finds_what_langchains_own_store_finds(tmp_path: Path, embeddings: Embeddings) -> None:
    count = iter(range(10**6))

    @given(st.lists(OPERATIONS, min_size=1, max_size=6), st.lists(QUERIES, min_size=1, max_size=2))
    @settings(max_examples=25, deadline=None, database=None)
    def alike(operations: list[tuple[str, Any]], queries: list[tuple[Any, ...]]) -> None:
        stores = Alike(embeddings, tmp_path / f"{next(count)}.vectors")
        try:
            for operation, what in operations:
                stores.apply(operation, what)
                stores.compare(*queries[0])
            for query in queries:
                stores.compare(*query)
        finally:
            stores.close()

    alike()


# scores


async def test_scores_are_cosines_as_floats_best_first() -> None:
    texts = [" ".join(random.Random(n).choices(TEXTS, k=3)) for n in range(40)]
    for embedding in (words(), RandomEmbeddings(), None):
        store = EpicVectorStore.from_texts(texts, embedding)
        for query in (*texts[:5], "anything"):
            scored = await both(store, "similarity_search_with_score", query, k=40)
            scores = [score for _, score in scored]
            assert all(type(score) is float and -1.0 <= score <= 1.0 for score in scores)
            assert scores == sorted(scores, reverse=True) and len(set(ids([d for d, _ in scored]))) == 40
        assert (await both(store, "similarity_search_with_score", texts[0], k=1))[0][1] == pytest.approx(
            1.0, abs=TOLERANCE
        )
        opposite = (-np.array(store.embeddings.embed_query(texts[0]))).tolist()
        scored = await both(store, "similarity_search_with_score_by_vector", opposite, k=40)
        assert scored[-1][0].page_content == texts[0] and scored[-1][1] == pytest.approx(-1.0, abs=TOLERANCE)
        relevant = await both(store, "similarity_search_with_relevance_scores", texts[0], k=40)
        assert all(0.0 <= score <= 1.0 for _, score in relevant)


async def test_a_steered_score_stays_in_the_range() -> None:
    preference = "I avoid casino hotels"
    store = EpicVectorStore(preferences=[preference])
    facts = {"instruction": "Steer clear of casino hotels.", "stance": "conflicts"}
    store.add_documents([Document(page_content="x", metadata={"epic_alignments": json.dumps([facts])})])
    store.add_texts(TEXTS)
    for query in (preference, "casino hotels", *TEXTS):
        for mode in ("signed", "paper", "off"):
            scored = await both(store, "similarity_search_with_score", query, k=9, steering=mode)
            scores = [score for _, score in scored]
            assert all(type(score) is float and -1.0 <= score <= 1.0 for score in scores)
            assert scores == sorted(scores, reverse=True) and len(scores) == 9


# diversity

CROWD = ["red wine here", "red wine there", "red wine now", "red train", "green hills"]


async def test_mmr_is_similarity_at_one_and_diversity_at_zero(store: EpicVectorStore) -> None:
    store.add_texts(CROWD, ids=CROWD)
    query = "red wine here"
    vector = store.embeddings.embed_query(query)
    for name, asked in (("max_marginal_relevance_search", query), ("max_marginal_relevance_search_by_vector", vector)):
        alike = await both(store, name, asked, k=4, lambda_mult=1.0)
        assert ids(alike) == ids(await both(store, "similarity_search", query, k=4))
        diverse = await both(store, name, asked, k=3, lambda_mult=0.0)
        assert ids(diverse)[0] == query and "green hills" in ids(diverse)
        assert ids(await both(store, name, asked, k=2, fetch_k=3, lambda_mult=0.0))[1] in CROWD[1:3]
        # As many as are asked for, though fewer were to be fetched.
        assert len(await both(store, name, asked, k=4, fetch_k=1)) == 4
        assert len(await both(store, name, asked, k=50, fetch_k=0)) == 5


@pytest.mark.parametrize(
    "options",
    [
        {"k": 0},
        {"k": -1},
        {"k": 1.5},
        {"k": "3"},
        {"k": None},
        {"fetch_k": "20"},
        {"fetch_k": 2.5},
        {"fetch_k": None},
        {"lambda_mult": 1.1},
        {"lambda_mult": -0.1},
        {"lambda_mult": float("nan")},
        {"lambda_mult": "0.5"},
    ],
)
async def test_mmr_with_numbers_that_cannot_be(store: EpicVectorStore, options: dict[str, Any]) -> None:
    store.add_texts(CROWD)
    name = next(iter(options))
    with pytest.raises(InvalidInputError, match=name):
        await both(store, "max_marginal_relevance_search", "red", **options)
    with pytest.raises(InvalidInputError, match=name):
        await both(store, "max_marginal_relevance_search_by_vector", words().vector("red").tolist(), **options)


@pytest.mark.parametrize("k", [0, -1, 1.5, "3", None])
async def test_k_is_a_whole_number_from_one(store: EpicVectorStore, k: Any) -> None:
    store.add_texts(CROWD)
    for name in ("similarity_search", "similarity_search_with_score", "similarity_search_with_relevance_scores"):
        with pytest.raises(InvalidInputError, match="k must be"):
            await both(store, name, "red", k)
    with pytest.raises(InvalidInputError, match="k must be"):
        await both(store, "similarity_search_by_vector", words().vector("red"), k)


# filters

FILTERED = [
    Document(id="a", page_content="red one", metadata={"year": 2019, "lang": "en", "tags": ["x", "y"], "ok": True}),
    Document(id="b", page_content="red two", metadata={"year": 2020, "lang": "de", "tags": ["y"], "ok": False}),
    Document(id="c", page_content="red three", metadata={"year": 2021, "lang": "en", "score": 0.5}),
    Document(id="d", page_content="red four", metadata={"year": "2021", "deep": {"a": 1}, "none": None}),
    Document(id="e", page_content="red five"),
]
FILTERS: list[tuple[Any, str]] = [
    ({"lang": "en"}, "ac"),
    ({"lang": {"$eq": "en"}}, "ac"),
    ({"lang": {"$ne": "en"}}, "b"),
    ({"year": {"$gt": 2020}}, "c"),
    ({"year": {"$gte": 2020}}, "bc"),
    ({"year": {"$lt": 2020}}, "a"),
    ({"year": {"$lte": 2020}}, "ab"),
    ({"year": {"$gt": 2019, "$lt": 2021}}, "b"),
    ({"year": {"$between": [2020, 2021]}}, "bc"),
    ({"year": {"$between": (2020, 2021)}}, "bc"),
    ({"year": {"$in": [2019, "2021"]}}, "ad"),
    ({"year": {"$in": []}}, ""),
    ({"year": {"$nin": [2019, 2020]}}, "cd"),
    ({"year": {"$nin": []}}, "abcd"),
    ({"tags": "x"}, "a"),
    ({"tags": {"$in": ["x", "y"]}}, "ab"),
    ({"tags": ["x", "y"]}, "a"),
    ({"ok": True}, "a"),
    ({"ok": 1}, ""),
    ({"none": None}, "d"),
    ({"deep": {"$eq": {"a": 1}}}, "d"),
    ({"score": {"$gte": 0.5}}, "c"),
    ({"year": {"$exists": True}}, "abcd"),
    ({"year": {"$exists": False}}, "e"),
    ({"missing": "x"}, ""),
    ({"missing": {"$ne": "x"}}, ""),
    ({"missing": {"$nin": ["x"]}}, ""),
    ({"missing": {"$lt": 5}}, ""),
    ({"lang": {"$not": {"$eq": "en"}}}, "bde"),
    ({"$not": {"lang": "en"}}, "bde"),
    ({"$not": {"$not": {"lang": "en"}}}, "ac"),
    ({"lang": "en", "year": 2019}, "a"),
    ({"$and": [{"lang": "en"}, {"year": {"$gt": 2019}}]}, "c"),
    ({"$or": [{"lang": "de"}, {"year": 2019}]}, "ab"),
    ({"$or": [{"$and": [{"lang": "en"}, {"ok": True}]}, {"year": {"$exists": False}}], "year": {"$exists": True}}, "a"),
    ({"$and": [Filter.eq("lang", "en"), {"$or": [{"year": 2019}, Filter.eq("year", 2020)]}]}, "a"),
    ({"$or": [{"year": number} for number in range(2019, 3200)]}, "abc"),
    ({"$and": [{"year": {"$ne": number}} for number in range(2020, 3200)]}, "ad"),
    ({f"missing{number}": {"$ne": 1} for number in range(1200)}, ""),
    ({}, "abcde"),
    (None, "abcde"),
    (Filter.eq("lang", "en"), "ac"),
    (~Filter.exists("year") | Filter.between("year", 2019, 2019), "ae"),
    (lambda document: document.metadata.get("lang") == "en", "ac"),
    (lambda document: document.page_content.endswith("e") and document.id > "b", "ce"),
    (lambda document: [], ""),
]


@pytest.fixture(scope="module", params=["RAM", "file"])
def filtered(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EpicVectorStore]:
    place = tmp_path_factory.mktemp("filtered") / "me.vectors" if request.param == "file" else None
    with EpicVectorStore(words(), path=place) as made:
        # Nearer to the query, and many more than are asked for: a filter after the search would leave nothing.
        made.add_texts([f"red wine {n}" for n in range(60)], [{"noise": n} for n in range(60)])
        made.add_documents(FILTERED)
        yield made


@pytest.mark.parametrize(
    ("condition", "expected"), FILTERS, ids=lambda value: "function" if callable(value) else str(value)[:60]
)
async def test_a_filter_is_part_of_the_search(filtered: EpicVectorStore, condition: Any, expected: str) -> None:
    vector = words().vector("red wine").tolist()
    quiet = condition
    if callable(condition):
        quiet = lambda document: "noise" not in document.metadata and condition(document)  # noqa: E731
    elif isinstance(condition, Filter):
        quiet = condition & ~Filter.exists("noise")
    else:
        quiet = {**(condition or {}), "$and": [*(condition or {}).get("$and", []), {"noise": {"$exists": False}}]}
    before = copy.deepcopy(quiet) if isinstance(quiet, dict) else None
    for name, asked in (
        ("similarity_search", "red wine"),
        ("similarity_search_by_vector", vector),
        ("max_marginal_relevance_search", "red wine"),
        ("max_marginal_relevance_search_by_vector", vector),
    ):
        found = await both(filtered, name, asked, k=5, filter=quiet)
        assert sorted(ids(found)) == list(expected)
        assert len(await both(filtered, name, asked, k=1, filter=quiet)) == min(1, len(expected))
    assert before is None or quiet == before
    scored = await both(filtered, "similarity_search_with_score", "red wine", k=5, filter=quiet)
    assert sorted(ids([document for document, _ in scored])) == list(expected)
    retriever = filtered.as_retriever(search_kwargs={"k": 5, "filter": quiet})
    assert retriever.invoke("red wine") == await retriever.ainvoke("red wine") == [document for document, _ in scored]


WRONG_FILTERS: list[tuple[Any, str]] = [
    ({"year": {"$near": 3}}, r"\$near"),
    ({"year": {"gte": 3}}, "gte"),
    ({"$xor": [{"a": 1}]}, r"\$xor"),
    ({"$and": []}, r"\$and"),
    ({"$or": {"a": 1}}, r"\$or"),
    ({"$or": [{"a": 1}, {}]}, r"\$or"),
    ({"$or": [{"a": 1}, None]}, r"\$or"),
    ({"$and": [{"a": 1}, "b"]}, "str"),
    ({"$not": {}}, r"\$not"),
    ({"year": {"$not": {}}}, "empty"),
    ({"year": {}}, "empty"),
    ({"year": {"$between": [1]}}, r"\$between"),
    ({"year": {"$between": "ab"}}, r"\$between"),
    ({"year": {"$in": "abc"}}, "several values"),
    ({"year": {"$nin": 3}}, "several values"),
    ({"year": {"$exists": "false"}}, r"\$exists"),
    ({"year": {"$exists": None}}, r"\$exists"),
    ({3: 4}, "strings"),
    ({"": 4}, "key"),
    ("year > 3", "mapping"),
    ([("year", 3)], "mapping"),
    (3, "mapping"),
]


@pytest.mark.parametrize(("condition", "match"), WRONG_FILTERS, ids=lambda value: str(value)[:60])
async def test_a_filter_that_is_none_is_refused(filtered: EpicVectorStore, condition: Any, match: str) -> None:
    for name, asked in (("similarity_search", "red"), ("similarity_search_by_vector", words().vector("red"))):
        with pytest.raises(InvalidInputError, match=match):
            await both(filtered, name, asked, filter=condition)


async def test_a_filter_that_fails_fails_the_search(filtered: EpicVectorStore) -> None:
    with pytest.raises(KeyError, match="lang"):
        await both(filtered, "similarity_search", "red", filter=lambda document: document.metadata["lang"])
    assert len(filtered.similarity_search("red", 3)) == 3


async def test_a_filter_cannot_change_what_is_stored(store: EpicVectorStore) -> None:
    store.add_texts(["red"], [{"deep": {"n": 1}}], ids=["a"])

    def spoil(document: Document) -> bool:
        document.metadata["deep"]["n"] = 2
        document.page_content = "spoilt"
        return True

    assert await both(store, "similarity_search", "red", filter=spoil) == store.get_by_ids(["a"])
    assert store.get_by_ids(["a"])[0].metadata == {"deep": {"n": 1}}


def test_what_a_filter_finds_follows_what_is_stored(store: EpicVectorStore) -> None:
    condition = {"n": {"$gte": 1}}
    store.add_texts(["red"], [{"n": 0}], ids=["a"])
    assert store.similarity_search("red", filter=condition) == []
    store.add_texts(["red", "red"], [{"n": 1}, {"n": 2}], ids=["a", "b"])
    assert sorted(ids(store.similarity_search("red", filter=condition))) == ["a", "b"]
    store.delete(["a"])
    assert ids(store.similarity_search("red", filter=condition)) == ["b"]


# by vector


async def test_a_vector_may_be_a_list_or_an_array(store: EpicVectorStore) -> None:
    store.add_texts(TEXTS, ids=TEXTS)
    vector = store.embeddings.embed_query("night train")
    array = np.array(vector)
    for asked in (vector, tuple(vector), array, array.astype(np.float32), 9 * array):
        found = await both(store, "similarity_search_by_vector", asked, k=2)
        assert ids(found) == ["night train", "train"]
        assert len(await both(store, "max_marginal_relevance_search_by_vector", asked, k=2)) == 2


@pytest.mark.parametrize(
    "vector", [[1.0], [1.0] * 513, [math.nan] * 512, [math.inf] * 512, "red wine", None, 3, [[1.0] * 512], ["a"] * 512]
)
async def test_what_is_no_vector_is_refused(store: EpicVectorStore, vector: Any) -> None:
    store.add_texts(TEXTS)
    for name in ("similarity_search_by_vector", "max_marginal_relevance_search_by_vector"):
        with pytest.raises(InvalidInputError, match="vector"):
            await both(store, name, vector)


async def test_a_search_by_vector_is_not_steered() -> None:
    plain, steered = EpicVectorStore(words()), EpicVectorStore(words(), preferences=["night train"], steering="paper")
    for one in (plain, steered):
        one.add_texts(TEXTS, ids=TEXTS)
    vector = words().vector("red").tolist()
    right = plain.similarity_search_with_score_by_vector(vector, 8)
    assert await both(steered, "similarity_search_with_score_by_vector", vector, k=8) == right
    assert [score for _, score in steered.similarity_search_with_score("red", 8)] != [score for _, score in right]
    with pytest.raises(TypeError, match="preferences"):
        await both(steered, "similarity_search_by_vector", vector, preferences=["red"])


# retrievers


async def test_a_threshold_keeps_what_is_relevant(store: EpicVectorStore) -> None:
    store.add_texts(CROWD, ids=CROWD)
    scored = dict(zip(CROWD, [1.0, 2 / 3, 2 / 3, 1 / math.sqrt(6), 0.0], strict=True))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for threshold in (0.0, 0.3, 0.5, 0.9):
            retriever = store.as_retriever(
                search_type="similarity_score_threshold", search_kwargs={"score_threshold": threshold, "k": 5}
            )
            found = retriever.invoke("red wine here")
            assert found == await retriever.ainvoke("red wine here")
            assert set(ids(found)) == {text for text, score in scored.items() if score >= threshold}
        opposite = EpicVectorStore(RandomEmbeddings())
        opposite.add_texts([f"{n}" for n in range(50)])
        kept = opposite.similarity_search_with_relevance_scores("0", k=50)
        assert len(kept) == 50 and kept[-1][1] == 0.0 and kept[0][1] == pytest.approx(1.0, abs=TOLERANCE)


async def test_retrievers_of_every_kind(store: EpicVectorStore) -> None:
    store.add_texts(CROWD, ids=CROWD)
    for retriever, expected in (
        (store.as_retriever(), 4),
        (store.as_retriever(search_kwargs={"k": 2}), 2),
        (store.as_retriever(search_type="mmr", search_kwargs={"k": 3, "fetch_k": 5, "lambda_mult": 0.1}), 3),
        (store.as_retriever(search_kwargs={"k": 1, "preferences": ["green hills"], "steering": "paper"}), 1),
    ):
        found = retriever.invoke("red wine here")
        assert found == await retriever.ainvoke("red wine here") and len(found) == expected
        assert await retriever.abatch(["red wine here", "train"]) == retriever.batch(["red wine here", "train"])
    assert len(store.as_retriever().invoke("red", k=1)) == 1
    assert "EpicVectorStore" in store.as_retriever().tags
    with pytest.raises(ValueError, match="search_type of nearest not allowed"):
        store.as_retriever(search_type="nearest")
    with pytest.raises(ValueError, match="search_type of nearest not allowed"):
        await both(store, "search", "red", "nearest")
    with pytest.raises(TypeError, match="top_k"):
        store.as_retriever(search_kwargs={"top_k": 2}).invoke("red")
    for kind in ("similarity", "mmr"):
        assert len(await both(store, "search", "red", kind, k=2)) == 2


# making one of documents

PREFERENCES = ["I follow a strict vegan diet.", "I avoid hotels with casinos."]
RAW = [
    Document(id="stew", page_content="A vegan stew for a strict vegan diet.", metadata={"kind": "food"}),
    Document(id="casino", page_content="The hotels of the strip have casinos.", metadata={"kind": "hotel"}),
    Document(id="treaty", page_content="The treaty of 1648 ended a long war.", metadata={"kind": "history"}),
    Document(page_content="Quiet hotels without casinos in the old town."),
]


async def test_from_texts_and_documents(path: Path) -> None:
    metadatas = [{"n": n} for n in range(len(TEXTS))]
    right = EpicVectorStore(words())
    right.add_texts(TEXTS, metadatas, ids=TEXTS)
    documents = [
        Document(id=text, page_content=text, metadata=meta) for text, meta in zip(TEXTS, metadatas, strict=True)
    ]
    nameless = [document.model_copy(update={"id": None}) for document in documents]
    for made in (
        EpicVectorStore.from_texts(TEXTS, words(), metadatas, ids=TEXTS),
        await EpicVectorStore.afrom_texts(TEXTS, words(), metadatas, ids=TEXTS),
        EpicVectorStore.from_documents(documents, words()),
        await EpicVectorStore.afrom_documents(documents, words()),
        EpicVectorStore.from_documents(nameless, words(), ids=TEXTS),
        await EpicVectorStore.afrom_documents(nameless, embedding=words(), ids=TEXTS),
        EpicVectorStore.from_documents(documents, words(), path=path),
    ):
        assert type(made) is EpicVectorStore
        assert made.get_by_ids(TEXTS) == right.get_by_ids(TEXTS) == documents
        assert made.similarity_search_with_score("red", 8) == right.similarity_search_with_score("red", 8)
        made.close()
    assert all(document.id is None for document in nameless)
    with EpicVectorStore(words(), path=path, must_exist=True) as made:
        assert made.get_by_ids(TEXTS) == documents
    assert EpicVectorStore.from_texts([]).similarity_search("red") == []
    assert EpicVectorStore.from_documents([]).similarity_search("red") == []


@pytest.mark.parametrize("given", [PREFERENCES, tuple(PREFERENCES), iter(PREFERENCES), PREFERENCES[0]], ids="ltis")
def test_from_documents_with_preferences_keeps_what_matters(given: Any) -> None:
    before = copy.deepcopy(RAW)
    wanted = [given] if isinstance(given, str) else PREFERENCES
    keep = EpicDocumentTransformer(preferences=wanted)
    kept = keep.invoke(RAW)
    assert 0 < len(kept) < len(RAW)
    made = EpicVectorStore.from_documents(RAW, preferences=given)
    assert before == RAW
    found = made.similarity_search("anything", k=9)
    assert {document.page_content for document in found} == {document.page_content for document in kept}
    assert made.get_by_ids(["stew"]) == [document for document in kept if document.id == "stew"]
    assert all(document.metadata["epic_instruction"] and document.metadata["epic_alignments"] for document in found)
    # Searches are steered by the same preferences.
    right = EpicVectorStore(preferences=wanted)
    right.add_documents(kept)
    query = "Where should I stay?"
    assert [s for _, s in made.similarity_search_with_score(query, 9)] == [
        s for _, s in right.similarity_search_with_score(query, 9)
    ]


async def test_from_documents_with_preferences_is_the_same_in_every_way() -> None:
    texts = [document.page_content for document in RAW]
    metadatas = [document.metadata for document in RAW]
    names = ["1", "2", "3", "4"]
    right = EpicVectorStore.from_documents(RAW, preferences=PREFERENCES, ids=names)
    for made in (
        await EpicVectorStore.afrom_documents(RAW, preferences=PREFERENCES, ids=names),
        EpicVectorStore.from_texts(texts, None, metadatas, ids=names, preferences=PREFERENCES),
        await EpicVectorStore.afrom_texts(texts, None, metadatas, ids=names, preferences=PREFERENCES),
    ):
        assert made.get_by_ids(names) == right.get_by_ids(names)
        assert made.similarity_search_with_score("a hotel", 9) == right.similarity_search_with_score("a hotel", 9)
    assert set(ids(right.get_by_ids(names))) >= {"1", "2"} and not right.get_by_ids(["3"])


async def test_what_nobody_could_decide_about_is_not_lost_in_silence() -> None:
    options = {"preferences": PREFERENCES, "llm": UndecidedAll()}
    with pytest.warns(UserWarning, match="3 documents are undecided"):
        made = EpicVectorStore.from_documents(RAW, **options)
    assert made.similarity_search("hotel", 9) == []
    with pytest.warns(UserWarning, match="3 documents are undecided"):
        await EpicVectorStore.afrom_documents(RAW, **options)


async def test_from_documents_refuses_what_cannot_be(path: Path) -> None:
    for options, kind, match in (
        ({"llm": KeepAll()}, InvalidInputError, "preferences"),
        ({"llm": "gpt", "preferences": PREFERENCES}, ValueError, "model"),
        ({"top_k": 3}, TypeError, "top_k"),
        ({"ids": ["1"]}, InvalidInputError, "1 ids for 4"),
        ({"ids": "abcd"}, InvalidInputError, "ids"),
        ({"steering": "on"}, InvalidInputError, "mode"),
        ({"preferences": [""]}, ValueError, "preference is empty"),
        ({"embedding": "nomic"}, InvalidInputError, "embeddings must be"),
    ):
        with pytest.raises(kind, match=match):
            EpicVectorStore.from_documents(RAW, path=path, **options)  # type: ignore[arg-type]
        with pytest.raises(kind, match=match):
            await EpicVectorStore.afrom_documents(RAW, path=path, **options)  # type: ignore[arg-type]
        assert not path.exists()


def held_open(path: Path) -> int:
    """How often this process has a file open; 0 where that cannot be told."""
    links = [link for link in Path("/proc/self/fd").glob("*") if link.is_symlink()]
    return sum(str(path) == os.path.realpath(link) for link in links)


async def test_a_failed_start_leaves_no_open_file(path: Path) -> None:
    texts = ["red", "fail", "blue"]
    for held in ([], ["red"]):
        with pytest.raises(EncoderError, match="the server has gone") as failed:
            EpicVectorStore.from_texts(texts, Failing(), path=path)
        assert failed.value and not held_open(path)
        with pytest.raises(EncoderError, match="the server has gone") as failed:
            await EpicVectorStore.afrom_texts(texts, Failing(), path=path)
        assert failed.value and not held_open(path)
        with EpicVectorStore(Failing(), path=path) as made:
            assert [document.page_content for document in made.similarity_search("red")] == held
            made.add_texts(["red"], ids=["a"])


async def test_asynchronous_calls_leave_the_event_loop_alone(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    connect, threads = sqlite3.connect, set()

    def connected(*arguments: Any, **options: Any) -> sqlite3.Connection:
        threads.add(threading.get_ident())
        return connect(*arguments, **options)

    monkeypatch.setattr(sqlite3, "connect", connected)
    embeddings = OffTheLoop()
    for options in ({}, {"preferences": PREFERENCES}):
        made = await EpicVectorStore.afrom_documents(RAW, embeddings, path=path, **options)
        assert threads and threading.get_ident() not in threads
        assert await made.aadd_documents([]) == []
        await made.aadd_texts(["red"], ids=["a"])
        await made.asimilarity_search("red", preferences=["blue sky"])
        await made.asimilarity_search_with_score("red")
        await made.asimilarity_search_with_relevance_scores("red")
        await made.amax_marginal_relevance_search("red")
        await made.aget_by_ids(["a"])
        await made.adelete(["a"])
        assert await made.as_retriever().ainvoke("red") is not None
        made.close()
        path.unlink()


# the file


async def test_it_lasts(path: Path) -> None:
    with EpicVectorStore(RandomEmbeddings(), path=path) as made:
        await made.aadd_texts(TEXTS, ids=TEXTS)
        made.delete(["train", "none"])
        made.add_texts(["anew"], [{"n": 1}], ids=["red wine"])
        right = made.similarity_search_with_score("wine", 99), made.get_by_ids(TEXTS)
        right_diverse = made.max_marginal_relevance_search("wine", 5)
    for options in ({}, {"must_exist": True}, {"read_only": True}, {"preferences": PREFERENCES, "steering": "off"}):
        with EpicVectorStore(RandomEmbeddings(), path=str(path), **options) as again:
            assert (again.similarity_search_with_score("wine", 99), again.get_by_ids(TEXTS)) == right
            assert again.max_marginal_relevance_search("wine", 5) == right_diverse
            assert len(right[0]) == 7
    assert [file.name for file in path.parent.iterdir()] == [path.name]
    assert b"pickle" not in path.read_bytes() and path.read_bytes().startswith(b"SQLite format 3")


async def test_two_stores_on_one_file_see_each_other(path: Path) -> None:
    with EpicVectorStore(words(), path=path) as one, EpicVectorStore(words(), path=path) as other:
        one.add_texts(["red wine"], ids=["a"])
        assert ids(await other.asimilarity_search("red wine")) == ["a"]
        await other.aadd_texts(["night train", "blue sky"], ids=["b", "a"])
        assert one.get_by_ids(["a"])[0].page_content == "blue sky"
        assert ids(one.similarity_search("night train", 1)) == ["b"]
        one.delete()
        assert other.similarity_search("night train") == []


def test_threads_add_and_search_at_once(store: EpicVectorStore) -> None:
    def work(worker: int) -> None:
        for turn in range(6):
            store.add_texts([f"red {worker} {turn}"], [{"worker": worker}], ids=[f"{worker}/{turn}"])
            found = store.similarity_search(f"red {worker} {turn}", 3, filter={"worker": worker})
            assert f"{worker}/{turn}" in ids(found) and all(d.metadata["worker"] == worker for d in found)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert len(store.similarity_search("red", 99)) == 24


async def test_a_file_of_another_kind_is_refused_and_left_as_it_is(path: Path, tmp_path: Path) -> None:
    memory = tmp_path / "me.epic"
    EpicMemory.open(memory, PREFERENCES).close()
    note = tmp_path / "note.txt"
    note.write_text("Dear diary, today ...\n" * 50)
    EpicVectorStore.from_texts(TEXTS, words(), path=path).close()
    cut = tmp_path / "cut.vectors"
    cut.write_bytes(path.read_bytes()[:3000])
    before = {file: file.read_bytes() for file in tmp_path.iterdir()}
    for file, match in ((memory, "not a vector store"), (note, "note.txt"), (cut, "cut.vectors"), (tmp_path, "folder")):
        with pytest.raises(StoreError, match=match):
            EpicVectorStore(words(), path=file)
        with pytest.raises(StoreError, match=match):
            await EpicVectorStore.afrom_texts(["red"], words(), path=file)
    with pytest.raises(StoreError, match="not a memory"):
        EpicMemory.open(path)
    with pytest.raises(StoreError, match="no vector store at"):
        EpicVectorStore(words(), path=tmp_path / "none", must_exist=True)
    assert {file: file.read_bytes() for file in tmp_path.iterdir()} == before


async def test_a_file_of_another_model_is_refused(path: Path) -> None:
    EpicVectorStore.from_texts(TEXTS, RandomEmbeddings(), path=path).close()
    before = path.read_bytes()
    for other in (RandomEmbeddings(model="other"), words(), None):
        with pytest.raises(EncoderMismatchError, match=r"langchain:RandomEmbeddings:random"):
            EpicVectorStore(other, path=path)
    # The dimension of a model is known once it has embedded something.
    with EpicVectorStore(RandomEmbeddings(12), path=path) as made:
        for name, arguments in (
            ("similarity_search", ["red"]),
            ("max_marginal_relevance_search", ["red"]),
            ("add_texts", [["red"]]),
            ("add_documents", [RAW]),
        ):
            with pytest.raises(EncoderMismatchError, match="24 dimensions"):
                await both(made, name, *arguments)
        with pytest.raises(InvalidInputError, match="12 dimensions"):
            await both(made, "similarity_search_by_vector", [1.0] * 12)
    assert path.read_bytes() == before


async def test_a_store_opened_for_reading_is_never_written(path: Path) -> None:
    EpicVectorStore.from_texts(TEXTS, words(), path=path, ids=TEXTS).close()
    before = path.read_bytes()
    with EpicVectorStore(words(), path=path, read_only=True) as made:
        for name, arguments in (
            ("add_texts", [["red"]]),
            ("add_documents", [RAW]),
            ("delete", [["train"]]),
            ("delete", []),
        ):
            with pytest.raises(ReadOnlyError, match="opened for reading only"):
                await both(made, name, *arguments)
        assert len(made.get_by_ids(TEXTS)) == len(TEXTS)
    assert path.read_bytes() == before


async def test_a_closed_store_says_so(store: EpicVectorStore) -> None:
    store.add_texts(["red"], ids=["a"])
    store.close()
    store.close()
    for name, arguments in (
        ("add_texts", [["red"]]),
        ("delete", [["a"]]),
        ("get_by_ids", [["a"]]),
        ("similarity_search", ["red"]),
        ("similarity_search_by_vector", [[1.0] * 512]),
        ("max_marginal_relevance_search", ["red"]),
    ):
        with pytest.raises(MemoryClosedError, match="vector store is closed"):
            await both(store, name, *arguments)


# documents with instructions


def instructed(name: str, text: str, *instructions: str, stance: str = "supports") -> Document:
    """As the transformer writes it."""
    alignments = [
        {"instruction": each, "stance": stance, "preference": "p", "similarity": 0.5} for each in instructions
    ]
    flat = {"epic_instruction": instructions[0], "epic_stance": stance} if instructions else {}
    return Document(id=name, page_content=text, metadata={**flat, "epic_alignments": json.dumps(alignments)})


async def test_a_document_is_found_by_each_of_its_instructions(store: EpicVectorStore) -> None:
    store.add_documents(
        [
            instructed("a", "green hills", "offer red wine", "take night train"),
            instructed("b", "blue sky", "offer beer"),
        ]
    )
    for query in ("offer red wine", "take night train"):
        scored = await both(store, "similarity_search_with_score", query, k=2)
        assert ids([document for document, _ in scored]) == ["a", "b"]
        assert scored[0][1] == pytest.approx(1.0, abs=TOLERANCE)
        assert scored[0][0].page_content == "green hills"
    # And by its text, as any other.
    (first, near), (other, far) = store.similarity_search_with_score("green hills", 2)
    assert ids([first, other]) == ["a", "b"] and near == pytest.approx(1.0, abs=TOLERANCE) and abs(far) < TOLERANCE
    # Stored anew, it has other instructions; without any, it is found by its text.
    store.add_documents([instructed("a", "green hills", "take night train")])
    assert store.similarity_search_with_score("red wine", 1)[0][1] < TOLERANCE
    for bare in (instructed("a", "green hills"), Document(id="a", page_content="green hills")):
        store.add_documents([bare])
        assert store.similarity_search_with_score("green hills", 1)[0][1] == pytest.approx(1.0, abs=TOLERANCE)


async def test_one_document_counts_once(store: EpicVectorStore) -> None:
    store.add_documents([instructed(f"{n}", "-", *(f"red wine {n} {m}" for m in range(10))) for n in range(5)])
    store.add_texts(["blue"], ids=["5"])
    for k in range(1, 8):
        for name in ("similarity_search", "max_marginal_relevance_search"):
            found = await both(store, name, "red wine", k=k)
            assert len(set(ids(found))) == len(found) == min(k, 6)
        assert len(await both(store, "similarity_search", "red wine", k=k, filter=lambda d: d.id < "3")) == min(k, 3)


def test_what_the_transformer_writes_is_found(path: Path) -> None:
    kept = EpicDocumentTransformer(preferences=PREFERENCES).invoke(RAW)
    with EpicVectorStore(path=path) as made:
        made.add_documents(kept)
    with EpicVectorStore(path=path) as made:
        for document in kept:
            for facts in json.loads(document.metadata["epic_alignments"]):
                found, score = made.similarity_search_with_score(facts["instruction"], 1)[0]
                assert found.page_content == document.page_content and found.metadata == document.metadata
                assert score == pytest.approx(1.0, abs=TOLERANCE)
        # One that was found can be stored as it is.
        right = made.similarity_search_with_score("a hotel", 9)
        made.add_documents([document for document, _ in right])
        assert made.similarity_search_with_score("a hotel", 9) == right


def test_an_instruction_alone_is_enough(store: EpicVectorStore) -> None:
    for metadata in ({"epic_instruction": "offer wine"}, {"epic_instruction": "offer wine", "epic_stance": "mixed"}):
        store.add_documents([Document(id="a", page_content="blue", metadata=metadata)])
        assert store.similarity_search_with_score("offer wine", 1)[0][1] == pytest.approx(1.0, abs=TOLERANCE)
        assert store.get_by_ids(["a"])[0].metadata == metadata


@pytest.mark.parametrize(
    "metadata",
    [
        {"epic_instruction": ""},
        {"epic_instruction": "  \n"},
        {"epic_instruction": None},
        {"epic_alignments": "[]"},
        {"epic_alignments": json.dumps([{"instruction": " "}, {"instruction": None}])},
    ],
)
def test_no_instruction_is_none(store: EpicVectorStore, metadata: dict[str, Any]) -> None:
    store.add_documents([Document(id="a", page_content="blue sky", metadata=metadata)])
    assert store.similarity_search_with_score("blue sky", 1)[0][1] == pytest.approx(1.0, abs=TOLERANCE)


BROKEN_GUIDANCE = {
    "no JSON": {"epic_alignments": "[{"},
    "empty": {"epic_alignments": ""},
    "a text": {"epic_alignments": '"offer wine"'},
    "a number": {"epic_alignments": "3"},
    "null": {"epic_alignments": "null"},
    "a mapping": {"epic_alignments": '{"instruction": "offer wine"}'},
    "texts": {"epic_alignments": '["offer wine"]'},
    "a list of lists": {"epic_alignments": '[["offer wine"]]'},
    "no text": {"epic_alignments": '[{"instruction": 3}]'},
    "a stance that is none": {"epic_alignments": '[{"instruction": "offer wine", "stance": "maybe"}]'},
    "a stance that is a list": {"epic_alignments": '[{"instruction": "offer wine", "stance": ["mixed"]}]'},
    "half a character": {"epic_alignments": '[{"instruction": "offer \\ud800"}]'},
    "very deep": {"epic_alignments": "[" * 100_000},
    "an instruction that is no text": {"epic_instruction": 3},
    "a stance": {"epic_instruction": "offer wine", "epic_stance": "maybe"},
}


@pytest.mark.parametrize("metadata", BROKEN_GUIDANCE.values(), ids=BROKEN_GUIDANCE.keys())
async def test_broken_guidance_is_refused_and_nothing_is_stored(
    store: EpicVectorStore, metadata: dict[str, Any]
) -> None:
    documents = [Document(id="a", page_content="red"), Document(id="b", page_content="blue", metadata=metadata)]
    with pytest.raises(InvalidInputError, match=r"Document 2: The guidance .*'b' cannot be read.*epic_"):
        await both(store, "add_documents", documents)
    assert store.similarity_search("red") == []


async def test_a_conflict_comes_later_where_searches_are_steered() -> None:
    made = EpicVectorStore(words(), preferences=["casino hotels"])
    made.add_documents(
        [
            instructed("against", "x", "casino hotels in town", stance="conflicts"),
            instructed("for", "y", "casino hotels in town today", stance="supports"),
        ]
    )
    query = "casino hotels in town"
    assert ids(await both(made, "similarity_search", query, k=2)) == ["for", "against"]
    assert ids(await both(made, "similarity_search", query, k=2, steering="off")) == ["against", "for"]
    assert ids(await both(made, "similarity_search_by_vector", words().vector(query), k=2)) == ["against", "for"]


# a view of a memory

ITEMS = [
    Item(id="stew", text="vegan stew of beans", metadata={"kind": "food", "tags": ["a"]}),
    Item(id="curry", text="vegan curry of lentils", metadata={"kind": "food"}),
    Item(id="casino", text="hotel with casino", metadata={"kind": "hotel"}),
    Item(id="quiet", text="quiet hotel in town", metadata={"kind": "hotel"}),
]


@pytest.fixture
def memory() -> Iterator[EpicMemory]:
    verifier = KeepAll({"casino": Stance.CONFLICTS})
    with EpicMemory(["vegan food", "hotel in town"], encoder=words(), verifier=verifier, tau=0.1) as made:
        made.add(ITEMS)
        assert len(made) == 4
        yield made


async def test_a_view_finds_what_the_memory_finds(memory: EpicMemory) -> None:
    view = EpicVectorStore.from_memory(memory)
    assert isinstance(view, EpicVectorStore)
    for query in ("vegan stew", "hotel with casino", "town"):
        for options in ({}, {"steering": "off"}, {"preferences": ["vegan food"]}, {"filter": {"kind": "hotel"}}):
            given = dict(options)
            hits = memory.search(
                query, 4, **{**given, "filter": Filter.eq("kind", "hotel") if "filter" in given else None}
            )
            scored = await both(view, "similarity_search_with_score", query, k=4, **options)
            assert [(document.id, score) for document, score in scored] == [(hit.item.id, hit.score) for hit in hits]
            assert [document.page_content for document, _ in scored] == [hit.item.text for hit in hits]
            assert await both(view, "similarity_search", query, k=4, **options) == [document for document, _ in scored]
            assert all(type(score) is float for _, score in scored)
            assert all(-1.0 <= score <= 1.0 for _, score in scored)
        vector = words().vector(query)
        hits = memory.search_vector(vector, 3)
        scored = await both(view, "similarity_search_with_score_by_vector", vector.tolist(), k=3)
        assert [(document.id, score) for document, score in scored] == [(hit.item.id, hit.score) for hit in hits]
    document = view.similarity_search("vegan stew", 1)[0]
    assert document.metadata["kind"] == "food" and document.metadata["epic_preference"] == "vegan food"
    assert ids(await both(view, "similarity_search", "hotel", k=4, filter={"tags": "a"})) == ["stew"]


async def test_a_view_knows_mmr_ids_and_thresholds(memory: EpicMemory) -> None:
    view = EpicVectorStore.from_memory(memory)
    alike = await both(view, "max_marginal_relevance_search", "vegan stew", k=3, lambda_mult=1.0, steering="off")
    assert ids(alike)[0] == "stew" and len(alike) == 3
    vector = words().vector("vegan stew").tolist()
    diverse = await both(view, "max_marginal_relevance_search_by_vector", vector, k=2, lambda_mult=0.0)
    assert set(ids(diverse)) & {"casino", "quiet"} and ids(diverse)[0] == "stew"
    found = await both(view, "get_by_ids", ["quiet", "none", "stew"])
    assert ids(found) == ["quiet", "stew"] and found[1].metadata == {"kind": "food", "tags": ["a"]}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        options = {"score_threshold": 0.2, "k": 4}
        retriever = view.as_retriever(search_type="similarity_score_threshold", search_kwargs=options)
        kept = await retriever.ainvoke("vegan stew of beans")
    assert kept == retriever.invoke("vegan stew of beans") and ids(kept)[0] == "stew"


async def test_a_view_is_not_written(memory: EpicMemory) -> None:
    view = EpicVectorStore.from_memory(memory)
    for name, arguments in (
        ("add_documents", [RAW]),
        ("add_texts", [["red"]]),
        ("delete", [["stew"]]),
        ("delete", []),
    ):
        with pytest.raises(InvalidInputError, match="view of a memory"):
            await both(view, name, *arguments)
    assert len(memory) == 4
    with view:
        pass
    assert memory.search("vegan stew")


async def test_a_view_sees_what_comes_later_and_other_namespaces(tmp_path: Path) -> None:
    options: dict[str, Any] = {"encoder": words(), "verifier": KeepAll(), "tau": 0.1}
    place = tmp_path / "me.epic"
    with (
        EpicMemory.open(place, ["vegan food"], **options) as mine,
        EpicMemory.open(place, ["quiet hotel"], namespace="other", **options) as theirs,
    ):
        view, their_view = EpicVectorStore.from_memory(mine), EpicVectorStore.from_memory(mine, namespace="other")
        assert view.similarity_search("vegan") == []
        await mine.aadd(ITEMS)
        theirs.add(ITEMS)
        assert set(ids(view.similarity_search("vegan"))) == {"stew", "curry"}
        assert set(ids(await both(their_view, "similarity_search", "vegan"))) == {"casino", "quiet"}
        assert ids(await both(their_view, "get_by_ids", ["stew", "quiet"])) == ["quiet"]
        mine.forget("stew")
        assert ids(view.similarity_search("vegan")) == ["curry"]


async def test_a_view_refuses_what_cannot_be(memory: EpicMemory) -> None:
    view = EpicVectorStore.from_memory(memory)
    for options, kind, match in (
        ({"filter": lambda document: True}, InvalidInputError, "mapping"),
        ({"filter": {"a": {"$near": 1}}}, InvalidInputError, "near"),
        ({"k": 0}, InvalidInputError, "k must be"),
        ({"top_k": 3}, TypeError, "top_k"),
        ({"preferences": ["unknown"]}, LookupError, "unknown"),
    ):
        with pytest.raises(kind, match=match):
            await both(view, "similarity_search", "vegan", **options)
    for vector in ([1.0], [math.nan] * 512):
        with pytest.raises(InvalidInputError, match="vector"):
            await both(view, "similarity_search_by_vector", vector)
    with pytest.raises(InvalidInputError, match="EpicMemory"):
        EpicVectorStore.from_memory(":memory:")  # type: ignore[arg-type]


def test_what_a_view_gives_is_not_shared(memory: EpicMemory) -> None:
    view = EpicVectorStore.from_memory(memory)
    for look in (
        lambda: view.similarity_search("vegan stew", 1)[0],
        lambda: view.similarity_search_by_vector(words().vector("vegan stew"), 1)[0],
        lambda: view.get_by_ids(["stew"])[0],
    ):
        before = copy.deepcopy(look())
        found = look()
        found.metadata["tags"].append("spoilt")
        found.metadata["more"] = 1
        assert look() == before


def test_a_view_with_a_fallback_gives_what_the_memory_gives() -> None:
    encoder = words()
    encoder.relevant = 0.3
    memory = EpicMemory(
        ["vegan food"], encoder=encoder, verifier=KeepAll(), fallback=lambda query, k: ["green hills", "blue hills"]
    )
    memory.add(["vegan food stew", "a vegan stew of vegan food"])
    view = EpicVectorStore.from_memory(memory)
    hits = memory.search("green hills", 2)
    assert hits.fallback and len(hits) == 2
    assert [d.page_content for d in view.similarity_search("green hills", 2)] == [hit.item.text for hit in hits]
    assert len(view.max_marginal_relevance_search("green hills", 2)) == len(hits)


# bad input

NO_JSON = {
    "a date": datetime(2026, 1, 1, tzinfo=timezone.utc),
    "a set": {1},
    "NaN": math.nan,
    "an object": object(),
    "bytes": b"x",
    "half a character": "\ud800",
}


@pytest.mark.parametrize("value", NO_JSON.values(), ids=NO_JSON.keys())
async def test_metadata_that_is_not_json_is_refused_and_nothing_is_stored(store: EpicVectorStore, value: Any) -> None:
    documents = [Document(id="a", page_content="red"), Document(id="b", page_content="blue", metadata={"x": [value]})]
    with pytest.raises(InvalidInputError, match=r"Document 2.*'b' is not JSON"):
        await both(store, "add_documents", documents)
    nameless = [document.model_copy(update={"id": None}) for document in documents]
    with pytest.raises(InvalidInputError, match=r"Document 2: .*not JSON"):
        store.add_documents(nameless)
    with pytest.raises(InvalidInputError, match=r"Document 2: .*not JSON"):
        await store.aadd_texts(["red", "blue"], [{}, {"x": value}])
    assert store.similarity_search("red") == [] == store.get_by_ids(["a", "b"])


@pytest.mark.parametrize(
    ("metadata", "match"), [({1: 2}, "string keys"), ({"\ud800": 1}, "not JSON"), ({"x": {(1, 2): 3}}, "not JSON")]
)
def test_metadata_with_keys_that_are_none_is_refused(store: EpicVectorStore, metadata: Any, match: str) -> None:
    with pytest.raises(InvalidInputError, match=f"Document 1: .*{match}"):
        store.add_documents([Document(page_content="red", metadata=metadata)])


async def test_what_is_no_document_is_refused(store: EpicVectorStore) -> None:
    for wrong in (
        "red",
        ["red"],
        Document(page_content="red"),
        [Document(page_content="red"), None],
        {"a": 1},
        None,
        3,
    ):
        with pytest.raises(InvalidInputError, match="Document"):
            await both(store, "add_documents", wrong)
        with pytest.raises(InvalidInputError, match="Document"):
            EpicVectorStore.from_documents(wrong)  # type: ignore[arg-type]
    for wrong in ("red", b"red", ["red", 3], ["red", None], [b"red"], None, 3):
        with pytest.raises(InvalidInputError, match="texts"):
            await both(store, "add_texts", wrong)
    assert store.similarity_search("red") == []


async def test_ids_that_cannot_be(store: EpicVectorStore) -> None:
    for wrong in ("a", b"a", 3):
        for name, arguments in (
            ("delete", [wrong]),
            ("get_by_ids", [wrong]),
        ):
            with pytest.raises(InvalidInputError, match="ids as a list"):
                await both(store, name, *arguments)
        with pytest.raises(InvalidInputError, match="ids as a list"):
            await both(store, "add_texts", ["red"], ids=wrong)
        with pytest.raises(InvalidInputError, match="ids as a list"):
            await both(store, "add_documents", RAW[:1], ids=wrong)
    for one in (3, ["a"], b"a"):
        for name, arguments in (("delete", [[one]]), ("get_by_ids", [[one]])):
            with pytest.raises(InvalidInputError, match="ids, all have to be of type str"):
                await both(store, name, *arguments)
        with pytest.raises(InvalidInputError, match="ids, all have to be of type str"):
            await both(store, "add_texts", ["red"], ids=[one])
        with pytest.raises(InvalidInputError, match="ids, all have to be of type str"):
            await both(store, "add_documents", RAW[:1], ids=[one])
    for wrong in ([], ["a"], ["a", "b", "c"]):
        with pytest.raises(InvalidInputError, match=f"{len(wrong)} ids for 2"):
            await both(store, "add_texts", ["red", "blue"], ids=wrong)
        with pytest.raises(InvalidInputError, match=f"{len(wrong)} ids for 2"):
            await both(store, "add_documents", RAW[:2], ids=wrong)
    with pytest.raises(InvalidInputError, match="not valid Unicode"):
        await both(store, "add_texts", ["red"], ids=["\ud800"])
    assert store.similarity_search("red") == []


async def test_metadatas_that_cannot_be(store: EpicVectorStore) -> None:
    for wrong, match in (
        ([{}], "1 metadatas for 2"),
        ([{}] * 3, "3 metadatas for 2"),
        ({"a": 1, "b": 2}, "metadatas"),
        ([{}, "b"], "metadatas"),
        ([{}, 3], "metadatas"),
        ("ab", "metadatas"),
        (3, "metadatas"),
    ):
        with pytest.raises(InvalidInputError, match=match):
            await both(store, "add_texts", ["red", "blue"], wrong)
        with pytest.raises(InvalidInputError, match=match):
            EpicVectorStore.from_texts(["red", "blue"], words(), wrong)  # type: ignore[arg-type]
    assert store.similarity_search("red") == []
    assert len(store.add_texts(["red", "blue"], [None, {"a": 1}])) == 2  # type: ignore[list-item]


async def test_ids_of_every_kind(store: EpicVectorStore) -> None:
    documents = [
        Document(id="a", page_content="red"),
        Document(page_content="red"),
        Document(id="", page_content="blue"),
    ]
    made = store.add_documents(documents)
    assert made[0] == "a" and len(set(made)) == 3 and all(isinstance(one, str) and one for one in made)
    assert [document.id for document in documents] == ["a", None, ""]
    assert store.add_documents(documents, ids=["x", None, ""])[0] == "x"
    assert len(store.similarity_search("red", 99)) == 6
    assert store.add_documents(documents[:1] * 2) == ["a", "a"]
    assert store.add_texts(["one", "two"], ids=["d", "d"]) == ["d", "d"]
    assert store.get_by_ids(["d"])[0].page_content == "two"
    one, other = store.get_by_ids(["a", "a"])
    assert one == other and one.metadata is not other.metadata
    strange = ["ü\x00", " ", "a/b", "1", "'; DROP TABLE records"]
    assert await store.aadd_texts(strange, ids=strange) == strange
    assert [document.page_content for document in store.get_by_ids(strange)] == strange
    store.delete(strange[:1])
    assert ids(store.get_by_ids(strange)) == strange[1:]


async def test_nothing_is_nothing(store: EpicVectorStore) -> None:
    assert await both(store, "add_documents", []) == [] == await both(store, "add_texts", [])
    assert await both(store, "add_texts", [], [], ids=[]) == []
    assert await both(store, "get_by_ids", []) == []
    store.add_texts(["red"], ids=["a"])
    assert await both(store, "delete", []) is True and await both(store, "delete", ["none"]) is True
    assert ids(store.get_by_ids(["a"])) == ["a"]
    assert await both(store, "delete") is True
    assert store.get_by_ids(["a"]) == []


async def test_texts_of_every_kind() -> None:
    strange = ["", " \n", "a\x00b", "🎈" * 50, "x" * 100_000]
    for embedding in (RandomEmbeddings(), None):
        made = EpicVectorStore(embedding)
        assert made.add_texts(strange, ids=list("abcde")) == list("abcde")
        assert [document.page_content for document in made.get_by_ids(list("abcde"))] == strange
        for text in strange:
            assert len(await both(made, "similarity_search", text, k=9)) == 5
        with pytest.raises(InvalidInputError, match=r"Document 2: .*not valid Unicode"):
            await both(made, "add_texts", ["red", "\ud800"])
        for query in (None, 3, ["red"]):
            with pytest.raises(InvalidInputError, match="query"):
                await both(made, "similarity_search", query)


async def test_an_embedding_model_that_fails_stores_nothing(path: Path) -> None:
    with EpicVectorStore(Failing(), path=path) as made:
        made.add_texts(["red"], ids=["a"])
        before = path.read_bytes()
        documents = [Document(id="a", page_content="anew"), Document(id="b", page_content="fail")]
        with pytest.raises(EncoderError, match="the server has gone"):
            await both(made, "add_documents", documents)
        with pytest.raises(EncoderError, match="the server has gone"):
            await both(made, "similarity_search", "fail")
        assert path.read_bytes() == before
        assert made.get_by_ids(["a", "b"]) == [Document(id="a", page_content="red")]
        assert ids(made.similarity_search("red")) == ["a"]


class Short(RandomEmbeddings):
    """Forgets the last text; or gives what is no number."""

    def __init__(self, what: str) -> None:
        super().__init__()
        self.what = what

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        made = super().embed_documents(texts)
        wrong: dict[str, Any] = {"few": made[:-1], "none": [], "NaN": [[math.nan] * 24 for _ in texts], "null": None}
        return wrong[self.what]  # type: ignore[no-any-return]


@pytest.mark.parametrize("what", ["few", "none", "NaN", "null"])
async def test_a_model_that_gives_no_embeddings_stores_nothing(what: str) -> None:
    made = EpicVectorStore(Short(what))
    with pytest.raises(EncoderError):
        await both(made, "add_texts", TEXTS)
    assert made.similarity_search("red") == []


async def test_unknown_arguments_are_errors(store: EpicVectorStore, path: Path) -> None:
    for call in (
        lambda: EpicVectorStore(words(), collection_name="x"),  # type: ignore[call-arg]
        lambda: EpicVectorStore(words(), path),  # type: ignore[misc]
    ):
        with pytest.raises(TypeError):
            call()
    vector = words().vector("red")
    for name, arguments in (
        ("add_documents", [RAW]),
        ("add_texts", [["red"]]),
        ("delete", [["a"]]),
        ("similarity_search", ["red"]),
        ("similarity_search_with_score", ["red"]),
        ("similarity_search_by_vector", [vector]),
        ("max_marginal_relevance_search", ["red"]),
        ("max_marginal_relevance_search_by_vector", [vector]),
    ):
        with pytest.raises(TypeError, match="'top_k'"):
            await both(store, name, *arguments, top_k=3)
    assert store.similarity_search("red") == []
    for embedding in ("nomic-embed-text", 3, RandomEmbeddings, object()):
        with pytest.raises(InvalidInputError, match="embeddings must be"):
            EpicVectorStore(embedding)  # type: ignore[arg-type]
    for options in ({"steering": "on"}, {"preferences": 3}, {"preferences": [""]}, {"preferences": ""}):
        with pytest.raises(InvalidInputError):
            EpicVectorStore(words(), **options)  # type: ignore[arg-type]


# what belongs to others stays as it is


async def test_nothing_that_is_given_is_changed(store: EpicVectorStore) -> None:
    documents = [*copy.deepcopy(RAW), instructed("i", "blue", "offer wine")]
    metadatas: list[dict[str, Any]] = [{"n": 1, "deep": {"a": [1]}}, {}]
    names = ["x", "y"]
    condition = {"$and": [{"kind": "food"}, {"kind": {"$in": ["food"]}}]}
    search: dict[str, Any] = {"k": 2, "filter": condition, "preferences": ["red"]}
    given = (documents, metadatas, names, condition, search)
    before = copy.deepcopy(given)
    await both(store, "add_documents", documents, ids=["1", "2", "3", "4", "5"])
    store.add_documents(documents)
    await both(store, "add_texts", ["red", "blue"], metadatas, ids=names)
    await both(store, "similarity_search", "red", **search)
    store.as_retriever(search_kwargs=search).invoke("red")
    EpicVectorStore.from_documents(documents, preferences=PREFERENCES, ids=["1", "2", "3", "4", "5"])
    await EpicVectorStore.afrom_texts(["red", "blue"], words(), metadatas, ids=names)
    store.delete(names)
    assert given == before


def test_results_are_not_shared(store: EpicVectorStore) -> None:
    store.add_texts(["red"], [{"deep": {"a": [1]}}], ids=["a"])
    looks: list[Callable[[], list[Document]]] = [
        lambda: store.get_by_ids(["a"]),
        lambda: store.get_by_ids(["a", "a"])[1:],
        lambda: store.similarity_search("red"),
        lambda: store.max_marginal_relevance_search("red"),
        lambda: store.similarity_search("red", filter={"deep": {"$exists": True}}),
    ]
    for spoil in looks:
        for found in spoil():
            found.metadata["deep"]["a"].append(2)
            found.metadata["more"] = 1
            found.page_content = "spoilt"
        for look in looks:
            assert look() == [Document(id="a", page_content="red", metadata={"deep": {"a": [1]}})]


def test_the_embedding_model_is_known() -> None:
    for embedding in (RandomEmbeddings(), EpicEmbeddings()):
        assert EpicVectorStore(embedding).embeddings is embedding
    default = EpicVectorStore().embeddings
    assert isinstance(default, EpicEmbeddings) and len(default.embed_query("red")) == default.encoder.dimension
    assert EpicVectorStore(words()).embeddings.embed_query("red") == words().vector("red").tolist()
    assert "RAM" in repr(EpicVectorStore())


OFFLINE = """
import socket, sys
def refuse(*arguments, **options):
    raise AssertionError(f"tried: {arguments}")
for owner, name in ((socket.socket, "connect"), (socket, "create_connection"), (socket, "getaddrinfo")):
    setattr(owner, name, refuse)
import pickle
pickle.load = pickle.loads = pickle.Unpickler = pickle.dump = pickle.dumps = refuse
from epic_langchain import EpicVectorStore
path, texts = sys.argv[1], ["A vegan stew for a strict vegan diet.", "The treaty of 1648."]
EpicVectorStore.from_texts(texts, path=path, preferences=["I follow a strict vegan diet."]).close()
with EpicVectorStore(path=path, preferences=["I follow a strict vegan diet."]) as store:
    (found,) = store.as_retriever(search_type="mmr").invoke("What should I cook?")
    assert found.page_content == texts[0] and found.metadata["epic_instruction"]
"""


@pytest.mark.slow
def test_it_is_offline_and_without_pickle(path: Path) -> None:
    home = str(path.parent / "home")
    done = subprocess.run(
        [sys.executable, "-c", OFFLINE, str(path)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "HOME": home, "HF_HOME": home},
    )
    assert done.returncode == 0, done.stderr
    assert [file.name for file in path.parent.iterdir()] == [path.name]
