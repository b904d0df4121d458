"""Conversions of LlamaIndex nodes to items and hits and back, with guidance in flat `epic_*` metadata."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Literal, TypeAlias

from llama_index.core.schema import (
    BaseNode,
    IndexNode,
    MetadataMode,
    Node,
    NodeRelationship,
    NodeWithScore,
    RelatedNodeInfo,
    TextNode,
)

from epic_llamaindex.filters import SOURCE
from epic_llamaindex.ranking import CONTENT, content_of
from epic_memory import Hit, Item
from epic_memory.errors import InvalidInputError
from epic_memory.types.metadata import copied, plain
from epic_plugins.metadata import PREFIX, hit_metadata, own_metadata
from epic_plugins.several import several

Guidance: TypeAlias = Literal["metadata", "text", "none"]
"""Place of a node's guidance: its metadata; also its text, in the form for a model; or none."""

INDEX = f"{PREFIX}index_id"
"""The metadata key for the `index_id` of an item's node, if that is an IndexNode."""


def checked_nodes(nodes: Iterable[BaseNode]) -> list[BaseNode]:
    """Check nodes and return them as a list."""
    return list(several(nodes, BaseNode, "nodes"))


def text_of(node: BaseNode) -> str:
    """Return a node's own text, without its metadata; empty if it has none, such as an image's."""
    return node.get_content(metadata_mode=MetadataMode.NONE)


def copy_of(node: BaseNode, metadata: dict[str, Any] | None = None, **update: Any) -> BaseNode:
    """Return a copy that shares nothing mutable, with other metadata and fields if given.

    The `epic_*` metadata is excluded from the text to embed and from the text for a model.
    """
    kept = copied(node.metadata) if metadata is None else metadata
    ours = [key for key in kept if key.startswith(PREFIX)]
    excluded = {
        # Keys of earlier guidance may be gone from the metadata, so they are dropped here.
        name: [*(key for key in getattr(node, name) if not key.startswith(PREFIX)), *ours]
        for name in ("excluded_embed_metadata_keys", "excluded_llm_metadata_keys")
    }
    links = {
        role: [_link(one) for one in link] if isinstance(link, list) else _link(link)
        for role, link in node.relationships.items()
    }
    parts: dict[str, Any] = {}
    if isinstance(node, Node):
        media = {name: getattr(node, f"{name}_resource") for name in ("text", "image", "audio", "video")}
        parts = {f"{name}_resource": part.model_copy() for name, part in media.items() if part is not None}
    if node.embedding is not None:
        parts["embedding"] = list(node.embedding)
    return node.model_copy(update={"metadata": kept, "relationships": links, **excluded, **parts, **update})


def _link(link: RelatedNodeInfo) -> RelatedNodeInfo:
    return link.model_copy(update={"metadata": copied(link.metadata)})


def with_metadata(found: NodeWithScore, added: Mapping[str, Any]) -> NodeWithScore:
    """Return a copy of a retrieved node with more metadata."""
    return NodeWithScore(node=copy_of(found.node, {**copied(found.node.metadata), **added}), score=found.score)


def memory_item(node: BaseNode) -> Item:
    """Make an item for a memory of a node, with its metadata, the id of its source document and its `index_id`."""
    metadata = own_metadata(node.metadata)
    for key, value in metadata.items():
        try:
            json.dumps(value, allow_nan=False, default=plain)
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidInputError(
                f"The metadata {key!r} of node {node.node_id!r} is not JSON ({error}): give it as text, a"
                " date, finite numbers, lists or mappings."
            ) from None
    if node.ref_doc_id is not None:
        metadata[SOURCE] = node.ref_doc_id
    if isinstance(node, IndexNode):
        metadata[INDEX] = node.index_id
    return Item(id=node.node_id, text=content_of(text_of(node), node.metadata), metadata=metadata)


def node_of(hit: Hit, text: str, guidance: Guidance = "metadata") -> NodeWithScore:
    """Make a node of a hit and its text.

    Its guidance is in the metadata; with "none", the node has only the item's own text and metadata. The metadata does
    not depend on the query, since a fusion of queries identifies nodes by text and metadata: preferences are ordered by
    their similarity to the item, and the score is not in the metadata.
    """
    entries = sorted(hit.entries, key=lambda entry: (-entry.similarity, entry.preference_id))
    stable = replace(hit, entries=tuple(entries))
    own = hit.item.metadata
    source, index_id = own.get(SOURCE), own.get(INDEX)
    if guidance == "none":
        metadata, text = copied(own) if hit.tier == "fallback" else own_metadata(own), hit.item.text
    else:
        metadata = hit_metadata(stable)
        del metadata["epic_score"]
    for key in (SOURCE, INDEX, CONTENT):
        metadata.pop(key, None)
    if guidance == "text":
        metadata[CONTENT] = stable.text
    ours = [key for key in metadata if key.startswith(PREFIX)]
    fields: dict[str, Any] = {
        "id_": hit.item.id,
        "text": text,
        "metadata": metadata,
        "excluded_embed_metadata_keys": ours,
        "excluded_llm_metadata_keys": list(ours),
        "relationships": {} if source is None else {NodeRelationship.SOURCE: RelatedNodeInfo(node_id=str(source))},
    }
    node = TextNode(**fields) if index_id is None else IndexNode(**fields, index_id=str(index_id))
    return NodeWithScore(node=node, score=hit.score)


def node_id_of(item: Item) -> str:
    """Return the id of the node that an item was made of, as a whole or as a chunk."""
    whole, _, number = item.id.rpartition("#")
    cut = "chunks" in item.metadata and number == str(item.metadata.get("chunk"))
    return whole if whole and cut else item.id
