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
from epic_memory.preferences.evidence import AspectEmbeddings, worded
from epic_memory.preferences.parser import parse_aspects
from epic_memory.runtime.effects import run
from epic_memory.steering.query_steering import SteeredQuery, Steerings
from epic_memory.steering.question_kind import QuestionKind, question_kind
from epic_memory.text.stems import words_of
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


def found_by(
    steering: QuerySteering, question: str, topics: Sequence[float], texts: Sequence[str], lowest: float = -1.0
) -> FloatArray:
    """What `score_found` says of texts of known topics, evidence against a preference counting from `lowest` on."""
    said = [words_of(text) for text in texts]

    def counted(_: Preference, sides: AspectEmbeddings) -> FloatArray:
        return np.array([worded(sides, one) for one in said], dtype=np.float32)

    q, vectors = steering.encoder.encode([question])[0], steering.encoder.encode(texts)
    bounds = np.full(len(texts), lowest, dtype=np.float32), np.ones(len(texts), dtype=np.float32)
    return steering.score_found(
        q, np.array(topics, dtype=np.float32), vectors, counted, steering.choose(q), lambda _: bounds
    )


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


def test_strength_moves_a_query_from_hardly_to_fully() -> None:
    query, found = unit(1, 0, 0), [steered_by((c, likes("w", "z")), floor=None) for c in (0.0, 0.22, 0.3, 0.6)]
    strengths = [steered.strength for steered in found]
    moved = [float(np.linalg.norm(steered.vector - query)) for steered in found]
    assert strengths == sorted(strengths) and strengths[0] == moved[0] == 0.0
    assert 0.09 < strengths[1] < 0.5 < strengths[2] and strengths[3] > 0.99
    assert 0.0 < moved[1] < moved[2]


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


TWO = np.stack([unit(1, 0, 0.3, 0), unit(0, 1, 0.3, 0)])


def two_wishes(floor: float = -1.0) -> QuerySteering:
    encoder = Told(4, zorbs=TWO[0], fleems=TWO[1])
    return QuerySteering(encoder, ["I like zorbs.", "I like fleems."], "signed", floor=floor, vectors=TWO)


def test_candidates_say_which_preference_is_heaviest() -> None:
    query, steering = unit(1, 0.8, 0, 0), two_wishes()
    assert names(steering.steer_vector(query, turns=False)) == ["I like zorbs.", "I like fleems."]
    steered = steering.steer_vector(query, candidates=np.stack([unit(0.1, 1, 0, 0), unit(0, 1, 0.1, 0)]), turns=False)
    assert names(steered) == ["I like fleems.", "I like zorbs."]
    # What is reported is the similarity to the query itself.
    assert steered.preferences[0].similarity == pytest.approx(float(TWO[1] @ query), abs=1e-6)
    assert steered.nearest == pytest.approx(float(TWO[0] @ query), abs=1e-6)


def test_a_given_floor_is_reached_by_the_query_and_what_there_is_to_choose_from_together() -> None:
    steering, zorbs, nothing = two_wishes(floor=0.4), unit(1, 0, 0, 0), unit(0, 0, -1, 0)
    by = [(zorbs, nothing), (nothing, zorbs), (zorbs, zorbs), (nothing, nothing)]
    found = [bool(steering.steer_vector(query, candidates=one[None]).preferences) for query, one in by]
    # What there is to choose from says more.
    assert found == [False, True, True, False]


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


def test_opposites_are_told_among_the_named_rows() -> None:
    steering = steering_by([(0.5, likes("other", "zorbs")), (0.8, FOR), (0.6, AGAINST)], 0.0)
    query = np.eye(1, 5, dtype=np.float32)[0]
    assert names(steering.steer_vector(query, only=np.array([2, 1]), turns=False)) == ["for"]
    assert names(steering.steer_vector(query, only=np.array([2, 0]), turns=False)) == ["against", "other"]


# what is searched for, and how texts are scored


