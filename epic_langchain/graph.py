"""A graph memory as a LangChain retriever."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any, ClassVar

from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import Runnable, RunnableConfig
from pydantic import Field, field_validator, model_validator
from typing_extensions import Self, override

from epic_core import EpicMemory
from epic_core.errors import InvalidInputError
from epic_core.graph.extraction import Extractor
from epic_core.graph.extraction.lm import LMExtractor
from epic_core.graph.memory import GraphMemory
from epic_core.graph.reports import GraphReport
from epic_core.graph.sources import checked_source, graph_over, warn_of_failures
from epic_core.lm import LanguageModel
from epic_core.lm.failures import kind_of
from epic_langchain.adapters import encoder_of, lm_of
from epic_langchain.documents import memory_item, several
from epic_langchain.memory_retriever import MemoryRetriever, check_embeddings, opened
from epic_langchain.per_call import per_call

_logger = logging.getLogger(__name__)


class EpicGraphRetriever(MemoryRetriever):
    """Retrieves what a walk over a graph memory finds, each document with its guidance.

        retriever = EpicGraphRetriever(graph="me.epic", k=5)
        documents = retriever.invoke("What can I bake for the man who turns forty?", k=3)

    Documents are as an `EpicRetriever`'s; their `epic_score` is that of `GraphMemory.search`. `k`, `filter`,
    `preferences` (those of the held ones that may steer), `steering` and `stance_policy` can be given with each call,
    or in `config["configurable"]`.

    Attributes:
        k, guidance: As for `EpicRetriever`.
        embeddings: What a file given by its name is opened with: LangChain's `Embeddings`, an encoder of epic_core or
            its name; default: the embedded one. A memory that is open has its own.
        extractor: What finds entities and facts in documents that are added: an Extractor of epic_core, or a model (a
            chat model, or a language model of epic_core) that reads them; default: noun phrases, without a model. A
            GraphMemory has its own.
        graph: The graph, which the caller closes; the name of its file, which has to be there; or an `EpicMemory`,
            which gets a graph. It is a GraphMemory from then on: `graph.close()` closes the file, `graph.update()`
            takes in what the memory holds and its graph does not.

    Raises:
        ValidationError: for arguments that cannot be.
        StoreError: if the file cannot be opened.
        EncoderMismatchError: if it was made with other embeddings.
        InvalidInputError: from a call, as `GraphMemory.search` raises it, or if `config["configurable"]` asks for
            another `namespace` than the graph's.
        UnknownPreferenceError: from a call, for a preference that is not held.
    """

    # Fixed, as they say how the graph was opened; and a model may hold a key.
    embeddings: Any = Field(default=None, frozen=True, repr=False)
    extractor: Any = Field(default=None, frozen=True, repr=False)
    graph: Any = Field(frozen=True)  # a GraphMemory once it was checked; a name would not do for a type checker

    _per_call: ClassVar[tuple[str, ...]] = ("k", "filter", "preferences", "steering", "stance_policy")

    @field_validator("embeddings")
    @classmethod
    def _checked_embeddings(cls, embeddings: Any) -> Any:
        made = encoder_of(embeddings)
        # Of a name, what was made: it is not loaded again.
        return made if isinstance(embeddings, str) else embeddings

    @field_validator("extractor", mode="before")
    @classmethod
    def _checked_extractor(cls, extractor: Any) -> Extractor | None:
        return extractor_of(extractor)

    @field_validator("graph", mode="before")
    @classmethod
    def _checked_graph(cls, graph: object) -> object:
        return checked_source(graph)

    @model_validator(mode="after")
    def _open(self) -> Self:
        """Once all else is right: nobody could close a file that was opened for nothing."""
        graph, extractor = self.graph, self.extractor
        if isinstance(graph, (GraphMemory, EpicMemory)):
            check_embeddings(graph.memory if isinstance(graph, GraphMemory) else graph, self.embeddings)
            self.__dict__["graph"] = graph_over(graph, extractor)
            return self
        memory = opened(graph, self.embeddings)
        try:
            self.__dict__["graph"] = graph_over(memory, extractor)
        except BaseException:
            memory.close()
            raise
        return self

    @property
    @override
    def _searched(self) -> GraphMemory:
        graph: GraphMemory = self.graph
        return graph

    @override
    def _options(self, config: RunnableConfig | None, kwargs: dict[str, Any]) -> dict[str, Any]:
        # Whom an EpicRetriever would serve; passed over, it would give one user's items to another.
        asked, own = per_call(config, {}, ("namespace",)).get("namespace"), self._searched.memory.namespace
        if asked not in (None, own):
            raise InvalidInputError(f"This graph is of the namespace {own!r}. Make a retriever for {asked!r}.")
        return super()._options(config, kwargs)

    def add_documents(self, documents: Iterable[Document], *, progress: bool = False) -> GraphReport:
        """Offer documents to the memory, which decides what it keeps; that is taken into the graph.

        Where the extractor fails, a warning is logged: such documents are found by their text, and `graph.retry()` has
        them extracted again.

        Raises:
            InvalidInputError: for what is no Document, or metadata that is not JSON.
            EpicError: as `GraphMemory.add` raises it.
        """
        return _told(self._searched.add(map(memory_item, several(documents)), progress=progress))

    async def aadd_documents(self, documents: Iterable[Document], *, progress: bool = False) -> GraphReport:
        """As `add_documents`, without blocking the event loop."""
        return _told(await self._searched.aadd(map(memory_item, several(documents)), progress=progress))


def extractor_of(extractor: Extractor | BaseChatModel | LanguageModel | None) -> Extractor | None:
    """What LangChain's users give as an extractor: a model reads the documents; None is the graph's default.

    Raises:
        InvalidInputError: for anything but an extractor, a chat model, a language model or None.
    """
    if extractor is None or (not isinstance(extractor, (type, Runnable)) and isinstance(extractor, Extractor)):
        return extractor
    if isinstance(extractor, BaseChatModel) or callable(getattr(extractor, "complete", None)):
        return LMExtractor(lm_of(extractor))
    raise InvalidInputError(
        "extractor must be a LangChain chat model, such as ChatOllama(model=...), a language model or an extractor of"
        f" epic_core, or None for the one that needs no model; not {kind_of(extractor)}."
    )


def _told(report: GraphReport) -> GraphReport:
    warn_of_failures(report, _logger)
    return report
