"""Retriever over a memory or a graph, and the base that it shares with the steered one."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.load.serializable import SerializedNotImplemented
from langchain_core.retrievers import BaseRetriever, LangSmithRetrieverParams
from langchain_core.runnables import RunnableConfig
from pydantic import BeforeValidator, ConfigDict, Field, InstanceOf, model_validator
from typing_extensions import Self, override

from epic_langchain.arguments import OVERRIDES, per_call, without_settings
from epic_langchain.documents import document_of, memory_item
from epic_langchain.events import search_event
from epic_langchain.filters import MetadataFilter, filter_of
from epic_langchain.models import searched_of
from epic_memory import BuildReport, Hits
from epic_memory.runtime.effects import Call, Effects, arun, run
from epic_memory.settings import Settings
from epic_memory.types import checked_k
from epic_memory.types.search_options import SearchOptions, checked_options
from epic_plugins.copies import Open
from epic_plugins.metadata import texts_of
from epic_plugins.models import in_namespace, memory_report
from epic_plugins.several import several
from epic_plugins.wrong_arguments import explained

RunManager: TypeAlias = CallbackManagerForRetrieverRun | AsyncCallbackManagerForRetrieverRun


class OptionsRetriever(Open, BaseRetriever):
    """Base of retrievers that take options with each call."""

    model_config = ConfigDict(
        extra="forbid",
        arbitrary_types_allowed=True,
        validate_default=True,
        validate_assignment=True,
        # A model may hold a key.
        hide_input_in_errors=True,
    )

    embeddings: Any = Field(default=None, repr=False)
    k: Annotated[int, BeforeValidator(checked_k)] = 5

    _per_call: ClassVar[tuple[str, ...]]

    @override
    def invoke(self, input: str, config: RunnableConfig | None = None, **kwargs: Any) -> list[Document]:
        """Return the documents for a query; keyword arguments apply to this call only."""
        return super().invoke(input, config, **self._options(config, kwargs))

    @override
    async def ainvoke(self, input: str, config: RunnableConfig | None = None, **kwargs: Any) -> list[Document]:
        return await super().ainvoke(input, config, **self._options(config, kwargs))

    def _options(self, config: RunnableConfig | None, kwargs: dict[str, Any]) -> dict[str, Any]:
        """Return the options of a call."""
        return per_call(config, kwargs, self._per_call)

    @override
    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, **options: Any
    ) -> list[Document]:
        return run(self._found(query, run_manager, **options))

    @override
    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, **options: Any
    ) -> list[Document]:
        return await arun(self._found(query, run_manager, **options), threaded=False)

    @abstractmethod
    def _found(self, query: str, run_manager: RunManager, **options: Any) -> Effects[list[Document]]:
        """Return the documents for a query, with the options of the call."""

    @override
    def to_json_not_implemented(self) -> SerializedNotImplemented:
        """Return the description that traces get: without the settings, some of which are the user's own words."""
        return without_settings(super().to_json_not_implemented())


@explained(index="An index of another library stays where it is: SteeredRetriever(vectorstore=...) steers its store.")
class EpicRetriever(OptionsRetriever):
    """Retriever over a memory or a graph: its items as documents, each with its guidance.

        retriever = EpicRetriever(memory="me.epic", k=5)
        documents = retriever.invoke("Where should I stay?", k=3)

    `k`, `filter`, `namespace`, `options` and single ones of these (`preferences`, `steering`, `stance_policy` and
    `min_score`) can be given with each call, or in `config["configurable"]` as `epic_k`, `epic_filter` and so on. A
    filter is an `epic_memory.Filter` or a mapping like `{"year": {"$gte": 2020}}`.

    Attributes:
        memory: The memory, which the caller closes; the name of its file, which has to exist; or a
            `epic_graph.GraphMemory`, whose walk over the graph finds the items.
        embeddings: The embeddings for opening a file given by its name: LangChain's `Embeddings`, an encoder of
            epic_memory or its name; default: the embedded encoder. A memory that is open has its own.
        llm: Likewise, the language model for all that one can do: a chat model, a LanguageModel of epic_memory or the
            name of one, "ollama:qwen3:4b".
        settings: Likewise, the memory's settings.
        k: How many documents, at least 1; before them come up to three facts of the user that fit the query
            (`MemoryFacts.add`), as documents with `epic_tier` "fact", whether or not they are among the k.
        guidance: "metadata" puts the instructions and the other guidance into flat `epic_*` metadata; "text" also
            changes each document's text to the form a model gets: its number, the guidance, the content.
        options: How the memory is searched, as for `EpicMemory.search`: `SearchOptions(min_score=None)` always returns
            k.

    Raises:
        ValidationError: if an argument is invalid.
        StoreError: if the file cannot be opened.
        InvalidInputError: from a call, for another namespace than a graph's.
    """

    # Frozen, because they decided how the memory was opened; hidden, because a model may hold a key.
    memory: Any = Field(frozen=True)  # what is searched, once validated; Any, so that type checkers accept a name
    embeddings: Any = Field(default=None, frozen=True, repr=False)
    llm: Any = Field(default=None, frozen=True, repr=False)
    settings: InstanceOf[Settings] | None = Field(default=None, frozen=True, repr=False)
    guidance: Literal["metadata", "text"] = "metadata"
    options: InstanceOf[SearchOptions] | None = None

    _per_call: ClassVar[tuple[str, ...]] = ("k", "filter", "namespace", "options", *OVERRIDES)

    @model_validator(mode="after")
    def _open(self) -> Self:
        """Open the file last: if another argument failed later, nobody could close it."""
        self.__dict__["memory"] = searched_of(self.memory, self.embeddings, self.llm, self.settings)
        return self

    @override
    def _found(
        self,
        query: str,
        run_manager: RunManager,
        *,
        k: int | None = None,
        filter: MetadataFilter | None = None,
        options: SearchOptions | None = None,
        namespace: str | None = None,
        **single: Any,
    ) -> Effects[list[Document]]:
        how = checked_options(self.options if options is None else options)
        search: dict[str, Any] = {
            "k": self.k if k is None else k,
            "filter": filter_of(filter),
            "options": replace(how, **single) if single else how,
            **in_namespace(self.memory, namespace),
        }
        hits: Hits = yield Call(self.memory.search, self.memory.asearch, query, **search)
        yield search_event(run_manager.get_child(), hits, search["k"])
        return self._documents(hits)

    def _documents(self, hits: Hits) -> list[Document]:
        return [document_of(hit, text) for hit, text in texts_of(hits, self.guidance)]

    @override
    def _get_ls_params(self, **kwargs: Any) -> LangSmithRetrieverParams:
        params = super()._get_ls_params(**kwargs)
        return LangSmithRetrieverParams({**params, "ls_vector_store_provider": "epic"})

    def add_documents(self, documents: Iterable[Document], *, progress: bool = False) -> BuildReport:
        """Offer documents (ids, texts and metadata) to the memory, which decides what it keeps.

        A graph takes in what is kept; a warning is logged if its extractor fails for a text.

        Raises:
            InvalidInputError: for anything but Documents, or metadata that is not JSON.
            EpicError: as `EpicMemory.add` or `GraphMemory.add` raises it.
        """
        items = map(memory_item, several(documents, Document, "Documents"))
        return memory_report(self.memory.add(items, progress=progress))

    async def aadd_documents(self, documents: Iterable[Document], *, progress: bool = False) -> BuildReport:
        """Do the same as `add_documents` without blocking the event loop."""
        items = map(memory_item, several(documents, Document, "Documents"))
        return memory_report(await self.memory.aadd(items, progress=progress))
