"""Verification by a model behind a server, over real HTTP: both protocols, and all that servers do wrong."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from epic_memory import EpicMemory, Item, Settings
from epic_memory.verification import LMVerifier
from helpers import HashEncoder
from lm_servers import LMServer, Reply
from scripted import (
    DISCARDED,
    EXPECTED,
    ITEMS,
    KEPT,
    PASSED,
    TEXTS,
    Add,
    Answers,
    Model,
    adding,
    memory_with,
    model_of,
    nothing_lost,
    pairs_of,
)

Make: TypeAlias = Callable[..., Model]
Json: TypeAlias = dict[str, Any]


@pytest.fixture
def make(server: LMServer, kind: str) -> Make:
    """Models of both kinds."""
    return lambda **settings: model_of(server, kind, **{"timeout": 60.0, **settings})


# The server may have to be stopped and started meanwhile, so nothing else may block the event loop either.
@pytest.fixture(params=["thread", "async"], ids=["sync", "async"])
def add(request: pytest.FixtureRequest) -> Add:
    """Adds `ITEMS`, or others, by one path or the other."""
    return adding(request.param)


def patient(lm: Model, **options: Any) -> LMVerifier:
    """A verifier that waits for a moment only."""
    return LMVerifier(lm, **{"backoff": 0.002, **options})


def mended(memory: EpicMemory, answers: Answers, waiting: set[str]) -> None:
    """Once the server is well, what waits is decided, and nothing else is asked about."""
    answers.well()
    before = len(answers.said.asked)
    again = memory.retry()
    assert again.passed == len(waiting)
    nothing_lost(memory, again, waiting=0)
    asked = {chunk for one in answers.said.asked[before:] for chunk in one.chunks}
    assert asked == {TEXTS[name] for name in waiting}
    assert pairs_of(memory) == EXPECTED


# what is sent, and what comes back


@pytest.mark.parametrize(("batch_size", "concurrency"), [(1, 4), (8, 1)])
async def test_the_memory_is_the_same_over_http(
    server: LMServer, make: Make, batch_size: int, concurrency: int, add: Add
) -> None:
    memory = memory_with(LMVerifier(make(concurrency=concurrency), batch_size=batch_size))
    report = await add(memory)

    assert pairs_of(memory) == EXPECTED
    assert (report.kept, report.discarded) == (len(KEPT), len(DISCARDED))
    nothing_lost(memory, report, waiting=0)
    assert server.calls == report.usage.calls == {1: 6, 8: 1}[batch_size]
    assert server.most_at_once <= concurrency
    assert report.usage.prompt_tokens > report.usage.completion_tokens > 0
    assert report.usage.seconds > 0
    assert f"{server.calls:>8} calls" in str(report)


# servers that are not there, or die


class Accident:
    """Stops a server at a request, and starts it again after some seconds, if at all."""

    def __init__(self, server: LMServer, at: int, seconds: float | None) -> None:
        self._server = server
        self._at = at
        self._seconds = seconds
        self._happening = threading.Event()
        self._thread = threading.Thread(target=self._happen, daemon=True)
        self._thread.start()

    def __call__(self, request: Json, number: int) -> Reply | None:
        if number != self._at:
            return None
        self._happening.set()
        # It dies before this is over.
        return Reply(text="never sent", delay=30.0)

    def _happen(self) -> None:
        self._happening.wait(30.0)
        self._server.stop()
        if self._seconds is not None:
            time.sleep(self._seconds)
            self._server.start()

    def over(self) -> None:
        self._thread.join(30.0)


@pytest.mark.parametrize("concurrency", [1, 3])
async def test_a_server_that_dies_and_is_back_too_late(
    server: LMServer, make: Make, answers: Answers, concurrency: int, add: Add
) -> None:
    accident = answers.alter = Accident(server, 4, None)
    memory = memory_with(patient(make(concurrency=concurrency), retries=1, batch_size=1))
    report = await add(memory)
    accident.over()

    decided = report.kept + report.discarded
    assert decided == 3 if concurrency == 1 else decided < len(PASSED)
    nothing_lost(memory, report, waiting=len(PASSED) - decided)
    kept_so_far = pairs_of(memory)
    assert kept_so_far.items() <= EXPECTED.items()

    server.start()
    mended(memory, answers, set(report.failures))


@pytest.mark.parametrize("concurrency", [1, 8])
async def test_a_server_that_hangs_is_not_waited_for_by_every_item(
    server: LMServer, make: Make, answers: Answers, concurrency: int, add: Add
) -> None:
    answers.alter = lambda request, number: Reply(delay=600.0)
    items = [Item(text=f"A vegan dish, number {number}.", id=str(number)) for number in range(60)]
    memory = memory_with(patient(make(timeout=0.08, concurrency=concurrency)))
    report = await add(memory, items)

    assert server.calls == report.usage.calls == 4 if concurrency == 1 else server.calls <= 3 * concurrency
    nothing_lost(memory, report, waiting=60)
    assert all("in time" in reason and "timeout=" in reason for reason in report.failures.values())

    # It hangs still: one attempt of each.
    assert 1 <= memory.retry().usage.calls <= concurrency
    answers.well()
    memory.verifier = patient(make())
    assert memory.retry().discarded == 60


# several at once


def own_memory(verifier: LMVerifier) -> EpicMemory:
    return memory_with(verifier, encoder=HashEncoder())


def test_threads_that_share_a_failing_server_lose_nothing(server: LMServer, make: Make, answers: Answers) -> None:
    answers.alter = lambda request, number: Reply(status=500, text="out of memory") if number % 3 == 0 else None
    verifier = patient(make(concurrency=2), retries=1)
    memories = [own_memory(verifier) for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:
        reports = list(pool.map(lambda memory: memory.add(ITEMS), memories))
    answers.well()

    for memory, report in zip(memories, reports, strict=True):
        nothing_lost(memory, report, waiting=len(report.failures))
        memory.retry()
        assert pairs_of(memory) == EXPECTED


# what is sent to whom


@pytest.fixture
def connections(server: LMServer, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Every address that a connection goes to; only this machine is let through, and only it is looked up."""
    seen: list[Any] = []
    connect, look_up = socket.socket.connect, socket.getaddrinfo

    def guarded(self: socket.socket, address: Any) -> None:
        seen.append(address)
        assert address[0] == "127.0.0.1", f"a connection to {address}"
        connect(self, address)

    def guarded_look_up(host: Any, *arguments: Any, **options: Any) -> Any:
        assert host in ("127.0.0.1", b"127.0.0.1", None), f"{host} was looked up"
        return look_up(host, *arguments, **options)

    monkeypatch.setattr(socket.socket, "connect", guarded)
    monkeypatch.setattr(socket, "getaddrinfo", guarded_look_up)
    return seen


@pytest.mark.parametrize("batch_size", [1, 4])
async def test_connections_go_to_the_server_alone(
    server: LMServer, make: Make, connections: list[Any], batch_size: int, add: Add, tmp_path: Path
) -> None:
    verifier = LMVerifier(make(), batch_size=batch_size)
    with EpicMemory.open(
        tmp_path / "me.epic",
        ["Vegan diet", "Old churches"],
        encoder=HashEncoder(),
        settings=Settings(verifier=verifier, tau=0.05),
    ) as memory:
        await add(memory)
        memory.preferences.add("Night trains")
        memory.search("Where to eat?")
        memory.retry()

    port = int(server.url.rpartition(":")[2])
    assert server.calls > 0
    assert set(connections) == {("127.0.0.1", port)}
    assert {request.path for request in server.requests} <= {"/api/chat", "/v1/chat/completions"}
