"""One's own memory: what is reported without a model, and what a model follows with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from command_line import Epic, jsonl, refused
from epic_eval.metrics import overlaps
from epic_eval.own import look, read_questions
from epic_graph import GraphMemory
from epic_memory import EpicMemory, SearchOptions, Settings
from epic_memory.lm import Message
from epic_rerank import Adaptive
from epic_rerank.selection import GraphSelection
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
        assert {line.split("  ")[0]: line.split() for line in again.out.splitlines()}["with the memory"] == (
            rows["with the memory"]
        )
    refused(epic("eval", str(memory), str(questions), "--llm", "openai:tiny"), "address")


BOSS, FLIGHT = "My boss is Ines Brandt.", "The flight of Ines Brandt to Amsterdam leaves at 01:40."
FLIES = "What time is my boss's flight to Amsterdam?"


def test_a_graph_takes_the_notes_that_a_question_needs() -> None:
    others = ["Tea is brewed.", "The flight to Oslo was late.", "I booked a hotel in Amsterdam for May."]
    with GraphMemory([VEGAN], settings=Settings(coarse=False, fine=False)) as graph:
        graph.add([BOSS, FLIGHT, "Ines Brandt likes tulips.", *others])
        found = graph.search(FLIES, 8, options=SearchOptions(chooser=Adaptive(policy=GraphSelection.shipped())))
    assert {hit.text for hit in found} == {BOSS, FLIGHT}


def test_right_answers_are_measured_task_by_task(path: Path, tmp_path: Path, epic: Epic) -> None:
    with EpicMemory.open(path, [VEGAN], settings=Settings(coarse=False, fine=False)) as made:
        made.add([BOSS, FLIGHT, "Tea is brewed."])
    asked = jsonl(
        tmp_path / "q.jsonl",
        {"question": FLIES, "answer": "It leaves at 01:40."},
        {"question": "Who is my boss?", "answer": "Ines Brandt", "task": "form"},
    )

    def reply(request: dict[str, object]) -> str:
        text = [Message(**message) for message in request["messages"]][-1].content  # type: ignore[attr-defined]
        if "01:40" in text and "flight to Amsterdam?" in text:
            return "It leaves at 01:40."
        return "ines brandt." if "My boss is" in text and "Who" in text else "It never leaves."

    with LMServer(reply) as server:
        model = ("--llm", f"openai:tiny@{server.base_url}", "--out", str(tmp_path / "o"))
        done = epic("eval", str(path), str(asked), *model)
    assert done.code == 0, done.err
    rows = {line.split("  ")[0]: line.split()[-7:] for line in done.out.splitlines()}
    assert rows["with the memory, qa"][2:] == ["1.000"] * 5
    assert rows["with the memory, form"][-1] == "1.000"
    assert rows["without it, qa"][-1] == "0.000" and 0.3 < float(rows["without it, qa"][2]) < 0.6
    assert 1 <= float(rows["those it needs, qa"][1]) <= float(rows["with the memory, qa"][1])


@pytest.mark.parametrize(
    ("answer", "reference", "expected"),
    [
        ("a b c d", "a b c d", (1, 1, 1, 1, 1)),
        ("A, b!", "a b", (1, 1, 1, None, 1)),
        ("d c b a", "a b c d", (1, 0, 0.25, None, 0)),
        ("a b", "a b c d", (2 / 3, 0.5, 2 / 3, None, 0)),
        ("", "a", (0, 0, 0, 0, 0)),
    ],
)
def test_overlaps_are_those_of_rouge_and_bleu(answer: str, reference: str, expected: tuple[float | None, ...]) -> None:
    for (name, value), right in zip(overlaps(answer, reference).items(), expected, strict=True):
        assert right is None or value == pytest.approx(right), name
    assert overlaps("a b c d", "a b c e")["BLEU"] == pytest.approx((3 / 4 * 3 / 4 * 2 / 3 * 1 / 2) ** 0.25)
    assert overlaps("a b c d e", "a b c d e f g")["BLEU"] == pytest.approx(2.718281828 ** (1 - 7 / 5))


def test_wrong_questions_are_named(tmp_path: Path) -> None:
    for record, said in (({"q": "a"}, "line 1"), ({"question": "a", "preference": "b"}, "'b'")):
        with pytest.raises(Exception, match=said):
            read_questions(jsonl(tmp_path / "q.jsonl", record), [VEGAN])
    with pytest.raises(Exception, match="no questions"):
        read_questions(jsonl(tmp_path / "q.jsonl"), [VEGAN])
