"""Which preferences steer where no floor is given: by what a query asks for, and by what there is to choose from."""

from __future__ import annotations

from collections.abc import Sequence
from weakref import ref

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from epic_core import EpicMemory, Preference, QuerySteering
from epic_core.encoders import StaticEncoder, default_encoder
from epic_core.preferences.evidence import embed_aspects
from epic_core.preferences.library import borrowed
from epic_core.steering.query_steering import SteeredQuery, Steerings
from epic_core.steering.relevance import (
    FEATURES,
    NEAREST,
    SAMPLES,
    Nearness,
    center,
    default_relevant,
    features,
    known_samples,
    relevance,
    sample_texts,
    samples_of,
)
from epic_core.steering.signed import LEAST
from epic_core.types.preferences import Expansion
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


WRITTEN = Preference(
    text="I avoid hotels with casinos.",
    expansion=Expansion(
        questions=("Where should I stay in Las Vegas?", "Which resort suits me?", "What to do in Macau?"),
        follows=("a quiet guesthouse",),
        breaks=("slot machines", "poker rooms"),
    ),
)
# One phrase of each kind, and of some kinds none.
SHORT = Preference(text="I love zorbs.", expansion=Expansion(questions=("Which zorb?",), breaks=("no zorb",)))
UNASKED = Preference(text="I love fleems.", expansion=Expansion(follows=("a fleem", "red fleems")))
KINDS = (WRITTEN, PREFERENCES[0], SHORT, UNASKED, "I like plings.")


def near_by_definition(encoder: StaticEncoder, preference: str | Preference, z: np.ndarray) -> float:
    """(Sim(z, p) + a top2 Sim(z, questions) + b top2 Sim(z, follows and breaks)) / (1 + a + b)."""
    (sides,) = embed_aspects(encoder, [preference])
    p = encoder.encode([preference if isinstance(preference, str) else preference.text])[0]
    if not len(sides.expanded):
        return float(p @ z)
    a, b, nearer = (0.25, 0.25, 0.0) if sides.borrowed else (2.0, 1.0, 0.05)
    if not len(sides.questions):
        a = 0.0
    asked, said = (np.sort(rows @ z)[-2:].mean() if len(rows) else 0.0 for rows in (sides.questions, sides.expanded))
    return float((p @ z + a * asked + b * said) / (1 + a + b) - nearer)


def nearness_of(encoder: StaticEncoder, preferences: Sequence[str | Preference]) -> tuple[np.ndarray, Nearness]:
    vectors = encoder.encode([Preference.of(one).text for one in preferences])
    return vectors, Nearness(vectors, embed_aspects(encoder, preferences))


@pytest.mark.parametrize("query", ["Where should I stay in Las Vegas?", "zorbs and fleems", "素食"])
@pytest.mark.parametrize("kinds", [KINDS, KINDS[::-1], KINDS[:1], KINDS[4:]])
def test_nearness_is_as_defined(encoder: StaticEncoder, query: str, kinds: Sequence[str | Preference]) -> None:
    (z,) = encoder.encode([query])
    _, nearness = nearness_of(encoder, kinds)
    expected = [near_by_definition(encoder, one, z) for one in kinds]
    np.testing.assert_allclose(nearness.of(z), expected, atol=1e-5)


def test_a_preference_that_may_not_borrow_is_compared_itself(encoder: StaticEncoder) -> None:
    vectors, q = encoder.encode(PREFERENCES), encoder.encode(["Which hotel should I book?"])[0]
    alone = Nearness(vectors, embed_aspects(encoder, PREFERENCES, borrow=False)).of(q)
    np.testing.assert_allclose(alone, vectors @ q, atol=1e-6)
    assert np.abs(Nearness(vectors, embed_aspects(encoder, PREFERENCES)).of(q) - alone).max() > 0.01


