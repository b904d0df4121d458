"""A memory as a LlamaIndex retriever."""

from __future__ import annotations

from typing import Any

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from epic_core import EpicMemory, Filter, Hit, Stance


class EpicRetriever(BaseRetriever):
    """Retrieves a memory's items as nodes, each with its guidance in `epic_*` metadata.

    The guidance is left out of what is embedded and of what a model is shown, so that a pipeline's own
    templates decide.

    Args:
        memory: The memory; the caller closes it.
        similarity_top_k: How many nodes, at least 1.
        filter: A condition on the items' metadata.
        **kwargs: As for `BaseRetriever`.
    """

    def __init__(
        self, memory: EpicMemory, *, similarity_top_k: int = 5, filter: Filter | None = None, **kwargs: Any
    ) -> None:
        self._memory = memory
        self._similarity_top_k = similarity_top_k
        self._filter = filter
        super().__init__(**kwargs)

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        hits = self._memory.search(query_bundle.query_str, self._similarity_top_k, filter=self._filter)
        return [node_of(hit) for hit in hits]

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        hits = await self._memory.asearch(query_bundle.query_str, self._similarity_top_k, filter=self._filter)
        return [node_of(hit) for hit in hits]


def node_of(hit: Hit) -> NodeWithScore:
    """A hit as a node; its guidance goes into flat `epic_*` metadata, excluded from texts."""
    guidance: dict[str, Any] = {"epic_tier": hit.tier}
    if hit.entries:
        best = hit.entries[0]
        # Several instructions are one text; a conflict with any preference is a conflict.
        worst = max(hit.stances, key=[Stance.SUPPORTS, Stance.NEUTRAL, Stance.MIXED, Stance.CONFLICTS].index)
        guidance |= {
            "epic_instruction": "\n".join(hit.instructions),
            "epic_preference": best.preference,
            "epic_stance": str(worst),
            "epic_rationale": best.rationale,
        }
    node = TextNode(
        id_=hit.item.id,
        text=hit.text,
        metadata={**hit.item.metadata, **guidance},
        excluded_embed_metadata_keys=list(guidance),
        excluded_llm_metadata_keys=list(guidance),
    )
    return NodeWithScore(node=node, score=hit.score)
