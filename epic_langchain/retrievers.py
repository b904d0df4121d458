"""A memory as a LangChain retriever."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever, LangSmithRetrieverParams
from langchain_core.runnables import RunnableConfig
from pydantic import ConfigDict, ValidationInfo, field_validator
from typing_extensions import override

from epic_core import BuildReport, EpicMemory, Hits
from epic_core.errors import InvalidInputError
from epic_core.types import checked_k
from epic_langchain.adapters import encoder_of
from epic_langchain.documents import document_of, memory_item, several
from epic_langchain.filters import MetadataFilter, filter_of
from epic_langchain.per_call import per_call

_PER_CALL = ("k", "filter", "namespace", "preferences")


class EpicRetriever(BaseRetriever):
    """Retrieves a memory's items, each with its guidance.

        retriever = EpicRetriever(memory="me.epic", k=5)
        documents = retriever.invoke("Where should I stay?", k=3)

    `k`, `filter`, `namespace` and `preferences` (those of the held ones that may steer and match) can be given with
    each call, or in `config["configurable"]`. A filter is an `epic_core.Filter` or a mapping like
    `{"year": {"$gte": 2020}}`.

    Attributes:
        embeddings: What a file given by its name is opened with: LangChain's `Embeddings` or an encoder of epic_core;
            default: the embedded one. A memory that is open has its own.
        memory: The memory, which the caller closes; or the name of its file, which has to be there.
        k: How many documents, at least 1.
        guidance: "metadata" puts the instructions and all that is known into flat `epic_*` metadata; "text" also makes
            each document's text what a model is given: its number, the guidance, the content.
    """

    model_config = ConfigDict(
        extra="forbid", arbitrary_types_allowed=True, validate_default=True, validate_assignment=True
    )

    embeddings: Any = None
    memory: Any  # an EpicMemory once it was checked; a name would not do for a type checker
    k: int = 5
    guidance: Literal["metadata", "text"] = "metadata"

    @field_validator("memory", mode="before")
    @classmethod
    def _opened(cls, memory: object, info: ValidationInfo) -> object:
        embeddings = info.data.get("embeddings")
        if isinstance(memory, (str, Path)):
            return EpicMemory.open(memory, must_exist=True, encoder=encoder_of(embeddings))
        if isinstance(memory, EpicMemory) and embeddings is not None:
            given, own = encoder_of(embeddings).name, memory.encoder.name
            if given != own:
                raise InvalidInputError(f"The memory is open, with the embeddings {own}: leave out embeddings={given}.")
        if not isinstance(memory, EpicMemory):
            raise InvalidInputError(f"memory is an EpicMemory or the name of its file, not {type(memory).__name__}.")
        return memory

    @field_validator("k", mode="before")
    @classmethod
    def _checked_k(cls, k: object) -> int:
        return checked_k(k)

    @override
    def invoke(self, input: str, config: RunnableConfig | None = None, **kwargs: Any) -> list[Document]:
        """The documents for a query; keyword arguments hold for this call."""
        return super().invoke(input, config, **per_call(config, kwargs, _PER_CALL))

    @override
    async def ainvoke(self, input: str, config: RunnableConfig | None = None, **kwargs: Any) -> list[Document]:
        """As `invoke`, without blocking the event loop."""
        return await super().ainvoke(input, config, **per_call(config, kwargs, _PER_CALL))

    @override
    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun,
        k: int | None = None,
        filter: MetadataFilter | None = None,
        namespace: str | None = None,
        preferences: Sequence[str] | None = None,
    ) -> list[Document]:
        return self._documents(
            self.memory.search(
                query,
                self.k if k is None else k,
                filter=filter_of(filter),
                namespace=namespace,
                preferences=preferences,
            )
        )

    @override
    async def _aget_relevant_documents(
        self,
        query: str,
        *,
        run_manager: AsyncCallbackManagerForRetrieverRun,
        k: int | None = None,
        filter: MetadataFilter | None = None,
        namespace: str | None = None,
        preferences: Sequence[str] | None = None,
    ) -> list[Document]:
        return self._documents(
            await self.memory.asearch(
                query,
                self.k if k is None else k,
                filter=filter_of(filter),
                namespace=namespace,
                preferences=preferences,
            )
        )

    def _documents(self, hits: Hits) -> list[Document]:
        return [document_of(hit, number, guidance=self.guidance) for number, hit in enumerate(hits, start=1)]

    @override
    def _get_ls_params(self, **kwargs: Any) -> LangSmithRetrieverParams:
        params = super()._get_ls_params(**kwargs)
        return LangSmithRetrieverParams({**params, "ls_vector_store_provider": "epic"})

    def add_documents(self, documents: Iterable[Document], *, progress: bool = False) -> BuildReport:
        """Offer documents to the memory, which decides what it keeps: ids, texts and metadata.

        Raises:
            InvalidInputError: for what is no Document, or metadata that is not JSON.
            EpicError: as `EpicMemory.add` raises it.
        """
        memory: EpicMemory = self.memory
        return memory.add(map(memory_item, several(documents)), progress=progress)

    async def aadd_documents(self, documents: Iterable[Document], *, progress: bool = False) -> BuildReport:
        """As `add_documents`, without blocking the event loop."""
        memory: EpicMemory = self.memory
        return await memory.aadd(map(memory_item, several(documents)), progress=progress)
