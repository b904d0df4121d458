"""Query steering: Eq. 7-8 in paper mode, and what signed and off do instead."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from epic_core import Preference, QuerySteering
from epic_core.encoders import StaticEncoder, default_encoder
from epic_core.errors import DuplicatePreferenceError, InvalidInputError
from epic_core.preferences.evidence import AspectEmbeddings, embed_aspects, highest_two, stance_scores, worded
from epic_core.preferences.parser import parse_aspects
from epic_core.steering.query_steering import SteeredQuery, Steerings
from epic_core.steering.relevance import (
    RELEVANT,
    Nearness,
    Samples,
    default_relevant,
    features,
    relevance,
    sample_texts,
)
from epic_core.steering.signed import (
    ABOUT,
    AVOIDED_WEIGHT,
    KAPPA,
    LEAST,
    LIKED_WEIGHT,
    MIDDLE,
    OFF_TOPIC,
    SATURATION,
    SAYS,
    SAYS_FOUND,
    SAYS_WRITTEN,
    SLACK,
    STEEPNESS,
    STEP,
    TIE,
    TURN,
)
from epic_core.text.stems import words_of
from epic_core.types import FloatArray
from epic_core.types.preferences import Aspects, Expansion
from helpers import HashEncoder

PREFERENCES = ("I avoid hotels with casinos.", "I love quiet mountain trails.", "I prefer trains over flights.")
QUERIES = ("a hotel in Las Vegas", "which trail in the mountains", "how to travel to Rome", "zzz", "🙂", "素食")


@pytest.fixture(scope="module")
def encoder() -> StaticEncoder:
    return default_encoder()


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))


def samples_of(encoder: StaticEncoder) -> Samples:
    return Samples.of(encoder.encode(sample_texts()))


def chance(odds: float) -> float:
    """How much steering counts by the highest rel(p)."""
    return float(1.0 / (1.0 + np.exp(-STEEPNESS * odds)))


def shares(near: np.ndarray, odds: np.ndarray, floor: float | None) -> tuple[np.ndarray, float]:
    """w_p ~ exp(KAPPA near(p)) of those that steer, and how much they count; of preferences that do not clash."""
    steers = odds >= LEAST if floor is None else near >= floor
    if not steers.any():
        return np.zeros(len(odds)), 0.0
    weights = np.where(steers, np.exp(KAPPA * near.astype(np.float64)), 0.0)
    strength = chance(float(odds[steers].max())) if floor is None else 1.0
    return weights / weights.sum(), strength


def shares_by_query(
    encoder: StaticEncoder,
    preferences: Sequence[str],
    q: np.ndarray,
    floor: float | None,
    candidates: np.ndarray | None = None,
) -> tuple[np.ndarray, float]:
    p = encoder.encode(preferences)
    found = features(q, p, samples_of(encoder), Nearness(p, embed_aspects(encoder, preferences)), candidates)
    return shares(found[0], relevance(encoder, found, candidates=candidates is not None), floor)


@pytest.mark.parametrize("query", QUERIES[:2])
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


@pytest.mark.parametrize("query", QUERIES[:2])
def test_off_mode_changes_nothing(encoder: StaticEncoder, query: str) -> None:
    steered = QuerySteering(encoder, PREFERENCES, "off").steer(query)
    plain = encoder.encode([query])[0]
    np.testing.assert_array_equal(steered.vector, plain)
    assert steered.preferences == ()
    assert steered.nearest is not None


@pytest.mark.parametrize("floor", [-1.0, 0.1, None])
@pytest.mark.parametrize("query", QUERIES)
def test_signed_mode_searches_an_index_towards_every_relevant_preference(
    encoder: StaticEncoder, query: str, floor: float | None
) -> None:
    steering = QuerySteering(encoder, PREFERENCES, "signed", floor=floor)
    q, p = encoder.encode([query])[0], encoder.encode(PREFERENCES)
    weights, strength = shares_by_query(encoder, PREFERENCES, q, floor)
    total = q + strength * weights @ p
    steered = steering.steer_for_index(q)
    np.testing.assert_allclose(steered.vector, total / np.linalg.norm(total), atol=1e-6)
    assert steered.strength == pytest.approx(strength, abs=1e-5)
    found = {chosen.preference.text: chosen.weight for chosen in steered.preferences}
    expected = {text: weight for text, weight in zip(PREFERENCES, weights, strict=True) if weight}
    assert found == pytest.approx(expected, abs=1e-6)


def signed_vector(encoder: StaticEncoder, query: str, floor: float | None) -> tuple[np.ndarray, np.ndarray]:
    """By its definition: t + s * turn, of length one, without the turn's part that points away from t; and t."""
    q, p = encoder.encode([query])[0].astype(np.float64), encoder.encode(PREFERENCES)
    topic, turn = q.copy(), np.zeros_like(q)
    weights, strength = shares_by_query(encoder, PREFERENCES, q.astype(np.float32), floor)
    for weight, own, preference in zip(strength * weights, p, PREFERENCES, strict=True):
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


