"""Embeddings of both plugins, both ways: a framework's model as an encoder, and an encoder as a framework's model."""

from __future__ import annotations

import copy
import json
import pickle
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

pytest.importorskip("langchain_core", reason="needs the extra langchain")
pytest.importorskip("llama_index.core", reason="needs the extra llamaindex")

from langchain_core.embeddings import Embeddings
from llama_index.core import MockEmbedding
from llama_index.core.callbacks import CallbackManager
from pydantic import ValidationError

import epic_langchain.models as lc
import epic_llamaindex.models as li
from chat_models import Words
from epic_memory import EpicMemory, Settings
from epic_memory.encoders import default_encoder
from epic_memory.errors import EncoderError, InvalidInputError
from epic_memory.steering.relevance import SAMPLES
from helpers import Encode, HashEncoder, KeepAll, both, settled
from llamaindex_models import ScriptedEmbedding, SyncEmbedding
from tables import table

TEXTS = ["a red wine", "a night train", "an old church"]


@dataclass(frozen=True)
class Plugin:
    """One plugin's adapters, and the names of what they are asked for."""

    encoder: Callable[..., Any]
    model: Callable[..., Any]
    own: Callable[..., Any]
    documents: str
    query: str
    encoder_of: Callable[[Any], Any]
    wanted: str
    named: str


LC = Plugin(
    encoder=lc.LangChainEncoder,
    model=Words,
    own=lc.EpicEmbeddings,
    documents="embed_documents",
    query="embed_query",
    encoder_of=lc.encoder_of,
    wanted=r"OllamaEmbeddings.*None",
    named="langchain:Words:words",
)
LI = Plugin(
    encoder=li.LlamaIndexEncoder,
    model=ScriptedEmbedding,
    own=li.EpicEmbedding,
    documents="get_text_embedding_batch",
    query="get_query_embedding",
    encoder_of=li.encoder_of,
    wanted=r"OllamaEmbedding.*None",
    named="llamaindex:ScriptedEmbedding:words",
)
PLUGINS = {"lc": LC, "li": LI}


@pytest.fixture(params=PLUGINS)
def plugin(request: pytest.FixtureRequest) -> Plugin:
    return PLUGINS[request.param]


