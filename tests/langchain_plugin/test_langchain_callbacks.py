"""The custom events that callback handlers get: counts and seconds, never texts."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("langchain_core", reason="needs the extra langchain")

from langchain_core.callbacks import AsyncCallbackHandler, BaseCallbackHandler
from langchain_core.documents import Document

from epic_langchain import EpicDocumentTransformer, EpicRetriever
from epic_memory import EpicMemory

PREFERENCES = ["I avoid hotels with casinos."]
TEXTS = ["The Golden Ace is a hotel with a casino.", "Steam engines."]


class Sync(BaseCallbackHandler):
    def __init__(self) -> None:
        self.events: dict[str, dict[str, Any]] = {}

    def on_custom_event(self, name: str, data: Any, **kwargs: Any) -> None:
        self.events[name] = data


class Async(AsyncCallbackHandler):
    def __init__(self) -> None:
        self.events: dict[str, dict[str, Any]] = {}

    async def on_custom_event(self, name: str, data: Any, **kwargs: Any) -> None:
        self.events[name] = data


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_handlers_get_counts_and_seconds(asynchronous: bool) -> None:
    memory = EpicMemory(PREFERENCES)
    memory.add(TEXTS)
    retriever, keep = EpicRetriever(memory=memory, k=3), EpicDocumentTransformer(preferences=PREFERENCES)
    documents = [Document(text) for text in TEXTS]
    if asynchronous:
        handler: Sync | Async = Async()
        found = await retriever.ainvoke("Which hotel?", {"callbacks": [handler]}, k=2)
        kept = await keep.ainvoke(documents, {"callbacks": [handler]})
    else:
        handler = Sync()
        found = retriever.invoke("Which hotel?", {"callbacks": [handler]}, k=2)
        kept = keep.invoke(documents, {"callbacks": [handler]})
    search, judge = handler.events["epic.search"], handler.events["epic.judge"]
    assert (search["epic.k"], search["epic.hits"]) == (2, len(found))
    assert search["epic.seconds.embedding"] > 0
    assert (judge["epic.seen"], judge["epic.kept"]) == (2, len(kept))
    assert all(isinstance(value, (int, float)) for event in (search, judge) for value in event.values())
    list(keep.lazy_transform(documents))  # outside of a run there is nobody to tell
