"""Statements taken apart: values, names, signs of a change."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epic_memory.text.statements import statement_of
from tables import table


@pytest.mark.parametrize(
    ("text", "when", "numbers"),
    [
        ("We open at seven o'clock.", {"7:00"}, set()),
        ("It's on the 12th of March at 9.30", {"12 march", "9:30"}, set()),
        ("It holds 1,225 of twelve.", set(), {"1225", "12"}),
        ("The policy is BC-5518.", set(), {"bc-5518"}),
    ],
)
def test_values_are_read_in_any_spelling(text: str, when: set[str], numbers: set[str]) -> None:
    statement = statement_of(text)
    assert (statement.when, statement.numbers) == (when, numbers)


@pytest.mark.parametrize(("text", "sign"), table(__file__, "signs_of_a_change"))
def test_signs_of_a_change(text: str, sign: str) -> None:
    assert sign in statement_of(text).signs


def test_a_name_may_begin_a_sentence() -> None:
    one, other = statement_of("Otto is feeding the cats."), statement_of("Mrs Ferris feeds the cats.")
    assert one.begins_unlike(other) and not other.begins_unlike(one)
    assert statement_of("My dentist is Dr Lowe.").names == {"lowe"}


@given(st.text(max_size=200))
def test_any_text_is_taken_apart(text: str) -> None:
    statement = statement_of(text)
    assert statement == statement_of(text) and all(statement.topic)
