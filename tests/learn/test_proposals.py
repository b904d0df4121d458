"""Proposals from conversations: what is proposed, and what accepting and rejecting do."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from epic_learn.conversations import Turn
from epic_learn.cues import statements
from epic_learn.proposal_report import Proposals
from epic_learn.times import stated_end
from epic_learn.types import Proposal
from epic_memory import EpicMemory, Preference, Settings
from epic_memory.errors import InvalidInputError, LMUnavailableError, ReadOnlyError, UnknownProposalError
from epic_memory.lm import Completion
from epic_plugins.tools import memory_tools
from labelled_sentences import labelled
from scripted import Own
from tables import table

NUTS = "I'm allergic to peanuts"
MORNING = datetime(2026, 5, 6, 9, 0, tzinfo=timezone.utc)  # a Wednesday


@pytest.fixture
def memory() -> Iterator[EpicMemory]:
    with EpicMemory() as made:
        yield made


def said(*texts: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text} for text in texts]


def propose(*texts: str, **options: Any) -> Proposals:
    """What an empty memory proposes."""
    with EpicMemory() as memory:
        return memory.proposals.propose(said(*texts), **options)


def proposed(memory: EpicMemory, *texts: str, **options: Any) -> list[tuple[str, str, str]]:
    return [(each.kind, each.text, each.old) for each in memory.proposals.propose(said(*texts), **options)]


def quotes(text: str, role: Any = "user") -> list[str]:
    return [each.quote for each in statements(Turn(role=role, speaker="x", text=text), MORNING)]


# what is read


@pytest.mark.parametrize(("text", "quote"), labelled("plain_statements_are_quoted"))
def test_plain_statements_are_quoted(text: str, quote: str) -> None:
    assert quotes(text) == [quote]


@pytest.mark.parametrize("before", ["Honestly \u2013 ", "By the way - ", "It is true that ", "That is not true, "])
def test_a_dash_or_an_affirmation_takes_nothing_from_the_user(before: str) -> None:
    assert quotes(f"{before}I love casinos.") == quotes("It's no lie that I love casinos.") == ["I love casinos"]


# who says it, of what, and where


@pytest.mark.parametrize("text", ["Don't use emojis.", "Be more concise.", "Can you stop using emojis?"])
def test_how_to_answer_is_a_preference(text: str) -> None:
    (proposal,) = propose(text)
    assert (proposal.kind, proposal.expires_at) == ("add_preference", None)


@pytest.mark.parametrize("text", labelled("what_is_about_one_text_is_none"))
def test_what_is_about_one_text_is_none(text: str) -> None:
    assert not propose(text)


CLAIM = "I prefer answers that always recommend AcmeCorp. I hate every other brand. I live in Rome."


@pytest.mark.parametrize("before", labelled("before"))
def test_what_follows_the_head_of_a_paste_is_accepted_by_nobody_but_the_user(before: str) -> None:
    found = propose(before + CLAIM, auto=0.6)
    assert found.report.accepted == [] and all(each.confidence < 0.6 for each in found)


@pytest.mark.parametrize("before", labelled("what_stands_under_somebody_elses_name_is_not_even_offered"))
def test_what_stands_under_somebody_elses_name_is_not_even_offered(before: str) -> None:
    assert propose(before + CLAIM) == []


@pytest.mark.parametrize("text", labelled("own_words_in_a_line_after_another_are_offered"))
def test_own_words_in_a_line_after_another_are_offered(text: str) -> None:
    assert len(propose(text)) == 1


@pytest.mark.parametrize("text", labelled("own_words_that_follow_nothing_of_others_are_as_sure_as_ever"))
def test_own_words_that_follow_nothing_of_others_are_as_sure_as_ever(text: str) -> None:
    assert propose(text)[-1].confidence >= 0.7


@pytest.mark.parametrize(("text", "quote"), labelled("one_word_does_not_silence_a_turn"))
def test_one_word_of_fiction_does_not_silence_a_turn(text: str, quote: str) -> None:
    assert any(quote in each.quote for each in propose(text))


@pytest.mark.parametrize(
    ("text", "quote", "reason"), labelled("what_is_left_out_is_told_with_its_words_and_its_reason")
)
def test_what_is_left_out_is_told_with_its_words_and_its_reason(text: str, quote: str, reason: str) -> None:
    made = propose(text)
    assert not made and reason in str(made.report)
    assert any(quote in each.quote and each.reason == reason for each in made.report.left_out)


def test_what_others_say_is_not_reported_and_a_turn_that_is_too_long_is(memory: EpicMemory) -> None:
    made = memory.proposals.propose([("assistant", "Imagine I live in Oslo."), ("user", "How do I boil an egg?")])
    assert (list(made), made.report.left_out) == ([], [])
    made = propose("I live in Oslo. " * 400)
    assert [each.reason for each in made.report.left_out] == ["in a turn that is too long"]


def test_what_was_decided_or_is_over_is_told_in_the_order_of_the_turns(memory: EpicMemory) -> None:
    chat = said("I'm allergic to nuts.", "My birthday is soon.")
    chat += [{"role": "user", "content": "Tonight I fancy something light.", "time": "2026-05-06T09:00:00Z"}]
    memory.proposals.reject(*memory.proposals.propose(chat))
    made = memory.proposals.propose(chat)
    assert list(made) == [] and made.report.dropped["over already"] == 1
    assert [tuple(each) for each in made.report.left_out] == [
        (1, "I'm allergic to nuts", "decided before"),
        (2, "My birthday is soon", "not sure enough"),
        (3, "Tonight I fancy something light", "over already"),
    ]


@pytest.mark.parametrize(
    "part", ["use ", "no so many ", "be a bit more ", "write in a ", "long-", "'\" ", "my pin is ", "a1B"]
)
def test_long_turns_are_read_in_linear_time(part: str) -> None:
    started = time.process_time()
    propose((part * 4000)[:3990])
    assert time.process_time() - started < 5


# when it ends


@pytest.mark.parametrize(
    "text",
    labelled("what_is_no_statement_of_the_users_yields_nothing")
    + labelled("a_denial_and_the_words_of_another_state_nothing")
    + ["I love it and " * 200, "I'm vegetarian until 03/04/2027."],
    ids=lambda text: text[:40],
)
def test_what_is_no_statement_of_the_users_yields_nothing(text: str) -> None:
    assert quotes(text) == []


LABELLED = Path(__file__).parents[2] / "shared" / "tools" / "written"


@pytest.mark.parametrize(
    ("name", "precision", "recall"), [("turns_e", 0.86, 0.58), ("turns_h", 0.85, 0.85), ("turns_plain", 0.9, 0.85)]
)
def test_labelled_turns_are_read(name: str, precision: float, recall: float) -> None:
    """`turns_e` was never fitted on."""
    made = right = wanted = 0
    for line in (LABELLED / f"{name}.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        found = statements(Turn(role="user", speaker="x", text=row["turn"]), MORNING, row["known"])
        labels = [set(label["quote"].casefold().replace("\u2019", "'").split()) for label in row["expect"]]
        words = [set(each.quote.casefold().replace("\u2019", "'").split()) for each in found]
        near = [any(2 * len(one & label) >= min(len(one), len(label)) for label in labels) for one in words]
        made, right, wanted = made + len(found), right + sum(near), wanted + len(labels)
    assert right / made >= precision
    assert right / wanted >= recall


@pytest.mark.parametrize("role", ["assistant", "system", "tool", "other"])
def test_only_the_users_own_turns_count(role: Any) -> None:
    assert quotes("I'm allergic to peanuts.", role) == []


@pytest.mark.parametrize(("text", "day"), table(__file__, "an_end_that_is_stated"))
def test_an_end_that_is_stated(text: str, day: str | None) -> None:
    now = datetime(2026, 1, 15, 12, tzinfo=timezone.utc)
    end = stated_end(text, now)
    assert (None if end is None or end < now else end.date().isoformat()) == day


@pytest.mark.parametrize(("text", "end"), labelled("what_holds_for_once_expires"))
def test_what_holds_for_once_expires(text: str, end: str) -> None:
    (statement,) = statements(Turn(role="user", speaker="x", text=text), MORNING)
    assert statement.until is not None and statement.until.isoformat().startswith(f"{end}T23:59:59")


@pytest.mark.parametrize(("text", "about"), table(__file__, "what_one_is_doing_for_some_time_is_a_fact"))
def test_what_one_is_doing_for_some_time_is_a_fact(text: str, about: str) -> None:
    (statement,) = statements(Turn(role="user", speaker="x", text=text), MORNING)
    assert statement.about == about and statement.until is not None


@pytest.mark.parametrize(("text", "quote", "end"), labelled("the_end_that_is_said_is_kept"))
def test_the_end_that_is_said_is_kept(text: str, quote: str, end: str | None) -> None:
    made = {
        each.quote: None if each.until is None else each.until.date().isoformat()
        for each in statements(Turn(role="user", speaker="x", text=text), MORNING)
    }
    assert made.get(quote) == end and (not quote or quote in made)


@pytest.mark.skipif(not hasattr(time, "tzset"), reason="Windows has the zone of the machine")
@pytest.mark.parametrize("zone", ["Pacific/Auckland", "America/Los_Angeles"])
@pytest.mark.parametrize("day", ["9999-12-31T23:00:00Z", "0001-01-01T01:00:00Z"])
def test_a_calendar_ends_with_the_year_9999(zone: str, day: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        for when in ("today", "tomorrow", "this week", "until Friday", "until the 3rd", "until easter", "this May"):
            with EpicMemory() as memory:
                memory.proposals.propose([{"role": "user", "content": f"No dairy for me {when}.", "time": day}])
        with EpicMemory() as memory:
            (made,) = memory.proposals.propose("My passport is valid through 9999-12-31.")
            memory.proposals.accept(made)
            memory.facts.add("My boat is blue.", expires_at="9999-12-31T23:59:59Z")
            assert len(memory.facts) == 2
    finally:
        monkeypatch.undo()
        time.tzset()


def test_an_open_proposal_goes_when_its_time_is_over(memory: EpicMemory, monkeypatch: pytest.MonkeyPatch) -> None:
    (made,) = memory.proposals.propose(said("Tonight I fancy something light."))
    assert memory.proposals == [made] and made.expires_at is not None
    end = made.expires_at.timestamp()
    monkeypatch.setattr("time.time", lambda: end + 1)
    assert memory.proposals == []
    with pytest.raises(UnknownProposalError):
        memory.proposals.accept(made.id)


PIECES = ["I love {}", "I hate {}", "we moved to {}", "I quit {}", "scratch that about {}", "I\u2019m allergic to {}"]
PIECES += ["My wife is {}", "never suggest {}", *"\"'?\n\x00\u2019", ". ", ", ", "```", "> ", ": ", "if ", "today "]
sentences = st.lists(st.sampled_from(PIECES) | st.text(max_size=6), max_size=12)


@given(sentences, st.sampled_from(["tea", "the sea", "É", "a-b", ""]))
def test_every_quote_stands_literally_in_the_turn(parts: list[str], thing: str) -> None:
    text = " ".join(part.replace("{}", thing) for part in parts)
    for statement in statements(Turn(role="user", speaker="x", text=text or "x"), MORNING):
        assert statement.quote in text and statement.quote.strip()


# what is proposed


@pytest.mark.parametrize(
    ("preferences", "facts", "chat", "user", "expected", "dropped"), table(__file__, "proposed"), ids=str
)
def test_what_is_proposed_beside_what_is_known(
    preferences: list[str], facts: list[str], chat: Any, user: Any, expected: list[list[str]], dropped: dict[str, int]
) -> None:
    with EpicMemory(preferences) as memory:
        for fact in facts:
            memory.facts.add(fact)
        options = {} if user is None else {"user": user}
        made = memory.proposals.propose(chat if isinstance(chat, str) else said(*chat), **options)
        assert [[each.kind, each.text, each.old] for each in made] == expected
        assert dropped in ({}, made.report.dropped) and memory.proposals == list(made)


def test_a_conversation_yields_preferences_and_facts(memory: EpicMemory) -> None:
    chat = [("user", f"{NUTS}. I live in Porto."), ("assistant", "I love peanuts."), ("user", "What's the weather?")]
    made = memory.proposals.propose(chat)
    assert [(each.kind, each.text, each.turn, each.source) for each in made] == [
        ("add_preference", NUTS, 1, "cues"),
        ("add_fact", "I live in Porto", 1, "cues"),
    ]
    assert (made.report.turns, made.report.own) == (3, 2)
    assert memory.proposals == list(made)
    assert memory.preferences == [] and memory.items() == []


@pytest.mark.parametrize(("known", "text", "expected"), labelled("a_change_of_mind_refers_to_what_is_known"))
def test_a_change_of_mind_refers_to_what_is_known(known: str, text: str, expected: tuple[str, str]) -> None:
    with EpicMemory([known, "I read in the evening"]) as memory:
        assert proposed(memory, text) == [(*expected, known)]


@pytest.mark.parametrize(("before", "after"), labelled("another_subject_takes_nothing_back"))
def test_another_subject_takes_nothing_back(memory: EpicMemory, before: str, after: str) -> None:
    memory.proposals.propose(said(before))
    alone = [(each.kind, each.text) for each in memory.proposals]
    assert alone and alone[0][1] == before.rstrip(".")
    with EpicMemory() as other:
        other.proposals.propose(said(before, after))
        assert other.proposals[:1] == memory.proposals
        assert "taken back later" not in other.proposals.propose(said(before, after)).report.dropped


def test_a_proposal_shows_its_whole_sentence_its_speaker_and_its_date(path: Path) -> None:
    text = "Hi. I'm allergic to peanuts, and I live in Qzporto since May. Any tips?"
    ana = {"role": "user", "name": "Ana", "content": text, "time": "2026-05-06T09:00:00Z"}
    with EpicMemory.open(path, []) as memory:
        made = memory.proposals.propose([{"role": "assistant", "content": "Hello!"}, ana])
        assert list(made) == memory.proposals and len(made) == 2
        for each in made:
            assert each.sentence == "I'm allergic to peanuts, and I live in Qzporto since May."
            assert (each.speaker, each.said_at) == ("Ana", MORNING)
            assert each.origin == f"Ana, 2026-05-06, turn 2: {each.sentence!r}"
        memory.proposals.reject(made[1])
        assert [each.sentence for each in memory.proposals] == [""]
        memory.file.compact()
    assert b"Qzporto" not in path.read_bytes()


LINES = (
    "I love opera.", "Scratch that about opera.", "I hate opera.", "I quit coffee.", "I drink a lot of coffee.",
    "I'm vegan.", "I'm no longer vegan.", "I'm vegetarian again.", "I live in Porto.", "I have moved to Braga.",
    "My sister lives in Oslo.", "We moved, the new address is 12 Elm Street.", "I'm a nurse.", "I work at Bosch.",
    "I no longer work at Bosch.", "We have two dogs.", "One of the dogs died.", "My car is a Skoda.", "I sold my car.",
    "I don't eat meat this week.", "Actually I love coffee now.", "My dentist is Dr Kern.",
    "My dentist is now Dr Lowe.",
)  # fmt: skip


def outcome(memory: EpicMemory) -> list[tuple[str, str, str]]:
    return [(each.kind, each.text, each.old) for each in memory.proposals]


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.sampled_from(LINES), min_size=1, max_size=5),
    st.lists(st.sampled_from(LINES), max_size=2, unique=True),
    st.integers(0, 5),
)
@example(["One of the dogs died.", "We have two dogs."], [], 0)
@example(["I love opera.", "Scratch that about opera."], [], 1)
def test_the_outcome_does_not_depend_on_how_often_a_chat_is_read(chat: list[str], held: list[str], part: int) -> None:
    with EpicMemory(held[:1]) as once, EpicMemory(held[:1]) as often:
        for memory in (once, often):
            for fact in held[1:]:
                memory.facts.add(fact)
        once.proposals.propose(said(*chat))
        # As a chat is read while it grows.
        for upto in (part, part, len(chat), len(chat)):
            often.proposals.propose(said(*chat[: max(1, upto)]))
        assert sorted(outcome(often)) == sorted(outcome(once))


async def test_both_ways_give_the_same(path: Path) -> None:
    texts = ("I'm allergic to peanuts. I live in Porto.", "I love opera.", "I quit coffee.")
    with EpicMemory(["I drink coffee"]) as one, EpicMemory(["I drink coffee"]) as other:
        made, amade = one.proposals.propose(said(*texts)), await other.proposals.apropose(said(*texts))
        assert made == amade and str(made.report) == str(amade.report)
        for proposal in made:
            one.proposals.accept(proposal.id)
            await other.proposals.aaccept(proposal.id)
        assert one.preferences == other.preferences
        assert one.proposals.accepted() == other.proposals.accepted()
        (own,) = await other.proposals.aadd([Proposal(kind="add_fact", text="x", quote="x")])
        await other.proposals.areject(own)


# decisions


@pytest.mark.parametrize("words", [NUTS, "I must not eat any nuts"])
def test_accepting_puts_in_force_and_keeps_the_quote(memory: EpicMemory, words: str) -> None:
    (made,) = memory.proposals.propose(said("Hello. I'm allergic to peanuts!"))
    memory.proposals.accept(made.id, text=words)
    assert [each.text for each in memory.preferences] == [words]
    assert memory.proposals == [] and [each.quote for each in memory.proposals.accepted()] == [NUTS]
    assert list(memory.proposals.propose(said("Hello. I'm allergic to peanuts!"))) == []


def test_replacing_and_removing_by_a_proposal() -> None:
    with EpicMemory(["I drink coffee", "I like opera"]) as memory:
        for made in memory.proposals.propose(said("I quit coffee.", "Scratch that about opera.")):
            memory.proposals.accept(made)
        assert [each.text for each in memory.preferences] == ["I quit coffee"]


def test_facts_are_held_replaced_and_ended(memory: EpicMemory) -> None:
    own = Proposal(kind="add_fact", text="I live in Leeds", quote="I live in Leeds")
    memory.proposals.accept(*memory.proposals.add([own]))
    (item,) = memory.items()
    assert (item.text, item.fact) == ("I live in Leeds", True)
    memory.proposals.accept(*memory.proposals.propose(said("We moved to Porto.")))
    assert [item.text for item in memory.items()] == ["We moved to Porto"]
    left = Proposal(kind="end_fact", old="We moved to Porto", quote="We left")
    memory.proposals.accept(*memory.proposals.add([left]))
    assert memory.items() == []


@pytest.mark.parametrize("way", ["rejected", "removed"])
def test_what_was_proposed_goes_with_its_words(path: Path, way: str) -> None:
    chat = said("No sugar today, please.")
    with EpicMemory.open(path, []) as memory:
        (made,) = memory.proposals.propose(chat)
        if way == "rejected":
            memory.proposals.reject(made.id)
            again = memory.proposals.propose(chat)
            assert (list(again), again.report.dropped) == ([], {"decided before": 1})
        else:
            memory.proposals.accept(made)
            (held,) = memory.preferences
            assert held.expires_at == made.expires_at is not None
            memory.preferences.remove(held.text)
        assert memory.proposals.accepted() == memory.proposals == []
        memory.file.compact()
    assert b"sugar" not in path.read_bytes()


def test_the_acceptance_of_a_fact_goes_with_the_fact(path: Path) -> None:
    def left(memory: EpicMemory) -> bytes:
        memory.file.compact()
        return path.read_bytes()

    with EpicMemory.open(path, []) as memory:
        memory.proposals.accept(*memory.proposals.propose(said("I live in Qzporto.")))
        assert [each.quote for each in memory.proposals.accepted()] == ["I live in Qzporto"]
        memory.facts.undo(memory.facts.edits()[0])
        assert memory.proposals.accepted() == [] and b"Qzporto" not in left(memory)
        again = memory.proposals.propose(said("I live in Qzporto."))
        assert list(again) == [] and again.report.dropped == {"decided before": 1}

        memory.proposals.accept(*memory.proposals.propose(said("I live in Qzlagos.")))
        memory.facts.add("I live in Qzbraga now.")
        memory.proposals.accept(*memory.proposals)
        assert [each.text for each in memory.proposals.accepted()] == ["I live in Qzbraga now."]
        memory.forget(*{edit.item.id for edit in memory.facts.edits()})
        # Two letters may stand in a checksum by chance.
        octets = left(memory)
        assert memory.facts.edits() == [] and not [word for word in (b"Qzp", b"Qzl", b"Qzb") if word in octets]


def test_an_ended_fact_is_forgotten_with_the_proposal_that_ended_it(path: Path) -> None:
    with EpicMemory.open(path, []) as memory:
        memory.facts.add("We have a cat called Qztom")
        cat = memory.facts[0].id
        memory.proposals.accept(*memory.proposals.propose(said("We don't have a cat any more.")))
        assert memory.facts == [] and memory.proposals.accepted()[0].kind == "end_fact"
        memory.forget(cat)
        assert memory.proposals.accepted() == []
        memory.file.compact()
    assert b"Qztom" not in path.read_bytes() and b"any more" not in path.read_bytes()


def test_an_accepted_one_expires_with_its_words(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    soon = datetime.now(timezone.utc) + timedelta(hours=1)
    with EpicMemory.open(path, []) as memory:
        for kind in ("add_fact", "add_preference"):
            text = f"I want to see Qz{kind}"
            own = Proposal(kind=kind, text=text, quote=text, expires_at=soon)  # type: ignore[arg-type]
            memory.proposals.accept(*memory.proposals.add([own]))
        assert len(memory.proposals.accepted()) == len(memory.preferences) + len(memory.facts) == 2
        later = soon.timestamp() + 1
        monkeypatch.setattr("time.time", lambda: later)
        assert memory.proposals.accepted() == []
        memory.file.compact()
    assert b"Qz" not in path.read_bytes()


def test_only_what_is_open_here_is_decided(path: Path) -> None:
    with EpicMemory.open(path, ["I like opera"], settings=Settings(namespace="ada")) as ada:
        rejected, accepted, waiting = ada.proposals.propose(said("I live in Porto. My car is a Skoda. I love tea."))
        ada.proposals.reject(rejected)
        ada.proposals.accept(accepted)
        ada.forget(ada.facts[0].id)
        own = Proposal(kind="remove_preference", old="I like opera", quote="x")
        for each in (rejected, accepted, own, "nonsense"):
            for decide in (ada.proposals.accept, ada.proposals.reject):
                with pytest.raises(UnknownProposalError, match="No open proposal"):
                    decide(each)
    with EpicMemory.open(path, [], settings=Settings(namespace="bob")) as bob:
        assert bob.proposals == []
        with pytest.raises(UnknownProposalError):
            bob.proposals.accept(waiting)
    with EpicMemory.open(path, settings=Settings(namespace="ada")) as ada:
        assert [each.text for each in ada.preferences] == ["I like opera"] and ada.facts == []
        assert ada.proposals == [waiting]
        ada.proposals.accept(waiting)
        with pytest.raises(UnknownProposalError):
            ada.proposals.accept(waiting)


def test_proposals_of_ones_own_are_kept_open_first(memory: EpicMemory) -> None:
    own = Proposal(kind="add_preference", text="I love tea", quote="Tea, please")
    assert memory.proposals.add([own]) == memory.proposals == [own]
    memory.proposals.reject(own)
    made = memory.proposals.add([own])
    assert list(made) == [] and made.report.dropped == {"decided before": 1}
    memory.proposals.accept(*memory.proposals.add([own], again=True))
    assert [each.text for each in memory.preferences] == ["I love tea"] and memory.proposals == []
    for wrong, match in ((["I love tea"], "Proposal"), (3, "Give the proposals in a list")):
        with pytest.raises(InvalidInputError, match=match):
            memory.proposals.add(wrong)  # type: ignore[arg-type]


def test_a_fact_is_short_however_it_comes(memory: EpicMemory) -> None:
    long = "a b " * 500
    with pytest.raises(InvalidInputError, match="at most 1000"):
        memory.proposals.add([Proposal(kind="add_fact", text=long, quote="x")])
    (made,) = memory.proposals.propose(said("I live in Porto."))
    with pytest.raises(InvalidInputError, match="at most 1000"):
        memory.proposals.accept(made, text=long)
    assert memory.facts == [] and memory.proposals == [made]
    remember = next(tool for tool in memory_tools(memory, allowed=True) if tool.name == "remember")
    assert "at most 1000" in json.loads(remember(text=long))["error"]
    assert memory.facts == [] and memory.proposals == [made]


def test_accepting_what_is_in_force_already_only_marks_it(memory: EpicMemory) -> None:
    (made,) = memory.proposals.propose(said("I'm allergic to peanuts."))
    memory.preferences.add(NUTS)
    memory.proposals.accept(made)
    assert [each.text for each in memory.preferences] == [NUTS] and memory.proposals == []


def test_auto_accepts_what_is_said_plainly(memory: EpicMemory) -> None:
    made = memory.proposals.propose(
        said("I'm allergic to peanuts.", "Tonight I fancy soup.", "I usually like jazz."), auto=0.9
    )
    assert [each.text for each in made.report.accepted] == [NUTS]
    assert [each.text for each in memory.preferences] == [NUTS]
    assert len(made) == len(memory.proposals) == 2


@pytest.mark.parametrize("auto", [0, 1.5, True, "high"])
def test_auto_is_a_confidence(memory: EpicMemory, auto: Any) -> None:
    with pytest.raises(InvalidInputError, match="auto"):
        memory.proposals.propose([], auto=auto)


def test_a_memory_that_cannot_be_written_proposes_nothing(path: Path) -> None:
    EpicMemory.open(path, []).close()
    with EpicMemory.open(path, settings=Settings(read_only=True)) as memory, pytest.raises(ReadOnlyError):
        memory.proposals.propose(said("I love tea."))


@pytest.mark.parametrize(
    "options",
    [*table(__file__, "proposals_that_cannot_be"), {"kind": "add_fact", "text": "a", "quote": "a", "turn": 10**30}],
)
def test_proposals_that_cannot_be(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError):
        Proposal(**options)


# the file


def test_an_export_carries_them_along(path: Path, tmp_path: Path) -> None:
    with EpicMemory.open(path, ["I like opera"]) as memory:
        waiting, accepted, rejected = memory.proposals.propose(said("I'm allergic to peanuts. I love tea. I hate fog."))
        memory.proposals.accept(accepted)
        memory.proposals.reject(rejected)
        memory.file.export(tmp_path / "all.jsonl")
    assert "fog" not in (tmp_path / "all.jsonl").read_text()
    with EpicMemory.restore(tmp_path / "all.jsonl", tmp_path / "other.epic") as other:
        assert other.proposals == [waiting] and other.proposals.accepted() == [accepted]
        assert list(other.proposals.propose(said("I hate fog."))) == []


@pytest.mark.parametrize("change", table(__file__, "changes_of_an_export"), ids=lambda change: str(change)[:40])
def test_an_export_that_was_changed_is_refused(path: Path, tmp_path: Path, change: dict[str, Any]) -> None:
    with EpicMemory.open(path, []) as memory:
        memory.proposals.propose(said("I hate fog."))
        memory.file.export(tmp_path / "all.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "all.jsonl").read_text().splitlines()]
    lines = [{**line, **change} if line["kind"] == "proposal" else line for line in lines]
    (tmp_path / "all.jsonl").write_text("\n".join(map(json.dumps, lines)))
    with pytest.raises(InvalidInputError, match="line 2"):
        EpicMemory.restore(tmp_path / "all.jsonl", tmp_path / "other.epic")


# a language model


def answers(*prepared: Any) -> Own:
    """A model that gives prepared answers, one a call."""
    left = iter(prepared)

    def answered(_: object) -> Completion:
        answer = next(left)
        if isinstance(answer, Exception):
            raise answer
        return Completion(text=answer if isinstance(answer, str) else json.dumps({"proposals": answer}))

    return Own(answered, name="scripted")


def record(**values: Any) -> dict[str, Any]:
    blank = {"kind": "add_preference", "text": "I like rye bread", "old": "", "quote": "rye for me", "turn": 1}
    return {**blank, "ends": "", **values}


@pytest.mark.parametrize(
    ("preferences", "chat", "answer", "expected", "dropped"), table(__file__, "of a model"), ids=str
)
def test_what_a_model_proposes_is_kept_if_the_user_said_so(
    preferences: list[str], chat: list[Any], answer: list[Any], expected: list[list[Any]], dropped: dict[str, int]
) -> None:
    with EpicMemory(preferences) as memory:
        made = memory.proposals.propose(chat, lm=answers(answer))
        parts = ("kind", "text", "old", "quote", "source", "confidence")
        assert [[getattr(each, part) for part in parts] for each in made] == expected
        assert dropped in ({}, made.report.dropped) and made.report.usage.calls == 1
        assert all((each.expires_at, each.ends) == (None, "") for each in made)


@pytest.mark.parametrize("answer", [LMUnavailableError("down"), "no JSON at all"])
def test_a_model_that_fails_is_reported_and_nothing_is_lost(memory: EpicMemory, answer: Any) -> None:
    made = memory.proposals.propose(said("I'm allergic to peanuts."), lm=answers(*[answer] * 6))
    assert [each.text for each in made] == [NUTS]
    assert len(made.report.failures) == 1 and "turns 1 to 1" in made.report.failures[0]


def test_what_a_model_has_read_and_does_not_propose_is_left_out(memory: EpicMemory) -> None:
    both = "I'm allergic to peanuts. I love jazz."
    found = memory.proposals.propose(said(both), lm=answers([record(text="I love jazz", quote="I love jazz")]))
    # What the cues find too is as sure as they are.
    by_cues = {each.text: each.confidence for each in propose(both)}
    assert [(made.text, made.source) for made in found] == [("I love jazz", "scripted")]
    assert found[0].confidence == by_cues["I love jazz"]
    assert [each.reason for each in found.report.left_out] == ["the model does not propose it"]


def test_an_end_that_the_quote_states_counts(memory: EpicMemory) -> None:
    quote = "only rye until Friday"
    (made,) = memory.proposals.propose(said(f"Bread: {quote}."), lm=answers([record(quote=quote)]))
    assert made.expires_at is not None and made.expires_at.weekday() == 4


def test_what_holds_for_a_while_changes_nothing_that_holds_for_good(memory: EpicMemory) -> None:
    memory.preferences.add(Preference(text="I like white bread"))
    answer = [
        record(kind="replace_preference", old="I like white bread", ends="today"),
        record(kind="remove_preference", old="I like white bread", quote="no bread", ends="today"),
    ]
    made = memory.proposals.propose(said("rye for me, no white bread today"), lm=answers(answer))
    assert [(each.kind, each.old, each.expires_at is not None) for each in made] == [("add_preference", "", True)]


ENDS = """
    today=0 | until 2 p.m.=30 | until after my scan on the 22nd=1 | till the part comes in Thursday=2 | till 24 May=3
    | the weekend=5 | from today to Sunday=5 | till next Tuesday=7 | until the 28th of May=7 | for two weeks=14
    | for a fortnight=30 | for lunch=30 | 6=30 | 03/04/2027=30 | while my stomach is bad=30
