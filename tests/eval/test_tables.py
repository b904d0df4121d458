"""Tables of tier 0: measures, intervals, the papers' figures, reports."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from command_line import Epic
from epic_eval.datasets import Data, Question, read_data
from epic_eval.metrics import estimate, interval, paired, proxies
from epic_eval.report import Figure, Report, Table, Text, frontier
from epic_memory import Item
from evaluation_data import OPTIONS, QUIET, VEGAN, tiny_data


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Data:
    return read_data(tiny_data(tmp_path_factory.mktemp("data") / "data"), sets=("PrefWiki",))


def measured(data: Data, preference: str, order: list[str], guidance: tuple[str, ...] = ()) -> dict[str, float]:
    passages = [{"id": item, "text": item, "guidance": guidance} for item in order[:5]]
    question = Question("What should I cook for dinner tonight?", preference)
    return proxies(data, question, passages=passages, opening=(), order=order)


def test_choices_count_the_following_option_before_the_breaking_ones(data: Data) -> None:
    follows, *breaks = (Item(text=option).id for option in OPTIONS[VEGAN])
    other = [f"other-{n}" for n in range(5)]
    assert measured(data, VEGAN, [follows, *breaks]) == {"named": 0, "choice": 1, "breaking": 3, "none": 0}
    assert measured(data, VEGAN, [breaks[0], follows])["choice"] == 0
    assert measured(data, VEGAN, [*other, follows])["choice"] == 1
    assert measured(data, VEGAN, other) == {"named": 0, "choice": 0, "breaking": 0, "none": 1}
    assert measured(data, VEGAN, other, (f"Use it for: {VEGAN}",))["named"] == 1


def test_labels_count_the_first_judged_passage(data: Data) -> None:
    (supporting,) = data.labels[QUIET]
    assert measured(data, QUIET, ["other", supporting])["label"] == 1
    assert measured(data, QUIET, ["other"])["label"] == 0
    assert "label" not in measured(data, VEGAN, ["other"])  # of its labels none says anything


def test_means_are_over_personas() -> None:
    found = estimate([(1, 1.0), (1, 1.0), (1, 1.0), (2, 0.0)])
    assert found is not None
    assert (found.mean, found.personas, found.questions) == (0.5, 2, 4)
    assert estimate([]) is None
    low, high = interval(np.array([0.0, 1.0] * 50))
    assert 0.35 < low < 0.45
    assert 0.55 < high < 0.65
    assert paired([(1, 1.0), (2, 1.0)], [(1, 0.0), (2, 0.5), (3, 9.0)]) == pytest.approx((0.75, 0.5, 1.0))
    assert paired([(1, 1.0)], [(2, 1.0)]) is None


def test_a_report_is_markdown(tmp_path: Path) -> None:
    table = Table("Sizes", ("arm", "MB"), (("a|b", "<1"),), ("A note.",))
    report = Report("Title", [Text("Words."), table, Figure("Plot", "plot.svg")])
    markdown = report.write(tmp_path).read_text(encoding="utf-8")
    assert "| a\\|b | <1 |" in markdown and "![Plot](plot.svg)" in markdown
    with pytest.raises(ValueError, match="2 cells"):
        Table("Sizes", ("arm", "MB"), (("a",),))


def test_the_frontier_is_what_nothing_smaller_reaches() -> None:
    points = {"a": (1.0, 0.5), "b": (2.0, 0.4), "c": (3.0, 0.9), "d": (3.0, 0.8), "e": (9.0, 0.9)}
    assert frontier(points) == ["a", "c"]


def test_tier_0_prints_the_papers_tables(tmp_path: Path, epic: Epic) -> None:
    folder, out = tiny_data(tmp_path / "data"), tmp_path / "out"
    arms = "none,BM25,dense,EPIC ours"
    options = ("--sets", "PrefRQ", "--arms", arms, "--out", str(out), "--no-tau")
    first = epic("eval", "run", str(folder), *options)
    assert first.code == 0, first.err
    tables = ("Table 2 by proxy: choice", "label", "Table 4", "Table 6", "Table 7", "Note 5")
    assert all(told in first.out for told in (*tables, "A proxy, not accuracy"))
    assert {path.name for path in out.iterdir()} >= {"report.md", "frontier_choice.svg"}
    # Run again, nothing is asked, and the figures are the same.
    again = epic("eval", "run", str(folder), *options)
    assert "questions," not in again.err
    assert again.out.split("Table 2")[1] == first.out.split("Table 2")[1]


@pytest.mark.slow
def test_tier_0_runs_every_arm_and_threshold(tmp_path: Path, epic: Epic) -> None:
    folder, out = tiny_data(tmp_path / "data"), tmp_path / "out"
    done = epic("eval", "run", str(folder), "--sets", "PrefWiki,PrefRQ", "--out", str(out))
    assert done.code == 0, done.err
    assert "Table 5" in done.out and "tau 0.3" in done.out
    assert "EPIC+graph (+ CFS)" in done.out and "raptor-lite" in done.out


def test_the_core_says_which_extra_is_missing() -> None:
    code = (
        "import sys; sys.modules['epic_eval'] = None\n"
        "from epic_apps.cli.main import main\n"
        "assert 'epic_eval' not in [name for name, module in sys.modules.items() if module]\n"
        "sys.exit(main(['eval', 'run']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "epic-memory[eval]" in done.stderr
