"""Facts of the user: held, found, edited, undone, forgotten; and items that expire."""

from __future__ import annotations

import json
import random
import sqlite3
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from epic_graph import GraphMemory
from epic_learn.facts.editing import LONGEST_FACT, MOST_FACTS
from epic_memory import EpicMemory, Filter, Item, SearchOptions, Settings
from epic_memory.errors import BudgetError, DamagedError, InvalidInputError, LMError, UnknownItemError
from epic_memory.lm import Completion
from epic_memory.types.items import QUESTIONS
from helpers import Clock, HashEncoder, Raising, method, searching, settled
from scripted import Own
from tables import table

PREFERENCES = ["I avoid hotels with casinos."]
CASINO, BIKE = "A hotel with a casino.", "My bike is red."
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


def memory_with(*facts: str | Item, **options: Any) -> EpicMemory:
    memory = EpicMemory(PREFERENCES, settings=Settings(**options))
    for fact in facts:
        memory.facts.add(fact)
    return memory


def opened(path: Path, **options: Any) -> EpicMemory:
    return EpicMemory.open(path, None if path.exists() else PREFERENCES, settings=Settings(**options))


@pytest.fixture
def soon(clock: Clock) -> datetime:
    """A time in an hour."""
    return clock.ends(1 / 24)


def test_a_fact_is_held_although_no_preference_is_near_it(path: Path) -> None:
    with opened(path, reserve=0) as memory:
        report = memory.facts.add("I work night shifts.", type="Attribute", subclass="occupation")
        assert report.facts == 1 and report.kept == 0 and [edit.kind for edit in report.edits] == ["insert"]
        assert memory.stats().counts["facts"] == 1
    with opened(path) as memory:
        (fact,) = memory.facts
        assert fact.fact and fact.metadata == {"memory_type": "Attribute", "memory_subclass": "occupation"}
        (hit,) = memory.search("Which shifts do I work at night?")
        assert hit.item == fact and hit.tier == "fact"
        # No preference takes hold of one.
        memory.preferences.add("I love to work night shifts.")
        assert memory.stats().counts["entries"] == 0 and len(memory.facts) == 1


def test_a_context_says_what_is_known_even_if_other_hits_come_first() -> None:
    memory = EpicMemory(PREFERENCES)
    memory.add([f"Codes of door {number}: ask the porter." for number in range(9)])
    memory.facts.add(CODE)
    context = memory.context("What is the door code?", k=1)
    assert "What is known of the user:\n- The door code is 4471." in context and context.count("4471") == 1
    assert "known of the user" not in memory.context("How do volcanoes form?")


# edits


@pytest.mark.parametrize(("before", "now"), pairs("duplicate"))
def test_a_new_fact_is_edited_into_those_held(before: str, now: str) -> None:
    memory = memory_with(before)
    (edit,) = memory.facts.add(now).edits
    assert edit.kind == KINDS[before, now] and edit.reason and edit.old is not None
    assert texts(memory) == {"replace": [now], "end": [], "duplicate": [before]}[edit.kind]


@pytest.mark.parametrize(("before", "now"), pairs("update_fact", "end_fact"))
def test_what_may_have_changed_is_held_and_proposed_once(before: str, now: str) -> None:
    memory = memory_with(before)
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

    declined = memory_with(before, now)
    declined.proposals.reject(*declined.proposals)
    declined.forget(declined.facts[-1].id)
    declined.facts.add(now)
    assert texts(declined) == [before, now] and declined.proposals == []


@pytest.mark.parametrize(
    ("first", "second", "opposite"),
    [
        *((*pair, True) for pair in pairs("opposite", turned=True)),
        *((*pair, False) for pair in [*pairs("different", turned=True), *pairs("another owner")]),
    ],
)
def test_the_opposite_is_no_repetition_and_what_differs_in_more_than_a_value_is_held_beside_it(
    first: str, second: str, opposite: bool
) -> None:
    """Losing an allergy is worse than keeping two facts."""
    memory = EpicMemory()
    memory.facts.add(first)
    (edit,) = memory.facts.add(second).edits
    if opposite:
        assert edit.kind != "duplicate" and second in texts(memory)
    else:
        assert edit.kind == "insert" and edit.old is None and texts(memory) == [first, second]


