"""The aspect parser on sentences that people labelled: `tests/benchmarks/bench_aspects.py` prints the figures."""

from __future__ import annotations

import pytest

from labelled_aspects import LABELLED, labelled, measure

pytestmark = pytest.mark.skipif(not LABELLED.exists(), reason="the labelled sentences are in the repository only")


def test_sides_firmness_and_scopes_are_read_about_as_well_as_they_were() -> None:
    measured = measure(labelled())
    assert measured.sentences >= 300
    assert measured.both.precision >= 0.88
    assert measured.both.recall >= 0.88
    assert measured.firmness_right / measured.sentences >= 0.80
    assert measured.scope.precision >= 0.80


def test_no_shape_is_read_badly() -> None:
    records = labelled()
    for shape in ("wiki", "rq", "eli5", "eval"):
        both = measure([record for record in records if record["shape"] == shape]).both
        assert min(both.precision, both.recall) >= 0.80, shape