@pytest.mark.parametrize("floor", [-1.0, None])
@pytest.mark.parametrize("query", QUERIES)
def test_signed_mode_turns_a_query_to_the_right_side_of_its_topic(
    encoder: StaticEncoder, query: str, floor: float | None
) -> None:
    steered = QuerySteering(encoder, PREFERENCES, "signed", floor=floor).steer(query)
    expected, topic = signed_vector(encoder, query, floor)
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


@pytest.mark.parametrize("mode", ["paper", "signed", "off"])
def test_there_is_no_floor_but_the_one_given(mode: str) -> None:
    encoder = HashEncoder()
    encoder.floor = 0.37
    assert QuerySteering(encoder, ["a"], mode).floor is None
    for floor in (-1.0, 0.0, 0.37, 1.0):
        assert QuerySteering(encoder, ["a"], mode, floor=floor).floor == floor


def test_paper_mode_steers_by_an_unrelated_preference_too() -> None:
    assert QuerySteering(HashEncoder(), ["red wine"], "paper").steer("blue sky").preferences


@pytest.mark.parametrize("mode", ["paper", "signed", "off"])
@pytest.mark.parametrize("query", [QUERIES[0], QUERIES[-1]])
async def test_asteer_gives_what_steer_gives(encoder: StaticEncoder, mode: str, query: str) -> None:
    one = QuerySteering(encoder, PREFERENCES, mode).steer(query)
    other = await (await QuerySteering.acreate(encoder, PREFERENCES, mode)).asteer(query)
    np.testing.assert_array_equal(one.vector, other.vector)
    assert one.preferences == other.preferences
    assert one.nearest == other.nearest


TEXTS = ["a night train to Rome", "a cheap flight to Rome", "a bank", "a casino hotel", "a quiet guesthouse", "..."]


@pytest.mark.parametrize("query", QUERIES[:2])
def test_score_in_paper_mode_is_the_cosine_with_eq_8(encoder: StaticEncoder, query: str) -> None:
    q, p, vectors = encoder.encode([query])[0], encoder.encode(PREFERENCES), encoder.encode(TEXTS)
    steered = q + p[np.argmax(p @ q)]
    expected = vectors @ (steered / np.linalg.norm(steered))
    np.testing.assert_allclose(QuerySteering(encoder, PREFERENCES, "paper").score(query, TEXTS), expected, atol=1e-6)


@pytest.mark.parametrize("query", QUERIES[:2])
def test_score_in_off_mode_is_the_cosine_with_the_query(encoder: StaticEncoder, query: str) -> None:
    expected = encoder.encode(TEXTS) @ encoder.encode([query])[0]
    np.testing.assert_allclose(QuerySteering(encoder, PREFERENCES, "off").score(query, TEXTS), expected, atol=1e-6)


def told_by_definition(
    encoder: StaticEncoder, sides: AspectEmbeddings, p: np.ndarray, q: np.ndarray, texts: Sequence[str]
) -> tuple[np.ndarray, np.ndarray]:
    """told_p(x) and about_p(x)."""
    x, beside = encoder.encode(texts), sides.expanded - np.outer(sides.expanded @ q, q)
    said = [words_of(text) for text in texts]
    found = stance_scores(sides, said, x @ sides.vectors.T, x @ q, sides.vectors @ q, x @ beside.T)
    return np.tanh(found / SATURATION), highest_two(x @ np.concatenate([p[None], sides.vectors, sides.expanded]).T)


def score_by_definition(
    encoder: StaticEncoder, preferences: Sequence[str], query: str, texts: Sequence[str], floor: float | None
) -> np.ndarray:
    """cos(q, x) + strength SAYS sum_p w_p told_p(x), on the scale of a cosine; of preferences that do not clash."""
    q, p, x = encoder.encode([query])[0], encoder.encode(preferences), encoder.encode(texts)
    weights, strength = shares_by_query(encoder, preferences, q, floor, x)
    scores = x @ q
    for weight, own, sides in zip(weights, p, embed_aspects(encoder, preferences), strict=True):
        scores = scores + strength * SAYS * weight * told_by_definition(encoder, sides, own, q, texts)[0]
    return scores / (1.0 + strength * SAYS)


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("floor", [-1.0, 0.3, None])
def test_signed_score_is_as_defined(encoder: StaticEncoder, query: str, floor: float | None) -> None:
    many = [*TEXTS, *(f"room {n} of a hotel" for n in range(10)), *(f"trail {n}" for n in range(5))]
    steering = QuerySteering(encoder, PREFERENCES, "signed", floor=floor)
    for texts in (TEXTS, many):
        expected = score_by_definition(encoder, PREFERENCES, query, texts, floor)
        # A share too small to be felt is left out.
        np.testing.assert_allclose(steering.score(query, texts), expected, atol=0.03)


