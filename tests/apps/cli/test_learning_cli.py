"""epic onboard, learn and proposals."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from command_line import Epic, refused
from epic_memory import EpicMemory


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "me.epic")


def written(path: Path, content: object) -> str:
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return str(path)


def typed(monkeypatch: pytest.MonkeyPatch, *answers: str | type[BaseException]) -> None:
    coming: Iterator[str | type[BaseException]] = iter(answers)

    def read(prompt: str) -> str:
        answer = next(coming, EOFError)
        if isinstance(answer, str):
            return answer
        raise answer

    monkeypatch.setattr("builtins.input", read)


def preferences(path: str) -> list[str]:
    with EpicMemory.open(path) as memory:
        return [each.text for each in memory.preferences]


def test_a_memory_without_preferences_says_what_would_bring_some(epic: Epic, path: str) -> None:
    assert epic("onboard", path, "--answers", written(Path(path).with_name("none.json"), {})).code == 0
    assert "It has no preferences to rank by: epic onboard" in epic("ask", path, "Where to?").out
    epic("preferences", path, "add", "I love jazz.")
    assert "no preferences" not in epic("ask", path, "Where to?").out


def test_a_chat_is_learnt_from_once_it_is_accepted(epic: Epic, path: str, tmp_path: Path) -> None:
    chat = written(tmp_path / "chat.txt", "User: I'm allergic to peanuts. I love opera.\nAssistant: I hate opera.\n")
    learnt = epic("import", path, chat)
    assert learnt.code == 0 and "2 proposals wait for you" in learnt.out
    assert preferences(path) == []
    ids = [line.split()[0] for line in epic("proposals", path).out.splitlines() if "add preference" in line]
    assert len(ids) == 2
    assert "accepted" in epic("proposals", path, "accept", ids[0], "--text", "No nuts for me").out
    assert "rejected" in epic("proposals", path, "reject", "all").out
    assert preferences(path) == ["No nuts for me"]
    assert "0 proposals wait" in epic("proposals", path).out


def test_answers_from_a_file(epic: Epic, path: str, tmp_path: Path) -> None:
    answers = written(tmp_path / "answers.json", {"advice": "bold", "tone": "short"})
    assert "2 answers are kept" in epic("onboard", path, "--answers", answers).out
    assert "0 answers are kept" in epic("onboard", path, "--answers", answers).out
    assert preferences(path) == ["I prefer advice that is bold", "I prefer answers that are short"]


def test_answers_at_a_terminal(epic: Epic, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    typed(monkeypatch, "", "short", "y", "b", "long", "I like long answers", "", "")
    assert "2 answers are kept" in epic("onboard", path).out
    assert preferences(path) == ["I prefer answers that are short", "I like long answers"]


def test_an_interruption_keeps_what_was_answered(epic: Epic, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    typed(monkeypatch, "bold", "y", KeyboardInterrupt)
    assert epic("onboard", path).code == 130
    assert preferences(path) == ["I prefer advice that is bold"]


def test_what_cannot_be_is_said(epic: Epic, path: str, tmp_path: Path) -> None:
    refused(epic("onboard", path, "--answers", written(tmp_path / "a.json", {"nonsense": "x"})), "nonsense")
    refused(epic("onboard", path, "--answers", written(tmp_path / "b.json", "{")), "b.json")
    refused(epic("proposals", path), "no memory at")  # a name that was mistyped makes no file
    assert not Path(path).exists()
    epic("onboard", path, "--answers", written(tmp_path / "none.json", {}))
    refused(epic("proposals", path, "accept", "abc"), "abc")
    refused(epic("proposals", path, "accept"), "all")
