"""One's own memory: what is reported without a model, and what a model follows with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from command_line import Epic, jsonl, refused
from epic_eval.own import look, read_questions
from epic_memory import EpicMemory
from epic_memory.lm import Message
from evaluation_data import OPTIONS, TRAINS, VEGAN
from lm_servers import LMServer

SOCKS = "I only wear grey woollen socks."


@pytest.fixture
def memory(path: Path) -> Path:
    with EpicMemory.open(path, [VEGAN, TRAINS, SOCKS]) as made:
        made.add([option for options in OPTIONS.values() for option in options])
    return path


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    return jsonl(
        tmp_path / "questions.jsonl",
        {"question": "What should I cook for dinner tonight?", "preference": VEGAN},
        {"question": "How should I travel to Vienna?"},
        {"question": "Who proved the theorem of Pythagoras?"},
    )


def test_what_is_used_and_what_finds_nothing(memory: Path, questions: Path) -> None:
    with EpicMemory.open(memory) as opened:
        report = look(opened, read_questions(questions, [VEGAN, TRAINS, SOCKS]))
    assert report.nothing == ["Who proved the theorem of Pythagoras?"]
    assert report.unused == [SOCKS]
    assert report.items[VEGAN] > 0
    assert report.found[0].preference == VEGAN and report.found[1].preference == TRAINS
    assert report.found[2].preference == ""


def test_the_command_leaves_the_memory_alone(memory: Path, questions: Path, epic: Epic) -> None:
    before = memory.read_bytes()
    done = epic("eval", str(memory), str(questions))
    assert done.code == 0, done.err
    assert "Questions that find nothing" in done.out and "theorem of Pythagoras" in done.out
    assert "Of 1 questions with a preference, 1 used it" in done.out
    assert memory.read_bytes() == before
    refused(epic("eval", str(memory), str(questions) + "x"), "cannot be read")
    refused(epic("eval", str(memory.with_name("no.epic")), str(questions)), "no.epic")


def test_the_command_leaves_the_encoder_to_the_file(
    memory: Path, questions: Path, epic: Epic, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, opened = [], EpicMemory.open

    def noted(*args: Any, **options: Any) -> EpicMemory:
        asked.append(options["encoder"])
        return opened(*args, **options)

    monkeypatch.setattr(EpicMemory, "open", noted)
    assert epic("eval", str(memory), str(questions)).code == 0
    assert epic("eval", str(memory), str(questions), "--encoder", "static").code == 0
    assert asked == [None, "static"]


def test_a_model_is_judged_with_the_memory_and_without(
    memory: Path, questions: Path, epic: Epic, tmp_path: Path
) -> None:
    def reply(request: dict[str, object]) -> str:
        text = [Message(**message) for message in request["messages"]][-1].content  # type: ignore[attr-defined]
        if "The answer:" in text or "The statement:" in text:
            follows = any(options[0] in text for options in OPTIONS.values())
            yes = "specific, relevant" in text or ("answer recommend" in text and not follows)
            return json.dumps({"quote": "", "answer": "yes" if yes else "no"})
        options = OPTIONS[VEGAN if "cook" in text.rsplit("question", 2)[1] else TRAINS]
        return options[0] if "preferences:" in text else options[1]

    with LMServer(reply) as server:
        model = ("--llm", "openai:tiny", "--llm-url", server.base_url, "--out", str(tmp_path / "out"))
        done = epic("eval", str(memory), str(questions), *model)
        assert done.code == 0, done.err
        rows = {line.split("  ")[0]: line.split() for line in done.out.splitlines()}
        assert "100.0" in rows["with the memory"]
        assert "0.0" in rows["without it"]
        asked = [line for line in done.out.splitlines() if line.startswith("Answered and judged")]
        again = epic("eval", str(memory), str(questions), *model)
        assert "0 asked" not in asked[0] and again.out.count("0 asked") == 2
        assert [line for line in again.out.splitlines() if line.startswith("with the memory")] == [
            line for line in done.out.splitlines() if line.startswith("with the memory")
        ]
    refused(epic("eval", str(memory), str(questions), "--llm", "openai:tiny"), "address")


def test_wrong_questions_are_named(tmp_path: Path) -> None:
    for record, said in (({"q": "a"}, "line 1"), ({"question": "a", "preference": "b"}, "'b'")):
        with pytest.raises(Exception, match=said):
            read_questions(jsonl(tmp_path / "q.jsonl", record), [VEGAN])
    with pytest.raises(Exception, match="no questions"):
        read_questions(jsonl(tmp_path / "q.jsonl"), [VEGAN])
