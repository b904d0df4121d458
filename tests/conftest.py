"""What all tests share: models behind a server in each protocol, and assertions that show their values everywhere."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

# There are as many workers as cores: more threads in each would only wait for each other. Before numpy is imported.
for _library in ("OMP", "OPENBLAS", "MKL"):
    os.environ.setdefault(f"{_library}_NUM_THREADS", "1")

import pytest
from hypothesis import HealthCheck, settings

# A machine that has other things to do is slow, and nothing is wrong with that.
_PATIENT = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("default", max_examples=10, **_PATIENT)
settings.register_profile("ci", max_examples=100, **_PATIENT)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

pytest.register_assert_rewrite("command_line", "graph_helpers", "helpers", "lm_servers", "scripted", "sessions")


from helpers import Clock, Encode, encoding  # its assertions are rewritten

if TYPE_CHECKING:
    from command_line import Epic
    from scripted import Add, Complete


def pytest_collection_finish() -> None:
    """Leave what is loaded by now out of each later collection of garbage, which would look at all of it again."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a memory's file is to be."""
    return tmp_path / "me.epic"


@pytest.fixture(scope="module", params=["plain", "locked"])
def locking(request: pytest.FixtureRequest) -> Iterator[None]:
    """Have every file of a test be as it is by default, and be locked."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "locked":
            pytest.importorskip("sqlcipher3")
            from locked import lock_files

            lock_files(patch)
        yield


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """A clock that can be set."""
    return Clock(monkeypatch)


@pytest.fixture(params=["ollama", "openai"])
def kind(request: pytest.FixtureRequest) -> str:
    """The protocol a model's server speaks."""
    return str(request.param)


@pytest.fixture(params=["sync", "async"])
def add(request: pytest.FixtureRequest) -> Add:
    """Adds the items of the scripted models, or others, by one path or the other."""
    from scripted import adding

    return adding(request.param)


@pytest.fixture(params=["sync", "async"])
def complete(request: pytest.FixtureRequest) -> Complete:
    """Completes messages by one path or the other."""
    from scripted import completing

    return completing(request.param)


@pytest.fixture(params=["sync", "async"])
def encode(request: pytest.FixtureRequest) -> Encode:
    """Embeds texts by one path or the other."""
    return encoding(request.param, "encode")


@pytest.fixture(params=["sync", "async"])
def encode_query(request: pytest.FixtureRequest) -> Encode:
    """Embeds a query by one path or the other."""
    return encoding(request.param, "encode_query")


@pytest.fixture
def epic(capsys: pytest.CaptureFixture[str]) -> Epic:
    """Runs commands in this process."""
    from command_line import runner

    return runner(capsys)
