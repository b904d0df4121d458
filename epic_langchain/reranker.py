"""Document compressor that reorders what any retriever found by what was learnt to help."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.callbacks import Callbacks
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.runnables.config import run_in_executor
from pydantic import ConfigDict, Field
from typing_extensions import override

from epic_memory import EpicMemory
from epic_plugins.copies import Open
from epic_plugins.learned_reranking import PROBABILITY, ranked_texts
from epic_plugins.wrong_arguments import explained
from epic_rerank import LearnedReranker

_LARGEST = 1e300  # JSON holds greater whole numbers, which are no score


@explained()
class EpicReranker(Open, BaseDocumentCompressor):
    """Reranker of any retriever's documents by what a memory has learnt, or by one that was trained.

        reranker = EpicReranker(memory=memory, top_n=5)
        chain = RunnablePassthrough.assign(
            documents=lambda asked: reranker.compress_documents(retriever.invoke(asked["question"]), asked["question"])
        )

    Documents come back as copies with their ids, and `epic_rank_probability` in their metadata: the probability of
    coming first. Untrained, it keeps their order. No language model is asked.

    Attributes:
        memory: Whose reranker and encoder are used.
        reranker: Another reranker than the memory's own.
        top_n: How many documents are returned at most.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    memory: EpicMemory = Field(exclude=True, repr=False)
    reranker: LearnedReranker | None = Field(default=None, exclude=True, repr=False)
    top_n: int = Field(default=5, ge=1)

    @override
    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks = None
    ) -> Sequence[Document]:
        """Return the best documents in order."""
        documents = list(documents)
        scores = [_score(document) for document in documents]
        texts = [document.page_content for document in documents]
        ranked = ranked_texts(self.memory, self.reranker, query, texts, scores, self.top_n)
        return [
            documents[place].model_copy(update={"metadata": {**documents[place].metadata, PROBABILITY: probability}})
            for place, probability in ranked
        ]

    @override
    async def acompress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks = None
    ) -> Sequence[Document]:
        """Return the best documents without blocking the event loop."""
        return await run_in_executor(None, self.compress_documents, documents, query, callbacks)


def _score(document: Document) -> float | None:
    """Return the score that a retriever left in the metadata, if it did."""
    value: Any = document.metadata.get("epic_score", document.metadata.get("score"))
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if is_number and abs(value) < _LARGEST else None
