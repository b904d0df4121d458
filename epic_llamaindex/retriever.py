"""Retriever over a memory."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterable, Sequence, Set
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.callbacks import CallbackManager
from llama_index.core.chat_engine.types import BaseChatEngine, ChatMode
from llama_index.core.indices.base import BaseIndex
from llama_index.core.llms import LLM
from llama_index.core.schema import (
    BaseNode,
    IndexNode,
    NodeWithScore,
    QueryBundle,
    TextNode,
    TransformComponent,
)
from llama_index.core.storage.docstore import BaseDocumentStore
from llama_index.core.vector_stores import MetadataFilters
from llama_index_instrumentation import get_dispatcher
from typing_extensions import Self, TypedDict, Unpack, override

from epic_llamaindex.chat_engines import chat_engine
from epic_llamaindex.events import search_event
from epic_llamaindex.filters import SOURCE, filter_of
from epic_llamaindex.models import encoder_of, lm_of, memory_of
from epic_llamaindex.nodes import INDEX, Guidance, checked_nodes, copy_of, memory_item, node_id_of, node_of, offered
from epic_memory import BuildReport, EpicMemory, Filter, Hit, Hits, Item, Preference
from epic_memory.context import format_preferences, language_of_context, numbered_hits
from epic_memory.encoders import Encoder
from epic_memory.errors import InvalidInputError
from epic_memory.lm import LanguageModel
from epic_memory.runtime.effects import Call, Effects, arun, in_thread, run
from epic_memory.settings import Settings, checked_settings
from epic_memory.types import checked_k, checked_text
from epic_memory.types.search_options import SearchOptions, checked_options
from epic_memory.verification import Verifier
from epic_plugins.copies import Copied, checked_file, lasting
from epic_plugins.wrong_arguments import check_known, explained

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


@explained(index="from_defaults(index=...) takes its nodes; SteeredRetriever(index.as_retriever(), ...) steers it.")
class EpicRetriever(Copied, BaseRetriever):
    """Retriever over a memory: its items as nodes, each with its guidance.

        retriever = EpicRetriever("me.epic", similarity_top_k=5)
        nodes = retriever.retrieve("Where should I stay?")

    A node has its item's id, text and metadata, and the link to its source document; an IndexNode stays one, with its
    `index_id`. Guidance is in flat `epic_*` metadata, excluded from the text to embed and from the text for a model.
    The metadata does not depend on the query, so that a fusion of several queries recognises a node.

    The memory searches for the text of a query bundle with its `custom_embedding_strs`, as HyDE writes them, behind it;
    not for the embedding in the bundle, which may be another model's.

    `with` or `close()` closes the memory if the retriever opened or made it.

    Args:
        memory: The memory, which the caller closes; or the name of its file, which has to exist: `close()` it.
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
        callback_manager, verbose: As for `BaseRetriever`.
        object_map, objects: Objects that replace the nodes referring to them: by the `index_id` of an index node or the
            id of an item; or index nodes whose `index_id` or id is that of an item's node. The object of an index node
            (`obj`) is known to the retriever it is added with; a file does not store it.

    Raises:
        InvalidInputError: if an argument is invalid; from a call, for a query without text.
        StoreError: if the file cannot be opened.
        EncoderMismatchError: if it was made with another model.
        UnknownPreferenceError: from a call, for a preference that the memory does not have.
    """

    memory: EpicMemory

    def __init__(
        self,
        memory: EpicMemory | str | Path,
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
            "namespace": None if namespace is None else checked_text(namespace, "The namespace"),
            "options": checked_options(options),
        }
        self._leading = list(objects or ())
        self._index_ids = {node.node_id: node.index_id for node in self._leading}
        # The objects of added index nodes, by their `index_id`.
        self._objects: dict[str, Any] = {}
        super().__init__(
            callback_manager=callback_manager,
            object_map={**(object_map or {}), **{node.index_id: node.obj for node in self._leading}},
            verbose=verbose,
        )
        self._given: Any = memory
        self._embed_model = embed_model
        # Last, so that an invalid argument leaves no file open.
        self.memory = memory_of(memory, embed_model)
        self._closes = self.memory is not memory

    @classmethod
    def from_defaults(
        cls,
        *,
        preferences: Iterable[str | Preference] | None = None,
        documents: Iterable[BaseNode] | None = None,
        transformations: Sequence[TransformComponent] | None = None,
        nodes: Iterable[BaseNode] | None = None,
        texts: Iterable[str] | None = None,
        docstore: BaseDocumentStore | None = None,
        index: BaseIndex[Any] | None = None,
        path: str | Path | None = None,
        llm: LLM | LanguageModel | Verifier | str | None = None,
        settings: Settings | None = None,
        **given: Unpack[RetrieverOptions],
    ) -> Self:
        """Make or open a memory, offer it nodes, and return a retriever over it. `close()` closes it.

        Args:
            preferences: The memory's first preferences; for an existing file they need not be given.
            documents, nodes, texts, docstore, index: One source of items: documents, which are split; nodes as they
                are; texts; the nodes of a docstore; or those of an index that keeps them in its docstore.
            transformations: Make nodes of the documents; default: `[SentenceSplitter()]`.
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
        source = offered(documents, transformations, nodes, texts, docstore, index)
        items = [memory_item(one) if isinstance(one, BaseNode) else one for one in source]
        embed_model = given.pop("embed_model", None)
        encoder = encoder_of(embed_model)
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
            given["object_map"] = {**getattr(index, "_object_map", {}), **(given.get("object_map") or {})}
            retriever = cls(made, **given)
            # A splitter gives new ids each time, so documents replace the items that the memory holds of them.
            earlier = [] if documents is None else retriever._earlier([one for one in items if isinstance(one, Item)])
            if items:
                made.add(items)
            retriever._note_objects(source)
            retriever._forget(earlier)
        except BaseException:
            made.close()
            raise
        retriever._closes = True
        if path is not None and settings is None:  # the file alone would not say which settings it is opened with
            retriever._given, retriever._embed_model = path, embed_model
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
    def _arguments(self) -> dict[str, Any]:
        return {
            "memory": lasting(self._given),
            "similarity_top_k": self._similarity_top_k,
            "guidance": self._guidance,
            "embed_model": self._embed_model,
            "object_map": self.object_map,
            "objects": self._leading,
            "verbose": self._verbose,
            **{"filters" if name == "filter" else name: value for name, value in self._options.items()},
        }

    @override
    def _shared(self) -> tuple[object, ...]:
        checked_file(self.memory.file.path, self)
        objects = (*self.object_map.values(), *self._objects.values())
        return self._given, self.memory, self._embed_model, self.callback_manager, *objects

    @override
    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        made = super().__deepcopy__(memo)
        made._closes = False
        return made

    @property
    def similarity_top_k(self) -> int:
        """The number of nodes that are returned, at least 1."""
        return self._similarity_top_k

    @similarity_top_k.setter
    def similarity_top_k(self, similarity_top_k: int) -> None:
        self._similarity_top_k = checked_k(similarity_top_k, "similarity_top_k")

    @property
    def _searched(self) -> Any:
        """The object that is searched."""
        return self.memory

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
        language = language_of_context(hits)
        nodes = [self._node(hit, number, language) for number, hit in numbered_hits(hits)]
        opening = format_preferences(hits) if self._guidance == "text" else ""
        if nodes and opening:
            # The first node opens with the preferences that matter, as the memory's own context does.
            nodes[0].node.set_content(f"{opening}\n\n{nodes[0].node.get_content()}")
        return nodes

    def _node(self, hit: Hit, number: int, language: str) -> NodeWithScore:
        found = node_of(hit, number, guidance=self._guidance, language=language)
        node, item_id = found.node, hit.item.id
        known = node.index_id if isinstance(node, IndexNode) else item_id
        for index_id in (known, self._index_ids.get(item_id, item_id)):
            if index_id in self.object_map and isinstance(node, TextNode):
                # BaseRetriever goes on to retrieve from the object that the index node refers to.
                if not isinstance(node, IndexNode):
                    found.node = node = IndexNode.from_text_node(node, index_id)
                node.index_id = index_id
                break
        if isinstance(node, IndexNode) and node.obj is None:
            node.obj = self._objects.get(node.index_id)
        return found

    def as_chat_engine(
        self, *, llm: LLM, chat_mode: ChatMode | str = ChatMode.CONDENSE_PLUS_CONTEXT, **options: Any
    ) -> BaseChatEngine:
        """Return a chat engine that answers also where the memory holds nothing on a message, such as a greeting.

        Args:
            llm: The model that answers.
            chat_mode: "condense_plus_context", which first makes a standalone question of the conversation, one more
                call; or "context".
            **options: As for `from_defaults` of LlamaIndex's engine of that mode: `memory`, `system_prompt` and others.

        The model gets guidance with each text, as by `guidance="text"`; with `guidance="none"`, none.

        Raises:
            InvalidInputError: if an argument is invalid.
        """
        reading = copy.copy(self)
        reading._guidance = "none" if self._guidance == "none" else "text"
        return chat_engine(reading, llm, chat_mode, options)

    # the nodes it retrieves from

    def add_nodes(self, nodes: Iterable[BaseNode], *, upsert: bool = False, progress: bool = False) -> BuildReport:
        """Offer nodes (ids, texts, metadata, source documents) to the memory, which decides what it keeps.

        Args:
            nodes: The nodes; one with a known id replaces the held item.
            upsert: The nodes are the complete new version of their source documents: once they are added, other items
                of these documents are forgotten, items that wait for verification included.
            progress: Show a progress bar.

        Raises:
            InvalidInputError: for anything but nodes, a node without text, or metadata that is not JSON; no node is
                added then.
            EpicError: as `EpicMemory.add` raises it; with `upsert`, nothing is forgotten then.
        """
        return run(self._added(nodes, upsert, progress))

    async def aadd_nodes(
        self, nodes: Iterable[BaseNode], *, upsert: bool = False, progress: bool = False
    ) -> BuildReport:
        """Do the same as `add_nodes` without blocking the event loop."""
        return await arun(self._added(nodes, upsert, progress))

    def _added(self, nodes: Iterable[BaseNode], upsert: bool, progress: bool) -> Effects[BuildReport]:
        given = checked_nodes(nodes)
        items = [memory_item(node) for node in given]
        earlier = self._earlier(items) if upsert else []
        report: BuildReport = yield Call(self.memory.add, self.memory.aadd, items, progress=progress)
        self._note_objects(given)
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

    def _note_objects(self, nodes: Iterable[object]) -> None:
        """Remember the objects of index nodes, and the current version of nodes that index nodes refer to."""
        given = list(nodes)
        self._objects.update(
            {one.index_id: one.obj for one in given if isinstance(one, IndexNode) and one.obj is not None}
        )
        for node in given:
            if isinstance(node, BaseNode) and not isinstance(node, IndexNode) and node.node_id in self._objects:
                self._objects[node.node_id] = copy_of(node)

    def _forget(self, items: Sequence[Item]) -> int:
        for item in items:
            self._objects.pop(item.id, None)
            self._objects.pop(str(item.metadata.get(INDEX)), None)
        # Pass items, not ids: some may be gone by now, and an unknown id is an error.
        return self.memory.forget(*items) if items else 0


def _query_of(query_bundle: object) -> str:
    """Return the text of a query, and behind it the other texts that are to be embedded for it."""
    if not isinstance(query_bundle, QueryBundle):
        raise InvalidInputError(f"A query is a text or a QueryBundle, not {type(query_bundle).__name__}.")
    given = query_bundle.custom_embedding_strs
    texts = [query_bundle.query_str] if given is None else [text for text in given if text.strip()]
    if not texts:
        raise InvalidInputError("The custom_embedding_strs of the query are empty: give texts, or leave them out.")
    return "\n".join(dict.fromkeys([query_bundle.query_str, *texts]))
