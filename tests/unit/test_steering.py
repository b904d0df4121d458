"""Query steering: Eq. 7-8 in paper mode, and what signed and off do instead."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epic_core import Preference, QuerySteering
from epic_core.aspects import parse_aspects
from epic_core.encoders import StaticEncoder, default_encoder
from epic_core.errors import DuplicatePreferenceError, InvalidInputError
from epic_core.steering import AVOIDED_WEIGHT, LIKED_WEIGHT, TEMPERATURE, TURN, Steerings
from helpers import HashEncoder

PREFERENCES = ("I avoid hotels with casinos.", "I love quiet mountain trails.", "I prefer trains over flights.")
QUERIES = ("a hotel in Las Vegas", "which trail in the mountains", "how to travel to Rome", "zzz", "🙂", "素食")


@pytest.fixture(scope="module")
def encoder() -> StaticEncoder:
    return default_encoder()


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))


def softmax_weights(similarities: np.ndarray, floor: float) -> np.ndarray:
    weights = np.where(similarities >= floor, np.exp((similarities - similarities.max()) / TEMPERATURE), 0.0)
    return weights / weights.sum()


@pytest.mark.parametrize("query", QUERIES)
def test_paper_mode_is_equations_7_and_8(encoder: StaticEncoder, query: str) -> None:
    q = encoder.encode([query])[0].astype(np.float64)
    p = encoder.encode(PREFERENCES).astype(np.float64)
    nearest = int(np.argmax(p @ q))
    expected = (q + p[nearest]) / np.linalg.norm(q + p[nearest])

    steering = QuerySteering(encoder, PREFERENCES, "paper")
    steered = steering.steer(query)

    np.testing.assert_allclose(steered.vector, expected, atol=1e-6)
    index = steering.steer_for_index(steered.query)
    np.testing.assert_array_equal(steered.vector, index.vector)
    assert [s.preference.text for s in steered.preferences] == [PREFERENCES[nearest]]
    assert steered.preferences[0].weight == 1.0
    assert steered.preferences[0].similarity == pytest.approx(cosine(q, p[nearest]), abs=1e-6)
    assert steered.nearest == steered.preferences[0].similarity


@given(seed=st.integers(0, 2**32 - 1), dimension=st.integers(2, 64), count=st.integers(1, 12))
@settings(deadline=None)
def test_paper_mode_is_eq_7_and_8_for_any_vectors(seed: int, dimension: int, count: int) -> None:
    random = np.random.default_rng(seed)
    q, *p = random.normal(size=(count + 1, dimension))
    q, p = q / np.linalg.norm(q), np.array([row / np.linalg.norm(row) for row in p])
    steering = QuerySteering(
        HashEncoder(dimension), [f"p{n}" for n in range(count)], "paper", vectors=p.astype(np.float32)
    )
    steered = steering.steer_vector(q.astype(np.float32))
    total = q + p[np.argmax(p @ q)]
    if np.linalg.norm(total) > 1e-3:
        np.testing.assert_allclose(steered.vector, total / np.linalg.norm(total), atol=1e-3)


def test_paper_mode_leaves_a_query_that_cancels_out_as_it_is() -> None:
    steering = QuerySteering(HashEncoder(4), ["p"], "paper", vectors=np.array([[-1, 0, 0, 0]], dtype=np.float32))
    query = np.array([1, 0, 0, 0], dtype=np.float32)
    np.testing.assert_array_equal(steering.steer_vector(query).vector, query)


@pytest.mark.parametrize("query", QUERIES)
def test_off_mode_changes_nothing(encoder: StaticEncoder, query: str) -> None:
    steered = QuerySteering(encoder, PREFERENCES, "off").steer(query)
    plain = encoder.encode([query])[0]
    np.testing.assert_array_equal(steered.vector, plain)
    assert steered.preferences == ()
    assert steered.nearest is not None


def test_signed_mode_searches_an_index_towards_every_near_preference(encoder: StaticEncoder) -> None:
    steering = QuerySteering(encoder, PREFERENCES, "signed", floor=-1.0)
    q, p = encoder.encode([QUERIES[0]])[0], encoder.encode(PREFERENCES)
    total = q + softmax_weights(p @ q, -1.0) @ p
    np.testing.assert_allclose(steering.steer_for_index(q).vector, total / np.linalg.norm(total), atol=1e-6)


def signed_vector(encoder: StaticEncoder, query: str) -> tuple[np.ndarray, np.ndarray]:
    """By its definition: t + s * turn, of length one, without the turn's part that points away from t; and t."""
    q, p = encoder.encode([query])[0].astype(np.float64), encoder.encode(PREFERENCES)
    topic, turn = q.copy(), np.zeros_like(q)
    for weight, own, preference in zip(softmax_weights(p @ q, -1.0), p, PREFERENCES, strict=True):
        aspects = parse_aspects(preference)
        topic += weight * own
        if aspects.liked:
            turn += weight * LIKED_WEIGHT * encoder.encode(aspects.liked).mean(axis=0)
        if aspects.avoided:
            turn -= weight * AVOIDED_WEIGHT * encoder.encode(aspects.avoided).mean(axis=0)
    along = topic / np.linalg.norm(topic)
    if turn @ along < 0.0:
        turn -= (turn @ along) * along
    total = topic + TURN * turn
    return total / np.linalg.norm(total), along


