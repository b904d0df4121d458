"""Adapter that steers traversals of any store under a `GraphRetriever`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from graph_retriever import Content
from graph_retriever.adapters import Adapter
from graph_retriever.edges import Edge
from langchain_core.vectorstores import VectorStore
from langchain_graph_retriever.adapters.inference import infer_adapter
from typing_extensions import override

from epic_core import Preference
from epic_core.errors import InvalidInputError
from epic_core.lm.failures import kind_of
from epic_core.runtime.batching import unique_preferences
from epic_core.steering.vector_stores import Found, SteeredSearch, Target
from epic_core.types.metadata import copied
from epic_core.types.modes import Mode, checked_mode
from epic_core.types.validation import checked_tau
from epic_langchain.adapters import encoder_of
from epic_langchain.traversal.stores import EpicGraphAdapter, QueryVector
from epic_langchain.vectorstore import EpicVectorStore

_PER_CALL = ("preferences", "steering")
# Keys that describe a document in one call only.
_OURS = frozenset({"epic_steered_by", "epic_score"})


class SteeredGraphAdapter(Adapter):
    """Adapter of any store for a `GraphRetriever`, whose traversals the user's preferences steer.

        adapter = SteeredGraphAdapter(InMemoryVectorStore(EpicEmbeddings()), ["I avoid hotels with casinos."])
        retriever = GraphRetriever(store=adapter, edges=[("city", "city")])
        retriever.invoke("Where should I stay?", store_kwargs={"preferences": ["I love casinos."]})

    The query's embedding is steered before the traversal begins, so that its start, its steps and the similarity that
    strategies use all follow the steered query. If the metadata of documents gives their stance to these preferences
    (`EpicDocumentTransformer` writes it, before they are stored) and one of the k found conflicts with a preference,
    more are fetched, and ranked by similarity and stance; for that, their texts are embedded, and the vectors cached.

    `store_kwargs` of a call: `preferences` and `steering` apply to that call; all others go to the adapter. Documents
    are copies; `epic_steered_by` names the preferences that steered, one a line, and `epic_score` is the score a
    document was ranked by, where documents were ranked by stance.

    Args:
        store: A vector store that `langchain-graph-retriever` has an adapter for, or any adapter.
        preferences: The user's, texts or `epic_core.Preference`s.
        embeddings: The embeddings of the store's texts: LangChain's `Embeddings`, an encoder of epic_core or its name;
            default: the store's `embeddings`.
        steering: "signed", "paper" (Eq. 7-8) or "off".
        floor: Cosine from which a preference steers, in [-1, 1]; default: as for `SteeredRetriever`.
        overfetch: How many times k are fetched to rank by stance, at least 1; with 1, stances are ignored.

    Raises:
        InvalidInputError: if an argument is invalid, or there is no adapter for the store.
        EncoderError: from a call, if the embeddings are not those of the store, or fail.
    """

    def __init__(
        self,
        store: Adapter | VectorStore,
        preferences: Iterable[str | Preference] = (),
        *,
        embeddings: Any = None,
        steering: Mode = "signed",
        floor: float | None = None,
        overfetch: int = 4,
    ) -> None:
        if isinstance(store, (EpicVectorStore, EpicGraphAdapter, SteeredGraphAdapter)):
            raise InvalidInputError(
                f"{type(store).__name__} steers already. Give preferences to it, and an EpicVectorStore to"
                " EpicGraphAdapter(store)."
            )
        super().__init__()
        self.adapter = _adapter_of(store)
        self.preferences = tuple(unique_preferences(preferences))
        self.steering = checked_mode(steering)
        if embeddings is None:
            embeddings = getattr(getattr(self.adapter, "vector_store", None), "embeddings", None)
        if embeddings is None:
            raise InvalidInputError(
                f"{type(self.adapter).__name__} does not say what its texts were embedded with. Give embeddings=, the"
                " same that it was filled with."
            )
        floor = None if floor is None else checked_tau(floor, "floor")
        self._search = SteeredSearch(encoder_of(embeddings), floor=floor, overfetch=overfetch)

    @override
    def search_with_embedding(
        self, query: str, k: int = 4, filter: dict[str, Any] | None = None, **kwargs: Any
    ) -> tuple[list[float], list[Content]]:
        """Return the steered vector, a list of `dimension` floats, and the k best documents for it; k may be 0."""
        users, mode, rest = self._options(kwargs)
        embedding, _ = self.adapter.search_with_embedding(query, k=0, filter=filter, **rest)
        vector = _steered(self._search.target(embedding, users, mode))
        return vector, self.search(vector, k, filter, **kwargs)

    @override
    async def asearch_with_embedding(
        self, query: str, k: int = 4, filter: dict[str, Any] | None = None, **kwargs: Any
    ) -> tuple[list[float], list[Content]]:
        """Do the same as `search_with_embedding` without blocking the event loop."""
        users, mode, rest = self._options(kwargs)
        embedding, _ = await self.adapter.asearch_with_embedding(query, k=0, filter=filter, **rest)
        vector = _steered(await self._search.atarget(embedding, users, mode))
        return vector, await self.asearch(vector, k, filter, **kwargs)

    @override
    def search(
        self, embedding: list[float], k: int = 4, filter: dict[str, Any] | None = None, **kwargs: Any
    ) -> list[Content]:
        """Return the k best documents for a query's vector; any other vector is not steered and goes to the adapter."""
        *_, rest = self._options(kwargs)

        def fetch(vector: list[float], count: int) -> list[Content]:
            return self.adapter.search(vector, count, filter, **rest)

        if k == 0:
            return []
        target = _target(embedding)
        return _said(target, self._search.find(target, k, fetch, _read))

    @override
    async def asearch(
        self, embedding: list[float], k: int = 4, filter: dict[str, Any] | None = None, **kwargs: Any
    ) -> list[Content]:
        """Do the same as `search` without blocking the event loop."""
        *_, rest = self._options(kwargs)

        async def fetch(vector: list[float], count: int) -> list[Content]:
            return await self.adapter.asearch(vector, count, filter, **rest)

        if k == 0:
            return []
        target = _target(embedding)
        return _said(target, await self._search.afind(target, k, fetch, _read))

    @override
    def get(self, ids: Sequence[str], filter: dict[str, Any] | None = None, **kwargs: Any) -> list[Content]:
        """Return the documents with these ids, as the adapter finds them."""
        *_, rest = self._options(kwargs)
        return self.adapter.get(ids, filter, **rest)

    @override
    async def aget(self, ids: Sequence[str], filter: dict[str, Any] | None = None, **kwargs: Any) -> list[Content]:
        """Do the same as `get` without blocking the event loop."""
        *_, rest = self._options(kwargs)
        return await self.adapter.aget(ids, filter, **rest)

    @override
    def adjacent(
        self, edges: set[Edge], query_embedding: list[float], k: int, filter: dict[str, Any] | None, **kwargs: Any
    ) -> list[Content]:
        """Return the k best documents that at least one of the edges leads to."""
        *_, rest = self._options(kwargs)

        def fetch(vector: list[float], count: int) -> list[Content]:
            return list(self.adapter.adjacent(edges, vector, count, filter, **rest))

        target = _target(query_embedding)
        return _said(target, self._search.find(target, k, fetch, _read))

    @override
    async def aadjacent(
        self, edges: set[Edge], query_embedding: list[float], k: int, filter: dict[str, Any] | None, **kwargs: Any
    ) -> list[Content]:
        """Do the same as `adjacent` without blocking the event loop."""
        *_, rest = self._options(kwargs)

        async def fetch(vector: list[float], count: int) -> list[Content]:
            return list(await self.adapter.aadjacent(edges, vector, count, filter, **rest))

        target = _target(query_embedding)
        return _said(target, await self._search.afind(target, k, fetch, _read))

    def _options(self, given: Mapping[str, Any]) -> tuple[Iterable[str | Preference], Mode, dict[str, Any]]:
        """Return the preferences that steer, the mode, and the options for the adapter."""
        rest = {name: value for name, value in given.items() if name not in _PER_CALL}
        users, mode = (given.get(name) for name in _PER_CALL)
        return self.preferences if users is None else users, self.steering if mode is None else mode, rest


