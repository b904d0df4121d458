"""Fixtures of the tests over real HTTP: a scripted model behind a server, and both ways to add items."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from helpers import HashEncoder
from lm_servers import LMServer
from scripted import forget_environment, script


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[LMServer]:
    forget_environment(monkeypatch)
    # Ollama's embeddings are unit vectors of most models, but not of all.
    said, embed = script(), lambda text: 7 * HashEncoder().vector(text)
    with LMServer(lambda body: said(body["messages"]), models=("tiny", "embedder"), embed=embed) as server:
        yield server