@pytest.mark.parametrize("query", QUERIES)
def test_signed_mode_turns_a_query_to_the_right_side_of_its_topic(encoder: StaticEncoder, query: str) -> None:
    steered = QuerySteering(encoder, PREFERENCES, "signed", floor=-1.0).steer(query)
    expected, topic = signed_vector(encoder, query)
    np.testing.assert_allclose(steered.vector, expected, atol=1e-6)
    assert steered.vector @ topic > 0.3


def test_what_is_avoided_does_not_turn_a_search_from_what_was_asked(encoder: StaticEncoder) -> None:
    texts = [
        "The Bellmore is a quiet hotel off the Strip, without a casino.",
        "The Golden Ace is a hotel on the Strip with a casino floor.",
        "Lentil soup: fry onions in olive oil, add red lentils; a vegan dinner.",
        "James Watt improved the steam engine with a separate condenser.",
    ]
    vectors = encoder.encode(texts)
    steering = QuerySteering(encoder, ["I avoid hotels with on-site casinos."], "signed")
    for query in ("Which hotel should I book?", "Where should I stay in Las Vegas?"):
        scores = vectors @ steering.steer(query).vector
        assert min(scores[:2]) > max(scores[2:])
        plain = vectors @ encoder.encode([query])[0]
        assert scores[0] - scores[1] > plain[0] - plain[1]


@pytest.mark.parametrize("mode", ["paper", "signed", "off"])
@pytest.mark.parametrize("query", QUERIES)
def test_vectors_have_length_one_and_weights_sum_to_one(encoder: StaticEncoder, mode: str, query: str) -> None:
    steered = QuerySteering(encoder, PREFERENCES, mode, floor=-1.0).steer(query)
    for vector in (steered.vector, steered.query):
        assert vector.shape == (encoder.dimension,)
        assert vector.dtype == np.float32
        assert np.linalg.norm(vector) == pytest.approx(1.0, abs=1e-5)
    if mode != "off":
        assert sum(s.weight for s in steered.preferences) == pytest.approx(1.0, abs=1e-6)
    assert all(type(s.weight) is float and type(s.similarity) is float for s in steered.preferences)
    assert sorted(steered.preferences, key=lambda s: -s.similarity) == list(steered.preferences)


@pytest.mark.parametrize("mode", ["paper", "signed"])
def test_below_the_floor_nothing_steers(encoder: StaticEncoder, mode: str) -> None:
    steering = QuerySteering(encoder, PREFERENCES, mode, floor=0.99)
    steered = steering.steer(QUERIES[0])
    np.testing.assert_array_equal(steered.vector, encoder.encode([QUERIES[0]])[0])
    assert steered.preferences == ()
    assert steered.nearest is not None and steered.nearest < 0.99


