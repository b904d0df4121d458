"""Facts of the user: held, found, edited, undone, forgotten; and items that expire."""

from __future__ import annotations

import asyncio
import json
import random
import sqlite3
import time
from contextlib import closing
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from epic_graph import GraphMemory
from epic_learn import add_conversation
from epic_memory import EpicMemory, Filter, Item, SearchOptions, Settings
from epic_memory.errors import BudgetError, DamagedError, InvalidInputError, LMError, UnknownItemError
from epic_memory.lm import Completion
from epic_memory.pipeline.facts import LONGEST_FACT, MOST_FACTS
from epic_memory.types.items import QUESTIONS
from helpers import HashEncoder, searching, settled
from tables import table

PREFERENCES = ["I avoid hotels with casinos."]
CODE, NEW_CODE = "The door code is 4471.", "The door code is now 9902."
LABELLED = [
    line.split(" | ")
    for line in Path(__file__).with_name("facts.txt").read_text("utf-8").splitlines()
    if line[0] != "#"
]
KINDS = {(before, now): kind for kind, before, now in LABELLED}


def pairs(*kinds: str, turned: bool = False) -> list[tuple[str, str]]:
    """The labelled pairs of facts of some kinds, also in the other order if they are `turned`."""
    found = [(before, now) for kind, before, now in LABELLED if kind in kinds]
    return [*found, *((now, before) for before, now in found)] if turned else found


def texts(memory: EpicMemory) -> list[str]:
    return [item.text for item in memory.facts]


def later(**ahead: float) -> datetime:
    return datetime.now(timezone.utc) + timedelta(**ahead)


def test_a_fact_is_held_although_no_preference_is_near_it(tmp_path: Path) -> None:
    path = tmp_path / "me.epic"
    with EpicMemory.open(path, PREFERENCES, settings=Settings(reserve=0)) as memory:
        report = memory.facts.add("I work night shifts.", type="Attribute", subclass="occupation")
        assert report.facts == 1 and report.kept == 0 and [edit.kind for edit in report.edits] == ["insert"]
        assert memory.stats().counts["facts"] == 1
    with EpicMemory.open(path) as memory:
        (fact,) = memory.facts
        assert fact.fact and fact.metadata == {"memory_type": "Attribute", "memory_subclass": "occupation"}
        (hit,) = memory.search("Which shifts do I work at night?")
        assert hit.item == fact and hit.tier == "fact"


def test_a_context_says_what_is_known_even_if_other_hits_come_first() -> None:
    memory = EpicMemory(PREFERENCES)
    memory.add([f"Codes of door {number}: ask the porter." for number in range(9)])
    memory.facts.add(CODE)
    context = memory.context("What is the door code?", k=1)
    assert "What is known of the user:\n- The door code is 4471." in context and context.count("4471") == 1
    assert "known of the user" not in memory.context("How do volcanoes form?")


@pytest.mark.parametrize(("before", "now"), pairs("duplicate"))
def test_a_new_fact_is_edited_into_those_held(before: str, now: str) -> None:
    memory = EpicMemory(PREFERENCES)
    memory.facts.add(before)
    (edit,) = memory.facts.add(now).edits
    assert edit.kind == KINDS[before, now] and edit.reason and edit.old is not None
    assert texts(memory) == {"replace": [now], "end": [], "duplicate": [before]}[edit.kind]


@pytest.mark.parametrize(("before", "now"), pairs("update_fact", "end_fact"))
def test_what_may_have_changed_is_held_and_proposed(before: str, now: str) -> None:
    memory = EpicMemory(PREFERENCES)
    memory.facts.add(before)
    (edit,) = memory.facts.add(now).edits

    assert edit.kind == "insert" and repr(before) in edit.reason and texts(memory) == [before, now]
    (proposal,) = memory.proposals
    assert (proposal.kind, proposal.old, proposal.quote) == (KINDS[before, now], before, now)
    memory.proposals.accept(proposal)
    assert texts(memory) == [now] and memory.proposals == []
    memory.facts.undo(memory.facts.edits()[0])
    assert set(texts(memory)) == {before, now}
    memory.facts.add(now)
    assert memory.proposals == []


