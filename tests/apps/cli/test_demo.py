"""The demo tells the truth: by the key, its answers suit the user, and no stance is the wrong way round."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import pytest

from epic_apps.cli.demo import demo_key, demo_preferences, demo_questions, run_demo
from epic_apps.cli.printing import show
from epic_memory import EpicMemory, Item, Stance

DATA = files("epic_memory") / "data"


@pytest.fixture(scope="module")
def key() -> dict[tuple[str, int], str]:
    """How each document stands to the preference of a number."""
    return demo_key()


@pytest.fixture(scope="module")
def memory() -> Iterator[EpicMemory]:
    records = map(json.loads, (DATA / "corpus.jsonl").read_text(encoding="utf-8").splitlines())
    with EpicMemory(demo_preferences()) as made:
        made.add([Item(id=record["id"], text=record["text"]) for record in records])
        yield made


def test_the_first_answer_to_every_question_suits(memory: EpicMemory, key: dict[tuple[str, int], str]) -> None:
    questions = demo_questions()
    first = [memory.search(question, k=1)[0].item.id for question in questions]
    assert [key.get((item, number)) for number, item in enumerate(first, start=1)] == ["supports"] * len(questions)


def test_no_stance_is_inverted_and_nothing_mixed_is_said_to_suit(
    memory: EpicMemory, key: dict[tuple[str, int], str]
) -> None:
    number_of = {preference.text: number for number, preference in enumerate(memory.preferences, start=1)}
    told = [
        (entry.item_id, entry.stance, key.get((entry.item_id, number_of[entry.preference])))
        for item in memory.items()
        for entry in memory.explain(item.id).entries
    ]
    wrong = {("supports", "conflicts"), ("conflicts", "supports"), ("supports", "mixed")}
    assert [one for one in told if (str(one[1]), one[2]) in wrong] == []
    assert sum(stance is not Stance.NEUTRAL for _, stance, _ in told) >= 8


def test_it_shows_reasons_and_plain_retrieval_beside_the_memory(capsys: pytest.CaptureFixture[str]) -> None:
    show(*run_demo())
    shown = capsys.readouterr().out
    assert shown.count("✓ suits her") > 3 and "kept because it is about acoustic music" in shown
    assert "\nThe user's preferences" in shown and "\nDocument 1:" in shown
    counted = (
        "the first answer suits her (\\d) times with epic, (\\d) times without .*, (\\d) times with plain retrieval"
    )
    printed = re.search(counted, shown)
    assert printed is not None and printed[1] == "8"
    # The README says the same.
    readme = " ".join((Path(__file__).parents[3] / "README.md").read_text(encoding="utf-8").split())
    told = re.search(r"in (\d) of 8 questions with these expansions, in (\d) of 8 without them, in (\d) of 8", readme)
    assert told is not None and told.groups() == printed.groups()
