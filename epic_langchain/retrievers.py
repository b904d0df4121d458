"""Retriever over a memory."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, ClassVar

from langchain_core.documents import Document
from pydantic import Field, ValidationInfo, field_validator
from typing_extensions import override

from epic_core import BuildReport, EpicMemory
from epic_core.errors import InvalidInputError
from epic_langchain.documents import memory_item, several
from epic_langchain.memory_retriever import MemoryRetriever, check_embeddings, opened


class EpicRetriever(MemoryRetriever):
    """Retriever over a memory: its items as documents, each with its guidance.

        retriever = EpicRetriever(memory="me.epic", k=5)
        documents = retriever.invoke("Where should I stay?", k=3)

    `k`, `filter`, `namespace` and `preferences` (which of the memory's preferences may steer and match) can be given
    with each call, or in `config["configurable"]`. A filter is an `epic_core.Filter` or a mapping like `{"year":
    {"$gte": 2020}}`.

    Attributes:
        embeddings: The embeddings for opening a file given by its name: LangChain's `Embeddings`, an encoder of
            epic_core or its name; default: the embedded encoder. A memory that is open has its own.
        memory: The memory, which the caller closes; or the name of its file, which has to exist.
        k: How many documents, at least 1.
        guidance: "metadata" puts the instructions and the other guidance into flat `epic_*` metadata; "text" also
            changes each document's text to the form a model gets: its number, the guidance, the content.
    """

    embeddings: Any = Field(default=None, repr=False)  # a model may hold a key
    memory: Any  # an EpicMemory once validated; Any, so that type checkers accept a name

    _per_call: ClassVar[tuple[str, ...]] = ("k", "filter", "namespace", "preferences")

    @field_validator("memory", mode="before")
    @classmethod
    def _opened(cls, memory: object, info: ValidationInfo) -> object:
        embeddings = info.data.get("embeddings")
        if isinstance(memory, (str, Path)):
            return opened(memory, embeddings)
        if not isinstance(memory, EpicMemory):
            raise InvalidInputError(f"memory is an EpicMemory or the name of its file, not {type(memory).__name__}.")
        check_embeddings(memory, embeddings)
        return memory

    @property
    @override
    def _searched(self) -> EpicMemory:
        memory: EpicMemory = self.memory
        return memory

    def add_documents(self, documents: Iterable[Document], *, progress: bool = False) -> BuildReport:
        """Offer documents (ids, texts and metadata) to the memory, which decides what it keeps.

        Raises:
            InvalidInputError: for anything but Documents, or metadata that is not JSON.
            EpicError: as `EpicMemory.add` raises it.
        """
        return self._searched.add(map(memory_item, several(documents)), progress=progress)

    async def aadd_documents(self, documents: Iterable[Document], *, progress: bool = False) -> BuildReport:
        """Do the same as `add_documents` without blocking the event loop."""
        return await self._searched.aadd(map(memory_item, several(documents)), progress=progress)
