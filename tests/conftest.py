"""What all tests share: models behind a server in each protocol, and assertions that show their values everywhere."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

# A machine that has other things to do is slow, and nothing is wrong with that.
settings.register_profile("shared machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("shared machine")

pytest.register_assert_rewrite("graph_helpers", "helpers", "lm_servers", "scripted")


@pytest.fixture(params=["ollama", "openai"])
def kind(request: pytest.FixtureRequest) -> str:
    """The protocol a model's server speaks."""
    return str(request.param)


@pytest.fixture(params=[False, True], ids=["whole", "stream"])
def stream(request: pytest.FixtureRequest) -> bool:
    """Whether an answer comes in parts."""
    return bool(request.param)