@pytest.mark.parametrize("query", ["Which hotel should I book?", "Why do hotels have stars?", "zzz", "素食"])
@pytest.mark.parametrize("candidates", [0, None])
def test_a_query_is_weighed_as_defined(encoder: StaticEncoder, query: str, candidates: int | None) -> None:
    q = encoder.encode([query])[0]
    p, nearness = nearness_of(encoder, KINDS)
    choice, explanation = directions(encoder)
    asks = np.clip(q @ choice, -0.4, 0.4)
    near = [near_by_definition(encoder, one, q) for one in KINDS]
    expected = [near, np.full(len(p), max(asks, 0.0)), max(-asks, 0.0) * (p @ explanation)]
    # No candidates are as none were given.
    none = None if candidates is None else np.empty((0, encoder.dimension), dtype=np.float32)
    found = features(q, p, samples_of(encoder), nearness, none)
    assert len(found) == len(FEATURES)
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("count", [1, NEAREST, NEAREST + 9])
def test_candidates_are_weighed_as_defined(encoder: StaticEncoder, count: int) -> None:
    q = encoder.encode(["Which hotel should I book?"])[0]
    p, nearness = nearness_of(encoder, KINDS)
    x = encoder.encode([f"A hotel with {n} rooms, {n % 4} pools and a casino." for n in range(count)])
    c = x[np.argsort(-(x @ q))[:NEAREST]].sum(axis=0)
    c /= np.linalg.norm(c)
    np.testing.assert_allclose(center(q, x), c, atol=1e-5)
    samples = samples_of(encoder)
    found = features(q, p, samples, nearness, x)
    assert len(found) == len(FEATURES)
    near = [0.4 * near_by_definition(encoder, one, q) + 0.6 * near_by_definition(encoder, one, c) for one in KINDS]
    expected = [near, *features(q, p, samples, nearness)[1:]]
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_what_is_much_further_than_the_nearest_candidate_says_nothing() -> None:
    q = np.eye(1, 4, dtype=np.float32)[0]
    near, within, beyond = (
        np.array([cosine, side, 0.0, np.sqrt(1 - cosine**2 - side**2)], dtype=np.float32)
        for cosine, side in ((0.9, 0.1), (0.71, -0.2), (0.69, 0.3))
    )
    expected = (near + within) / np.linalg.norm(near + within)
    np.testing.assert_allclose(center(q, np.stack([near, within, beyond])), expected, atol=1e-6)
    np.testing.assert_allclose(center(q, np.stack([beyond, near])), near, atol=1e-6)


def weights_of(encoder: StaticEncoder | HashEncoder, *, among: bool) -> tuple[dict[str, float], float]:
    """What each feature counts, and what is added."""
    nothing = np.zeros((len(FEATURES), len(FEATURES)), dtype=np.float32)
    start = relevance(encoder, list(nothing), candidates=among)
    each = relevance(encoder, list(np.eye(len(FEATURES), dtype=np.float32)), candidates=among) - start
    return dict(zip(FEATURES, each.tolist(), strict=True)), float(start[0])


@pytest.mark.parametrize("among", [False, True])
@pytest.mark.parametrize("name", ["bundled", "other"])
def test_nothing_similar_counts_against_a_preference(encoder: StaticEncoder, among: bool, name: str) -> None:
    found, start = weights_of(encoder if name == "bundled" else HashEncoder(), among=among)
    assert start < LEAST
    assert min(found.values()) > 0.0


def test_the_bundled_encoder_has_weights_of_its_own_and_so_have_candidates(encoder: StaticEncoder) -> None:
    of = {
        (name, among): weights_of(using, among=among)
        for name, using in (("bundled", encoder), ("other", HashEncoder()))
        for among in (False, True)
    }
    starts = [start for _, start in of.values()]
    assert len(set(starts)) == 4
    for name in ("bundled", "other"):
        # With candidates nearness counts more.
        assert of[name, True][0]["near"] > of[name, False][0]["near"]
    named = HashEncoder()
    named.name = encoder.name
    assert weights_of(named, among=True) == of["bundled", True]


