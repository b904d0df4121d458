"""Kinds of question: how often they are told right, and what each asks of a memory."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from epic_memory import EpicMemory
from epic_memory.steering.question_kind import KINDS, QuestionKind, by_preference, question_kind, recalls
from tables import table

WRITTEN = Path(__file__).parents[3] / "shared/tools/written"
# Written by somebody who saw no code, and never fitted on.
UNSEEN = WRITTEN / "questions_e.jsonl"


def rows_of(path: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def plain(text: str) -> str:
    """The words of a text alone."""
    return " ".join(re.findall(r"\w+", text.casefold()))


def likeliest(kind: QuestionKind | None) -> str:
    return "unknown" if kind is None else KINDS[int(np.argmax(kind))]


def test_each_written_question_is_one_line_with_its_kind() -> None:
    files = sorted(WRITTEN.glob("questions_*.jsonl"))
    assert UNSEEN in files and len(files) > 5
    for path in files:
        rows = rows_of(path)
        for row in rows:
            assert set(row) == {"kind", "text"} and row["kind"] in KINDS, (path.name, row)
            assert row["text"] and row["text"] == " ".join(row["text"].split()), (path.name, row)
        assert len({row["text"] for row in rows}) == len(rows), path.name
    assert min(Counter(row["kind"] for row in rows_of(UNSEEN)).values()) >= 100
    assert {row["kind"] for row in rows_of(UNSEEN)} == set(KINDS) - {"others"}


def test_unseen_questions_are_of_the_kind_that_their_writer_meant() -> None:
    # A few of them, such as "gg", somebody else wrote as well.
    seen = {plain(row["text"]) for path in WRITTEN.glob("questions_*.jsonl") if path != UNSEEN for row in rows_of(path)}
    rows = [row for row in rows_of(UNSEEN) if plain(row["text"]) not in seen]
    found = [(row["kind"], question_kind(row["text"])) for row in rows]
    assert len(rows) >= 450
    missed = [
        (row, likeliest(kind)) for row, (meant, kind) in zip(rows, found, strict=True) if likeliest(kind) != meant
    ]
    assert len(missed) <= 0.1 * len(rows), missed

    # What needs the memory is taken neither for chat nor for what anybody knows.
    needs = [kind for meant, kind in found if meant in ("choice", "recall")]
    kept = [likeliest(kind) not in ("chat", "general") for kind in needs]
    assert float(np.mean(kept)) >= 0.95
    # Where one in twenty of those that need it is missed, hardly another one is taken for one of them.
    needed = [kind.choice + kind.recall for kind in needs if kind]
    others = [kind.choice + kind.recall for meant, kind in found if kind and meant in ("general", "chat")]
    assert float(np.mean(np.array(others) >= np.quantile(needed, 0.05))) <= 0.1


@given(st.text(max_size=600))
def test_chances_sum_to_one_for_any_text(text: str) -> None:
    kind = question_kind(text)
    if kind is not None:
        assert sum(kind) == pytest.approx(1.0, abs=1e-4) and min(kind) >= 0.0
        assert all(-4.0 <= odds <= 4.0 for odds in kind.odds.values())
    assert 0.0 <= by_preference(kind) <= 1.0


@pytest.mark.parametrize(("question", "kind"), table(__file__, "preferences_decide_choices_only"))
def test_preferences_decide_choices_only(question: str, kind: str) -> None:
    found = question_kind(question)
    assert likeliest(found) == kind
    assert recalls(found) is (kind == "recall")
    assert (by_preference(found) > 0.9) is (kind in ("choice", "general", "unknown"))


@pytest.fixture(scope="module")
def memory() -> EpicMemory:
    made = EpicMemory(["I'm allergic to shellfish.", "I avoid hotels with casinos.", "I love quiet mountain trails."])
    made.add(
        [
            "My plumber is Herr Dorn, 0171 555 0199.",
            "Prawn paella at the harbour, booked for four on Friday.",
            "The trail to the hut is steep, allow five hours.",
            "Mum's birthday is on 4 March; she wants a fern.",
        ]
    )
    return made


SMALL_TALK = "hi|Thanks!|how do I boil an egg?|what's the weather tomorrow?|Translate good morning to French"


@pytest.mark.parametrize("prompt", [*SMALL_TALK.split("|"), "Write a poem about autumn"])
def test_small_talk_finds_nothing(memory: EpicMemory, prompt: str) -> None:
    assert memory.search(prompt) == []


def test_what_a_note_holds_is_found_without_advice_from_a_preference(memory: EpicMemory) -> None:
    hits = memory.search("Who is my plumber?")
    assert "Herr Dorn" in hits[0].item.text
    assert "shellfish" not in memory.context("Who is my plumber?")
