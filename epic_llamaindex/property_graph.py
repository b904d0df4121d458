"""Retriever over a property graph's entities, steered by the user's preferences, with guidance for its passages."""

from __future__ import annotations

import copy
import logging
from collections.abc import Iterable
from typing import Any, cast

from llama_index.core import PropertyGraphIndex
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.callbacks import CallbackManager
from llama_index.core.graph_stores.types import LabelledNode, PropertyGraphStore
from llama_index.core.indices.property_graph import BasePGRetriever, VectorContextRetriever
from llama_index.core.indices.property_graph.sub_retrievers.base import DEFAULT_PREAMBLE
from llama_index.core.schema import BaseNode, NodeWithScore, QueryBundle
from llama_index.core.vector_stores import MetadataFilters
from llama_index.core.vector_stores.types import BasePydanticVectorStore
from typing_extensions import Self

from epic_llamaindex.ingestion import EpicTransform
from epic_llamaindex.models import EpicEmbedding, encoder_of
from epic_llamaindex.nodes import text_of, with_metadata
from epic_llamaindex.steered_retriever import SteeredRetriever
from epic_memory import BuildReport, EpicMemory, Preference
from epic_memory.encoders import Encoder
from epic_memory.errors import InvalidInputError, NoPreferencesError
from epic_memory.lm.failures import kind_of
from epic_memory.runtime.batching import unique_preferences
from epic_memory.runtime.effects import Call, Effects, arun, in_thread, run
from epic_memory.steering import Mode
from epic_memory.types import checked_k
from epic_memory.types.modes import MinScore
from epic_memory.types.verdicts import Judged
from epic_plugins.judging_memory import Judge, warn_of_undecided
from epic_plugins.metadata import PREFIX, as_metadata, guidance_of

_logger = logging.getLogger(__name__)


