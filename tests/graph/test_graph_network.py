"""The graph in RAM: personalised PageRank, the same after any changes as built anew."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from epic_graph.pagerank import Network

# Far apart, negative and not in order: an id says nothing about a place.
ENTITIES = [(-1) ** number * 10**12 * (number * 7 % 13) + number for number in range(12)]
PASSAGES = [5, 3, 10**15, -7, 0, 11, 12, 13]


class Plain:
    """What a graph holds, in dictionaries."""

    def __init__(self) -> None:
        self.passages: dict[int, tuple[set[int], set[tuple[int, int]]]] = {}

    def add(self, passage: int, entities: list[int], facts: list[tuple[int, int]]) -> None:
        self.passages.pop(passage, None)
        self.passages[passage] = (set(entities), {(min(pair), max(pair)) for pair in facts if pair[0] != pair[1]})

    def rebuilt(self) -> Network:
        network = Network()
        add(network, {passage: (sorted(said), sorted(pairs)) for passage, (said, pairs) in self.passages.items()})
        return network


def add(network: Network, said: Mapping[int, tuple[list[int], list[tuple[int, int]]]]) -> None:
    """Adds passages with their entities and facts."""
    mentions = [(passage, entity) for passage, (entities, _) in said.items() for entity in entities]
    facts = [(passage, *pair) for passage, (_, pairs) in said.items() for pair in pairs]
    network.add(
        np.array(list(said), dtype=np.int64),
        np.array(mentions, dtype=np.int64).reshape(-1, 2),
        np.array(facts, dtype=np.int64).reshape(-1, 3),
    )


def scores(network: Network, entities: Any, passages: Any, damping: float = 0.5) -> dict[int, float]:
    ids, values = network.pagerank(entities, passages, damping=damping)
    assert ids.dtype == np.int64
    return dict(zip(ids.tolist(), values.tolist(), strict=True))


def same(network: Network, other: Network, entities: Mapping[int, float], passages: Mapping[int, float]) -> None:
    for damping in (0.0, 0.5, 0.85):
        expected = scores(other, entities, passages, damping)
        assert scores(network, entities, passages, damping) == pytest.approx(expected, rel=1e-4, abs=1e-5)
    assert (network.edges, network.mentions(ENTITIES)) == (other.edges, other.mentions(ENTITIES))
    for entity in ENTITIES:
        assert network.neighbours(entity) == pytest.approx(other.neighbours(entity))


entity = st.sampled_from(ENTITIES)
passage = st.sampled_from(PASSAGES)
entities = st.lists(entity, max_size=6, unique=True)
said = entities.flatmap(
    lambda named: st.tuples(
        st.just(named), st.lists(st.tuples(*2 * [st.sampled_from(named)]), max_size=5) if named else st.just([])
    )
)
change = st.one_of(
    st.tuples(st.just("add"), st.dictionaries(passage, said, max_size=4)),
    st.tuples(st.just("remove"), st.lists(passage, max_size=3)),
)
entity_seeds = st.dictionaries(entity, st.floats(0.0, 10.0), max_size=4)
passage_seeds = st.dictionaries(passage, st.floats(0.0, 10.0), max_size=4)


@given(changes=st.lists(change, max_size=14), entities=entity_seeds, passages=passage_seeds)
@pytest.mark.slow
def test_any_changes_leave_the_graph_that_one_built_anew_is(
    changes: list[tuple[str, Any]], entities: dict[int, float], passages: dict[int, float]
) -> None:
    network, plain = Network(), Plain()
    for name, parts in changes:
        if name == "add":
            add(network, parts)
            for one, (named, pairs) in parts.items():
                plain.add(one, named, pairs)
        else:
            network.remove(parts)
            for one in parts:
                plain.passages.pop(one, None)
    same(network, plain.rebuilt(), entities, passages)


def test_scores_are_those_of_the_walk_solved_as_a_system_of_equations() -> None:
    # Passages 1, 2, 3 and entities 10, 11, 12, with their edges: mentions, one fact twice, another once.
    edges = {(0, 3): 1.0, (0, 4): 1.0, (1, 3): 1.0, (1, 4): 1.0, (2, 4): 1.0, (2, 5): 1.0, (3, 4): 2.0, (4, 5): 1.0}
    network = Network()
    add(network, {1: ([10, 11], [(10, 11)]), 2: ([10, 11], [(11, 10)]), 3: ([11, 12], [(11, 12)])})
    matrix = np.zeros((6, 6))
    for (one, other), weight in edges.items():
        matrix[one, other] = matrix[other, one] = weight
    start = np.array([0.1, 0.0, 0.2, 0.7, 0.0, 0.0])
    for damping in (0.5, 0.85):
        exact = np.linalg.solve(np.eye(6) - damping * matrix / matrix.sum(axis=0), (1.0 - damping) * start)
        found = scores(network, {10: 0.7}, {1: 0.1, 3: 0.2}, damping)
        assert [found[passage] for passage in (1, 2, 3)] == pytest.approx(exact[:3], rel=1e-4, abs=1e-5)


def test_what_only_an_entity_joins_is_found() -> None:
    network = Network()
    add(network, {1: ([10, 11], [(10, 11)]), 2: ([11, 12], [(11, 12)]), 3: ([20], [])})
    found = scores(network, {10: 1.0}, {})
    assert found[1] > found[2] > found[3] == 0.0


def test_weights_count_by_their_shares() -> None:
    network = Network()
    add(network, {1: ([10], []), 2: ([10, 11], [])})
    for size in (1e-100, 1e100):
        assert scores(network, {11: size}, {1: size}) == pytest.approx(scores(network, {11: 1.0}, {1: 1.0}))


def test_without_a_known_start_all_scores_are_zero() -> None:
    network = Network()
    assert scores(network, {1: 1.0}, {}) == {}
    add(network, {1: ([10], []), 2: ([], [])})
    for entities, passages in (({}, {}), ({99: 1.0}, {}), ({10: 0.0}, {1: 0.0})):
        assert scores(network, entities, passages) == {1: 0.0, 2: 0.0}


def test_a_passage_without_an_entity_keeps_its_own_share() -> None:
    network = Network()
    add(network, {1: ([10], []), 2: ([], [])})
    assert scores(network, {}, {1: 1.0, 2: 1.0})[2] > 0.0
    assert scores(network, {}, {2: 1.0}) == {1: 0.0, 2: 1.0}
    assert scores(network, {}, {3: 1.0}) == {1: 0.0, 2: 0.0, 3: 1.0}
