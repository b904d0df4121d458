"""Conversions of nodes to records of a collection and back, which store text and metadata only once."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from llama_index.core.schema import (
    BaseNode,
    Document,
    ImageDocument,
    ImageNode,
    IndexNode,
    MetadataMode,
    Node,
    NodeRelationship,
    ObjectType,
    RelatedNodeInfo,
    TextNode,
)
from llama_index.core.vector_stores.types import MetadataFilters

from epic_llamaindex.filters import SOURCE, filter_of
from epic_memory import Filter
from epic_memory.collection import Key, Record
from epic_memory.errors import InvalidInputError, decoding
from epic_plugins.metadata import keys_of_guidance

_OURS = "\x00"
# A user's key that begins with this prefix is stored with the prefix doubled, so that the two are never confused.
SOURCE_KEY = f"{_OURS}source"
"""The metadata key for the id of a node's source document; a node without one is its own source."""
CLASS_KEY = f"{_OURS}class"
"""The metadata key for the name of a node's class, if that is not TextNode."""
_REST_KEY = f"{_OURS}node"

# Subclasses before their base classes.
_CLASSES: dict[str, type[BaseNode]] = {
    made.class_name(): made for made in (IndexNode, ImageNode, TextNode, ImageDocument, Document, Node)
}
REFERRING = frozenset({IndexNode.class_name(), ImageNode.class_name()})
"""The classes of nodes that an index keeps in its docstore even if the store keeps texts."""

_ELSEWHERE = ("id_", "embedding", "metadata", "relationships", "text")
_MEDIA = ("text_resource", "image_resource", "audio_resource", "video_resource")


def record_of(node: BaseNode) -> Record:
    """Make a record of a node, found by the instructions of its guidance and its text, else by embedding or text."""
    name = f"node {node.node_id!r}"
    kind = next((made for made in _CLASSES.values() if made in type(node).__mro__), None)
    if kind is None:
        raise InvalidInputError(f"The {name} is a {type(node).__name__}: only {', '.join(_CLASSES)} can be stored.")
    _check_obj(node, name)
    keys = keys_of_guidance(node.metadata, name)
    try:
        metadata = {key if not key.startswith(_OURS) else _OURS + key: value for key, value in node.metadata.items()}
        metadata[SOURCE_KEY] = node.ref_doc_id or node.node_id
        text, rest = _taken_apart(node, kind)
    except (ValueError, TypeError, AttributeError) as error:
        raise InvalidInputError(f"The {name} cannot be stored: {error}") from None
    if kind is not TextNode:
        metadata[CLASS_KEY] = kind.class_name()
    if rest:
        metadata[_REST_KEY] = rest
    if keys is None:
        keys = (Key(vector=node.embedding),) if node.embedding else _by_content(node)
    return Record(id=node.node_id, text=text, metadata=metadata, keys=keys)


def node_of_record(record: Record, path: Path | None) -> BaseNode:
    """Make the node that a record was made of, without its embedding."""
    with decoding(path):
        metadata = {
            key.removeprefix(_OURS): value
            for key, value in record.metadata.items()
            if not key.startswith(_OURS) or key.startswith(2 * _OURS)
        }
        fields = dict(record.metadata.get(_REST_KEY, {}))
        links = {
            NodeRelationship(role): _link(link, metadata) for role, link in fields.pop("relationships", {}).items()
        }
        kind = _CLASSES.get(record.metadata.get(CLASS_KEY, ""), TextNode)
        if issubclass(kind, TextNode):
            fields["text"] = record.text
        elif "text" in (resource := fields.get("text_resource") or {}):
            fields["text_resource"] = {**resource, "text": record.text}
        return kind.from_dict({**fields, "id_": record.id, "metadata": metadata, "relationships": links})


def condition_of(filters: MetadataFilters | Filter | None) -> Filter | None:
    """Convert filters over nodes to a filter over their records; `doc_id` and its synonyms mean the source document."""
    given = filter_of(filters)
    return None if given is None else given.renamed(_stored)


def _stored(key: str) -> str:
    if key == SOURCE:
        return SOURCE_KEY
    return _OURS + key if key.startswith(_OURS) else key


def _check_obj(node: BaseNode, name: str) -> None:
    """Refuse the object of an index node unless it is a node or JSON: a model, for example, may hold a key."""
    obj = node.obj if isinstance(node, IndexNode) else None
    if isinstance(obj, BaseNode):
        _check_obj(obj, name)
    elif obj is not None:
        try:
            json.dumps(obj)
        except (TypeError, ValueError, RecursionError):
            raise InvalidInputError(
                f"The {name} stands for an object of type {type(obj).__name__}, which cannot be stored. Give the node"
                " to the index in objects=[...], which keeps the object out of its stores."
            ) from None


def _by_content(node: BaseNode) -> tuple[Key, ...]:
    # The text that an index would embed; an image without a caption is stored, but cannot be found.
    content = node.get_content(metadata_mode=MetadataMode.EMBED)
    return (Key(text=content),) if content.strip() else ()


def _taken_apart(node: BaseNode, kind: type[BaseNode]) -> tuple[str, dict[str, Any]]:
    """Return the text of a node, and the other fields that are needed to make it again."""
    rest = node.model_dump(mode="json", include=set(kind.model_fields) - set(_ELSEWHERE), exclude_defaults=True)
    rest = {name: value for name, value in rest.items() if name not in (*_ELSEWHERE, "class_name")}
    if rest.get("obj", ...) is None:
        del rest["obj"]
    if node.relationships:
        rest["relationships"] = {
            role.value: [_fields_of(one, node.metadata) for one in link]
            if isinstance(link, list)
            else _fields_of(link, node.metadata)
            for role, link in node.relationships.items()
        }
    if isinstance(node, TextNode):
        return node.text, rest
    for name in _MEDIA:
        resource = getattr(node, name, None)
        if resource is not None:
            rest[name] = {key: value for key, value in rest[name].items() if value is not None}
            # The dump lacks the binary data of an image or a sound.
            rest[name] |= {} if resource.data is None else {"data": resource.data.decode()}
    text = getattr(node, "text_resource", None)
    if text is None or text.text is None:
        return "", rest
    rest["text_resource"]["text"] = True
    return str(text.text), rest


def _fields_of(link: RelatedNodeInfo, own: Mapping[str, Any]) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "node_id": link.node_id,
        "node_type": link.node_type,
        "hash": link.hash,
        "metadata": link.metadata,
    }
    # Usually it is the node's own metadata. Compare as text: 1 and True are equal, and the order of keys matters.
    if str(link.metadata) == str(own):
        fields["metadata"] = True
    return {name: value for name, value in fields.items() if value not in (None, {})}


def _link(fields: Any, own: Mapping[str, Any]) -> Any:
    if isinstance(fields, Sequence):
        return [_link(one, own) for one in fields]
    link = RelatedNodeInfo(**{**fields, **({"metadata": dict(own)} if fields.get("metadata") is True else {})})
    if link.node_type in set(ObjectType):
        link.node_type = ObjectType(link.node_type)
    return link
