"""Fixtures of the tests over real HTTP: a scripted model behind a server, and both ways to add items."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from helpers import HashEncoder
from lm_servers import LMServer
from scripted import Answers, forget_environment


@pytest.fixture
def answers() -> Answers:
    return Answers()


@pytest.fixture
def server(answers: Answers, monkeypatch: pytest.MonkeyPatch) -> Iterator[LMServer]:
    forget_environment(monkeypatch)
    # Ollama's embeddings are unit vectors of most models, but not of all.
    with LMServer(answers, models=("tiny", "embedder"), embed=lambda text: 7 * HashEncoder().vector(text)) as server:
        yield server
