"""A server that always gives the same answer, and an environment without settings for models."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lm_servers import LMServer
from scripted import forget_environment


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    forget_environment(monkeypatch)


@pytest.fixture
def server() -> Iterator[LMServer]:
    with LMServer(lambda request: "Yes, it is.") as server:
        yield server
