"""Verification by a model behind a server: where its connections go."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from epic_memory import EpicMemory, Settings
from epic_memory.verification import LMVerifier
from helpers import HashEncoder
from lm_servers import LMServer
from scripted import Add, Model, model_of

Make: TypeAlias = Callable[..., Model]


@pytest.fixture
def make(server: LMServer, kind: str) -> Make:
    """Models of both kinds."""
    return lambda **settings: model_of(server, kind, **{"timeout": 60.0, **settings})


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