EXPANDED = Preference(
    text="I avoid hotels with casinos.",
    expansion=Expansion(
        questions=("Where should I stay?",), follows=("a quiet guesthouse",), breaks=("slot machines", "poker rooms")
    ),
)


def found_by(
    steering: QuerySteering, q: np.ndarray, topics: np.ndarray, texts: Sequence[str]
) -> tuple[FloatArray, SteeredQuery]:
    """What `score_found` says of texts."""
    said = [words_of(text) for text in texts]

    def counted(_: int, sides: AspectEmbeddings) -> FloatArray:
        return np.array([worded(sides, one) for one in said], dtype=np.float32)

    return steering.score_found(q, topics.astype(np.float32), steering.encoder.encode(texts), counted)


@pytest.mark.parametrize("query", ["Which hotel should I book?", "a hotel in Las Vegas", "zzz"])
@pytest.mark.parametrize("preference", [EXPANDED, PREFERENCES[0]], ids=["written", "borrowed"])
@pytest.mark.parametrize("floor", [-1.0, None])
def test_what_was_found_is_scored_as_defined(
    encoder: StaticEncoder, query: str, preference: Preference | str, floor: float | None
) -> None:
    texts = [*TEXTS, *HOTELS]
    q, x = encoder.encode([query])[0], encoder.encode(texts)
    topics = x @ q + np.linspace(0.0, 0.3, len(texts))
    steering = QuerySteering(encoder, [preference], "signed", floor=floor)
    scores, steered = found_by(steering, q, topics, texts)
    (sides,) = embed_aspects(encoder, [preference])
    p = encoder.encode([PREFERENCES[0]])
    rel = features(q, p, samples_of(encoder), Nearness(p, [sides]), x)
    weights, strength = shares(rel[0], relevance(encoder, rel, candidates=True), floor)
    assert steered.strength == pytest.approx(strength, abs=1e-5)
    np.testing.assert_array_equal(steered.vector, q)
    expected = topics
    if weights.any():
        told, about = told_by_definition(encoder, sides, p[0], q, texts)
        speaks = 1.0 / (1.0 + np.exp(-STEP * (about - MIDDLE - default_relevant(encoder) + RELEVANT)))
        says = SAYS_WRITTEN if preference is EXPANDED else SAYS_FOUND
        expected = topics - OFF_TOPIC * np.maximum(topics.max() - topics - SLACK, 0.0)
        expected = expected + strength * (ABOUT * about + says * told * speaks)
        expected = expected / (1.0 + strength * (ABOUT + SAYS_WRITTEN))
    np.testing.assert_allclose(scores, expected, atol=1e-4)


def test_where_nothing_matters_what_was_found_keeps_its_topic(encoder: StaticEncoder) -> None:
    texts = ["James Watt improved the steam engine.", "A casino hotel."]
    q, topics = encoder.encode(["Who invented the steam engine?"])[0], np.array([0.8, -0.3], dtype=np.float32)
    scores, steered = found_by(QuerySteering(encoder, [PREFERENCES[0]], floor=0.99), q, topics, texts)
    np.testing.assert_array_equal(scores, topics)
    assert scores is not topics
    assert (steered.preferences, steered.strength) == ((), 0.0)


def test_a_text_about_something_else_neither_follows_a_preference_nor_breaks_it(encoder: StaticEncoder) -> None:
    # The same topic: what a text says counts where it speaks of what the preference is about.
    texts = ["A hotel without a casino.", "A hotel with a casino.", "Steam without a pump.", "Steam with a pump."]
    steering = QuerySteering(encoder, ["I avoid hotels with casinos."], "signed", floor=-1.0)
    q = encoder.encode(["Which hotel should I book?"])[0]
    scores, _ = found_by(steering, q, np.full(4, 0.3), texts)
    assert scores[0] - scores[1] > 10 * abs(scores[2] - scores[3])


