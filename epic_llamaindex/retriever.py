"""Retriever over a memory or a graph."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence, Set
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.callbacks import CallbackManager
from llama_index.core.llms import LLM
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.schema import (
    BaseNode,
    IndexNode,
    NodeWithScore,
    QueryBundle,
)
from llama_index.core.vector_stores import MetadataFilters
from llama_index_instrumentation import get_dispatcher
from typing_extensions import Self, TypedDict, Unpack, override

from epic_llamaindex.events import search_event
from epic_llamaindex.filters import SOURCE, filter_of
from epic_llamaindex.models import encoder_of, lm_of, searched_of
from epic_llamaindex.nodes import Guidance, checked_nodes, memory_item, node_id_of, node_of
from epic_memory import BuildReport, EpicMemory, Filter, Hits, Item, Preference
from epic_memory.encoders import Encoder
from epic_memory.errors import InvalidInputError
from epic_memory.lm import LanguageModel
from epic_memory.runtime.effects import Call, Effects, arun, in_thread, run
from epic_memory.settings import Settings, checked_settings
from epic_memory.types import checked_k, checked_text
from epic_memory.types.search_options import SearchOptions, checked_options
from epic_memory.verification import Verifier
from epic_plugins.copies import Open
from epic_plugins.metadata import texts_of
from epic_plugins.models import in_namespace, memory_report
from epic_plugins.wrong_arguments import check_known, explained

if TYPE_CHECKING:
    from epic_graph.memory import GraphMemory

dispatcher = get_dispatcher(__name__)


class RetrieverOptions(TypedDict, total=False):
    """Arguments of an `EpicRetriever` that every retriever over a memory takes."""

    similarity_top_k: int
    filters: MetadataFilters | Filter | None
    guidance: Guidance
    options: SearchOptions | None
    embed_model: BaseEmbedding | Encoder | str | None
    callback_manager: CallbackManager | None
    object_map: dict[str, Any] | None
    objects: Sequence[IndexNode] | None
    verbose: bool


@explained(index="SteeredRetriever(index.as_retriever(), ...) steers it.")
class EpicRetriever(Open, BaseRetriever):
    """Retriever over a memory or a graph: its items as nodes, each with its guidance.

        retriever = EpicRetriever("me.epic", similarity_top_k=5)
        nodes = retriever.retrieve("Where should I stay?")

    A node has its item's id, text and metadata, and the link to its source document; an IndexNode stays one, with its
    `index_id`. Guidance is in flat `epic_*` metadata, excluded from the text to embed and from the text for a model.
    The metadata does not depend on the query, so that a fusion of several queries recognises a node.

    The memory searches for the text of a query bundle with its `custom_embedding_strs`, as HyDE writes them, behind it;
    not for the embedding in the bundle, which may be another model's.

    `with` or `close()` closes the memory if the retriever opened or made it.

    Args:
        memory: The memory, which the caller closes; the name of its file, which has to exist: `close()` it; or a
            `epic_graph.GraphMemory`, whose walk over the graph finds the items.
        similarity_top_k: How many nodes, at least 1; before them come up to three facts of the user that fit the query
            (`MemoryFacts.add`), as nodes with `epic_tier` "fact", whether or not they are among these.
        filters: LlamaIndex's MetadataFilters, or an `epic_memory.Filter`.
        namespace: The namespace of another user in the same file.
        guidance: "metadata"; or "text": the text of a node is in the form for a model (its number, the guidance and the
            content), for query engines that pass on only the text; or "none": a node has the text and metadata it was
            added with, for a fusion with other retrievers over the same nodes.
        options: How the memory is searched, as for `EpicMemory.search`: `SearchOptions(min_score=None)` always returns
            `similarity_top_k`.
        embed_model: For opening a file: a `BaseEmbedding`, an encoder of epic_memory or its name; default: the embedded
            encoder. A memory that is open has its own.
        object_map, objects: What IndexNodes that are found stand for, by their `index_id`: it is searched in their
            place. Other nodes are returned as they are.
        callback_manager, verbose: As for `BaseRetriever`.

    Attributes:
        memory: The memory, also a graph's.

    Raises:
        InvalidInputError: if an argument is invalid; from a call, for a query without text.
        StoreError: if the file cannot be opened.
        EncoderMismatchError: if it was made with another model.
        UnknownPreferenceError: from a call, for a preference that the memory does not have.
    """

    memory: EpicMemory

    def __init__(
        self,
        memory: EpicMemory | GraphMemory | str | Path,
        *,
        similarity_top_k: int = 5,
        filters: MetadataFilters | Filter | None = None,
        namespace: str | None = None,
        guidance: Guidance = "metadata",
        options: SearchOptions | None = None,
        embed_model: BaseEmbedding | Encoder | str | None = None,
        callback_manager: CallbackManager | None = None,
        object_map: dict[str, Any] | None = None,
        objects: Sequence[IndexNode] | None = None,
        verbose: bool = False,
    ) -> None:
        if guidance not in get_args(Guidance):
            raise InvalidInputError(f"guidance must be 'metadata', 'text' or 'none', not {guidance!r}.")
        self._similarity_top_k = checked_k(similarity_top_k, "similarity_top_k")
        self._guidance = guidance
        self._options: dict[str, Any] = {
            "filter": filter_of(filters),
            "options": checked_options(options),
        }
        super().__init__(
            callback_manager=callback_manager,
            object_map={**(object_map or {}), **{node.index_id: node.obj for node in objects or ()}},
            verbose=verbose,
        )
        if namespace is not None:
            checked_text(namespace, "The namespace")
        # Last, so that an invalid argument leaves no file open.
        self._searched = searched_of(memory, embed_model)
        self.memory = self._searched if isinstance(self._searched, EpicMemory) else self._searched.memory
        self._options |= in_namespace(self._searched, namespace)
        self._closes = self._searched is not memory

    @classmethod
    def from_defaults(
        cls,
        *,
        preferences: Iterable[str | Preference] | None = None,
        documents: Iterable[BaseNode] | None = None,
        nodes: Iterable[BaseNode] | None = None,
        path: str | Path | None = None,
        llm: LLM | LanguageModel | Verifier | str | None = None,
        settings: Settings | None = None,
        **given: Unpack[RetrieverOptions],
    ) -> Self:
        """Make or open a memory, offer it nodes, and return a retriever over it. `close()` closes it.

        Args:
            preferences: The memory's first preferences; for an existing file they need not be given.
            documents, nodes: One source of items: documents, which a `SentenceSplitter` splits; or nodes as they are.
            path: The memory's file; default: none, the memory is in RAM.
            llm: Does all that a model can do for a memory: an `LLM`, a language model of epic_memory, or the name of
                one ("ollama:qwen3:4b", "auto"); or a verifier of epic_memory, which verifies alone. Default: none.
            settings: Of the memory, as for `EpicMemory`.
            **given: `embed_model`, `similarity_top_k`, `filters`, `guidance`, `options`, `callback_manager`,
                `object_map`, `objects` and `verbose`, as for `EpicRetriever`.

        Raises:
            InvalidInputError: if an argument is invalid.
            TypeError: for an unknown argument.
            EpicError: as `EpicMemory.open` and `EpicMemory.add` raise it.
        """
        known = [*inspect.signature(EpicRetriever.from_defaults).parameters][:-1]
        check_known(f"{cls.__name__}.from_defaults", given, [*known, *RetrieverOptions.__annotations__])
        items = list(map(memory_item, _offered(documents, nodes)))
        encoder = encoder_of(given.pop("embed_model", None))
        how, lm = checked_settings(settings), None
        if isinstance(llm, Verifier) and not isinstance(llm, LLM):
            how = replace(how, verifier=llm)
        elif llm is not None:
            lm = lm_of(llm)
        if path is None:
            made = EpicMemory(preferences or (), encoder=encoder, llm=lm, settings=how)
        else:
            made = EpicMemory.open(path, preferences, encoder=encoder, llm=lm, settings=how)
        try:
            retriever = cls(made, **given)
            # A splitter gives new ids each time, so documents replace the items that the memory holds of them.
            earlier = [] if documents is None else retriever._earlier(items)
            if items:
                made.add(items)
            retriever._forget(earlier)
        except BaseException:
            made.close()
            raise
        retriever._closes = True
        return retriever

    def close(self) -> None:
        """Close the memory if the retriever opened or made it; closing twice is fine."""
        if self._closes:
            self.memory.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @override
    def __copy__(self) -> Self:
        made = super().__copy__()
        made._closes = False
        return made

    @property
    def similarity_top_k(self) -> int:
        """The number of nodes that are returned, at least 1."""
        return self._similarity_top_k

    @similarity_top_k.setter
    def similarity_top_k(self, similarity_top_k: int) -> None:
        self._similarity_top_k = checked_k(similarity_top_k, "similarity_top_k")

    @dispatcher.span
    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        query = _query_of(query_bundle)
        return self._nodes(self._searched.search(query, self._similarity_top_k, **self._options))

    # BaseRetriever decorates `_retrieve`, but not this method.
    @dispatcher.span
    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        query = _query_of(query_bundle)
        return self._nodes(await self._searched.asearch(query, self._similarity_top_k, **self._options))

    def _nodes(self, hits: Hits) -> list[NodeWithScore]:
        dispatcher.event(search_event(hits, self._similarity_top_k))
        return [node_of(hit, text, self._guidance) for hit, text in texts_of(hits, self._guidance)]

    # the nodes it retrieves from

    def add_nodes(self, nodes: Iterable[BaseNode], *, upsert: bool = False, progress: bool = False) -> BuildReport:
        """Offer nodes (ids, texts, metadata, source documents) to the memory, which decides what it keeps.

        A graph takes in what is kept; a warning is logged if its extractor fails for a text.

        Args:
            nodes: The nodes; one with a known id replaces the held item.
            upsert: The nodes are the complete new version of their source documents: once they are added, other items
                of these documents are forgotten, items that wait for verification included.
            progress: Show a progress bar.

        Raises:
            InvalidInputError: for anything but nodes, a node without text, or metadata that is not JSON; no node is
                added then.
            EpicError: as `EpicMemory.add` or `GraphMemory.add` raises it; with `upsert`, nothing is forgotten then.
        """
        return run(self._added(nodes, upsert, progress))

    async def aadd_nodes(
        self, nodes: Iterable[BaseNode], *, upsert: bool = False, progress: bool = False
    ) -> BuildReport:
        """Do the same as `add_nodes` without blocking the event loop."""
        return await arun(self._added(nodes, upsert, progress))

    def _added(self, nodes: Iterable[BaseNode], upsert: bool, progress: bool) -> Effects[BuildReport]:
        items = list(map(memory_item, checked_nodes(nodes)))
        earlier = self._earlier(items) if upsert else []
        searched = self._searched
        report = memory_report((yield Call(searched.add, searched.aadd, items, progress=progress)))
        self._forget(earlier)
        return report

    def delete_ref_doc(self, ref_doc_id: str) -> int:
        """Forget the nodes of a source document, nodes that wait for verification included.

        A node without a source document is its own source. Nodes that are added again are judged anew. The memory still
        knows that it has seen nodes it did not keep; `EpicMemory.forget` of such an item itself removes that, too.

        Returns:
            How many were held or waiting; 0 if there were none.

        Raises:
            InvalidInputError: for anything but an id.
            ReadOnlyError: if the memory cannot be written.
        """
        return self._forget(self._of_documents({checked_text(ref_doc_id, "ref_doc_id")}))

    async def adelete_ref_doc(self, ref_doc_id: str) -> int:
        """Do the same as `delete_ref_doc` without blocking the event loop."""
        return await in_thread(self.delete_ref_doc, ref_doc_id)

    def _of_documents(self, documents: Set[str]) -> list[Item]:
        """Return the items of source documents that are held or waiting."""
        # Chunks that the memory cut itself have the node's id in their own ids.
        cut = Filter.exists("chunk") & ~Filter.exists(SOURCE)
        found = [
            *self.memory.items(Filter.in_(SOURCE, sorted(documents)) | cut),
            *self.memory.get(documents),
            *self.memory.items(waiting=True),
        ]
        return [item for item in found if str(item.metadata.get(SOURCE, node_id_of(item))) in documents]

    def _earlier(self, items: Sequence[Item]) -> list[Item]:
        """Return the items, held or waiting, of the same source documents under other ids."""
        documents, new = {str(item.metadata.get(SOURCE, item.id)) for item in items}, {item.id for item in items}
        return [item for item in self._of_documents(documents) if node_id_of(item) not in new]

    def _forget(self, items: Sequence[Item]) -> int:
        # Pass items, not ids: some may be gone by now, and an unknown id is an error.
        return self.memory.forget(*items) if items else 0


def _offered(documents: Iterable[BaseNode] | None, nodes: Iterable[BaseNode] | None) -> Sequence[BaseNode]:
    """Return the nodes that a new memory is offered, from the one source that is given."""
    if documents is not None and nodes is not None:
        raise InvalidInputError("Give one of documents and nodes.")
    if documents is None:
        return checked_nodes(nodes or ())
    return SentenceSplitter()(checked_nodes(documents))


def _query_of(query_bundle: object) -> str:
    """Return the text of a query, and behind it the other texts that are to be embedded for it."""
    if not isinstance(query_bundle, QueryBundle):
        raise InvalidInputError(f"A query is a text or a QueryBundle, not {type(query_bundle).__name__}.")
    given = query_bundle.custom_embedding_strs
    texts = [query_bundle.query_str] if given is None else [text for text in given if text.strip()]
    if not texts:
        raise InvalidInputError("The custom_embedding_strs of the query are empty: give texts, or leave them out.")
    return "\n".join(dict.fromkeys([query_bundle.query_str, *texts]))
