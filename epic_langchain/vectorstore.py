"""LangChain vector store that finds documents by their instructions and steers searches by preferences."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import VectorStore
from langchain_core.vectorstores.utils import maximal_marginal_relevance
from typing_extensions import Self, override

from epic_core import EpicMemory, Preference
from epic_core.collection import Collection, Matches
from epic_core.encoders import Encoder
from epic_core.encoders.by_name import NAMES, is_encoder_name
from epic_core.errors import InvalidInputError
from epic_core.runtime.batching import unique_preferences
from epic_core.runtime.threads import in_thread
from epic_core.steering import Mode
from epic_core.types import FloatArray, Hits
from epic_langchain.adapters import encoder_of
from epic_langchain.arguments import (
    check_none_left,
    documents_of_texts,
    fetched,
    ids_for,
    options_of,
    records_of,
    several_ids,
)
from epic_langchain.documents import checked_documents, document_of, document_of_record, item_document
from epic_langchain.embeddings import EpicEmbeddings
from epic_langchain.filters import condition_of, filter_of
from epic_langchain.transformer import EpicDocumentTransformer

_STEERED = ("filter", "preferences", "steering")
_PLAIN = ("filter",)


@dataclass(frozen=True)
class Found:
    """Documents with their scores and vectors, best first, and the query vector."""

    scored: list[tuple[Document, float]]
    vectors: list[FloatArray]
    vector: FloatArray | None

    @property
    def documents(self) -> list[Document]:
        """The documents without their scores."""
        return [document for document, _ in self.scored]

    def diverse(self, k: int, lambda_mult: float) -> list[Document]:
        """Return k documents that are near to the query vector and far from each other."""
        if self.vector is None or len(self.vectors) != len(self.scored) or not self.scored:
            return self.documents[:k]
        chosen = maximal_marginal_relevance(
            self.vector, [vector.tolist() for vector in self.vectors], lambda_mult=lambda_mult, k=k
        )
        return [self.scored[place][0] for place in chosen]


class EpicVectorStore(VectorStore):
    """A vector store in one durable file, or in RAM, whose searches follow the user's preferences.

        store = EpicVectorStore(path="me.vectors", preferences=["I follow a strict vegan diet."])
        store.add_documents(documents)
        store.similarity_search("What should I cook tonight?", k=3, filter={"lang": "en"})

    It stores every document it is given. A document with instructions in its metadata, as `EpicDocumentTransformer`
    writes them, is found by each of them and by its text; any other by its text. Filters are mappings like `{"year":
    {"$gte": 2020}}`, `epic_core.Filter`s, or functions of a Document; they are applied within the search, so that k
    documents come back if so many satisfy the filter. Scores are cosines, higher is better; with preferences, less a
    penalty for a conflict with one.

    Searches by text take `filter`, `preferences` and `steering` for this call; searches by a vector are not steered,
    and take `filter`. Metadata has to be JSON. Safe to use from several threads; a file also from several processes.

    Args:
        embedding: LangChain's `Embeddings`, an encoder of epic_core or its name, such as "ollama/nomic-embed-text";
            default: the embedded encoder. The file remembers it.
        path: The file, which is not a pickle, and not the file of a memory. None for RAM.
        preferences: The user's; without any, searches are by plain similarity. The file does not remember them.
        steering: "signed", "paper" (Eq. 7-8) or "off".
        must_exist: Refuse to make a new file.
        read_only: Never write into the file.

    Raises:
        InvalidInputError: if an argument is invalid.
        StoreError: if the file cannot be opened, or is not a vector store's.
        EncoderMismatchError: if it was made with another embedding model; at the first use, if finding that out takes a
            call to the model.
    """

    def __init__(
        self,
        embedding: Embeddings | Encoder | str | None = None,
        *,
        path: str | Path | None = None,
        preferences: Sequence[str | Preference] | None = None,
        steering: Mode = "signed",
        must_exist: bool = False,
        read_only: bool = False,
    ) -> None:
        if isinstance(embedding, (str, Path)) and not is_encoder_name(embedding):
            raise InvalidInputError(
                f"embeddings must be a model, or the name of an encoder ({NAMES}), not a text. The name of a file is"
                " path=."
            )
        encoder = encoder_of(embedding)
        self._embeddings = embedding if isinstance(embedding, Embeddings) else EpicEmbeddings(encoder)
        self._collection = Collection(
            encoder,
            path,
            preferences=() if preferences is None else preferences,
            steering=steering,
            must_exist=must_exist,
            read_only=read_only,
        )

    @classmethod
    def from_memory(cls, memory: EpicMemory, *, namespace: str | None = None) -> EpicVectorStore:
        """Return a view of a memory: its items, searched and steered by the memory.

        The view cannot be written: `memory.add` decides what is kept. Its filters are mappings or `epic_core.Filter`s.

        Args:
            memory: The memory, which the caller closes.
            namespace: The namespace whose items are searched; default: the memory's own.
        """
        return MemoryView(memory, namespace)

    # making a store of documents

    @classmethod
    @override
    def from_documents(
        cls, documents: list[Document], embedding: Embeddings | Encoder | str | None = None, **kwargs: Any
    ) -> Self:
        """Make a store of documents; with `preferences`, of the documents that matter to the user.

        Documents that a model's failure leaves undecided are not stored, and there is a warning. To try them again,
        use `EpicDocumentTransformer` and `add_documents` instead.

        Args:
            documents: The documents to store; with preferences, after the coarse filter and fine verification.
            embedding: As for the constructor.
            **kwargs: As for the constructor; `ids`; `llm`, which decides what is kept (`EpicDocumentTransformer`).

        Raises:
            InvalidInputError: as the constructor and `add_documents`; or for an `llm` without preferences.
            EncoderError: if the embedding model fails; nothing is stored then.
        """
        store, given, keep = cls._begun(documents, embedding, kwargs)
        with store._closed_on_error():
            store.add_documents(given if keep is None else keep.invoke(given))
        _warn_of_undecided(keep)
        return store

    @classmethod
    @override
    async def afrom_documents(
        cls, documents: list[Document], embedding: Embeddings | Encoder | str | None = None, **kwargs: Any
    ) -> Self:
        """Do the same as `from_documents` without blocking the event loop."""
        store, given, keep = await in_thread(cls._begun, documents, embedding, kwargs)
        with store._closed_on_error():
            await store.aadd_documents(given if keep is None else await keep.ainvoke(given))
        _warn_of_undecided(keep)
        return store

    @classmethod
    @override
    def from_texts(
        cls,
        texts: list[str],
        embedding: Embeddings | Encoder | str | None = None,
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: list[str] | None = None,
        **kwargs: Any,
    ) -> Self:
        """Make a store of texts, as `from_documents` does of documents."""
        return cls.from_documents(documents_of_texts(texts, metadatas, ids), embedding, **kwargs)

    @classmethod
    @override
    async def afrom_texts(
        cls,
        texts: list[str],
        embedding: Embeddings | Encoder | str | None = None,
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: list[str] | None = None,
        **kwargs: Any,
    ) -> Self:
        """Do the same as `from_texts` without blocking the event loop."""
        return await cls.afrom_documents(documents_of_texts(texts, metadatas, ids), embedding, **kwargs)

    @classmethod
    def _begun(
        cls, documents: Iterable[Document], embedding: Any, options: dict[str, Any]
    ) -> tuple[Self, list[Document], EpicDocumentTransformer | None]:
        """Return an empty store, the documents with their ids, and the transformer that filters them, if any."""
        ids, llm = options.pop("ids", None), options.pop("llm", None)
        preferences = options.pop("preferences", None)
        preferences = [] if preferences is None else unique_preferences(preferences)
        given = checked_documents(documents)
        given = [
            document if one is None else document.model_copy(update={"id": one})
            for document, one in zip(given, ids_for(ids, len(given)), strict=True)
        ]
        if llm is not None and not preferences:
            raise InvalidInputError("llm decides what preferences want: give preferences=[...] with it.")
        keep = None
        if preferences:
            keep = EpicDocumentTransformer(preferences=preferences, embeddings=encoder_of(embedding), llm=llm)
        return cls(embedding, preferences=preferences, **options), given, keep

    @contextmanager
    def _closed_on_error(self) -> Iterator[None]:
        """Close the store if the block raises: the caller does not have it yet and could not close it."""
        try:
            yield
        except BaseException:
            self.close()
            raise

    # writing

    @override
    def add_documents(
        self, documents: list[Document], *, ids: Sequence[str | None] | None = None, **kwargs: Any
    ) -> list[str]:
        """Store documents, all of them or none; one with a known id replaces the earlier one.

        Args:
            documents: Documents; one without an id gets a new one.
            ids: Ids to use instead of the documents' own; None for a document keeps its own.
            **kwargs: `batch_size`, which `langchain_core.indexing.index` passes on, has no effect.

        Returns:
            The ids, in order.

        Raises:
            InvalidInputError: for anything but Documents, metadata that is not JSON, or another number of ids.
            EncoderError: if the embedding model fails; nothing is stored then.
        """
        return self._collection.add(records_of(documents, ids, kwargs))

    @override
    async def aadd_documents(
        self, documents: list[Document], *, ids: Sequence[str | None] | None = None, **kwargs: Any
    ) -> list[str]:
        """Do the same as `add_documents` without blocking the event loop."""
        return await self._collection.aadd(await in_thread(records_of, documents, ids, kwargs))

    @override
    def add_texts(
        self,
        texts: Iterable[str],
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: list[str] | None = None,
        **kwargs: Any,
    ) -> list[str]:
        """Store texts, as `add_documents` does documents."""
        return self.add_documents(documents_of_texts(texts, metadatas, ids), **kwargs)

    @override
    async def aadd_texts(
        self,
        texts: Iterable[str],
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: list[str] | None = None,
        **kwargs: Any,
    ) -> list[str]:
        """Do the same as `add_texts` without blocking the event loop."""
        return await self.aadd_documents(documents_of_texts(texts, metadatas, ids), **kwargs)

    @override
    def delete(self, ids: Sequence[str] | None = None, **kwargs: Any) -> bool:
        """Remove documents by their ids, or all documents without ids. Unknown ids are ignored."""
        check_none_left(kwargs)
        self._collection.delete(None if ids is None else several_ids(ids))
        return True

    @override
    async def adelete(self, ids: Sequence[str] | None = None, **kwargs: Any) -> bool:
        """Do the same as `delete` without blocking the event loop."""
        check_none_left(kwargs)
        await in_thread(self._collection.delete, None if ids is None else several_ids(ids))
        return True

    # reading

    @override
    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """Return the documents with these ids, in order; unknown ids are left out."""
        return [document_of_record(record) for record in self._collection.get(several_ids(ids))]

    @override
    async def aget_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """Do the same as `get_by_ids` without blocking the event loop."""
        return await in_thread(self.get_by_ids, ids)

    @override
    def similarity_search(self, query: str, k: int = 4, **kwargs: Any) -> list[Document]:
        """Return the k documents that fit a query best; `filter`, `preferences` and `steering` apply to this call."""
        return self._search(query, k, kwargs).documents

    @override
    async def asimilarity_search(self, query: str, k: int = 4, **kwargs: Any) -> list[Document]:
        """Do the same as `similarity_search` without blocking the event loop."""
        return (await self._asearch(query, k, kwargs)).documents

    @override
    def similarity_search_with_score(self, query: str, k: int = 4, **kwargs: Any) -> list[tuple[Document, float]]:
        """Do the same as `similarity_search`, with scores; higher is better."""
        return self._search(query, k, kwargs).scored

    @override
    async def asimilarity_search_with_score(
        self, query: str, k: int = 4, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        """Do the same as `similarity_search_with_score` without blocking the event loop."""
        return (await self._asearch(query, k, kwargs)).scored

    @override
    def similarity_search_by_vector(self, embedding: list[float], k: int = 4, **kwargs: Any) -> list[Document]:
        """Return the k documents nearest to a vector, without steering; `filter` applies to this call."""
        return self._search_vector(embedding, k, kwargs).documents

    @override
    async def asimilarity_search_by_vector(self, embedding: list[float], k: int = 4, **kwargs: Any) -> list[Document]:
        """Do the same as `similarity_search_by_vector` without blocking the event loop."""
        return (await in_thread(self._search_vector, embedding, k, kwargs)).documents

    def similarity_search_with_score_by_vector(
        self, embedding: list[float], k: int = 4, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        """Do the same as `similarity_search_by_vector`, with cosines."""
        return self._search_vector(embedding, k, kwargs).scored

    async def asimilarity_search_with_score_by_vector(
        self, embedding: list[float], k: int = 4, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        """Do the same as `similarity_search_with_score_by_vector` without blocking the event loop."""
        return (await in_thread(self._search_vector, embedding, k, kwargs)).scored

    @override
    def max_marginal_relevance_search(
        self, query: str, k: int = 4, fetch_k: int = 20, lambda_mult: float = 0.5, **kwargs: Any
    ) -> list[Document]:
        """Return k of the `fetch_k` best documents that differ from each other.

        `lambda_mult` runs from 0, most diverse, to 1, most similar to the query.
        """
        return self._search(query, fetched(k, fetch_k, lambda_mult), kwargs).diverse(k, lambda_mult)

    @override
    async def amax_marginal_relevance_search(
        self, query: str, k: int = 4, fetch_k: int = 20, lambda_mult: float = 0.5, **kwargs: Any
    ) -> list[Document]:
        """Do the same as `max_marginal_relevance_search` without blocking the event loop."""
        found = await self._asearch(query, fetched(k, fetch_k, lambda_mult), kwargs)
        return await in_thread(found.diverse, k, lambda_mult)

    @override
    def max_marginal_relevance_search_by_vector(
        self, embedding: list[float], k: int = 4, fetch_k: int = 20, lambda_mult: float = 0.5, **kwargs: Any
    ) -> list[Document]:
        """Do the same as `max_marginal_relevance_search` for a vector, without steering."""
        return self._search_vector(embedding, fetched(k, fetch_k, lambda_mult), kwargs).diverse(k, lambda_mult)

    @override
    async def amax_marginal_relevance_search_by_vector(
        self, embedding: list[float], k: int = 4, fetch_k: int = 20, lambda_mult: float = 0.5, **kwargs: Any
    ) -> list[Document]:
        """Do the same as `max_marginal_relevance_search_by_vector` without blocking the event loop."""
        found = await in_thread(self._search_vector, embedding, fetched(k, fetch_k, lambda_mult), kwargs)
        return await in_thread(found.diverse, k, lambda_mult)

    @override
    def _select_relevance_score_fn(self) -> Callable[[float], float]:
        return _relevance

    # overridden by a view

    def _search(self, query: str, k: int, options: dict[str, Any]) -> Found:
        where, others = options_of(options, _STEERED)
        return _found(self._collection.search(query, k, where=condition_of(where), **others))

    async def _asearch(self, query: str, k: int, options: dict[str, Any]) -> Found:
        where, others = options_of(options, _STEERED)
        return _found(await self._collection.asearch(query, k, where=condition_of(where), **others))

    def _search_vector(self, vector: list[float], k: int, options: dict[str, Any]) -> Found:
        where, _ = options_of(options, _PLAIN)
        return _found(self._collection.search_vector(vector, k, where=condition_of(where)))

    # other methods

    @property
    @override
    def embeddings(self) -> Embeddings:
        """The embedding model."""
        return self._embeddings

    def verify(self) -> int:
        """Check every row of the file and return how many there are.

        Raises:
            DamagedError: if a row is not as it was written.
        """
        return self._collection.verify()

    def backup(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write a copy of the last committed state, whole or not at all; also while the store is in use.

        Raises:
            StoreError: if it cannot be written, or the file exists and `overwrite` is off.
        """
        self._collection.backup(path, overwrite=overwrite)

    def close(self) -> None:
        """Close the file; closing twice is fine."""
        self._collection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"EpicVectorStore({self._collection!r})"