@given(seed=st.integers(0, 2**32 - 1), floor=st.sampled_from([None, -1.0]))
def test_scores_lie_on_the_scale_of_a_cosine(seed: int, floor: float | None) -> None:
    random = np.random.default_rng(seed)
    rows = random.normal(size=(9, 16)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    steering = QuerySteering(HashEncoder(16), PREFERENCES, "signed", floor=floor)
    scores = steering.score_texts(rows[0], ["a casino", "no casino", "trains", "flights", "", "a", "b", "c"], rows[1:])
    assert np.abs(scores).max() <= 1.0 + 1e-5


def unit(*vector: float) -> np.ndarray:
    return (np.array(vector) / np.linalg.norm(vector)).astype(np.float32)


def at(*cosines: float) -> np.ndarray:
    """Preferences with given similarities to the query (1, 0, ...), otherwise at right angles."""
    rows = np.zeros((len(cosines), len(cosines) + 1), dtype=np.float32)
    for row, cosine in enumerate(cosines):
        rows[row, 0], rows[row, row + 1] = cosine, np.sqrt(1.0 - cosine**2)
    return rows


class Told(HashEncoder):
    """Gives texts the vectors it was told, and all others the same one: no query sounds like any kind of question."""

    def __init__(self, dimension: int, **vectors: np.ndarray) -> None:
        super().__init__(dimension)
        self.told = vectors

    def vector(self, text: str) -> np.ndarray:
        return self.told.get(text, np.eye(1, self.dimension, self.dimension - 1, dtype=np.float32)[0])


def by_similarity(cosine: float) -> float:
    """rel(p) of a preference so similar to a query that sounds like no question."""
    found = [np.array([value], dtype=np.float32) for value in (cosine, 0.0, 0.0)]
    return float(relevance(HashEncoder(), found, candidates=False)[0])


def similarity_for(wanted: float) -> float:
    """The similarity of which `by_similarity` is so much."""
    start = by_similarity(0.0)
    return (wanted - start) / (by_similarity(1.0) - start)


# Differences of similarities to a query: of about equally relevant preferences, and of others.
CLOSE = 0.5 * TIE
APART = 3.0 * CLOSE


def steered_by(*stated: tuple[float, Preference], floor: float | None = 0.0) -> SteeredQuery:
    """A query steered by preferences of given similarities to it."""
    vectors = at(*(cosine for cosine, _ in stated))
    preferences = [preference for _, preference in stated]
    steering = QuerySteering(Told(vectors.shape[1]), preferences, "signed", floor=floor, vectors=vectors)
    return steering.steer_for_index(np.eye(1, vectors.shape[1], dtype=np.float32)[0])


def names(steered: SteeredQuery) -> list[str]:
    return [chosen.preference.text for chosen in steered.preferences]


def likes(name: str, *liked: str, firmness: float = 0.75) -> Preference:
    return Preference(text=name, aspects=Aspects(liked=liked, firmness=firmness))


def avoids(name: str, *avoided: str, firmness: float = 0.75) -> Preference:
    return Preference(text=name, aspects=Aspects(avoided=avoided, firmness=firmness))


FOR, AGAINST = likes("for", "spicy food"), avoids("against", "spicy food")
FIRMLY_FOR, FIRMLY_AGAINST = likes("for", "spicy food", firmness=1.0), avoids("against", "spicy food", firmness=1.0)
BOTH_SIDES = Preference(text="second", aspects=Aspects(liked=("cold beer",), avoided=("red wine",)))
WINE, NO_BEER = likes("wine", "red wine"), avoids("beer", "cold beer")
# Where a preference begins to be relevant.
START = similarity_for(LEAST)

Stated = list[tuple[float, Preference]]
CLASHES: dict[str, tuple[Stated, float | None, list[str]]] = {
    "the more relevant one steers": ([(0.7 + APART, FOR), (0.7, FIRMLY_AGAINST)], 0.0, ["for"]),
    "in any order": ([(0.7, FIRMLY_AGAINST), (0.7 + APART, FOR)], 0.0, ["for"]),
    "the more relevant one is against": ([(0.7, FIRMLY_FOR), (0.7 + APART, AGAINST)], 0.0, ["against"]),
    "in any order against": ([(0.7 + APART, AGAINST), (0.7, FIRMLY_FOR)], 0.0, ["against"]),
    "of about equally relevant ones the firmer": ([(0.7, FOR), (0.7 - CLOSE, FIRMLY_AGAINST)], 0.0, ["against"]),
    "the firmer stated first": ([(0.7 - CLOSE, FIRMLY_AGAINST), (0.7, FOR)], 0.0, ["against"]),
    "of equally firm ones the later": ([(0.7, FOR), (0.7 - CLOSE, AGAINST)], 0.0, ["against"]),
    "the later is for": ([(0.7 - CLOSE, AGAINST), (0.7, FOR)], 0.0, ["for"]),
    "two things": ([(0.7, WINE), (0.7 - CLOSE, NO_BEER)], 0.0, ["wine", "beer"]),
    "one thing twice": ([(0.7, WINE), (0.7 - CLOSE, likes("two", "red wine"))], 0.0, ["wine", "two"]),
    "who lost overrules nobody": (
        [(0.9, WINE), (0.9 - APART, BOTH_SIDES), (0.9 - 2 * APART, NO_BEER)],
        0.0,
        ["wine", "beer"],
    ),
    "below the floor": ([(0.3 + CLOSE / 2, FOR), (0.3 - CLOSE / 2, FIRMLY_AGAINST)], 0.3, ["for"]),
    "above the floor": ([(0.3 + CLOSE / 2, FOR), (0.3 - CLOSE / 2, FIRMLY_AGAINST)], 0.2, ["against"]),
    "not relevant": ([(START + CLOSE / 2, FOR), (START - CLOSE / 2, FIRMLY_AGAINST)], None, ["for"]),
    "relevant": ([(START + 1.5 * CLOSE, FOR), (START + CLOSE / 2, FIRMLY_AGAINST)], None, ["against"]),
}
# What is liked, what is avoided, and whether these are opposites.
WORDED = [
    ("spicy food", "Spicy foods", True),
    ("food that is spicy", "the spicy food", True),
    ("素食", "素食", True),
    ("food", "spicy food", False),
    ("spicy food", "hot food", False),
    # Nothing of these is a word.
    ("🙂", "🎲", False),
    ("...", "🎲", False),
    # It is liked without something, and avoided with that.
    ("gluten-free bread", "bread with gluten", False),
    ("caffeine-free drinks", "drinks with caffeine", False),
]


@pytest.mark.parametrize(("stated", "floor", "steer"), CLASHES.values(), ids=CLASHES)
def test_of_opposites_one_steers(stated: Stated, floor: float | None, steer: list[str]) -> None:
    assert names(steered_by(*stated, floor=floor)) == steer


@pytest.mark.parametrize(("liked", "avoided", "clash"), WORDED)
def test_opposites_are_told_by_their_words(liked: str, avoided: str, clash: bool) -> None:
    found = names(steered_by((0.7, likes("for", liked)), (0.7 - CLOSE, avoids("against", avoided))))
    assert found == (["against"] if clash else ["for", "against"])


def test_opposites_are_told_among_the_named_rows() -> None:
    preferences = [likes("other", "zorbs"), likes("for", "spicy food"), avoids("against", "spicy food")]
    vectors = at(0.5, 0.8, 0.6)
    steering = QuerySteering(Told(4), preferences, "signed", floor=0.0, vectors=vectors)
    query = np.eye(1, 4, dtype=np.float32)[0]
    assert names(steering.steer_for_index(query, only=np.array([2, 1]))) == ["for"]
    assert names(steering.steer_for_index(query, only=np.array([2, 0]))) == ["against", "other"]


def test_an_opposite_that_lost_leaves_its_share_to_the_others() -> None:
    steered = steered_by(
        (0.8, likes("for", "spicy food")), (0.6, avoids("against", "spicy food")), (0.7, likes("w", "wine"))
    )
    assert names(steered) == ["for", "w"]
    assert sum(chosen.weight for chosen in steered.preferences) == pytest.approx(1.0, abs=1e-6)


TWO = np.stack([unit(1, 0, 0.3), unit(0, 1, 0.3)])


def two_wishes(floor: float = -1.0) -> QuerySteering:
    encoder = Told(3, zorbs=TWO[0], fleems=TWO[1])
    return QuerySteering(encoder, ["I like zorbs.", "I like fleems."], "signed", floor=floor, vectors=TWO)


def test_candidates_say_which_preference_is_heaviest() -> None:
    query = unit(1, 0.8, 0)
    steering = two_wishes()
    assert names(steering.steer_for_index(query))[0] == "I like zorbs."
    steered = steering.steer_for_index(query, candidates=np.stack([unit(0.1, 1, 0), unit(0, 1, 0.1)]))
    assert names(steered)[0] == "I like fleems."
    weights = [chosen.weight for chosen in steered.preferences]
    assert weights[0] > weights[1] > 0.0
    assert sum(weights) == pytest.approx(1.0, abs=1e-6)
    # What is reported is the similarity to the query itself.
    assert steered.preferences[0].similarity == pytest.approx(float(TWO[1] @ query), abs=1e-6)
    assert steered.nearest == pytest.approx(float(TWO[0] @ query), abs=1e-6)


@pytest.mark.parametrize("mode", ["paper", "off"])
def test_candidates_change_nothing_in_other_modes(mode: str) -> None:
    steering = QuerySteering(HashEncoder(3), ["a", "b"], mode, vectors=TWO)
    query, candidates = unit(1, 0.8, 0), np.stack([unit(0, 1, 0)])
    one, other = steering.steer_vector(query), steering.steer_vector(query, candidates=candidates)
    np.testing.assert_array_equal(one.vector, other.vector)
    assert one.preferences == other.preferences


@pytest.mark.parametrize("given", [False, True])
def test_strength_is_the_chance_that_any_preference_matters(given: bool) -> None:
    # Of one preference, and with candidates like the query, all goes by one similarity.
    query, preference = unit(1, 0), likes("wine", "zorbs")
    candidates = query[None] if given else None

    def relevance_at(cosine: float) -> float:
        found = [np.array([value], dtype=np.float32) for value in (cosine, 0.0, 0.0)]
        return float(relevance(HashEncoder(), found, candidates=given)[0])

    start = relevance_at(0.0)
    slope = relevance_at(1.0) - start
    found = []
    wanted = [LEAST - 0.01, LEAST + 0.01, -0.5, 0.0, 1.0, 3.0]
    for odds in wanted:
        vectors = at((odds - start) / slope)
        steering = QuerySteering(Told(2, zorbs=vectors[0]), [preference], "signed", vectors=vectors)
        steered = steering.steer_for_index(query, candidates=candidates)
        found.append((steered.strength, float(np.linalg.norm(steered.vector - query))))
        assert steering.matters(query, candidates=candidates) == [(preference, pytest.approx(chance(odds), abs=1e-3))]
    strengths = [strength for strength, _ in found]
    assert found[0] == (0.0, 0.0)
    assert strengths[1:] == pytest.approx([chance(odds) for odds in wanted[1:]], abs=1e-3)
    assert strengths[3] == pytest.approx(0.5, abs=1e-3)
    # What steers little moves the query little.
    assert 0.0 < found[1][1] < found[2][1] < found[3][1]


@pytest.mark.parametrize("floor", [-0.5, 0.1, 0.6])
def test_what_reaches_a_given_floor_counts_in_full(floor: float) -> None:
    wine = likes("wine", "red wine")
    assert steered_by((floor - 0.01, wine), floor=floor).strength == 0.0
    steered = steered_by((floor + 0.01, wine), floor=floor)
    assert steered.strength == 1.0
    total = unit(1, 0) + at(floor + 0.01)[0]
    np.testing.assert_allclose(steered.vector, total / np.linalg.norm(total), atol=1e-6)


def test_a_given_floor_is_reached_by_the_query_and_what_there_is_to_choose_from_together() -> None:
    steering = two_wishes(floor=0.4)
    zorbs, nothing = unit(1, 0, 0), unit(0, 0, -1)
    by = {
        "query": (zorbs, nothing),
        "candidates": (nothing, zorbs),
        "both": (zorbs, zorbs),
        "neither": (nothing, nothing),
    }
    found = {how: names(steering.steer_vector(query, candidates=one[None])) for how, (query, one) in by.items()}
    # What there is to choose from says more.
    assert found == {"query": [], "candidates": ["I like zorbs."], "both": ["I like zorbs."], "neither": []}


def test_all_preferences_are_told_by_how_much_they_matter_but_those_whose_opposite_is_meant() -> None:
    preferences = [
        likes("for", "spicy food"),
        avoids("against", "spicy food"),
        likes("wine", "wine"),
        likes("far", "x"),
    ]
    cosines = (0.7, 0.6, 0.5, -0.9)
    vectors = at(*cosines)
    steering = QuerySteering(Told(5), preferences, "signed", vectors=vectors)
    query = np.eye(1, 5, dtype=np.float32)[0]
    found = steering.matters(query)
    expected = [chance(by_similarity(cosines[place])) for place in (0, 2, 3)]
    assert [(one.text, share) for one, share in found] == [
        (name, pytest.approx(share, abs=1e-4)) for name, share in zip(("for", "wine", "far"), expected, strict=True)
    ]
    assert expected == sorted(expected, reverse=True)
    # The far one does not steer.
    assert names(steering.steer_for_index(query)) == ["for", "wine"]
    assert [one.text for one, _ in steering.matters(query, only=np.array([3, 1]))] == ["against", "far"]
    assert steering.matters(query, only=np.array([], dtype=np.intp)) == []


def test_a_special_case_that_is_avoided_does_not_clash_with_what_is_liked() -> None:
    steering = QuerySteering(
        default_encoder(), ["I love beaches.", "I avoid crowded beaches.", "I avoid beaches."], floor=0.1
    )
    steering.prepare()
    texts = [one.preference.text for one in steering.steer("a holiday on beaches").preferences]
    assert "I avoid crowded beaches." in texts
    # These two do.
    assert ("I love beaches." in texts) is not ("I avoid beaches." in texts)


@given(
    seed=st.integers(0, 2**32 - 1),
    count=st.integers(1, 6),
    candidates=st.integers(0, 20),
    floor=st.sampled_from([None, -1.0, 0.1]),
)
def test_weights_sum_to_one_and_strength_is_a_share_for_any_vectors(
    seed: int, count: int, candidates: int, floor: float | None
) -> None:
    random = np.random.default_rng(seed)
    rows = random.normal(size=(1 + count + candidates, 5))
    rows = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    preferences = [f"I like number {n}." for n in range(count)]
    steering = QuerySteering(HashEncoder(5), preferences, "signed", floor=floor, vectors=rows[1 : count + 1])
    steered = steering.steer_for_index(rows[0], candidates=rows[count + 1 :])
    assert 0.0 <= steered.strength <= 1.0
    assert np.linalg.norm(steered.vector) == pytest.approx(1.0, abs=1e-4)
    weights = [chosen.weight for chosen in steered.preferences]
    assert weights == sorted(weights, reverse=True)
    if weights:
        assert sum(weights) == pytest.approx(1.0, abs=1e-5)
        assert min(weights) >= 0.0
    else:
        assert steered.strength == 0.0
        np.testing.assert_array_equal(steered.vector, rows[0])


HOTELS = [
    "The Bellmore is a quiet hotel off the Strip, without a casino.",
    "The Golden Ace is a hotel on the Strip with a casino and slot machines.",
    "A motel by the motorway with a pool.",
]


def test_an_unrelated_query_is_not_steered(encoder: StaticEncoder) -> None:
    texts = ["James Watt improved the steam engine.", "Newcomen built a pump for mines.", "The turbine came in 1884."]
    query = "Who invented the steam engine?"
    steering = QuerySteering(encoder, ["I avoid hotels with casinos.", "I love spicy food."], "signed")
    steered = steering.steer_vector(encoder.encode([query])[0], candidates=encoder.encode(texts))
    assert steered.preferences == ()
    assert steered.strength == 0.0
    np.testing.assert_allclose(
        steering.score(query, texts), encoder.encode(texts) @ encoder.encode([query])[0], atol=1e-6
    )
    related = steering.score("Which hotel should I book?", HOTELS)
    assert np.abs(related - encoder.encode(HOTELS) @ encoder.encode(["Which hotel should I book?"])[0]).max() > 0.1


def test_a_text_off_the_topic_does_not_win(encoder: StaticEncoder, monkeypatch: pytest.MonkeyPatch) -> None:
    query = "Which hotel in Las Vegas should I book?"
    texts = [
        "The Golden Ace is a hotel on the Strip with rooms for families.",
        "The Lucky Star is a hotel on the Strip with a casino.",
        "Photosynthesis turns light to sugar without a casino.",
        "Photosynthesis turns light to sugar in green leaves.",
    ]
    q = encoder.encode([query])[0]
    topics = encoder.encode(texts) @ q
    steering = QuerySteering(encoder, ["I avoid hotels with casinos."], "signed")
    scores, _ = found_by(steering, q, topics, texts)
    assert scores[:2].min() > scores[2:].max()
    monkeypatch.setattr("epic_core.steering.signed.OFF_TOPIC", 0.0)
    without, _ = found_by(steering, q, topics, texts)
    assert (scores[2:] < without[2:] - 0.01).all()


@pytest.mark.parametrize("mode", ["paper", "signed", "off"])
@pytest.mark.parametrize("query", [QUERIES[0], QUERIES[-1]])
async def test_ascore_gives_what_score_gives(encoder: StaticEncoder, mode: str, query: str) -> None:
    expected = QuerySteering(encoder, PREFERENCES, mode, floor=-1.0).score(query, TEXTS)
    for steering in (
        QuerySteering(encoder, PREFERENCES, mode, floor=-1.0),
        await QuerySteering.acreate(encoder, PREFERENCES, mode, floor=-1.0),
    ):
        np.testing.assert_allclose(await steering.ascore(query, TEXTS), expected, atol=1e-6)
    assert (await steering.ascore(query, [])).shape == steering.score(query, []).shape == (0,)


@pytest.mark.parametrize("mode", ["paper", "signed", "off"])
def test_score_texts_takes_what_is_encoded_already(encoder: StaticEncoder, mode: str) -> None:
    steering = QuerySteering(encoder, PREFERENCES, mode, floor=-1.0)
    q, vectors = encoder.encode([QUERIES[0]])[0], encoder.encode(TEXTS)
    expected = steering.score(QUERIES[0], TEXTS)
    np.testing.assert_array_equal(steering.score_texts(q, TEXTS, vectors), expected)
    known = [words_of(text) for text in TEXTS]
    np.testing.assert_array_equal(steering.score_texts(q, TEXTS, vectors, words=known), expected)
    if mode == "signed":
        # Where the words are known, the texts are not read.
        np.testing.assert_array_equal(steering.score_texts(q, [""] * len(TEXTS), vectors, words=known), expected)
        silent = [words_of("")] * len(TEXTS)
        assert np.abs(steering.score_texts(q, TEXTS, vectors, words=silent) - expected).max() > 0.1


@pytest.mark.parametrize("mode", ["paper", "signed", "off"])
@pytest.mark.parametrize("rows", [[0], [2], [1, 2]])
def test_score_is_by_the_named_rows_only(encoder: StaticEncoder, mode: str, rows: list[int]) -> None:
    q, vectors = encoder.encode([QUERIES[2]])[0], encoder.encode(TEXTS)
    every = QuerySteering(encoder, PREFERENCES, mode, floor=-1.0)
    some = QuerySteering(encoder, [PREFERENCES[row] for row in rows], mode, floor=-1.0)
    found = every.score_texts(q, TEXTS, vectors, only=np.array(rows))
    np.testing.assert_allclose(found, some.score_texts(q, TEXTS, vectors), atol=1e-3)
    none = every.score_texts(q, TEXTS, vectors, only=np.array([], dtype=np.intp))
    np.testing.assert_allclose(none, vectors @ q, atol=1e-6)


def test_what_is_expired_is_for_the_caller_to_leave_out(encoder: StaticEncoder) -> None:
    gone = Preference(text=PREFERENCES[0], expires_at=datetime.now(timezone.utc) - timedelta(days=1))
    assert gone.expired
    found = QuerySteering(encoder, [gone], "signed", floor=-1.0).score(QUERIES[0], HOTELS)
    expected = QuerySteering(encoder, PREFERENCES[:1], "signed", floor=-1.0).score(QUERIES[0], HOTELS)
    np.testing.assert_array_equal(found, expected)


def test_edited_aspects_turn_the_order(encoder: StaticEncoder) -> None:
    texts = ["A hotel with a casino.", "A hotel without a casino."]
    text = "I have views on hotels with casinos."
    by_side = [
        QuerySteering(encoder, [Preference(text=text, aspects=aspects)], "signed", floor=-1.0).score("a hotel", texts)
        for aspects in (Aspects(liked=("hotels with casinos",)), Aspects(avoided=("hotels with casinos",)))
    ]
    assert by_side[0][0] > by_side[0][1]
    assert by_side[1][0] < by_side[1][1]


@pytest.mark.parametrize("mode", ["", "Paper", "sign", None, 3])
def test_an_unknown_mode_is_an_error_that_lists_the_modes(mode: object) -> None:
    with pytest.raises(InvalidInputError, match="paper, signed, off"):
        QuerySteering(HashEncoder(), ["a"], mode)  # type: ignore[arg-type]


@pytest.mark.parametrize("floor", [-1.1, 1.1, float("nan")])
def test_a_floor_that_is_no_cosine_is_an_error(floor: float) -> None:
    with pytest.raises(InvalidInputError, match="floor"):
        QuerySteering(HashEncoder(), ["a"], floor=floor)


@pytest.mark.parametrize("mode", ["paper", "signed", "off"])
async def test_without_preferences_a_query_is_left_as_it_is(mode: str) -> None:
    encoder = HashEncoder()
    steering = QuerySteering(encoder, [], mode)
    steering.prepare()
    steered = steering.steer("red wine")
    np.testing.assert_array_equal(steered.vector, encoder.vector("red wine"))
    again = await (await QuerySteering.acreate(encoder, [], mode)).asteer("red wine")
    np.testing.assert_array_equal(again.vector, steered.vector)
    assert steered.nearest is None
    np.testing.assert_allclose(steering.score("red wine", ["red wine", "sky"]), [1.0, 0.0], atol=1e-6)


def test_known_vectors_are_not_encoded_again() -> None:
    encoder = HashEncoder()
    vectors = np.stack([encoder.vector("red wine")])
    QuerySteering(encoder, [Preference(text="red wine")], "paper", vectors=vectors).steer("red")
    assert dict(encoder.texts) == {"red": 1}


def test_only_the_named_rows_steer() -> None:
    steering = QuerySteering(HashEncoder(), ["red wine", "red cars"], "signed", floor=0.3)
    steered = steering.steer_vector(steering.vectors[0], only=np.array([1]))
    assert [s.preference.text for s in steered.preferences] == ["red cars"]


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
