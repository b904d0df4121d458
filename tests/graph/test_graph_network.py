"""The graph in RAM: personalised PageRank."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from epic_graph.pagerank import Network


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