class MemoryView(EpicVectorStore):
    """A view of a memory as a vector store that cannot be written."""

    def __init__(self, memory: EpicMemory, namespace: str | None = None) -> None:
        if not isinstance(memory, EpicMemory):
            raise InvalidInputError(f"from_memory takes an EpicMemory, not {type(memory).__name__}.")
        self._memory = memory
        self._namespace = namespace
        self._embeddings = EpicEmbeddings(memory.encoder)

    def _refuse(self) -> InvalidInputError:
        return InvalidInputError(
            "This is a view of a memory, which decides itself what it keeps: memory.add(...), memory.forget(...)."
        )

    @override
    def add_documents(self, documents: list[Document], **kwargs: Any) -> list[str]:
        """Refuse to write."""
        raise self._refuse()

    @override
    async def aadd_documents(self, documents: list[Document], **kwargs: Any) -> list[str]:
        """Refuse to write."""
        raise self._refuse()

    @override
    def delete(self, ids: Sequence[str] | None = None, **kwargs: Any) -> bool:
        """Refuse to write."""
        raise self._refuse()

    @override
    async def adelete(self, ids: Sequence[str] | None = None, **kwargs: Any) -> bool:
        """Refuse to write."""
        raise self._refuse()

    @override
    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """Return the items with these ids, in order, as documents; unknown ids are left out."""
        return [item_document(item) for item in self._memory.get(several_ids(ids), namespace=self._namespace)]

    def _search(self, query: str, k: int, options: dict[str, Any]) -> Found:
        where, others = options_of(options, _STEERED)
        return _hits(self._memory.search(query, k, filter=filter_of(where), namespace=self._namespace, **others))

    async def _asearch(self, query: str, k: int, options: dict[str, Any]) -> Found:
        where, others = options_of(options, _STEERED)
        hits = await self._memory.asearch(query, k, filter=filter_of(where), namespace=self._namespace, **others)
        return _hits(hits)

    def _search_vector(self, vector: list[float], k: int, options: dict[str, Any]) -> Found:
        where, _ = options_of(options, _PLAIN)
        return _hits(self._memory.search_vector(vector, k, filter=filter_of(where), namespace=self._namespace))

    @override
    def verify(self) -> int:
        """Check every row of the memory's file and return how many there are."""
        return self._memory.verify()

    @override
    def backup(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write a copy of the memory's file."""
        self._memory.backup(path, overwrite=overwrite)

    @override
    def close(self) -> None:
        """Do nothing: the memory's owner closes it."""

    @override
    def __repr__(self) -> str:
        return f"EpicVectorStore.from_memory({self._memory!r})"


def _found(matches: Matches) -> Found:
    scored = [(document_of_record(match.record), match.score) for match in matches]
    return Found(scored, [match.vector for match in matches], matches.vector)


def _hits(hits: Hits) -> Found:
    scored = [(document_of(hit, number), hit.score) for number, hit in enumerate(hits, start=1)]
    return Found(scored, hits.vectors, hits.vector)


def _relevance(score: float) -> float:
    """Return a cosine as LangChain's relevance, in [0, 1]: a negative cosine counts as 0."""
    return min(max(score, 0.0), 1.0)


def _warn_of_undecided(keep: EpicDocumentTransformer | None) -> None:
    """Warn of undecided documents: they are not stored, and the caller gets no report."""
    if keep is not None and keep.undecided:
        reason = next(iter(keep.report.failures.values()), "no reason was given")
        warnings.warn(
            f"{len(keep.undecided)} documents are undecided and not stored ({reason}). To try again, transform them"
            " with EpicDocumentTransformer and add what it keeps.",
            stacklevel=3,
        )
