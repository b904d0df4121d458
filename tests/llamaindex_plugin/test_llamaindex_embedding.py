"""Embeddings both ways: any embedding model of LlamaIndex as an encoder, any encoder as one of its models."""

from __future__ import annotations

import copy
import json
import pickle
import threading
from typing import Any

import numpy as np
import pytest

from epic_memory import Settings

pytest.importorskip("llama_index.core", reason="needs the extra llamaindex")

from hypothesis import given
from hypothesis import strategies as st
from llama_index.core import MockEmbedding
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.callbacks import CallbackManager
from pydantic import ValidationError

from epic_llamaindex.models import EpicEmbedding, LlamaIndexEncoder, encoder_of
from epic_memory import EpicMemory
from epic_memory.encoders import Encoder, default_encoder
from epic_memory.errors import EncoderError, InvalidInputError
from epic_memory.steering.relevance import sample_texts
from helpers import Encode, HashEncoder, KeepAll
from llamaindex_models import ScriptedEmbedding, SyncEmbedding, heard

KINDS = {"batches": ScriptedEmbedding, "synchronous": SyncEmbedding}
TEXTS = ["a red wine", "a night train", "an old church"]


# an embedding model as an encoder


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("batch", [1, 2, 100])
async def test_embeddings_are_unit_vectors_in_order(kind: str, batch: int, encode: Encode) -> None:
    model = KINDS[kind](shift=0.3, embed_batch_size=batch)
    encoder = LlamaIndexEncoder(model)
    vectors = await encode(encoder, TEXTS)
    assert vectors.shape == (3, 96) and vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-5)
    expected = np.array(model.vectors(TEXTS))
    np.testing.assert_allclose(vectors, expected / np.linalg.norm(expected, axis=1, keepdims=True), atol=1e-5)
    assert (await encode(encoder, [])).shape == (0, 96)
    assert model.queries == []


@pytest.mark.parametrize("kind", KINDS)
async def test_a_query_is_embedded_as_a_query(kind: str, encode_query: Encode, encode: Encode) -> None:
    model = KINDS[kind](shift=0.3)
    encoder = LlamaIndexEncoder(model)
    vector = await encode_query(encoder, "red wine")
    assert vector.shape == (96,)
    assert model.queries == ["red wine"] and model.documents == []
    assert not np.allclose(vector, (await encode(encoder, ["red wine"]))[0], atol=0.01)


async def test_the_event_loop_is_not_blocked() -> None:
    batches, fallback = ScriptedEmbedding(), SyncEmbedding()
    for model in (batches, fallback):
        encoder = LlamaIndexEncoder(model)
        await encoder.aencode(TEXTS)
        await encoder.aencode_query("wine")
        assert encoder.dimension == 96  # known by now
        assert threading.get_ident() not in model.threads
    assert not batches.threads
    assert fallback.threads


def test_the_name_is_that_of_class_and_model() -> None:
    class Nameless(ScriptedEmbedding):
        @classmethod
        def class_name(cls) -> str:
            return "base_component"

    assert LlamaIndexEncoder(ScriptedEmbedding(model_name="tiny:1b")).name == "llamaindex:ScriptedEmbedding:tiny:1b"
    assert LlamaIndexEncoder(MockEmbedding(embed_dim=4)).name == "llamaindex:MockEmbedding"
    assert LlamaIndexEncoder(Nameless()).name == "llamaindex:Nameless:words"
    assert LlamaIndexEncoder(ScriptedEmbedding(), name="mine").name == "mine"


class Instructed(ScriptedEmbedding):
    """Has the settings that integrations have."""

    query_instruction: str | None = None
    text_instruction: str | None = None
    mode: str | None = None
    api_key: str = "sk-none"
    base_url: str = "http://localhost"
    timeout: float = 60.0


def test_the_fingerprint_changes_with_what_changes_embeddings() -> None:
    prints = [
        LlamaIndexEncoder(Instructed(**settings), name="mine").fingerprint  # type: ignore[arg-type]
        for settings in (
            {},
            {"model_name": "other"},
            {"query_instruction": "Find:"},
            {"text_instruction": "Find:"},
            {"dimension": 80},
            {"mode": "search"},
        )
    ]
    prints.append(LlamaIndexEncoder(Instructed(), fingerprint="weights of May").fingerprint)
    assert len(set(prints)) == 7
    assert prints[-1] == "weights of May"


