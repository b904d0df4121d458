"""Adapter of an `EpicVectorStore` for a `GraphRetriever`.

A `GraphRetriever` follows edges in the metadata of documents: it asks an adapter for documents to start from, and then,
step by step, for documents adjacent to those, always with the vector that the first answer returned. That is where
steering works: the vector is the steered one, and it remembers the search it belongs to.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
from graph_retriever import Content
from graph_retriever.adapters import Adapter
from graph_retriever.edges import Edge, IdEdge, MetadataEdge
from langchain_core.documents import Document
from typing_extensions import override

from epic_core import EpicMemory, Filter, Hit, Hits
from epic_core.collection import Collection, Condition, Matches, Record
from epic_core.encoders import aembed, embed
from epic_core.errors import InvalidInputError
from epic_core.integrations.metadata import hit_metadata
from epic_core.lm.failures import kind_of
from epic_core.runtime.threads import in_thread
from epic_core.steering.stance import penalty_of
from epic_core.types import FloatArray, checked_string
from epic_langchain.documents import document_of, document_of_record
from epic_langchain.filters import condition_of, filter_of
from epic_langchain.per_call import known_only
from epic_langchain.vectorstore import EpicVectorStore, MemoryView

_PER_CALL = ("preferences", "steering")


class EpicGraphAdapter(Adapter):
    """Adapter of an `EpicVectorStore` for a `GraphRetriever`, whose traversals follow the user's preferences.

        retriever = GraphRetriever(store=EpicGraphAdapter(store), edges=[("city", "city")], start_k=3, k=8)
        retriever.invoke("Where should I stay?", store_kwargs={"preferences": ["I avoid casinos."]})

    At the start, and among the adjacent documents at each step, the store is searched as usual: steered by its own
    preferences or by those of the call, documents ranked by their instructions and texts less a penalty for conflicts,
    filters and edges applied within the search. All edges of a step are one search.

    Edges and filters: a key of an edge may be a path, such as "author.name", and a value may be one of a list's.
    `filter` is as for the store: a mapping, an `epic_core.Filter`, or a function of a Document. `store_kwargs` are
    `preferences` and `steering`. With `EpicVectorStore.from_memory`, items that are linked by their ids are ranked by
    their texts, which are embedded for that.

    Args:
        store: The store, which the caller closes.

    Raises:
        InvalidInputError: if it is not an `EpicVectorStore`; from a call, as the store raises it.
        TypeError: from a call, for unknown options.
    """

    def __init__(self, store: EpicVectorStore) -> None:
        if not isinstance(store, EpicVectorStore):
            raise InvalidInputError(
                f"EpicGraphAdapter takes an EpicVectorStore, not {kind_of(store)}. Other stores are steered by"
                " SteeredGraphAdapter(store, preferences=[...])."
            )
        super().__init__()
        self.store = store
        self._source: _Source = (
            _Items(store._memory, store._namespace) if isinstance(store, MemoryView) else _Records(store._collection)
        )

    @override
    def search_with_embedding(
        self, query: str, k: int = 4, filter: Any = None, **kwargs: Any
    ) -> tuple[list[float], list[Content]]:
        """Return the vector that was searched for (`dimension` floats), and the k best documents; k may be 0."""
        search = self._search(checked_string(query, "The query"), k or 1, filter, kwargs)
        found = self._source.find(search)
        return QueryVector(found.vector.tolist(), search), found.contents[:k]

    @override
    async def asearch_with_embedding(
        self, query: str, k: int = 4, filter: Any = None, **kwargs: Any
    ) -> tuple[list[float], list[Content]]:
        """Do the same as `search_with_embedding` without blocking the event loop."""
        search = self._search(checked_string(query, "The query"), k or 1, filter, kwargs)
        found = await self._source.afind(search)
        return QueryVector(found.vector.tolist(), search), found.contents[:k]

    @override
    def search(self, embedding: list[float], k: int = 4, filter: Any = None, **kwargs: Any) -> list[Content]:
        """Return the k best documents for a query's vector; for any other, which is not steered, the nearest."""
        search = self._search(embedding, k or 1, filter, kwargs)
        return self._source.find(search).contents if k else []

    @override
    async def asearch(self, embedding: list[float], k: int = 4, filter: Any = None, **kwargs: Any) -> list[Content]:
        """Do the same as `search` without blocking the event loop."""
        search = self._search(embedding, k or 1, filter, kwargs)
        return (await self._source.afind(search)).contents if k else []

    @override
    def get(self, ids: Sequence[str], filter: Any = None, **kwargs: Any) -> list[Content]:
        """Return the documents with these ids; unknown ids are left out."""
        search = self._search(None, len(ids), filter, kwargs)
        return self._source.find(replace(search, ids=list(ids))).contents if ids else []

    @override
    async def aget(self, ids: Sequence[str], filter: Any = None, **kwargs: Any) -> list[Content]:
        """Do the same as `get` without blocking the event loop."""
        search = self._search(None, len(ids), filter, kwargs)
        return (await self._source.afind(replace(search, ids=list(ids)))).contents if ids else []

    @override
    def adjacent(
        self, edges: set[Edge], query_embedding: list[float], k: int, filter: Any, **kwargs: Any
    ) -> list[Content]:
        """Return the k best documents that at least one of the edges leads to."""
        search = self._search(query_embedding, k, filter, kwargs)
        return _best([self._source.find(one) for one in _along(search, edges)], k)

    @override
    async def aadjacent(
        self, edges: set[Edge], query_embedding: list[float], k: int, filter: Any, **kwargs: Any
    ) -> list[Content]:
        """Do the same as `adjacent` without blocking the event loop."""
        search = self._search(query_embedding, k, filter, kwargs)
        return _best([await self._source.afind(one) for one in _along(search, edges)], k)

    def _search(self, query: str | list[float] | None, k: int, filter: Any, options: Mapping[str, Any]) -> _Search:
        options = known_only(options, _PER_CALL)
        if isinstance(query, QueryVector) and isinstance(query.asked, _Search):
            # Reuse the preferences of the start: an iterator would be exhausted by now.
            return replace(query.asked, vector=query, k=k, filter=filter)
        if isinstance(options.get("preferences"), Iterator):
            options["preferences"] = list(options["preferences"])
        if isinstance(query, str):
            return _Search(query, None, k, filter, options=options)
        return _Search(None, query, k, filter, options=options)


