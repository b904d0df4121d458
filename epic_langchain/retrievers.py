"""A memory as a LangChain retriever."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever, LangSmithRetrieverParams
from pydantic import ConfigDict

from epic_core import EpicMemory, Filter, Hit, Stance


class EpicRetriever(BaseRetriever):
    """Retrieves a memory's items, each with its guidance in `epic_*` metadata.

        retriever = EpicRetriever(memory=EpicMemory.open("me.epic"), k=5)
        documents = retriever.invoke("Where should I stay?", k=3)

    Attributes:
        memory: The memory; the caller closes it.
        k: How many documents, at least 1; a call can override it.
    """

    model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=True)

    memory: EpicMemory
    k: int = 5

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun,
        k: int | None = None,
        filter: Filter | None = None,
        namespace: str | None = None,
        preferences: Sequence[str] | None = None,
    ) -> list[Document]:
        hits = self.memory.search(
            query, self.k if k is None else k, filter=filter, namespace=namespace, preferences=preferences
        )
        return [document_of(hit) for hit in hits]

    async def _aget_relevant_documents(
        self,
        query: str,
        *,
        run_manager: AsyncCallbackManagerForRetrieverRun,
        k: int | None = None,
        filter: Filter | None = None,
        namespace: str | None = None,
        preferences: Sequence[str] | None = None,
    ) -> list[Document]:
        hits = await self.memory.asearch(
            query, self.k if k is None else k, filter=filter, namespace=namespace, preferences=preferences
        )
        return [document_of(hit) for hit in hits]

    def _get_ls_params(self, **kwargs: Any) -> LangSmithRetrieverParams:
        params = super()._get_ls_params(**kwargs)
        return LangSmithRetrieverParams({**params, "ls_vector_store_provider": "epic"})


def document_of(hit: Hit) -> Document:
    """A hit as a Document; its guidance goes into flat `epic_*` metadata."""
    metadata: dict[str, Any] = {**hit.item.metadata, "epic_score": hit.score, "epic_tier": hit.tier}
    if hit.entries:
        best = hit.entries[0]
        # Several instructions are one text; a conflict with any preference is a conflict.
        worst = max(hit.stances, key=[Stance.SUPPORTS, Stance.NEUTRAL, Stance.MIXED, Stance.CONFLICTS].index)
        metadata |= {
            "epic_instruction": "\n".join(hit.instructions),
            "epic_preference": best.preference,
            "epic_stance": str(worst),
            "epic_rationale": best.rationale,
        }
    return Document(id=hit.item.id, page_content=hit.text, metadata=metadata)
