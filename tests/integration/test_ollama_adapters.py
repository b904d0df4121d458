"""The adapters with the Ollama integrations of both frameworks, over real HTTP, behind a memory."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import ollama
import pytest

pytest.importorskip("llama_index.llms.ollama", reason="needs llama-index-llms-ollama")
pytest.importorskip("llama_index.embeddings.ollama", reason="needs llama-index-embeddings-ollama")
pytest.importorskip("langchain_ollama", reason="needs langchain-ollama")

from langchain_ollama import ChatOllama, OllamaEmbeddings
from llama_index.embeddings.ollama import OllamaEmbedding
from llama_index.llms.ollama import Ollama

from epic_langchain.models import LangChainEncoder, LangChainLM
from epic_llamaindex.models import LlamaIndexEncoder, LlamaIndexLM
from epic_memory import EpicMemory, Settings
from epic_memory.verification import LMVerifier
from lm_servers import LMServer
from scripted import (
    ASKED,
    DISCARDED,
    EXPECTED,
    KEPT,
    PASSED,
    PREFERENCES,
    TAU,
    TEXTS,
    Add,
    Complete,
    nothing_lost,
    pairs_of,
)

Json: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class Plugin:
    """One plugin's adapters, and the models of its integration."""

    lm: Callable[..., Any]
    encoder: Callable[..., Any]
    llm: Callable[..., Any]
    embedding: Callable[..., Any]
    own: dict[str, Any]


LI = Plugin(
    lm=LlamaIndexLM,
    encoder=LlamaIndexEncoder,
    llm=Ollama,
    embedding=OllamaEmbedding,
    own={"context_window": 4096, "additional_kwargs": {"seed": 7}},
)
LC = Plugin(
    lm=LangChainLM,
    encoder=LangChainEncoder,
    llm=lambda **options: ChatOllama(**{"logprobs": True, **options}),
    embedding=lambda model, **options: OllamaEmbeddings(model=model, **options),
    own={"num_ctx": 4096, "seed": 7},
)
PLUGINS = {"lc": LC, "li": LI}


@pytest.fixture(params=PLUGINS)
def plugin(request: pytest.FixtureRequest) -> Plugin:
    return PLUGINS[request.param]


def llm_of(server: LMServer, model: str = "tiny", plugin: Plugin = LI, **settings: Any) -> Any:
    return plugin.llm(model=model, base_url=server.url, **{"temperature": 0.0, **settings})


def embedding(server: LMServer, model: str = "embedder", plugin: Plugin = LI, **settings: Any) -> Any:
    return plugin.embedding(model, base_url=server.url, **settings)


def memory_of(server: LMServer, plugin: Plugin, llm: Any = None, concurrency: int = 1, **options: Any) -> EpicMemory:
    """A memory that runs on the server alone, waits a moment only, and asks about one at a time."""
    lm = plugin.lm(llm or llm_of(server, plugin=plugin), concurrency=concurrency)
    verifier = LMVerifier(lm, **{"backoff": 0.002, "batch_size": 1, **options})
    encoder = plugin.encoder(embedding(server, plugin=plugin))
    return EpicMemory(PREFERENCES, encoder=encoder, settings=Settings(verifier=verifier, tau=TAU, aspects="parser"))


def shown(server: LMServer) -> int:
    """How often the server was asked about a model."""
    return [request.path for request in server.requests].count("/api/show")


# what is sent


@pytest.mark.parametrize(("batch_size", "concurrency"), [(1, 4), (8, 1)])
async def test_a_memory_is_built_and_searched(
    plugin: Plugin, server: LMServer, batch_size: int, concurrency: int, add: Add
) -> None:
    memory = memory_of(server, plugin, concurrency=concurrency, batch_size=batch_size)
    report = await add(memory)
    assert pairs_of(memory) == EXPECTED
    assert (report.kept, report.discarded) == (len(KEPT), len(DISCARDED))
    nothing_lost(memory, report, waiting=0)
    assert server.calls == report.usage.calls == {1: 6, 8: 1}[batch_size]
    assert server.most_at_once <= concurrency
    assert report.usage.prompt_tokens > report.usage.completion_tokens > 0
    for query in ("Where are casinos?", "A vegan stew of beans", "night trains and quiet parks"):
        found = memory.search(query)
        assert found and found == await memory.asearch(query)
        assert found[0].instructions and all(hit.instructions for hit in found if hit.tier == "memory")


async def test_schema_and_limit_are_sent_and_the_models_own_settings_stay(
    plugin: Plugin, server: LMServer, add: Add
) -> None:
    llm = llm_of(server, plugin=plugin, **plugin.own)
    before = llm.model_dump()
    await add(memory_of(server, plugin, llm))
    assert len(server.asked) == len(PASSED)
    for body in server.asked:
        assert list(body["format"]["properties"]) == ["answers"]
        assert plugin is LI or (body["format"]["title"] and body["format"]["description"])
        assert 0 < body["options"].pop("num_predict") <= 1024
        assert body["options"] == {"num_ctx": 4096, "seed": 7, "temperature": 0.0}
    assert llm.model_dump() == before and shown(server) == 0


@pytest.mark.parametrize(
    ("settings", "options", "said", "sent"),
    [
        ({"context_window": 4096}, {}, 32768, 4096),
        ({"additional_kwargs": {"num_ctx": 2048}}, {}, 32768, 2048),
        ({}, {"context": 1024}, 32768, 1024),
        ({"context_window": 4096}, {"context": 1024}, 32768, 4096),
        ({}, {}, 32768, 32768),
        ({}, {}, None, 3900),
    ],
    ids=["of the model", "an option", "of the adapter", "of both", "of nobody", "nor of the server"],
)
async def test_the_context_is_asked_for_once_and_only_where_nobody_gave_it(
    server: LMServer, settings: Json, options: Json, said: int | None, sent: int, complete: Complete
) -> None:
    server.answer = lambda request: "{}"
    server.context = said
    lm, given = LlamaIndexLM(llm_of(server, **settings), **options), settings or options
    assert server.requests == [] and lm.context == (options.get("context", sent) if given else None)
    for limit in (None, 50, 60, 50):
        await complete(lm, max_tokens=limit)
    assert shown(server) == (0 if given else 1)
    assert {body["options"]["num_ctx"] for body in server.asked} == {sent}
    assert given or lm.context == sent


async def test_the_context_is_never_asked_for_on_the_event_loop(
    server: LMServer, monkeypatch: pytest.MonkeyPatch
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
    await asyncio.gather(*(lm.acomplete(ASKED) for _ in range(3)))
    assert shown(server) == len(asking) == 1 and threading.get_ident() not in asking
    assert llm.context_window == -1


def test_event_loops_may_come_and_go(server: LMServer) -> None:
    server.answer = lambda request: "{}"
    lm, encoder = LlamaIndexLM(llm_of(server), concurrency=3), LlamaIndexEncoder(embedding(server, embed_batch_size=2))

    async def both() -> Any:
        answers = await asyncio.gather(*(lm.acomplete(ASKED, max_tokens=50) for _ in range(3)))
        return [answer.text for answer in answers], await encoder.aencode(list(TEXTS.values()))

    for _ in range(3):
        texts, vectors = asyncio.run(both())
        assert texts == ["{}"] * 3 and vectors.shape == (len(TEXTS), 1024)


# embeddings
