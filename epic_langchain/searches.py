"""Searches of the documents behind a vector store: the records of a collection, or the items of a memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from langchain_core.documents import Document
from langchain_core.vectorstores.utils import maximal_marginal_relevance

from epic_langchain.documents import document_of, document_of_record
from epic_langchain.filters import condition_of, filter_of
from epic_memory import EpicMemory, Filter, Hit, Hits, Preference, SearchOptions
from epic_memory.collection import Collection, Condition, Matches
from epic_memory.encoders.base import Embed
from epic_memory.runtime.effects import Call, Effects
from epic_memory.steering import Mode
from epic_memory.types import FloatArray, penalties
from epic_plugins.metadata import own_metadata


@dataclass(frozen=True, kw_only=True)
class Search:
    """A search by a query's text, by a vector, or by ids alone; preferences and steering are in place of the store's.

    What satisfies `edges`, a condition besides the user's filter, is found however far it is from the query.
    """

    query: str | None = None
    vector: Sequence[float] | FloatArray | None = None
    k: int = 4
    filter: Any = None
    edges: Filter | None = None
    ids: Sequence[str] | None = None
    preferences: Iterable[str | Preference] | None = None
    steering: Mode | None = None


@dataclass(frozen=True)
class Found:
    """Documents with their scores and vectors, best first, and the vector that was searched for, if any."""

    documents: list[Document]
    scores: list[float]
    vectors: list[FloatArray]
    vector: FloatArray | None

    @property
    def scored(self) -> list[tuple[Document, float]]:
        """Each document with its score."""
        return list(zip(self.documents, self.scores, strict=True))

    def diverse(self, k: int, lambda_mult: float) -> list[Document]:
        """Return k documents that are near to the query vector and far from each other."""
        if self.vector is None or not self.documents:
            return self.documents[:k]
        vectors = [vector.tolist() for vector in self.vectors]
        chosen = maximal_marginal_relevance(self.vector, vectors, lambda_mult=lambda_mult, k=k)
        return [self.documents[place] for place in chosen]


class CollectionSource:
    """The records of a collection."""

    def __init__(self, collection: Collection) -> None:
        self._collection = collection

    def find(self, search: Search) -> Effects[Found]:
        """Return the k best records as documents."""
        options: dict[str, Any] = {"k": search.k, "where": _where(search), "ids": search.ids}
        if search.query is None:
            # All documents are equally near to a zero vector, so a search by ids alone finds all of them.
            vector = np.zeros(self._collection.dimension or 1) if search.vector is None else search.vector
            options |= {"embedding": vector, "steering": "off"}
        else:
            options |= {"query": search.query, "preferences": search.preferences, "steering": search.steering}
        matches: Matches = yield Call(self._collection.search, self._collection.asearch, **options)
        return Found(
            [document_of_record(match.record) for match in matches],
            [match.score for match in matches],
            [match.vector for match in matches],
            matches.vector,
        )

    def get(self, ids: Sequence[str]) -> list[Document]:
        """Return the records with these ids as documents."""
        return [document_of_record(record) for record in self._collection.get(ids)]


class MemorySource:
    """The items of a memory, in one namespace. Their filters are no functions."""

    def __init__(self, memory: EpicMemory, namespace: str | None) -> None:
        self._memory = memory
        self._namespace = namespace

    def find(self, search: Search) -> Effects[Found]:
        """Return the k best items as documents; texts without a vector are embedded."""
        where = filter_of(search.filter)
        if search.edges is not None:
            where = search.edges if where is None else where & search.edges
        options = SearchOptions(
            min_score="auto" if search.edges is None else None,
            preferences=search.preferences,
            steering=search.steering,
        )
        if search.ids is not None:
            hits = self._held(search.ids, where)
        elif search.query is None:
            vector = [] if search.vector is None else search.vector
            hits = self._memory.search(vector, search.k, filter=where, namespace=self._namespace, options=options)
        else:
            memory = self._memory
            how: dict[str, Any] = {"filter": where, "namespace": self._namespace, "options": options}
            hits = yield Call(memory.search, memory.asearch, search.query, search.k, **how)
        vectors = hits.vectors
        if len(vectors) != len(hits):
            vectors = list((yield Embed(self._memory.encoder, [hit.item.text for hit in hits], "embedding")))
        if search.ids is not None and search.vector is not None:
            asked = np.asarray(search.vector, dtype=np.float32)
            hits = Hits(
                replace(hit, score=float(vector @ asked) - max((penalties()[one] for one in hit.stances), default=0.0))
                for hit, vector in zip(hits, vectors, strict=True)
            )
        return Found([document_of(hit) for hit in hits], [hit.score for hit in hits], vectors, hits.vector)

    def get(self, ids: Sequence[str]) -> list[Document]:
        """Return the items with these ids as documents, without guidance."""
        return [
            Document(id=item.id, page_content=item.text, metadata=own_metadata(item.metadata))
            for item in self._memory.get(ids, namespace=self._namespace)
        ]

    def _held(self, ids: Sequence[str], where: Filter | None) -> Hits:
        """Return items with their entries; without entries if the namespace is another user's."""
        own = self._namespace in (None, self._memory.namespace)
        return Hits(
            Hit(item=item, score=0.0, entries=self._memory.explain(item.id).entries if own else ())
            for item in self._memory.get(dict.fromkeys(ids), namespace=self._namespace)
            if where is None or where.matches(item.metadata)
        )


def _where(search: Search) -> Condition | None:
    """Return the filter and the edges of a search as one condition."""
    condition, edges = condition_of(search.filter), search.edges
    if edges is None:
        return condition
    if condition is None:
        return edges
    if isinstance(condition, Filter):
        return condition & edges
    test, along = condition, edges
    return lambda record: along.matches(record.metadata) and test(record)
