"""Onboarding: questions, answers, what becomes of them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from epic_learn.onboarding import BACK, QUESTIONS, Onboarding, Question, answers, send
from epic_learn.types import Proposal
from epic_memory import EpicMemory
from epic_memory.errors import InvalidInputError
from tables import table

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


def test_answers_become_preferences_and_facts_and_a_second_run_asks_what_is_open() -> None:
    ids = [question.id for question in QUESTIONS]
    with EpicMemory() as memory:
        replies = {"advice": "bold", "work": "I'm a nurse and work nights. I can't stand jargon."}
        assert asked(memory, replies) == ids and len(ids) == 15
        assert [each.text for each in memory.preferences] == ["I prefer advice that is bold", "I can't stand jargon"]
        assert [item.text for item in memory.items()] == ["I'm a nurse and work nights"]
        assert {each.source for each in memory.proposals.accepted()} == {"onboarding/advice", "onboarding/work"}
        assert asked(memory, {}) == [each for each in ids if each not in replies]
    assert sorted(Counter(question.category for question in QUESTIONS).values()) == [3] * 5


def test_an_answer_counts_though_the_same_was_undone_before() -> None:
    with EpicMemory() as memory:
        for _ in range(2):
            assert "work" in asked(memory, {"work": "I am a nurse"})
            assert len(memory.facts) == 1
            memory.facts.undo(memory.facts.edits()[0])


@pytest.mark.parametrize(
    ("decision", "texts"), [(False, []), (None, []), (" ", []), ("I like to hear the risky options first", None)]
)
def test_an_answer_is_decided_and_may_be_put_in_other_words(decision: Any, texts: list[str] | None) -> None:
    with EpicMemory() as memory:
        asked(memory, {"advice": "bold"}, decision)
        assert [each.text for each in memory.preferences] == ([decision] if texts is None else texts)
        assert [each.quote for each in memory.proposals.accepted()] == (["bold"] if texts is None else [])


def test_back_asks_the_question_before_again() -> None:
    with EpicMemory() as memory:
        asking = Onboarding().start(memory)
        assert next(asking) == QUESTIONS[0]
        assert send(asking, BACK) == QUESTIONS[0]
        assert send(asking, None) == QUESTIONS[1]
        assert send(asking, BACK) == QUESTIONS[0]
        asking.close()


@pytest.mark.parametrize(("question", "answer", "expected"), table(__file__, "an_answer_is_cut_into_statements"))
def test_an_answer_is_cut_into_statements(question: str, answer: str, expected: list[list[str]]) -> None:
    made = list(answers(OF[question], answer))
    assert [[each.kind, each.text] for each in made] == expected
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
    with pytest.raises(InvalidInputError, match="id of its own"):
        Onboarding([QUESTIONS[0], QUESTIONS[0]])
