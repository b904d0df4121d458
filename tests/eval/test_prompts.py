"""`epic eval prompts`: figures of a scripted model on labelled pairs, stopping and going on."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from command_line import Epic, jsonl
from epic_eval.experiments.prompts import ask, pairs_of, read_notes
from epic_memory.lm import Completion
from epic_memory.types import Stance
from epic_memory.verification import LMVerifier
from helpers import HashEncoder
from lm_servers import LMServer, Reply
from scripted import Script

TEA, TRAINS = "I love green tea.", "I avoid night trains."
SENCHA = "Sencha is a green tea. It costs nine euros."
BAR = "The bar car opens at ten. Night trains rattle through each village."
LOAF = "A loaf of bread needs yeast."
MATCHA = "Matcha is ground green tea. People stir it."
RECORDS = [
    {
        "text": SENCHA,
        "pairs": [{"preference": TEA, "stance": "supports", "evidence": "a green tea"}, {"preference": TRAINS}],
    },
    {"text": BAR, "pairs": [{"preference": TRAINS, "stance": "conflicts", "evidence": "rattle through each village"}]},
    {"text": LOAF, "pairs": [{"preference": TEA}]},
    {"text": MATCHA, "pairs": [{"preference": TEA, "stance": "mixed", "evidence": "ground green tea"}]},
]
# Right; with the first sentence as evidence, which is wrong; wrong; on the wrong side.
SAID = {(SENCHA, TEA): Stance.SUPPORTS, (BAR, TRAINS): Stance.CONFLICTS, (LOAF, TEA): Stance.SUPPORTS}
SAID |= {(MATCHA, TEA): Stance.SUPPORTS}


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    return jsonl(tmp_path / "pairs.jsonl", *RECORDS)


@pytest.fixture
def server() -> Iterator[LMServer]:
    with LMServer(lambda request: Script(SAID)(request["messages"])) as server:
        yield server


def rows_of(printed: str) -> dict[str, str]:
    """The last column of a table, by the first."""
    cells = [line.strip().split("  ") for line in printed.splitlines() if "  " in line]
    return {row[0].strip(): row[-1].strip() for row in cells}


def test_the_bundled_pairs_are_half_of_them_such_that_matter() -> None:
    notes = read_notes()
    labels = [(note, label) for note in notes for label in note.labels.values()]
    assert len(labels) == 200
    matter = [(note, label) for note, label in labels if label.stance is not None]
    assert len(matter) == 100 and all(label.evidence for _, label in matter)
    assert all(label.evidence in note.item.content for note, label in matter)


def test_a_model_is_scored_and_not_asked_twice(epic: Epic, pairs: Path, server: LMServer, tmp_path: Path) -> None:
    model = ("--llm", f"openai:tiny@{server.base_url}", "--pairs", str(pairs), "--out", str(tmp_path / "out"))
    done = epic("eval", "prompts", *model)
    assert done.code == 0, done.err
    rows = rows_of(done.out)
    assert (rows["keep"], rows["found"], rows["right"]) == ("0.80 of 5", "1.00 of 3", "0.75 of 4")
    assert (rows["stance"], rows["evidence"]) == ("0.67 of 3", "0.67 of 3")
    assert (rows["undecided notes"], rows["notes asked about"]) == ("0", "4 of 4")
    assert rows["calls"].startswith(f"{server.calls}, ") and float(rows["calls a second"]) > 0.0
    assert (tmp_path / "out" / "prompts.md").exists()
    calls = server.calls
    again = epic("eval", "prompts", *model)
    assert server.calls == calls and rows_of(again.out)["keep"] == "0.80 of 5"


def test_without_a_model_the_embedded_verifier_is_scored(epic: Epic, pairs: Path) -> None:
    done = epic("eval", "prompts", "--pairs", str(pairs))
    assert done.code == 0 and "no model" in done.out
    assert rows_of(done.out)["notes asked about"] == "4 of 4"


class Model:
    """A model that is interrupted at one of its calls, or hangs at it until it is cancelled."""

    name, concurrency, context = "own", 1, None

    def __init__(self, *, interrupt_at: int = 0, hang_at: int = 0) -> None:
        self.calls, self.interrupt_at, self.hang_at = 0, interrupt_at, hang_at
        self.cancelled = False

    def complete(self, messages: Any, **_: Any) -> Completion:
        return Completion(text=Script(SAID)(messages))

    async def acomplete(self, messages: Any, **_: Any) -> Completion:
        self.calls += 1
        if self.calls == self.interrupt_at:
            raise KeyboardInterrupt
        if self.calls == self.hang_at:
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                self.cancelled = True
                raise
        return self.complete(messages)


def test_what_was_reached_is_reported_after_an_interrupt_or_the_end_of_the_time(pairs: Path) -> None:
    notes = read_notes(pairs) * 8
    lines: list[str] = []
    said = ask(LMVerifier(Model(interrupt_at=3)), notes, HashEncoder(), say=lines.append)
    reached = sum(record is not None for record in said)
    assert 0 < reached < len(notes) and lines[-1] == "Stopped."
    assert len(pairs_of(notes, said)) == reached + -(-reached // 4)  # one note in four has two pairs
    hanging = Model(hang_at=1)
    assert ask(LMVerifier(hanging), notes, HashEncoder(), seconds=0.5, say=lines.append) == [None] * len(notes)
    assert hanging.cancelled == bool(hanging.calls) and lines[-1] == "0.5 s are over."


def test_undecided_notes_count_as_wrong_and_are_asked_about_again(
    epic: Epic, pairs: Path, server: LMServer, tmp_path: Path
) -> None:
    model = ("--llm", f"openai:tiny@{server.base_url}", "--pairs", str(pairs), "--out", str(tmp_path / "out"))
    server.answer = lambda request: Reply(status=400, text="no such thing")
    done = epic("eval", "prompts", *model)
    rows = rows_of(done.out)
    assert (rows["keep"], rows["stance"], rows["undecided notes"]) == ("0.00 of 5", "0.00 of 3", "4")
    assert "4 notes undecided: " in done.out and "no such thing" in done.out
    server.answer = lambda request: Script(SAID)(request["messages"])
    rows = rows_of(epic("eval", "prompts", *model).out)
    assert (rows["keep"], rows["calls"].partition(",")[0]) == ("0.80 of 5", str(server.calls))
