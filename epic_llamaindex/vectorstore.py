"""LlamaIndex vector store whose searches follow the user's preferences."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.schema import BaseNode, MetadataMode
from llama_index.core.vector_stores.simple import DEFAULT_VECTOR_STORE, NAMESPACE_SEP
from llama_index.core.vector_stores.types import (
    DEFAULT_PERSIST_DIR,
    DEFAULT_PERSIST_FNAME,
    BasePydanticVectorStore,
    MetadataFilters,
    VectorStoreQuery,
    VectorStoreQueryResult,
)
from typing_extensions import Self, override

from epic_llamaindex.arguments import check_local, queried, several_ids
from epic_llamaindex.models import EpicEmbedding, encoder_of
from epic_llamaindex.nodes import checked_nodes
from epic_llamaindex.records import SOURCE_KEY, condition_of, node_of_record, record_of
from epic_memory import Filter, Preference
from epic_memory.encoders import Encoder
from epic_memory.encoders.base import Embed
from epic_memory.encoders.by_name import NAMES, is_encoder_name
from epic_memory.errors import InvalidInputError, StoreError
from epic_memory.runtime.effects import Call, Effects, arun, in_thread, run
from epic_memory.steering import Mode
from epic_memory.types import FloatArray
from epic_plugins.collection import Collection, holds_memory
from epic_plugins.collection.file import OpenCollection
from epic_plugins.wrong_arguments import check_options, explained

_ALIKE = 0.9


@explained(index="VectorStoreIndex.from_vector_store(store, embed_model=store.embed_model) makes one over it.")
class EpicVectorStore(OpenCollection, BasePydanticVectorStore):
    """A vector store in one durable file, or in RAM, whose searches follow the user's preferences.

        store = EpicVectorStore(path="me.vectors", preferences=["I follow a strict vegan diet."])
        index = VectorStoreIndex.from_vector_store(store, embed_model=store.embed_model)
        index.insert_nodes(nodes)
        index.as_retriever(similarity_top_k=3).retrieve("What should I cook tonight?")

    It stores every node it is given, and finds it by the embedding that the index made of it; without an embedding, the
    store embeds the text that an index would. It ranks nodes by their stances, if their metadata has some, as
    `EpicTransform` writes them: what conflicts with a preference comes below what answers as well and does not. Their
    instructions find them with `steering="paper"` only. Index and store have to use one model: `embed_model`.

    Nodes are returned as they were given (subclasses of LlamaIndex's own classes as those classes), without embeddings.
    Filters, `doc_ids` and `node_ids` are applied within the search, so that k nodes come back if so many satisfy them;
    but `node_ids` that name no text node are ignored, because an index lists its image and index nodes in every query.
    A node without a source document counts as its own. Scores are cosines, higher is better; with preferences, a
    conflict lowers the score. Metadata has to be JSON. Safe to use from several threads; a file also from several
    processes.

    Args:
        embed_model: LlamaIndex's `BaseEmbedding`, an encoder of epic_memory or its name, such as
            "ollama/nomic-embed-text"; default: the embedded encoder. The file remembers it.
        path: The file, which is not the file of a memory. None for RAM.
        preferences: The user's; without any, searches are by plain similarity. The file does not remember them. They
            can be changed at any time: `store.preferences = [...]`.
        steering: "signed", "paper" (Eq. 7-8) or "off".
        must_exist: Refuse to make a new file.
        read_only: Never write into the file.

    Raises:
        InvalidInputError: if an argument is invalid.
        StoreError: if the file cannot be opened, or is not a vector store's.
        EncoderMismatchError: if it was made with another embedding model; at the first use, if checking needs a call to
            the model.
    """

    stores_text: bool = True
    is_embedding_query: bool = True

    _collection: Collection = PrivateAttr()
    _embed_model: BaseEmbedding = PrivateAttr()
    # Whether an index's embedding has been compared with this store's own.
    _compared: bool = PrivateAttr(default=False)

    def __init__(
        self,
        embed_model: BaseEmbedding | Encoder | str | None = None,
        *,
        path: str | Path | None = None,
        preferences: Iterable[str | Preference] = (),
        steering: Mode = "signed",
        must_exist: bool = False,
        read_only: bool = False,
    ) -> None:
        if isinstance(embed_model, (str, Path)) and not is_encoder_name(embed_model):
            raise InvalidInputError(
                f"embed_model must be a model, or the name of an encoder ({NAMES}), not a text. The name of a file is"
                " path=."
            )
        encoder = encoder_of(embed_model)
        collection = Collection(
            encoder,
            path,
            preferences=preferences,
            steering=steering,
            namespace="nodes",
            must_exist=must_exist,
            read_only=read_only,
        )
        super().__init__(stores_text=True)
        self._collection = collection
        self._embed_model = embed_model if isinstance(embed_model, BaseEmbedding) else EpicEmbedding(encoder)

    @classmethod
    @override
    def class_name(cls) -> str:
        """Return the name under which the store is described."""
        return "EpicVectorStore"

    @property
    @override
    def client(self) -> Collection:
        """The collection that holds the nodes."""
        return self._collection

    @property
    def embed_model(self) -> BaseEmbedding:
        """The embedding model, for the index over this store."""
        return self._embed_model

    @property
    def preferences(self) -> tuple[Preference, ...]:
        """The preferences that steer searches; a change takes effect at the next query."""
        return self._collection.preferences

    @preferences.setter
    def preferences(self, preferences: Iterable[str | Preference]) -> None:
        self._collection.preferences = preferences

    @property
    def steering(self) -> Mode:
        """The steering mode: "signed", "paper" or "off"."""
        return self._collection.steering

    # writing

    @override
    def add(self, nodes: Sequence[BaseNode], **kwargs: Any) -> list[str]:
        """Store nodes, all of them or none; one with a known id replaces the earlier one.

        The first embedding of an index is compared with what `embed_model` makes of the same node; a warning follows if
        they differ.

        Returns:
            The ids, in order.

        Raises:
            InvalidInputError: for anything but nodes, metadata that is not JSON, or a node that cannot be stored.
            EncoderError: if the embedding model fails; nothing is stored then.
            EncoderMismatchError: for embeddings of another dimension than the model's.
        """
        return run(self._added(nodes, kwargs))

    @override
    async def async_add(self, nodes: Sequence[BaseNode], **kwargs: Any) -> list[str]:
        return await arun(self._added(nodes, kwargs))

    def _added(self, nodes: Sequence[BaseNode], kwargs: dict[str, Any]) -> Effects[list[str]]:
        check_options(kwargs, ())
        given = checked_nodes(nodes)
        records = [record_of(node) for node in given]
        if not self._compared:
            embedded = (
                node
                for node, record in zip(given, records, strict=True)
                if record.keys and record.keys[0].vector is not None and _embedded(node).strip()
            )
            first = next(embedded, None)
            if first is not None:
                vectors: FloatArray = yield Embed(self._collection.encoder, [_embedded(first)], "")
                self._compare(vectors[0], first)
        ids: list[str] = yield Call(self._collection.add, self._collection.aadd, records)
        return ids

    def _compare(self, own: FloatArray, node: BaseNode) -> None:
        given = np.asarray(node.embedding, dtype=np.float64)
        # One of another dimension is refused when it is added.
        if given.shape == own.shape and float(own @ given) < _ALIKE * float(np.linalg.norm(given)):
            warnings.warn(
                f"The embedding of node {node.node_id!r} is not what {self._collection.encoder.name} makes of it. If"
                " the index uses another embedding model, give both the same: EpicVectorStore(embed_model), or"
                " VectorStoreIndex.from_vector_store(store, embed_model=store.embed_model).",
                stacklevel=6,
            )
        self._compared = True

    @override
    def delete(self, ref_doc_id: str, **delete_kwargs: Any) -> None:
        """Remove the nodes of a source document, or the node with that id if it has no source. Ignore unknown ids."""
        check_options(delete_kwargs, ())
        if not isinstance(ref_doc_id, str):
            raise InvalidInputError(f"The id of a document is a text, not {type(ref_doc_id).__name__}.")
        self._collection.delete(self._collection.having(SOURCE_KEY, {ref_doc_id}))

    @override
    async def adelete(self, ref_doc_id: str, **delete_kwargs: Any) -> None:
        check_options(delete_kwargs, ())
        await in_thread(self.delete, ref_doc_id)

    @override
    def delete_nodes(
        self,
        node_ids: list[str] | None = None,
        filters: MetadataFilters | Filter | None = None,
        **delete_kwargs: Any,
    ) -> None:
        """Remove nodes by their ids, by filters, or nodes that satisfy both. Unknown ids are ignored.

        Raises:
            InvalidInputError: if neither is given: `clear` removes all.
        """
        check_options(delete_kwargs, ())
        where, chosen = condition_of(filters), None if node_ids is None else several_ids(node_ids)
        if chosen is None and where is None:
            raise InvalidInputError("delete_nodes needs node_ids or filters; clear() removes all nodes.")
        if where is not None:
            held = self._collection.ids(where)
            chosen = held if chosen is None else list(set(chosen).intersection(held))
        self._collection.delete(chosen or [])

    @override
    async def adelete_nodes(
        self,
        node_ids: list[str] | None = None,
        filters: MetadataFilters | Filter | None = None,
        **delete_kwargs: Any,
    ) -> None:
        """Do the same as `delete_nodes` without blocking the event loop."""
        check_options(delete_kwargs, ())
        await in_thread(self.delete_nodes, node_ids, filters)

    @override
    def clear(self) -> None:
        """Remove all nodes."""
        self._collection.delete()

    @override
    async def aclear(self) -> None:
        await in_thread(self.clear)

    # reading

    @override
    def get_nodes(
        self, node_ids: list[str] | None = None, filters: MetadataFilters | Filter | None = None
    ) -> list[BaseNode]:
        """Return nodes by their ids, in that order, and by filters; all nodes without either."""
        where, chosen = condition_of(filters), None if node_ids is None else several_ids(node_ids)
        records = self._collection.records(where, ids=chosen)
        if chosen is not None:
            place = {node_id: number for number, node_id in enumerate(chosen)}
            records.sort(key=lambda record: place[record.id])
        return [node_of_record(record, self.path) for record in records]

    @override
    async def aget_nodes(
        self, node_ids: list[str] | None = None, filters: MetadataFilters | Filter | None = None
    ) -> list[BaseNode]:
        """Do the same as `get_nodes` without blocking the event loop."""
        return await in_thread(self.get_nodes, node_ids, filters)

    @override
    def query(self, query: VectorStoreQuery, **kwargs: Any) -> VectorStoreQueryResult:
        """Return the nodes that fit a query best.

        Args:
            query: `query_embedding` is searched for, or `query_str` if there is none. With `mode="mmr"`, diverse nodes
                are chosen from the best 20 or, if that is more, four times `similarity_top_k`; `mmr_threshold` runs
                from 0, most diverse, to 1. `filters` may also be an `epic_memory.Filter`. Empty `node_ids` or `doc_ids`
                restrict nothing.
            **kwargs: `preferences` and `steering` for this call; `mmr_threshold`. A retriever of an index passes its
                `vector_store_kwargs`.

        Raises:
            InvalidInputError: for another mode, nothing to search for, or an invalid filter.
            EncoderError: if the embedding model fails.
            EncoderMismatchError: for an embedding of another dimension than the model's.
            TypeError: for other arguments.
        """
        return run(queried(self._collection, query, kwargs))

    @override
    async def aquery(self, query: VectorStoreQuery, **kwargs: Any) -> VectorStoreQueryResult:
        return await arun(queried(self._collection, query, kwargs))

    # files

    @override
    def persist(self, persist_path: str | Path, fs: Any = None) -> None:
        """Write a copy, whole or not at all; also while the store is in use. An earlier copy is replaced.

        If the path is the store's own file, nothing is written: the file is up to date.

        Raises:
            InvalidInputError: for a file system other than this machine's.
            StoreError: if it cannot be written, or if the path is a file that is neither a vector store of this package
                nor, by its name, one of LlamaIndex.
        """
        check_local(fs)
        path, own = Path(persist_path), self.path
        if own is not None and path.exists() and own.exists() and path.samefile(own):
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_file() and not path.name.endswith(DEFAULT_PERSIST_FNAME) and holds_memory(path):
            raise StoreError(f"{path} is there, and is no vector store. Give another name, or remove it.")
        self._collection.backup(path, overwrite=True)

    @classmethod
    def from_persist_path(
        cls,
        persist_path: str | Path,
        fs: Any = None,
        *,
        embed_model: BaseEmbedding | Encoder | str | None = None,
        **options: Any,
    ) -> Self:
        """Open the store in a file that `persist` wrote. The file itself is opened: nodes that are added go into it.

        Args:
            persist_path: The file.
            fs: None, or this machine's file system.
            embed_model: The embedding model of the store that was persisted.
            **options: As for the constructor: `preferences`, `steering`, `read_only`.

        Raises:
            InvalidInputError: for a file system other than this machine's.
            StoreError: if there is no such file, or it is not a vector store's.
            EncoderMismatchError: if it was made with another embedding model.
        """
        check_local(fs)
        return cls(embed_model, path=persist_path, **{"must_exist": True, **options})

    @classmethod
    def from_persist_dir(
        cls,
        persist_dir: str | Path = DEFAULT_PERSIST_DIR,
        namespace: str = DEFAULT_VECTOR_STORE,
        fs: Any = None,
        *,
        embed_model: BaseEmbedding | Encoder | str | None = None,
        **options: Any,
    ) -> Self:
        """Open the store in a folder that `StorageContext.persist` wrote, as `from_persist_path` does."""
        name = f"{namespace}{NAMESPACE_SEP}{DEFAULT_PERSIST_FNAME}"
        return cls.from_persist_path(Path(persist_dir) / name, fs, embed_model=embed_model, **options)

    def __str__(self) -> str:
        return repr(self)


def _embedded(node: BaseNode) -> str:
    return node.get_content(metadata_mode=MetadataMode.EMBED)
