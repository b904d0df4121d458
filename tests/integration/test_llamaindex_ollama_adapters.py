"""The adapters with LlamaIndex's Ollama integrations, over real HTTP; and an embedding step in worker processes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import ollama
import pytest

from helpers import settled

pytest.importorskip("llama_index.llms.ollama", reason="needs llama-index-llms-ollama")
pytest.importorskip("llama_index.embeddings.ollama", reason="needs llama-index-embeddings-ollama")

from llama_index.embeddings.ollama import OllamaEmbedding
from llama_index.llms.ollama import Ollama

from epic_llamaindex.models import LlamaIndexEncoder, LlamaIndexLM
from epic_memory import EpicMemory
from epic_memory.errors import EncoderError, LMSetupError, LMUnavailableError
from epic_memory.lm import Message
from epic_memory.verification import LMVerifier
from helpers import HashEncoder
from lm_servers import LMServer, Reply, in_turn
from scripted import EXPECTED, PASSED, PREFERENCES, TAU, TEXTS, Add, Answers, first_properties, nothing_lost, pairs_of

Json: TypeAlias = dict[str, Any]
Complete = Callable[..., Any]
ASKED = [Message("system", "You judge."), Message("user", "Keep it?")]


@pytest.fixture(params=["sync", "async"])
def complete(request: pytest.FixtureRequest) -> Complete:
    """Completes `ASKED` by one path or the other."""

    async def completed(lm: LlamaIndexLM, **options: Any) -> Any:
        return lm.complete(ASKED, **options) if request.param == "sync" else await lm.acomplete(ASKED, **options)

    return completed


def llm_of(server: LMServer, model: str = "tiny", **settings: Any) -> Ollama:
    return Ollama(model=model, base_url=server.url, **{"temperature": 0.0, **settings})


def embedding(server: LMServer, model: str = "embedder", **settings: Any) -> OllamaEmbedding:
    return OllamaEmbedding(model, base_url=server.url, **settings)


def verifier(llm: Ollama, concurrency: int = 1, **options: Any) -> LMVerifier:
    """A verifier that waits for a moment only, and asks about one item at a time."""
    return LMVerifier(LlamaIndexLM(llm, concurrency=concurrency), **{"backoff": 0.002, "batch_size": 1, **options})


def memory_of(server: LMServer, judging: LMVerifier | None = None, **options: Any) -> EpicMemory:
    """A memory of `PREFERENCES` that runs on the server alone."""
    given = {"encoder": LlamaIndexEncoder(embedding(server)), "tau": TAU, **options}
    return EpicMemory(
        PREFERENCES, **settled(verifier=judging or verifier(llm_of(server)), **{"aspects": "parser", **given})
    )


def shown(server: LMServer) -> int:
    """How often the server was asked about a model."""
    return [request.path for request in server.requests].count("/api/show")


# a memory


@pytest.mark.parametrize(("batch_size", "concurrency"), [(1, 4), (8, 1)])
async def test_a_memory_is_built_and_searched(server: LMServer, batch_size: int, concurrency: int, add: Add) -> None:
    memory = memory_of(server, verifier(llm_of(server), concurrency, batch_size=batch_size))
    report = await add(memory)
    assert pairs_of(memory) == EXPECTED
    nothing_lost(memory, report, waiting=0)
    assert server.calls == report.usage.calls == {1: 6, 8: 1}[batch_size]
    assert server.most_at_once <= concurrency
    assert report.usage.prompt_tokens > report.usage.completion_tokens > 0
    assert memory.search("A vegan stew of beans") == await memory.asearch("A vegan stew of beans") != []


# what is sent


async def test_schema_and_limit_are_sent_and_the_models_own_settings_stay(server: LMServer, add: Add) -> None:
    llm = llm_of(server, context_window=4096, additional_kwargs={"seed": 7})
    before = llm.model_dump()
    await add(memory_of(server, verifier(llm)))
    assert len(server.asked) == len(PASSED)
    for body in server.asked:
        assert first_properties(body["format"]) == ["answers"]
        assert 0 < body["options"].pop("num_predict") <= 1024
        assert body["options"] == {"num_ctx": 4096, "seed": 7, "temperature": 0.0}
    assert llm.model_dump() == before
    assert shown(server) == 0


async def test_the_context_is_asked_for_once_and_never_on_the_event_loop(
    server: LMServer, complete: Complete, monkeypatch: pytest.MonkeyPatch
) -> None:
    asking: list[int] = []
    show = ollama.Client.show

    def noted(self: ollama.Client, model: str) -> Any:
        asking.append(threading.get_ident())
        return show(self, model)

    monkeypatch.setattr(ollama.Client, "show", noted)
    server.answer = lambda request: "{}"
    llm = llm_of(server)
    lm = LlamaIndexLM(llm)
    assert server.requests == [] and lm.context is None
    for limit in (None, 50, 60, 50):
        await complete(lm, max_tokens=limit)
    assert shown(server) == len(asking) == 1
    assert (lm.context, llm.context_window) == (32768, -1)
    assert {body["options"]["num_ctx"] for body in server.asked} == {32768}
    other = LlamaIndexLM(llm)
    await asyncio.gather(*(other.acomplete(ASKED) for _ in range(3)))
    assert shown(server) == 2
    assert threading.get_ident() not in asking[1:]


@pytest.mark.parametrize(
    ("settings", "options", "sent"),
    [
        ({"context_window": 4096}, {}, 4096),
        ({"additional_kwargs": {"num_ctx": 2048}}, {}, 2048),
        ({}, {"context": 1024}, 1024),
        ({"context_window": 4096}, {"context": 1024}, 4096),
    ],
    ids=["of the model", "an option", "of the adapter", "of both"],
)
async def test_a_context_that_is_given_is_not_asked_for(
    server: LMServer, settings: Json, options: Json, sent: int, complete: Complete
) -> None:
    server.answer = lambda request: "{}"
    lm = LlamaIndexLM(llm_of(server, **settings), **options)
    assert lm.context == options.get("context", sent)
    await complete(lm, max_tokens=50)
    assert shown(server) == 0
    assert server.asked[0]["options"]["num_ctx"] == sent


async def test_a_server_that_does_not_say_the_context_is_asked_once(server: LMServer, complete: Complete) -> None:
    server.context = None
    server.answer = lambda request: "{}"
    lm = LlamaIndexLM(llm_of(server))
    for _ in range(3):
        await complete(lm)
    assert shown(server) == 1
    assert server.asked[0]["options"]["num_ctx"] == lm.context == 3900


async def test_clients_of_the_user_are_used(server: LMServer, complete: Complete) -> None:
    headers = {"X-Mine": "yes"}
    clients = {
        "client": ollama.Client(host=server.url, headers=headers),
        "async_client": ollama.AsyncClient(host=server.url, headers=headers),
    }
    server.answer = lambda request: "{}"
    lm = LlamaIndexLM(Ollama(model="tiny", base_url="http://127.0.0.1:9", **clients))  # nobody is there
    for limit in (None, 50, 60):
        await complete(lm, max_tokens=limit)
    assert {request.headers.get("x-mine") for request in server.requests} == {"yes"}


def test_event_loops_may_come_and_go(server: LMServer) -> None:
    server.answer = lambda request: "{}"
    lm, encoder = LlamaIndexLM(llm_of(server), concurrency=3), LlamaIndexEncoder(embedding(server, embed_batch_size=2))

    async def both() -> Any:
        answers = await asyncio.gather(*(lm.acomplete(ASKED, max_tokens=50) for _ in range(3)))
        return [answer.text for answer in answers], await encoder.aencode(list(TEXTS.values()))

    for _ in range(3):
        texts, vectors = asyncio.run(both())
        assert texts == ["{}"] * 3 and vectors.shape == (len(TEXTS), 1024)


# what goes wrong


BROKEN = {
    "a status of 500": Reply(status=500, text="out of memory"),
    "a connection that breaks off": Reply(text='{"decision": "Keep", "rationale": "Half of', break_off=True),
    "a page of HTML": Reply(not_json=True),
}


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
async def test_a_server_that_fails_in_the_middle(server: LMServer, answers: Answers, broken: Reply, add: Add) -> None:
    done: list[Json] = []

    def fails_later(request: Json, _: int) -> Reply | None:
        done.append(request)
        return broken if len(done) > 2 else None

    answers.alter = fails_later
    memory = memory_of(server, verifier(llm_of(server), retries=1))
    report = await add(memory)
    nothing_lost(memory, report, waiting=len(PASSED) - 2)
    answers.alter = lambda request, *_: None
    again = memory.retry()
    nothing_lost(memory, again, waiting=0)
    assert pairs_of(memory) == EXPECTED


async def test_a_model_that_is_not_pulled(server: LMServer, complete: Complete) -> None:
    for settings in ({}, {"context_window": 4096}):
        with pytest.raises(LMSetupError, match="ollama pull"):
            await complete(LlamaIndexLM(llm_of(server, "other", **settings)))


async def test_no_server(server: LMServer, complete: Complete) -> None:
    lm = LlamaIndexLM(llm_of(server))
    server.stop()
    with pytest.raises(LMUnavailableError, match="No server answers for llamaindex:Ollama_llm:tiny"):
        await complete(lm)
    server.start()
    server.answer = in_turn("{}")
    assert (await complete(lm)).text == "{}"  # what failed is not remembered


# embeddings


async def test_embeddings_are_unit_vectors(server: LMServer) -> None:
    encoder = LlamaIndexEncoder(embedding(server, embed_batch_size=2, query_instruction="find"))
    texts = list(TEXTS.values())
    vectors = encoder.encode(texts)
    assert vectors.shape == (len(texts), 1024) and vectors.dtype == np.float32
    np.testing.assert_allclose(vectors, HashEncoder().encode(texts), atol=1e-6)
    np.testing.assert_array_equal(vectors, await encoder.aencode(texts))
    query = encoder.encode_query("night trains")
    np.testing.assert_allclose(query, HashEncoder().vector("find night trains"), atol=1e-6)
    np.testing.assert_array_equal(query, await encoder.aencode_query("night trains"))
    assert encoder.name == "llamaindex:OllamaEmbedding:embedder"


async def test_an_embedding_model_that_is_not_pulled(server: LMServer) -> None:
    encoder = LlamaIndexEncoder(embedding(server, "other"))
    with pytest.raises(EncoderError, match=r"llamaindex:OllamaEmbedding:other.*not found"):
        encoder.encode(["a"])
    with pytest.raises(EncoderError, match=r"llamaindex:OllamaEmbedding:other.*not found"):
        await encoder.aencode_query("a")
