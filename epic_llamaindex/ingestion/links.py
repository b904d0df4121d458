"""Repair of the links between nodes when some nodes are left out, and of the metadata that links carry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from llama_index.core.schema import BaseNode, NodeRelationship, RelatedNodeInfo

from epic_plugins.metadata import own_metadata

_ALONG = (NodeRelationship.PREVIOUS, NodeRelationship.NEXT, NodeRelationship.PARENT)


def relink(nodes: Sequence[BaseNode], gone: Mapping[str, BaseNode]) -> None:
    """Repair the links of nodes, which have to be the caller's own copies, so that none leads to a removed node.

    Where a neighbour or a parent is removed, its own neighbour or parent takes its place; where a child is, its own
    children do. The link to the source document stays, and so do links to unknown nodes. Guidance in the metadata that
    links carry is removed: a property graph would store it with the nodes. `gone` has the removed nodes by their ids.
    """
    for node in nodes:
        links = node.relationships
        if gone:
            _repair(node, gone)
        for role, link in links.items():
            links[role] = [_own(one) for one in link] if isinstance(link, list) else _own(link)


def _repair(node: BaseNode, gone: Mapping[str, BaseNode]) -> None:
    links = node.relationships
    for role in _ALONG:
        link = _beyond(role, node, gone)
        if link is None:
            links.pop(role, None)
        else:
            links[role] = link
    children = links.get(NodeRelationship.CHILD)
    if isinstance(children, list):
        left = _below(children, gone)
        if left:
            links[NodeRelationship.CHILD] = left
        else:
            del links[NodeRelationship.CHILD]


def _own(link: RelatedNodeInfo) -> RelatedNodeInfo:
    return link.model_copy(update={"metadata": own_metadata(link.metadata)})


def _beyond(role: NodeRelationship, node: BaseNode, gone: Mapping[str, BaseNode]) -> RelatedNodeInfo | None:
    """Return the link to the first node along a kind of link that is not removed, or None."""
    passed = {node.node_id}
    link = node.relationships.get(role)
    while isinstance(link, RelatedNodeInfo) and link.node_id in gone:
        if link.node_id in passed:  # links in a circle lead nowhere
            return None
        passed.add(link.node_id)
        link = gone[link.node_id].relationships.get(role)
    return link if isinstance(link, RelatedNodeInfo) and (link.node_id != node.node_id or len(passed) == 1) else None


def _below(children: Sequence[RelatedNodeInfo], gone: Mapping[str, BaseNode]) -> list[RelatedNodeInfo]:
    """Return links to children; the place of a removed child is taken by its own children."""
    left: dict[str, RelatedNodeInfo] = {}
    passed: set[str] = set()
    coming = list(reversed(children))
    while coming:
        child = coming.pop()
        if child.node_id not in gone:
            left.setdefault(child.node_id, child)
        elif child.node_id not in passed:
            passed.add(child.node_id)
            own = gone[child.node_id].relationships.get(NodeRelationship.CHILD)
            coming += reversed(own) if isinstance(own, list) else []
    return list(left.values())
