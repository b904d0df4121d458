"""What all tests share: models behind a server in each protocol, and assertions that show their values everywhere."""

from __future__ import annotations

import os
from collections import defaultdict
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

pytest.register_assert_rewrite("command_line", "graph_helpers", "helpers", "lm_servers", "scripted")


from helpers import Clock, Encode, encoding  # its assertions are rewritten

if TYPE_CHECKING:
    from command_line import Epic
    from scripted import Add, Complete


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--cases",
        default="2",
        help="how many cases of each test run; 'all'; or 'rest', what `pytest` alone leaves out: other cases and, with"
        " folders that allow them, slow tests, those that need torch, robustness and integration",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep a few cases of each test, or those that the default leaves out; the suites of the frameworks run whole."""
    cases = config.getoption("--cases")
    if cases == "all" or any("::" in argument for argument in config.args):
        return
    most = 2 if cases == "rest" else int(cases)
    places: dict[str, list[int]] = defaultdict(list)
    for place, item in enumerate(items):
        places[item.nodeid.split("[")[0]].append(place)
    kept: set[int] = set()
    for name, of in places.items():
        few = "conformance/" not in name and len(of) > most
        kept |= {of[round(n * (len(of) - 1) / max(1, most - 1))] for n in range(most)} if few else set(of)
    if cases == "rest":
        kept = {place for place, item in enumerate(items) if place not in kept or _left_out(item)}
    config.hook.pytest_deselected(items=[item for place, item in enumerate(items) if place not in kept])
    items[:] = [item for place, item in enumerate(items) if place in kept]


def _left_out(item: pytest.Item) -> bool:
    """Tell whether `pytest` alone never runs a test."""
    folders = {"robustness", "integration"} & set(item.path.parts)
    return bool(folders) or any(item.get_closest_marker(name) is not None for name in ("slow", "torch"))


@pytest.fixture(autouse=True)
def reserve(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget what is not kept, as the paper does, unless a test is about the light tier (marker `light_tier`)."""
    if request.node.get_closest_marker("light_tier") is None:
        monkeypatch.setattr("epic_core.pipeline.opening.DEFAULT_RESERVE", 0)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a memory's file is to be."""
    return tmp_path / "me.epic"


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
