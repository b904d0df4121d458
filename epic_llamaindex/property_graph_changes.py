"""Removal of passages from a property graph, with the facts that were extracted from them."""

from __future__ import annotations

from collections.abc import Iterable, Set
from typing import Any

from llama_index.core import PropertyGraphIndex
from llama_index.core.graph_stores import SimplePropertyGraphStore
from llama_index.core.graph_stores.types import (
    TRIPLET_SOURCE_KEY,
    VECTOR_SOURCE_KEY,
    EntityNode,
    LabelledPropertyGraph,
    Relation,
)
from llama_index.core.vector_stores import FilterOperator, MetadataFilter, MetadataFilters
from llama_index.core.vector_stores.types import BasePydanticVectorStore

from epic_core.errors import InvalidInputError


def delete_passages(index: PropertyGraphIndex, node_ids: Iterable[str]) -> None:
    """Remove passages from a property graph index, and the facts and entities that no other passage supports.

        keep.preferences = [*keep.preferences, "I only travel by train."]
        changed = keep.reprocess()
        delete_passages(index, changed.gone)
        index.insert_nodes(changed.kept)

    Use it in place of `index.delete_nodes`, which leaves the facts in the graph; from the framework's own store in RAM
    that method also removes the neighbours of a passage, after which the store fails. Other stores run their own
    `delete_llama_nodes`. A fact that another passage states as well goes with the passage it was extracted from first.

    Args:
        index: The index; the passages also leave its docstore, the entities its vector store.
        node_ids: The ids of passages; unknown ids are ignored.

    Raises:
        InvalidInputError: for anything but a property graph index, or for ids given as one text.
    """
    gone = _checked(index, node_ids)
    if not gone:
        return
    store, vectors = index.property_graph_store, index.vector_store
    if isinstance(store, SimplePropertyGraphStore):
        entities = _taken_out(store.graph, gone)
        if vectors is not None and entities:
            vectors.delete_nodes(**_held_as(vectors, entities))
    else:
        store.delete_llama_nodes(node_ids=sorted(gone))
    for node_id in gone:
        index.docstore.delete_document(node_id, raise_error=False)


async def adelete_passages(index: PropertyGraphIndex, node_ids: Iterable[str]) -> None:
    """Do the same as `delete_passages` without blocking the event loop."""
    gone = _checked(index, node_ids)
    if not gone:
        return
    store, vectors = index.property_graph_store, index.vector_store
    if isinstance(store, SimplePropertyGraphStore):
        entities = _taken_out(store.graph, gone)
        if vectors is not None and entities:
            await vectors.adelete_nodes(**_held_as(vectors, entities))
    else:
        await store.adelete_llama_nodes(node_ids=sorted(gone))
    for node_id in gone:
        await index.docstore.adelete_document(node_id, raise_error=False)


def _checked(index: object, node_ids: Iterable[str]) -> frozenset[str]:
    if not isinstance(index, PropertyGraphIndex):
        raise InvalidInputError(f"index must be a PropertyGraphIndex, not {type(index).__name__}.")
    if isinstance(node_ids, str) or not isinstance(node_ids, Iterable):
        raise InvalidInputError("Give the ids of several nodes in a list: delete_passages(index, ['...']).")
    return frozenset(node_ids)


def _held_as(vectors: BasePydanticVectorStore, entities: list[str]) -> dict[str, Any]:
    """Return the arguments that delete entities from a vector store.

    In a store that keeps texts, an index gives entities other ids: there a filter finds them.
    """
    if not vectors.stores_text:
        return {"node_ids": entities}
    named = MetadataFilter(key=VECTOR_SOURCE_KEY, operator=FilterOperator.IN, value=entities)
    return {"filters": MetadataFilters(filters=[named])}


def _taken_out(graph: LabelledPropertyGraph, gone: Set[str]) -> list[str]:
    """Remove passages, and what only they support, from a graph in RAM; return the ids of the removed entities."""
    touched: set[str] = set()
    stays: dict[str, Relation] = {}
    for subject, label, other in sorted(graph.triplets):
        key = graph._get_relation_key(subj_id=subject, rel_id=label, obj_id=other)
        relation = graph.relations.get(key)
        # Facts may lead nowhere if nodes were deleted in another way.
        there = subject in graph.nodes and other in graph.nodes
        if relation is None or not there or gone & {subject, other, relation.properties.get(TRIPLET_SOURCE_KEY)}:
            graph.triplets.remove((subject, label, other))
            graph.relations.pop(key, None)
            touched |= {subject, other}
        else:
            stays[subject] = relation
            stays.setdefault(other, relation)
    left = [
        node_id
        for node_id, node in graph.nodes.items()
        if isinstance(node, EntityNode)
        and node_id not in stays
        and (node_id in touched or node.properties.get(TRIPLET_SOURCE_KEY) in gone)
    ]
    for node_id in [*left, *gone]:
        graph.nodes.pop(node_id, None)
    for node_id, relation in stays.items():
        properties, source = graph.nodes[node_id].properties, relation.properties.get(TRIPLET_SOURCE_KEY)
        # A fact's passage is looked up through its subject, which has to refer to a passage that stays.
        if properties.get(TRIPLET_SOURCE_KEY) in gone and source is not None:
            graph.nodes[node_id].properties = {**properties, TRIPLET_SOURCE_KEY: source}
    return left
