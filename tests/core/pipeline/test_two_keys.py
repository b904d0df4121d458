"""An item is found by its text, its instructions and exact words; below the floor of relevance nothing is."""

from __future__ import annotations

from typing import Any

from epic_memory import EpicMemory, Stance
from helpers import HashEncoder, KeepAll, memory_of, searching

WINE = "red wine"


def memory_with(*texts: str, relevant: float = -1.0, **options: Any) -> EpicMemory:
    encoder = HashEncoder()
    encoder.relevant = relevant
    memory = memory_of(WINE, **{"encoder": encoder, "tau": 0.1, **options})
    memory.add(texts)
    return memory


def found(memory: EpicMemory, query: str, k: int, **options: Any) -> list[str]:
    return [hit.item.text for hit in memory.search(query, k=k, **searching(**options))]


def test_a_text_is_found_by_its_own_words_where_the_instruction_says_something_else() -> None:
    memory = memory_with("red wine in Lisbon", "red wine and a very long list of other things besides")
    assert found(memory, "Lisbon", 1) == ["red wine in Lisbon"]
    assert len(found(memory, "Think", 2, keys="instruction", min_score=None)) == 2


def test_what_conflicts_comes_after_all_that_answers() -> None:
    verifier = KeepAll({"bad": Stance.CONFLICTS})
    memory = memory_with("red wine bad bar", "red wine good bar", "red grapes", verifier=verifier)
    assert found(memory, "wine bar", 3) == ["red wine good bar", "red grapes", "red wine bad bar"]
    assert found(memory, "wine bad bar", 1, stance_policy="any") == ["red wine bad bar"]


def test_nothing_relevant_is_said_and_the_fallback_is_asked() -> None:
    asked: list[str] = []

    def fallback(query: str, k: int) -> list[str]:
        asked.append(query)
        return ["from elsewhere"]

    memory = memory_with("red wine from Porto", relevant=0.4)
    assert memory.search("red wine", k=2).relevant
    nothing = memory.search("tides of the sea", k=2)
    assert nothing == [] and not nothing.relevant
    assert len(found(memory, "tides of the sea", 2, min_score=None)) == 1
    assert found(memory, "red grapes of Douro", 2, min_score=0.9) == []
    elsewhere = memory_with("red wine from Porto", relevant=0.4, fallback=fallback)
    assert not elsewhere.search("red wine").fallback and asked == []
    hits = elsewhere.search("tides of the sea")
    assert [hit.item.text for hit in hits] == ["from elsewhere"] and hits.fallback and asked == ["tides of the sea"]


def test_beside_an_answer_the_barely_related_is_no_hit() -> None:
    memory = EpicMemory(["I only buy second-hand clothes."])
    permit = "The parking permit for zone C has to be renewed by 31 March."
    memory.add(
        [
            *(permit, "The glass skywalk over the gorge is 200 metres up and open all year."),
            "The winter collection has arrived: brand-new parkas in six colours.",
        ]
    )
    question = "When do I renew the parking permit?"
    assert found(memory, question, 10) == [permit] and len(found(memory, question, 10, min_score=None)) == 3


def test_texts_that_say_the_same_do_not_take_the_place_of_others() -> None:
    memory = memory_with("red wine red wine Porto", "red wine Porto red wine", "red grapes Porto")
    assert "red grapes Porto" in found(memory, "red wine Porto", 2)
