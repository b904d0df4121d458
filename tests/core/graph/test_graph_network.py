"""The graph in RAM: personalised PageRank as a dense solve has it, also after any changes."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain, pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epic_core.errors import InvalidInputError
from epic_core.graph import pagerank as module
from epic_core.graph.pagerank import Network

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
        for pair, weight in zip(pairs, weights, strict=True):
            if pair[0] != pair[1]:
                self.synonyms[min(pair), max(pair)] = weight

    def drop_entities(self, entities: list[int]) -> None:
        for mentioned, pairs in self.passages.values():
            mentioned.difference_update(entities)
            pairs.difference_update([pair for pair in pairs if set(pair) & set(entities)])
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
        nodes = [("passage", number) for number in self.passages] + [("entity", number) for number in ENTITIES]
        place = {node: number for number, node in enumerate(nodes)}
        matrix = np.zeros((len(nodes), len(nodes)))
        for passage, (mentioned, _) in self.passages.items():
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
            return dict.fromkeys(self.passages, 0.0)
        start /= start.sum()
        degrees = matrix.sum(axis=0)
        walk = np.where(degrees > 0.0, matrix / np.where(degrees > 0.0, degrees, 1.0), start[:, None])
        scores = np.linalg.solve(np.eye(len(nodes)) - damping * walk, (1.0 - damping) * start)
        return {passage: float(scores[place["passage", passage]]) for passage in self.passages}

    def rebuilt(self) -> Network:
        rows = list(self.passages.values())
        mentions = [entity for mentioned, _ in rows for entity in mentioned]
        facts = [pair for _, pairs in rows for pair in pairs]
        return Network.of(
            list(self.passages),
            (np.cumsum([0, *(len(mentioned) for mentioned, _ in rows)]), np.array(mentions, dtype=np.int64)),
            (np.cumsum([0, *(len(pairs) for _, pairs in rows)]), np.array(facts, dtype=np.int64).reshape(-1, 2)),
            (np.array(list(self.synonyms), dtype=np.int64).reshape(-1, 2), list(self.synonyms.values())),
        )


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
    assert network.passages == len(plain.passages)
    assert network.edges == sum(map(len, mentions)) + len(between)
    assert network.entities == len(set().union(*mentions, *between))
    for entity in ENTITIES:
        assert network.degree(entity) == sum(entity in mentioned for mentioned in mentions)
        found, weights = network.neighbours(entity)
        expected = {sum(pair) - entity: weight for pair, weight in between.items() if entity in pair}
        assert dict(zip(found.tolist(), weights.tolist(), strict=True)) == pytest.approx(expected)
        assert found.tolist() == sorted(found.tolist(), key=lambda other: (-expected[other], other))


def flat(said: Mapping[int, tuple[list[int], list[tuple[int, int]]]]) -> tuple[Any, Any, Any]:
    """Passages as `Network.extend` takes them."""
    mentioned, facts = [one for one, _ in said.values()], [pairs for _, pairs in said.values()]
    return (
        list(said),
        (np.cumsum([0, *map(len, mentioned)]), np.array([*chain(*mentioned)], dtype=np.int64)),
        (np.cumsum([0, *map(len, facts)]), np.array([*chain(*facts)], dtype=np.int64).reshape(-1, 2)),
    )


entity = st.sampled_from(ENTITIES)
passage = st.sampled_from(PASSAGES)
pairs = st.lists(st.tuples(entity, entity), max_size=5)
weight = st.floats(0.01, 1.0)
change = st.one_of(
    st.tuples(st.just("add"), passage, st.lists(entity, max_size=6), pairs),
    st.tuples(st.just("extend"), st.dictionaries(passage, st.tuples(st.lists(entity, max_size=6), pairs), max_size=4)),
    st.tuples(st.just("remove"), st.lists(passage, max_size=3)),
    st.lists(st.tuples(st.tuples(entity, entity), weight), max_size=5).map(
        lambda given: ("link", [pair for pair, _ in given], [value for _, value in given])
    ),
    st.tuples(st.just("drop_entities"), st.lists(entity, max_size=2)),
)
entity_seeds = st.dictionaries(entity, st.floats(0.0, 10.0), max_size=4)
passage_seeds = st.dictionaries(passage, st.floats(0.0, 10.0), max_size=4)


@pytest.mark.parametrize("loose", [1_000, 0], ids=["loose", "tidied"])
@given(changes=st.lists(change, max_size=14), entities=entity_seeds, passages=passage_seeds)
@settings(deadline=None, max_examples=150)
@pytest.mark.slow
def test_any_changes_leave_the_graph_that_one_built_anew_is(
    loose: int, changes: list[Any], entities: dict[int, float], passages: dict[int, float]
) -> None:
    network, plain = Network(), Plain()
    with pytest.MonkeyPatch.context() as patch:
        # With no slack, nearly each removal gives back the room.
        patch.setattr(module, "_LOOSE", loose)
        for name, *arguments in changes:
            if name == "extend":
                network.extend(*flat(*arguments))
                for one, said in arguments[0].items():
                    plain.add(one, *said)
            else:
                getattr(network, name)(*arguments)
                getattr(plain, name)(*arguments)
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
    network.add(1, [10, 11], [(10, 11)])
    network.add(2, [11, 12], [(11, 12)])
    network.add(3, [20], [])
    found = scores(network, {10: 1.0}, {})
    assert found[1] > found[2] > found[3] == 0.0
    network.link([(12, 20)], [0.9])
    assert scores(network, {10: 1.0}, {})[3] > 0.0


def test_seeds_may_be_arrays() -> None:
    network = Network()
    for number in range(5):
        network.add(number, [100 + number, 101 + number], [])
    weights = {number: 0.1 * (number + 1) for number in range(5)}
    arrays = (np.arange(5), np.array(list(weights.values())))
    assert scores(network, {102: 1.0}, arrays) == scores(network, {102: 1.0}, weights)


def test_weights_count_by_their_shares() -> None:
    network = Network()
    network.add(1, [10], [])
    network.add(2, [10, 11], [])
    for size in (1e-300, 1e308):
        assert scores(network, {11: size}, {1: size}) == pytest.approx(scores(network, {11: 1.0}, {1: 1.0}))


def test_without_a_known_start_all_scores_are_zero() -> None:
    network = Network()
    assert scores(network, {1: 1.0}, {1: 1.0}) == {}
    network.add(1, [10], [])
    network.add(2, [], [])
    for entities, passages in (({}, {}), ({99: 1.0}, {99: 1.0}), ({10: 0.0}, {1: 0.0})):
        assert scores(network, entities, passages) == {1: 0.0, 2: 0.0}


def test_a_passage_without_an_entity_keeps_its_own_share() -> None:
    network = Network()
    network.add(1, [10], [])
    network.add(2, [], [])
    found = scores(network, {}, {1: 1.0, 2: 1.0})
    assert found[2] > 0.0
    assert scores(network, {}, {2: 1.0}) == {1: 0.0, 2: 1.0}


@pytest.mark.slow
def test_removed_and_replaced_for_long_the_network_does_not_grow() -> None:
    network = Network()
    for number in range(100):
        network.add(number, [number, number + 1], [(number, number + 1)])
    before = network.nbytes
    for turn in range(60):
        for number in range(100):
            network.add(number, [number, number + turn], [(number, number + turn)])
    assert network.passages == 100
    # The slack is a thousand places, of about 250 bytes each.
    assert network.nbytes < before + 500_000


def test_what_is_given_is_not_changed() -> None:
    mentions, pairs = np.array([2, 1]), np.array([[2, 1]])
    starts, linked, weights = np.array([0, 2]), np.array([[3, 1]]), np.array([0.5])
    network = Network.of(np.array([1]), (starts, mentions), (np.array([0, 1]), pairs), (linked, weights))
    network.drop_entities([2])
    network.remove([1])
    network.link([(1, 3)], [0.7])
    assert (mentions.tolist(), pairs.tolist(), starts.tolist()) == ([2, 1], [[2, 1]], [0, 2])
    assert (linked.tolist(), weights.tolist()) == ([[3, 1]], [0.5])


NO_FACTS = (np.zeros(3, dtype=np.int64), np.empty((0, 2), dtype=np.int64))
NO_LINKS = (np.empty((0, 2), dtype=np.int64), np.empty(0))
BAD = {
    "twice": ([1, 1], ([0, 1, 2], [5, 6]), NO_FACTS, NO_LINKS),
    "starts too short": ([1, 2], ([0, 2], [5, 6]), NO_FACTS, NO_LINKS),
    "starts fall": ([1, 2], ([0, 3, 2], [5, 6]), NO_FACTS, NO_LINKS),
    "starts end early": ([1, 2], ([0, 1, 1], [5, 6]), NO_FACTS, NO_LINKS),
    "no numbers": ([1, 2], ([0, 1, 2], ["a", "b"]), NO_FACTS, NO_LINKS),
    "no pairs": ([1, 2], ([0, 1, 2], [5, 6]), ([0, 1, 3], [1, 2, 3]), NO_LINKS),
    "no weight": ([1, 2], ([0, 1, 2], [5, 6]), NO_FACTS, ([[5, 6]], [])),
}


@pytest.mark.parametrize("what", BAD)
def test_a_bulk_that_does_not_fit_is_an_error(what: str) -> None:
    with pytest.raises(InvalidInputError):
        Network.of(*BAD[what])


@pytest.mark.parametrize("weight", [0.0, -0.5, float("nan"), float("inf")])
def test_synonyms_have_positive_weights(weight: float) -> None:
    network = Network()
    with pytest.raises(InvalidInputError, match="above zero"):
        network.link([(1, 2)], [weight])
    assert network.entities == network.edges == 0


@pytest.mark.parametrize("damping", [-0.1, 1.0, float("nan")])
def test_a_damping_out_of_range_is_an_error(damping: float) -> None:
    with pytest.raises(InvalidInputError, match="damping"):
        Network().pagerank({}, {}, damping=damping)


@pytest.mark.parametrize("weight", [-1.0, float("nan"), float("inf")])
def test_bad_starting_weights_are_an_error(weight: float) -> None:
    network = Network()
    network.add(1, [10], [])
    for entities, passages in (({10: weight}, {}), ({}, {1: weight})):
        with pytest.raises(InvalidInputError, match="finite"):
            network.pagerank(entities, passages)


def test_bad_ids_leave_a_passage_as_it_was() -> None:
    network = Network()
    network.add(1, [10, 11], [(10, 11)])
    for entities, facts in ((["a"], []), ([10.5], []), ([10], [(1, 2, 3)])):
        with pytest.raises(InvalidInputError):
            network.add(1, entities, facts)  # type: ignore[arg-type]
    assert (network.degree(10), network.edges) == (1, 3)