def _adapter_of(store: Any) -> Adapter:
    if not isinstance(store, (Adapter, VectorStore)):
        raise InvalidInputError(f"The store has to be a vector store or an adapter, not {kind_of(store)}.")
    try:
        return infer_adapter(store)
    except (ValueError, ImportError) as error:
        raise InvalidInputError(
            f"langchain-graph-retriever has no adapter for {type(store).__name__} ({error}). Give an adapter."
        ) from error


def _steered(target: Target) -> QueryVector:
    return QueryVector(target.vector, target)


def _target(embedding: list[float]) -> Target:
    """Return the target that a vector stands for; a vector from elsewhere stands for itself."""
    return embedding.asked if isinstance(embedding, QueryVector) else Target(vector=embedding)


def _read(content: Content) -> tuple[str, Mapping[str, Any]]:
    return content.content, content.metadata


def _said(target: Target, found: Sequence[Found[Content]]) -> list[Content]:
    """Return copies of documents with `epic_steered_by` and `epic_score` in their metadata."""
    said = {"epic_steered_by": "\n".join(target.steered_by)} if target.steered_by else {}
    return [_with(one.document, said if one.score is None else {**said, "epic_score": one.score}) for one in found]


def _with(content: Content, said: Mapping[str, Any]) -> Content:
    own = {key: copied(value) for key, value in content.metadata.items() if key not in _OURS}
    return replace(content, metadata={**own, **said})