def test_the_fact_that_answers_comes_first() -> None:
    answers = {
        "Who's my boss?": "My boss is Helen.",
        "Which parking space is mine?": "I park in space 31.",
        "When does Ella swim?": "Ella has swimming on Tuesdays at four.",
        "Which bank am I with?": "I bank with Lloyds.",
    }
    memory = memory_with(*answers.values())
    for question, fact in answers.items():
        assert memory.search(question)[0].item.text == fact
    assert memory.search("How do volcanoes form?") == []


def test_facts_of_one_call_are_edited_into_each_other() -> None:
    memory = EpicMemory(PREFERENCES)
    report = memory.add([Item(text=CODE, fact=True), Item(text=CODE.lower(), fact=True)])
    assert [edit.kind for edit in report.edits] == ["insert", "duplicate"] and texts(memory) == [CODE]


@pytest.mark.parametrize("second", [NEW_CODE, "The door code is no longer valid."])
def test_an_edit_is_undone(second: str) -> None:
    memory = memory_with(CODE, second)
    undone = memory.facts.undo(memory.facts.edits()[0])
    assert undone.item.text == second and texts(memory)[-1] == CODE
    assert memory.search("door code")[0].item.text == CODE
    with pytest.raises(UnknownItemError, match="no edit"):
        memory.facts.undo(undone)


def test_a_fact_that_came_back_is_undone_in_order() -> None:
    memory = memory_with(*(Item(id="safe", text=f"My safe code is now {code}.") for code in (1, 2, 1)))
    last, middle, first = memory.facts.edits()
    for edit in (first, middle):
        with pytest.raises(UnknownItemError, match="later edit first"):
            memory.facts.undo(edit)
    for edit, left in ((last, ["My safe code is now 2."]), (middle, ["My safe code is now 1."]), (first, [])):
        memory.facts.undo(edit)
        assert texts(memory) == left
    assert memory.facts.edits() == []


@pytest.mark.parametrize(
    ("text", "fact", "reserve"),
    [*((CASINO, fact, reserve) for fact in (CASINO, BIKE) for reserve in (0, "1 MB")), (BIKE, BIKE, "1 MB")],
)
def test_undoing_makes_a_fact_the_item_again_that_it_was(text: str, fact: str, reserve: int | str) -> None:
    memory = EpicMemory(PREFERENCES, settings=Settings(reserve=reserve))
    memory.add([Item(id="x", text=text, metadata={"page": 1})])
    before, entries = memory.items(), memory.explain("x").entries
    memory.facts.add(Item(id="x", text=fact))
    assert [item.fact for item in memory.items()] == [True]
    # It stays one though its text comes as an item.
    assert memory.add([Item(id="x", text=fact)]).duplicates == 1 and texts(memory) == [fact]
    undone = memory.facts.undo(memory.facts.edits()[0])
    assert memory.items() == before == [undone.displaced] and memory.facts == []
    assert [(each.preference, each.stance) for each in memory.explain("x").entries] == [
        (each.preference, each.stance) for each in entries
    ]


async def test_sync_and_async_do_the_same() -> None:
    outcomes = []
    for twin in (False, True):
        memory = EpicMemory(PREFERENCES)
        for name, given in (("add", CODE), ("add", NEW_CODE), ("add", "I like ramen."), ("undo", None)):
            made = method(memory.facts, name, twin=twin)(given or memory.facts.edits()[0].id)
            _ = await made if twin else made
        outcomes.append([*map(str, memory.facts.edits()), *texts(memory)])
    assert outcomes[0] == outcomes[1] and len(outcomes[0]) == 4


