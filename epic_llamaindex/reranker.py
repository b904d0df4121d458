"""Postprocessor that reorders what any retriever found by what was learnt to help."""

from __future__ import annotations

import asyncio

from llama_index.core.instrumentation.events.rerank import ReRankEndEvent, ReRankStartEvent
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import MetadataMode, NodeWithScore, QueryBundle
from llama_index_instrumentation import get_dispatcher
from pydantic import ConfigDict, Field
from typing_extensions import override

from epic_llamaindex.nodes import copy_of
from epic_memory import EpicMemory
from epic_plugins.copies import Open
from epic_plugins.learned_reranking import PROBABILITY, ranked_texts
from epic_plugins.wrong_arguments import explained
from epic_rerank import LearnedReranker

_dispatcher = get_dispatcher(__name__)


@explained()
class EpicReranker(Open, BaseNodePostprocessor):
    """Reranker of any retriever's nodes by what a memory has learnt, or by one that was trained.

        reranker = EpicReranker(memory=memory, top_n=5)
        engine = RetrieverQueryEngine.from_args(index.as_retriever(similarity_top_k=20), node_postprocessors=[reranker])

    Nodes come back as copies with their ids and scores, and `epic_rank_probability` in their metadata: the probability
    of coming first. Untrained, or without a query, it keeps their order. No language model is asked.

    Attributes:
        memory: Whose reranker and encoder are used.
        reranker: Another reranker than the memory's own.
        top_n: How many nodes are returned at most.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    memory: EpicMemory = Field(exclude=True, repr=False)
    reranker: LearnedReranker | None = Field(default=None, exclude=True, repr=False)
    top_n: int = Field(default=5, ge=1)

    @classmethod
    @override
    def class_name(cls) -> str:
        """Return the name under which LlamaIndex stores the component."""
        return cls.__name__

    @override
    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        query = "" if query_bundle is None else query_bundle.query_str
        _dispatcher.event(
            ReRankStartEvent(query=query_bundle, nodes=nodes, top_n=self.top_n, model_name=self.class_name())
        )
        texts = [node.node.get_content(metadata_mode=MetadataMode.NONE) for node in nodes]
        ranked = ranked_texts(self.memory, self.reranker, query, texts, [node.score for node in nodes], self.top_n)
        made = []
        for place, probability in ranked:
            node = copy_of(nodes[place].node, {**nodes[place].node.metadata, PROBABILITY: probability})
            made.append(NodeWithScore(node=node, score=nodes[place].score))
        _dispatcher.event(ReRankEndEvent(nodes=made))
        return made

    @override
    async def _apostprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        return await asyncio.to_thread(self._postprocess_nodes, nodes, query_bundle)
