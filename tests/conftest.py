"""What all tests share: models behind a server in each protocol, and assertions that show their values everywhere."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

# A machine that has other things to do is slow, and nothing is wrong with that.
settings.register_profile("shared machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("shared machine")

pytest.register_assert_rewrite("graph_helpers", "helpers", "lm_servers", "scripted")


@pytest.fixture(autouse=True)
def reserve(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget what is not kept, as the paper does, unless a test is about the light tier (marker `light_tier`)."""
    if request.node.get_closest_marker("light_tier") is None:
        monkeypatch.setattr("epic_core.pipeline.opening.DEFAULT_RESERVE", 0)


@pytest.fixture(params=["ollama", "openai"])
def kind(request: pytest.FixtureRequest) -> str:
    """The protocol a model's server speaks."""
    return str(request.param)


@pytest.fixture(params=[False, True], ids=["whole", "stream"])
def stream(request: pytest.FixtureRequest) -> bool:
    """Whether an answer comes in parts."""
    return bool(request.param)
