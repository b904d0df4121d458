"""Manners: how the assistant is to answer is a preference; how one text is to be written is not."""

from __future__ import annotations

import time

import pytest

from epic_learn.proposal_report import Proposals
from epic_memory import EpicMemory
from labelled_sentences import labelled


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
    labelled("what_is_about_one_text_is_none"),
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
