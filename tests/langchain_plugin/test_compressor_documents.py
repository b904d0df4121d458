"""EpicCompressor over any retriever's documents: what a question or a preference needs stays whole, async equal."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from langchain_core.callbacks import AsyncCallbackHandler, BaseCallbackHandler
from langchain_core.documents import Document
from pydantic import ValidationError

from epic_langchain import EpicCompressor
from epic_memory import EpicMemory, Settings
from epic_memory.text.chunking import sentences

SOUP = "The lentil soup takes half an hour. It needs two onions. The cook was born in Leeds. Admission is free."
VEGAN = "Nobody came to the meeting. The new cafe has a vegan menu."
OTHER = "The tug of war ended in a draw. The mayor left early."
DOCUMENTS = [
    Document(id=str(place), page_content=text, metadata={"source": "notes"})
    for place, text in enumerate((SOUP, VEGAN, OTHER, ""))
]


class Events(BaseCallbackHandler):
    def __init__(self) -> None:
        self.seen: list[tuple[str, Any]] = []

    def on_custom_event(self, name: str, data: Any, *, run_id: UUID, **_: Any) -> None:
        self.seen.append((name, data))


class LaterEvents(AsyncCallbackHandler):
    def __init__(self) -> None:
        self.seen: list[tuple[str, Any]] = []

    async def on_custom_event(self, name: str, data: Any, *, run_id: UUID, **_: Any) -> None:
        self.seen.append((name, data))


async def test_what_is_needed_stays_whole() -> None:
    memory = EpicMemory(["I follow a strict vegan diet."])
    events, later = Events(), LaterEvents()
    compressor = EpicCompressor(memory=memory)
    found = compressor.compress_documents(DOCUMENTS, "How long does the lentil soup take?", callbacks=[events])
    assert [document.id for document in found] == ["0", "1"]
    assert "The lentil soup takes half an hour." in found[0].page_content
    assert found[1].page_content == "The new cafe has a vegan menu."  # the preference needs it
    for document, before in zip(found, DOCUMENTS, strict=False):
        assert set(sentences(document.page_content)) <= set(sentences(before.page_content))
        lost = len(sentences(before.page_content)) - len(sentences(document.page_content))
        assert document.metadata == {"source": "notes", "epic_dropped_sentences": lost}
        assert before.metadata == {"source": "notes"}
    again = await compressor.acompress_documents(DOCUMENTS, "How long does the lentil soup take?", callbacks=[later])
    assert list(again) == list(found)
    kept = sum(len(document.page_content) for document in found)
    ((name, counts),) = events.seen
    assert name == "epic_compressed" and events.seen == later.seen
    assert counts == {
        "documents": 4,
        "dropped_documents": 2,
        "characters": len(SOUP) + len(VEGAN) + len(OTHER),
        "kept_characters": kept,
    }


def test_a_sentence_that_refers_to_another_keeps_it() -> None:
    memory = EpicMemory(settings=Settings(coarse=False, fine=False))
    text = "The bridge over the Wenn is narrow. It was built in 1790 by monks. Admission is free."
    (found,) = EpicCompressor(memory=memory).compress_documents([Document(page_content=text)], "monks")
    assert found.page_content == "The bridge over the Wenn is narrow. It was built in 1790 by monks."


def test_without_a_question_or_a_preference_all_stays() -> None:
    memory = EpicMemory(settings=Settings(coarse=False, fine=False))
    found = EpicCompressor(memory=memory).compress_documents(DOCUMENTS, "")
    assert [document.page_content for document in found] == [document.page_content for document in DOCUMENTS]
    with pytest.raises(ValidationError):
        EpicCompressor(memory=memory, relevant=2.0)