@pytest.mark.parametrize(("before", "now"), pairs("update_fact", "end_fact"))
def test_a_change_that_was_turned_down_is_not_proposed_again(before: str, now: str) -> None:
    memory = EpicMemory(PREFERENCES)
    memory.facts.add(before)
    memory.facts.add(now)
    memory.proposals.reject(*memory.proposals)
    memory.forget(memory.facts[-1].id)
    memory.facts.add(now)

    assert texts(memory) == [before, now] and memory.proposals == []


@pytest.mark.parametrize(("first", "second"), pairs("opposite", turned=True))
def test_the_opposite_is_no_repetition(first: str, second: str) -> None:
    """Losing an allergy is worse than keeping two facts."""
    memory = EpicMemory()
    memory.facts.add(first)
    (edit,) = memory.facts.add(second).edits

    assert edit.kind != "duplicate" and second in texts(memory)


@pytest.mark.parametrize(("first", "second"), [*pairs("different", turned=True), *pairs("another owner")])
def test_what_differs_in_more_than_a_value_is_held_beside_it(first: str, second: str) -> None:
    memory = EpicMemory()
    memory.facts.add(first)
    (edit,) = memory.facts.add(second).edits

    assert edit.kind == "insert" and edit.old is None and texts(memory) == [first, second]


def test_the_fact_that_answers_comes_first() -> None:
    memory = EpicMemory(PREFERENCES)
    facts = (
        "My boss is Helen.",
        "I park in space 31.",
        "Ella has swimming on Tuesdays at four.",
        "I bank with Lloyds.",
    )
    for fact in facts:
        memory.facts.add(fact)
    for question, fact in zip(
        ("Who's my boss?", "Which parking space is mine?", "When does Ella swim?", "Which bank am I with?"),
        facts,
        strict=True,
    ):
        assert memory.search(question)[0].item.text == fact
    assert memory.search("How do volcanoes form?") == []


def test_facts_of_one_call_are_edited_into_each_other() -> None:
    memory = EpicMemory(PREFERENCES)
    report = memory.add([Item(text=CODE, fact=True), Item(text=CODE.lower(), fact=True)])
    assert [edit.kind for edit in report.edits] == ["insert", "duplicate"] and texts(memory) == [CODE]


@pytest.mark.parametrize("second", [NEW_CODE, "The door code is no longer valid."])
def test_an_edit_is_undone(second: str) -> None:
    memory = EpicMemory(PREFERENCES)
    memory.facts.add(CODE)
    memory.facts.add(second)
    undone = memory.facts.undo(memory.facts.edits()[0])
    assert undone.item.text == second and texts(memory)[-1] == CODE
    assert memory.search("door code")[0].item.text == CODE
    with pytest.raises(UnknownItemError, match="no edit"):
        memory.facts.undo(undone)


def test_facts_are_not_evicted(tmp_path: Path) -> None:
    with EpicMemory.open(tmp_path / "me.epic", PREFERENCES, settings=Settings(budget="100 kB")) as memory:
        memory.facts.add(CODE)
        memory.add(
            f"Hotel {number} has a quiet garden, a library and no casino at all. {'x' * 200}" for number in range(400)
        )
        assert texts(memory) == [CODE] and memory.file.verify()


def test_there_are_not_too_many_and_none_is_long() -> None:
    memory = EpicMemory(PREFERENCES)
    with pytest.raises(BudgetError, match=str(MOST_FACTS)):
        memory.add(Item(text=f"Locker {chr(65 + n % 26)}{n} belongs to team {n}.", fact=True) for n in range(150))
    assert memory.facts == []
    with pytest.raises(InvalidInputError, match="Add it as an item"):
        memory.facts.add("x" * (LONGEST_FACT + 1))


def test_no_preference_takes_hold_of_a_fact() -> None:
    memory = EpicMemory(PREFERENCES)
    memory.facts.add("I stayed in hotels with spas in May.")
    memory.preferences.add("I love hotels with spas.")
    assert memory.stats().counts["entries"] == 0 and len(memory.facts) == 1