class QueryVector(list[float]):
    """The query vector of a traversal, which carries its search along: many traversals share an adapter."""

    def __init__(self, numbers: Sequence[float], asked: Any) -> None:
        super().__init__(numbers)
        self.asked = asked


@dataclass(frozen=True)
class _Search:
    """A search of a store: by a query's text, by a vector, or by ids alone."""

    query: str | None
    vector: Sequence[float] | None
    k: int
    filter: Any
    edges: Filter | None = None
    ids: Sequence[str] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class _Answer:
    """Documents with scores, best first, and the vector that was searched for."""

    scored: list[tuple[float, Content]]
    vector: FloatArray

    @property
    def contents(self) -> list[Content]:
        return [content for _, content in self.scored]


class _Source(Protocol):
    """A store's documents, searchable."""

    def find(self, search: _Search) -> _Answer: ...

    async def afind(self, search: _Search) -> _Answer: ...


class _Records:
    """The documents of a store."""

    def __init__(self, collection: Collection) -> None:
        self._collection = collection

    def find(self, search: _Search) -> _Answer:
        return _of_matches(self._collection.search(**self._arguments(search)))

    async def afind(self, search: _Search) -> _Answer:
        return _of_matches(await self._collection.asearch(**await in_thread(self._arguments, search)))

    def _arguments(self, search: _Search) -> dict[str, Any]:
        where = _joined(condition_of(search.filter), search.edges)
        common = {"k": search.k, "where": where, "ids": search.ids}
        if search.query is not None:
            return {"query": search.query, **common, **search.options}
        # All documents are equally near to a zero vector, so a search by ids alone finds all of them.
        vector = np.zeros(self._collection.dimension or 1) if search.vector is None else search.vector
        return {"embedding": vector, "steering": "off", **common}