def test_there_are_not_too_many_and_none_is_long_and_none_is_evicted() -> None:
    full, memory = memory_with(CODE, budget="100 kB"), memory_with(CODE)
    full.add(f"Hotel {number} has a quiet garden and no casino at all. {'x' * 200}" for number in range(200))
    assert texts(full) == [CODE]
    with pytest.raises(BudgetError, match=str(MOST_FACTS)):
        memory.add(Item(text=f"Locker {chr(65 + n % 26)}{n} belongs to team {n}.", fact=True) for n in range(150))
    with pytest.raises(InvalidInputError, match="Add it as an item"):
        memory.facts.add("x" * (LONGEST_FACT + 1))
    assert texts(memory) == [CODE]


def test_history_goes_before_anything_that_is_kept(path: Path) -> None:
    with opened(path, budget=60_000) as memory:
        memory.add(f"A hotel {number} with casino in town number {number}" for number in range(60))
        kept, letters, dropped = len(memory), random.Random(0), 0
        for number in range(30):
            words = "".join(letters.choices("abcdefghijklmnopqrstuvwxyz", k=150))
            report = memory.facts.add(Item(id="shopping", text=f"My shopping list is {number} {words}"))
            dropped += report.history
            assert not report.history or f"{report.history} edits of facts dropped" in str(report)
        assert len(memory) == kept and len(memory.facts) == 1
        assert dropped and 0 < len(memory.facts.edits()) < 100
        assert memory.facts.edits()[0].item.text.startswith(f"My shopping list is {number}")
        memory.facts.undo(memory.facts.edits()[0])
        assert memory.facts[0].text.startswith(f"My shopping list is {number - 1}")


# what has gone


@pytest.mark.parametrize(
    ("facts", "accepted", "forgotten"),
    [
        (["My quetzal car is a Skoda zanzibar.", "I sold my quetzal car."], True, [0, 0]),
        (["My sister is called Quetzal.", "My sister is called Ines."], False, [0]),
        ([Item(id="safe", text=f"The safe's combination is {it}") for it in ("zanzibar.", "now quetzal.")], False, [0]),
    ],
    ids=["ended", "perhaps changed", "replaced"],
)
def test_what_is_forgotten_goes_with_its_history(
    path: Path, facts: list[Any], accepted: bool, forgotten: list[int]
) -> None:
    with opened(path) as memory:
        memory.facts.add(facts[0])
        first = memory.facts[0].id
        memory.facts.add(facts[1])
        if accepted:
            memory.proposals.accept(*memory.proposals)
            assert memory.facts.edits()[0].kind == "end" and len(memory.facts) == 1
        memory.forget(*{first, *(memory.facts[place].id for place in forgotten)})
        assert not [edit for edit in memory.facts.edits() if edit.kind != "insert"]
        with pytest.raises(UnknownItemError):
            memory.forget(first)
    assert not [word for word in (b"zanzibar", b"quetzal") if word in path.read_bytes().lower()]


def test_what_has_expired_is_nowhere(path: Path, tmp_path: Path, clock: Clock, soon: datetime) -> None:
    with opened(path) as memory, opened(path, read_only=True) as reader:
        memory.add([Item(text="A quiet hotel in Ghent without a casino.", id="offer", expires_at=soon)])
        memory.facts.add("My parking permit is B-12.", expires_at=soon.isoformat())
        memory.facts.add(Item(id="locker", text="My locker code is zanzibar-1."), expires_at=soon)
        memory.facts.add(Item(id="locker", text="My locker code is now quetzal-2."))
        assert memory.search("quiet hotel in Ghent") and reader.search("parking permit")
        assert len(memory.facts.edits()) == 3 and len(memory) == 1
        clock.pass_by(0.1)
        for one in (memory, reader):
            assert not one.search("quiet hotel in Ghent") and not one.search("parking permit")
            assert [item.id for item in one.items()] == ["locker"] and one.get(["offer"]) == [] and len(one) == 0
        assert memory.facts.edits() == []
        with pytest.raises(UnknownItemError):
            memory.explain("offer")
        assert memory.file.export(tmp_path / "all.jsonl") == 1
        assert "B-12" not in (tmp_path / "all.jsonl").read_text()
        EpicMemory.restore(tmp_path / "all.jsonl", tmp_path / "other.epic").close()
        assert memory.forget("offer") == 1
        with pytest.raises(UnknownItemError):
            memory.forget("offer")
        memory.add("I like quiet hotels.")
        memory.file.compact()
        assert texts(memory) == ["My locker code is now quetzal-2."]
    assert b"B-12" not in path.read_bytes() and b"zanzibar" not in path.read_bytes()


