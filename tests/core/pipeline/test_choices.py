"""Choices: what suits the user is found and comes first, whoever wrote what a preference means."""

from __future__ import annotations

from typing import Any

import pytest

from epic_memory import EpicMemory, Preference, SearchOptions, Settings
from epic_memory.types import Candidate, Decision, Stance, Verdict
from epic_memory.types.preferences import Expansion
from helpers import Answering, keep, searching


def memory_of(preference: str | Preference, suits: str, conflicts: str, *others: str) -> EpicMemory:
    """A memory whose verifier knows the stance of some texts to the only preference."""
    stances = {suits: Stance.SUPPORTS, conflicts: Stance.CONFLICTS}

    def judged(candidate: Candidate) -> Verdict:
        stance = stances.get(candidate.item.text)
        return keep(candidate, stance) if stance else Verdict(decision=Decision.DISCARD, rationale="known")

    memory = EpicMemory([preference], settings=Settings(verifier=Answering(judged), tau=-1.0))
    memory.add([suits, conflicts, *others])
    return memory


def found(memory: EpicMemory, query: str, **options: Any) -> list[str]:
    return [hit.item.text for hit in memory.search(query, **searching(**options))]


WOOL = "Merinos & Co: heavy pullovers knitted in Shetland, natural fibres only."
POLYESTER = "Jumper sale: polyester jumpers for the winter, three for the price of two."
NATURAL = "I only wear natural fabrics such as wool and cotton."
JUMPER = "I need a new jumper for the winter"


def test_what_suits_is_not_hidden_for_not_naming_the_topic() -> None:
    others = ("The toaster is under guarantee.", "Boots: resoled in October, 40 euros.")
    texts = found(memory_of(NATURAL, WOOL, POLYESTER, *others), JUMPER)
    assert texts[0] == WOOL and POLYESTER in texts


def test_what_suits_is_found_beside_what_conflicts_where_the_question_does_not_name_the_preference() -> None:
    campsite = "Where to stay by the lake: the Lakeside campsite, tents and caravans."
    pension = "Pension Rosa, six rooms, breakfast on the terrace."
    memory = memory_of("I hate camping.", pension, campsite, "The lake is nine kilometres long.")
    texts = found(memory, "Where could we stay by the lake?")
    assert texts.index(pension) < texts.index(campsite)


@pytest.mark.parametrize(
    ("policy", "first"), [("prefer", [WOOL, POLYESTER]), ("only_supports", [WOOL]), ("any", [POLYESTER])]
)
def test_the_policy_on_stances_is_kept(policy: str, first: list[str]) -> None:
    assert found(memory_of(NATURAL, WOOL, POLYESTER), JUMPER, stance_policy=policy) == first


def test_who_asks_for_a_fact_finds_what_conflicts() -> None:
    beer = "Receipt: a crate of Weissbier from Hops & Co, 23.40 euros, paid by card."
    memory = memory_of("I don't drink alcohol.", "Elderflower cordial from the farm shop.", beer)
    assert found(memory, "How much did I pay for the beer?")[0] == beer


DUBLIN = (
    "Train and ferry to Dublin: leave at nine, arrive in the evening.",
    "Flights to Dublin from 19 euros, one hour.",
)


def test_an_expansion_does_not_make_the_order_worse() -> None:
    expansion = Expansion(
        questions=("How do I get to Dublin?", "What is the best way to travel to Rome?"),
        follows=("train tickets", "ferry crossings", "night trains"),
        breaks=("cheap flights", "airport transfers"),
    )
    text = "I don't fly, I travel by train and ferry."
    for preference in (Preference(text=text), Preference(text=text, expansion=expansion)):
        memory = EpicMemory([preference])
        memory.add(DUBLIN)
        hits = memory.search("How should we travel to Dublin in June?")
        assert [hit.item.text for hit in hits] == list(DUBLIN)
        assert hits.matters is not None and hits.matters[0][1] > 0.5


def test_a_phrase_that_breaks_a_preference_is_found_where_it_stands_in_a_text() -> None:
    menu = "Maison Lumière: a tasting menu for 140 euros."
    text, breaks = "I'm on a tight budget.", ("tasting menus", "michelin star restaurants")
    for preference, stances in ((text, []), (Preference(text=text, expansion=Expansion(breaks=breaks)), ["conflicts"])):
        memory = EpicMemory([preference])
        memory.add([menu, "The canteen has lunch for 6 euros."])
        hits = memory.search("Where could we eat out tonight?", options=SearchOptions(min_score=None))
        assert [e.stance.value for hit in hits if hit.item.text == menu for e in hit.entries] == stances
        # The same if the preference comes after the text.
        memory = EpicMemory(["I love jazz."])
        memory.add([menu])
        memory.preferences.add(preference)
        assert [entry.stance.value for hit in memory.search("menu") for entry in hit.entries] == stances