def test_only_preferences_that_reach_the_floor_steer() -> None:
    encoder = HashEncoder()
    steering = QuerySteering(encoder, ["red wine", "red cars", "blue sky"], "signed", floor=0.3)
    assert {s.preference.text for s in steering.steer("red wine").preferences} == {"red wine", "red cars"}


def test_a_similarity_equal_to_the_floor_steers() -> None:
    steering = QuerySteering(HashEncoder(), ["red wine"], "signed", floor=1.0)
    steering.vectors = np.round(steering.vectors, 6)
    steering.floor = float(steering.vectors[0] @ steering.vectors[0])
    assert steering.steer_vector(steering.vectors[0]).preferences


def test_the_default_floor_is_the_encoders_and_none_in_paper_mode() -> None:
    encoder = HashEncoder()
    encoder.floor = 0.37
    assert QuerySteering(encoder, ["a"], "signed").floor == 0.37
    assert QuerySteering(encoder, ["a"], "paper").floor == -1.0


def test_paper_mode_steers_by_an_unrelated_preference_too() -> None:
    assert QuerySteering(HashEncoder(), ["red wine"], "paper").steer("blue sky").preferences


@pytest.mark.parametrize("mode", ["paper", "signed", "off"])
@pytest.mark.parametrize("query", QUERIES)
async def test_asteer_gives_what_steer_gives(encoder: StaticEncoder, mode: str, query: str) -> None:
    one = QuerySteering(encoder, PREFERENCES, mode).steer(query)
    other = await (await QuerySteering.acreate(encoder, PREFERENCES, mode)).asteer(query)
    np.testing.assert_array_equal(one.vector, other.vector)
    assert one.preferences == other.preferences
    assert one.nearest == other.nearest


@pytest.mark.parametrize("mode", ["paper", "off"])
def test_score_is_the_cosine_with_the_steered_query(encoder: StaticEncoder, mode: str) -> None:
    texts = ["a casino hotel", "a quiet guesthouse", "a bank"]
    steering = QuerySteering(encoder, PREFERENCES, mode)
    expected = encoder.encode(texts) @ steering.steer(QUERIES[0]).vector
    np.testing.assert_allclose(steering.score(QUERIES[0], texts), expected, atol=1e-6)


def test_signed_score_rewards_liked_and_penalises_avoided_phrases(encoder: StaticEncoder) -> None:
    texts = ["a night train to Rome", "a cheap flight to Rome", "a bank"]
    query = "how to travel to Rome"
    vectors, q = encoder.encode(texts), encoder.encode([query])[0]
    expected = vectors @ q
    p = encoder.encode(PREFERENCES)
    for weight, preference in zip(softmax_weights(p @ q, -1.0), PREFERENCES, strict=True):
        aspects = parse_aspects(preference)
        if aspects.liked:
            expected = expected + weight * LIKED_WEIGHT * (vectors @ encoder.encode(aspects.liked).T).max(axis=1)
        if aspects.avoided:
            expected = expected - weight * AVOIDED_WEIGHT * (vectors @ encoder.encode(aspects.avoided).T).max(axis=1)
    steering = QuerySteering(encoder, PREFERENCES, "signed", floor=-1.0)
    np.testing.assert_allclose(steering.score(query, texts), expected, atol=1e-5)


