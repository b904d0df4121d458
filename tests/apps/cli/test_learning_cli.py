"""What the user says of themselves, on the command line: answers at a terminal, forms, and days."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path

import pytest

from command_line import Epic
from epic_memory import EpicMemory

ME = "me.epic"


@pytest.fixture
def epic(terminal: Epic) -> Epic:
    return terminal


def written(name: str, content: object) -> str:
    Path(name).write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return name


def typed(monkeypatch: pytest.MonkeyPatch, *answers: str | type[BaseException]) -> None:
    coming: Iterator[str | type[BaseException]] = iter(answers)

    def read(prompt: str) -> str:
        answer = next(coming, EOFError)
        if isinstance(answer, str):
            return answer
        raise answer

    monkeypatch.setattr("builtins.input", read)


def preferences() -> list[str]:
    with EpicMemory.open(ME) as memory:
        return [each.text for each in memory.preferences]


def test_answers_at_a_terminal(epic: Epic, monkeypatch: pytest.MonkeyPatch) -> None:
    typed(monkeypatch, "", "short", "y", "b", "long", "I like long answers", KeyboardInterrupt)
    assert epic("onboard", ME).code == 130  # what was answered is kept
    typed(monkeypatch, "bold", "y", "", "")
    assert "1 answers are kept" in epic("onboard", ME).out
    kept = ["I prefer answers that are short", "I like long answers", "I prefer advice that is bold"]
    assert sorted(preferences()) == sorted(kept)


def test_a_form_is_filled_in_and_days_are_listed(epic: Epic) -> None:
    soon = date.today() + timedelta(days=5)
    with EpicMemory.open(ME, ["I avoid hotels with casinos."]) as memory:
        memory.facts.add("I was born on 12 August 1986.")
        memory.facts.add(f"The exam is on {soon}.")
    form = written("form.json", {"fields": [{"name": "born", "type": "date"}, {"name": "blood_type"}]})
    shown = epic("fill", ME, form).out
    assert "born: 1986-08-12" in shown and '"I was born on 12 August 1986."' in shown
    assert "blood_type: (nothing relevant is known)" in shown and "1 of 2 fields filled in." in shown
    assert [each["value"] for each in json.loads(epic("fill", ME, form, "--json").out)] == ["1986-08-12", None]
    for wrong in (ME, written("deep.json", "[" * 100_000)):
        assert epic("fill", ME, wrong).code == 2
    assert f"{soon}  The exam" in epic("due", ME).out
    assert "No fact names a day" in epic("due", ME, "--before", str(soon)).out
    assert epic("due", ME, "--before", "soon").code == 2