def test_the_fingerprint_does_not_change_with_what_does_not() -> None:
    plain = LlamaIndexEncoder(Instructed(), name="mine").fingerprint
    for settings in (
        {"api_key": "sk-secret"},
        {"base_url": "http://elsewhere"},
        {"timeout": 5.0},
        {"embed_batch_size": 3},
        {"num_workers": 3},
        {"callback_manager": CallbackManager([])},
        {"query_instruction": ""},
    ):
        assert LlamaIndexEncoder(Instructed(**settings), name="mine").fingerprint == plain  # type: ignore[arg-type]
    # An integration that gets a setting it did not have, which is unset.
    assert LlamaIndexEncoder(ScriptedEmbedding(), name="mine").fingerprint == plain


@pytest.mark.parametrize("arguments", [{"name": " "}, {"tau": 2.0}], ids=str)
def test_arguments_that_cannot_be_are_errors(arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError):
        LlamaIndexEncoder(ScriptedEmbedding(), **arguments)


async def test_a_memory_embeds_queries_as_queries() -> None:
    model = ScriptedEmbedding()
    memory = EpicMemory(["night trains"], encoder=encoder_of(model), settings=Settings(verifier=KeepAll(), tau=0.05))
    memory.add(["night trains pass", "red trains"])
    await memory.aadd(["a night train"])
    assert model.queries == []
    assert memory.search("night") == await memory.asearch("night") != []
    # And once the questions that tell what another one asks for.
    assert [query for query in model.queries if query not in sample_texts()] == ["night"] * 2
    assert len(model.queries) == len(set(model.queries)) + 1
    assert "night" not in model.documents


@pytest.mark.parametrize("kind", KINDS)
async def test_an_error_of_the_model_says_which_and_what(kind: str, encode: Encode, encode_query: Encode) -> None:
    model = KINDS[kind]()
    model.fail_with(RuntimeError("out of memory"))
    encoder = LlamaIndexEncoder(model)
    for failing in (encode(encoder, ["red"]), encode_query(encoder, "red")):
        with pytest.raises(EncoderError, match=rf"llamaindex:{type(model).__name__}:words.*out of memory") as raised:
            await failing
        assert isinstance(raised.value.__cause__, RuntimeError)
    model.fail_with(None)
    assert (await encode(encoder, ["red"])).shape == (1, 96)


def test_what_is_given_as_an_embedding_model_becomes_an_encoder() -> None:
    own, model = HashEncoder(), ScriptedEmbedding()
    encoder: Encoder = LlamaIndexEncoder(model)
    assert isinstance(encoder, Encoder)
    assert encoder_of(None) is default_encoder()
    assert encoder_of(own) is own
    assert encoder_of(EpicEmbedding(own)) is own
    found = encoder_of(model)
    assert isinstance(found, LlamaIndexEncoder) and found.embed_model is model


@pytest.mark.parametrize(
    "wrong",
    ["local:tiny", 3, ScriptedEmbedding, HashEncoder, object()],
    ids=["text", "number", "class", "ours", "object"],
)
def test_what_is_neither_is_an_error(wrong: Any) -> None:
    with pytest.raises(InvalidInputError, match=r"OllamaEmbedding.*None"):
        encoder_of(wrong)
    with pytest.raises(InvalidInputError, match="LlamaIndex embedding model"):
        LlamaIndexEncoder(wrong)


# an encoder as an embedding model


async def test_the_encoders_vectors_are_plain_floats() -> None:
    embedding = EpicEmbedding()
    assert embedding.encoder is default_encoder()
    vectors, query = embedding.get_text_embedding_batch(TEXTS), embedding.get_query_embedding(TEXTS[0])
    assert {type(value) for row in [*vectors, query] for value in row} == {float}
    assert vectors == default_encoder().encode(TEXTS).tolist()
    assert query == vectors[0] == embedding.get_text_embedding(TEXTS[0])
    assert await embedding.aget_text_embedding_batch(TEXTS) == vectors
    assert await embedding.aget_text_embedding(TEXTS[1]) == vectors[1]
    assert await embedding.aget_query_embedding(TEXTS[0]) == query
    assert embedding.get_text_embedding_batch([]) == await embedding.aget_text_embedding_batch([]) == []


