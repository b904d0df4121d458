"""Which preferences steer where no floor is given: by what a query asks for, and by what there is to choose from."""

from __future__ import annotations

from collections.abc import Sequence
from weakref import ref

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from epic_core import EpicMemory, Preference, QuerySteering
from epic_core.aspects import Aspects
from epic_core.encoders import StaticEncoder, default_encoder
from epic_core.evidence import sides_of
from epic_core.relevance import (
    BY_QUERY,
    FEATURES,
    NEAREST,
    SAMPLES,
    Phrases,
    by_query,
    known_samples,
    relevance,
    sample_texts,
    samples_of,
    with_candidates,
)
from epic_core.steering import SteeredQuery
from epic_core.steerings import Steerings
from helpers import HashEncoder, KeepAll

PREFERENCES = ("I avoid hotels with casinos.", "I love quiet mountain trails.", "I prefer trains over flights.")


@pytest.fixture(scope="module")
def encoder() -> StaticEncoder:
    return default_encoder()


def names(steered: SteeredQuery) -> set[str]:
    return {chosen.preference.text for chosen in steered.preferences}


def units(seed: int, count: int, dimension: int) -> np.ndarray:
    rows = np.random.default_rng(seed).normal(size=(count, dimension))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


# what it is made of


def directions(encoder: StaticEncoder) -> tuple[np.ndarray, np.ndarray]:
    """By their definition: towards who asks for a choice, towards preferences about explanations."""
    means = [encoder.encode(sample).mean(axis=0, dtype=np.float64) for sample in SAMPLES]
    asking, wondering, explanations, things = (mean / np.linalg.norm(mean) for mean in means)
    return asking - wondering, explanations - things


@pytest.mark.parametrize("query", ["Which hotel should I book?", "Why do hotels have stars?", "zzz", "素食"])
def test_a_query_is_weighed_as_defined(encoder: StaticEncoder, query: str) -> None:
    q, p = encoder.encode([query])[0], encoder.encode(PREFERENCES)
    choice, explanation = directions(encoder)
    asks = np.clip(q @ choice, -0.4, 0.4)
    expected = [p @ q, np.full(len(p), max(asks, 0.0)), max(-asks, 0.0) * (p @ explanation)]
    found = by_query(q, p, samples_of(encoder))
    assert len(found) == len(BY_QUERY)
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("count", [1, NEAREST, NEAREST + 9])
def test_candidates_are_weighed_as_defined(encoder: StaticEncoder, count: int) -> None:
    preferences = [*PREFERENCES, "I like zorbs."]
    q, p = encoder.encode(["Which hotel should I book?"])[0], encoder.encode(preferences)
    x = encoder.encode([f"A hotel with {n} rooms, {n % 4} pools and a casino." for n in range(count)])
    every = sides_of(encoder, preferences)
    center = x[np.argsort(-(x @ q))[:NEAREST]].sum(axis=0)
    center /= np.linalg.norm(center)
    phrases = [max(sides.vectors[: len(sides.phrases)] @ center) for sides in every]
    groups = [max(sides.vectors[len(sides.phrases) :] @ center, default=0.0) for sides in every]
    grouped = [len(sides.vectors) > len(sides.phrases) for sides in every]
    samples = samples_of(encoder)
    found = with_candidates(q, x, p, samples, Phrases(p, every))
    assert len(found) == len(FEATURES)
    assert grouped == [True, True, True, False]
    expected = [*by_query(q, p, samples), p @ center, phrases, groups, [not one for one in grouped]]
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("features", [BY_QUERY, FEATURES])
@given(seed=st.integers(0, 2**32 - 1), count=st.integers(1, 5))
def test_it_is_linear(features: Sequence[str], seed: int, count: int) -> None:
    encoder = HashEncoder()
    one, other = np.random.default_rng(seed).uniform(-1, 1, size=(2, len(features), count)).astype(np.float32)
    found = relevance(encoder, list((one + other) / 2))
    assert found.shape == (count,)
    np.testing.assert_allclose(found, (relevance(encoder, list(one)) + relevance(encoder, list(other))) / 2, atol=1e-4)


