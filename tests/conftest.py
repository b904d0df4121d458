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


from helpers import Call, Clock, calling  # its assertions are rewritten

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
def call(request: pytest.FixtureRequest) -> Call:
    """Calls a method of anything by its name, or its asynchronous twin."""
    return calling(request.param)


@pytest.fixture
def add(call: Call) -> Add:
    """Adds the items of the scripted models, or others, by one path or the other."""
    from scripted import ITEMS

    return lambda memory, items=ITEMS: call(memory, "add", items)


@pytest.fixture
def complete(call: Call) -> Complete:
    """Has a model complete the messages of the scripted models, or others, by one path or the other."""
    from scripted import ASKED

    return lambda lm, messages=ASKED, **options: call(lm, "complete", messages, **options)


@pytest.fixture
def encode(call: Call) -> Call:
    """Embeds texts by one path or the other."""
    return lambda encoder, texts: call(encoder, "encode", texts)


@pytest.fixture
def encode_query(call: Call) -> Call:
    """Embeds a query by one path or the other."""
    return lambda encoder, text: call(encoder, "encode_query", text)


@pytest.fixture
def epic(capsys: pytest.CaptureFixture[str]) -> Epic:
    """Runs commands in this process."""
    from command_line import runner

    return runner(capsys)