def test_ends_are_kept_of_what_waits_and_of_what_is_exported(tmp_path: Path, path: Path, soon: datetime) -> None:
    with opened(path, verifier=Raising(RuntimeError("no model"))) as memory:
        memory.add([Item(text=CASINO, expires_at=soon)])
        memory.facts.add(CODE, expires_at=soon)
        assert [item.expires_at for item in memory.items(waiting=True)] == [soon]
        memory.file.export(tmp_path / "a.jsonl")
    with EpicMemory.restore(tmp_path / "a.jsonl", tmp_path / "b.epic") as memory:
        assert [(fact.text, fact.expires_at) for fact in memory.facts] == [(CODE, soon)]


def test_a_damaged_history_is_noticed(path: Path) -> None:
    with opened(path) as memory:
        memory.facts.add(CODE)
    with closing(sqlite3.connect(path)) as db:
        db.execute("UPDATE edits SET namespace = 'defaulu'")
        db.commit()
    with pytest.raises(DamagedError, match="edits"):
        opened(path)


CAR, GONE = "We drive a grey estate.", "I get about on foot."


def asked_with(answer: str | Exception, *facts: str) -> tuple[Own, EpicMemory]:
    """A model that gives one prepared answer, or fails, and a memory that asks it about facts."""

    def answered(messages: Any) -> Completion:
        if isinstance(answer, Exception):
            raise answer
        return Completion(text=answer)

    lm = Own(answered, name="scripted")
    memory = EpicMemory([], settings=Settings(expander=lm))
    for fact in facts:
        memory.facts.add(fact)
    return lm, memory


@pytest.mark.parametrize(
    ("answer", "kind", "left"),
    [
        ('{"decision": "over", "number": 1}', "end", []),
        ('{"decision": "update", "number": 1}', "replace", [GONE]),
        ('{"decision": "same", "number": 1}', "duplicate", [CAR]),
        ('{"decision": "new", "number": 0}', "insert", [CAR, GONE]),
        ('{"decision": "over", "number": 7}', "insert", [CAR, GONE]),
        ("Perhaps.", "insert", [CAR, GONE]),
        (LMError("no model"), "insert", [CAR, GONE]),
    ],
)
def test_a_model_says_what_the_words_do_not(answer: str | Exception, kind: str, left: list[str]) -> None:
    lm, memory = asked_with(answer, CAR, CAR.lower())
    assert lm.sent == []  # nothing is held that it could change, and then the words tell
    report = memory.facts.add(GONE)
    assert [edit.kind for edit in report.edits] == [kind] and texts(memory) == left
    asked = lm.sent[0].messages[-1].content
    assert "| 1. We drive a grey estate." in asked and GONE in asked
    failed = not isinstance(answer, str) or answer == "Perhaps."
    assert any("scripted" in warning for warning in report.warnings) == failed and (failed or len(lm.sent) == 1)


PIN, ASKED = "Fuel card PIN is 3318", "What do I type in at the pump?"
NEW = {"decision": "new", "number": 0}


def test_a_fact_is_found_by_the_questions_that_a_model_says_it_answers(tmp_path: Path, path: Path) -> None:
    questions = [ASKED, "How do I pay for diesel?"]
    lm, _ = asked_with(json.dumps(NEW | {"questions": questions}))
    with EpicMemory.open(path, [], settings=Settings(reserve=0, expander=lm)) as memory:
        memory.facts.add(CAR)
        assert not memory.search(ASKED)
        memory.facts.add(PIN)
        (hit,) = memory.search(ASKED)
        assert hit.text == hit.content == PIN and hit.item.metadata == {QUESTIONS: questions}
        assert ASKED not in memory.context(ASKED) and PIN in memory.context(ASKED)
        # It is the same fact, which is not asked about again.
        assert [edit.kind for edit in memory.facts.add(PIN).edits] == ["duplicate"] and len(lm.sent) == 1
        memory.file.export(tmp_path / "me.jsonl")
    EpicMemory.restore(tmp_path / "me.jsonl", tmp_path / "copy.epic", settings=Settings(reserve=0)).close()
    for place in (tmp_path / "copy.epic", path):
        with EpicMemory.open(place, settings=Settings(reserve=0)) as memory:
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
        assert b"at the pump" not in place.read_bytes()