def test_sync_and_async_do_the_same() -> None:
    def made(memory: EpicMemory) -> list[str]:
        return [str(edit) for edit in memory.facts.edits()]

    async def asynchronous() -> list[str]:
        memory = EpicMemory(PREFERENCES)
        await memory.facts.aadd(CODE)
        await memory.facts.aadd(NEW_CODE)
        await memory.facts.aadd("I like ramen.")
        await memory.facts.aundo(memory.facts.edits()[0])
        return made(memory) + texts(memory)

    memory = EpicMemory(PREFERENCES)
    for fact in (CODE, NEW_CODE, "I like ramen."):
        memory.facts.add(fact)
    memory.facts.undo(memory.facts.edits()[0].id)
    assert made(memory) + texts(memory) == asyncio.run(asynchronous())


def test_an_export_takes_facts_and_their_ends_along(tmp_path: Path) -> None:
    end = later(days=3)
    with EpicMemory.open(tmp_path / "a.epic", PREFERENCES) as memory:
        memory.facts.add(CODE, expires_at=end)
        memory.file.export(tmp_path / "a.jsonl")
    with EpicMemory.restore(tmp_path / "a.jsonl", tmp_path / "b.epic") as memory:
        (fact,) = memory.facts
        assert fact.text == CODE and fact.expires_at == end


def test_what_has_expired_is_not_found_and_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, words = tmp_path / "me.epic", "A quiet hotel in Ghent without a casino."
    with (
        EpicMemory.open(path, PREFERENCES) as memory,
        EpicMemory.open(path, settings=Settings(read_only=True)) as reader,
    ):
        memory.add([Item(text=words, id="offer", expires_at=later(hours=1))])
        memory.facts.add("My parking permit is B-12.", expires_at=later(hours=1).isoformat())
        assert memory.search("quiet hotel in Ghent") and reader.search("parking permit")
        now = time.time()
        monkeypatch.setattr(time, "time", lambda: now + 4000)
        for one in (memory, reader):
            assert not one.search("quiet hotel in Ghent") and not one.search("parking permit")
            assert one.items() == [] and one.get(["offer"]) == []
        memory.add("I like quiet hotels.")
    assert b"B-12" not in path.read_bytes()


def test_a_waiting_item_keeps_its_end() -> None:
    class Failing:
        name = "failing"

        def verify(self, candidates):  # type: ignore[no-untyped-def]
            raise RuntimeError("no model")
            yield

        async def averify(self, candidates):  # type: ignore[no-untyped-def]
            raise RuntimeError("no model")
            yield

    end = later(days=1)
    memory = EpicMemory(PREFERENCES, settings=Settings(verifier=Failing()))
    memory.add([Item(text="A hotel with a casino.", expires_at=end)])
    (waiting,) = memory.items(waiting=True)
    assert waiting.expires_at == end


class Answering:
    """A language model that gives one prepared answer, or fails."""

    name, concurrency, context = "scripted", 1, None

    def __init__(self, answer: str | Exception) -> None:
        self.answer, self.asked = answer, []

    def complete(self, messages, *, schema=None, max_tokens=None):  # type: ignore[no-untyped-def]
        self.asked.append(messages[-1].content)
        if isinstance(self.answer, Exception):
            raise self.answer
        return Completion(text=self.answer)

    async def acomplete(self, messages, **options):  # type: ignore[no-untyped-def]
        return self.complete(messages)


CAR, GONE = "We drive a grey estate.", "I get about on foot."


@pytest.mark.parametrize(
    ("answer", "kind", "left"),
    [
        ('{"decision": "over", "number": 1}', "end", []),
        ('{"decision": "update", "number": 1}', "replace", [GONE]),
        ('{"decision": "same", "number": 1}', "duplicate", [CAR]),
        ('{"decision": "new", "number": 0}', "insert", [CAR, GONE]),
        ('{"decision": "over", "number": 7}', "insert", [CAR, GONE]),
    ],
)
def test_a_model_says_what_the_words_do_not(answer: str, kind: str, left: list[str]) -> None:
    lm = Answering(answer)
    memory = EpicMemory([], settings=Settings(expander=lm))
    memory.facts.add(CAR)
    assert lm.asked == []  # nothing is held that it could change
    (edit,) = memory.facts.add(GONE).edits
    assert edit.kind == kind and texts(memory) == left and len(lm.asked) == 1
    assert "| 1. We drive a grey estate." in lm.asked[0] and GONE in lm.asked[0]


