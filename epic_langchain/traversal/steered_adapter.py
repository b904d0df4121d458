"""Adapter that steers traversals of any store under a `GraphRetriever`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from graph_retriever import Content
from graph_retriever.adapters import Adapter
from graph_retriever.edges import Edge
from langchain_core.vectorstores import VectorStore
from langchain_graph_retriever.adapters.inference import infer_adapter
from typing_extensions import override

from epic_langchain.documents import described
from epic_langchain.models import encoder_of
from epic_langchain.traversal.epic_adapter import EpicGraphAdapter, QueryVector
from epic_langchain.vectorstore import EpicVectorStore
from epic_memory import Preference
from epic_memory.errors import InvalidInputError
from epic_memory.lm.failures import kind_of
from epic_memory.runtime.batching import unique_preferences
from epic_memory.runtime.effects import in_thread
from epic_memory.types.modes import Mode, checked_mode
from epic_plugins.copies import Copied
from epic_plugins.vector_stores import SteeredSearch, Target

_PER_CALL = ("preferences", "steering")


class SteeredGraphAdapter(Copied, Adapter):
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
    document was ranked by, where documents were ranked by stance. Asynchronous traversals search in a thread.

    Args:
        store: A vector store that `langchain-graph-retriever` has an adapter for, or any adapter.
        preferences: The user's, texts or `epic_memory.Preference`s.
        embeddings: The embeddings of the store's texts: LangChain's `Embeddings`, an encoder of epic_memory or its
            name; default: the store's `embeddings`.
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
        self._floor = floor
        self._search = SteeredSearch(encoder_of(embeddings), floor=floor, overfetch=overfetch)

    @override
    def _arguments(self) -> dict[str, Any]:
        return {
            "store": self.adapter,
            "preferences": self.preferences,
            "embeddings": self._search.encoder,
            "steering": self.steering,
            "floor": self._floor,
            "overfetch": self._search.overfetch,
        }

    @override
    def _shared(self) -> tuple[object, ...]:
        return self.adapter, self._search

    @override
    def search_with_embedding(
        self, query: str, k: int = 4, filter: dict[str, Any] | None = None, **kwargs: Any
    ) -> tuple[list[float], list[Content]]:
        """Return the steered vector, a list of `dimension` floats, and the k best documents for it; k may be 0."""
        users, mode = (kwargs.get(name) for name in _PER_CALL)
        embedding, _ = self.adapter.search_with_embedding(query, k=0, filter=filter, **_others(kwargs))
        target = self._search.target(
            embedding,
            self.preferences if users is None else users,
            self.steering if mode is None else mode,
            query,
        )
        vector = QueryVector(target.vector, target)
        return vector, self.search(vector, k, filter, **kwargs)

    @override
    def search(
        self, embedding: list[float], k: int = 4, filter: dict[str, Any] | None = None, **kwargs: Any
    ) -> list[Content]:
        """Return the k best documents for a query's vector; any other vector is not steered and goes to the adapter."""

        def fetch(vector: list[float], count: int) -> list[Content]:
            return self.adapter.search(vector, count, filter, **_others(kwargs))

        return self._found(embedding, k, fetch) if k else []

    @override
    def get(self, ids: Sequence[str], filter: dict[str, Any] | None = None, **kwargs: Any) -> list[Content]:
        """Return the documents with these ids, as the adapter finds them."""
        return self.adapter.get(ids, filter, **_others(kwargs))

    @override
    def adjacent(
        self, edges: set[Edge], query_embedding: list[float], k: int, filter: dict[str, Any] | None, **kwargs: Any
    ) -> list[Content]:
        """Return the k best documents that at least one of the edges leads to."""

        def fetch(vector: list[float], count: int) -> list[Content]:
            return list(self.adapter.adjacent(edges, vector, count, filter, **_others(kwargs)))

        return self._found(query_embedding, k, fetch)

    @override
    async def aadjacent(
        self, edges: set[Edge], query_embedding: list[float], k: int, filter: dict[str, Any] | None, **kwargs: Any
    ) -> list[Content]:
        return await in_thread(partial(self.adjacent, edges, query_embedding, k, filter, **kwargs))

    def _found(
        self, embedding: list[float], k: int, fetch: Callable[[list[float], int], list[Content]]
    ) -> list[Content]:
        """Return copies of the k best documents, with `epic_steered_by` and `epic_score` in their metadata."""
        # A vector from elsewhere stands for itself.
        target = embedding.asked if isinstance(embedding, QueryVector) else Target(vector=embedding)
        steered_by = "\n".join(target.steered_by) or None
        return [
            replace(one.document, metadata=described(one.document.metadata, steered_by=steered_by, score=one.score))
            for one in self._search.find(target, k, fetch, _read)
        ]


def _others(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that are the adapter's own."""
    return {name: value for name, value in options.items() if name not in _PER_CALL}


def _adapter_of(store: Any) -> Adapter:
    if not isinstance(store, (Adapter, VectorStore)):
        raise InvalidInputError(f"The store has to be a vector store or an adapter, not {kind_of(store)}.")
    try:
        return infer_adapter(store)
    except (ValueError, ImportError) as error:
        raise InvalidInputError(
            f"langchain-graph-retriever has no adapter for {type(store).__name__} ({error}). Give an adapter."
        ) from error


def _read(content: Content) -> tuple[str, Mapping[str, Any]]:
    return content.content, content.metadata
