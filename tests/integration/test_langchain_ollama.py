"""The whole path with langchain-ollama: its models and embeddings, over real HTTP, behind a memory."""

from __future__ import annotations

from typing import Any

import pytest

from helpers import settled

pytest.importorskip("langchain_ollama", reason="needs langchain-ollama")

from langchain_ollama import ChatOllama, OllamaEmbeddings

from epic_langchain.models import LangChainEncoder, LangChainLM
from epic_memory import EpicMemory
from epic_memory.errors import EncoderError
from epic_memory.verification import LMVerifier
from helpers import both
from lm_servers import LMServer, Reply
from scripted import (
    DISCARDED,
    EXPECTED,
    KEPT,
    PASSED,
    PREFERENCES,
    SIMPLE,
    TAU,
    Add,
    Answers,
    first_properties,
    nothing_lost,
    pairs_of,
)

QUERIES = ["Where are casinos?", "A vegan stew of beans", "night trains and quiet parks"]


def chat(server: LMServer, model: str = "tiny", **settings: Any) -> ChatOllama:
    return ChatOllama(model=model, base_url=server.url, **{"temperature": 0.0, "logprobs": True, **settings})


def embeddings(server: LMServer, model: str = "embedder") -> OllamaEmbeddings:
    return OllamaEmbeddings(model=model, base_url=server.url)


def verifier(model: ChatOllama, concurrency: int = 1, **options: Any) -> LMVerifier:
    """A verifier that waits for a moment only, and asks about one item at a time."""
    return LMVerifier(LangChainLM(model, concurrency=concurrency), **{"backoff": 0.002, "batch_size": 1, **options})


def memory_of(server: LMServer, judging: LMVerifier | None = None, **options: Any) -> EpicMemory:
    """A memory of `PREFERENCES` that runs on the server alone."""
    given = {"encoder": LangChainEncoder(embeddings(server)), "tau": TAU, **options}
    return EpicMemory(
        PREFERENCES, **settled(verifier=judging or verifier(chat(server)), **{"aspects": "parser", **given})
    )


@pytest.mark.parametrize(("batch_size", "concurrency"), [(1, 4), (8, 1)])
async def test_a_memory_is_built_and_searched(server: LMServer, batch_size: int, concurrency: int, add: Add) -> None:
    memory = memory_of(server, verifier(chat(server), concurrency, batch_size=batch_size))
    report = await add(memory)

    assert pairs_of(memory) == EXPECTED
    assert (report.kept, report.discarded) == (len(KEPT), len(DISCARDED))
    nothing_lost(memory, report, waiting=0)
    assert server.calls == report.usage.calls == {1: 6, 8: 1}[batch_size]
    assert server.most_at_once <= concurrency
    assert report.usage.prompt_tokens > report.usage.completion_tokens > 0
    for query in QUERIES:
        found = memory.search(query)
        assert found and found == await memory.asearch(query)
        assert found[0].instructions and all(hit.instructions for hit in found if hit.tier == "memory")


async def test_schema_and_limit_are_sent_and_the_models_own_settings_stay(server: LMServer, add: Add) -> None:
    model = chat(server, num_ctx=4096, seed=7)
    await add(memory_of(server, verifier(model)))

    assert len(server.asked) == len(PASSED)
    for body in server.asked:
        assert first_properties(body["format"]) == ["answers"]
        assert body["format"]["title"] and body["format"]["description"]
        limit = body["options"].pop("num_predict")
        assert 0 < limit <= 1024
        assert body["options"] == {"num_ctx": 4096, "seed": 7, "temperature": 0.0}
    assert model.num_predict is None


# what goes wrong


async def test_a_slow_server_is_late(server: LMServer, answers: Answers, add: Add) -> None:
    answers.alter = lambda request, *_: Reply(delay=30.0)
    memory = memory_of(server, verifier(chat(server, client_kwargs={"timeout": 0.05}), retries=3))
    report = await add(memory, SIMPLE[:1])
    assert report.usage.calls == 2  # a timeout is tried once more only
    assert "in time" in report.failures["stew"]


async def test_a_model_that_was_not_pulled(server: LMServer, answers: Answers, add: Add) -> None:
    memory = memory_of(server, verifier(chat(server, "huge:70b")))
    report = await add(memory)
    assert report.usage.calls == 1
    nothing_lost(memory, report, waiting=len(PASSED))
    assert all("huge:70b" in reason and "ollama pull" in reason for reason in report.failures.values())
    server.models = (*server.models, "huge:70b")
    assert memory.retry().kept == len(KEPT)


async def test_embeddings_that_fail_say_so_and_nothing_is_taken_in(server: LMServer, add: Add) -> None:
    memory = memory_of(server)
    await add(memory)
    before = memory.stats().counts

    server.models = ("tiny",)
    for failing in (lambda: add(memory, ["More of a vegan diet."]), lambda: memory.asearch("casinos")):
        with pytest.raises(EncoderError, match=r"langchain:OllamaEmbeddings:embedder.*not found"):
            await failing()
    server.stop()
    with pytest.raises(EncoderError, match="langchain:OllamaEmbeddings:embedder"):
        await both(memory, "search", "casinos")
    assert memory.stats().counts == before

    server.start()
    server.models = ("tiny", "embedder")
    assert memory.search("casinos") == await memory.asearch("casinos")
