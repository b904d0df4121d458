"""What the user says of themselves, on the command line: onboard, proposals, note, facts, fill and due."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path

import pytest

from command_line import Epic, refused
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


def test_a_memory_says_what_would_bring_preferences_and_that_it_is_empty(epic: Epic) -> None:
    assert epic("onboard", ME, "--answers", written("none.json", {})).code == 0
    asked = epic("ask", ME, "How deep is the sea?").out
    assert "It has no preferences to rank by: epic onboard" in asked and "Nothing in this memory yet" in asked
    epic("preferences", ME, "add", "I avoid hotels with casinos.")
    epic("note", ME, "The door code is 4471.")
    asked = epic("ask", ME, "How deep is the sea?").out
    assert "no preferences" not in asked and "Nothing relevant in this memory" in asked
    assert "But you said: I avoid hotels with casinos." in epic("ask", ME, "Which hotel should I book?").out


def test_a_chat_is_learnt_from_once_it_is_accepted(epic: Epic) -> None:
    chat = written("chat.txt", "User: I'm allergic to peanuts. I love opera.\nAssistant: I hate opera.\n")
    learnt = epic("import", ME, chat)
    assert learnt.code == 0 and "2 proposals wait for you" in learnt.out
    assert preferences() == []
    ids = [line.split()[0] for line in epic("proposals", ME).out.splitlines() if "add preference" in line]
    assert len(ids) == 2
    assert "accepted" in epic("proposals", ME, "accept", ids[0], "--text", "No nuts for me").out
    assert "rejected" in epic("proposals", ME, "reject", "all").out
    assert preferences() == ["No nuts for me"]
    assert "0 proposals wait" in epic("proposals", ME).out


def test_answers_from_a_file(epic: Epic) -> None:
    answers = written("answers.json", {"advice": "bold", "tone": "short"})
    assert "2 answers are kept" in epic("onboard", ME, "--answers", answers).out
    assert "0 answers are kept" in epic("onboard", ME, "--answers", answers).out
    assert preferences() == ["I prefer advice that is bold", "I prefer answers that are short"]


def test_answers_at_a_terminal(epic: Epic, monkeypatch: pytest.MonkeyPatch) -> None:
    typed(monkeypatch, "", "short", "y", "b", "long", "I like long answers", KeyboardInterrupt)
    assert epic("onboard", ME).code == 130  # what was answered is kept
    typed(monkeypatch, "bold", "y", "", "")
    assert "1 answers are kept" in epic("onboard", ME).out
    kept = ["I prefer answers that are short", "I like long answers", "I prefer advice that is bold"]
    assert sorted(preferences()) == sorted(kept)


def test_what_cannot_be_is_said(epic: Epic) -> None:
    refused(epic("onboard", ME, "--answers", written("a.json", {"nonsense": "x"})), "nonsense")
    refused(epic("onboard", ME, "--answers", written("b.json", "{")), "b.json")
    refused(epic("proposals", ME), "no memory at")  # a name that was mistyped makes no file
    assert not Path(ME).exists()
    epic("onboard", ME, "--answers", written("none.json", {}))
    refused(epic("proposals", ME, "accept", "abc"), "abc")
    refused(epic("proposals", ME, "accept"), "all")
    refused(epic("note", ME, ""), "is empty")


def test_notes_show_what_they_change_are_undone_and_forgotten(epic: Epic) -> None:
    EpicMemory.open(ME, []).close()
    shown = epic("note", ME, "I live in Porto.", "We moved to Braga.").out
    assert "insert: I live in Porto." in shown and "perhaps it changes 'I live in Porto.': a proposal waits" in shown
    assert "We moved to Braga." in epic("proposals", ME, "accept", "all").out
    listed = epic("facts", ME, "--history").out
    assert "insert: We moved to Braga." in listed and "end: I live in Porto." in listed
    assert "I live in Porto." in epic("facts", ME, "--undo", "3").out.splitlines()[-1]
    (line,) = [line for line in listed.splitlines() if "insert: We moved to Braga." in line]
    assert epic("forget", ME, line.rstrip("]").split("[")[-1]).code == 0
    assert "Braga" not in epic("facts", ME, "--history").out


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