@pytest.mark.parametrize("features", [BY_QUERY, FEATURES])
@pytest.mark.parametrize("name", ["bundled", "other"])
def test_nothing_similar_counts_against_a_preference(
    encoder: StaticEncoder, features: Sequence[str], name: str
) -> None:
    using = encoder if name == "bundled" else HashEncoder()
    nothing = np.zeros((len(features), len(features)), dtype=np.float32)
    each = relevance(using, list(np.eye(len(features), dtype=np.float32))) - relevance(using, list(nothing))
    found = dict(zip(features, each.tolist(), strict=True))
    assert relevance(using, list(nothing)).max() < 0.0
    assert min(found.values()) >= 0.0
    assert found["query"] > 0.0
    assert found["explains"] > 0.0


# what a query asks for


@pytest.mark.parametrize(
    ("preference", "choice", "why"),
    [
        ("I avoid hotels with casinos.", "Which places in Las Vegas would you visit?", "Why is Las Vegas so hot?"),
        ("I love spicy food.", "Which restaurants do you recommend?", "Why do restaurants fail?"),
        ("I love spicy food.", "Which dishes should I try?", "Why do dishes break?"),
        (
            "I prefer trains over flights.",
            "Which way of travel do you recommend?",
            "How did people travel in the past?",
        ),
    ],
)
def test_who_asks_for_a_choice_is_steered_more_than_who_asks_why(
    encoder: StaticEncoder, preference: str, choice: str, why: str
) -> None:
    steering = QuerySteering(encoder, [preference])
    p, samples = encoder.encode([preference]), samples_of(encoder)
    asked, wondered = (relevance(encoder, by_query(q, p, samples))[0] for q in encoder.encode([choice, why]))
    assert asked > wondered + 0.5
    assert names(steering.steer(choice)) == {preference}


@pytest.mark.parametrize(
    ("preference", "choice", "why"),
    [
        ("I love spicy food.", "Which restaurants do you recommend?", "Why do restaurants fail?"),
        ("I love spicy food.", "Which dishes should I try?", "Why do dishes break?"),
        (
            "I prefer trains over flights.",
            "Which way of travel do you recommend?",
            "How did people travel in the past?",
        ),
    ],
)
def test_who_asks_why_is_not_steered_where_who_asks_for_a_choice_is(
    encoder: StaticEncoder, preference: str, choice: str, why: str
) -> None:
    steering = QuerySteering(encoder, [preference])
    assert names(steering.steer(choice)) == {preference}
    wondering = steering.steer(why)
    assert not wondering.preferences
    assert wondering.strength == 0.0
    np.testing.assert_array_equal(wondering.vector, wondering.query)


@pytest.mark.parametrize(
    "query", ["Why does altruism exist in nature?", "Why did feathers evolve?", "How did evolution make whales?"]
)
def test_a_preference_about_explanations_steers_who_asks_why(encoder: StaticEncoder, query: str) -> None:
    explanations = "I prefer explanations that focus on evolution."
    steering = QuerySteering(encoder, [explanations, *PREFERENCES])
    assert names(steering.steer(query)) == {explanations}
    for asking in ("Which feathers do you recommend?", "Which hotel should I book?", "What should I cook for dinner?"):
        assert explanations not in names(steering.steer(asking))


def test_what_is_said_of_explanations_counts_only_for_who_asks_why(encoder: StaticEncoder) -> None:
    p = encoder.encode(["I prefer explanations that focus on evolution.", "I avoid evolution."])
    asks, wonders = encoder.encode(["Can you recommend something on evolution?", "Why does evolution happen?"])
    samples = samples_of(encoder)
    by_asking, by_wondering = (dict(zip(BY_QUERY, by_query(q, p, samples), strict=True)) for q in (asks, wonders))
    assert by_asking["asks"].min() > 0.0 and not by_wondering["asks"].any()
    assert not by_asking["explains"].any()
    assert by_wondering["explains"][0] > max(0.0, by_wondering["explains"][1])


