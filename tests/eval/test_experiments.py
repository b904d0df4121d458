"""Experiments of ours: what a variant of the data changes and what it leaves, and that they print tables."""

from __future__ import annotations

import sys
from itertools import pairwise
from pathlib import Path

import pytest

from epic_eval.datasets import Data, read_data
from epic_eval.experiments.retrieval import run_key
from epic_eval.experiments.streaming import LEAST, MOST, drift
from epic_memory.encoders import default_encoder
from evaluation_data import tiny_data

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

import bench_variants
from variants import asked_by_others, contradicted, diluted, misspelt, negated, ordering, with_preferences


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


def test_questions_of_others_belong_to_no_preference(data: Data) -> None:
    for persona in asked_by_others(data).datasets[0].personas:
        assert all(question.preference not in persona.preferences for question in persona.questions)


def test_dilution_keeps_what_is_known(data: Data) -> None:
    few = diluted(data, 3)
    assert len(few.corpus) == 3 + 8 + 3
    assert {item.id for item in few.corpus} < {item.id for item in data.corpus}


def test_noise_changes_texts_and_not_ids_and_is_another_run(data: Data) -> None:
    encoder, keys = default_encoder(), {run_key(data, default_encoder(), 0)}
    for changed in (misspelt(data, 0.5), ordering(data, 0.5)):
        pairs = list(zip(data.corpus, changed.corpus, strict=True))
        assert all(one.id == other.id for one, other in pairs)
        assert sum(one.text != other.text for one, other in pairs) / len(pairs) > 0.2
        keys.add(run_key(changed, encoder, 0))
    assert len(keys) == 3
    assert misspelt(data, 0.0).corpus == data.corpus


def test_a_contradicting_copy_is_one_more_option_that_breaks(data: Data) -> None:
    changed = contradicted(data)
    assert len(changed.corpus) == len(data.corpus) + len(data.cases)
    texts = {item.text for item in changed.corpus}
    for preference, (case,) in changed.cases.items():
        before = data.cases[preference][0].options
        assert case.options[:-1] == before
        assert case.options[-1] in texts - {item.text for item in data.corpus}


@pytest.mark.parametrize(
    ("text", "opposite"),
    [
        ("Trains are slow. They run at night.", "Trains are not slow. It is not true that they run at night."),
        ("You should not fly.", "You should fly."),
        ("It isn't far.", "It is far."),
    ],
)
def test_a_negated_text_says_the_opposite(text: str, opposite: str) -> None:
    assert negated(text) == opposite


def test_drift_stays_within_its_limits_and_is_the_same_for_a_seed() -> None:
    names = [str(n) for n in range(10)]
    trace = drift(names, 200, 4)
    assert trace == drift(names, 200, 4)
    assert {len(active) for active in trace} <= set(range(LEAST - 1, MOST + 1))
    assert all(len(set(a) ^ set(b)) <= 1 for a, b in pairwise(trace))
    assert len({len(active) for active in trace}) > 2


def run(monkeypatch: pytest.MonkeyPatch, folder: Path, *more: str) -> None:
    given = [str(tiny_data(folder / "data")), "--out", str(folder / "out"), "--set", "PrefRQ", "--personas"]
    monkeypatch.setattr(sys, "argv", ["bench_variants.py", *given, *more])
    bench_variants.main()


def test_the_script_prints_what_was_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run(monkeypatch, tmp_path, "2", "--which", "unrelated")
    printed = capsys.readouterr().out
    assert "Unrelated questions" in printed and "Dilution" not in printed


@pytest.mark.slow
def test_all_experiments_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run(monkeypatch, tmp_path, "1")
    printed = capsys.readouterr().out
    for title in ("Number of preferences", "Equal bytes", "Dilution", "Misspelt", "Injected"):
        assert title in printed
