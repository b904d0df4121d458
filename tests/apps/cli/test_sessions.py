"""Sessions at the command line, as `sessions.play` reads them: what a user types, and parts of what comes back."""

from __future__ import annotations

from pathlib import Path

import pytest

from command_line import Epic
from sessions import play

SESSIONS = sorted(Path(__file__).with_name("sessions").glob("*.txt"))


@pytest.mark.parametrize("session", SESSIONS, ids=lambda file: file.stem)
def test_a_session_goes_as_it_is_written(terminal: Epic, session: Path) -> None:
    play(session, terminal)