# what a query asks for


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
def test_who_asks_why_is_steered_little_where_who_asks_for_a_choice_is(
    encoder: StaticEncoder, preference: str, choice: str, why: str
) -> None:
    steering = QuerySteering(encoder, [preference])
    chosen = steering.steer(choice)
    assert names(chosen) == {preference}
    assert chosen.strength > 0.8
    wondering = steering.steer(why)
    assert wondering.strength < 0.3
    if not wondering.preferences:
        assert wondering.strength == 0.0
        np.testing.assert_array_equal(wondering.vector, wondering.query)


@pytest.mark.parametrize(
    "query", ["Why does altruism exist in nature?", "Why did feathers evolve?", "How did evolution make whales?"]
)
def test_a_preference_about_explanations_steers_who_asks_why(encoder: StaticEncoder, query: str) -> None:
    explanations = "I prefer explanations that focus on evolution."
    steering = QuerySteering(encoder, [explanations, *PREFERENCES])
    wondering = steering.steer(query)
    assert names(wondering) == {explanations}
    assert wondering.strength > 0.9
    for asking in ("Which hotel should I book?", "What should I cook for dinner?"):
        assert explanations not in names(steering.steer(asking))
    assert steering.steer("Which feathers do you recommend?").strength < 0.3


def test_what_is_said_of_explanations_counts_only_for_who_asks_why(encoder: StaticEncoder) -> None:
    p, nearness = nearness_of(encoder, ["I prefer explanations that focus on evolution.", "I avoid evolution."])
    asks, wonders = encoder.encode(["Can you recommend something on evolution?", "Why does evolution happen?"])
    samples = samples_of(encoder)
    by_asking, by_wondering = (
        dict(zip(FEATURES, features(q, p, samples, nearness), strict=True)) for q in (asks, wonders)
    )
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


@pytest.mark.parametrize("query", ["Something for two in May?", "素食"])
def test_candidates_bring_in_a_preference_that_the_query_does_not_name(encoder: StaticEncoder, query: str) -> None:
    steering = QuerySteering(encoder, PREFERENCES)
    q = encoder.encode([query])[0]
    hotels = PREFERENCES[0]
    assert hotels not in names(steering.steer_vector(q))
    assert hotels in names(steering.steer_vector(q, candidates=encoder.encode(LODGINGS)))
    assert not names(steering.steer_vector(q, candidates=encoder.encode(ENGINES)))


def test_candidates_that_are_about_something_else_weaken_a_preference(encoder: StaticEncoder) -> None:
    steering = QuerySteering(encoder, PREFERENCES)
    q = encoder.encode(["a hotel in Las Vegas"])[0]
    assert names(steering.steer_vector(q)) == {PREFERENCES[0]}
    trains = ["A night train to Rome leaves at ten.", "The flight to Rome takes two hours.", "A railway to Milan."]
    assert PREFERENCES[2] in names(steering.steer_vector(q, candidates=encoder.encode(trains)))
    alone, among = steering.steer_vector(q), steering.steer_vector(q, candidates=encoder.encode(ENGINES))
    assert alone.strength > 0.9
    assert among.strength < 0.3


def test_what_is_taken_instead_brings_in_what_is_avoided(encoder: StaticEncoder) -> None:
    # No candidate says it, but the lexicon knows what one takes instead.
    preference = "I don't eat meat."
    (sides,) = embed_aspects(encoder, [preference])
    assert len(sides.vectors) > len(sides.phrases)
    dishes = ["Lentil curry with rice.", "Grilled tofu on noodles.", "A bean stew with chickpeas."]
    q = encoder.encode(["Something for tonight?"])[0]
    steering = QuerySteering(encoder, [preference])
    assert not names(steering.steer_vector(q))
    assert names(steering.steer_vector(q, candidates=encoder.encode(dishes)))
    # And so does what one takes instead, by what was borrowed.
    bare = QuerySteering(encoder, [preference], borrow=False)
    by_both, by_itself = (one.matters(q, candidates=encoder.encode(dishes))[0][1] for one in (steering, bare))
    assert by_both > by_itself + 0.03


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
    q = encoder.encode([query])[0]
    every = encoder.encode(
        [*LODGINGS, *ENGINES, *(f"A hotel with {n} rooms." for n in range(9)), *(f"Track {n}." for n in range(20))]
    )
    order = np.argsort(-(every @ q))
    p, nearness = nearness_of(encoder, PREFERENCES)

    def near(candidates: np.ndarray) -> np.ndarray:
        return features(q, p, samples_of(encoder), nearness, candidates)[0]

    nearest = near(every[order[:NEAREST]])
    np.testing.assert_allclose(near(every), nearest, atol=1e-6)
    for others in (order[: NEAREST - 1], order[1 : NEAREST + 1]):
        assert np.abs(near(every[others]) - nearest).max() > 1e-4


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