class Failing(Embeddings):
    """Embeddings of LangChain that raise an error."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        raise RuntimeError("out of memory")

    embed_query = embed_documents  # type: ignore[assignment]

    def fail_with(self, error: Exception) -> None: ...


# a framework's model as an encoder


@pytest.mark.parametrize("model", [Words, ScriptedEmbedding, SyncEmbedding])
async def test_documents_and_queries_are_embedded_as_such(
    model: Callable[..., Any], encode: Encode, encode_query: Encode
) -> None:
    made = model(shift=0.3)
    encoder = (LC if model is Words else LI).encoder(made)
    vectors = await encode(encoder, TEXTS)
    assert vectors.dtype == np.float32 and vectors.shape == (3, encoder.dimension)
    expected = np.array([made._document(text) for text in TEXTS] if model is Words else made.vectors(TEXTS))
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(vectors, expected, atol=1e-5)
    assert (await encode(encoder, [])).shape == (0, encoder.dimension) and made.queries == []
    query = await encode_query(encoder, TEXTS[0])
    assert made.queries == TEXTS[:1] and not np.allclose(query, vectors[0], atol=0.01)


async def test_nothing_blocks_the_event_loop() -> None:
    words, batches, fallback = Words(), ScriptedEmbedding(), SyncEmbedding()
    for plugin, model in ((LC, words), (LI, batches), (LI, fallback)):
        encoder = plugin.encoder(model)
        await encoder.aencode(TEXTS)
        await encoder.aencode_query("wine")
        assert encoder.dimension in (64, 96)  # known by now
    assert words.sync_calls == 0 and not batches.threads
    assert fallback.threads and threading.get_ident() not in fallback.threads


def test_the_name_is_that_of_class_and_model_unless_given(plugin: Plugin) -> None:
    assert plugin.encoder(plugin.model()).name == plugin.named
    assert plugin.encoder(plugin.model(), name="mine").name == "mine"
    for wrong in ({"tau": 2.0}, {"floor": float("nan")}, {"name": " "}, {"fingerprint": ""}):
        with pytest.raises(InvalidInputError):
            plugin.encoder(plugin.model(), **wrong)
    assert lc.LangChainEncoder(Failing()).name == "langchain:Failing"
    for attribute in ("model", "model_name", "model_id", "deployment"):
        embeddings = Failing()
        setattr(embeddings, attribute, "tiny:1b")
        assert lc.LangChainEncoder(embeddings).name == "langchain:Failing:tiny:1b"

    class Nameless(ScriptedEmbedding):
        @classmethod
        def class_name(cls) -> str:
            return "base_component"

    assert li.LlamaIndexEncoder(MockEmbedding(embed_dim=4)).name == "llamaindex:MockEmbedding"
    assert li.LlamaIndexEncoder(Nameless()).name == "llamaindex:Nameless:words"


class Instructed(ScriptedEmbedding):
    """Has the settings that integrations have."""

    query_instruction: str | None = None
    text_instruction: str | None = None
    mode: str | None = None
    api_key: str = "sk-none"
    base_url: str = "http://localhost"
    timeout: float = 60.0


@pytest.mark.parametrize(
    ("settings", "changes"),
    [
        *table(__file__, "the_fingerprint_changes_with_what_changes_embeddings"),
        ({"callback_manager": CallbackManager([])}, False),
    ],
    ids=lambda value: ",".join(value) if isinstance(value, dict) else str(value),
)
def test_the_fingerprint_changes_with_what_changes_embeddings(settings: dict[str, Any], changes: bool) -> None:
    # As that of an integration that lacks these settings.
    plain = li.LlamaIndexEncoder(ScriptedEmbedding(), name="mine").fingerprint
    assert (li.LlamaIndexEncoder(Instructed(**settings), name="mine").fingerprint != plain) == changes


@pytest.mark.parametrize("kind", [Failing, ScriptedEmbedding, SyncEmbedding])
async def test_an_error_of_the_model_says_which_and_what(kind: Any, encode: Encode, encode_query: Encode) -> None:
    model = kind()
    model.fail_with(RuntimeError("out of memory"))
    encoder = (LC if kind is Failing else LI).encoder(model)
    for call in (encode(encoder, ["red"]), encode_query(encoder, "red")):
        with pytest.raises(EncoderError, match=rf"(langchain|llamaindex):{kind.__name__}.*out of memory") as raised:
            await call
        assert isinstance(raised.value.__cause__, RuntimeError)


async def test_a_memory_embeds_a_users_query_as_a_query_and_all_else_as_documents(plugin: Plugin) -> None:
    model = plugin.model()
    how = Settings(verifier=KeepAll(), tau=0.05)
    memory = EpicMemory(["night trains"], encoder=plugin.encoder_of(model), settings=how)
    memory.add(["night trains pass", "red trains"])
    await memory.aadd(["a night train", "night owls"])
    memory.preferences.add("quiet parks")
    assert model.queries == []
    assert memory.search("night") == await memory.asearch("night") != []
    # And once the questions that tell what another one asks for.
    assert [query for query in model.queries if query not in SAMPLES] == ["night"] * 2
    assert len(model.queries) == len(set(model.queries)) + 1
    assert "night" not in model.documents


def test_what_is_given_becomes_an_encoder(plugin: Plugin) -> None:
    own, model = HashEncoder(), plugin.model()
    assert plugin.encoder_of(None) is default_encoder()
    assert plugin.encoder_of(own) is own and plugin.encoder_of(plugin.own(own)) is own
    found = plugin.encoder_of(model)
    assert isinstance(found, (lc.LangChainEncoder, li.LlamaIndexEncoder)) and found.name == plugin.named


class Keyed:
    """Shows its key."""

    def __repr__(self) -> str:
        return "Client(key='SECRET')"


@pytest.mark.parametrize("wrong", ["tiny", 3, Words, ScriptedEmbedding, HashEncoder, Keyed()], ids=str)
def test_what_is_no_model_is_an_error_that_shows_no_key(plugin: Plugin, wrong: Any) -> None:
    for make, match in (
        (plugin.encoder_of, plugin.wanted),
        (plugin.encoder, r"LangChain Embeddings|LlamaIndex embedding model"),
        (plugin.own, "encoder must be an encoder"),
    ):
        with pytest.raises(InvalidInputError, match=match) as raised:
            make(wrong)
        assert "SECRET" not in str(raised.value)


@pytest.mark.parametrize("option", ["encoder", "verifier"])
def test_a_memory_says_which_adapter_a_model_needs_and_shows_no_key(option: str) -> None:
    with pytest.raises(InvalidInputError, match="LangChainEncoder") as raised:
        EpicMemory(["red wine"], **settled(**{option: Keyed()}))
    assert "SECRET" not in str(raised.value)


# an encoder as a framework's model


async def test_the_encoders_vectors_are_plain_floats(plugin: Plugin) -> None:
    made = plugin.own()
    assert made.encoder is default_encoder()
    documents, query = await both(made, plugin.documents, TEXTS), await both(made, plugin.query, TEXTS[0])
    assert type(documents) is list and {type(value) for row in [*documents, query] for value in row} == {float}
    assert documents == default_encoder().encode(TEXTS).tolist() and query == documents[0]
    assert await both(made, plugin.documents, []) == []
    if plugin is LI:
        assert await both(made, "get_text_embedding", TEXTS[1]) == documents[1]
    else:
        assert repr(made) == "EpicEmbeddings(encoder='epic-static-v1')"


async def test_the_encoder_is_called_once_for_many_texts_and_not_on_the_event_loop(plugin: Plugin) -> None:
    encoder = HashEncoder()
    made = plugin.own(encoder)
    getattr(made, plugin.documents)([f"text {n}" for n in range(200)])
    assert encoder.calls == 1
    encoder.sync_threads.clear()
    await getattr(made, f"a{plugin.documents}")([f"text {n}" for n in range(200)])
    await getattr(made, f"a{plugin.query}")("a")
    assert encoder.calls == 3 and not encoder.sync_threads
    if plugin is LI:
        batched = plugin.own(HashEncoder(), embed_batch_size=2).get_text_embedding_batch(TEXTS)
        assert batched == plugin.own(HashEncoder()).get_text_embedding_batch(TEXTS)


async def test_queries_of_an_asymmetric_encoder_stay_queries(plugin: Plugin) -> None:
    model = plugin.model(shift=0.3)
    made = plugin.own(plugin.encoder(model))
    assert await both(made, plugin.query, "red wine") != getattr(made, plugin.documents)(["red wine"])[0]
    assert model.queries == ["red wine"] * 2


@pytest.mark.parametrize("texts", [[1], ["a", None], [b"a"]], ids=repr)
async def test_what_is_no_text_is_not_embedded(plugin: Plugin, texts: Any) -> None:
    made = plugin.own(HashEncoder())
    for name, given in ((plugin.documents, texts), (plugin.query, texts[-1])):
        with pytest.raises(InvalidInputError):
            await both(made, name, given)
    with pytest.raises(InvalidInputError, match="list of texts"):
        lc.EpicEmbeddings(HashEncoder()).embed_documents("a text")  # type: ignore[arg-type]


def test_the_embedded_encoder_is_stored_and_sent_to_other_processes() -> None:
    embedding = li.EpicEmbedding(embed_batch_size=7, num_workers=2)
    assert li.EpicEmbedding.class_name() == "EpicEmbedding" and embedding.model_name == "epic-static-v1"
    for again in (
        li.EpicEmbedding.from_dict(embedding.to_dict()),
        li.EpicEmbedding.from_json(json.dumps(embedding.to_dict())),
        pickle.loads(pickle.dumps(embedding)),
        copy.deepcopy(embedding),
    ):
        assert again.encoder is default_encoder() and again.to_dict() == embedding.to_dict()
    assert len(pickle.dumps(embedding)) < 1000


def test_another_encoder_is_given_again() -> None:
    encoder = HashEncoder()  # which holds a lock
    stored = li.EpicEmbedding(encoder, embed_batch_size=7).to_dict()
    again = copy.deepcopy(li.EpicEmbedding.from_dict(stored, encoder=encoder))
    assert (again.encoder, again.embed_batch_size, stored["model_name"]) == (encoder, 7, "hash")
    for options in ({}, {"encoder": HashEncoder(name="other")}):
        with pytest.raises(InvalidInputError, match="encoder="):
            li.EpicEmbedding.from_dict(stored, **options)
    for batch in (0, 5000, "many"):
        with pytest.raises(ValidationError):
            li.EpicEmbedding(embed_batch_size=batch)  # type: ignore[arg-type]
