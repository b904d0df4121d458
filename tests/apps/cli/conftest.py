"""What the tests of the command line share: a folder of their own, and Ctrl-C."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from command_line import Epic, runner
from scripted import forget_environment


@pytest.fixture
def terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Epic:
    """Runs a command in an empty folder."""
    forget_environment(monkeypatch)
    monkeypatch.delenv("EPIC_LLM_KEY", raising=False)
    monkeypatch.chdir(tmp_path)
    for home in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(home, str(tmp_path))
    return runner(capsys)


@pytest.fixture
def sigint() -> Iterator[None]:
    """A shell that runs the tests in the background has SIGINT ignored, and a child would inherit that."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
