"""The graph in RAM: personalised PageRank as a dense solve has it, also after any changes."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations, pairwise
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
    """The same graph in dictionaries, solved as a dense matrix."""

    def __init__(self) -> None:
        self.passages: dict[int, tuple[set[int], set[tuple[int, int]]]] = {}
        self.synonyms: dict[tuple[int, int], float] = {}

    def add(self, passage: int, entities: list[int], facts: list[tuple[int, int]]) -> None:
        pairs = {(min(pair), max(pair)) for pair in facts if pair[0] != pair[1]}
        self.passages.pop(passage, None)
        self.passages[passage] = (set(entities), pairs)

    def remove(self, passages: list[int]) -> None:
        for passage in passages:
            self.passages.pop(passage, None)

    def link(self, pairs: list[tuple[int, int]], weights: list[float]) -> None:
        self.synonyms |= dict(zip(pairs, weights, strict=True))

    def drop_entities(self, entities: list[int]) -> None:
        self.synonyms = {pair: weight for pair, weight in self.synonyms.items() if not set(pair) & set(entities)}

    def between(self) -> dict[tuple[int, int], float]:
        weights = {pair: float(np.float32(weight)) for pair, weight in self.synonyms.items()}
        for _, pairs in self.passages.values():
            for pair in pairs:
                weights[pair] = weights.get(pair, 0.0) + 1.0
        return weights

    def pagerank(
        self, entities: Mapping[int, float], passages: Mapping[int, float], damping: float
    ) -> dict[int, float]:
        held = {number: (set[int](), set[tuple[int, int]]()) for number in passages} | self.passages
        nodes = [("passage", number) for number in held] + [("entity", number) for number in ENTITIES]
        place = {node: number for number, node in enumerate(nodes)}
        matrix = np.zeros((len(nodes), len(nodes)))
        for passage, (mentioned, _) in held.items():
            for entity in mentioned:
                matrix[place["passage", passage], place["entity", entity]] = 1.0
        for (one, other), weight in self.between().items():
            matrix[place["entity", one], place["entity", other]] = weight
        matrix += matrix.T
        start = np.zeros(len(nodes))
        connected = {node for node in place if matrix[place[node]].any() or node[0] == "passage"}
        for kind, seeds in (("entity", entities), ("passage", passages)):
            for number, weight in seeds.items():
                if (kind, number) in connected:
                    start[place[kind, number]] = weight
        if not start.any():
            return dict.fromkeys(held, 0.0)
        start /= start.sum()
        degrees = matrix.sum(axis=0)
        walk = np.where(degrees > 0.0, matrix / np.where(degrees > 0.0, degrees, 1.0), start[:, None])
        scores = np.linalg.solve(np.eye(len(nodes)) - damping * walk, (1.0 - damping) * start)
        return {passage: float(scores[place["passage", passage]]) for passage in held}

    def rebuilt(self) -> Network:
        network = Network()
        add(network, {passage: (sorted(said), sorted(pairs)) for passage, (said, pairs) in self.passages.items()})
        link(network, list(self.synonyms), list(self.synonyms.values()))
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


def link(network: Network, pairs: list[tuple[int, int]], weights: list[float]) -> None:
    network.link(np.array(pairs, dtype=np.int64).reshape(-1, 2), np.array(weights, dtype=np.float32))


def scores(network: Network, entities: Any, passages: Any, damping: float = 0.5) -> dict[int, float]:
    ids, values = network.pagerank(entities, passages, damping=damping)
    assert ids.dtype == np.int64
    return dict(zip(ids.tolist(), values.tolist(), strict=True))


def same(network: Network, plain: Plain, entities: Mapping[int, float], passages: Mapping[int, float]) -> None:
    for damping in (0.0, 0.5, 0.85):
        got, exact = scores(network, entities, passages, damping), plain.pagerank(entities, passages, damping)
        assert got.keys() == exact.keys()
        for passage, score in exact.items():
            assert got[passage] == pytest.approx(score, rel=1e-4, abs=1e-5)
    between = plain.between()
    mentions = [mentioned for mentioned, _ in plain.passages.values()]
    assert network.edges == sum(map(len, mentions)) + len(between)
    assert network.mentions(ENTITIES) == [sum(entity in mentioned for mentioned in mentions) for entity in ENTITIES]
    for entity in ENTITIES:
        expected = {sum(pair) - entity: weight for pair, weight in between.items() if entity in pair}
        assert network.neighbours(entity) == pytest.approx(expected)


entity = st.sampled_from(ENTITIES)
passage = st.sampled_from(PASSAGES)
entities = st.lists(entity, max_size=6, unique=True)
said = entities.flatmap(
    lambda named: st.tuples(
        st.just(named), st.lists(st.tuples(*2 * [st.sampled_from(named)]), max_size=5) if named else st.just([])
    )
)
links = st.dictionaries(st.sampled_from([*combinations(sorted(ENTITIES), 2)]), st.floats(0.01, 1.0), max_size=5)
change = st.one_of(
    st.tuples(st.just("add"), st.dictionaries(passage, said, max_size=4)),
    st.tuples(st.just("remove"), st.lists(passage, max_size=3)),
    st.tuples(st.just("link"), links),
    st.tuples(st.just("drop_entities"), st.lists(entity, max_size=2)),
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
        elif name == "link":
            new = {pair: weight for pair, weight in parts.items() if pair not in plain.synonyms}
            link(network, list(new), list(new.values()))
            plain.link(list(new), list(new.values()))
        elif name == "drop_entities":
            # Only what no passage mentions.
            gone = [one for one, count in zip(parts, network.mentions(parts), strict=True) if not count]
            network.drop_entities(gone)
            plain.drop_entities(gone)
        else:
            network.remove(parts)
            plain.remove(parts)
    same(network, plain, entities, passages)
    same(plain.rebuilt(), plain, entities, passages)


def test_the_first_ten_of_a_larger_graph_are_those_of_the_exact_solution() -> None:
    generator = np.random.default_rng(4)
    plain = Plain()
    for number in range(300):
        mentioned = sorted({ENTITIES[int(12 * at**2)] for at in generator.random(int(generator.integers(0, 9)))})
        plain.add(number, mentioned, list(pairwise(mentioned)))
    network = plain.rebuilt()
    for seed in range(10):
        passages = {number: 0.05 * float(value) for number, value in enumerate(generator.random(300) ** 8)}
        exact = plain.pagerank({ENTITIES[seed]: 1.0}, passages, 0.5)
        got = scores(network, {ENTITIES[seed]: 1.0}, passages)
        assert sorted(got, key=got.__getitem__)[-10:] == sorted(exact, key=exact.__getitem__)[-10:]


def test_what_only_an_entity_joins_is_found() -> None:
    network = Network()
    add(network, {1: ([10, 11], [(10, 11)]), 2: ([11, 12], [(11, 12)]), 3: ([20], [])})
    found = scores(network, {10: 1.0}, {})
    assert found[1] > found[2] > found[3] == 0.0
    link(network, [(12, 20)], [0.9])
    assert scores(network, {10: 1.0}, {})[3] > 0.0


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


def test_what_is_given_is_not_changed() -> None:
    passages, mentions, facts = np.array([1]), np.array([[1, 3], [1, 2]]), np.array([[1, 3, 2]])
    linked, cosines = np.array([[4, 2]]), np.array([0.5], dtype=np.float32)
    network = Network()
    network.add(passages, mentions, facts)
    network.link(linked, cosines)
    network.remove([1])
    network.drop_entities([2, 3])
    assert (passages.tolist(), mentions.tolist(), facts.tolist()) == ([1], [[1, 3], [1, 2]], [[1, 3, 2]])
    assert (linked.tolist(), cosines.tolist()) == ([[4, 2]], [0.5])
