"""Links between nodes, when some of them are left out; and what links say of the nodes they lead to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from llama_index.core.schema import BaseNode, NodeRelationship, RelatedNodeInfo

from epic_core.integrations.metadata import own_metadata

_ALONG = (NodeRelationship.PREVIOUS, NodeRelationship.NEXT, NodeRelationship.PARENT)


def relink(nodes: Sequence[BaseNode], gone: Mapping[str, BaseNode]) -> None:
    """Let no link of nodes, which are the caller's own copies, lead to one that is gone.

    Where a neighbour or a parent is gone, its own neighbour or parent takes its place, and where a child is, its own
    children do. The link to the source document stays, and so do links to nodes that are not known here. Guidance that
    links carry, in the metadata of what they lead to, is taken off: a property graph would store it with the nodes.

    Args:
        nodes: Those that stay.
        gone: Those that do not, by their ids, with the links they had.
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
    """The first node along a kind of link that is not gone."""
    passed = {node.node_id}
    link = node.relationships.get(role)
    while isinstance(link, RelatedNodeInfo) and link.node_id in gone:
        if link.node_id in passed:  # links in a circle lead nowhere
            return None
        passed.add(link.node_id)
        link = gone[link.node_id].relationships.get(role)
    return link if isinstance(link, RelatedNodeInfo) and (link.node_id != node.node_id or len(passed) == 1) else None


def _below(children: Sequence[RelatedNodeInfo], gone: Mapping[str, BaseNode]) -> list[RelatedNodeInfo]:
    """Children, with their own in the place of those that are gone."""
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
