"""Base class of the retrievers over a memory, and checks that they share."""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import Any, ClassVar, Literal

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever, LangSmithRetrieverParams
from langchain_core.runnables import RunnableConfig
from pydantic import ConfigDict, field_validator
from typing_extensions import override

from epic_core import EpicMemory, Hits
from epic_core.context import format_preferences
from epic_core.errors import InvalidInputError
from epic_core.types import checked_k
from epic_langchain.adapters import encoder_of
from epic_langchain.documents import document_of
from epic_langchain.filters import MetadataFilter, filter_of
from epic_langchain.per_call import per_call


class MemoryRetriever(BaseRetriever):
    """Base of retrievers over a memory: turns hits into documents, and takes options with each call.

    Attributes:
        k: How many documents, at least 1.
        guidance: "metadata" puts the instructions and the other guidance into flat `epic_*` metadata; "text" also
            changes each document's text to the form a model gets: its number, the guidance, the content.
    """

    model_config = ConfigDict(
        extra="forbid",
        arbitrary_types_allowed=True,
        validate_default=True,
        validate_assignment=True,
        # A model may hold a key.
        hide_input_in_errors=True,
    )

    k: int = 5
    guidance: Literal["metadata", "text"] = "metadata"

    _per_call: ClassVar[tuple[str, ...]] = ("k", "filter")

    @property
    @abstractmethod
    def _searched(self) -> Any:
        """The object whose `search` and `asearch` are called; they take the options of a call."""

    @field_validator("k", mode="before")
    @classmethod
    def _checked_k(cls, k: object) -> int:
        return checked_k(k)

    @override
    def invoke(self, input: str, config: RunnableConfig | None = None, **kwargs: Any) -> list[Document]:
        """Return the documents for a query; keyword arguments apply to this call only."""
        return super().invoke(input, config, **self._options(config, kwargs))

    @override
    async def ainvoke(self, input: str, config: RunnableConfig | None = None, **kwargs: Any) -> list[Document]:
        """Do the same as `invoke` without blocking the event loop."""
        return await super().ainvoke(input, config, **self._options(config, kwargs))

    def _options(self, config: RunnableConfig | None, kwargs: dict[str, Any]) -> dict[str, Any]:
        """Return the options of a call."""
        return per_call(config, kwargs, self._per_call)

    @override
    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun,
        k: int | None = None,
        filter: MetadataFilter | None = None,
        **options: Any,
    ) -> list[Document]:
        k = self.k if k is None else k
        return self._documents(self._searched.search(query, k, filter=filter_of(filter), **options))

    @override
    async def _aget_relevant_documents(
        self,
        query: str,
        *,
        run_manager: AsyncCallbackManagerForRetrieverRun,
        k: int | None = None,
        filter: MetadataFilter | None = None,
        **options: Any,
    ) -> list[Document]:
        k = self.k if k is None else k
        return self._documents(await self._searched.asearch(query, k, filter=filter_of(filter), **options))

    def _documents(self, hits: Hits) -> list[Document]:
        documents = [document_of(hit, number, guidance=self.guidance) for number, hit in enumerate(hits, start=1)]
        opening = format_preferences(hits) if self.guidance == "text" else ""
        if documents and opening:
            # The first document opens with the preferences that matter, as the memory's own context does.
            documents[0].page_content = f"{opening}\n\n{documents[0].page_content}"
        return documents

    @override
    def _get_ls_params(self, **kwargs: Any) -> LangSmithRetrieverParams:
        params = super()._get_ls_params(**kwargs)
        return LangSmithRetrieverParams({**params, "ls_vector_store_provider": "epic"})


def opened(memory: str | Path, embeddings: Any) -> EpicMemory:
    """Open the memory in a file, which has to exist."""
    return EpicMemory.open(memory, must_exist=True, encoder=encoder_of(embeddings))


def check_embeddings(memory: EpicMemory, embeddings: Any) -> None:
    """Refuse embeddings other than those of a memory that is open.

    Raises:
        InvalidInputError: naming both.
    """
    if embeddings is not None:
        given, own = encoder_of(embeddings).name, memory.encoder.name
        if given != own:
            raise InvalidInputError(f"The memory is open, with the embeddings {own}: leave out embeddings={given}.")
