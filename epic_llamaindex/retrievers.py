"""A memory as a LlamaIndex retriever."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.callbacks import CallbackManager
from llama_index.core.indices.base import BaseIndex
from llama_index.core.llms import LLM
from llama_index.core.schema import BaseNode, IndexNode, NodeWithScore, QueryBundle, TextNode
from llama_index.core.storage.docstore import BaseDocumentStore
from llama_index.core.vector_stores import MetadataFilters
from llama_index_instrumentation import get_dispatcher
from typing_extensions import Self, Unpack

from epic_core import BuildReport, EpicMemory, Filter, Hit, Hits, Item, Preference
from epic_core.encoders import Encoder
from epic_core.errors import InvalidInputError
from epic_core.lm import LanguageModel
from epic_core.memory import Options
from epic_core.steering import Mode, checked_mode
from epic_core.types import checked_k, checked_text
from epic_core.verification import Verifier
from epic_llamaindex.adapters import encoder_of, verifier_of
from epic_llamaindex.filters import filter_of
from epic_llamaindex.nodes import Guidance, checked_nodes, memory_item, node_of

dispatcher = get_dispatcher(__name__)


class EpicRetriever(BaseRetriever):
    """Retrieves a memory's items as nodes, each with its guidance.

        retriever = EpicRetriever("me.epic", similarity_top_k=5)
        nodes = retriever.retrieve("Where should I stay?")

    A node has its item's id, text and metadata, and the link to its source document. What is known of it is in flat
    `epic_*` metadata, which is left out of what is embedded and of what a model is shown, and does not depend on the
    query, so that a fusion of several queries knows a node again.

    The memory embeds the text of a query bundle. An embedding in the bundle is not used: it may be another model's, as
    a VectorIndexRetriever writes its own into a bundle that it shares.

    Args:
        memory: The memory, which the caller closes; or the name of its file, which has to be there.
        similarity_top_k: How many nodes, at least 1.
        filters: LlamaIndex's MetadataFilters, or an `epic_core.Filter`.
        preferences: Those of the held ones that may steer and match; default: all.
        namespace: Another user's memory in the same file.
        guidance: "metadata", or "text": the text of a node is what a model is given, its number, the guidance and the
            content, for query engines that show a model nothing but texts. Then, the text depends on the query.
        steering: "signed", "paper" or "off"; default: as the memory steers.
        embed_model: What a file is opened with: a `BaseEmbedding` or an encoder of epic_core; default: the embedded
            one. A memory that is open has its own.
        callback_manager, verbose: As for `BaseRetriever`.
        object_map, objects: What is retrieved from, in the place of the node that leads there: by the id of an item; or
            index nodes whose ids are those of items.

    Attributes:
        memory: The memory.

    Raises:
        InvalidInputError: for arguments that cannot be; from a call, for a query without text.
        StoreError: if the file cannot be opened.
        EncoderMismatchError: if it was made with another model.
        UnknownPreferenceError: from a call, for a preference that is not held.
    """

    memory: EpicMemory

    def __init__(
        self,
        memory: EpicMemory | str | Path,
        *,
        similarity_top_k: int = 5,
        filters: MetadataFilters | Filter | None = None,
        preferences: Iterable[str | Preference] | None = None,
        namespace: str | None = None,
        guidance: Guidance = "metadata",
        steering: Mode | None = None,
        embed_model: BaseEmbedding | Encoder | None = None,
        callback_manager: CallbackManager | None = None,
        object_map: dict[str, Any] | None = None,
        objects: Sequence[IndexNode] | None = None,
        verbose: bool = False,
    ) -> None:
        if guidance not in get_args(Guidance):
            raise InvalidInputError(f"guidance must be 'metadata' or 'text', not {guidance!r}.")
        self._similarity_top_k = checked_k(similarity_top_k)
        self._guidance = guidance
        self._options: dict[str, Any] = {
            "filter": filter_of(filters),
            "preferences": None if preferences is None else _several(preferences),
            "namespace": None if namespace is None else checked_text(namespace, "The namespace"),
            "steering": None if steering is None else checked_mode(steering),
        }
        leading = list(objects or ())
        self._index_ids = {node.node_id: node.index_id for node in leading}
        super().__init__(
            callback_manager=callback_manager,
            object_map={**(object_map or {}), **{node.index_id: node.obj for node in leading}},
            verbose=verbose,
        )
        # Last, so that no argument that cannot be leaves a file open.
        self.memory = _opened(memory, embed_model)

    @classmethod
    def from_defaults(
        cls,
        *,
        preferences: Iterable[str | Preference] | None = None,
        nodes: Iterable[BaseNode] | None = None,
        texts: Iterable[str] | None = None,
        docstore: BaseDocumentStore | None = None,
        index: BaseIndex[Any] | None = None,
        path: str | Path | None = None,
        embed_model: BaseEmbedding | Encoder | None = None,
        llm: LLM | LanguageModel | Verifier | None = None,
        similarity_top_k: int = 5,
        filters: MetadataFilters | Filter | None = None,
        guidance: Guidance = "metadata",
        callback_manager: CallbackManager | None = None,
        object_map: dict[str, Any] | None = None,
        objects: Sequence[IndexNode] | None = None,
        verbose: bool = False,
        **options: Unpack[Options],
    ) -> Self:
        """Make a memory, or open one, offer it nodes, and retrieve from it.

        Args:
            preferences: What the memory starts with; those of an existing file need not be given.
            nodes, texts, docstore, index: What it is offered, from one of these: nodes or documents, texts, the nodes
                of a docstore, or those of an index that keeps them in its docstore.
            path: The memory's file; default: it lives in RAM. The caller closes `memory`.
            embed_model: A `BaseEmbedding` or an encoder of epic_core; default: the embedded encoder.
            llm: What verifies: an `LLM`, or a language model or verifier of epic_core; default: the embedded verifier.
            similarity_top_k, filters, guidance, callback_manager, object_map, objects, verbose: As for `EpicRetriever`.
            **options: As for `EpicMemory`.

        Raises:
            InvalidInputError: for arguments that cannot be.
            EpicError: as `EpicMemory.open` and `EpicMemory.add` raise it.
        """
        if "encoder" in options or "verifier" in options:
            raise InvalidInputError(
                "Give embed_model= and llm=, which also take an encoder and a verifier of epic_core."
            )
        items = _offered(nodes=nodes, texts=texts, docstore=docstore, index=index)
        encoder = encoder_of(embed_model)
        options = {**options, "encoder": encoder, "verifier": verifier_of(llm, encoder)}
        made = (
            EpicMemory(preferences or (), **options) if path is None else EpicMemory.open(path, preferences, **options)
        )
        try:
            retriever = cls(
                made,
                similarity_top_k=similarity_top_k,
                filters=filters,
                guidance=guidance,
                callback_manager=callback_manager,
                object_map=object_map,
                objects=objects,
                verbose=verbose,
            )
            if items:
                made.add(items)
        except BaseException:
            made.close()
            raise
        return retriever

    @property
    def similarity_top_k(self) -> int:
        """How many nodes come back, at least 1."""
        return self._similarity_top_k

    @similarity_top_k.setter
    def similarity_top_k(self, similarity_top_k: int) -> None:
        self._similarity_top_k = checked_k(similarity_top_k)

    @dispatcher.span
    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return self._nodes(self.memory.search(_query(query_bundle), self._similarity_top_k, **self._options))

    # The base class does not decorate this one.
    @dispatcher.span
    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return self._nodes(await self.memory.asearch(_query(query_bundle), self._similarity_top_k, **self._options))

    def _nodes(self, hits: Hits) -> list[NodeWithScore]:
        return [self._node(hit, number) for number, hit in enumerate(hits, start=1)]

    def _node(self, hit: Hit, number: int) -> NodeWithScore:
        found = node_of(hit, number, guidance=self._guidance)
        index_id = self._index_ids.get(hit.item.id, hit.item.id)
        if index_id in self.object_map and isinstance(found.node, TextNode):
            # The base class goes on from there.
            found.node = IndexNode.from_text_node(found.node, index_id)
        return found

    def add_nodes(self, nodes: Iterable[BaseNode], *, progress: bool = False) -> BuildReport:
        """Offer nodes to the memory, which decides what it keeps: ids, texts, metadata, and their source documents.

        Raises:
            InvalidInputError: for what is no node, a node without text, or metadata that is not JSON; nothing is taken
                in then.
            EpicError: as `EpicMemory.add` raises it.
        """
        return self.memory.add([memory_item(node) for node in checked_nodes(nodes)], progress=progress)

    async def aadd_nodes(self, nodes: Iterable[BaseNode], *, progress: bool = False) -> BuildReport:
        """As `add_nodes`, without blocking the event loop."""
        return await self.memory.aadd([memory_item(node) for node in checked_nodes(nodes)], progress=progress)


def _query(query_bundle: object) -> str:
    if not isinstance(query_bundle, QueryBundle):
        raise InvalidInputError(f"A query is a text or a QueryBundle, not {type(query_bundle).__name__}.")
    return query_bundle.query_str


def _several(preferences: object) -> tuple[str | Preference, ...]:
    """Preferences that can be gone through again and again."""
    if isinstance(preferences, (str, Preference)):
        return (preferences,)
    if not isinstance(preferences, Iterable) or isinstance(preferences, (bytes, Mapping)):
        raise InvalidInputError(f"preferences must be several texts, not {type(preferences).__name__}.")
    return tuple(preferences)


def _opened(memory: object, embed_model: BaseEmbedding | Encoder | None) -> EpicMemory:
    if isinstance(memory, (str, Path)):
        return EpicMemory.open(memory, must_exist=True, encoder=encoder_of(embed_model))
    if not isinstance(memory, EpicMemory):
        raise InvalidInputError(f"memory is an EpicMemory or the name of its file, not {type(memory).__name__}.")
    if embed_model is not None:
        given, own = encoder_of(embed_model).name, memory.encoder.name
        if given != own:
            raise InvalidInputError(f"The memory is open, with the encoder {own}: leave out embed_model={given}.")
    return memory


def _offered(
    *,
    nodes: Iterable[BaseNode] | None,
    texts: Iterable[str] | None,
    docstore: BaseDocumentStore | None,
    index: BaseIndex[Any] | None,
) -> list[str | Item]:
    """What a new memory is offered, from the one source that is given."""
    if sum(source is not None for source in (nodes, texts, docstore, index)) > 1:
        raise InvalidInputError("Give one of nodes, texts, docstore and index.")
    if texts is not None:
        return [texts] if isinstance(texts, str) else list(texts)
    if index is not None:
        docstore = index.docstore
    if docstore is not None:
        held = list(docstore.docs.values())
        if not held:
            raise InvalidInputError("This docstore holds no nodes: many vector stores keep them instead. Give nodes=.")
        nodes = [node for node in held if isinstance(node, BaseNode)]
    return [] if nodes is None else [memory_item(node) for node in checked_nodes(nodes)]