@pytest.mark.parametrize("answer", ["Perhaps.", LMError("no model")])
def test_a_model_that_does_not_answer_loses_nothing(answer: str | Exception) -> None:
    memory = EpicMemory([], settings=Settings(expander=Answering(answer)))
    memory.facts.add(CAR)
    report = memory.facts.add(GONE)
    assert texts(memory) == [CAR, GONE] and any("scripted" in warning for warning in report.warnings)


def test_a_model_is_not_asked_where_the_words_tell() -> None:
    lm = Answering("{}")
    memory = EpicMemory([], settings=Settings(expander=lm))
    memory.facts.add(CODE)
    memory.facts.add(CODE.lower())
    assert texts(memory) == [CODE] and lm.asked == []


PIN, ASKED = "Fuel card PIN is 3318", "What do I type in at the pump?"
WITH_QUESTIONS = json.dumps({"decision": "new", "number": 0, "questions": [ASKED, "How do I pay for diesel?"]})


def test_a_fact_is_found_by_the_questions_that_a_model_says_it_answers(tmp_path: Path) -> None:
    path, export = tmp_path / "me.epic", tmp_path / "me.jsonl"
    lm = Answering(WITH_QUESTIONS)
    with EpicMemory.open(path, [], settings=Settings(reserve=0, expander=lm)) as memory:
        memory.facts.add(CAR)
        assert not memory.search(ASKED)
        memory.facts.add(PIN)
        assert len(lm.asked) == 1
        (hit,) = memory.search(ASKED)
        assert hit.text == hit.content == PIN and hit.item.metadata == {QUESTIONS: [ASKED, "How do I pay for diesel?"]}
        assert ASKED not in memory.context(ASKED) and PIN in memory.context(ASKED)
        # It is the same fact, which is not asked about again.
        assert [edit.kind for edit in memory.facts.add(PIN).edits] == ["duplicate"] and len(lm.asked) == 1
        memory.file.export(export)
    with EpicMemory.restore(export, tmp_path / "copy.epic", settings=Settings(reserve=0)) as memory:
        assert [each.score for each in memory.search(ASKED)] == [hit.score]
    with EpicMemory.open(path, settings=Settings(reserve=0)) as memory:
        assert [each.score for each in memory.search(ASKED)] == [hit.score]
        memory.facts.add("My fuel card PIN is now 7750.")
        memory.facts.undo(memory.facts.edits()[0])
        assert [each.score for each in memory.search(ASKED)] == [hit.score]
        (found,) = memory.search(ASKED)
        encoder = HashEncoder()
        memory.file.reencode(encoder)
        space = memory._session.space()
        stored = space.texts.vectors[space.texts.places(sorted(space.facts))]
        expected = encoder.encode([fact.searched for fact in memory.facts])
        assert (stored * expected).sum(axis=1).min() > 0.99
        memory.forget(found.item.id)
    assert b"at the pump" not in path.read_bytes()


MANY = [f"{ASKED} {number}" for number in range(9)]
LISTED = {"some": [ASKED, 7, "", None], "long": [ASKED * 9], "no list": ASKED, "no text": {"a": ASKED}, "many": MANY}
KEPT = {"some": [ASKED], "no list": [ASKED], "many": MANY[:3]}


@pytest.mark.parametrize("listed", LISTED)
def test_questions_that_are_none_are_left_out(listed: str) -> None:
    lm = Answering(json.dumps({"decision": "new", "number": 0, "questions": LISTED[listed]}))
    memory = EpicMemory([], settings=Settings(expander=lm))
    memory.facts.add(CAR)
    report = memory.facts.add(PIN)
    assert memory.facts[1].metadata.get(QUESTIONS) == KEPT.get(listed)
    assert not any("scripted" in warning for warning in report.warnings)


# history