@pytest.mark.parametrize(
    ("preference", "query", "liked", "avoided"),
    [
        (
            "I avoid hotels with casinos.",
            "Which hotel should I book in Las Vegas?",
            "A small hotel with a garden and a library.",
            "A hotel with a casino, slot machines and poker tables.",
        ),
        (
            "I prefer trains over flights.",
            "How should I travel from Paris to Rome?",
            "Take the night train; the railway runs every day.",
            "Take a flight; the airline flies every day.",
        ),
        (
            "I dislike seafood.",
            "What should I order for dinner?",
            "A bowl of tomato soup with bread.",
            "A platter of seafood with shrimp and oysters.",
        ),
    ],
)
def test_signed_prefers_what_is_liked_over_what_is_avoided(
    encoder: StaticEncoder, preference: str, query: str, liked: str, avoided: str
) -> None:
    above, below = QuerySteering(encoder, [preference], "signed", floor=-1.0).score(query, [liked, avoided])
    assert above > below


def test_paper_mode_moves_towards_what_is_avoided(encoder: StaticEncoder) -> None:
    texts = ["A hotel with a casino, slot machines and poker tables."]
    query, preferences = "Which hotel should I book in Las Vegas?", ["I avoid hotels with casinos."]
    paper = QuerySteering(encoder, preferences, "paper").steer(query).vector
    signed = QuerySteering(encoder, preferences, "signed", floor=-1.0).steer(query).vector
    (casino,) = encoder.encode(texts)
    assert casino @ paper > casino @ signed


@pytest.mark.parametrize("mode", ["", "Paper", "sign", None, 3])
def test_an_unknown_mode_is_an_error_that_lists_the_modes(mode: object) -> None:
    with pytest.raises(InvalidInputError, match="paper, signed, off"):
        QuerySteering(HashEncoder(), ["a"], mode)  # type: ignore[arg-type]


@pytest.mark.parametrize("floor", [-1.1, 1.1, float("nan")])
def test_a_floor_that_is_no_cosine_is_an_error(floor: float) -> None:
    with pytest.raises(InvalidInputError, match="floor"):
        QuerySteering(HashEncoder(), ["a"], floor=floor)


@pytest.mark.parametrize("mode", ["paper", "signed", "off"])
def test_without_preferences_a_query_is_left_as_it_is(mode: str) -> None:
    encoder = HashEncoder()
    steering = QuerySteering(encoder, [], mode)
    steering.prepare()
    steered = steering.steer("red wine")
    np.testing.assert_array_equal(steered.vector, encoder.vector("red wine"))
    assert steered.nearest is None
    np.testing.assert_allclose(steering.score("red wine", ["red wine", "sky"]), [1.0, 0.0], atol=1e-6)


@pytest.mark.parametrize("mode", ["paper", "signed", "off"])
def test_score_of_no_texts_is_empty(mode: str) -> None:
    assert QuerySteering(HashEncoder(), ["red wine"], mode).score("red wine", []).shape == (0,)


@pytest.mark.parametrize("mode", ["paper", "signed", "off"])
def test_preferences_are_encoded_once(mode: str) -> None:
    encoder = HashEncoder()
    steering = QuerySteering(encoder, ["I like red wine.", "I avoid beer."], mode)
    for n in range(3):
        steering.steer(f"query {n}")
        steering.score(f"again {n}", ["text"])
    repeated = {text: n for text, n in encoder.texts.items() if n > 1}
    assert repeated == {"text": 3}


def test_known_vectors_are_not_encoded_again() -> None:
    encoder = HashEncoder()
    vectors = np.stack([encoder.vector("red wine")])
    QuerySteering(encoder, [Preference(text="red wine")], "paper", vectors=vectors).steer("red")
    assert dict(encoder.texts) == {"red": 1}


def test_only_the_named_rows_steer() -> None:
    steering = QuerySteering(HashEncoder(), ["red wine", "red cars"], "signed")
    steered = steering.steer_vector(steering.vectors[0], only=np.array([1]))
    assert [s.preference.text for s in steered.preferences] == ["red cars"]


@pytest.mark.parametrize("mode", ["paper", "signed", "off"])
async def test_the_async_way_never_encodes_synchronously(mode: str) -> None:
    encoder = HashEncoder()
    steering = await QuerySteering.acreate(encoder, PREFERENCES, mode, floor=-1.0)
    await steering.asteer("a hotel in Las Vegas")
    await Steerings(encoder).aof(PREFERENCES, mode)
    assert not encoder.sync_threads