@given(st.lists(st.text(min_size=1), max_size=8), st.integers(1, 4))
def test_batches_do_not_matter(texts: list[str], size: int) -> None:
    batched = EpicEmbedding(HashEncoder(), embed_batch_size=size).get_text_embedding_batch(texts)
    assert batched == EpicEmbedding(HashEncoder()).get_text_embedding_batch(texts)


async def test_a_batch_is_one_call_of_the_encoder() -> None:
    encoder = HashEncoder()
    embedding = EpicEmbedding(encoder)
    embedding.get_text_embedding_batch([f"text {n}" for n in range(200)])
    assert encoder.calls == 1
    encoder.sync_threads.clear()
    await embedding.aget_text_embedding_batch([f"text {n}" for n in range(200)])
    await embedding.aget_query_embedding("a")
    assert encoder.calls == 3 and not encoder.sync_threads


async def test_queries_of_an_encoder_stay_queries() -> None:
    model = ScriptedEmbedding(shift=0.3)
    embedding = EpicEmbedding(LlamaIndexEncoder(model))
    query = embedding.get_query_embedding("red wine")
    assert query == await embedding.aget_query_embedding("red wine") != embedding.get_text_embedding("red wine")
    assert model.queries == ["red wine"] * 2


def test_the_embedded_encoder_is_stored_and_sent_to_other_processes() -> None:
    embedding = EpicEmbedding(embed_batch_size=7, num_workers=2)
    assert EpicEmbedding.class_name() == "EpicEmbedding" and embedding.model_name == "epic-static-v1"
    for again in (
        EpicEmbedding.from_dict(embedding.to_dict()),
        EpicEmbedding.from_json(json.dumps(embedding.to_dict())),
        pickle.loads(pickle.dumps(embedding)),
        copy.deepcopy(embedding),
    ):
        assert again.encoder is default_encoder()
        assert again.to_dict() == embedding.to_dict()
    assert len(pickle.dumps(embedding)) < 1000


def test_another_encoder_is_given_again() -> None:
    encoder = HashEncoder()
    stored = EpicEmbedding(encoder, embed_batch_size=7).to_dict()
    again = EpicEmbedding.from_dict(stored, encoder=encoder)
    assert (again.encoder, again.embed_batch_size) == (encoder, 7)
    for options in ({}, {"encoder": HashEncoder(name="other")}):
        with pytest.raises(InvalidInputError, match="encoder="):
            EpicEmbedding.from_dict(stored, **options)
    assert stored["model_name"] == "hash"


def test_a_copy_keeps_the_encoder() -> None:
    encoder = HashEncoder()  # which holds a lock
    assert copy.deepcopy(EpicEmbedding(encoder)).encoder is encoder


@pytest.mark.parametrize(
    "wrong", ["tiny", HashEncoder, ScriptedEmbedding(), 3], ids=["text", "class", "embedding model", "number"]
)
def test_epic_embedding_needs_an_encoder(wrong: Any) -> None:
    with pytest.raises(InvalidInputError, match="encoder must be an encoder"):
        EpicEmbedding(wrong)


@pytest.mark.parametrize("batch", [0, 5000, "many"])
def test_a_batch_that_cannot_be_is_an_error(batch: Any) -> None:
    with pytest.raises(ValidationError):
        EpicEmbedding(embed_batch_size=batch)


async def test_what_is_no_text_is_not_embedded() -> None:
    embedding = EpicEmbedding(HashEncoder())
    for wrong in ([1], ["a", None], [b"a"]):
        with pytest.raises(InvalidInputError):
            embedding.get_text_embedding_batch(wrong)  # type: ignore[arg-type]
        with pytest.raises(InvalidInputError):
            await embedding.aget_query_embedding(wrong[-1])  # type: ignore[arg-type]


def test_it_is_an_embedding_model_that_others_hear_of() -> None:
    embedding: BaseEmbedding = EpicEmbedding()
    with heard() as (events, _):
        embedding.get_text_embedding_batch(TEXTS)
    assert [event.class_name() for event in events] == ["EmbeddingStartEvent", "EmbeddingEndEvent"]
