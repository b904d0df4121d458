"""Links between nodes when the ingestion step leaves some of them out."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

pytest.importorskip("llama_index.core", reason="needs the extra llamaindex")

from llama_index.core.schema import BaseNode, NodeRelationship, RelatedNodeInfo, TextNode

from epic_llamaindex.ingestion import EpicTransform
from epic_memory.types import Decision, Verdict
from helpers import Answering, HashEncoder, keep, settled

NEXT, PREVIOUS, PARENT, CHILD, SOURCE = (
    NodeRelationship.NEXT,
    NodeRelationship.PREVIOUS,
    NodeRelationship.PARENT,
    NodeRelationship.CHILD,
    NodeRelationship.SOURCE,
)


def step(**options: object) -> EpicTransform:
    """Keeps what says wine."""
    verifier = Answering(
        lambda one: keep(one) if "wine" in one.item.text else Verdict(decision=Decision.DISCARD, rationale="far")
    )
    given = {"preferences": ["red wine"], "encoder": HashEncoder(), "llm": verifier, "coarse": False, **options}
    return EpicTransform(**settled(**given))


def chain(kept: Sequence[bool], *, ring: bool = False) -> list[TextNode]:
    """Nodes of one document, each linked with the next."""
    nodes = [TextNode(text="red wine" if one else "blue sky", id_=f"n{n}") for n, one in enumerate(kept)]
    for place, node in enumerate(nodes):
        node.relationships[SOURCE] = RelatedNodeInfo(node_id="document", hash="v1")
        if place + 1 < len(nodes) or ring:
            node.relationships[NEXT] = RelatedNodeInfo(node_id=nodes[(place + 1) % len(nodes)].node_id)
        if place or ring:
            node.relationships[PREVIOUS] = RelatedNodeInfo(node_id=nodes[place - 1].node_id)
    return nodes


def led_to(node: BaseNode, role: NodeRelationship) -> list[str]:
    """The ids that a node's links of a kind lead to."""
    link = node.relationships.get(role)
    return [] if link is None else [one.node_id for one in (link if isinstance(link, list) else [link])]


def along(nodes: Sequence[BaseNode], role: NodeRelationship) -> list[str]:
    """The ids met on the way from the node that none of the others leads to."""
    if not nodes:
        return []
    of = {node.node_id: node for node in nodes}
    reached = {one for node in nodes for one in led_to(node, role)}
    (place,) = [node_id for node_id in of if node_id not in reached]
    met = [place]
    while led_to(of[place], role):
        (place,) = led_to(of[place], role)
        met.append(place)
    return met


@given(st.lists(st.booleans(), max_size=12))
def test_a_chain_stays_a_chain(kept: list[bool]) -> None:
    given = chain(kept)
    before = copy.deepcopy(given)
    found = step()(given)
    assert given == before
    wanted = [f"n{n}" for n, one in enumerate(kept) if one]
    assert along(found, NEXT) == wanted
    assert along(found, PREVIOUS) == wanted[::-1]
    assert all(node.source_node == given[0].source_node for node in found)


LINKS = st.dictionaries(st.sampled_from([NEXT, PREVIOUS, PARENT, CHILD]), st.integers(0, 7), max_size=4)


@given(st.lists(st.tuples(st.booleans(), LINKS), max_size=6))
# Those that are left out lead to each other in a circle.
@example([(True, {NEXT: 1, CHILD: 1}), (False, {NEXT: 2, CHILD: 2}), (False, {NEXT: 1, CHILD: 1})])
def test_no_link_leads_to_what_is_left_out(given: list[tuple[bool, Mapping[NodeRelationship, int]]]) -> None:
    nodes = [TextNode(text="red wine" if one else "blue sky", id_=f"n{n}") for n, (one, _) in enumerate(given)]
    for node, (_, links) in zip(nodes, given, strict=True):
        for role, number in links.items():
            link = RelatedNodeInfo(node_id=f"n{number}")
            node.relationships[role] = [link, RelatedNodeInfo(node_id="elsewhere")] if role is CHILD else link
    left_out = {node.node_id for node in nodes if "wine" not in node.text}
    before = {node.node_id: node for node in nodes}
    for node in step()(nodes):
        for role in (NEXT, PREVIOUS, PARENT, CHILD):
            assert not left_out & set(led_to(node, role))
            # Links to what stays, or is not known here, are as they were.
            own = [one for one in led_to(before[node.node_id], role) if one not in left_out]
            assert set(own) <= set(led_to(node, role))


def test_children_of_what_is_left_out_are_those_of_its_parent() -> None:
    def info(*ids: str) -> list[RelatedNodeInfo]:
        return [RelatedNodeInfo(node_id=one) for one in ids]

    nodes = [
        TextNode(text="red wine", id_="top", relationships={CHILD: info("left", "right")}),
        TextNode(text="blue sky", id_="left", relationships={PARENT: info("top")[0], CHILD: info("a", "b")}),
        TextNode(text="red wine", id_="right", relationships={PARENT: info("top")[0], CHILD: info("c")}),
        TextNode(text="red wine", id_="a", relationships={PARENT: info("left")[0]}),
        TextNode(text="blue sky", id_="b", relationships={PARENT: info("left")[0]}),
        TextNode(text="blue sky", id_="c", relationships={PARENT: info("right")[0]}),
    ]
    top, right, a = step()(nodes)
    assert led_to(top, CHILD) == ["a", "right"]
    assert led_to(a, PARENT) == ["top"] == led_to(right, PARENT)
    assert CHILD not in right.relationships


# with the framework's parsers and retrievers
