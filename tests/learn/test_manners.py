"""Manners: how the assistant is to answer is a preference; how one text is to be written is not."""

from __future__ import annotations

import time

import pytest

from epic_memory import EpicMemory
from epic_memory.types.proposals import Proposals


def propose(text: str) -> Proposals:
    with EpicMemory() as memory:
        return memory.proposals.propose([{"role": "user", "content": text}])


@pytest.mark.parametrize("text", ["Don't use emojis.", "Be more concise.", "Can you stop using emojis?"])
def test_how_to_answer_is_a_preference(text: str) -> None:
    (proposal,) = propose(text)
    assert proposal.kind == "add_preference"
    assert proposal.expires_at is None


@pytest.mark.parametrize(
    "text",
    [
        "Use metric units in this recipe: 2 cups of flour.",
        "Rewrite this without emojis.",
        "Answer question 3 in British English.",
        "Write a shorter answer to his mail.",
        "Don't use the oven for this one.",
        "Explain photosynthesis simply.",
        "Use bullet points for this summary.",
        "My teacher says don't use emojis.",
        "Should I use bullet points in my CV?",
        "Show me the prices in euros for these three phones.",
    ],
)
def test_what_is_about_one_text_is_none(text: str) -> None:
    assert not propose(text)


@pytest.mark.parametrize(
    "part", ["use ", "no so many ", "be a bit more ", "write in a ", "prices in ", "long-", "'\" ", "1/2"]
)
def test_long_turns_are_read_in_linear_time(part: str) -> None:
    started = time.process_time()
    propose((part * 4000)[:3990])
    assert time.process_time() - started < 5
