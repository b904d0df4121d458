"""Slots: what a statement says about whom."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epic_memory.text.slots import asked_slot, is_same_subject, slot_of
from epic_memory.text.statements import statement_of


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("I live in Porto.", "We moved to Braga last month."),
        ("I work at ACME.", "I've joined Globex as a designer."),
        ("My sister lives in Leeds.", "My sister Anna has moved to York."),
        ("The door code is 4471.", "Code for the door is now 9902."),
        ("The dentist appointment is on 3 May.", "The dentist has been rescheduled to 5 May."),
        ("My flight to Oslo leaves at 9:40.", "The flight to Oslo now departs at 11:05."),
    ],
)
def test_statements_about_one_thing_have_one_slot(one: str, other: str) -> None:
    first, then = slot_of(one), slot_of(other)
    assert first is not None and then is not None
    assert then[1] == first[1] and is_same_subject(then[0], first[0])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("My sister lives in Leeds.", "My brother lives in York."),
        ("I live in Porto.", "My sister lives in Leeds."),
        ("The door code is 4471.", "The alarm code is 9902."),
        ("The yoga class starts at 7.", "The shop opens at 8."),
    ],
)
def test_statements_about_two_things_do_not(one: str, other: str) -> None:
    first, then = slot_of(one), slot_of(other)
    assert first is not None and then is not None
    assert not (then[1] == first[1] and is_same_subject(then[0], first[0]))


@pytest.mark.parametrize("text", ["I no longer work at ACME.", "The yoga class is cancelled.", "I sold my car."])
def test_an_end_is_recognised(text: str) -> None:
    assert "ended" in statement_of(text).signs


@pytest.mark.parametrize(
    ("question", "subject", "relation"),
    [
        ("Where do I live?", {"i"}, "live"),
        ("What is my address?", {"i"}, "live"),
        ("Where does my sister work?", {"sister"}, "work"),
        ("How old is Mia?", {"mia"}, "age"),
    ],
)
def test_a_question_asks_about_a_slot(question: str, subject: set[str], relation: str) -> None:
    assert asked_slot(question) == (subject, relation)


@given(st.text(max_size=200))
def test_any_text_has_a_slot_or_none(text: str) -> None:
    slot_of(text), asked_slot(text), statement_of(text)
