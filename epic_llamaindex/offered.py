"""Nodes and texts that a new memory is offered: from documents, nodes, texts, a docstore or an index."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from llama_index.core.indices.base import BaseIndex
from llama_index.core.ingestion.pipeline import run_transformations
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.schema import BaseNode, TransformComponent
from llama_index.core.storage.docstore import BaseDocumentStore

from epic_core.errors import InvalidInputError
from epic_llamaindex.nodes import checked_nodes, copy_of


def offered(
    documents: Iterable[BaseNode] | None,
    transformations: Sequence[TransformComponent] | None,
    nodes: Iterable[BaseNode] | None,
    texts: Iterable[str] | None,
    docstore: BaseDocumentStore | None,
    index: BaseIndex[Any] | None,
) -> Sequence[str | BaseNode]:
    """Return the nodes or texts that a new memory is offered, from the one source that is given."""
    if sum(source is not None for source in (documents, nodes, texts, docstore, index)) > 1:
        raise InvalidInputError("Give one of documents, nodes, texts, docstore and index.")
    if transformations is not None and documents is None:
        raise InvalidInputError("transformations= make nodes of documents=. Give both, or nodes= as they are.")
    if documents is not None:
        # Copies, as a transformation may change its input.
        whole = [copy_of(document) for document in checked_nodes(documents)]
        steps = [SentenceSplitter()] if transformations is None else list(transformations)
        return checked_nodes(run_transformations(whole, steps))
    if texts is not None:
        return [texts] if isinstance(texts, str) else list(texts)
    if index is not None:
        docstore = index.docstore
    if docstore is not None:
        held = list(docstore.docs.values())
        if not held:
            raise InvalidInputError("This docstore holds no nodes: many vector stores keep them instead. Give nodes=.")
        nodes = [node for node in held if isinstance(node, BaseNode)]
    return [] if nodes is None else checked_nodes(nodes)