class SteeredVectorContextRetriever(BasePGRetriever):
    """Sub-retriever of a property graph that finds entities with a query steered by the user's preferences.

        keep = EpicTransform(preferences=["I avoid hotels with casinos."], annotate=False)
        index = PropertyGraphIndex.from_documents(documents, transformations=[SentenceSplitter(), keep], ...)
        steered = SteeredVectorContextRetriever.from_index(index, guidance=keep)
        nodes = index.as_retriever(sub_retrievers=[steered]).retrieve("Where should I stay?")

    It is a `VectorContextRetriever` whose queries are steered as by `SteeredRetriever`: it returns the facts around the
    entities nearest to the steered query and, with `include_text`, the passages they were extracted from.

    A graph built after `EpicTransform(annotate=False)` holds no guidance. With `guidance=` the retrieved passages and
    the nodes of their facts get it back as flat `epic_*` metadata, excluded from the text to embed and from the text
    for a model; and passages that conflict with a preference rank lower. The graph does not store guidance: the
    transform or the memory is asked for it. Both cache what a model decided: a transform with `memory=` in that
    memory's file, one without for as long as it lives. A passage without a cached verdict is judged anew.

    Safe to use from several threads.

    Args:
        graph_store: The property graph. It is never changed.
        preferences: The user's, texts or `epic_memory.Preference`s; default: the preferences that `guidance` has at the
            time of each call.
        embed_model: The model that embedded the graph's entities: a `BaseEmbedding`, an encoder of epic_memory or its
            name.
        vector_store: Holds the entities' embeddings, for a graph store that cannot be searched by vector.
        guidance: The EpicTransform that judged the passages, or the EpicMemory that it judged by.
        steering: "signed", "paper" or "off", as for `SteeredRetriever`.
        min_score: As for `SteeredRetriever`; its texts are facts. `limit` grows in proportion to the entities fetched.
        include_text, include_text_preamble, include_properties: As for `VectorContextRetriever`.
        similarity_top_k, path_depth, limit, similarity_score, filters, callback_manager: As for it, too.

    Raises:
        InvalidInputError: if an argument is invalid; from a call, for a query without text.
        EncoderMismatchError: from a call, if the graph holds vectors of another dimension, or the bundle brought an
            embedding of another.
        EncoderError: from a call, if the embedding model fails.
    """

    def __init__(
        self,
        graph_store: PropertyGraphStore,
        preferences: Iterable[str | Preference] | None = None,
        *,
        embed_model: BaseEmbedding | Encoder | str,
        vector_store: BasePydanticVectorStore | None = None,
        guidance: EpicTransform | EpicMemory | None = None,
        steering: Mode = "signed",
        min_score: MinScore = None,
        include_text: bool = True,
        include_text_preamble: str | None = DEFAULT_PREAMBLE,
        include_properties: bool = False,
        similarity_top_k: int = 4,
        path_depth: int = 1,
        limit: int = 30,
        similarity_score: float | None = None,
        filters: MetadataFilters | None = None,
        callback_manager: CallbackManager | None = None,
    ) -> None:
        if vector_store is None and not graph_store.supports_vector_queries:
            raise InvalidInputError(
                f"{type(graph_store).__name__} cannot be searched by vector. Give the vector store that the index put"
                " its entities into: vector_store=index.vector_store."
            )
        if guidance is not None and not isinstance(guidance, (EpicTransform, EpicMemory)):
            raise InvalidInputError(f"guidance is an EpicTransform or an EpicMemory, not {type(guidance).__name__}.")
        if filters is not None and not isinstance(filters, MetadataFilters):
            raise InvalidInputError(
                f"filters are LlamaIndex's here, which its stores know, not {kind_of(filters)}:"
                " MetadataFilters(filters=[MetadataFilter(key=..., value=...)])."
            )
        if preferences is None and guidance is None:
            raise InvalidInputError("Give the preferences to steer by: preferences=['...'], or guidance=.")
        if embed_model is None:
            raise InvalidInputError("Give embed_model=, the model that the graph's entities were embedded with.")
        model = embed_model if isinstance(embed_model, BaseEmbedding) else EpicEmbedding(encoder_of(embed_model))
        self._guidance = guidance
        self._leaf = _VectorContext(
            graph_store,
            include_text=False,
            include_properties=include_properties,
            embed_model=model,
            vector_store=vector_store,
            similarity_top_k=checked_k(similarity_top_k, "similarity_top_k"),
            path_depth=checked_k(path_depth, "path_depth"),
            limit=checked_k(limit, "limit"),
            similarity_score=similarity_score,
            filters=filters,
            guidance=guidance,
        )
        self._steered = SteeredRetriever(
            self._leaf, steering=steering, min_score=min_score, callback_manager=callback_manager
        )
        super().__init__(
            graph_store,
            include_text=include_text,
            include_text_preamble=include_text_preamble,
            include_properties=include_properties,
            callback_manager=callback_manager,
        )
        self._preferences = None if preferences is None else self._take(preferences)

    @classmethod
    def from_index(
        cls, index: PropertyGraphIndex, preferences: Iterable[str | Preference] | None = None, **options: Any
    ) -> Self:
        """Make a retriever over an index: its graph store, vector store and embedding model.

        Args:
            index: The index.
            preferences: As for the constructor.
            **options: As for the constructor.

        Raises:
            InvalidInputError: for anything but a property graph index, or one whose entities are not embedded.
            TypeError: for an unknown argument.
        """
        if not isinstance(index, PropertyGraphIndex):
            raise InvalidInputError(f"index must be a PropertyGraphIndex, not {type(index).__name__}.")
        if index._embed_model is None:
            raise InvalidInputError(
                "The entities of this index are not embedded: make it with embed_kg_nodes=True and an embed_model."
            )
        return cls(
            index.property_graph_store,
            preferences,
            embed_model=index._embed_model,
            vector_store=index.vector_store,
            **options,
        )

    @property
    def preferences(self) -> tuple[str | Preference, ...]:
        """The preferences that steer now."""
        if self._preferences is not None:
            return self._preferences
        return () if self._guidance is None else tuple(self._guidance.preferences)

    def with_preferences(self, preferences: Iterable[str | Preference]) -> Self:
        """Return a copy with other preferences: for another user, or for one call. It costs next to nothing.

        Cached embeddings are shared. Guidance under preferences that are not among these is left out.

        Raises:
            InvalidInputError: for anything but preferences, or for one given twice.
        """
        other = copy.deepcopy(self)
        other._preferences = other._take(preferences)
        return other

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        # The graph and the models stay the same.
        other = copy.copy(self)
        other._leaf, other._steered = copy.copy(self._leaf), copy.copy(self._steered)
        other._steered._leaf = other._leaf
        return other

    def _take(self, preferences: Any) -> tuple[str | Preference, ...]:
        self._steered.preferences = preferences
        taken = self._steered.preferences
        self._leaf.under = frozenset(one.text for one in unique_preferences(taken))
        return taken

    def retrieve_from_graph(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        """Return the facts, best first, each a node that links to the passage it was extracted from."""
        return self._by(self.preferences)._retrieve(query_bundle)

    async def aretrieve_from_graph(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        """Do the same as `retrieve_from_graph` without blocking the event loop."""
        preferences = await in_thread(lambda: self.preferences)  # a memory may have to read its file
        return await self._by(preferences)._aretrieve(query_bundle)

    def _by(self, preferences: tuple[str | Preference, ...]) -> SteeredRetriever:
        if self._preferences is not None:
            return self._steered
        steered = copy.copy(self._steered)
        steered.preferences = preferences
        return steered

    def _add_source_text(
        self, retrieved_nodes: list[NodeWithScore], og_node_map: dict[str, BaseNode]
    ) -> list[NodeWithScore]:
        """Return passages in place of their facts, with the facts' guidance."""
        passages = super()._add_source_text(retrieved_nodes, og_node_map)
        return [
            with_metadata(passage, {key: value for key, value in fact.node.metadata.items() if key.startswith(PREFIX)})
            for fact, passage in zip(retrieved_nodes, passages, strict=True)
        ]


class _VectorContext(VectorContextRetriever):
    """Retriever of facts with the guidance of their passages `under` the preferences of these texts; None for all."""

    def __init__(
        self, graph_store: PropertyGraphStore, *, guidance: EpicTransform | EpicMemory | None, **options: Any
    ) -> None:
        super().__init__(cast("PropertyGraphStore", _NoneForNone(graph_store)), **options)
        self.under: frozenset[str] | None = None
        self._guidance = guidance
        self._narrow = self._similarity_top_k

    def retrieve_from_graph(self, query_bundle: QueryBundle, limit: int | None = None) -> list[NodeWithScore]:
        return run(self._guided(super().retrieve_from_graph(query_bundle, limit or self._widened)))

    async def aretrieve_from_graph(self, query_bundle: QueryBundle, limit: int | None = None) -> list[NodeWithScore]:
        return await arun(self._guided(await super().aretrieve_from_graph(query_bundle, limit or self._widened)))

    def _guided(self, facts: list[NodeWithScore]) -> Effects[list[NodeWithScore]]:
        """Return facts with the guidance of their passages; unchanged while there are no preferences."""
        source = self._guidance
        ids = list(dict.fromkeys(one.node.ref_doc_id for one in facts if one.node.ref_doc_id is not None))
        try:
            memory = source._judging_memory() if isinstance(source, EpicTransform) else source
        except NoPreferencesError:
            return facts
        if memory is None or not ids or not list(memory.preferences):
            return facts
        passages: list[BaseNode] = yield Call(
            self._graph_store.get_llama_nodes, self._graph_store.aget_llama_nodes, ids
        )
        told = [(one.node_id, text) for one in passages if (text := text_of(one)).strip()]
        report = BuildReport()
        judged: list[Judged] = yield Judge(memory, [text for _, text in told], report)
        warn_of_undecided(report, _logger, "%d passages are without guidance, as a model failed")
        guidance = {node_id: self._told(one) for (node_id, _), one in zip(told, judged, strict=True)}
        return [with_metadata(fact, guidance.get(fact.node.ref_doc_id or "", {})) for fact in facts]

    def _told(self, judged: Judged) -> dict[str, Any]:
        """Return the guidance of a passage under the preferences that count, as flat metadata; empty if none."""
        facts = guidance_of(judged) if judged.kept else []
        facts = [one for one in facts if self.under is None or one["preference"] in self.under]
        return as_metadata(facts) if facts else {}

    @property
    def _widened(self) -> int:
        """The limit of facts, raised in proportion if a copy of the retriever is to find more entities."""
        return self._limit * self._similarity_top_k // self._narrow


class _NoneForNone:
    """A graph store that returns nothing for an empty list of ids.

    Some stores return everything, so that a search without results, due to filters for example, would return all facts.
    """

    def __init__(self, store: PropertyGraphStore) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        if name == "_store":
            raise AttributeError(name)
        return getattr(self._store, name)

    def get(self, properties: dict[str, Any] | None = None, ids: list[str] | None = None) -> list[LabelledNode]:
        return [] if ids == [] else self._store.get(properties, ids)

    async def aget(self, properties: dict[str, Any] | None = None, ids: list[str] | None = None) -> list[LabelledNode]:
        return [] if ids == [] else await self._store.aget(properties, ids)
