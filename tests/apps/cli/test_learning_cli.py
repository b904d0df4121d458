"""What the user says of themselves, on the command line: answers at a terminal, and a form that is no form."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from command_line import Epic, refused
from epic_memory import EpicMemory


def typed(monkeypatch: pytest.MonkeyPatch, *answers: str | type[BaseException]) -> None:
    coming: Iterator[str | type[BaseException]] = iter(answers)

    def read(prompt: str) -> str:
        answer = next(coming, EOFError)
        if isinstance(answer, str):
            return answer
        raise answer

    monkeypatch.setattr("builtins.input", read)


def test_answers_at_a_terminal(terminal: Epic, monkeypatch: pytest.MonkeyPatch) -> None:
    typed(monkeypatch, "", "short", "y", "b", "long", "I like long answers", KeyboardInterrupt)
    assert terminal("onboard", "me.epic").code == 130  # what was answered is kept
    typed(monkeypatch, "bold", "y", "", "")
    assert "1 answers are kept" in terminal("onboard", "me.epic").out
    kept = ["I prefer answers that are short", "I like long answers", "I prefer advice that is bold"]
    with EpicMemory.open("me.epic") as memory:
        assert sorted(each.text for each in memory.preferences) == sorted(kept)


def test_a_form_that_is_nested_too_deeply_is_refused(terminal: Epic) -> None:
    EpicMemory.open("me.epic", []).close()
    Path("deep.json").write_text("[" * 100_000, encoding="utf-8")
    refused(terminal("fill", "me.epic", "deep.json"), "deep.json")