# what there is to choose from

LODGINGS = [
    "The Golden Ace is a hotel on the Strip with a casino and slot machines.",
    "The Bellmore is a quiet hotel off the Strip, without a casino.",
    "The Oasis has rooms for families, a poker room and a pool.",
]
ENGINES = ["James Watt improved the steam engine.", "Newcomen built a pump for mines.", "The turbine came in 1884."]


@pytest.mark.parametrize("query", ["Where would you go this weekend?", "Something for two in May?", "素食"])
def test_candidates_bring_in_a_preference_that_the_query_does_not_name(encoder: StaticEncoder, query: str) -> None:
    steering = QuerySteering(encoder, PREFERENCES)
    q = encoder.encode([query])[0]
    hotels = PREFERENCES[0]
    assert hotels not in names(steering.steer_vector(q))
    assert hotels in names(steering.steer_vector(q, candidates=encoder.encode(LODGINGS)))
    assert not names(steering.steer_vector(q, candidates=encoder.encode(ENGINES)))


def test_candidates_that_are_about_something_else_leave_a_preference_out(encoder: StaticEncoder) -> None:
    steering = QuerySteering(encoder, PREFERENCES)
    q = encoder.encode(["a hotel in Las Vegas"])[0]
    assert names(steering.steer_vector(q)) == {PREFERENCES[0]}
    trains = ["A night train to Rome leaves at ten.", "The flight to Rome takes two hours.", "A railway to Milan."]
    assert PREFERENCES[2] in names(steering.steer_vector(q, candidates=encoder.encode(trains)))
    assert not names(steering.steer_vector(q, candidates=encoder.encode(ENGINES)))


def test_what_is_taken_instead_brings_in_what_is_avoided(encoder: StaticEncoder) -> None:
    # No candidate says it, but the lexicon knows what one takes instead.
    preference = "I don't eat meat."
    (sides,) = sides_of(encoder, [preference])
    assert len(sides.vectors) > len(sides.phrases)
    dishes = ["Lentil curry with rice.", "Grilled tofu on noodles.", "A bean stew with chickpeas."]
    q = encoder.encode(["Something for tonight?"])[0]
    steering = QuerySteering(encoder, [preference])
    assert not names(steering.steer_vector(q))
    assert names(steering.steer_vector(q, candidates=encoder.encode(dishes)))


def told(steered: SteeredQuery) -> tuple[list[str], list[float], float]:
    weights = [chosen.weight for chosen in steered.preferences]
    return [chosen.preference.text for chosen in steered.preferences], weights, steered.strength


def assert_same(one: SteeredQuery, other: SteeredQuery) -> None:
    (texts, weights, strength), (other_texts, other_weights, other_strength) = told(one), told(other)
    assert dict(zip(texts, weights, strict=True)) == pytest.approx(
        dict(zip(other_texts, other_weights, strict=True)), abs=1e-4
    )
    assert strength == pytest.approx(other_strength, abs=1e-4)
    np.testing.assert_allclose(one.vector, other.vector, atol=1e-4)