@pytest.mark.parametrize("floor", [-1.0, None])
def test_the_vector_for_an_index_is_nearer_to_what_steers_and_the_other_turns_to_the_right_side(
    encoder: StaticEncoder, floor: float | None
) -> None:
    steering, turned = QuerySteering(encoder, PREFERENCES, "signed", floor=floor), 0
    for query in QUERIES:
        steered = steering.steer(query)
        index = steering.steer_vector(encoder.encode([query])[0], kind=question_kind(query), turns=False)
        assert steered.preferences == index.preferences
        if steered.strength < 0.1:
            continue
        heaviest = steered.preferences[0].preference.text
        own, aspects = encoder.encode([heaviest])[0], parse_aspects(heaviest)
        assert index.vector @ own > steered.query @ own
        # Turned to what is liked, away from what is avoided, and not away from the topic.
        liked, avoided = (
            encoder.encode(phrases).mean(axis=0) if phrases else 0.0 * own
            for phrases in (aspects.liked, aspects.avoided)
        )
        assert steered.vector @ index.vector > 0.3
        if steered.preferences[0].weight > 0.9:
            assert steered.vector @ (liked - avoided) > index.vector @ (liked - avoided)
            turned += 1
    assert turned >= 2


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


def test_what_nothing_matters_to_keeps_its_topic(encoder: StaticEncoder) -> None:
    query, texts = "Who invented the steam engine?", ["Watt improved the steam engine.", "Newcomen built a pump."]
    steering = QuerySteering(encoder, ["I avoid hotels with casinos.", "I love spicy food."])
    q, vectors = encoder.encode([query])[0], encoder.encode(texts)
    steered = steering.steer_vector(q, candidates=vectors)
    assert (steered.preferences, steered.strength) == ((), 0.0)
    np.testing.assert_allclose(steering.score(query, texts), vectors @ q, atol=1e-6)
    for other in (QuerySteering(encoder, PREFERENCES, floor=0.99), QuerySteering(encoder, PREFERENCES, "paper")):
        np.testing.assert_allclose(found_by(other, query, [0.8, -0.3], texts), [0.8, -0.3], atol=1e-6)
    hotels = encoder.encode([NO_CASINO, CASINO]) @ encoder.encode(["Which hotel should I book?"])[0]
    assert np.abs(steering.score("Which hotel should I book?", [NO_CASINO, CASINO]) - hotels).max() > 0.1


@pytest.mark.parametrize("expanded", [True, False])
def test_what_was_found_is_scored_by_its_evidence_on_its_topic(encoder: StaticEncoder, expanded: bool) -> None:
    question = "Which hotel should I book?"
    steering = QuerySteering(encoder, ["I avoid hotels with casinos."], floor=-1.0, borrow=expanded)
    texts = [NO_CASINO, CASINO, "Steam without a pump.", "Steam with a pump."]
    without, within, other, another = found_by(steering, question, [0.3] * 4, texts).tolist()
    # A text about something else neither follows a preference nor breaks it.
    assert without - within > 0.03 and without - within > 5 * abs(other - another)
    # Each is scored by itself as among others.
    alone = [found_by(steering, question, [0.3], [text])[0] for text in texts]
    np.testing.assert_allclose(alone, [without, within, other, another], atol=1e-5)
    # Evidence counts within its bounds only.
    bounded = found_by(steering, question, [0.3] * 2, texts[:2], lowest=0.0).tolist()
    assert bounded[1] > within + 0.03 and abs(bounded[0] - bounded[1]) < 0.02
    # What is a little further from the topic than others loses that; what is far from it, more.
    little, far = (found_by(steering, question, [0.6, 0.6 - step], [CASINO] * 2) for step in (0.1, 0.4))
    assert little[0] > little[1] and far[0] - far[1] > 5 * (little[0] - little[1])


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


def test_known_vectors_are_not_encoded_again() -> None:
    encoder = HashEncoder()
    QuerySteering(encoder, ["red wine"], "paper", vectors=np.stack([encoder.vector("red wine")])).steer("red")
    assert dict(encoder.texts) == {"red": 1}


def test_each_users_preferences_are_encoded_when_they_first_steer_and_kept() -> None:
    encoder = HashEncoder()
    steerings = Steerings(encoder)
    users = [(f"I like wine number {n}.", "I avoid beer.") for n in range(3)]
    for _ in range(2):
        for user in users:
            steerings.of(user, "signed").steer("wine")
    assert encoder.texts["I avoid beer."] == 3
    assert all(encoder.texts[user[0]] == 1 for user in users)


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


def test_modes_and_orders_of_preferences_are_told_apart() -> None:
    steerings = Steerings(HashEncoder())
    kinds = [steerings.of(who, mode) for who in (("a", "b"), ("b", "a")) for mode in MODES[:2]]
    assert [kind.mode for kind in kinds] == ["paper", "signed"] * 2
    assert [kind.preferences[0].text for kind in kinds] == ["a", "a", "b", "b"]


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