WISHES = (*PREFERENCES, "I love spicy food.", "I prefer explanations that focus on evolution.", "I like zorbs.")
QUERIES = ("Which hotel should I book?", "Why did feathers evolve?", "zzz", "Where should I eat on a trail?")


@given(
    order=st.permutations(range(len(WISHES))),
    query=st.sampled_from(QUERIES),
    given_candidates=st.booleans(),
    floor=st.sampled_from([None, -1.0, 0.2]),
)
@pytest.mark.slow
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
@pytest.mark.slow
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
@pytest.mark.parametrize(
    ("preferences", "floor"),
    [(["I like zorbs."], 1.0), (["🙂", "I avoid casinos.", "no"], None), ([*PREFERENCES], -1.0)],
)
def test_odd_vectors_give_finite_numbers(candidates: np.ndarray, preferences: list[str], floor: float | None) -> None:
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


# encoders


@pytest.mark.parametrize("among", [False, True])
def test_what_is_as_much_nearer_with_another_encoder_is_as_relevant(among: bool) -> None:
    found = np.random.default_rng(3).uniform(-0.2, 0.6, size=(len(FEATURES), 4)).astype(np.float32)
    before = found.copy()
    odds = []
    for floor in (0.2, 0.4):
        encoder = HashEncoder()
        encoder.floor = floor
        # All the similarities of this encoder lie higher by as much; how a query sounds does not.
        shifted = found.copy()
        shifted[FEATURES.index("near")] += floor - 0.2
        odds.append(relevance(encoder, list(shifted), candidates=among))
    np.testing.assert_allclose(odds[0], odds[1], atol=1e-4)
    np.testing.assert_array_equal(found, before)


def test_the_bundled_encoder_is_not_shifted(encoder: StaticEncoder) -> None:
    named = HashEncoder()
    named.name, named.floor = encoder.name, 0.4
    nothing = [np.zeros(1, dtype=np.float32)] * len(FEATURES)
    assert relevance(named, nothing, candidates=False) == relevance(encoder, nothing, candidates=False)


def test_texts_are_relevant_a_little_above_the_floor_or_from_where_the_encoder_says() -> None:
    encoder = HashEncoder()
    assert default_relevant(encoder) == -1.0
    del encoder.relevant
    encoder.floor = 0.37
    assert default_relevant(encoder) == pytest.approx(0.42)
    assert default_relevant(object()) == pytest.approx(0.25)


class Unreferable:
    """An encoder that cannot be referred to weakly."""

    __slots__ = ("inner",)
    borrow = False
    relevant = -1.0

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


@pytest.mark.parametrize("query", ["How do I repair a bicycle tyre?", "Which phone should I choose?"])
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


async def test_what_preferences_borrow_is_never_encoded_synchronously_in_asynchronous_calls() -> None:
    encoder = OnlyAsync()
    encoder.borrow = True
    memory = EpicMemory(encoder=encoder, verifier=KeepAll())
    for preference in PREFERENCES[:2]:
        await memory.aadd_preference(preference)
    await memory.aadd(["hotels with casinos", "quiet mountain trails"])
    (lent,) = borrowed([Preference(text=PREFERENCES[0])])
    assert lent is not None and {*lent.follows, *lent.breaks} <= encoder.texts.keys()
    assert [one.kept async for one in memory.ajudge(["hotels with casinos"])] == [True]
    await memory.aadd_preference(PREFERENCES[2])
    await memory.areplace_preference(PREFERENCES[1], "I love mountains.")
    assert (await memory.asearch("hotels with casinos"))[0].item.text == "hotels with casinos"


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