@pytest.mark.parametrize("query", ["Which hotel should I book?", "Where would you go this weekend?"])
def test_only_the_candidates_nearest_to_the_query_count(encoder: StaticEncoder, query: str) -> None:
    steering = QuerySteering(encoder, PREFERENCES, floor=-1.0)
    q = encoder.encode([query])[0]
    every = encoder.encode(
        [*LODGINGS, *ENGINES, *(f"A hotel with {n} rooms." for n in range(9)), *(f"Track {n}." for n in range(20))]
    )
    order = np.argsort(-(every @ q))
    near = steering.steer_vector(q, candidates=every[order[:NEAREST]])
    assert_same(steering.steer_vector(q, candidates=every), near)
    for others in (order[: NEAREST - 1], order[1 : NEAREST + 1]):
        weights = [chosen.weight for chosen in steering.steer_vector(q, candidates=every[others]).preferences]
        assert np.abs(np.array(weights) - [chosen.weight for chosen in near.preferences]).max() > 1e-5


@given(
    seed=st.integers(0, 2**32 - 1),
    candidates=st.permutations(range(12)),
    count=st.integers(1, 12),
    floor=st.sampled_from([None, -1.0, 0.1]),
)
def test_the_order_of_candidates_does_not_matter(
    seed: int, candidates: list[int], count: int, floor: float | None
) -> None:
    rows = units(seed, 16, 6)
    steering = QuerySteering(
        HashEncoder(6), ["I like zorbs.", "I like fleems.", "I avoid plings."], floor=floor, vectors=rows[1:4]
    )
    order = [place for place in candidates if place < count]
    one = steering.steer_vector(rows[0], candidates=rows[4 : 4 + count])
    assert_same(steering.steer_vector(rows[0], candidates=rows[4:][order]), one)


def test_the_order_of_equally_near_candidates_does_not_matter() -> None:
    encoder = HashEncoder()
    steering = QuerySteering(encoder, ["I like zorbs."], floor=-1.0)
    texts = ["red zorbs", *(f"red thing{n}" for n in range(NEAREST + 1))]
    samples, phrases = samples_of(encoder), Phrases(steering.vectors, sides_of(encoder, ["I like zorbs."]))
    found = [
        relevance(
            encoder, with_candidates(encoder.vector("red"), encoder.encode(order), steering.vectors, samples, phrases)
        )
        for order in (texts, texts[::-1])
    ]
    np.testing.assert_allclose(found[0], found[1], atol=1e-4)


WISHES = (*PREFERENCES, "I love spicy food.", "I prefer explanations that focus on evolution.", "I like zorbs.")
QUERIES = ("Which hotel should I book?", "Why did feathers evolve?", "zzz", "Where should I eat on a trail?")


@given(
    order=st.permutations(range(len(WISHES))),
    query=st.sampled_from(QUERIES),
    given_candidates=st.booleans(),
    floor=st.sampled_from([None, -1.0, 0.2]),
)
def test_the_order_of_preferences_does_not_matter(
    order: list[int], query: str, given_candidates: bool, floor: float | None
) -> None:
    encoder = default_encoder()
    candidates = encoder.encode([*LODGINGS, *ENGINES]) if given_candidates else None
    q = encoder.encode([query])[0]
    one, other = (
        QuerySteering(encoder, wishes, floor=floor).steer_vector(q, candidates=candidates)
        for wishes in (WISHES, [WISHES[place] for place in order])
    )
    assert_same(one, other)


@given(seed=st.integers(0, 2**32 - 1), rows=st.lists(st.integers(0, 5), min_size=1, unique=True))
def test_a_preference_is_as_relevant_among_others_as_alone(seed: int, rows: list[int]) -> None:
    encoder = default_encoder()
    q, *candidates = units(seed, 4, encoder.dimension)
    q = (q + encoder.encode(QUERIES[:1])[0]) / np.linalg.norm(q + encoder.encode(QUERIES[:1])[0])
    every, some = (QuerySteering(encoder, [WISHES[row] for row in who], floor=-1.0) for who in (range(6), sorted(rows)))
    for given_candidates in (None, np.stack(candidates)):
        found = every.steer_vector(q, only=np.array(sorted(rows)), candidates=given_candidates)
        assert_same(found, some.steer_vector(q, candidates=given_candidates))


# odd vectors

