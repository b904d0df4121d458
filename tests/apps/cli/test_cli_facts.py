"""Facts on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from epic_apps.cli.main import main
from epic_memory import EpicMemory


def test_notes_show_what_they_change_and_are_undone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "me.epic")
    EpicMemory.open(path, ["I avoid hotels with casinos."]).close()
    assert main(["note", path, "I live in Porto.", "We moved to Braga."]) == 0
    shown = capsys.readouterr().out
    assert "insert: I live in Porto." in shown and "replace: We moved to Braga. (before: I live in Porto.)" in shown
    assert main(["facts", path, "--history"]) == 0
    listed = capsys.readouterr().out
    assert "We moved to Braga." in listed and "insert: I live in Porto." in listed
    assert main(["facts", path, "--undo", "2"]) == 0
    assert "I live in Porto." in capsys.readouterr().out.splitlines()[-1]
    assert main(["note", path, "My car is a Skoda.", "I sold my car."]) == 0
    capsys.readouterr()
    assert main(["facts", path, "--history"]) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "end: I sold my car." in line]
    ended = line.rstrip("]").split(", ")[-1]
    assert main(["forget", path, ended]) == 0
    assert main(["facts", path, "--history"]) == 0
    assert "Skoda" not in capsys.readouterr().out


def test_a_memory_of_facts_is_not_empty(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "me.epic")
    EpicMemory.open(path, ["I avoid hotels with casinos."]).close()
    assert main(["ask", path, "How deep is the sea?"]) == 0
    assert "Nothing in this memory yet" in capsys.readouterr().out
    assert main(["note", path, "The door code is 4471."]) == 0
    assert main(["ask", path, "How deep is the sea?"]) == 0
    assert "Nothing relevant in this memory" in capsys.readouterr().out
    assert main(["ask", path, "Which hotel should I book?"]) == 0
    assert "But you said: I avoid hotels with casinos." in capsys.readouterr().out


def test_an_empty_fact_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "me.epic")
    EpicMemory.open(path, []).close()
    assert main(["note", path, ""]) == 2
    assert "is empty" in capsys.readouterr().err
