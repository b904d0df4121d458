"""`EpicVectorStore`: what langchain-tests leaves out."""

from __future__ import annotations

import copy
import json
import math
import os
import sqlite3
import threading
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("langchain_core", reason="needs the extra langchain")

from langchain_core.documents import Document

from chat_models import Words
from epic_langchain import EpicDocumentTransformer, EpicEmbeddings, EpicVectorStore
from epic_memory import Filter
from epic_memory.errors import EncoderError, InvalidInputError
from helpers import HashEncoder, both

TOLERANCE = 2e-3
TEXTS = ["red wine", "night train", "green hills", "blue sky", "a vegan stew", "casino hotels", "red wine!", "train"]
CROWD = ["red wine here", "red wine there", "red wine now", "red train", "green hills"]
PREFERENCES = ["I follow a strict vegan diet.", "I avoid hotels with casinos."]
RAW = [
    Document(id="stew", page_content="A vegan stew for a strict vegan diet.", metadata={"kind": "food"}),
    Document(id="casino", page_content="The hotels of the strip have casinos.", metadata={"kind": "hotel"}),
    Document(id="treaty", page_content="The treaty of 1648 ended a long war.", metadata={"kind": "history"}),
    Document(page_content="Quiet hotels without casinos in the old town."),
]
RED = Document(id="a", page_content="red")


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


# searches


async def test_searches_by_text_are_steered_and_those_by_vector_are_not() -> None:
    plain, steered = EpicVectorStore(words()), EpicVectorStore(words(), preferences=["night train"], steering="paper")
    for one in (plain, steered):
        one.add_texts(TEXTS, ids=TEXTS)
    vector = words().vector("red").tolist()
    unsteered = plain.similarity_search_with_score_by_vector(vector, 8)
    assert steered.similarity_search_with_score_by_vector(vector, 8) == unsteered
    found = steered.similarity_search_with_score("red", 8)
    assert found != unsteered
    for options in ({"steering": "off"}, {"preferences": []}):
        assert await both(steered, "similarity_search_with_score", "red", k=8, **options) == unsteered
    asked = {"preferences": ["night train"], "steering": "paper"}
    assert await both(plain, "similarity_search_with_score", "red", k=8, **asked) == found
    with pytest.raises(TypeError, match="preferences"):
        await both(steered, "similarity_search_by_vector", vector, preferences=["red"])


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        *(("k", wrong) for wrong in (0, "3")),
        *(("fetch_k", wrong) for wrong in (2.5, None)),
        *(("lambda_mult", wrong) for wrong in (1.1, "0.5", float("nan"))),
    ],
)
async def test_numbers_that_cannot_be_are_errors(name: str, wrong: Any) -> None:
    store = EpicVectorStore.from_texts(TEXTS, words())
    for search in ("max_marginal_relevance_search", *(["similarity_search"] if name == "k" else [])):
        for called, asked in ((search, "red"), (f"{search}_by_vector", words().vector("red").tolist())):
            with pytest.raises(InvalidInputError, match=name):
                await both(store, called, asked, **{name: wrong})


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
    "condition",
    [{"lang": "en"}, Filter.eq("lang", "en"), lambda document: document.metadata.get("lang") == "en"],
    ids=["mapping", "filter", "function"],
)
async def test_a_filter_is_part_of_every_search(condition: Any) -> None:
    # Nearer to the query, and many more than are asked for: a filter after the search would leave nothing.
    store = EpicVectorStore.from_texts([f"red wine {n}" for n in range(60)], words())
    store.add_texts(["red one", "red two"], [{"lang": "en"}] * 2, ids=["a", "b"])
    given = copy.deepcopy(condition)
    for search in ("similarity_search", "max_marginal_relevance_search"):
        for name, asked in ((search, "red wine"), (f"{search}_by_vector", words().vector("red wine").tolist())):
            assert sorted(ids(await both(store, name, asked, k=5, filter=condition))) == ["a", "b"]
            assert len(await both(store, name, asked, k=1, filter=condition)) == 1
    retriever = store.as_retriever(search_kwargs={"k": 5, "filter": condition})
    assert sorted(ids(await both(retriever, "invoke", "red wine"))) == ["a", "b"]
    assert callable(condition) or condition == given


