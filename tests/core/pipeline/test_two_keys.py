"""An item is found by its text, its instructions and exact words; below the floor of relevance nothing is."""

from __future__ import annotations

from typing import Any

from epic_memory import EpicMemory, SearchOptions, Stance
from helpers import HashEncoder, KeepAll, settled

WINE = "red wine"


def memory_of(*preferences: str, relevant: float = -1.0, **options: Any) -> EpicMemory:
    encoder = HashEncoder()
    encoder.relevant = relevant
    return EpicMemory(preferences, **settled(**{"encoder": encoder, "verifier": KeepAll(), "tau": 0.1, **options}))


def test_a_text_is_found_by_its_own_words_where_the_instruction_says_something_else() -> None:
    memory = memory_of(WINE, verifier=KeepAll({"conflicting": Stance.CONFLICTS}))
    memory.add(["red wine in Lisbon", "red wine and a very long list of other things besides"])
    assert memory.search("Lisbon", k=1)[0].item.text == "red wine in Lisbon"
    by_instruction = memory.search("Think", k=2, options=SearchOptions(keys="instruction", min_score=None))
    assert len(by_instruction) == 2


def test_what_conflicts_comes_after_all_that_answers() -> None:
    memory = memory_of(WINE, verifier=KeepAll({"bad": Stance.CONFLICTS}))
    memory.add(["red wine bad bar", "red wine good bar", "red grapes"])
    texts = [hit.item.text for hit in memory.search("wine bar", k=3)]
    assert texts == ["red wine good bar", "red grapes", "red wine bad bar"]
    assert [
        hit.item.text for hit in memory.search("wine bad bar", k=1, options=SearchOptions(stance_policy="any"))
    ] == ["red wine bad bar"]


def test_nothing_relevant_is_said_and_the_fallback_is_asked() -> None:
    asked: list[str] = []

    def fallback(query: str, k: int) -> list[str]:
        asked.append(query)
        return ["from elsewhere"]

    memory = memory_of(WINE, relevant=0.4)
    memory.add(["red wine from Porto"])
    assert memory.search("red wine", k=2).relevant
    nothing = memory.search("tides of the sea", k=2)
    assert nothing == [] and not nothing.relevant
    assert len(memory.search("tides of the sea", k=2, options=SearchOptions(min_score=None))) == 1
    assert memory.search("red grapes of Douro", k=2, options=SearchOptions(min_score=0.9)) == []
    elsewhere = memory_of(WINE, relevant=0.4, fallback=fallback)
    elsewhere.add(["red wine from Porto"])
    assert not elsewhere.search("red wine").fallback and asked == []
    hits = elsewhere.search("tides of the sea")
    assert [hit.item.text for hit in hits] == ["from elsewhere"] and hits.fallback and asked == ["tides of the sea"]


def test_beside_an_answer_the_barely_related_is_no_hit() -> None:
    memory = EpicMemory(["I only buy second-hand clothes."])
    memory.add(
        [
            "The parking permit for zone C has to be renewed by 31 March.",
            "The glass skywalk over the gorge is 200 metres up and open all year.",
            "The winter collection has arrived: brand-new parkas in six colours.",
        ]
    )
    question = "When do I renew the parking permit?"
    assert [hit.item.text[:18] for hit in memory.search(question)] == ["The parking permit"]
    assert len(memory.search(question, options=SearchOptions(min_score=None))) == 3


def test_texts_that_say_the_same_do_not_take_the_place_of_others() -> None:
    memory = memory_of(WINE)
    memory.add(["red wine red wine Porto", "red wine Porto red wine", "red grapes Porto"])
    texts = [hit.item.text for hit in memory.search("red wine Porto", k=2)]
    assert "red grapes Porto" in texts
