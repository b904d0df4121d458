"""The events that LlamaIndex's event handlers get: counts and seconds, never texts."""

from __future__ import annotations

import pytest

pytest.importorskip("llama_index.core", reason="needs the extra llamaindex")

from llama_index.core.schema import TextNode

from epic_llamaindex import EpicRetriever, EpicTransform
from epic_llamaindex.events import EpicEvent
from epic_memory import EpicMemory
from llamaindex_models import heard

PREFERENCES = ["I avoid hotels with casinos."]
TEXTS = ["The Golden Ace is a hotel with a casino.", "Steam engines."]


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_handlers_get_counts_and_seconds(asynchronous: bool) -> None:
    memory = EpicMemory(PREFERENCES)
    memory.add(TEXTS)
    retriever, keep = EpicRetriever(memory, similarity_top_k=2), EpicTransform(preferences=PREFERENCES)
    nodes = [TextNode(text=text) for text in TEXTS]
    with heard() as (events, _):
        if asynchronous:
            found, kept = await retriever.aretrieve("Which hotel?"), await keep.acall(nodes)
        else:
            found, kept = retriever.retrieve("Which hotel?"), keep(nodes)
    search, judge = (event for event in events if isinstance(event, EpicEvent))
    assert (search.class_name(), judge.class_name()) == ("EpicSearchEvent", "EpicJudgeEvent")
    assert (search.measures["epic.k"], search.measures["epic.hits"]) == (2, len(found))
    assert search.measures["epic.seconds.embedding"] > 0
    assert (judge.measures["epic.seen"], judge.measures["epic.kept"]) == (2, len(kept))
    assert all(isinstance(value, (int, float)) for value in (search.measures | judge.measures).values())