async def test_asteer_prepares_asynchronously_what_the_constructor_left_out() -> None:
    encoder = HashEncoder()
    steering = QuerySteering(encoder, PREFERENCES, "signed", floor=-1.0)
    before = set(encoder.texts)
    encoder.sync_threads.clear()
    await steering.asteer("a hotel")
    assert not encoder.sync_threads
    assert set(encoder.texts) - before > {"a hotel"}


@pytest.mark.parametrize("mode", ["paper", "signed", "off"])
async def test_acreate_without_preferences_leaves_queries_as_they_are(mode: str) -> None:
    encoder = HashEncoder()
    steered = await (await QuerySteering.acreate(encoder, [], mode)).asteer("red wine")
    np.testing.assert_array_equal(steered.vector, encoder.vector("red wine"))


async def test_a_users_query_is_encoded_as_a_query() -> None:
    class Asymmetric(HashEncoder):
        def encode_query(self, text: str) -> np.ndarray:
            return self.vector(f"query {text}")

    steering = QuerySteering(Asymmetric(), PREFERENCES, "off")
    expected = steering.encoder.vector("query red wine")  # type: ignore[attr-defined]
    np.testing.assert_array_equal(steering.steer("red wine").query, expected)
    np.testing.assert_array_equal((await steering.asteer("red wine")).query, expected)


async def test_each_users_preferences_are_encoded_when_they_first_steer_and_kept() -> None:
    encoder = HashEncoder()
    steerings = Steerings(encoder)
    users = [(f"I like wine number {n}.", "I avoid beer.") for n in range(3)]
    for _ in range(2):
        for user in users:
            steerings.of(user, "signed").steer("wine")
            await (await steerings.aof(user, "signed")).asteer("wine")
    texts = dict(encoder.texts)
    del texts["wine"]
    assert texts["I avoid beer."] == 3
    assert all(texts[user[0]] == 1 for user in users)


def test_no_more_users_than_the_size_are_kept() -> None:
    encoder = HashEncoder()
    steerings = Steerings(encoder, size=2)
    first = steerings.of(("a",), "paper")
    steerings.of(("b",), "paper")
    assert steerings.of(("a",), "paper") is first
    steerings.of(("c",), "paper")  # in place of b, which was used longest ago
    assert steerings.of(("a",), "paper") is first
    steerings.of(("b",), "paper")
    assert encoder.texts["a"] == 1
    assert encoder.texts["b"] == 2


def test_modes_and_orders_of_preferences_are_told_apart() -> None:
    steerings = Steerings(HashEncoder())
    kinds = [steerings.of(who, mode) for who in (("a", "b"), ("b", "a")) for mode in ("paper", "signed")]
    assert [kind.mode for kind in kinds] == ["paper", "signed"] * 2
    assert [kind.preferences[0].text for kind in kinds] == ["a", "a", "b", "b"]


def test_several_threads_can_steer_at_the_same_time(encoder: StaticEncoder) -> None:
    steerings = Steerings(encoder, size=3)
    users = [(f"I like number {n}.", *PREFERENCES) for n in range(5)]
    expected = [QuerySteering(encoder, user, "signed").steer(QUERIES[0]).vector for user in users]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda n: steerings.of(users[n % 5], "signed").steer(QUERIES[0]).vector, range(200)))
    for number, vector in enumerate(found):
        np.testing.assert_array_equal(vector, expected[number % 5])


async def test_what_is_no_preference_is_an_error_for_each_user() -> None:
    steerings = Steerings(HashEncoder())
    with pytest.raises(DuplicatePreferenceError, match="twice"):
        steerings.of(("a", "A"), "signed")
    with pytest.raises(InvalidInputError, match="empty"):
        await steerings.aof((" ",), "signed")
    with pytest.raises(InvalidInputError, match="paper, signed, off"):
        steerings.of(("a",), "sideways")  # type: ignore[arg-type]
