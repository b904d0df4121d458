"""Postprocessor that drops the sentences which neither the question nor a preference needs."""

from __future__ import annotations

from collections.abc import Sequence

from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import MetadataMode, NodeWithScore, QueryBundle
from pydantic import ConfigDict, Field
from typing_extensions import override

from epic_llamaindex.nodes import copy_of
from epic_memory.runtime.effects import arun, run
from epic_plugins.compression import DROPPED, Compressed, compressed
from epic_plugins.copies import OverMemory
from epic_plugins.wrong_arguments import explained


@explained()
class EpicCompressor(OverMemory, BaseNodePostprocessor):
    """Compressor of any retriever's nodes to what the question, or a preference of the memory, needs.

        compressor = EpicCompressor(memory=memory)
        engine = RetrieverQueryEngine.from_args(index.as_retriever(), node_postprocessors=[compressor])

    Whole sentences go or stay, and none is rewritten; a node of which nothing is needed goes. The others come back as
    copies with their ids and scores, in order, and `epic_dropped_sentences` in their metadata. No language model is
    asked.

    Attributes:
        memory: Whose preferences and encoder are used.
        relevant: The cosine with the question from which a sentence is needed; None for the encoder's own.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    relevant: float | None = Field(default=None, ge=-1.0, le=1.0)

    @override
    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        return _short(nodes, run(compressed(self.memory, *_asked(nodes, query_bundle), self.relevant)))

    @override
    async def _apostprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        return _short(nodes, await arun(compressed(self.memory, *_asked(nodes, query_bundle), self.relevant)))


def _asked(nodes: Sequence[NodeWithScore], query_bundle: QueryBundle | None) -> tuple[str, list[str]]:
    query = "" if query_bundle is None else query_bundle.query_str
    return query, [each.node.get_content(metadata_mode=MetadataMode.NONE) for each in nodes]


def _short(nodes: Sequence[NodeWithScore], made: Sequence[Compressed]) -> list[NodeWithScore]:
    short = []
    for each in made:
        given = nodes[each.place]
        node = copy_of(given.node, {**given.node.metadata, DROPPED: each.dropped})
        if each.dropped:
            node.set_content(each.text)
        short.append(NodeWithScore(node=node, score=given.score))
    return short
