"""Credentials: a password that is said in a chat is neither kept nor proposed; what is only about one is read."""

from __future__ import annotations

import pytest

from epic_learn import add_conversation
from epic_learn.credentials import redacted
from epic_learn.types import Proposal
from epic_memory import EpicMemory
from epic_memory.lm import Completion
from labelled_sentences import labelled
from scripted import Own
from tables import table


@pytest.mark.parametrize("secret", table(__file__, "secrets"))
def test_a_secret_is_neither_kept_nor_proposed_and_the_rest_is(secret: str) -> None:
    said = [{"role": "user", "content": f"I love red wine.\n{secret}"}]
    with EpicMemory(["I love red wine"]) as memory:
        report = add_conversation(memory, said)
        assert [item.text for item in memory.items()] == ["user: I love red wine."]
        assert report.unusable == {"sentences with a password, key or secret code": 1}
    with EpicMemory() as memory:
        made = memory.proposals.propose(said)
        assert ([each.quote for each in made], made.report.unusable) == (["I love red wine"], report.unusable)


@pytest.mark.parametrize(("text", "left"), table(__file__, "a_secret_in_the_next_line_or_in_a_table_is_left_out"))
def test_a_secret_in_the_next_line_or_in_a_table_is_left_out(text: str, left: str) -> None:
    found, count = redacted(text)
    assert [*filter(None, found.split("\n"))] == [*filter(None, left.split("\n"))] and count


@pytest.mark.parametrize("text", table(__file__, "a_label_without_a_secret"))
def test_a_label_without_a_secret_takes_nothing_away(text: str) -> None:
    assert redacted(text) == (text, 0)


@pytest.mark.parametrize("text", labelled("harmless"))
def test_what_gives_no_secret_away_is_read(text: str) -> None:
    with EpicMemory() as memory:
        assert add_conversation(memory, [("user", text)]).unusable == {}


def test_a_model_that_reads_for_proposals_does_not_see_a_secret() -> None:
    lm = Own(lambda messages: Completion(text="[]"))
    with EpicMemory() as memory:
        memory.proposals.propose([("user", "I moved to Porto. My password is hunter2.")], lm=lm)
    assert "Porto" in str(lm.sent[0]) and "hunter2" not in str(lm.sent)


def test_what_does_not_fit_stays_out_of_the_light_tier_where_that_is_asked_for() -> None:
    for light in (False, True):
        with EpicMemory(["I prefer trains over flights."]) as memory:
            add_conversation(memory, [("user", "Hi!")], light=light)
            assert len(list(memory.items())) == light


def test_what_waits_for_the_user_is_not_proposed_in_other_words() -> None:
    for said, noted in (("I'm vegetarian.", "The user is vegetarian."), ("My dentist is Dr Kern.", "Dentist: Dr Kern")):
        written = Proposal(kind="add_fact", text=noted, quote=noted, source="agent")
        with EpicMemory() as memory:
            (first,) = memory.proposals.propose([("user", said)])
            assert list(memory.proposals.add([written])) == [first] == memory.proposals
        with EpicMemory() as memory:
            memory.proposals.add([written])
            made = memory.proposals.propose([("user", said)])
            assert noted.startswith("Dentist") or (list(made), made.report.dropped) == ([], {"known already": 1})
            other = Proposal(kind="add_fact", text="I am no vegetarian", quote="x")
            assert len(memory.proposals.add([other])) == 1
            memory.proposals.propose([("user", "I start at Bosch on 3 May.")])
            before = len(memory.proposals)
            memory.proposals.propose([("user", "I stop at Bosch on 3 May.")])
            assert len(memory.proposals) == before + 1