def test_history_goes_before_anything_that_is_kept(tmp_path: Path) -> None:
    with EpicMemory.open(tmp_path / "me.epic", PREFERENCES, settings=Settings(budget=60_000)) as memory:
        memory.add(f"A hotel {number} with casino in town number {number}" for number in range(60))
        kept, letters = len(memory), random.Random(0)
        dropped = 0
        for number in range(30):
            words = "".join(letters.choices("abcdefghijklmnopqrstuvwxyz", k=150))
            report = memory.facts.add(Item(id="shopping", text=f"My shopping list is {number} {words}"))
            dropped += report.history
            assert not report.history or f"{report.history} edits of facts dropped" in str(report)
        assert len(memory) == kept and len(memory.facts) == 1
        assert (
            dropped
            and 0 < len(memory.facts.edits()) < 100
            and memory.facts.edits()[0].item.text.startswith(f"My shopping list is {number}")
        )
        memory.facts.undo(memory.facts.edits()[0])
        assert memory.facts[0].text.startswith(f"My shopping list is {number - 1}")


def test_a_fact_that_came_back_is_undone_in_order() -> None:
    memory = EpicMemory(PREFERENCES)
    for code in (1, 2, 1):
        memory.facts.add(Item(id="safe", text=f"My safe code is now {code}."))
    last, middle, first = memory.facts.edits()
    for edit in (first, middle):
        with pytest.raises(UnknownItemError, match="later edit first"):
            memory.facts.undo(edit)
    for edit, left in ((last, ["My safe code is now 2."]), (middle, ["My safe code is now 1."]), (first, [])):
        memory.facts.undo(edit)
        assert texts(memory) == left
    assert memory.facts.edits() == []


@pytest.mark.parametrize("reserve", [0, "1 MB"])
@pytest.mark.parametrize("fact", ["A hotel with a casino.", "My bike is red."])
def test_undoing_makes_a_fact_the_item_again_that_it_was(fact: str, reserve: int | str) -> None:
    memory = EpicMemory(PREFERENCES, settings=Settings(reserve=reserve))
    memory.add([Item(id="x", text="A hotel with a casino.", metadata={"page": 1})])
    before, entries = memory.items(), memory.explain("x").entries
    memory.facts.add(Item(id="x", text=fact))
    assert [item.fact for item in memory.items()] == [True]
    undone = memory.facts.undo(memory.facts.edits()[0])
    assert memory.items() == before == [undone.displaced] and memory.facts == []
    assert [(each.preference, each.stance) for each in memory.explain("x").entries] == [
        (each.preference, each.stance) for each in entries
    ]


def test_an_item_of_the_light_tier_is_one_again() -> None:
    memory = EpicMemory(PREFERENCES)
    memory.add(["My bike is red."])
    memory.facts.add("My bike is red.")
    memory.facts.undo(memory.facts.edits()[0])
    assert [(item.text, item.fact) for item in memory.items()] == [("My bike is red.", False)]


@pytest.mark.parametrize("reserve", [0, "1 MB"])
def test_a_fact_stays_one_though_its_text_comes_as_an_item(reserve: int | str) -> None:
    memory = EpicMemory(PREFERENCES, settings=Settings(reserve=reserve))
    memory.facts.add(CODE)
    assert memory.add([CODE]).duplicates == 1 and texts(memory) == [CODE]


def test_what_was_replaced_or_ended_can_be_forgotten(tmp_path: Path) -> None:
    path = tmp_path / "me.epic"
    with EpicMemory.open(path, PREFERENCES) as memory:
        memory.facts.add("My quetzal car is a Skoda zanzibar.")
        car = memory.facts[0].id
        memory.facts.add("I sold my quetzal car.")
        memory.proposals.accept(*memory.proposals)
        assert memory.facts.edits()[0].kind == "end" and len(memory.facts) == 1
        assert memory.forget(car, memory.facts[0].id) == 1 and memory.facts.edits() == []
        with pytest.raises(UnknownItemError):
            memory.forget(car)
    assert b"zanzibar" not in path.read_bytes() and b"quetzal" not in path.read_bytes()


def test_what_another_fact_may_have_changed_is_forgotten_whole(tmp_path: Path) -> None:
    path = tmp_path / "me.epic"
    with EpicMemory.open(path, PREFERENCES) as memory:
        memory.facts.add("My sister is called Quetzal.")
        memory.facts.add("My sister is called Ines.")
        assert memory.proposals[0].old == memory.facts[0].text
        memory.forget(memory.facts[0].id)
    assert b"quetzal" not in path.read_bytes().lower()


