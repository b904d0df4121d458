"""Tags: written to metadata, filtered by, and compared with those of a query to rank what is found."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from epic_core import EpicMemory, Filter, Item
from epic_core.errors import InvalidInputError
from epic_core.graph import PhraseTagger
from epic_core.pipeline.tags import paper_order
from epic_core.text.tagging import TagRerank, Tags
from helpers import HashEncoder, KeepAll

WINES = ["red wine from Porto", "red wine from Bordeaux", "red wine with cheese"]


class Places:
    """Finds places; fails for what it is told to; counts what it reads."""

    name = "places"

    def __init__(self) -> None:
        self.read: list[str] = []
        self.fails: set[str] = set()

    def tag(self, texts: Sequence[str]) -> list[Tags | None]:
        self.read += texts
        return [
            None if text in self.fails else {"entities": [place for place in ("Porto", "Bordeaux") if place in text]}
            for text in texts
        ]

    async def atag(self, texts: Sequence[str]) -> list[Tags | None]:
        return self.tag(texts)


def held(tagger: Places, path: Path | None = None) -> EpicMemory:
    options: dict[str, Any] = {"encoder": HashEncoder(), "verifier": KeepAll(), "tagger": tagger}
    return EpicMemory.open(path, ["red wine"], **options) if path else EpicMemory(["red wine"], **options)


async def test_tags_are_metadata_that_filters_work_on() -> None:
    memory, other = held(Places()), held(Places())
    memory.add(WINES)
    await other.aadd(WINES)
    for each in (memory, other):
        (hit,) = each.search("red wine", filter=Filter.contains("tags_entities", "Porto"))
        assert hit.item.metadata == {"tags_entities": ["Porto"]}
        assert sum(not item.metadata for item in each.items()) == 1


def test_own_metadata_stays_and_what_is_held_is_not_read_again(path: Path) -> None:
    tagger = Places()
    own = Item(text=WINES[0], id="own", metadata={"tags_entities": ["Lisbon"], "year": 2020})
    with held(tagger, path) as memory:
        memory.add([own, WINES[1]])
        assert memory.get(["own"])[0].metadata == own.metadata
    read = list(tagger.read)
    with held(tagger, path) as memory:
        report = memory.add([WINES[1], own])
        assert tagger.read == read and report.duplicates == 2
        memory.add([Item(text="red wine from Bordeaux and Porto", id="own")])
        assert memory.get(["own"])[0].metadata == {"tags_entities": ["Porto", "Bordeaux"]}


def test_what_a_tagger_cannot_read_is_added_without_tags_and_reported() -> None:
    tagger = Places()
    tagger.fails = {WINES[0]}
    memory = held(tagger)
    report = memory.add(WINES)
    assert len(memory) == 3 and "1 items have no tags" in str(report)
    tagger.fails = set()
    memory.add(WINES)
    assert memory.search("red wine", filter=Filter.contains("tags_entities", "Porto"))


async def test_shared_tags_rank_and_their_number_counts() -> None:
    memory = held(Places())
    memory.add(WINES)
    rerank = TagRerank(share=1.0)
    question = "red wine, and what of Bordeaux or Porto?"
    assert {hit.item.text for hit in memory.search(question, 2, rerank=rerank)} == set(WINES[:2])
    hits = memory.search("red wine, not Bordeaux", 3, rerank=rerank)
    assert hits[0].item.text == WINES[1] and [hit.score for hit in hits] == sorted(
        (h.score for h in hits), reverse=True
    )
    assert len(hits.vectors) == 3 and hits.query is not None
    again = await memory.asearch("red wine, not Bordeaux", 3, rerank=rerank)
    assert [(hit.item.id, hit.score) for hit in again] == [(hit.item.id, hit.score) for hit in hits]


def test_the_published_rule() -> None:
    def shown(*matches: int, **options: int) -> list[int]:
        order, _ = paper_order(np.array(matches), TagRerank(paper=True, **options))
        return order.tolist()

    assert shown(0, 0, 0, 0, 0) == [0, 1, 2]  # 20, 19, 18
    assert shown(0, 0, 0, 1, 1) == [0, 1, 2, 3]  # the fourth has 17 + 1, the fifth 16 + 1
    assert shown(0, 0, 5) == [2, 0, 1]
    assert shown(9, 9, 9, 9, 9, 9, 9) == [0, 1, 2, 3, 4]
    assert shown(0, 0, 0, fetched=18) == [0]
    assert shown() == []


def test_the_published_rule_shows_something_whatever_is_asked() -> None:
    memory = EpicMemory(["I follow a strict vegan diet."], tagger=PhraseTagger(), coarse=False, fine=False)
    memory.add(["Lentil soup, a vegan dinner.", "Tofu with rice.", "A bowl of oats.", "Beans on toast."])
    assert not memory.search("Who won the election?")
    assert len(memory.search("Who won the election?", rerank="tags-paper")) == 3
    assert not memory.search("Who won the election?", rerank="tags")


def test_what_cannot_be() -> None:
    memory = EpicMemory(["red wine"], encoder=HashEncoder(), verifier=KeepAll())
    with pytest.raises(InvalidInputError, match="takes a tagger"):
        memory.search("red wine", rerank="tags")
    with pytest.raises(InvalidInputError, match="rerank must be"):
        held(Places()).search("red wine", rerank="stars")  # type: ignore[arg-type]
    for wrong in (Places, "phrases", object()):
        with pytest.raises(InvalidInputError, match="A tagger has"):
            EpicMemory(tagger=wrong)  # type: ignore[arg-type]


async def test_a_reranker_chooses_from_what_the_tags_ranked() -> None:
    memory = held(Places())
    memory.add(WINES)
    by_tags = memory.search("red wine Porto", 3, rerank="tags", min_score=None)
    assert by_tags[0].item.text == WINES[0]
    both = memory.search("red wine Porto", 2, rerank="tags", reranker=True, min_score=None)
    assert list(both) == list(by_tags[:2])  # untrained, it leaves their order
    assert both == await memory.asearch("red wine Porto", 2, rerank="tags", reranker=True, min_score=None)
    assert both.ranking is not None and len(both.ranking.features) == 3 and len(both.vectors) == 2
    memory.learn(both, {both[1].item.id: "used"})
    assert memory.reranker.is_trained
    few = memory.search("red wine Porto", 3, rerank="tags", select="adaptive", min_score=None)
    assert 1 <= len(few) == len(few.vectors) <= 3
    assert few[0] == by_tags[0]
