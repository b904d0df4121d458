"""LangChain's embeddings as encoders, and encoders as LangChain's embeddings."""

from __future__ import annotations

import math
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from epic_memory import Settings
from helpers import settled

pytest.importorskip("langchain_core", reason="needs the extra langchain")

from langchain_core.embeddings import Embeddings

from chat_models import Words
from epic_langchain import EpicEmbeddings
from epic_langchain.models import (
    LangChainEncoder,
    encoder_of,
)
from epic_memory import EpicMemory
from epic_memory.encoders import default_encoder
from epic_memory.encoders.base import aembed_query, embed_query
from epic_memory.errors import (
    EncoderError,
    EncoderMismatchError,
    InvalidInputError,
)
from epic_memory.steering.relevance import sample_texts
from epic_memory.types import FloatArray
from helpers import Encode, HashEncoder, KeepAll, both


class Gives(Embeddings):
    """Gives what it is told to, or raises it."""

    def __init__(self, given: Any) -> None:
        self.given = given

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        if isinstance(self.given, Exception):
            raise self.given
        return self.given(texts) if callable(self.given) else self.given

    def embed_query(self, text: str) -> list[float]:
        return self.embed_documents([text])[0]


async def test_embeddings_become_unit_vectors_in_order(encode: Encode) -> None:
    encoder = LangChainEncoder(Words())
    vectors = await encode(encoder, ["red wine", "night train", "red wine"])
    assert (vectors.shape, vectors.dtype) == ((3, 64), np.float32)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-6)
    np.testing.assert_allclose(vectors[1], HashEncoder(64).vector("night train"), atol=1e-6)
    np.testing.assert_array_equal(vectors[0], vectors[2])


async def test_the_async_path_makes_no_synchronous_call() -> None:
    words = Words()
    encoder = LangChainEncoder(words)
    await encoder.aencode(["red wine"])
    assert (encoder.dimension, len(encoder.fingerprint)) == (64, 32)
    other = LangChainEncoder(words)
    await other.aencode_query("red wine")
    assert other.dimension == 64
    assert words.sync_calls == 0


@pytest.mark.parametrize("attribute", ["model", "model_name", "model_id", "deployment"])
def test_the_name_is_that_of_class_and_model(attribute: str) -> None:
    embeddings = Gives([[1.0]])
    assert LangChainEncoder(embeddings).name == "langchain:Gives"
    setattr(embeddings, attribute, "tiny:1b")
    assert LangChainEncoder(embeddings).name == "langchain:Gives:tiny:1b"
    assert LangChainEncoder(embeddings, name="mine").name == "mine"


def test_a_memory_is_not_opened_with_other_embeddings(tmp_path: Path) -> None:
    path = tmp_path / "me.epic"
    with EpicMemory.open(
        path, ["red wine"], encoder=LangChainEncoder(Words()), settings=Settings(verifier=KeepAll())
    ) as memory:
        memory.add(["a red wine"])
    with EpicMemory.open(path, encoder=LangChainEncoder(Words()), settings=Settings(verifier=KeepAll())) as memory:
        assert len(memory.search("wine")) == 1
    for other in (LangChainEncoder(Words(model="other")), LangChainEncoder(Words(), fingerprint="new weights")):
        with pytest.raises(EncoderMismatchError):
            EpicMemory.open(path, encoder=other, settings=Settings(verifier=KeepAll()))


@pytest.mark.parametrize(
    "arguments",
    [{"tau": 2.0}, {"floor": float("nan")}, {"tau": "0.3"}, {"name": " "}, {"name": 3}, {"fingerprint": ""}],
    ids=str,
)
def test_arguments_that_cannot_be_are_errors(arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError):
        LangChainEncoder(Words(), **arguments)


async def test_another_dimension_than_before_is_an_encoder_error(encode: Encode) -> None:
    embeddings = Gives([[1.0, 2.0]])
    encoder = LangChainEncoder(embeddings)
    await encode(encoder, ["red"])
    embeddings.given = [[1.0, 2.0, 3.0]]
    with pytest.raises(EncoderError, match="dimension"):
        await encode(encoder, ["red"])


async def test_an_error_of_the_embeddings_says_which_and_what(encode: Encode, encode_query: Encode) -> None:
    encoder = LangChainEncoder(Gives(RuntimeError("out of memory")))
    for failing in (encode(encoder, ["red"]), encode_query(encoder, "red")):
        with pytest.raises(EncoderError, match=r"langchain:Gives.*out of memory") as raised:
            await failing
        assert isinstance(raised.value.__cause__, RuntimeError)


def test_what_is_given_as_embeddings_becomes_an_encoder() -> None:
    own, words = HashEncoder(), Words()
    assert encoder_of(None) is default_encoder()
    assert encoder_of(own) is own
    assert encoder_of(EpicEmbeddings(own)) is own
    found = encoder_of(words)
    assert isinstance(found, LangChainEncoder) and found.embeddings is words
    assert words.sync_calls == 0