def test_a_replaced_fact_expires_in_the_history_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "me.epic"
    with EpicMemory.open(path, PREFERENCES) as memory:
        memory.facts.add(Item(id="locker", text="My locker code is zanzibar-1."), expires_at=later(hours=1))
        memory.facts.add(Item(id="locker", text="My locker code is now quetzal-2."))
        assert len(memory.facts.edits()) == 2
        now = time.time()
        monkeypatch.setattr(time, "time", lambda: now + 4000)
        assert memory.facts.edits() == []
        memory.file.compact()
        assert texts(memory) == ["My locker code is now quetzal-2."]
    assert b"zanzibar" not in path.read_bytes()


def test_a_damaged_history_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "me.epic"
    with EpicMemory.open(path, PREFERENCES) as memory:
        memory.facts.add(CODE)
    with closing(sqlite3.connect(path)) as db:
        db.execute("UPDATE edits SET namespace = 'defaulu'")
        db.commit()
    with pytest.raises(DamagedError, match="edits"):
        EpicMemory.open(path)


def test_what_has_expired_is_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with EpicMemory.open(tmp_path / "me.epic", PREFERENCES) as memory:
        memory.add([Item(id="offer", text="A hotel with a casino.", expires_at=later(hours=1))])
        memory.facts.add("My permit is B-12.", expires_at=later(hours=1))
        memory.add(["Another hotel with a casino."])
        assert len(memory) == 2
        now = time.time()
        monkeypatch.setattr(time, "time", lambda: now + 4000)
        assert len(memory) == 1
        with pytest.raises(UnknownItemError):
            memory.explain("offer")
        assert memory.file.export(tmp_path / "all.jsonl") == 1
        assert "B-12" not in (tmp_path / "all.jsonl").read_text()
        EpicMemory.restore(tmp_path / "all.jsonl", tmp_path / "other.epic").close()
        assert memory.forget("offer") == 1
        with pytest.raises(UnknownItemError):
            memory.forget("offer")


@pytest.mark.parametrize(
    "options", [*table(__file__, "a_fact_is_found_however_the_rest_is_searched"), {"preferences": PREFERENCES}]
)
def test_a_fact_is_found_however_the_rest_is_searched(options: dict[str, Any]) -> None:
    memory = EpicMemory(PREFERENCES)
    memory.add(["A hotel with a casino near the door.", "The casino's hotel has a door code for guests."])
    memory.facts.add(Item(text=CODE, metadata={"room": 1}))
    memory.facts.add("I work night shifts.")
    query = "What is the door code?"
    assert [hit.item.text for hit in memory.search(query, **searching(**options)).facts] == [CODE]
    assert f"What is known of the user:\n- {CODE}" in memory.context(query, **searching(**options))
    assert not memory.search("How do volcanoes form?", **searching(**options)).facts
    assert not memory.search(query, filter=Filter.eq("room", 2), **searching(**options)).facts


def test_a_vector_finds_facts_too() -> None:
    memory = EpicMemory(PREFERENCES)
    memory.facts.add(CODE)
    vector = memory.encoder.encode(["What is the door code?"])[0]
    assert [hit.item.text for hit in memory.search(vector).facts] == [CODE]


# earlier values of facts: held back beside a later one, named there, and never lost

OLD = "The staging server is heron-stage-2."
NEW = "heron-stage-2 is dead; test on blue-stage-5."
WHICH_SERVER = "Which server should I test on?"


def memory_with(*facts: str) -> EpicMemory:
    memory = EpicMemory()
    for fact in facts:
        memory.facts.add(fact)
    return memory


def test_an_earlier_value_is_named_beside_the_later_one_only() -> None:
    memory = memory_with(OLD, NEW)
    hits = memory.search(WHICH_SERVER)

    assert {OLD, NEW} <= {fact.text for fact in memory.facts}
    assert hits[0].item.text == NEW
    assert [item.text for item in hits[0].earlier] == [OLD]
    assert OLD not in [hit.item.text for hit in (*hits, *hits.facts)]
    assert [item.text for item in hits.facts[0].earlier] == [OLD]
    assert f"- {NEW} (said earlier: {OLD.rstrip('.')})" in memory.context(WHICH_SERVER)


