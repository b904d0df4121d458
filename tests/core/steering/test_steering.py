"""Query steering: Eq. 7-8 in paper mode, what signed and off do instead, and the cache of users' preferences."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from epic_memory import Preference, QuerySteering
from epic_memory.encoders import StaticEncoder, default_encoder
from epic_memory.errors import InvalidInputError
from epic_memory.runtime.effects import run
from epic_memory.steering.query_steering import SteeredQuery, Steerings
from epic_memory.steering.question_kind import QuestionKind
from epic_memory.types import FloatArray
from epic_memory.types.modes import Mode
from epic_memory.types.preferences import Aspects
from helpers import HashEncoder

PREFERENCES = ("I avoid hotels with casinos.", "I love quiet mountain trails.", "I prefer trains over flights.")
QUERIES = ("a hotel in Las Vegas", "which trail in the mountains", "how to travel to Rome", "zzz", "🙂", "素食", "")
TEXTS = ["a night train to Rome", "a cheap flight to Rome", "a bank", "a casino hotel", "a quiet guesthouse", "..."]
NO_CASINO, CASINO = "A hotel without a casino.", "A hotel with a casino."
MODES: tuple[Mode, ...] = ("paper", "signed", "off")
seeds = st.integers(0, 2**32 - 1)
modes = pytest.mark.parametrize("mode", MODES)


@pytest.fixture(scope="module")
def encoder() -> StaticEncoder:
    return default_encoder()


def units(seed: int, count: int, dimension: int) -> FloatArray:
    rows = np.random.default_rng(seed).normal(size=(count, dimension))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def unit(*vector: float) -> FloatArray:
    return (np.array(vector) / np.linalg.norm(vector)).astype(np.float32)


def at(*cosines: float) -> FloatArray:
    """Preferences with given similarities to the query (1, 0, ...), at right angles; the last axis is free."""
    rows = np.zeros((len(cosines), len(cosines) + 2), dtype=np.float32)
    for row, cosine in enumerate(cosines):
        rows[row, 0], rows[row, row + 1] = cosine, np.sqrt(1.0 - cosine**2)
    return rows


class Told(HashEncoder):
    """Gives texts the vectors it was told, and all others the last axis, to which nothing else is near."""

    def __init__(self, dimension: int, **vectors: FloatArray) -> None:
        super().__init__(dimension)
        self.told = vectors

    def vector(self, text: str) -> FloatArray:
        return self.told.get(text, np.eye(1, self.dimension, self.dimension - 1, dtype=np.float32)[0])


def likes(name: str, *liked: str, firmness: float = 0.75) -> Preference:
    return Preference(text=name, aspects=Aspects(liked=liked, firmness=firmness))


def avoids(name: str, *avoided: str, firmness: float = 0.75) -> Preference:
    return Preference(text=name, aspects=Aspects(avoided=avoided, firmness=firmness))


Stated = Sequence[tuple[float, Preference]]


def steering_by(stated: Stated, floor: float | None) -> QuerySteering:
    vectors = at(*(cosine for cosine, _ in stated))
    encoder = Told(vectors.shape[1])
    return QuerySteering(encoder, [preference for _, preference in stated], floor=floor, vectors=vectors)


def steered_by(*stated: tuple[float, Preference], floor: float | None = 0.0) -> SteeredQuery:
    """A query steered by preferences of given similarities to it."""
    steering = steering_by(stated, floor)
    return steering.steer_vector(np.eye(1, steering.encoder.dimension, dtype=np.float32)[0], turns=False)


def names(steered: SteeredQuery) -> list[str]:
    return [chosen.preference.text for chosen in steered.preferences]


# the paper's way, and none


@given(seed=seeds, dimension=st.integers(2, 64), count=st.integers(1, 12))
def test_paper_mode_is_eq_7_and_8_and_off_changes_nothing(seed: int, dimension: int, count: int) -> None:
    rows = units(seed, 1 + count + 3, dimension)
    q, p, texts = rows[0], rows[1 : count + 1], rows[count + 1 :]
    wishes = [f"p{n}" for n in range(count)]
    paper, off = (QuerySteering(HashEncoder(dimension), wishes, mode, vectors=p) for mode in ("paper", "off"))
    nearest = int(np.argmax(p @ q))
    total = (q + p[nearest]).astype(np.float64)
    # What there is to choose from changes nothing here.
    for steered in (paper.steer_vector(q), paper.steer_vector(q, turns=False), paper.steer_vector(q, candidates=texts)):
        assert [(one.preference.text, one.weight) for one in steered.preferences] == [(wishes[nearest], 1.0)]
        assert steered.nearest == steered.preferences[0].similarity == pytest.approx(float(p[nearest] @ q), abs=1e-6)
        if np.linalg.norm(total) > 1e-3:
            np.testing.assert_allclose(steered.vector, total / np.linalg.norm(total), atol=1e-3)
    np.testing.assert_allclose(paper.score_texts(q, ["a"] * 3, texts), texts @ paper.steer_vector(q).vector, atol=1e-6)
    for steered in (off.steer_vector(q), off.steer_vector(q, turns=False), off.steer_vector(q, candidates=texts)):
        assert steered.preferences == () and steered.nearest == pytest.approx(float(p[nearest] @ q), abs=1e-6)
        np.testing.assert_array_equal(steered.vector, q)
    np.testing.assert_allclose(off.score_texts(q, ["a"] * 3, texts), texts @ q, atol=1e-6)


def test_paper_mode_leaves_a_query_that_cancels_out_as_it_is() -> None:
    query = unit(1, 0, 0, 0)
    steering = QuerySteering(HashEncoder(4), ["p"], "paper", vectors=-query[None])
    np.testing.assert_array_equal(steering.steer_vector(query).vector, query)


@modes
def test_a_query_is_encoded_steered_and_scored_alike_by_every_way(encoder: StaticEncoder, mode: Mode) -> None:
    one = QuerySteering(encoder, PREFERENCES, mode, floor=-1.0)
    vectors = encoder.encode(TEXTS)
    for query in (QUERIES[0], QUERIES[3]):
        q, scores = encoder.encode([query])[0], one.score(query, TEXTS)
        expected = one.steer_vector(q)
        steered = one.steer(query)
        np.testing.assert_array_equal(steered.vector, expected.vector)
        np.testing.assert_array_equal(steered.query, q)
        assert (steered.preferences, steered.nearest) == (expected.preferences, expected.nearest)
        np.testing.assert_array_equal(one.score_texts(q, TEXTS, vectors), scores)
    assert one.score(query, []).shape == (0,)


def test_a_users_query_is_encoded_as_a_query() -> None:
    class Asymmetric(HashEncoder):
        def encode_query(self, text: str) -> FloatArray:
            return self.vector(f"query {text}")

    encoder = Asymmetric()
    steering = QuerySteering(encoder, PREFERENCES, "off")
    np.testing.assert_array_equal(steering.steer("red wine").query, encoder.vector("query red wine"))


# odd input


@modes
def test_without_preferences_a_query_is_left_as_it_is(mode: Mode) -> None:
    encoder = HashEncoder()
    steering = QuerySteering(encoder, [], mode)
    run(steering.preparing())
    steered = steering.steer("red wine")
    np.testing.assert_array_equal(steered.vector, encoder.vector("red wine"))
    assert steered.nearest is None and steered.preferences == ()
    assert steering.choose(encoder.vector("red wine")).matters == ()
    np.testing.assert_allclose(steering.score("red wine", ["red wine", "sky"]), [1.0, 0.0], atol=1e-6)


@pytest.mark.parametrize("mode", ["", "Paper", "sign", None, 3])
def test_an_unknown_mode_is_an_error_that_lists_the_modes(mode: object) -> None:
    with pytest.raises(InvalidInputError, match="paper, signed, off"):
        QuerySteering(HashEncoder(), ["a"], mode)  # type: ignore[arg-type]


def test_a_floor_is_a_cosine_and_there_is_none_but_the_one_given() -> None:
    encoder = HashEncoder()
    encoder.floor = 0.37
    for mode in MODES:
        assert QuerySteering(encoder, ["a"], mode).floor is None
        for floor in (-1.0, 0.0, 1.0):
            assert QuerySteering(encoder, ["a"], mode, floor=floor).floor == floor
        for wrong in (-1.1, 1.1, float("nan")):
            with pytest.raises(InvalidInputError, match="floor"):
                QuerySteering(encoder, ["a"], mode, floor=wrong)


def test_one_text_is_not_several() -> None:
    with pytest.raises(InvalidInputError, match="list"):
        QuerySteering(HashEncoder(), ["a"]).score("a", "a text")


# floors


@pytest.mark.parametrize("mode", ["paper", "signed"])
@pytest.mark.parametrize("floor", [-0.5, 0.0, 0.5])
def test_a_preference_steers_from_the_floor_on_and_then_in_full(mode: Mode, floor: float) -> None:
    query = unit(1, 0, 0)
    for similarity, steers in ((floor - 0.01, False), (floor, True), (floor + 0.01, True)):
        steering = QuerySteering(Told(3), ["red wine"], mode, floor=floor, vectors=at(similarity))
        steered = steering.steer_vector(query, turns=False)
        assert names(steered) == (["red wine"] if steers else [])
        assert steered.strength == float(steers) and steered.nearest == pytest.approx(similarity, abs=1e-6)
        total = query + steers * at(similarity)[0]
        np.testing.assert_allclose(steered.vector, total / np.linalg.norm(total), atol=1e-6)


def test_only_preferences_that_reach_the_floor_steer_and_only_the_named_rows() -> None:
    steering = QuerySteering(HashEncoder(), ["red wine", "red cars", "blue sky"], "signed", floor=0.3)
    assert set(names(steering.steer("red wine"))) == {"red wine", "red cars"}
    assert names(steering.steer_vector(steering.vectors[0], only=np.array([1, 2]))) == ["red cars"]


# how much each counts


@given(
    seed=seeds,
    count=st.integers(1, 6),
    candidates=st.integers(0, 20),
    floor=st.sampled_from([None, -1.0, 0.1]),
)
def test_weights_sum_to_one_and_scores_are_cosines_for_any_vectors(
    seed: int, count: int, candidates: int, floor: float | None
) -> None:
    rows = units(seed, 1 + count + candidates, 5)
    wishes, texts = rows[1 : count + 1], rows[count + 1 :]
    said = ["a casino", "no casino", "trains", "number 1", ""] * 4
    steering = QuerySteering(HashEncoder(5), [f"I like number {n}." for n in range(count)], floor=floor, vectors=wishes)
    for steered in (steering.steer_vector(rows[0], candidates=texts, turns=False), steering.steer_vector(rows[0])):
        weights = [chosen.weight for chosen in steered.preferences]
        assert 0.0 <= steered.strength <= 1.0 and np.linalg.norm(steered.vector) == pytest.approx(1.0, abs=1e-4)
        assert weights == sorted(weights, reverse=True) and min(weights, default=0.0) >= 0.0
        if weights:
            assert sum(weights) == pytest.approx(1.0, abs=1e-5)
        else:
            assert steered.strength == 0.0
            np.testing.assert_array_equal(steered.vector, rows[0])
    scores = steering.score_texts(rows[0], said[:candidates], texts)
    assert np.abs(scores).max(initial=0.0) <= 1.0 + 1e-5
    # Neither the order of the texts matters, nor when it is asked.
    turned = steering.score_texts(rows[0], said[:candidates][::-1], texts[::-1])
    np.testing.assert_allclose(turned[::-1], scores, atol=1e-5)
    np.testing.assert_array_equal(steering.score_texts(rows[0], said[:candidates], texts), scores)


@given(st.lists(st.floats(-1.0, 1.0), min_size=2, max_size=6))
@example([-1.0, 0.0, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 1.0])
def test_the_more_similar_a_preference_is_the_more_it_steers(cosines: list[float]) -> None:
    wine, query = likes("wine", "zorbs"), unit(1, 0, 0)
    for given_candidates in (None, query[None]):
        before = 0.0, 0.0
        for cosine in sorted(cosines):
            steering = steering_by([(cosine, wine)], None)
            steered = steering.steer_vector(query, candidates=given_candidates, turns=False)
            ((_, chance),) = steering.choose(query, candidates=given_candidates).matters
            # What hardly matters does not steer.
            assert steered.strength == 0.0 or 0.0954 < steered.strength <= 1.0
            assert chance >= before[0] and steered.strength >= before[1]
            before = chance, steered.strength


def test_to_some_kinds_of_questions_no_preference_matters() -> None:
    steering, query = steering_by([(0.8, likes("wine", "red wine"))], None), unit(1, 0, 0)
    choice, recall, general, chat, others = (QuestionKind(*row) for row in np.eye(5).tolist())
    unknown = steering.choose(query)
    assert unknown.strength > 0.9
    ((_, likeliest),) = steering.choose(query, kind=choice).matters or ()
    for kind, decides in ((choice, True), (general, True), (recall, False), (chat, False), (others, False)):
        chosen = steering.choose(query, kind=kind)
        ((_, chance),) = chosen.matters or ()
        assert chosen.strength > 0.9 if decides else chosen.strength == 0.0
        assert kind is choice or chance < likeliest
    between = steering.choose(query, kind=QuestionKind(0.35, 0.65, 0.0, 0.0, 0.0))
    assert 0.1 < between.strength < 0.9 and between.rows == unknown.rows
    # A floor that was given says only from where on a preference counts.
    assert steering_by([(0.8, likes("wine", "red wine"))], 0.1).choose(query, kind=chat).strength == 0.0


def test_all_preferences_are_told_by_how_much_they_matter_but_those_whose_opposite_is_meant() -> None:
    food = likes("for", "spicy food"), avoids("against", "spicy food")
    steering = steering_by(
        [(0.7, food[0]), (0.6, food[1]), (0.5, likes("wine", "wine")), (-0.9, likes("far", "x"))], None
    )
    query = np.eye(1, 6, dtype=np.float32)[0]
    found = steering.choose(query).matters
    assert [one.text for one, _ in found] == ["for", "wine", "far"]
    chances = [chance for _, chance in found]
    assert 1.0 >= chances[0] > chances[1] > 10.0 * chances[2] > 0.0
    # The far one does not steer.
    assert names(steering.steer_vector(query, turns=False)) == ["for", "wine"]
    assert [one.text for one, _ in steering.choose(query, only=np.array([3, 1])).matters] == ["against", "far"]
    assert steering.choose(query, only=np.array([], dtype=np.intp)).matters == ()


# opposites

FOR, AGAINST = likes("for", "spicy food"), avoids("against", "spicy food")
FIRMLY_FOR, FIRMLY_AGAINST = likes("for", "spicy food", firmness=1.0), avoids("against", "spicy food", firmness=1.0)
BOTH_SIDES = Preference(text="second", aspects=Aspects(liked=("cold beer",), avoided=("red wine",)))
WINE, NO_BEER = likes("wine", "red wine"), avoids("beer", "cold beer")
# Of similarities 0.70 and 0.69 preferences are about equally near, of 0.70 and 0.67 they are not.
CLASHES: dict[str, tuple[Stated, float | None, list[str]]] = {
    "the nearer one steers": ([(0.70, FOR), (0.67, FIRMLY_AGAINST)], 0.0, ["for"]),
    "in any order": ([(0.67, FIRMLY_FOR), (0.70, AGAINST)], 0.0, ["against"]),
    "of about equally near ones the firmer": ([(0.70, FOR), (0.69, FIRMLY_AGAINST)], 0.0, ["against"]),
    "the firmer stated first": ([(0.69, FIRMLY_AGAINST), (0.70, FOR)], 0.0, ["against"]),
    "of equally firm ones the later": ([(0.70, FOR), (0.69, AGAINST)], 0.0, ["against"]),
    "the later is for": ([(0.69, AGAINST), (0.70, FOR)], 0.0, ["for"]),
    "two things": ([(0.70, WINE), (0.69, NO_BEER)], 0.0, ["wine", "beer"]),
    "one thing twice": ([(0.70, WINE), (0.69, likes("two", "red wine"))], 0.0, ["wine", "two"]),
    "who lost overrules nobody": ([(0.90, WINE), (0.87, BOTH_SIDES), (0.84, NO_BEER)], 0.0, ["wine", "beer"]),
    "below the floor": ([(0.305, FOR), (0.295, FIRMLY_AGAINST)], 0.3, ["for"]),
    "above the floor": ([(0.305, FOR), (0.295, FIRMLY_AGAINST)], 0.2, ["against"]),
    "relevant": ([(0.60, FOR), (0.59, FIRMLY_AGAINST)], None, ["against"]),
    "not relevant": ([(0.60, FOR), (0.00, FIRMLY_AGAINST)], None, ["for"]),
    "its share is the others'": ([(0.80, FOR), (0.60, AGAINST), (0.70, WINE)], 0.0, ["for", "wine"]),
}
# What is liked, what is avoided, and whether these are opposites.
WORDED = [
    ("food that is spicy", "the spicy foods", True),
    ("素食", "素食", True),
    ("food", "spicy food", False),
    ("spicy food", "hot food", False),
    # Nothing of these is a word.
    ("...", "🎲", False),
    # It is liked without something, and avoided with that.
    ("gluten-free bread", "bread with gluten", False),
]


@pytest.mark.parametrize(("stated", "floor", "steer"), CLASHES.values(), ids=CLASHES)
def test_of_opposites_one_steers(stated: Stated, floor: float | None, steer: list[str]) -> None:
    steered = steered_by(*stated, floor=floor)
    assert names(steered) == steer
    assert sum(chosen.weight for chosen in steered.preferences) == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize(("liked", "avoided", "clash"), WORDED)
def test_opposites_are_told_by_their_words(liked: str, avoided: str, clash: bool) -> None:
    found = names(steered_by((0.70, likes("for", liked)), (0.69, avoids("against", avoided))))
    assert found == (["against"] if clash else ["for", "against"])


# what is searched for, and how texts are scored


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
        scores, plain = vectors @ steering.steer(query).vector, vectors @ encoder.encode([query])[0]
        assert min(scores[:2]) > max(scores[2:])
        assert scores[0] - scores[1] > plain[0] - plain[1]


def test_a_question_of_what_stands_in_a_note_is_not_steered(encoder: StaticEncoder) -> None:
    steering, texts = QuerySteering(encoder, PREFERENCES), [NO_CASINO, CASINO]
    choice, recall = "Which hotel should I book?", "Where is the invoice of the hotel?"
    assert steering.steer(choice).strength > 0.9 and steering.steer(recall).strength < 0.1
    q, vectors = encoder.encode([recall])[0], encoder.encode(texts)
    np.testing.assert_allclose(steering.score(recall, texts), vectors @ q, atol=1e-6)


def test_edited_aspects_turn_the_order_and_what_is_expired_is_for_the_caller_to_leave_out(
    encoder: StaticEncoder,
) -> None:
    aspects = Aspects(liked=("hotels with casinos",)), Aspects(avoided=("hotels with casinos",))
    gone = datetime.now(timezone.utc) - timedelta(days=1)
    for expires_at in (None, gone):
        liked, avoided = (
            QuerySteering(
                encoder, [Preference(text="On hotels with casinos.", aspects=one, expires_at=expires_at)], floor=-1.0
            ).score("a hotel", [CASINO, NO_CASINO])
            for one in aspects
        )
        assert liked[0] > liked[1] and avoided[0] < avoided[1]


# a cache of many users


def test_no_more_users_than_the_size_are_kept() -> None:
    encoder = HashEncoder()
    steerings = Steerings(encoder, size=2)
    first = steerings.of(("a",), "paper")
    steerings.of(("b",), "paper")
    assert steerings.of(("a",), "paper") is first
    steerings.of(("c",), "paper")  # in place of b, which was used longest ago
    assert steerings.of(("a",), "paper") is first
    steerings.of(("b",), "paper")
    assert (encoder.texts["a"], encoder.texts["b"]) == (1, 2)


def test_several_threads_can_steer_at_the_same_time() -> None:
    encoder = HashEncoder()
    steerings = Steerings(encoder, size=3)
    users = [(f"I like number {n}.", *PREFERENCES) for n in range(5)]
    expected = [QuerySteering(encoder, user).steer("number 3 hotels").vector for user in users]
    with ThreadPoolExecutor(8) as pool:
        found = list(
            pool.map(lambda n: steerings.of(users[n % 5], "signed").steer("number 3 hotels").vector, range(60))
        )
    for number, vector in enumerate(found):
        np.testing.assert_array_equal(vector, expected[number % 5])
