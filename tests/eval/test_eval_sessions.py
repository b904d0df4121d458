"""Sessions with `epic eval` in a folder with the tiny data, as `sessions.play` reads them."""

from __future__ import annotations

from pathlib import Path

import pytest

from command_line import Epic
from evaluation_data import tiny_data
from sessions import play

SESSIONS = sorted(Path(__file__).with_name("sessions").glob("*.txt"))


@pytest.mark.parametrize("session", SESSIONS, ids=lambda file: file.stem)
def test_a_session_goes_as_it_is_written(
    session: Path, epic: Epic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    tiny_data(tmp_path / "data", personas=1)
    play(session, epic)