@pytest.mark.parametrize("asked", ["Which server did I test on?", "What was the staging server before?"])
def test_a_question_about_the_past_finds_it(asked: str) -> None:
    hits = memory_with(OLD, NEW).search(asked, options=SearchOptions(min_score=None))

    assert OLD in [hit.item.text for hit in hits]
    assert not any(hit.earlier for hit in hits)


def test_what_a_filter_leaves_out_holds_nothing_back() -> None:
    memory = EpicMemory()
    memory.facts.add(OLD, type="work")
    memory.facts.add(NEW, type="home")
    hits = memory.search(WHICH_SERVER, filter=Filter.eq("memory_type", "work"))

    assert [hit.item.text for hit in hits] == [OLD]


def test_the_earlier_one_is_back_when_the_later_is_forgotten() -> None:
    memory = memory_with(OLD, NEW)
    later = next(fact for fact in memory.facts if fact.text == NEW)
    memory.forget(later.id)

    assert memory.search(WHICH_SERVER)[0].item.text == OLD


@pytest.mark.parametrize(
    ("facts", "asked", "answer"),
    [
        (("My brother's birthday is 3 May.", "My sister's birthday is 9 June."), "When is my brother's birthday?", 0),
        (("We fly to Lisbon on 3 May.", "We fly to Oslo on 9 June."), "When do we fly to Lisbon?", 0),
        (("My daughter is allergic to nuts.", "My son is allergic to eggs."), "What is my daughter allergic to?", 0),
        (("I pay £640 rent a month.", "The landlord has changed to Mr Sadiq."), "How much rent do I pay?", 0),
        (("I pay £640 rent a month.", "The landlord has changed to Mr Sadiq."), "Who is the landlord?", 1),
    ],
)
def test_facts_about_two_things_answer_side_by_side(facts: tuple[str, ...], asked: str, answer: int) -> None:
    hits = memory_with(*facts).search(asked)

    assert hits[0].item.text == facts[answer]
    assert facts[answer] not in [item.text for hit in hits for item in hit.earlier]


# what a model is given


@pytest.mark.parametrize("options", [{}, {"coarse": False, "fine": False}], ids=str)
def test_a_graph_gives_the_facts_of_its_memory(options: dict[str, Any]) -> None:
    graph = GraphMemory(["I love restaurants in Harbour Lane."], **settled(**options))
    graph.add([f"{name} is a restaurant in Harbour Lane, which Mira runs." for name in ("Rosa", "Tasca", "Foz")])
    graph.memory.facts.add("Mira lives in Rome.")
    assert "Mira lives in Rome." in graph.context("Where does Mira live?", k=2)


def test_wrong_arguments_are_named() -> None:
    memory = EpicMemory(PREFERENCES)
    wrong: Any = 5
    with pytest.raises(InvalidInputError, match="metadata must be"):
        memory.facts.add("a", metadata=wrong)
    with pytest.raises(InvalidInputError, match="user must be"):
        memory.proposals.propose("hi", user=wrong)
    with pytest.raises(InvalidInputError, match="chunker must be"):
        add_conversation(memory, "user: hi", chunker=wrong)
    with pytest.raises(InvalidInputError, match="allowance must be"):
        memory.preferences.for_("x", allowance=None)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="report must be"):
        next(memory.judge(["a"], report=wrong))
    assert memory.search("x", k=10**30) == []


def test_forgetting_a_fact_forgets_its_history(tmp_path: Path) -> None:
    path = tmp_path / "me.epic"
    with EpicMemory.open(path, PREFERENCES) as memory:
        memory.facts.add(Item(id="safe", text="The safe's combination is zanzibar-1."))
        memory.facts.add(Item(id="safe", text="The safe's combination is now quetzal-2."))
        memory.forget(memory.facts[0].id)
        assert memory.facts.edits() == [] and memory.facts == []
    assert b"zanzibar" not in path.read_bytes() and b"quetzal" not in path.read_bytes()
