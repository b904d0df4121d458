"""Ranking by tags: the number of those shared with the query, and the published rule."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from epic_eval.tags import TagRanking
from epic_graph import PhraseTagger
from epic_memory import EpicMemory, Settings
from epic_memory.encoders import default_encoder
from epic_memory.text.tagging import Tags
from helpers import HashEncoder, KeepAll

WINES = ["red wine from Porto", "red wine from Bordeaux", "red wine with cheese"]


class Places:
    """A tagger that finds places."""

    name = "places"

    def tag(self, texts: Sequence[str]) -> list[Tags | None]:
        return [{"entities": [place for place in ("Porto", "Bordeaux") if place in text]} for text in texts]

    async def atag(self, texts: Sequence[str]) -> list[Tags | None]:
        return self.tag(texts)


def test_shared_tags_rank_and_their_number_counts() -> None:
    tagger, encoder, ranking = Places(), HashEncoder(), TagRanking(share=1.0)
    memory = EpicMemory(["red wine"], encoder=encoder, settings=Settings(verifier=KeepAll(), tagger=tagger))
    memory.add(WINES)
    both = ranking.search(memory, tagger, encoder, "red wine, and what of Bordeaux or Porto?", 2)
    assert {hit.item.text for hit in both} == set(WINES[:2])
    hits = ranking.search(memory, tagger, encoder, "red wine, not Bordeaux", 3)
    assert hits[0].item.text == WINES[1]
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    plain = {hit.item.id: hit.score for hit in memory.search("red wine, not Bordeaux", 3)}
    assert [hit.score - plain[hit.item.id] > 0.99 for hit in hits] == [True, False, False]


def test_the_published_rule() -> None:
    def shown(*matches: int, fetched: int = 20) -> list[int]:
        order, _ = TagRanking(paper=True, fetched=fetched).paper_order(np.array(matches))
        return order.tolist()

    assert shown(0, 0, 0, 0, 0) == [0, 1, 2]  # 20, 19, 18
    assert shown(0, 0, 0, 1, 1) == [0, 1, 2, 3]  # the fourth has 17 + 1, the fifth 16 + 1
    assert shown(0, 0, 5) == [2, 0, 1]
    assert shown(9, 9, 9, 9, 9, 9, 9) == [0, 1, 2, 3, 4]
    assert shown(0, 0, 0, fetched=18) == [0]
    assert shown() == []


def test_the_published_rule_shows_something_whatever_is_asked() -> None:
    tagger, encoder, question = PhraseTagger(), default_encoder(), "Who won the election?"
    memory = EpicMemory(
        ["I follow a strict vegan diet."], encoder=encoder, settings=Settings(tagger=tagger, coarse=False, fine=False)
    )
    memory.add(["Lentil soup, a vegan dinner.", "Tofu with rice.", "A bowl of oats.", "Beans on toast."])
    assert not memory.search(question)
    assert len(TagRanking(paper=True).search(memory, tagger, encoder, question, 5)) == 3
    assert not TagRanking().search(memory, tagger, encoder, question, 5)
