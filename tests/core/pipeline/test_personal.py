"""A least relevance for memories of notes: nothing is found for a question that asks for nothing of the user's."""

from __future__ import annotations

import asyncio

import pytest

from epic_memory import EpicMemory, SearchOptions
from epic_memory.errors import InvalidInputError

ALLERGY = "I'm allergic to dairy, so no milk, butter or cheese."
SHOP = "The cheese shop on Mill Street gives ten percent off on Fridays."
CLOTH = "The kitenge for the wedding is from the shop behind the market."
PERSONAL = SearchOptions(min_score="personal")


@pytest.fixture
def memory() -> EpicMemory:
    made = EpicMemory([ALLERGY])
    made.add([SHOP, CLOTH, "The plumber comes on Tuesday at nine.", "Our wifi password is tulip-42."])
    return made


@pytest.mark.parametrize("question", ["How is cheese made?", "Why does cheese smell?", "Thanks, that was helpful!"])
def test_general_knowledge_finds_nothing_and_lists_no_preference(memory: EpicMemory, question: str) -> None:
    hits = memory.search(question, options=PERSONAL)
    assert hits == [] and not hits.relevant
    assert memory.context(question, options=PERSONAL) == ""
    assert asyncio.run(memory.acontext(question, options=PERSONAL)) == ""


@pytest.mark.parametrize("question", ["Which cheese shop gives a discount?", "What should I cook for dinner tonight?"])
def test_the_users_own_matters_are_found_as_without_it(memory: EpicMemory, question: str) -> None:
    assert memory.context(question) != ""
    assert memory.context(question, options=PERSONAL) == memory.context(question)


def test_a_general_question_near_to_a_note_finds_it_by_default(memory: EpicMemory) -> None:
    assert memory.search("What is kitenge made of?")[0].text == CLOTH
    assert memory.search("What is kitenge made of?", options=PERSONAL) == []


def test_notes_without_a_preference_are_notes() -> None:
    alone = EpicMemory([])
    alone.add([SHOP, CLOTH])
    assert alone.search("How is cheese made?", options=PERSONAL) == []
    assert alone.search("Which cheese shop gives a discount?", options=PERSONAL)[0].item.text == SHOP


def test_all_preferences_are_listed_if_they_are_asked_for(memory: EpicMemory) -> None:
    options = SearchOptions(min_score="personal", opening="all")
    assert ALLERGY in memory.context("How is cheese made?", options=options)


def test_a_question_of_unknown_kind_is_asked_as_by_default(memory: EpicMemory) -> None:
    question = "Qu'est-ce que le fromage ?"
    assert memory.context(question, options=PERSONAL) == memory.context(question)


def test_no_other_word_is_a_least_relevance() -> None:
    with pytest.raises(InvalidInputError, match='"auto", "personal" or None'):
        SearchOptions(min_score="strict")  # type: ignore[arg-type]
