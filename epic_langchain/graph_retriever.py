"""Retriever over a graph memory."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Any, ClassVar

from langchain_core.documents import Document
from langchain_core.runnables import Runnable, RunnableConfig
from pydantic import Field, field_validator, model_validator
from typing_extensions import Self, override

from epic_graph.extraction import Extractor
from epic_graph.memory import GraphMemory
from epic_graph.reports import GraphReport
from epic_graph.sources import checked_source, extractor_of, graph_over, warn_of_failures
from epic_langchain.arguments import per_call
from epic_langchain.documents import memory_item, several
from epic_langchain.models import lm_of, memory_of
from epic_langchain.retriever import MemoryRetriever
from epic_memory.errors import InvalidInputError
from epic_memory.types.search_options import OVERRIDES
from epic_plugins.copies import checked_file, lasting
from epic_plugins.wrong_arguments import explained

_logger = logging.getLogger(__name__)


@explained()
class EpicGraphRetriever(MemoryRetriever):
    """Retriever over a graph memory: a walk over the graph finds items, which come as documents with guidance.

        retriever = EpicGraphRetriever(graph="me.epic", k=5)
        documents = retriever.invoke("What can I bake for the man who turns forty?", k=3)

    Documents have the form of an `EpicRetriever`'s; their `epic_score` is the score of `GraphMemory.search`. `k`,
    `filter`, `options` and single ones of these (`preferences`, `steering`, `stance_policy` and `min_score`) can be
    given with each call, or in `config["configurable"]` with the prefix `epic_`.

    Attributes:
        graph: The graph, which the caller closes; the name of its file, which has to exist; or an `EpicMemory`, over
            which a graph is made. Once validated it is a GraphMemory: `graph.close()` closes the file, `graph.update()`
            adds items that the memory holds and the graph does not.
        embeddings, k, guidance, options: As for `EpicRetriever`.
        extractor: Finds entities and facts in documents that are added: an Extractor of epic_memory, or a model (a chat
            model, or a language model of epic_memory) that reads them; default: noun phrases, without a model. A
            GraphMemory has its own.

    Raises:
        ValidationError: if an argument is invalid.
        StoreError: if the file cannot be opened.
        EncoderMismatchError: if it was made with other embeddings.
        InvalidInputError: from a call, as `GraphMemory.search` raises it, or if `config["configurable"]` asks for
            another `epic_namespace` than the graph's.
        UnknownPreferenceError: from a call, for a preference that the memory does not have.
    """

    extractor: Any = Field(default=None, frozen=True, repr=False)
    graph: Any = Field(frozen=True)  # a GraphMemory once validated; Any, so that type checkers accept a name

    _per_call: ClassVar[tuple[str, ...]] = ("k", "filter", "options", *OVERRIDES)

    @field_validator("extractor", mode="before")
    @classmethod
    def _checked_extractor(cls, extractor: object) -> Extractor | None:
        return extractor_of(extractor, Runnable, lm_of)

    @field_validator("graph", mode="before")
    @classmethod
    def _checked_graph(cls, graph: object) -> object:
        return checked_source(graph)

    @model_validator(mode="after")
    def _open(self) -> Self:
        """Open the file last: if another argument failed later, nobody could close it."""
        source = self._given = self.graph
        known = isinstance(source, GraphMemory)
        memory = memory_of(source.memory if known else source, self.embeddings)
        try:
            self.__dict__["graph"] = graph_over(source if known else memory, self.extractor)
        except BaseException:
            if isinstance(source, (str, Path)):
                memory.close()
            raise
        return self

    @property
    @override
    def _searched(self) -> GraphMemory:
        graph: GraphMemory = self.graph
        return graph

    @override
    def _arguments(self) -> dict[str, Any]:
        return {**self._fields(), "graph": lasting(self._given)}

    @override
    def _shared(self) -> tuple[object, ...]:
        checked_file(self._searched.memory.file.path, self)
        return self._given, self.graph, self.embeddings, self.extractor

    @override
    def _options(self, config: RunnableConfig | None, kwargs: dict[str, Any]) -> dict[str, Any]:
        # For an EpicRetriever it selects the user; ignoring it here would give one user's items to another.
        asked, own = per_call(config, {}, ("namespace",)).get("namespace"), self._searched.memory.namespace
        if asked not in (None, own):
            raise InvalidInputError(f"This graph is of the namespace {own!r}. Make a retriever for {asked!r}.")
        return super()._options(config, kwargs)

    def add_documents(self, documents: Iterable[Document], *, progress: bool = False) -> GraphReport:
        """Offer documents to the memory, which decides what it keeps; the kept items are added to the graph.

        If the extractor fails for documents, a warning is logged: they are found by their text, and `graph.retry()`
        extracts them again.

        Raises:
            InvalidInputError: for anything but Documents, or metadata that is not JSON.
            EpicError: as `GraphMemory.add` raises it.
        """
        report = self._searched.add(map(memory_item, several(documents)), progress=progress)
        warn_of_failures(report, _logger)
        return report

    async def aadd_documents(self, documents: Iterable[Document], *, progress: bool = False) -> GraphReport:
        """Do the same as `add_documents` without blocking the event loop."""
        report = await self._searched.aadd(map(memory_item, several(documents)), progress=progress)
        warn_of_failures(report, _logger)
        return report
