"""Choices: what suits the user is found and comes first, whoever wrote what a preference means."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence

import pytest

from epic_memory import EpicMemory, Item, Preference, SearchOptions, Settings
from epic_memory.types import Alignment, Candidate, Decision, Stance, Verdict
from epic_memory.types.preferences import Expansion
from epic_memory.verification.base import BaseVerifier


class Knowing(BaseVerifier):
    """A verifier that knows the stance of some texts to the only preference."""

    name = "knowing"

    def __init__(self, stances: Mapping[str, Stance]) -> None:
        self.stances = stances

    def verify(self, candidates: Sequence[Candidate]) -> Iterator[Verdict]:
        return map(self.verdict, candidates)

    async def averify(self, candidates: Sequence[Candidate]) -> AsyncIterator[Verdict]:
        for one in candidates:
            yield self.verdict(one)

    def verdict(self, candidate: Candidate) -> Verdict:
        stance = self.stances.get(candidate.item.text)
        alignments = tuple(
            Alignment(preference_id=one.id, instruction=f"Think of it: {one.text}", stance=stance, confidence=0.9)
            for one in candidate.preferences
            if stance is not None
        )
        decision = Decision.KEEP if alignments else Decision.DISCARD
        return Verdict(decision=decision, rationale="known", alignments=alignments, confidence=0.9)


def memory_of(preference: str | Preference, suits: Sequence[str], conflicts: Sequence[str], *others: str) -> EpicMemory:
    stances = dict.fromkeys(suits, Stance.SUPPORTS) | dict.fromkeys(conflicts, Stance.CONFLICTS)
    memory = EpicMemory([preference], settings=Settings(verifier=Knowing(stances), tau=-1.0))
    memory.add([Item(text=text) for text in (*suits, *conflicts, *others)])
    return memory


WOOL = "Merinos & Co: heavy pullovers knitted in Shetland, natural fibres only."
POLYESTER = "Jumper sale: polyester jumpers for the winter, three for the price of two."
NATURAL = "I only wear natural fabrics such as wool and cotton."


def test_what_suits_is_not_hidden_for_not_naming_the_topic() -> None:
    others = ("The toaster is under guarantee.", "Boots: resoled in October, 40 euros.")
    memory = memory_of(NATURAL, [WOOL], [POLYESTER], *others)
    found = [hit.item.text for hit in memory.search("I need a new jumper for the winter")]
    assert found[0] == WOOL and POLYESTER in found


def test_what_suits_is_found_beside_what_conflicts_where_the_question_does_not_name_the_preference() -> None:
    campsite = "Where to stay by the lake: the Lakeside campsite, tents and caravans."
    pension = "Pension Rosa, six rooms, breakfast on the terrace."
    memory = memory_of("I hate camping.", [pension], [campsite], "The lake is nine kilometres long.")
    found = [hit.item.text for hit in memory.search("Where could we stay by the lake?")]
    assert found.index(pension) < found.index(campsite)


@pytest.mark.parametrize("policy", ["prefer", "only_supports", "any"])
def test_the_policy_on_stances_is_kept(policy: str) -> None:
    memory = memory_of(NATURAL, [WOOL], [POLYESTER])
    found = [
        hit.item.text
        for hit in memory.search("I need a new jumper for the winter", options=SearchOptions(stance_policy=policy))
    ]  # type: ignore[arg-type]
    if policy == "prefer":
        assert found == [WOOL, POLYESTER]
    elif policy == "only_supports":
        assert found == [WOOL]
    else:
        assert found[0] == POLYESTER


def test_who_asks_for_a_fact_finds_what_conflicts() -> None:
    beer = "Receipt: a crate of Weissbier from Hops & Co, 23.40 euros, paid by card."
    memory = memory_of("I don't drink alcohol.", ["Elderflower cordial from the farm shop."], [beer])
    assert memory.search("How much did I pay for the beer?")[0].item.text == beer


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
        found = {
            hit.item.text: hit
            for hit in memory.search("Where could we eat out tonight?", options=SearchOptions(min_score=None))
        }
        assert [entry.stance.value for entry in found[menu].entries] == stances
        # The same if the preference comes after the text.
        memory = EpicMemory(["I love jazz."])
        memory.add([menu])
        memory.preferences.add(preference)
        assert [entry.stance.value for hit in memory.search("menu") for entry in hit.entries] == stances
