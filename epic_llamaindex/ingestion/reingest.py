"""Ingestion of a pipeline's documents anew, after a change of preferences."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from llama_index.core.ingestion import IngestionPipeline, arun_transformations, run_transformations
from llama_index.core.schema import BaseNode, TransformComponent
from llama_index.core.vector_stores.types import BasePydanticVectorStore

from epic_memory.errors import InvalidInputError
from epic_memory.runtime.effects import Call, Effects


def reingested(pipeline: IngestionPipeline, step: TransformComponent, show_progress: bool) -> Effects[list[BaseNode]]:
    """Run a pipeline's steps on the documents in its docstore, and replace their nodes in its vector store."""
    documents = _documents_of(pipeline, step)
    nodes: Sequence[BaseNode] = yield Call(
        run_transformations,
        arun_transformations,
        documents,
        pipeline.transformations,
        cache=None if pipeline.disable_cache else pipeline.cache,
        show_progress=show_progress,
    )
    store = pipeline.vector_store
    if store is not None:
        for source in dict.fromkeys(document.ref_doc_id or document.node_id for document in documents):
            yield Call(store.delete, store.adelete, source)
        # A document that was not split is itself a node, and some stores do not know its source.
        whole = [document.node_id for document in documents]
        yield Call(_delete_nodes, _adelete_nodes, store, whole)
        embedded = [node for node in nodes if node.embedding is not None]
        if embedded:
            yield Call(store.add, store.async_add, embedded)
    return list(nodes)


def _delete_nodes(store: BasePydanticVectorStore, ids: list[str]) -> None:
    with suppress(NotImplementedError):
        store.delete_nodes(ids)


async def _adelete_nodes(store: BasePydanticVectorStore, ids: list[str]) -> None:
    with suppress(NotImplementedError):
        await store.adelete_nodes(ids)


def _documents_of(pipeline: object, step: TransformComponent) -> list[BaseNode]:
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
