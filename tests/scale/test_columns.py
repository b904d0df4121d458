"""Columns of texts judged for many people: in pandas and in Daft, with the same values."""

from __future__ import annotations

import sys

import pytest

from epic_memory.errors import MissingExtraError
from epic_scale.columns import column_judge, epic_keep

PEOPLE = {"ann": ["I am vegan."], "ben": ["I prefer budget hotels."]}
TEXTS = ["A vegan soup of lentils.", "A hostel with cheap rooms, a budget hotel.", "The steam engine.", " "]


def kept(values: list[list[dict[str, object]]]) -> list[list[object]]:
    return [[one["user"] for one in each if one["keep"]] for each in values]


def test_a_column_of_pandas_is_judged() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"text": TEXTS}, index=list("abcd"))
    frame["judged"] = column_judge(PEOPLE)(frame["text"])
    assert kept(list(frame["judged"])) == [["ann"], ["ben"], [], []]
    assert "empty" in frame["judged"]["d"][0]["error"] and not frame["judged"]["c"][0]["error"]


def test_an_expression_of_daft_has_the_same_values() -> None:
    daft = pytest.importorskip("daft")
    frame = daft.from_pydict({"text": TEXTS}).with_column("judged", epic_keep(daft.col("text"), preferences=PEOPLE))
    assert frame.to_pydict()["judged"] == column_judge(PEOPLE)(TEXTS)


def test_without_daft_its_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "daft", None)
    with pytest.raises(MissingExtraError, match=r"epic-memory\[daft\]"):
        epic_keep("text", preferences=PEOPLE)
