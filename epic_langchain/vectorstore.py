"""LangChain vector store whose searches follow the user's preferences."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from numbers import Integral, Real
from pathlib import Path
from typing import Any

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import VectorStore
from langchain_core.vectorstores.utils import maximal_marginal_relevance
from typing_extensions import Self, override

from epic_langchain.arguments import documents_of_texts, records_of, with_ids
from epic_langchain.documents import document_of_record
from epic_langchain.filters import condition_of
from epic_langchain.models import EpicEmbeddings, encoder_of
from epic_memory import Preference
from epic_memory.encoders import Encoder
from epic_memory.errors import InvalidInputError
from epic_memory.runtime.effects import in_thread
from epic_memory.steering import Mode
from epic_memory.types import checked_k
from epic_plugins.collection import Collection, Matches
from epic_plugins.collection.file import OpenCollection
from epic_plugins.several import several
from epic_plugins.wrong_arguments import check_options, explained


@explained(index="It makes its own: add_documents fills it.")
class EpicVectorStore(OpenCollection, VectorStore):
    """A vector store in one durable file, or in RAM, whose searches follow the user's preferences.

        store = EpicVectorStore(path="me.vectors", preferences=["I follow a strict vegan diet."])
        store.add_documents(documents)
        store.similarity_search("What should I cook tonight?", k=3, filter={"lang": "en"})

    It stores every document it is given, finds it by its text and title, and ranks it by its stances, if its metadata
    has some, as `EpicDocumentTransformer` writes them: what conflicts with a preference comes below what answers as
    well and does not. Its instructions find it with `steering="paper"` only. Filters are mappings like `{"year":
    {"$gte": 2020}}`, `epic_memory.Filter`s, or functions of a Document; they are applied within the search, so you get
    k documents whenever k match. Scores are cosines, higher is better; with preferences, a conflict lowers the score.

    Searches by text take `filter`, `preferences` and `steering` for this call; searches by a vector are not steered,
    and take `filter`. Metadata has to be JSON. Safe to use from several threads; a file also from several processes.

    Args:
        embedding: LangChain's `Embeddings`, an encoder of epic_memory or its name, such as "ollama/nomic-embed-text";
            default: the embedded encoder. The file remembers it.
        path: A file of epic-memory, which a memory may share. None for RAM.
        preferences: The user's; without any, searches are by plain similarity. The file does not remember them.
        steering: "signed", "paper" (Eq. 7-8) or "off".
        must_exist: Refuse to make a new file.
        read_only: Never write into the file.

    Raises:
        InvalidInputError: if an argument is invalid.
        StoreError: if the file cannot be opened, or is not one of epic-memory.
        EncoderMismatchError: if it was made with another embedding model; at the first use, if checking needs a call to
            the model.
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

    # making a store of documents

    @classmethod
    @override
    def from_documents(
        cls,
        documents: list[Document],
        embedding: Embeddings | Encoder | str | None = None,
        *,
        ids: Sequence[str | None] | None = None,
        **kwargs: Any,
    ) -> Self:
        """Make a store and add documents to it, all of them.

        To store only what matters to the user, add what an `EpicDocumentTransformer` keeps.

        Args:
            documents: The documents to store.
            embedding: As for the constructor.
            ids: As for `add_documents`.
            **kwargs: As for the constructor.

        Raises:
            InvalidInputError: as the constructor and `add_documents` raise it.
            EncoderError: if the embedding model fails; nothing is stored then.
        """
        given = with_ids(documents, ids)
        store = cls(embedding, **kwargs)
        try:
            store.add_documents(given)
        except BaseException:
            # The caller does not have the store yet and could not close it.
            store.close()
            raise
        return store

    @classmethod
    @override
    async def afrom_documents(
        cls, documents: list[Document], embedding: Embeddings | Encoder | str | None = None, **kwargs: Any
    ) -> Self:
        return await in_thread(partial(cls.from_documents, documents, embedding, **kwargs))

    @classmethod
    @override
    def from_texts(
        cls,
        texts: list[str],
        embedding: Embeddings | Encoder | str | None = None,
        metadatas: list[dict[str, Any]] | None = None,
        **kwargs: Any,
    ) -> Self:
        """Make a store of texts, as `from_documents` does of documents."""
        return cls.from_documents(documents_of_texts(texts, metadatas), embedding, **kwargs)

    @classmethod
    @override
    async def afrom_texts(
        cls,
        texts: list[str],
        embedding: Embeddings | Encoder | str | None = None,
        metadatas: list[dict[str, Any]] | None = None,
        **kwargs: Any,
    ) -> Self:
        return await in_thread(partial(cls.from_texts, texts, embedding, metadatas, **kwargs))

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
        return self._collection.add(records_of(documents, ids, **kwargs))

    @override
    async def aadd_documents(
        self, documents: list[Document], *, ids: Sequence[str | None] | None = None, **kwargs: Any
    ) -> list[str]:
        return await self._collection.aadd(await in_thread(partial(records_of, documents, ids, **kwargs)))

    @override
    def add_texts(
        self, texts: Iterable[str], metadatas: list[dict[str, Any]] | None = None, **kwargs: Any
    ) -> list[str]:
        """Store texts, as `add_documents` does documents."""
        return self.add_documents(documents_of_texts(texts, metadatas), **kwargs)

    @override
    async def aadd_texts(
        self, texts: Iterable[str], metadatas: list[dict[str, Any]] | None = None, **kwargs: Any
    ) -> list[str]:
        return await self.aadd_documents(documents_of_texts(texts, metadatas), **kwargs)

    @override
    def delete(self, ids: Sequence[str] | None = None, **kwargs: Any) -> bool:
        """Remove documents by their ids, or all documents without ids. Unknown ids are ignored."""
        self._collection.delete(None if ids is None else several(ids, str, "ids"), **kwargs)
        return True

    # reading; LangChain calls what has no asynchronous form here in a thread

    @override
    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """Return the documents with these ids, in order; unknown ids are left out."""
        return list(map(document_of_record, self._collection.get(several(ids, str, "ids"))))

    @override
    def similarity_search(self, query: str, k: int = 4, **kwargs: Any) -> list[Document]:
        """Return the k documents that fit a query best; `filter`, `preferences` and `steering` apply to this call."""
        return _documents(self._collection.search(**_by_text(query, k, **kwargs)))

    @override
    async def asimilarity_search(self, query: str, k: int = 4, **kwargs: Any) -> list[Document]:
        return _documents(await self._collection.asearch(**_by_text(query, k, **kwargs)))

    @override
    def similarity_search_with_score(self, query: str, k: int = 4, **kwargs: Any) -> list[tuple[Document, float]]:
        """Do the same as `similarity_search`, with scores; higher is better."""
        return _scored(self._collection.search(**_by_text(query, k, **kwargs)))

    @override
    async def asimilarity_search_with_score(
        self, query: str, k: int = 4, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        return _scored(await self._collection.asearch(**_by_text(query, k, **kwargs)))

    @override
    def similarity_search_by_vector(self, embedding: list[float], k: int = 4, **kwargs: Any) -> list[Document]:
        """Return the k documents nearest to a vector, without steering; `filter` applies to this call."""
        return _documents(self._collection.search(**_by_vector(embedding, k, **kwargs)))

    def similarity_search_with_score_by_vector(
        self, embedding: list[float], k: int = 4, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        """Do the same as `similarity_search_by_vector`, with cosines."""
        return _scored(self._collection.search(**_by_vector(embedding, k, **kwargs)))

    @override
    def max_marginal_relevance_search(
        self, query: str, k: int = 4, fetch_k: int = 20, lambda_mult: float = 0.5, **kwargs: Any
    ) -> list[Document]:
        """Return k of the `fetch_k` best documents that differ from each other.

        `lambda_mult` runs from 0, most diverse, to 1, most similar to the query.
        """
        fetched = _fetched(k, fetch_k, lambda_mult)
        return _diverse(self._collection.search(**_by_text(query, fetched, **kwargs)), k, lambda_mult)

    @override
    def max_marginal_relevance_search_by_vector(
        self, embedding: list[float], k: int = 4, fetch_k: int = 20, lambda_mult: float = 0.5, **kwargs: Any
    ) -> list[Document]:
        """Do the same as `max_marginal_relevance_search` for a vector, without steering."""
        fetched = _fetched(k, fetch_k, lambda_mult)
        return _diverse(self._collection.search(**_by_vector(embedding, fetched, **kwargs)), k, lambda_mult)

    @override
    def _select_relevance_score_fn(self) -> Callable[[float], float]:
        return lambda cosine: min(max(cosine, 0.0), 1.0)

    # other methods

    @property
    @override
    def embeddings(self) -> Embeddings:
        """The embedding model."""
        return self._embeddings


def _by_text(
    query: str,
    k: int,
    *,
    filter: Any = None,
    preferences: Iterable[str | Preference] | None = None,
    steering: Mode | None = None,
    **others: Any,
) -> dict[str, Any]:
    """Return the arguments of a collection's search by a text."""
    check_options(others, ("k", "filter", "preferences", "steering"))
    where = condition_of(filter)
    return {"query": query, "k": k, "where": where, "preferences": preferences, "steering": steering}


def _by_vector(vector: list[float], k: int, *, filter: Any = None, **others: Any) -> dict[str, Any]:
    """Return the arguments of a collection's search by a vector."""
    check_options(others, ("k", "filter"))
    if vector is None:
        raise InvalidInputError("A search by vector needs a vector, not None.")
    return {"embedding": vector, "k": k, "where": condition_of(filter), "steering": "off"}


def _documents(matches: Matches) -> list[Document]:
    return [document_of_record(match.record) for match in matches]


def _scored(matches: Matches) -> list[tuple[Document, float]]:
    return [(document_of_record(match.record), match.score) for match in matches]


def _diverse(matches: Matches, k: int, lambda_mult: float) -> list[Document]:
    """Return k documents that are near to the query vector and far from each other."""
    vectors = [match.vector.tolist() for match in matches]
    chosen = maximal_marginal_relevance(matches.vector, vectors, lambda_mult=lambda_mult, k=k) if vectors else []
    return [document_of_record(matches[place].record) for place in chosen]


def _fetched(k: int, fetch_k: int, lambda_mult: float) -> int:
    """Return how many documents to fetch, from which the k diverse ones are chosen."""
    if not isinstance(fetch_k, Integral) or isinstance(fetch_k, bool):
        raise InvalidInputError(f"fetch_k must be a whole number, not {fetch_k!r}.")
    if not isinstance(lambda_mult, Real) or not 0.0 <= lambda_mult <= 1.0:
        raise InvalidInputError(f"lambda_mult must be between 0, most diverse, and 1; not {lambda_mult!r}.")
    return max(checked_k(k), int(fetch_k))
