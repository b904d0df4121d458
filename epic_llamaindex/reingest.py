"""Access to a pipeline's ingested documents, and replacement of their nodes in its vector store."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from llama_index.core.ingestion import IngestionCache, IngestionPipeline
from llama_index.core.schema import BaseNode, TransformComponent
from llama_index.core.vector_stores.types import BasePydanticVectorStore

from epic_core.errors import InvalidInputError


def documents_of(pipeline: object, step: TransformComponent) -> list[BaseNode]:
    """Return the documents in a pipeline's docstore.

    Raises:
        InvalidInputError: if there are none, or the step is not one of the pipeline's.
    """
    if not isinstance(pipeline, IngestionPipeline):
        raise InvalidInputError(f"Give an IngestionPipeline, not {type(pipeline).__name__}.")
    if not any(one is step for one in pipeline.transformations):
        raise InvalidInputError(f"This {type(step).__name__} is no step of that pipeline.")
    documents = [] if pipeline.docstore is None else list(pipeline.docstore.docs.values())
    if not documents:
        raise InvalidInputError(
            "The pipeline has no docstore, or it holds no documents (store_doc_text=False keeps none). Ingest the"
            " documents themselves anew, into a vector store that is empty."
        )
    return documents


def cache_of(pipeline: IngestionPipeline) -> IngestionCache | None:
    """Return the cache that a pipeline uses; None if it uses none."""
    return None if pipeline.disable_cache else pipeline.cache


def replace(store: BasePydanticVectorStore | None, documents: Sequence[BaseNode], nodes: Sequence[BaseNode]) -> None:
    """Replace all nodes of documents in a vector store with these nodes."""
    if store is None:
        return
    for source in _sources(documents):
        store.delete(source)
    with suppress(NotImplementedError):
        # A document that was not split is itself a node, and some stores do not know its source.
        store.delete_nodes([document.node_id for document in documents])
    embedded = [node for node in nodes if node.embedding is not None]
    if embedded:
        store.add(embedded)


async def areplace(
    store: BasePydanticVectorStore | None, documents: Sequence[BaseNode], nodes: Sequence[BaseNode]
) -> None:
    """Do the same as `replace` without blocking the event loop, if the store's methods do not block it."""
    if store is None:
        return
    for source in _sources(documents):
        await store.adelete(source)
    with suppress(NotImplementedError):
        await store.adelete_nodes([document.node_id for document in documents])
    embedded = [node for node in nodes if node.embedding is not None]
    if embedded:
        await store.async_add(embedded)


def _sources(documents: Sequence[BaseNode]) -> list[str]:
    """Return the ids by which a vector store knows the nodes of documents."""
    return list(dict.fromkeys(document.ref_doc_id or document.node_id for document in documents))