MANY = [f"{ASKED} {number}" for number in range(9)]


@pytest.mark.parametrize(
    ("listed", "kept"),
    [
        ([ASKED, 7, "", None], [ASKED]),
        ([ASKED * 9], None),
        (ASKED, [ASKED]),
        ({"a": ASKED}, None),
        (MANY, MANY[:3]),
    ],
    ids=["some", "long", "no list", "no text", "many"],
)
def test_questions_that_are_none_are_left_out(listed: Any, kept: list[str] | None) -> None:
    _, memory = asked_with(json.dumps(NEW | {"questions": listed}), CAR)
    report = memory.facts.add(PIN)
    assert memory.facts[1].metadata.get(QUESTIONS) == kept
    assert not any("scripted" in warning for warning in report.warnings)


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
    vector = memory.encoder.encode([query])[0]
    assert [hit.item.text for hit in memory.search(vector, k=10**30).facts] == [CODE]


# earlier values of facts: held back beside a later one, named there, and never lost

OLD, NEWER = "The staging server is heron-stage-2.", "heron-stage-2 is dead; test on blue-stage-5."
WHICH_SERVER = "Which server should I test on?"


def test_an_earlier_value_is_named_beside_the_later_one_only() -> None:
    memory = memory_with(OLD, NEWER)
    hits = memory.search(WHICH_SERVER)
    assert {OLD, NEWER} <= set(texts(memory)) and hits[0].item.text == NEWER
    assert [item.text for item in hits[0].earlier] == [OLD] == [item.text for item in hits.facts[0].earlier]
    assert OLD not in [hit.item.text for hit in (*hits, *hits.facts)]
    assert f"- {NEWER} (said earlier: {OLD.rstrip('.')})" in memory.context(WHICH_SERVER)
    # A question about the past finds it, and so does every one when the later is forgotten.
    for asked in ("Which server did I test on?", "What was the staging server before?"):
        hits = memory.search(asked, options=SearchOptions(min_score=None))
        assert OLD in [hit.item.text for hit in hits] and not any(hit.earlier for hit in hits)
    memory.forget(next(fact.id for fact in memory.facts if fact.text == NEWER))
    assert memory.search(WHICH_SERVER)[0].item.text == OLD


def test_what_a_filter_leaves_out_holds_nothing_back() -> None:
    memory = EpicMemory()
    memory.facts.add(OLD, type="work")
    memory.facts.add(NEWER, type="home")
    hits = memory.search(WHICH_SERVER, filter=Filter.eq("memory_type", "work"))
    assert [hit.item.text for hit in hits] == [OLD]


@pytest.mark.parametrize(("facts", "asked", "answer"), table(__file__, "facts_about_two_things_answer_side_by_side"))
def test_facts_about_two_things_answer_side_by_side(facts: list[str], asked: str, answer: int) -> None:
    hits = memory_with(*facts).search(asked)
    assert hits[0].item.text == facts[answer]
    assert facts[answer] not in [item.text for hit in hits for item in hit.earlier]


@pytest.mark.parametrize("options", [{}, {"coarse": False, "fine": False}], ids=str)
def test_a_graph_gives_the_facts_of_its_memory(options: dict[str, Any]) -> None:
    graph = GraphMemory(["I love restaurants in Harbour Lane."], **settled(**options))
    graph.add([f"{name} is a restaurant in Harbour Lane, which Mira runs." for name in ("Rosa", "Tasca", "Foz")])
    graph.memory.facts.add("Mira lives in Rome.")
    assert "Mira lives in Rome." in graph.context("Where does Mira live?", k=2)