AXIS = np.eye(1, 4, dtype=np.float32)[0]
ODD = {
    "one": AXIS[None],
    "opposite": -AXIS[None],
    "cancelling": np.stack([AXIS, -AXIS]),
    "many cancelling": np.stack([np.roll(AXIS, 1), -np.roll(AXIS, 1)] * 10),
    "nearly cancelling": np.stack([AXIS, np.array([-1.0, 1e-4, 0.0, 0.0], dtype=np.float32)]),
    "the same": np.stack([AXIS] * 50),
    "zero": np.zeros((3, 4), dtype=np.float32),
    "none": np.empty((0, 4), dtype=np.float32),
}


@pytest.mark.parametrize("candidates", ODD.values(), ids=ODD)
@pytest.mark.parametrize("floor", [None, -1.0, 1.0])
@pytest.mark.parametrize("preferences", [["I like zorbs."], ["🙂", "I avoid casinos.", "no"], [*PREFERENCES]])
def test_odd_vectors_give_finite_numbers(candidates: np.ndarray, floor: float | None, preferences: list[str]) -> None:
    encoder = HashEncoder(4)
    every = [AXIS, -AXIS, np.roll(AXIS, 2)]
    steering = QuerySteering(encoder, preferences, floor=floor, vectors=np.stack(every[: len(preferences)]))
    for query in every:
        steered = steering.steer_vector(query, candidates=candidates)
        assert np.isfinite(steered.vector).all()
        assert steered.vector.dtype == np.float32
        assert np.linalg.norm(steered.vector) == pytest.approx(1.0, abs=1e-4)
        weights = [chosen.weight for chosen in steered.preferences]
        assert np.isfinite([steered.strength, *weights]).all()
        assert not weights or sum(weights) == pytest.approx(1.0, abs=1e-5)
        assert np.isfinite(steering.score_texts(query, ["a casino"] * len(candidates), candidates)).all()


def test_candidates_that_cancel_out_say_no_more_than_the_query() -> None:
    query = np.roll(AXIS, 3)
    steering = QuerySteering(HashEncoder(4), ["I like zorbs.", "I avoid fleems."], floor=-1.0)
    assert_same(
        steering.steer_vector(query, candidates=ODD["cancelling"]), steering.steer_vector(query, candidates=query[None])
    )


@given(seed=st.integers(0, 2**32 - 1), count=st.integers(1, 5), candidates=st.integers(1, 20))
def test_it_is_finite_for_any_vectors(seed: int, count: int, candidates: int) -> None:
    encoder, rows = HashEncoder(5), units(seed, 1 + count + candidates, 5)
    preferences = [f"I {'like' if n % 2 else 'avoid'} casino number {n}." for n in range(count)]
    p, samples = rows[1 : count + 1], samples_of(encoder)
    phrases = Phrases(p, sides_of(encoder, preferences))
    for features in (
        by_query(rows[0], p, samples),
        with_candidates(rows[0], rows[count + 1 :], p, samples, phrases),
    ):
        found = relevance(encoder, features)
        assert found.shape == (count,)
        assert found.dtype == np.float32
        assert np.isfinite(found).all()


# encoders


def least_similarity(encoder: HashEncoder, *, among: bool = False) -> float:
    """From which similarity to a query, and to the one candidate that is like it, a preference steers."""
    query = np.eye(1, encoder.dimension, dtype=np.float32)[0]
    beside = np.roll(query, 1)
    preference = Preference(text="p", aspects=Aspects(avoided=("casinos",)))
    for cosine in np.linspace(-1.0, 1.0, 401):
        vectors = (cosine * query + np.sqrt(1 - cosine**2) * beside).astype(np.float32)[None]
        encoder.told = vectors[0]
        steering = QuerySteering(encoder, [preference], vectors=vectors)
        if steering.steer_vector(query, candidates=query[None] if among else None).preferences:
            return float(cosine)
    return np.inf


