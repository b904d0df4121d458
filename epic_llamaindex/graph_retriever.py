"""Retriever over a graph memory."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from llama_index.core.llms import LLM
from llama_index.core.schema import BaseComponent, BaseNode
from llama_index_instrumentation import get_dispatcher
from typing_extensions import Self, Unpack, override

from epic_graph.extraction import Extractor
from epic_graph.memory import GraphMemory
from epic_graph.reports import GraphReport
from epic_graph.sources import checked_source, extractor_of, graph_over, warn_of_failures
from epic_llamaindex.models import lm_of
from epic_llamaindex.retriever import EpicRetriever, RetrieverOptions
from epic_memory import BuildReport, EpicMemory
from epic_memory.lm import LanguageModel
from epic_plugins.wrong_arguments import explained

dispatcher = get_dispatcher(__name__)
_logger = logging.getLogger(__name__)


@explained()
class EpicGraphRetriever(EpicRetriever):
    """Retriever over a graph memory: a walk over the graph finds items, which come as nodes with guidance.

        retriever = EpicGraphRetriever("me.epic", similarity_top_k=5)
        nodes = retriever.retrieve("What can I bake for the man who turns forty?")

    Nodes have the form of an `EpicRetriever`'s, and the retriever is used like one; scores are those of
    `GraphMemory.search`. A query is linked to the graph by the entities that its text names.

    `with` or `close()` closes the graph's memory if the retriever opened or made it.

    Args:
        graph: The graph, which the caller closes; the name of its file, which has to exist: `close()` it; or an
            `EpicMemory`, over which a graph is made. `graph.update()` adds items that the memory holds and the graph
            does not.
        extractor: Finds entities and facts in the passages that are added: an Extractor of epic_memory, or a model (an
            `LLM`, or a language model of epic_memory) that reads them; default: noun phrases, without a model. A
            GraphMemory has its own.
        similarity_top_k, filters, guidance, options, callback_manager, object_map, objects, verbose: As for
            `EpicRetriever`.
        embed_model: For opening a file, as for `EpicRetriever`.

    Attributes:
        graph: The graph.
        memory: The graph's memory.
        report: The graph report of `from_defaults` or of the call of `add_nodes` that finished last.

    Raises:
        InvalidInputError: if an argument is invalid; from a call, for a query without text.
        StoreError: if the file cannot be opened.
        EncoderMismatchError: if it was made with another model.
        UnknownPreferenceError: from a call, for a preference that the memory does not have.
    """

    graph: GraphMemory
    report: GraphReport

    def __init__(
        self,
        graph: GraphMemory | EpicMemory | str | Path,
        *,
        extractor: Extractor | LLM | LanguageModel | None = None,
        **options: Unpack[RetrieverOptions],
    ) -> None:
        checked_source(graph)
        self._extractor = extractor_of(extractor, BaseComponent, lm_of)
        memory = graph.memory if isinstance(graph, GraphMemory) else graph
        super().__init__(memory, namespace=None, **options)
        self._given = graph
        # A graph belongs to one namespace.
        del self._options["namespace"]
        self.report = GraphReport()
        try:
            self.graph = graph_over(graph if isinstance(graph, GraphMemory) else self.memory, self._extractor)
        except BaseException:
            self.close()
            raise

    @classmethod
    @override
    def from_defaults(cls, *, extractor: Extractor | LLM | LanguageModel | None = None, **options: Any) -> Self:
        """Make or open a graph memory, offer it nodes, and return a retriever over it. `close()` closes it.

        Args:
            extractor: As for `EpicGraphRetriever`.
            **options: As for `EpicRetriever.from_defaults`.

        Raises:
            InvalidInputError: if an argument is invalid.
            TypeError: for an unknown argument.
            EpicError: as `EpicMemory.open` and `GraphMemory.add` raise it.
        """
        reads = extractor_of(extractor, BaseComponent, lm_of)
        retriever = super().from_defaults(**options)
        try:
            if reads is not None:
                retriever.graph = GraphMemory(memory=retriever.memory, extractor=reads)
                retriever._extractor = reads
            retriever._reported(retriever.graph.update())
        except BaseException:
            retriever.close()
            raise
        return retriever

    @override
    def _arguments(self) -> dict[str, Any]:
        arguments = super()._arguments()
        return {"graph": arguments.pop("memory"), "extractor": self._extractor, **arguments}

    @override
    def _shared(self) -> tuple[object, ...]:
        return *super()._shared(), self.graph, self._extractor

    @property
    @override
    def _searched(self) -> GraphMemory:
        return self.graph

    @override
    def add_nodes(self, nodes: Iterable[BaseNode], *, upsert: bool = False, progress: bool = False) -> BuildReport:
        """Do the same as `EpicRetriever.add_nodes`, and add the kept items to the graph, which `report` describes.

        If the extractor fails for passages, a warning is logged: they are found by their text, and `graph.retry()`
        extracts them again.
        """
        kept = super().add_nodes(nodes, upsert=upsert, progress=progress)
        return self._reported(self.graph.update(progress=progress), kept)

    @override
    async def aadd_nodes(
        self, nodes: Iterable[BaseNode], *, upsert: bool = False, progress: bool = False
    ) -> BuildReport:
        """Do the same as `add_nodes` without blocking the event loop."""
        kept = await super().aadd_nodes(nodes, upsert=upsert, progress=progress)
        return self._reported(await self.graph.aupdate(progress=progress), kept)

    def _reported(self, report: GraphReport, kept: BuildReport | None = None) -> BuildReport:
        if kept is not None:
            report.memory = kept
        self.report = report
        warn_of_failures(report, _logger)
        return report.memory