async def test_a_function_that_filters_gets_copies_and_may_fail(store: EpicVectorStore) -> None:
    store.add_texts(["red"], [{"deep": {"n": 1}}], ids=["a"])

    def spoil(document: Document) -> bool:
        document.metadata["deep"]["n"] = 2
        document.page_content = "spoilt"
        return True

    async def never(document: Document) -> bool:
        return False

    assert await both(store, "similarity_search", "red", filter=spoil) == store.get_by_ids(["a"])
    assert store.get_by_ids(["a"]) == [Document(id="a", page_content="red", metadata={"deep": {"n": 1}})]
    refused: list[tuple[Any, type[Exception], str]] = [
        (lambda document: document.metadata["lang"], KeyError, "lang"),
        (never, InvalidInputError, "asynchronous"),
        ({"lang": {"$near": 3}}, InvalidInputError, r"\$near"),
        (3, InvalidInputError, "mapping"),
    ]
    for condition, error, match in refused:
        with pytest.raises(error, match=match):
            await both(store, "similarity_search", "red", filter=condition)


async def test_a_threshold_keeps_what_is_relevant(store: EpicVectorStore) -> None:
    store.add_texts(CROWD, ids=CROWD)
    scored = dict(zip(CROWD, [1.0, 2 / 3, 2 / 3, 1 / math.sqrt(6), 0.0], strict=True))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for threshold in (0.0, 0.3, 0.5, 0.9):
            how = {"score_threshold": threshold, "k": 5}
            retriever = store.as_retriever(search_type="similarity_score_threshold", search_kwargs=how)
            found = await both(retriever, "invoke", "red wine here")
            assert set(ids(found)) == {text for text, score in scored.items() if score >= threshold}
        # What is opposite to a query is of no relevance, not of less.
        store.add_texts(["opposite"], ids=["opposite"])
        opposite = (-words().vector("opposite")).tolist()
        assert store.similarity_search_with_score_by_vector(opposite, 9)[-1][1] == pytest.approx(-1.0, abs=TOLERANCE)
        shifted = EpicVectorStore(Words(shift=-1.0))
        shifted.add_texts(TEXTS)
        kept = shifted.similarity_search_with_relevance_scores("red", k=8)
        assert len(kept) == 8 and all(0.0 <= score <= 1.0 for _, score in kept) and kept[-1][1] == 0.0


# making one of documents


@pytest.mark.parametrize("options", [{}, {"preferences": PREFERENCES}], ids=["plain", "steered"])
async def test_texts_and_documents_make_the_same_store(options: dict[str, Any], path: Path) -> None:
    texts, names = [document.page_content for document in RAW], ["1", "2", "3", "4"]
    metadatas = [document.metadata for document in RAW]
    named = [document.model_copy(update={"id": one}) for document, one in zip(RAW, names, strict=True)]
    right = EpicVectorStore.from_documents(named, **options)
    assert len(right.get_by_ids(names)) == 4
    for made in (
        await EpicVectorStore.afrom_documents(named, **options),
        EpicVectorStore.from_documents(RAW, ids=names, **options),
        EpicVectorStore.from_texts(texts, None, metadatas, ids=names, **options),
        await EpicVectorStore.afrom_texts(texts, metadatas=metadatas, ids=names, **options),
        EpicVectorStore.from_documents(named, path=path, **options),
    ):
        assert type(made) is EpicVectorStore
        assert made.get_by_ids(names) == right.get_by_ids(names)
        assert made.similarity_search_with_score("a hotel", 9) == right.similarity_search_with_score("a hotel", 9)
        made.close()
    with EpicVectorStore(path=path, must_exist=True) as made:
        assert made.get_by_ids(names) == right.get_by_ids(names)
    assert EpicVectorStore.from_texts([]).similarity_search("red") == []