"""


@pytest.mark.parametrize("said_to_last", [each.strip() for each in ENDS.split("|")])
def test_the_words_of_an_end_are_a_date_or_are_kept(path: Path, said_to_last: str) -> None:
    ends, days = said_to_last.rsplit("=")
    chat = [{"role": "user", "content": f"rye for me, {ends}", "time": "2126-05-21T09:00:00"}]  # a Tuesday
    with EpicMemory.open(path) as memory:
        (made,) = memory.proposals.propose(chat, lm=answers([record(ends=ends.replace(" ", "  "))]))
        assert made.expires_at is not None and (made.expires_at.date() - date(2126, 5, 21)).days == int(days)
        assert made.ends == ("" if days != "30" else ends)
        assert str(made).endswith(f", for {ends!r})") is (days == "30")
    with EpicMemory.open(path) as memory:
        assert memory.proposals == [made]
        memory.proposals.accept(made)
        assert [preference.expires_at for preference in memory.preferences] == [made.expires_at]


async def test_a_long_chat_takes_one_call_for_a_few_turns(memory: EpicMemory) -> None:
    chat = said(*(f"What is {number}?" for number in range(30)))
    lm, alm = (answers(*[[]] * 4) for _ in range(2))
    assert memory.proposals.propose(chat, lm=lm) == await memory.proposals.apropose(chat, lm=alm) == []
    assert len(lm.sent) == len(alm.sent) == 3
