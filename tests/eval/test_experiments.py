"""Experiments of ours: every question keeps its own preference, preferences drift, and tables are printed."""

from __future__ import annotations

import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from epic_eval.datasets import Data, read_data
from epic_eval.experiments.retrieval import run_key
from epic_eval.experiments.streaming import LEAST, MOST, drift
from epic_memory import Item
from epic_memory.encoders import default_encoder
from evaluation_data import tiny_data

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

import bench_variants
from bench_variants import with_preferences


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Data:
    return read_data(tiny_data(tmp_path_factory.mktemp("data") / "data"), sets=("PrefWiki",))


@pytest.mark.parametrize("count", [1, 2, 3, 9])
def test_every_question_is_asked_with_its_own_preference_at_every_count(data: Data, count: int) -> None:
    before, after = data.datasets[0].personas, with_preferences(data, count, data).datasets[0].personas
    for persona in after:
        assert len(set(persona.preferences)) == len(persona.preferences) == min(count, 3)
        assert all(question.preference in persona.preferences for question in persona.questions)
    for persona in before:
        asked = [question for each in after if each.index == persona.index for question in each.questions]
        assert sorted(q.text for q in asked) == sorted(q.text for q in persona.questions)


def test_other_texts_of_the_same_ids_are_another_run(data: Data) -> None:
    changed = replace(data, corpus=tuple(Item(text=f"{item.text} Anew.", id=item.id) for item in data.corpus))
    assert run_key(data, default_encoder(), 0) != run_key(changed, default_encoder(), 0)


def test_drift_stays_within_its_limits_and_is_the_same_for_a_seed() -> None:
    names = [str(n) for n in range(10)]
    trace = drift(names, 200, 4)
    assert trace == drift(names, 200, 4)
    assert {len(active) for active in trace} <= set(range(LEAST - 1, MOST + 1))
    assert all(len(set(a) ^ set(b)) <= 1 for a, b in pairwise(trace))
    assert len({len(active) for active in trace}) > 2


@pytest.mark.slow
def test_the_script_prints_a_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [str(tiny_data(tmp_path / "data")), "--out", str(tmp_path / "out"), "--set", "PrefRQ", "--personas", "1"]
    monkeypatch.setattr(sys, "argv", ["bench_variants.py", *given])
    bench_variants.main()
    printed = capsys.readouterr().out
    assert "Number of preferences" in printed
