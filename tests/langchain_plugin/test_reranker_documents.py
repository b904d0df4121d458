"""EpicReranker over any retriever's documents: untrained it keeps their order, trained it changes it, async equal."""

from __future__ import annotations

import numpy as np
import pytest
from langchain_core.documents import Document
from pydantic import ValidationError

from epic_langchain import EpicReranker
from epic_memory import EpicMemory, Settings
from epic_rerank import LearnedReranker
from epic_rerank.features import NAMES
from helpers import HashEncoder

TEXTS = ("A long note on tea, with much more to say about it than others have.", "Tea.", "", "Bread and tea.")


def liking_length(towards: float) -> LearnedReranker:
    """A reranker for which long texts come first, or last."""
    reranker = LearnedReranker()
    weights = reranker.weights
    for name in ("W1", "W2", "W3"):
        weights[name][:] = 0.0
    weights["W1"][NAMES.index("length"), 0] = weights["W2"][0, 0] = 1.0
    weights["w3"][0] = 100.0 * towards
    return reranker


async def test_documents_come_in_the_learnt_order() -> None:
    documents = [Document(id=str(place), page_content=text) for place, text in enumerate(TEXTS)]
    memory = EpicMemory(encoder=HashEncoder(), settings=Settings(coarse=False, fine=False))
    plain = EpicReranker(memory=memory, top_n=3).compress_documents(documents, "tea")
    assert [document.id for document in plain] == ["0", "1", "2"]
    for towards, order in ((1.0, ["0", "3", "1", "2"]), (-1.0, ["1", "3", "0", "2"])):
        reranker = EpicReranker(memory=memory, reranker=liking_length(towards), top_n=4)
        found = reranker.compress_documents(documents, "tea")
        assert [document.id for document in found] == order
        assert list(await reranker.acompress_documents(documents, "tea")) == list(found)
        chances = [document.metadata["epic_rank_probability"] for document in found]
        assert np.sum(chances) == pytest.approx(1.0)
        assert chances == sorted(chances, reverse=True)
    assert all(not document.metadata for document in documents)
    assert reranker.compress_documents([], "tea") == []
    # What no memory would hold, as a reader of documents brings it, and any iterable.
    odd = [Document(page_content=text, metadata={"score": 10**400}) for text in ("Tea\x00", "Bread \ud800 and tea.")]
    assert list(reranker.compress_documents(iter(odd), "te\x00a")) == list(reranker.compress_documents(odd, "tea"))  # type: ignore[arg-type]
    assert {document.page_content for document in reranker.compress_documents(odd, "tea")} == {
        "Tea\x00",
        "Bread \ud800 and tea.",
    }
    with pytest.raises(ValidationError):
        EpicReranker(memory=memory, top_n=0)