class _Items:
    """The items of a memory, in one namespace."""

    def __init__(self, memory: EpicMemory, namespace: str | None) -> None:
        self._memory = memory
        self._namespace = namespace

    def find(self, search: _Search) -> _Answer:
        if search.ids is not None:
            hits = self._held(search, search.ids)
        elif search.query is None:
            hits = self._nearest(search)
        else:
            hits = self._memory.search(search.query, search.k, **self._options(search))
        missing = _unembedded(hits)
        return _of_hits(search, hits, embed(self._memory.encoder, missing) if missing else None)

    async def afind(self, search: _Search) -> _Answer:
        if search.ids is not None:
            hits = await in_thread(self._held, search, search.ids)
        elif search.query is None:
            hits = await in_thread(self._nearest, search)
        else:
            hits = await self._memory.asearch(search.query, search.k, **self._options(search))
        missing = _unembedded(hits)
        return _of_hits(search, hits, await aembed(self._memory.encoder, missing) if missing else None)

    def _options(self, search: _Search) -> dict[str, Any]:
        return {**self._where(search), **search.options}

    def _where(self, search: _Search) -> dict[str, Any]:
        # An edge asks for the documents it leads to, however far they are from the query.
        least = "auto" if search.edges is None else None
        return {"filter": self._filter(search), "namespace": self._namespace, "min_score": least}

    def _filter(self, search: _Search) -> Filter | None:
        given = filter_of(search.filter)
        return search.edges if given is None else given if search.edges is None else given & search.edges

    def _nearest(self, search: _Search) -> Hits:
        vector = [] if search.vector is None else search.vector
        return self._memory.search_vector(vector, search.k, **self._where(search))

    def _held(self, search: _Search, ids: Sequence[str]) -> Hits:
        """Return items with their entries; without entries if the namespace is another user's."""
        condition = self._filter(search)
        own = self._namespace in (None, self._memory.namespace)
        return Hits(
            Hit(item=item, score=0.0, entries=self._memory.explain(item.id).entries if own else ())
            for item in self._memory.get(dict.fromkeys(ids), namespace=self._namespace)
            if condition is None or condition.matches(item.metadata)
        )


def _of_matches(matches: Matches) -> _Answer:
    scored = [(match.score, _content(document_of_record(match.record), match.vector)) for match in matches]
    return _Answer(scored, matches.vector)


def _unembedded(hits: Hits) -> list[str]:
    """Return the texts of hits if the hits came without vectors, else nothing."""
    return [] if len(hits.vectors) == len(hits) else [hit.item.text for hit in hits]


def _of_hits(search: _Search, hits: Hits, embedded: FloatArray | None) -> _Answer:
    vectors = hits.vectors if embedded is None else list(embedded)
    if search.ids is not None and search.vector is not None:
        asked = np.asarray(search.vector, dtype=np.float32)
        hits = Hits(
            replace(hit, score=float(vector @ asked) - penalty_of(hit_metadata(hit), hit.preferences))
            for hit, vector in zip(hits, vectors, strict=True)
        )
    scored = [(hit.score, _content(document_of(hit), vector)) for hit, vector in zip(hits, vectors, strict=True)]
    return _Answer(scored, np.zeros(0, dtype=np.float32) if hits.vector is None else hits.vector)


def _content(document: Document, vector: FloatArray) -> Content:
    assert document.id is not None
    return Content(id=document.id, content=document.page_content, embedding=vector.tolist(), metadata=document.metadata)


# edges


@dataclass(frozen=True)
class _Along(Filter):
    """A condition whose key is a path into nested metadata, as the keys of edges are."""

    @override
    def matches(self, metadata: Mapping[str, Any]) -> bool:
        found: Any = metadata
        for part in self.key.split("."):
            if not isinstance(found, Mapping) or part not in found:
                return False
            found = found[part]
        return super().matches({self.key: found})

    @override
    def identity(self) -> Hashable:
        made = super().identity()
        return None if made is None else ("path", made)


def _along(search: _Search, edges: Iterable[Edge]) -> Iterator[_Search]:
    """Yield the searches for the documents that edges lead to: one for all metadata edges, one for all id edges."""
    values: defaultdict[str, list[Any]] = defaultdict(list)
    ids: list[str] = []
    for edge in edges:
        if isinstance(edge, MetadataEdge):
            value = edge.value
            values[edge.incoming_field].append(dict(value) if isinstance(value, Mapping) else value)
        elif isinstance(edge, IdEdge):
            ids.append(edge.id)
        else:
            raise InvalidInputError(f"Edges lead to metadata or ids (MetadataEdge, IdEdge), not {kind_of(edge)}.")
    if values:
        # Sorted, since a set has no stable order and the store caches which records a filter lets through.
        parts = tuple(_Along("in", key, sorted(values[key], key=repr)) for key in sorted(values))
        yield replace(search, edges=parts[0] if len(parts) == 1 else Filter("or", parts=parts))
    if ids:
        yield replace(search, ids=sorted(ids))


def _joined(condition: Condition | None, edges: Filter | None) -> Condition | None:
    if condition is None or edges is None:
        return edges if condition is None else condition
    if isinstance(condition, Filter):
        return condition & edges
    test, along = condition, edges

    def both(record: Record) -> bool:
        return along.matches(record.metadata) and test(record)

    return both


def _best(answers: Iterable[_Answer], k: int) -> list[Content]:
    """Return the k best of several answers, each document once."""
    best: dict[str, Content] = {}
    for _, content in sorted((one for answer in answers for one in answer.scored), key=lambda one: -one[0]):
        best.setdefault(content.id, content)
    return list(best.values())[:k]
