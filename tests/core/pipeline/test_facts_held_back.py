"""Earlier values of facts: held back beside a later one that may have replaced them, named there, and never lost."""

from __future__ import annotations

import pytest

from epic_memory import EpicMemory, SearchOptions
from epic_memory.filters import Filter

OLD = "The staging server is heron-stage-2."
NEW = "heron-stage-2 is dead; test on blue-stage-5."
ASKED = "Which server should I test on?"


def memory_with(*facts: str) -> EpicMemory:
    memory = EpicMemory()
    for fact in facts:
        memory.facts.add(fact)
    return memory


def test_an_earlier_value_is_named_beside_the_later_one_only() -> None:
    memory = memory_with(OLD, NEW)
    hits = memory.search(ASKED)

    assert {OLD, NEW} <= {fact.text for fact in memory.facts}
    assert hits[0].item.text == NEW
    assert [item.text for item in hits[0].earlier] == [OLD]
    assert OLD not in [hit.item.text for hit in (*hits, *hits.facts)]
    assert [item.text for item in hits.facts[0].earlier] == [OLD]
    assert f"- {NEW} (said earlier: {OLD.rstrip('.')})" in memory.context(ASKED)


@pytest.mark.parametrize("asked", ["Which server did I test on?", "What was the staging server before?"])
def test_a_question_about_the_past_finds_it(asked: str) -> None:
    hits = memory_with(OLD, NEW).search(asked, options=SearchOptions(min_score=None))

    assert OLD in [hit.item.text for hit in hits]
    assert not any(hit.earlier for hit in hits)


def test_what_a_filter_leaves_out_holds_nothing_back() -> None:
    memory = EpicMemory()
    memory.facts.add(OLD, type="work")
    memory.facts.add(NEW, type="home")
    hits = memory.search(ASKED, filter=Filter.eq("memory_type", "work"))

    assert [hit.item.text for hit in hits] == [OLD]


def test_the_earlier_one_is_back_when_the_later_is_forgotten() -> None:
    memory = memory_with(OLD, NEW)
    later = next(fact for fact in memory.facts if fact.text == NEW)
    memory.forget(later.id)

    assert memory.search(ASKED)[0].item.text == OLD


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
