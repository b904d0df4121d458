"""Tagger by phrases."""

from __future__ import annotations

from epic_graph import PhraseTagger
from epic_rerank.tags import Tagger

STEW = "Idris Pell cooks lentil soup in Porto."


async def test_names_and_noun_phrases_are_tags() -> None:
    tagger: Tagger = PhraseTagger()
    stew, question, nothing = tagger.tag([STEW, "Which hotel should I book?", "..."])
    assert stew is not None and question is not None and nothing is not None
    assert stew["entities"] == ["Idris Pell", "Porto"] and "lentil soup" in stew["topics"]
    assert (stew["kind"], stew["intent"]) == (["statement"], [])
    assert (question["kind"], question["intent"]) == (["question"], ["choice"])
    assert nothing["topics"] == nothing["entities"] == []
    assert await tagger.atag([STEW]) == [stew]
