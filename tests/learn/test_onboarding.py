"""Onboarding: questions, answers, what becomes of them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from epic_learn.onboarding import BACK, QUESTIONS, Onboarding, Question, answers, send
from epic_memory import EpicMemory
from epic_memory.errors import InvalidInputError
from epic_memory.types.proposals import Proposal

OF = {question.id: question for question in QUESTIONS}


def asked(memory: EpicMemory, replies: dict[str, str], decision: Any = True) -> list[str]:
    """Answer what is asked; the ids of the questions."""
    asking = Onboarding().start(memory)
    step, seen = next(asking, None), []
    while step is not None:
        if isinstance(step, Question):
            seen.append(step.id)
            step = send(asking, replies.get(step.id))
        else:
            step = send(asking, decision)
    return seen


def test_five_categories_with_three_questions_each() -> None:
    assert sorted(Counter(question.category for question in QUESTIONS).values()) == [3] * 5
    assert len(OF) == 15


def test_answers_become_preferences_and_facts() -> None:
    with EpicMemory() as memory:
        assert (
            len(asked(memory, {"advice": "bold", "work": "I'm a nurse and work nights. I can't stand jargon."})) == 15
        )
        assert [each.text for each in memory.preferences] == ["I prefer advice that is bold", "I can't stand jargon"]
        assert [item.text for item in memory.items()] == ["I'm a nurse and work nights"]
        assert {each.source for each in memory.proposals.accepted()} == {"onboarding/advice", "onboarding/work"}


def test_a_second_run_asks_what_is_open() -> None:
    with EpicMemory() as memory:
        asked(memory, {"advice": "bold"})
        assert asked(memory, {}) == [question.id for question in QUESTIONS if question.id != "advice"]


def test_an_answer_counts_though_the_same_was_undone_before() -> None:
    with EpicMemory() as memory:
        for _ in range(2):
            assert "work" in asked(memory, {"work": "I am a nurse"})
            assert len(memory.facts) == 1
            memory.facts.undo(memory.facts.edits()[0])


@pytest.mark.parametrize("decision", [False, None, " "])
def test_what_is_turned_down_leaves_nothing(decision: Any) -> None:
    with EpicMemory() as memory:
        asked(memory, {"advice": "bold"}, decision)
        assert memory.preferences == [] and memory.proposals.accepted() == []


def test_an_answer_in_other_words() -> None:
    with EpicMemory() as memory:
        asked(memory, {"advice": "bold"}, "I like to hear the risky options first")
        assert [each.text for each in memory.preferences] == ["I like to hear the risky options first"]
        assert memory.proposals.accepted()[0].quote == "bold"


def test_back_asks_the_question_before_again() -> None:
    with EpicMemory() as memory:
        asking = Onboarding().start(memory)
        assert next(asking) == QUESTIONS[0]
        assert send(asking, BACK) == QUESTIONS[0]
        assert send(asking, None) == QUESTIONS[1]
        assert send(asking, BACK) == QUESTIONS[0]
        asking.close()


@pytest.mark.parametrize(
    ("question", "answer", "expected"),
    [
        ("tone", "short.", [("add_preference", "I prefer answers that are short")]),
        ("tone", "Short answers, please.", [("add_preference", "I prefer short answers")]),
        ("tone", "I hate emojis", [("add_preference", "I hate emojis")]),
        ("tools", "Python. I hate Java.", [("add_fact", "I use Python"), ("add_preference", "I hate Java")]),
        ("tone", "  ... ", []),
        ("tone", "", []),
    ],
)
def test_an_answer_is_cut_into_statements(question: str, answer: str, expected: list[tuple[str, str]]) -> None:
    made = list(answers(OF[question], answer))
    assert [(each.kind, each.text) for each in made] == expected
    assert all(each.quote in answer for each in made)


def test_a_goal_for_the_coming_weeks_expires() -> None:
    (made,) = answers(OF["soon"], "Run 10 km")
    assert isinstance(made, Proposal) and made.expires_at is not None


@pytest.mark.parametrize("sentence", ["no place", "{} and {}", 7])
def test_questions_that_cannot_be(sentence: Any) -> None:
    with pytest.raises(InvalidInputError):
        Question(id="a", category="b", text="c", sentence=sentence)
    with pytest.raises(InvalidInputError):
        Onboarding([])


def test_two_questions_of_one_id_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="id of its own"):
        Onboarding([QUESTIONS[0], QUESTIONS[0]])
