"""The whole path with langchain-ollama: its models and embeddings, over real HTTP, behind a memory."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest

pytest.importorskip("langchain_ollama", reason="needs langchain-ollama")

from langchain_core.runnables import RunnableLambda
from langchain_ollama import ChatOllama, OllamaEmbeddings

from epic_core import EpicMemory
from epic_core.encoders import OllamaEncoder
from epic_core.errors import EncoderError, EncoderMismatchError
from epic_core.lm import OllamaLM
from epic_core.verification import LMVerifier
from epic_langchain.models import RUN_NAME, LangChainEncoder, LangChainLM, calling_with
from helpers import HashEncoder
from lm_servers import LMServer, Reply
from scripted import (
    DISCARDED,
    EXPECTED,
    ITEMS,
    KEPT,
    PASSED,
    PREFERENCES,
    SIMPLE,
    TAU,
    VEGAN,
    Add,
    Answers,
    adding,
    first_properties,
    forget_environment,
    nothing_lost,
    pairs_of,
)

Json: TypeAlias = dict[str, Any]
QUERIES = ["Where are casinos?", "A vegan stew of beans", "night trains and quiet parks"]


@pytest.fixture
def answers() -> Answers:
    return Answers()


@pytest.fixture
def server(answers: Answers, monkeypatch: pytest.MonkeyPatch) -> Iterator[LMServer]:
    forget_environment(monkeypatch)
    # Ollama's embeddings are unit vectors of most models, but not of all.
    with LMServer(answers, models=("tiny", "embedder"), embed=lambda text: 7 * HashEncoder().vector(text)) as server:
        yield server


@pytest.fixture(params=["sync", "async"])
def add(request: pytest.FixtureRequest) -> Add:
    """Adds `ITEMS`, or others, by one path or the other."""
    return adding(request.param)


def chat(server: LMServer, model: str = "tiny", **settings: Any) -> ChatOllama:
    return ChatOllama(model=model, base_url=server.url, **{"temperature": 0.0, "logprobs": True, **settings})


def embeddings(server: LMServer, model: str = "embedder") -> OllamaEmbeddings:
    return OllamaEmbeddings(model=model, base_url=server.url)


def verifier(model: ChatOllama, concurrency: int = 1, **options: Any) -> LMVerifier:
    """A verifier that waits for a moment only."""
    return LMVerifier(LangChainLM(model, concurrency=concurrency), **{"backoff": 0.002, **options})


def memory_of(server: LMServer, judging: LMVerifier | None = None, **options: Any) -> EpicMemory:
    """A memory of `PREFERENCES` that runs on the server alone."""
    given = {"encoder": LangChainEncoder(embeddings(server)), "tau": TAU, **options}
    return EpicMemory(PREFERENCES, verifier=judging or verifier(chat(server)), **{"aspects": "parser", **given})


@pytest.mark.parametrize(("way", "concurrency"), [("single", 4), ("paper", 1), ("batch", 4)])
async def test_a_memory_is_built_and_searched(server: LMServer, way: Any, concurrency: int, add: Add) -> None:
    memory = memory_of(server, verifier(chat(server), concurrency, way=way))
    report = await add(memory)

    assert pairs_of(memory) == EXPECTED
    assert (report.kept, report.discarded) == (len(KEPT), len(DISCARDED))
    nothing_lost(memory, report, waiting=0)
    assert server.calls == report.usage.calls == {"single": 6, "paper": 13, "batch": 1}[way]
    assert server.most_at_once <= concurrency
    assert report.usage.prompt_tokens > report.usage.completion_tokens > 0
    for query in QUERIES:
        found = memory.search(query)
        assert found and found == await memory.asearch(query)
        assert all(hit.instructions for hit in found)


async def test_it_is_the_memory_that_our_own_adapters_make(server: LMServer, add: Add) -> None:
    memory = memory_of(server)
    own = memory_of(
        server,
        LMVerifier(OllamaLM("tiny", host=server.url)),
        encoder=OllamaEncoder("embedder", host=server.url),
    )
    for one in (memory, own):
        await add(one)
    for query in QUERIES:
        hits, expected = memory.search(query), own.search(query)
        assert [hit.item.id for hit in hits] == [hit.item.id for hit in expected]
        assert [hit.score for hit in hits] == pytest.approx([hit.score for hit in expected])
        confidences = [[entry.confidence for entry in hit.entries] for hit in hits]
        assert confidences == [[entry.confidence for entry in hit.entries] for hit in expected]


async def test_schema_and_limit_are_sent_and_the_models_own_settings_stay(server: LMServer, add: Add) -> None:
    model = chat(server, num_ctx=4096, seed=7)
    await add(memory_of(server, verifier(model)))

    assert len(server.asked) == len(PASSED)
    for body in server.asked:
        assert first_properties(body["format"]) == ["decision", "rationale", "preferences"]
        assert body["format"]["title"] and body["format"]["description"]
        limit = body["options"].pop("num_predict")
        assert 0 < limit <= 1024
        assert body["options"] == {"num_ctx": 4096, "seed": 7, "temperature": 0.0}
    assert model.num_predict is None


async def test_confidence_is_the_probability_of_the_decision(server: LMServer, answers: Answers, add: Add) -> None:
    def sure(request: Json, _: int) -> Reply:
        text = answers.said(request["messages"])
        parts = [part for part in re.split('("Ke)(ep)|("Disc)(ard)', text) if part]
        return Reply(text=text, tokens=[(part, {'"Ke': -0.5, "ep": -0.125}.get(part, -3.0)) for part in parts])

    answers.alter = sure
    memory = memory_of(server)
    await add(memory)
    assert pairs_of(memory) == EXPECTED
    for name in KEPT:
        for entry in memory.explain(name).entries:
            assert entry.confidence == pytest.approx(math.exp(-0.625))


@pytest.mark.parametrize("reasoning", [None, True])
async def test_what_a_model_thinks_is_no_answer(
    server: LMServer, answers: Answers, reasoning: bool | None, add: Add
) -> None:
    answers.alter = lambda request, *_: Reply(
        text=answers.said(request["messages"]), thinking='{"decision": "Discard", "preferences": []}'
    )
    memory = memory_of(server, verifier(chat(server, reasoning=reasoning)))
    await add(memory)
    assert pairs_of(memory) == EXPECTED


async def test_a_model_that_needs_its_whole_limit_to_think_gets_more(
    server: LMServer, answers: Answers, add: Add
) -> None:
    def thinking(request: Json, _: int) -> Reply | None:
        return Reply(text="", thinking="The chunk is", cut=True) if "num_predict" in request["options"] else None

    answers.alter = thinking
    memory = memory_of(server)
    report = await add(memory)
    assert pairs_of(memory) == EXPECTED
    nothing_lost(memory, report, waiting=0)
    assert server.calls == len(PASSED) + 1


# what goes wrong


async def test_what_fails_for_good_waits_and_the_others_are_not_asked(
    server: LMServer, answers: Answers, add: Add
) -> None:
    answers.alter = lambda request, *_: Reply(status=500, text="out of memory")
    memory = memory_of(server, verifier(chat(server), retries=1))
    report = await add(memory)
    assert server.calls == report.usage.calls == 4
    nothing_lost(memory, report, waiting=len(PASSED))
    assert all("out of memory" in reason for reason in report.failures.values())
    answers.well()
    again = memory.retry()
    assert again.passed == len(PASSED)
    nothing_lost(memory, again, waiting=0)
    assert pairs_of(memory) == EXPECTED


async def test_a_server_that_does_not_know_schemas_is_asked_without(
    server: LMServer, answers: Answers, add: Add
) -> None:
    answers.alter = lambda request, *_: Reply(status=400, text="format: no schema") if request.get("format") else None
    memory = memory_of(server)
    await add(memory)
    assert pairs_of(memory) == EXPECTED
    assert ["format" in body for body in server.asked] == [True] + [False] * len(PASSED)


async def test_a_slow_server_is_late(server: LMServer, answers: Answers, add: Add) -> None:
    answers.alter = lambda request, *_: Reply(delay=30.0)
    memory = memory_of(server, verifier(chat(server, client_kwargs={"timeout": 0.05}), retries=3))
    report = await add(memory, SIMPLE[:1])
    assert report.usage.calls == 2  # a timeout is tried once more only
    assert "in time" in report.failures["stew"]


async def test_no_server(server: LMServer, answers: Answers, add: Add) -> None:
    # The embeddings come from another one, as without them nothing is verified.
    with LMServer(answers, models=("embedder",), embed=HashEncoder().vector) as other:
        memory = memory_of(other, verifier(chat(server), retries=1))
        server.stop()
        report = await add(memory)
        assert report.usage.calls == 4
        nothing_lost(memory, report, waiting=len(PASSED))
        for reason in report.failures.values():
            assert "langchain:ChatOllama:tiny" in reason
            assert "Start it" in reason
        assert memory.retry().usage.calls == 1
        server.start()
        assert memory.retry().kept == len(KEPT)


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
        memory.search("casinos")
    with pytest.raises(EncoderError, match="langchain:OllamaEmbeddings:embedder"):
        await memory.asearch("casinos")
    assert memory.stats().counts == before

    server.start()
    server.models = ("tiny", "embedder")
    assert memory.search("casinos") == await memory.asearch("casinos")


# a file, and callbacks


async def test_a_file_belongs_to_its_embeddings(server: LMServer, tmp_path: Path, add: Add) -> None:
    path = tmp_path / "me.epic"
    options: Any = {"verifier": verifier(chat(server)), "tau": TAU}
    with EpicMemory.open(path, PREFERENCES, encoder=LangChainEncoder(embeddings(server)), **options) as memory:
        await add(memory)
        found = memory.search(QUERIES[0])
    calls = server.calls
    with EpicMemory.open(path, encoder=LangChainEncoder(embeddings(server)), **options) as memory:
        assert pairs_of(memory) == EXPECTED
        assert memory.search(QUERIES[0]) == found
        # What was decided is known by the model's name.
        assert (await add(memory)).usage.calls == 0
    assert server.calls == calls

    server.embed = HashEncoder(64).vector
    with pytest.raises(EncoderMismatchError):
        EpicMemory.open(path, encoder=LangChainEncoder(embeddings(server)), **options)


async def test_a_chain_sees_the_calls_of_its_verification(server: LMServer) -> None:
    memory = memory_of(server, verifier(chat(server), 4))

    async def remember(items: Any, config: Any) -> int:
        with calling_with(config):
            return (await memory.aadd(items)).kept

    chain = RunnableLambda(remember).with_config(run_name="remember")
    events = [event async for event in chain.astream_events(ITEMS, version="v2")]
    (step,) = [event for event in events if event["name"] == "remember" and event["event"] == "on_chain_start"]
    calls = [event for event in events if event["name"] == RUN_NAME and event["event"] == "on_chain_start"]
    models = [event for event in events if event["event"] == "on_chat_model_end"]
    assert events[-1]["data"]["output"] == len(KEPT)
    assert len(calls) == len(models) == len(PASSED)
    assert all(call["parent_ids"] == [step["run_id"]] for call in calls)
    assert all(step["run_id"] in model["parent_ids"] for model in models)
    assert {model["name"] for model in models} == {"ChatOllama"}
    assert pairs_of(memory) == EXPECTED


async def test_an_answer_that_was_cut_is_asked_for_with_more_room(server: LMServer, answers: Answers, add: Add) -> None:
    cut = [Reply(text='{"decision": "Keep", "rationale": "The st', cut=True)]
    answers.alter = lambda request, *_: cut.pop() if cut else None
    memory = memory_of(server)
    await add(memory, SIMPLE[:1])
    first, second = (body["options"]["num_predict"] for body in server.asked)
    assert second == 2 * first
    assert pairs_of(memory) == {("stew", VEGAN): EXPECTED["stew", VEGAN]}
