"""What all tests share: models behind a server in each protocol, and assertions that show their values everywhere."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("helpers", "lm_servers", "scripted")


@pytest.fixture(params=["ollama", "openai"])
def kind(request: pytest.FixtureRequest) -> str:
    """The protocol a model's server speaks."""
    return str(request.param)


@pytest.fixture(params=[False, True], ids=["whole", "stream"])
def stream(request: pytest.FixtureRequest) -> bool:
    """Whether an answer comes in parts."""
    return bool(request.param)
