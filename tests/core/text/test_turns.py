"""Turns: which answers which question, whose they are, and of which month."""

from __future__ import annotations

import pytest

from epic_memory.text.turns import Turns
from tables import table

QUESTION, ANSWER = "Do you have any cats?", "Two, Oscar and Bailey."


def turns_of(*said: tuple[int, str, dict[str, object]]) -> Turns:
    turns = Turns()
    for row, text, metadata in said:
        turns.add(row, text, metadata)
    return turns


def pairs(turns: Turns) -> list[tuple[int, int]]:
    found = turns.rows()
    return list(zip(found.answers.tolist(), found.questions.tolist(), strict=True))


@pytest.mark.parametrize(
    ("question", "answer", "answers"), table(__file__, "the_next_turn_of_a_source_answers_a_question")
)
def test_the_next_turn_of_a_source_answers_a_question(
    question: dict[str, object], answer: dict[str, object], answers: bool
) -> None:
    for said in ([(7, QUESTION, question), (9, ANSWER, answer)], [(9, ANSWER, answer), (7, QUESTION, question)]):
        assert pairs(turns_of(*said)) == [(9, 7)] * answers


def test_what_follows_no_question_answers_none() -> None:
    assert pairs(turns_of((1, ANSWER, {"turn": 1}), (2, QUESTION, {"turn": 2}))) == []


def test_a_removed_or_replaced_turn_leaves_no_answer_behind() -> None:
    turns = turns_of((1, QUESTION, {"turn": 1, "speaker": "Ann"}), (2, ANSWER, {"turn": 2, "speaker": "Bo"}))
    turns.add(3, "Three.", {"turn": 2})
    assert pairs(turns) == [(3, 1)]
    turns.remove([2, 2, 99])
    assert pairs(turns) == [(3, 1)] and [rows.tolist() for rows in turns.named("Bo?")] in ([], [[]])
    turns.remove([1])
    assert pairs(turns) == [] and turns.rows().turns.tolist() == [3]
    turns.add(3, "Three.", {})
    assert turns.rows().turns.tolist() == []


@pytest.mark.parametrize(("time", "query", "named"), table(__file__, "a_query_names_a_month_or_a_year"))
def test_a_query_names_a_month_or_a_year(time: str | None, query: str, named: bool) -> None:
    turns = turns_of((4, ANSWER, {"speaker": "Bo", "time": time}))
    assert [rows.tolist() for rows in turns.named(query)] == [[4]] * named


def test_a_query_names_a_speaker() -> None:
    turns = turns_of((1, QUESTION, {"speaker": "Ann Lee"}), (2, ANSWER, {"speaker": "Bo"}), (3, "Nice.", {}))
    assert [rows.tolist() for rows in turns.named("How many cats has Bo?")] == [[2]]
    assert [rows.tolist() for rows in turns.named("What is Ann's dog called?")] == [[1]]
    assert turns.named("Who has cats?") == []
    assert turns.rows().turns.tolist() == [1, 2]