async def test_asynchronous_calls_leave_the_event_loop_alone(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    connect, threads = sqlite3.connect, set()

    def connected(*arguments: Any, **options: Any) -> sqlite3.Connection:
        threads.add(threading.get_ident())
        return connect(*arguments, **options)

    class Sync(Words):
        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            threads.add(threading.get_ident())
            return super().embed_documents(texts)

    monkeypatch.setattr(sqlite3, "connect", connected)
    made = await EpicVectorStore.afrom_documents(RAW, Sync(), path=path, preferences=PREFERENCES)
    assert await made.aadd_documents([]) == []
    await made.aadd_texts(["red"], ids=["a"])
    await made.asimilarity_search("red", preferences=["blue sky"])
    for name in ("similarity_search_with_score", "similarity_search_with_relevance_scores"):
        await getattr(made, f"a{name}")("red")
    await made.amax_marginal_relevance_search("red")
    await made.aget_by_ids(["a"])
    await made.adelete(["a"])
    assert await made.as_retriever().ainvoke("red") is not None
    made.close()
    assert threads and threading.get_ident() not in threads


class Failing(Words):
    """Fails at the texts that say so, after those before them."""

    def _document(self, text: str) -> list[float]:
        if "fail" in text:
            raise ConnectionError("the server has gone")
        return super()._document(text)

    _query = _document


async def test_a_failing_model_stores_nothing_and_leaves_no_file_open(path: Path) -> None:
    with pytest.raises(EncoderError, match="the server has gone"):
        await both(EpicVectorStore, "from_texts", ["red", "fail", "blue"], Failing(), path=path)
    links = [link for link in Path("/proc/self/fd").glob("*") if link.is_symlink()]
    assert not [link for link in links if os.path.realpath(link) == str(path)]
    with EpicVectorStore(Failing(), path=path) as store:
        store.add_texts(["red"], ids=["a"])
        before = path.read_bytes()
        documents = [Document(id="a", page_content="anew"), Document(id="b", page_content="fail")]
        for name, asked in (("add_documents", documents), ("similarity_search", "fail")):
            with pytest.raises(EncoderError, match="the server has gone"):
                await both(store, name, asked)
        assert path.read_bytes() == before
        assert store.get_by_ids(["a", "b"]) == [Document(id="a", page_content="red")]


# documents with instructions


def test_what_the_transformer_writes_is_found(path: Path) -> None:
    kept = EpicDocumentTransformer(preferences=PREFERENCES).invoke(RAW)
    with EpicVectorStore(path=path) as made:
        made.add_documents(kept)
    with EpicVectorStore(path=path) as made:
        for document in kept:
            for facts in json.loads(document.metadata["epic_alignments"]):
                query = facts["instruction"]
                found, score = made.similarity_search_with_score(query, 1, preferences=[query], steering="paper")[0]
                assert found.page_content == document.page_content and found.metadata == document.metadata
                assert score == pytest.approx(1.0, abs=TOLERANCE)
        # One that was found can be stored as it is.
        right = made.similarity_search_with_score("a hotel", 9)
        made.add_documents([document for document, _ in right])
        assert made.similarity_search_with_score("a hotel", 9) == right


# bad input


DEEP = json.loads('{"a":' * 100 + "1" + "}" * 100)
SECOND = Document(id="b", page_content="x", metadata={"a": {1}})
BROKEN = Document(id="b", page_content="blue", metadata={"epic_instruction": "offer wine", "epic_stance": "maybe"})
WRONG: list[tuple[str, Any, dict[str, Any], str]] = [
    *(("add_documents", wrong, {}, "Document") for wrong in ("red", RED, [RED, None], {"a": 1}, None)),
    ("add_documents", [RED, Document(id="b", page_content="\ud800")], {}, "Document 2.*Unicode"),
    ("add_documents", [Document(id="a", page_content="red", metadata={1: 2})], {}, "Document 1: .*string keys"),
    ("add_documents", [RED, SECOND], {}, "Document 2.*'b' is not JSON"),
    ("add_documents", [RED, BROKEN], {}, "Document 2: The guidance"),
    ("add_documents", [RED], {"ids": ["a", "b"]}, "2 ids for 1"),
    ("add_texts", ["red"], {"ids": ["a"], "metadatas": [{"a": DEEP}]}, "too deeply"),
    *(("add_texts", wrong, {}, "texts") for wrong in ("red", ["red", 3])),
    *(("add_texts", ["red"], {"ids": wrong}, "several ids in a list") for wrong in ("a", 3)),
    ("add_texts", ["red"], {"ids": [3]}, "Expected ids"),
    ("add_texts", ["red", "x"], {"ids": ["a"]}, "1 ids for 2"),
    ("add_texts", ["red", "x"], {"metadatas": [{}]}, "1 metadatas for 2"),
    ("add_texts", ["red", "x"], {"metadatas": {"a": 1}}, "several metadatas in a list"),
    ("add_texts", ["red", "x"], {"metadatas": [{}, "b"]}, "Expected metadatas, found str: give a mapping for each"),
    *((name, wrong, {}, "ids") for name in ("delete", "get_by_ids") for wrong in ("a", [3])),
    ("similarity_search", 3, {}, "query"),
    ("similarity_search_by_vector", None, {}, "vector"),
]


@pytest.mark.parametrize(("name", "wrong", "options", "match"), WRONG, ids=lambda value: str(value)[:40])
async def test_what_cannot_be_is_refused_and_nothing_is_stored(
    name: str, wrong: Any, options: dict[str, Any], match: str
) -> None:
    store = EpicVectorStore(words())
    with pytest.raises(InvalidInputError, match=match):
        await both(store, name, wrong, **options)
    if name.startswith("add"):
        with pytest.raises(InvalidInputError, match=match):
            await both(EpicVectorStore, name.replace("add", "from"), wrong, words(), **options)
    assert store.similarity_search("red") == []


async def test_ids_of_every_kind(store: EpicVectorStore) -> None:
    documents = [RED, Document(page_content="red"), Document(id="", page_content="blue")]
    made = store.add_documents(documents)
    assert made[0] == "a" and len(set(made)) == 3 and all(isinstance(one, str) and one for one in made)
    assert [document.id for document in documents] == ["a", None, ""]
    assert store.add_documents(documents, ids=["x", None, ""])[0] == "x"
    assert len(store.similarity_search("red", 99)) == 6
    assert store.add_texts(["one", "two"], ids=["d", "d"]) == ["d", "d"]
    assert [document.page_content for document in store.get_by_ids(["d", "none", "d"])] == ["two", "two"]
    strange = ["ü\x00", " ", "a/b", "'; DROP TABLE records"]
    assert await store.aadd_texts(strange, ids=strange) == strange
    store.delete(strange[:1])
    assert ids(store.get_by_ids(strange)) == strange[1:]


async def test_unknown_arguments_and_wrong_options_are_errors(store: EpicVectorStore, path: Path) -> None:
    for name, argument in (("add_texts", ["red"]), ("delete", ["a"]), ("similarity_search", "red")):
        with pytest.raises(TypeError, match="top_k"):
            await both(store, name, argument, top_k=3)
    assert store.similarity_search("red") == []
    for options, match in (
        *(({"embedding": each}, "embeddings must be") for each in ("nomic-embed-text", np.ones(2))),
        ({"steering": "on"}, "mode"),
        *(({"preferences": each}, "preference") for each in (3, [""])),
    ):
        with pytest.raises(InvalidInputError, match=match):
            await both(EpicVectorStore, "from_documents", RAW, path=path.with_name("new.vectors"), **options)
    assert not path.with_name("new.vectors").exists()


def test_the_embedding_model_is_known() -> None:
    for embedding in (Words(), EpicEmbeddings()):
        assert EpicVectorStore(embedding).embeddings is embedding
    default = EpicVectorStore().embeddings
    assert isinstance(default, EpicEmbeddings) and len(default.embed_query("red")) == default.encoder.dimension
    assert EpicVectorStore(words()).embeddings.embed_query("red") == words().vector("red").tolist()
    assert "RAM" in repr(EpicVectorStore())
