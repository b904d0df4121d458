"""Taggers: by phrases, and by a language model."""

from __future__ import annotations

import json

import pytest

from epic_graph import LMTagger, PhraseTagger
from epic_memory.errors import InvalidInputError
from epic_memory.lm import OllamaLM
from epic_memory.text.tagging import KINDS, Tagger
from lm_servers import Json, LMServer, in_turn

STEW = "Idris Pell cooks lentil soup in Porto."
TAGS = {"topics": ["cooking", "soup"], "entities": ["Porto"], "kind": "story", "intent": "", "preferences": None}


async def test_names_and_noun_phrases_are_tags() -> None:
    tagger: Tagger = PhraseTagger()
    stew, question, nothing = tagger.tag([STEW, "Which hotel should I book?", "..."])
    assert stew is not None and question is not None and nothing is not None
    assert stew["entities"] == ["Idris Pell", "Porto"] and "lentil soup" in stew["topics"]
    assert (stew["kind"], stew["intent"]) == (["statement"], [])
    assert (question["kind"], question["intent"]) == (["question"], ["choice"])
    assert nothing["topics"] == nothing["entities"] == []
    assert await tagger.atag([STEW]) == [stew]


@pytest.mark.parametrize("how", ["sync", "async"])
async def test_a_model_is_asked_once_a_text(how: str) -> None:
    def answer(request: Json) -> str:
        shown = request["messages"][-1]["content"]
        return json.dumps({**TAGS, "entities": [name for name in ("Porto", "Braga") if name in shown]})

    with LMServer(answer) as server:
        tagger = LMTagger(OllamaLM("tiny", host=server.url))
        texts = [STEW, "A stew in Braga."]
        tags = tagger.tag(texts) if how == "sync" else await tagger.atag(texts)
    assert server.calls == 2
    assert [each and each["entities"] for each in tags] == [["Porto"], ["Braga"]]
    assert tags[0] == {
        "topics": ["cooking", "soup"],
        "entities": ["Porto"],
        "kind": ["story"],
        "intent": [],
        "preferences": [],
    }
    assert list(tags[0]) == list(KINDS)


def test_what_is_no_answer_leaves_a_text_without_tags() -> None:
    with LMServer(in_turn("I like it.", '{"topics": ["soup', json.dumps(TAGS))) as server:
        tagger = LMTagger(OllamaLM("tiny", host=server.url), retries=0)
        assert tagger.tag([STEW]) == [None]
        assert tagger.tag([STEW]) != [None]
    with pytest.raises(InvalidInputError):
        LMTagger("qwen3")  # type: ignore[arg-type]
