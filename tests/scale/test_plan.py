"""The arithmetic of the plan past this machine: the model finds what costs were, and the traffic is what it says."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

from bench_plan import DEPENDS, SECONDS, Model, left_open, sizes, traffic

COSTS = dict.fromkeys(DEPENDS, (0.02,)) | {"filter": (1e-11, 3e-6), "write": (0.03, 1e-4), "bytes": (4e4, 600.0)}


def run(chunks: int, users: int) -> dict[str, float]:
    preferences = min(4 * users, 150)
    figures = sizes(chunks, users, preferences, 25 * preferences, 256)
    for name, causes in DEPENDS.items():
        figures[name] = sum(cost * figures[cause] for cost, cause in zip(COSTS[name], causes, strict=True))
    return figures


def test_the_model_finds_the_costs_of_which_none_is_negative_and_predicts_a_larger_run() -> None:
    runs = [run(*size) for size in ((1_000, 20), (1_000, 100), (3_000, 50), (10_000, 60))]
    model = Model.fitted(runs)
    for name, costs in COSTS.items():
        assert model.coefficients[name] == pytest.approx(costs, rel=1e-3)
    guess, truth = model.predicted(10**6, 500, 150, 3_750, 256), run(10**6, 500)
    assert guess["seconds"] == pytest.approx(sum(truth[part] for part in SECONDS), rel=1e-3)
    for number, one in enumerate(runs):
        one["write"] = 0.1 * one["entries"] - 0.001 * one["users"] * (number + 1)
    assert min(min(each) for each in Model.fitted(runs).coefficients.values()) >= 0.0


def test_traffic_falls_with_the_rank_and_the_pool_keeps_the_last_used() -> None:
    counts = np.bincount(traffic(1_000, 50_000, 1.1), minlength=1_000)
    assert counts[0] / counts[9] == pytest.approx(10**1.1, rel=0.2)
    assert left_open([1, 2, 1, 3], 2) == ([1, 3], 0.5)