class Told(HashEncoder):
    """Gives all texts one vector."""

    told: np.ndarray

    def vector(self, text: str) -> np.ndarray:
        return self.told


@pytest.mark.parametrize("among", [False, True])
def test_an_encoder_with_a_higher_floor_asks_for_higher_similarities(among: bool) -> None:
    found = []
    for floor in (0.1, 0.2, 0.4):
        encoder = Told(8)
        encoder.floor = floor
        found.append(least_similarity(encoder, among=among))
    assert found[1] - found[0] == pytest.approx(0.1, abs=0.011)
    assert found[2] - found[1] == pytest.approx(0.2, abs=0.011)
    plain = Told(8)
    del plain.floor
    assert least_similarity(plain, among=among) == found[1]


def test_a_group_that_is_not_there_does_not_count_by_the_floor() -> None:
    features = np.full((len(FEATURES), 2), 0.5, dtype=np.float32)
    features[FEATURES.index("candidates_group"), 1] = 0.0
    features[FEATURES.index("no_group")] = [0.0, 1.0]
    lost = []
    for floor in (0.2, 0.4):
        encoder = HashEncoder()
        encoder.floor = floor
        # All the similarities of this encoder lie higher by as much.
        shifted = features.copy()
        shifted[[0, 3, 4], :] += floor - 0.2
        shifted[5, 0] += floor - 0.2
        lost.append(relevance(encoder, list(shifted)))
    np.testing.assert_allclose(lost[0], lost[1], atol=1e-4)


class Unreferable:
    """An encoder that cannot be referred to weakly."""

    __slots__ = ("inner",)

    def __init__(self) -> None:
        self.inner = HashEncoder(64)

    name = property(lambda self: self.inner.name)
    dimension = property(lambda self: self.inner.dimension)
    fingerprint = property(lambda self: self.inner.fingerprint)
    texts = property(lambda self: self.inner.texts)

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        return self.inner.encode(texts)

    async def aencode(self, texts: Sequence[str]) -> np.ndarray:
        return await self.inner.aencode(texts)