@pytest.mark.parametrize(
    "wrong", ["tiny", 3, Words, HashEncoder, object()], ids=["text", "number", "class", "encoder class", "object"]
)
def test_what_is_neither_embeddings_nor_encoder_is_an_error(wrong: Any) -> None:
    with pytest.raises(InvalidInputError, match=r"OllamaEmbeddings.*None"):
        encoder_of(wrong)
    with pytest.raises(InvalidInputError, match="LangChain Embeddings"):
        LangChainEncoder(wrong)


def test_an_error_prints_no_key() -> None:
    class Client:
        def __repr__(self) -> str:
            return "Client(key='SECRET')"

    for option in ("encoder", "verifier"):
        with pytest.raises(InvalidInputError, match="LangChainEncoder") as failed:
            EpicMemory(["red wine"], **settled(**{option: Client()}))  # type: ignore[arg-type]
        assert "SECRET" not in str(failed.value)
    with pytest.raises(InvalidInputError) as failed:
        LangChainEncoder(Client())  # type: ignore[arg-type]
    assert "SECRET" not in str(failed.value)


# queries, which some models embed otherwise


async def test_a_users_query_is_embedded_as_a_query_and_all_else_as_documents() -> None:
    words = Words(shift=0.05)
    memory = EpicMemory(
        ["night trains"], encoder=LangChainEncoder(words), settings=Settings(verifier=KeepAll(), tau=0.05)
    )
    memory.add(["night trains pass", "red trains"])
    await memory.aadd(["a night train", "night owls"])
    memory.preferences.add("quiet parks")
    assert words.queries == []
    assert memory.search("night") == await memory.asearch("night")
    # And once the questions that tell what another one asks for.
    assert [query for query in words.queries if query not in sample_texts()] == ["night"] * 2
    assert len(words.queries) == len(set(words.queries)) + 1
    assert "night" not in words.documents


async def test_an_encoder_may_embed_queries_synchronously_only() -> None:
    class Asymmetric(HashEncoder):
        threads: set[int]

        def encode_query(self, text: str) -> FloatArray:
            self.threads = {threading.get_ident()}
            return self.vector(f"query {text}")

    encoder = Asymmetric()
    vector = await aembed_query(encoder, "wine")
    assert threading.get_ident() not in encoder.threads
    np.testing.assert_array_equal(vector, embed_query(encoder, "wine"))
    np.testing.assert_array_equal(vector, encoder.vector("query wine"))


@pytest.mark.parametrize("given", [[0.0, 0.0], [1.0, math.nan], [[1.0, 0.0]], [1.0], None], ids=str)
async def test_what_an_encoder_gives_for_a_query_is_checked(given: Any) -> None:
    class Wrong(HashEncoder):
        def __init__(self) -> None:
            super().__init__(2)

        def encode_query(self, text: str) -> Any:
            return given

    with pytest.raises(EncoderError):
        embed_query(Wrong(), "wine")
    with pytest.raises(EncoderError):
        await aembed_query(Wrong(), "wine")


# EpicEmbeddings


async def test_the_encoders_vectors_are_plain_floats() -> None:
    embeddings = EpicEmbeddings()
    assert embeddings.encoder is default_encoder()
    documents, query = embeddings.embed_documents(["a stew", "a train"]), embeddings.embed_query("a stew")
    assert type(documents) is list and {type(value) for row in [*documents, query] for value in row} == {float}
    assert documents == default_encoder().encode(["a stew", "a train"]).tolist()
    assert query == documents[0]
    assert documents == await embeddings.aembed_documents(["a stew", "a train"])
    assert query == await embeddings.aembed_query("a stew")
    assert embeddings.embed_documents([]) == await embeddings.aembed_documents([]) == []
    assert repr(embeddings) == "EpicEmbeddings(encoder='epic-static-v1')"
    encoder = HashEncoder()
    await EpicEmbeddings(encoder).aembed_documents(["a"])
    await EpicEmbeddings(encoder).aembed_query("a")
    assert encoder.calls == 2 and not encoder.sync_threads


async def test_queries_of_an_asymmetric_encoder_stay_queries() -> None:
    words = Words(shift=0.3)
    embeddings = EpicEmbeddings(LangChainEncoder(words))
    query = embeddings.embed_query("red wine")
    assert query == await embeddings.aembed_query("red wine") != embeddings.embed_documents(["red wine"])[0]
    assert words.queries == ["red wine"] * 2


@pytest.mark.parametrize("texts", ["a text", [1], ["a", None], [b"a"]], ids=repr)
async def test_what_is_no_text_is_not_embedded(texts: Any) -> None:
    embeddings = EpicEmbeddings(HashEncoder())
    with pytest.raises(InvalidInputError):
        await both(embeddings, "embed_documents", texts)
    if isinstance(texts, list):
        with pytest.raises(InvalidInputError):
            embeddings.embed_query(texts[-1])


@pytest.mark.parametrize("wrong", ["tiny", HashEncoder, Words(), 3], ids=["text", "class", "embeddings", "number"])
def test_epic_embeddings_need_an_encoder(wrong: Any) -> None:
    with pytest.raises(InvalidInputError, match="encoder"):
        EpicEmbeddings(wrong)
