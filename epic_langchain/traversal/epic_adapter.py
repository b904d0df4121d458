"""Adapter of an `EpicVectorStore` for a `GraphRetriever`.

A `GraphRetriever` follows edges in the metadata of documents: it asks an adapter for documents to start from, and then,
step by step, for documents adjacent to those, always with the vector that the first answer returned. That is where
steering works: the vector is the steered one, and it remembers the search it belongs to.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from graph_retriever import Content
from graph_retriever.adapters import Adapter
from graph_retriever.edges import Edge, IdEdge, MetadataEdge
from typing_extensions import override

from epic_langchain.searches import Found, Search
from epic_langchain.vectorstore import EpicVectorStore
from epic_memory import Filter, Preference
from epic_memory.errors import InvalidInputError
from epic_memory.lm.failures import kind_of
from epic_memory.runtime.effects import in_thread, run
from epic_memory.steering import Mode
from epic_memory.types import checked_string


class EpicGraphAdapter(Adapter):
    """Adapter of an `EpicVectorStore` for a `GraphRetriever`, whose traversals follow the user's preferences.

        retriever = GraphRetriever(store=EpicGraphAdapter(store), edges=[("city", "city")], start_k=3, k=8)
        retriever.invoke("Where should I stay?", store_kwargs={"preferences": ["I avoid casinos."]})

    At the start, and among the adjacent documents at each step, the store is searched as usual: steered by its own
    preferences or by those of the call, documents ranked by their instructions and texts less a penalty for conflicts,
    filters and edges applied within the search. All edges of a step are one search.

    Edges and filters: a key of an edge may be a path, such as "author.name", and a value may be one of a list's.
    `filter` is as for the store: a mapping, an `epic_memory.Filter`, or a function of a Document. `store_kwargs` are
    `preferences` and `steering`. With `EpicVectorStore.from_memory`, items that are linked by their ids are ranked by
    their texts, which are embedded for that. Asynchronous traversals search in a thread.

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

    @override
    def search_with_embedding(
        self, query: str, k: int = 4, filter: Any = None, **kwargs: Any
    ) -> tuple[list[float], list[Content]]:
        """Return the vector that was searched for (`dimension` floats), and the k best documents; k may be 0."""
        search = replace(_search(None, k or 1, filter, **kwargs), query=checked_string(query, "The query"))
        found = self._found(search)
        return QueryVector([] if found.vector is None else found.vector.tolist(), search), _contents(found)[:k]

    @override
    def search(self, embedding: list[float], k: int = 4, filter: Any = None, **kwargs: Any) -> list[Content]:
        """Return the k best documents for a query's vector; for any other, which is not steered, the nearest."""
        return _contents(self._found(_search(embedding, k, filter, **kwargs))) if k else []

    @override
    def get(self, ids: Sequence[str], filter: Any = None, **kwargs: Any) -> list[Content]:
        """Return the documents with these ids; unknown ids are left out."""
        search = replace(_search(None, len(ids), filter, **kwargs), ids=list(ids))
        return _contents(self._found(search)) if ids else []

    @override
    def adjacent(
        self, edges: set[Edge], query_embedding: list[float], k: int, filter: Any, **kwargs: Any
    ) -> list[Content]:
        """Return the k best documents that at least one of the edges leads to."""
        found = [self._found(search) for search in _along(_search(query_embedding, k, filter, **kwargs), edges)]
        scored = [pair for one in found for pair in zip(one.scores, _contents(one), strict=True)]
        best: dict[str, Content] = {}
        for _, content in sorted(scored, key=lambda pair: -pair[0]):
            best.setdefault(content.id, content)
        return list(best.values())[:k]

    @override
    async def aadjacent(
        self, edges: set[Edge], query_embedding: list[float], k: int, filter: Any, **kwargs: Any
    ) -> list[Content]:
        return await in_thread(partial(self.adjacent, edges, query_embedding, k, filter, **kwargs))

    def _found(self, search: Search) -> Found:
        return run(self.store._source.find(search))


class QueryVector(list[float]):
    """The query vector of a traversal, which carries its search along: many traversals share an adapter."""

    def __init__(self, numbers: Sequence[float], asked: Any) -> None:
        super().__init__(numbers)
        self.asked = asked


def _search(
    vector: list[float] | None,
    k: int,
    filter: Any,
    *,
    preferences: Iterable[str | Preference] | None = None,
    steering: Mode | None = None,
) -> Search:
    if isinstance(vector, QueryVector) and isinstance(vector.asked, Search):
        # Reuse the preferences of the start: an iterator would be exhausted by now.
        return replace(vector.asked, vector=vector, k=k, filter=filter)
    if isinstance(preferences, Iterator):
        preferences = list(preferences)
    return Search(vector=vector, k=k, filter=filter, preferences=preferences, steering=steering)


def _contents(found: Found) -> list[Content]:
    return [
        Content(
            id=str(document.id),
            content=document.page_content,
            embedding=vector.tolist(),
            metadata=document.metadata,
        )
        for document, vector in zip(found.documents, found.vectors, strict=True)
    ]


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


def _along(search: Search, edges: Iterable[Edge]) -> Iterator[Search]:
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