class Unhashable(HashEncoder):
    """An encoder that compares by its weights, and has no hash."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Unhashable) and self.fingerprint == other.fingerprint

    __hash__ = None  # type: ignore[assignment]


async def test_an_encoder_that_cannot_be_kept_works() -> None:
    encoder, plain = Unreferable(), HashEncoder(64)
    with pytest.raises(TypeError):
        ref(encoder)
    texts = ["hotels with casinos", "quiet mountain trails"]
    expected = QuerySteering(plain, PREFERENCES)
    for steering in (QuerySteering(encoder, PREFERENCES), await QuerySteering.acreate(encoder, PREFERENCES)):
        for _ in range(2):
            assert told(steering.steer("hotels with casinos")) == told(expected.steer("hotels with casinos"))
            assert told(await steering.asteer("hotels")) == told(expected.steer("hotels"))
            np.testing.assert_array_equal(steering.score("hotels", texts), expected.score("hotels", texts))
    # Once for each that steers.
    assert {encoder.texts[text] for text in sample_texts()} == {2}
    assert known_samples(encoder) is None
    memory = EpicMemory(PREFERENCES, encoder=encoder, verifier=KeepAll())
    memory.add(texts)
    for _ in range(2):
        assert memory.search("hotels with casinos")[0].item.text == texts[0]
        assert (await memory.asearch("hotels with casinos"))[0].item.text == texts[0]
    assert {encoder.texts[text] for text in sample_texts()} == {3}


def test_encoders_that_are_equal_are_asked_each() -> None:
    small, large = Unhashable(8), Unhashable(16)
    assert small == large
    for encoder in (small, large):
        QuerySteering(encoder, PREFERENCES).steer("hotels")
        found = known_samples(encoder)
        assert found is not None
        assert found.choice.shape == (encoder.dimension,)
    assert {small.texts[text] for text in sample_texts()} == {1}


class Asymmetric(HashEncoder):
    """An encoder that embeds queries otherwise than texts."""

    def encode_query(self, text: str) -> np.ndarray:
        return self.encode([f"query {text}"])[0]


async def test_questions_are_compared_with_questions_embedded_as_queries() -> None:
    for steering in (QuerySteering(Asymmetric(), PREFERENCES), await QuerySteering.acreate(Asymmetric(), PREFERENCES)):
        steering.steer("Which one should I choose?")
        encoder = steering.encoder
        assert isinstance(encoder, Asymmetric)
        asked, said = sample_texts()[:8], sample_texts()[8:]
        assert all(f"query {text}" in encoder.texts and text not in encoder.texts for text in asked)
        assert all(text in encoder.texts for text in said)


@pytest.mark.parametrize("query", ["Any suggestions?", "Which one should I choose?", "What do you think?", "Thanks!"])
def test_what_names_nothing_is_steered_in_part_at_most(encoder: StaticEncoder, query: str) -> None:
    preferences = ["I prefer quiet places over crowded ones.", "I avoid hotels with casinos.", "I am vegetarian."]
    assert QuerySteering(encoder, preferences).steer(query).strength < 0.7


@pytest.mark.parametrize("query", ["Can you recommend a restaurant in Rome?", "Which phone should I choose?"])
def test_a_fallback_is_asked_for_what_the_memory_does_not_know_however_it_is_steered(query: str) -> None:
    asked: list[str] = []
    preferences = ["I avoid hotels with casinos.", "I prefer quiet places over crowded ones."]
    texts = ["The Golden Ace is a Las Vegas hotel with a casino.", "The library garden is quiet and never crowded."]
    with EpicMemory(preferences, fallback=lambda query, k: asked.append(query) or []) as memory:
        memory.add(texts)
        memory.search(query)
        assert asked == [query]
        memory.search("Which hotel without a casino should I take?")
        assert asked == [query]


async def test_what_steering_has_to_know_of_an_encoder_is_embedded_once() -> None:
    encoder = HashEncoder()
    for number in range(3):
        QuerySteering(encoder, [f"I like number {number}.", *PREFERENCES]).steer("hotels")
        await (await QuerySteering.acreate(encoder, [f"I avoid number {number}."])).asteer("hotels")
        Steerings(encoder).of(PREFERENCES, "signed").score("hotels", ["a casino"])
        memory = EpicMemory(PREFERENCES, encoder=encoder, verifier=KeepAll())
        memory.add(["hotels with casinos"])
        memory.search("hotels")
        await memory.asearch("hotels")
    assert {encoder.texts[text] for text in sample_texts()} == {1}
    assert known_samples(encoder) is not None
    # Another one of the same name is another one.
    other = HashEncoder(fingerprint="v2")
    assert known_samples(other) is None
    QuerySteering(other, PREFERENCES).steer("hotels")
    assert {other.texts[text] for text in sample_texts()} == {1}


def test_what_is_known_of_an_encoder_goes_with_it() -> None:
    import gc

    encoder = HashEncoder()
    QuerySteering(encoder, PREFERENCES).steer("hotels")
    gone = ref(encoder)
    del encoder
    gc.collect()
    assert gone() is None


def test_what_is_kept_is_found_again() -> None:
    encoder = HashEncoder()
    kept = samples_of(encoder)
    found = known_samples(encoder)
    assert found is kept
    assert QuerySteering(encoder, PREFERENCES).samples is kept
    assert kept.choice.shape == kept.explanation.shape == (encoder.dimension,)


@pytest.mark.parametrize("mode", ["paper", "off"])
def test_other_modes_ask_nothing_of_an_encoder(mode: str) -> None:
    encoder = HashEncoder()
    steering = QuerySteering(encoder, PREFERENCES, mode)  # type: ignore[arg-type]
    steering.prepare()
    steering.steer("hotels")
    steering.score("hotels", ["a casino"])
    assert not set(sample_texts()) & set(encoder.texts)


def test_without_preferences_nothing_is_asked_of_an_encoder() -> None:
    encoder = HashEncoder()
    steering = QuerySteering(encoder, [])
    steering.prepare()
    steering.steer("hotels")
    assert dict(encoder.texts) == {"hotels": 1}


# asynchronously


class OnlyAsync(HashEncoder):
    """An encoder that must not be asked synchronously."""

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        raise AssertionError(f"encoded synchronously: {list(texts)}")


@pytest.mark.parametrize("mode", ["paper", "signed", "off"])
async def test_steering_asynchronously_never_encodes_synchronously(mode: str) -> None:
    encoder = OnlyAsync()
    steering = await QuerySteering.acreate(encoder, PREFERENCES, mode)  # type: ignore[arg-type]
    await steering.asteer("hotels with casinos")
    await steering.ascore("hotels with casinos", ["a casino", "a bank"])
    # It is ready for queries that are encoded already.
    query = encoder.vector("hotels with casinos")
    steering.steer_vector(query, candidates=np.stack([encoder.vector("a casino")]))
    steering.score_texts(query, ["a casino"], np.stack([encoder.vector("a casino")]))
    await (await Steerings(OnlyAsync()).aof(PREFERENCES, mode)).asteer("hotels")  # type: ignore[arg-type]


async def test_what_the_constructor_left_out_is_encoded_asynchronously() -> None:
    encoder = OnlyAsync()
    vectors = np.stack([encoder.vector(text) for text in PREFERENCES])
    await QuerySteering(encoder, PREFERENCES, vectors=vectors).asteer("hotels with casinos")
    other = QuerySteering(encoder, PREFERENCES, vectors=vectors)
    await other.ascore("hotels with casinos", ["a casino", "a bank"])
    assert {encoder.texts[text] for text in sample_texts()} == {1}


async def test_what_others_have_found_out_of_an_encoder_is_not_asked_again() -> None:
    encoder = HashEncoder()
    first, second, third = (QuerySteering(encoder, PREFERENCES) for _ in range(3))
    first.steer("hotels")
    second.steer("hotels")
    await third.asteer("hotels")
    assert {encoder.texts[text] for text in sample_texts()} == {1}


@pytest.mark.parametrize("mode", ["paper", "signed", "off"])
async def test_a_memory_never_encodes_synchronously_in_an_asynchronous_search(mode: str) -> None:
    encoder = OnlyAsync()
    memory = EpicMemory(encoder=encoder, verifier=KeepAll(), steering=mode)  # type: ignore[arg-type]
    for preference in PREFERENCES:
        await memory.aadd_preference(preference)
    await memory.aadd(["hotels with casinos", "quiet mountain trails"])
    for _ in range(2):
        assert (await memory.asearch("hotels with casinos"))[0].item.text == "hotels with casinos"
    await memory.acontext("mountain trails")
    await memory.aadd_preference("I avoid rain.")
    await memory.asearch("hotels", preferences=["I avoid rain."])
    assert {encoder.texts[text] for text in sample_texts()} == ({1} if mode == "signed" else {0})


async def test_a_memory_embedded_anew_while_it_asks_is_searched_with_the_new_encoder() -> None:
    class Meanwhile(HashEncoder):
        async def aencode(self, texts: Sequence[str]) -> np.ndarray:
            found = await super().aencode(texts)
            if list(texts) == sample_texts():
                memory.reencode(HashEncoder(512, name="other"))
            return found

    memory = EpicMemory(["I love red wine."], encoder=Meanwhile(), verifier=KeepAll())
    memory.add(["a red wine", "blue sky"])
    found = await memory.asearch("which red wine")
    assert found[0].item.text == "a red wine"
    assert found.vector.shape == (512,)
