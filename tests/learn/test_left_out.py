"""Turns with a word of fiction in them: no single word silences them, and what is left out is told with its reason."""

from __future__ import annotations

import pytest

from epic_learn.proposal_report import Proposals
from epic_memory import EpicMemory
from labelled_sentences import labelled


def propose(text: str) -> Proposals:
    with EpicMemory() as memory:
        return memory.proposals.propose([{"role": "user", "content": text}])


@pytest.mark.parametrize(
    ("text", "quote"),
    labelled("one_word_does_not_silence_a_turn"),
)
def test_one_word_does_not_silence_a_turn(text: str, quote: str) -> None:
    assert any(quote in each.quote for each in propose(text))


@pytest.mark.parametrize(
    ("text", "quote", "reason"),
    labelled("what_is_left_out_is_told_with_its_words_and_its_reason"),
)
def test_what_is_left_out_is_told_with_its_words_and_its_reason(text: str, quote: str, reason: str) -> None:
    made = propose(text)
    assert not made
    assert any(quote in each.quote and each.reason == reason for each in made.report.left_out)
    assert reason in str(made.report)


def test_what_others_say_and_what_nobody_says_is_not_reported() -> None:
    with EpicMemory() as memory:
        made = memory.proposals.propose([("assistant", "Imagine I live in Oslo."), ("user", "How do I boil an egg?")])
        assert (list(made), made.report.left_out) == ([], [])


def test_a_turn_that_is_too_long_is_reported() -> None:
    made = propose("I live in Oslo. " * 400)
    assert [each.reason for each in made.report.left_out] == ["in a turn that is too long"]


def test_what_was_decided_or_is_over_is_told_in_the_order_of_the_turns() -> None:
    chat = [
        {"role": "user", "content": "I'm allergic to nuts."},
        {"role": "user", "content": "My birthday is soon."},
        {"role": "user", "content": "Tonight I fancy something light.", "time": "2026-05-06T09:00:00Z"},
    ]
    with EpicMemory() as memory:
        memory.proposals.reject(*memory.proposals.propose(chat))
        assert [tuple(each) for each in memory.proposals.propose(chat).report.left_out] == [
            (1, "I'm allergic to nuts", "decided before"),
            (2, "My birthday is soon", "not sure enough"),
            (3, "Tonight I fancy something light", "over already"),
        ]


def test_a_sentence_that_never_ends_states_nothing() -> None:
    assert not propose("I love it and " * 200)
