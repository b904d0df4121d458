"""Query steering: Eq. 7-8 in paper mode, what signed and off do instead, and which preferences steer by themselves."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from weakref import ref

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from epic_memory import EpicMemory, Preference, QuerySteering, Settings
from epic_memory.encoders import StaticEncoder, default_encoder
from epic_memory.errors import InvalidInputError
from epic_memory.preferences.library import borrowed
from epic_memory.runtime.effects import arun, run
from epic_memory.steering.query_steering import SteeredQuery, Steerings
from epic_memory.steering.question_kind import QuestionKind
from epic_memory.steering.relevance import SAMPLES, known_samples
from epic_memory.types import FloatArray
from epic_memory.types.modes import Mode
from epic_memory.types.preferences import Aspects, Expansion
from helpers import HashEncoder, KeepAll
from tables import table

PREFERENCES = ("I avoid hotels with casinos.", "I love quiet mountain trails.", "I prefer trains over flights.")
HOTELS, _, TRAINS = PREFERENCES
TEXTS = ["a night train to Rome", "a cheap flight to Rome", "a bank", "a casino hotel", "a quiet guesthouse", "..."]
NO_CASINO, CASINO = "A hotel without a casino.", "A hotel with a casino."
LODGINGS = [
    "The Golden Ace is a hotel on the Strip with a casino and slot machines.",
    "The Bellmore is a quiet hotel off the Strip, without a casino.",
    "The Oasis has rooms for families, a poker room and a pool.",
]
ENGINES = ["James Watt improved the steam engine.", "Newcomen built a pump for mines.", "The turbine came in 1884."]
MODES: tuple[Mode, ...] = ("paper", "signed", "off")
seeds = st.integers(0, 2**32 - 1)
modes = pytest.mark.parametrize("mode", MODES)


@pytest.fixture(scope="module")
def encoder() -> StaticEncoder:
    return default_encoder()


def units(seed: int, count: int, dimension: int) -> FloatArray:
    rows = np.random.default_rng(seed).normal(size=(count, dimension))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def at(*cosines: float) -> FloatArray:
    """Preferences with given similarities to the query (1, 0, ...), at right angles; the last axis is free."""
    rows = np.zeros((len(cosines), len(cosines) + 2), dtype=np.float32)
    for row, cosine in enumerate(cosines):
        rows[row, 0], rows[row, row + 1] = cosine, np.sqrt(1.0 - cosine**2)
    return rows


def first_axis(dimension: int) -> FloatArray:
    return np.eye(1, dimension, dtype=np.float32)[0]


class LastAxis(HashEncoder):
    """Gives all texts the last axis, to which nothing else is near."""

    def vector(self, text: str) -> FloatArray:
        return np.eye(1, self.dimension, self.dimension - 1, dtype=np.float32)[0]


def likes(name: str, *liked: str, firmness: float = 0.75) -> Preference:
    return Preference(text=name, aspects=Aspects(liked=liked, firmness=firmness))


def avoids(name: str, *avoided: str, firmness: float = 0.75) -> Preference:
    return Preference(text=name, aspects=Aspects(avoided=avoided, firmness=firmness))


Stated = Sequence[tuple[float, Preference]]


def steering_by(stated: Stated, floor: float | None) -> QuerySteering:
    vectors = at(*(cosine for cosine, _ in stated))
    encoder = LastAxis(vectors.shape[1])
    return QuerySteering(encoder, [preference for _, preference in stated], floor=floor, vectors=vectors)


def steered_by(*stated: tuple[float, Preference], floor: float | None = 0.0) -> SteeredQuery:
    """A query steered by preferences of given similarities to it."""
    steering = steering_by(stated, floor)
    return steering.steer_vector(first_axis(steering.encoder.dimension), turns=False)


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
    query = first_axis(4)
    steering = QuerySteering(HashEncoder(4), ["p"], "paper", vectors=-query[None])
    np.testing.assert_array_equal(steering.steer_vector(query).vector, query)


@modes
def test_a_query_is_encoded_steered_and_scored_alike_by_every_way(encoder: StaticEncoder, mode: Mode) -> None:
    one, vectors = QuerySteering(encoder, PREFERENCES, mode, floor=-1.0), encoder.encode(TEXTS)
    for query in ("a hotel in Las Vegas", "zzz"):
        q, scores = encoder.encode([query])[0], one.score(query, TEXTS)
        expected, steered = one.steer_vector(q), one.steer(query)
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


@pytest.mark.parametrize(
    ("call", "match"),
    [
        *(
            (lambda a, mode=mode: QuerySteering(a, ["a"], mode), "paper, signed, off")
            for mode in ("", "Paper", None, 3)
        ),
        *((lambda a, f=f: QuerySteering(a, ["a"], floor=f), "floor") for f in (-1.1, 1.1, float("nan"))),
        (lambda a: QuerySteering(a, ["a"]).score("a", "a text"), "list"),
    ],
)
def test_what_cannot_be_is_refused(call: Callable[[HashEncoder], object], match: str) -> None:
    with pytest.raises(InvalidInputError, match=match):
        call(HashEncoder())


# floors


@pytest.mark.parametrize("mode", ["paper", "signed"])
@pytest.mark.parametrize("floor", [-0.5, 0.0, 0.5])
def test_a_preference_steers_from_the_floor_on_and_then_in_full(mode: Mode, floor: float) -> None:
    query = first_axis(3)
    for similarity, steers in ((floor - 0.01, False), (floor, True), (floor + 0.01, True)):
        steering = QuerySteering(LastAxis(3), ["red wine"], mode, floor=floor, vectors=at(similarity))
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


@given(seed=seeds, count=st.integers(1, 6), candidates=st.integers(0, 20), floor=st.sampled_from([None, -1.0, 0.1]))
def test_weights_sum_to_one_and_scores_are_cosines_for_any_vectors(
    seed: int, count: int, candidates: int, floor: float | None
) -> None:
    rows = units(seed, 1 + count + candidates, 5)
    wishes, texts = rows[1 : count + 1], rows[count + 1 :]
    said = ["a casino", "no casino", "trains", "number 1", ""] * 4
    steering = QuerySteering(HashEncoder(5), [f"I like number {n}." for n in range(count)], floor=floor, vectors=wishes)
    for steered in (steering.steer_vector(rows[0], candidates=texts, turns=False), steering.steer_vector(rows[0])):
        assert_sound(steered)
        if not steered.preferences:
            assert steered.strength == 0.0
            np.testing.assert_array_equal(steered.vector, rows[0])
    scores = steering.score_texts(rows[0], said[:candidates], texts)
    assert np.abs(scores).max(initial=0.0) <= 1.0 + 1e-5
    # Neither the order of the texts matters, nor when it is asked.
    turned = steering.score_texts(rows[0], said[:candidates][::-1], texts[::-1])
    np.testing.assert_allclose(turned[::-1], scores, atol=1e-5)
    np.testing.assert_array_equal(steering.score_texts(rows[0], said[:candidates], texts), scores)


def assert_sound(steered: SteeredQuery) -> None:
    weights = [chosen.weight for chosen in steered.preferences]
    assert steered.vector.dtype == np.float32 and np.linalg.norm(steered.vector) == pytest.approx(1.0, abs=1e-4)
    assert 0.0 <= steered.strength <= 1.0
    assert weights == sorted(weights, reverse=True) and min(weights, default=0.0) >= 0.0
    assert not weights or sum(weights) == pytest.approx(1.0, abs=1e-5)


@given(st.lists(st.floats(-1.0, 1.0), min_size=2, max_size=6))
@example([-1.0, 0.0, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 1.0])
def test_the_more_similar_a_preference_is_the_more_it_steers(cosines: list[float]) -> None:
    wine, query = likes("wine", "zorbs"), first_axis(3)
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
    steering, query = steering_by([(0.8, likes("wine", "red wine"))], None), first_axis(3)
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
    far = likes("far", "x")
    steering = steering_by([(0.7, FOR), (0.6, AGAINST), (0.5, likes("wine", "wine")), (-0.9, far)], None)
    query = first_axis(6)
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


@pytest.mark.parametrize(("stated", "floor", "steer"), CLASHES.values(), ids=CLASHES)
def test_of_opposites_one_steers(stated: Stated, floor: float | None, steer: list[str]) -> None:
    steered = steered_by(*stated, floor=floor)
    assert names(steered) == steer
    assert sum(chosen.weight for chosen in steered.preferences) == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize(("liked", "avoided", "clash"), table(__file__, "opposites_are_told_by_their_words"))
def test_opposites_are_told_by_their_words(liked: str, avoided: str, clash: bool) -> None:
    found = names(steered_by((0.70, likes("for", liked)), (0.69, avoids("against", avoided))))
    assert found == (["against"] if clash else ["for", "against"])


# what a query asks for, and how texts are scored


def test_what_is_avoided_does_not_turn_a_search_from_what_was_asked(encoder: StaticEncoder) -> None:
    vectors = encoder.encode([LODGINGS[1], LODGINGS[0], "Lentil soup: fry onions, a vegan dinner.", ENGINES[0]])
    steering = QuerySteering(encoder, ["I avoid hotels with on-site casinos."], "signed")
    for query in ("Which hotel should I book?", "Where should I stay in Las Vegas?"):
        scores, plain = vectors @ steering.steer(query).vector, vectors @ encoder.encode([query])[0]
        assert min(scores[:2]) > max(scores[2:])
        assert scores[0] - scores[1] > plain[0] - plain[1]


def test_a_question_of_what_stands_in_a_note_or_names_nothing_is_hardly_steered(encoder: StaticEncoder) -> None:
    steering, texts = QuerySteering(encoder, PREFERENCES), [NO_CASINO, CASINO]
    choice, recall = "Which hotel should I book?", "Where is the invoice of the hotel?"
    assert steering.steer(choice).strength > 0.9 and steering.steer(recall).strength < 0.1
    plain = encoder.encode(texts) @ encoder.encode([recall])[0]
    np.testing.assert_allclose(steering.score(recall, texts), plain, atol=1e-6)
    spicy = QuerySteering(encoder, ["I love spicy food in small restaurants."])
    for query in ("Which restaurants do you recommend?", "Where should we eat tonight?", "Which dishes should I try?"):
        assert spicy.steer(query).strength > 0.6
    for query in ("Who was the cook at that restaurant?", "When did we eat at Luigi's?", "Thanks for the dish!"):
        assert spicy.steer(query).strength < 0.3
    quiet = QuerySteering(encoder, ["I prefer quiet places over crowded ones.", HOTELS, "I am vegetarian."])
    for query in ("Any suggestions?", "Which one should I choose?", "What do you think?", "Thanks!", ""):
        assert quiet.steer(query).strength < 0.7


def test_edited_aspects_turn_the_order_and_what_is_expired_is_for_the_caller_to_leave_out(
    encoder: StaticEncoder,
) -> None:
    aspects = Aspects(liked=("hotels with casinos",)), Aspects(avoided=("hotels with casinos",))
    for expires_at in (None, datetime.now(timezone.utc) - timedelta(days=1)):
        stated = [Preference(text="On hotels with casinos.", aspects=one, expires_at=expires_at) for one in aspects]
        liked, avoided = (
            QuerySteering(encoder, [one], floor=-1.0).score("a hotel", [CASINO, NO_CASINO]) for one in stated
        )
        assert liked[0] > liked[1] and avoided[0] < avoided[1]


def test_an_expansion_makes_its_questions_near(encoder: StaticEncoder) -> None:
    near = Expansion(questions=("Where should I stay in Las Vegas?",), follows=("a quiet guesthouse",))
    for question in ("Where should we stay in Vegas?", "Where should I stay for two nights?"):
        query = encoder.encode([question])[0]
        (_, before), (_, after) = (
            QuerySteering(encoder, [Preference(text=HOTELS, expansion=one)]).choose(query).matters[0]
            for one in (None, near)
        )
        assert after > before


def test_an_expansion_speaks_for_what_follows_it_and_against_what_breaks_it(encoder: StaticEncoder) -> None:
    expansion = Expansion(follows=("museum visits", "library mornings"), breaks=("slot machines", "roulette tables"))
    texts = ["Mornings in the library, then a museum visit.", "Evenings of roulette tables and slot machines."]
    (first, second), (plain, other) = (
        QuerySteering(
            encoder, [Preference(text="I have views on holidays.", expansion=one)], floor=-1.0, borrow=False
        ).score("Where should I go on holiday?", texts)
        for one in (expansion, None)
    )
    assert first - second > plain - other + 0.05


# what there is to choose from


@pytest.mark.parametrize("query", ["Something for two in May?", "素食"])
def test_candidates_bring_in_a_preference_that_the_query_does_not_name(encoder: StaticEncoder, query: str) -> None:
    steering, q = QuerySteering(encoder, PREFERENCES), encoder.encode([query])[0]
    assert HOTELS not in names(steering.steer_vector(q))
    assert HOTELS in names(steering.steer_vector(q, candidates=encoder.encode(LODGINGS)))
    assert not names(steering.steer_vector(q, candidates=encoder.encode(ENGINES)))


# whatever the order

# Expansions of every kind: with all parts, with one phrase of each, without questions, and borrowed or none.
EXPANDED = Expansion(
    questions=("Where should I stay in Las Vegas?", "Which resort suits me?", "What to do in Macau?"),
    follows=("a quiet guesthouse",),
    breaks=("slot machines", "poker rooms"),
)
WISHES: tuple[str | Preference, ...] = (
    Preference(text="I avoid casinos.", expansion=EXPANDED),
    Preference(text="I love zorbs.", expansion=Expansion(questions=("Which zorb?",), breaks=("no zorb",))),
    Preference(text="I love fleems.", expansion=Expansion(follows=("a fleem", "red fleems"))),
    *PREFERENCES,
    "I prefer explanations that focus on evolution.",
    "I like plings.",
)


def assert_same(one: SteeredQuery, other: SteeredQuery) -> None:
    weights = [{chosen.preference.text: chosen.weight for chosen in each.preferences} for each in (one, other)]
    assert weights[0] == pytest.approx(weights[1], abs=1e-4)
    assert one.strength == pytest.approx(other.strength, abs=1e-4)
    np.testing.assert_allclose(one.vector, other.vector, atol=1e-4)


QUERIES = ("Which hotel should I book?", "Why did feathers evolve?", "zzz", "Where should I eat on a trail?")


@given(order=st.permutations(range(len(WISHES))), query=st.sampled_from(QUERIES))
@pytest.mark.parametrize("floor", [None, -1.0])
def test_the_order_of_preferences_does_not_matter(floor: float | None, order: list[int], query: str) -> None:
    encoder = default_encoder()
    q = encoder.encode([query])[0]
    one, other = (QuerySteering(encoder, who, floor=floor) for who in (WISHES, [WISHES[place] for place in order]))
    for candidates in (None, encoder.encode([*LODGINGS, *ENGINES])):
        assert_same(one.steer_vector(q, candidates=candidates), other.steer_vector(q, candidates=candidates))


@given(seed=seeds, rows=st.lists(st.integers(0, len(WISHES) - 1), min_size=1, unique=True).map(sorted))
def test_a_preference_is_as_relevant_among_others_as_alone(seed: int, rows: list[int]) -> None:
    encoder = default_encoder()
    every, some = (QuerySteering(encoder, who, floor=-1.0) for who in (WISHES, [WISHES[row] for row in rows]))
    q, *candidates = units(seed, 4, encoder.dimension)
    for given_candidates in (None, np.stack(candidates)):
        found = every.steer_vector(q, only=np.array(rows), candidates=given_candidates)
        assert_same(found, some.steer_vector(q, candidates=given_candidates))


# odd vectors

AXIS = first_axis(4)
ODD = {
    "opposite": -AXIS[None],
    "cancelling": np.stack([AXIS, -AXIS]),
    "many cancelling": np.stack([np.roll(AXIS, 1), -np.roll(AXIS, 1)] * 10),
    "nearly cancelling": np.stack([AXIS, np.array([-1.0, 1e-4, 0.0, 0.0], dtype=np.float32)]),
    "the same": np.stack([AXIS] * 50),
    "zero": np.zeros((3, 4), dtype=np.float32),
    "none": np.empty((0, 4), dtype=np.float32),
}


@pytest.mark.parametrize("candidates", ODD.values(), ids=ODD)
def test_odd_vectors_give_finite_numbers(candidates: FloatArray) -> None:
    every = [AXIS, -AXIS, np.roll(AXIS, 2)]
    for preferences, floor in ((["I like zorbs."], 1.0), (["🙂", "I avoid casinos.", "no"], None), (PREFERENCES, -1.0)):
        vectors = np.stack(every[: len(preferences)])
        steering = QuerySteering(HashEncoder(4), preferences, floor=floor, vectors=vectors)
        for query in every:
            assert_sound(steering.steer_vector(query, candidates=candidates))
            assert np.isfinite(steering.score_texts(query, ["a casino"] * len(candidates), candidates)).all()


def matters_at(cosine: float, encoder: HashEncoder, *, candidates: bool = False) -> tuple[float, float]:
    """How much a preference of a given similarity to a query matters."""
    query = first_axis(encoder.dimension)
    wish = cosine * query + np.sqrt(1.0 - cosine**2) * np.roll(query, 1)
    steering = QuerySteering(encoder, ["I like zorbs."], vectors=wish[None].astype(np.float32))
    chosen = steering.choose(query, candidates=query[None] if candidates else None)
    ((_, chance),) = chosen.matters or ()
    return chance, chosen.strength


@pytest.mark.parametrize("candidates", [False, True])
def test_what_is_as_much_nearer_with_another_encoder_is_as_relevant(candidates: bool) -> None:
    low, high, bundled, shifted = HashEncoder(), HashEncoder(), HashEncoder(), HashEncoder()
    # All the similarities of one encoder lie higher by as much.
    high.floor = shifted.floor = low.floor + 0.2
    bundled.name = shifted.name = default_encoder().name
    chance, strength = matters_at(0.25, low, candidates=candidates)
    assert matters_at(0.45, high, candidates=candidates) == pytest.approx((chance, strength), abs=1e-4)
    assert matters_at(0.25, high, candidates=candidates) < (chance, strength)
    # The bundled encoder steers by weights of its own, whatever its floor.
    steered = [matters_at(0.25, one, candidates=candidates)[1] for one in (bundled, shifted)]
    assert steered[0] == steered[1] != pytest.approx(strength, abs=0.01)


# encoders, and a cache of many users


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
    encoder, query = HashEncoder(), "number 3 hotels"
    steerings = Steerings(encoder, size=3)
    users = [(f"I like number {n}.", *PREFERENCES) for n in range(5)]
    expected = [QuerySteering(encoder, user).steer(query).vector for user in users]
    with ThreadPoolExecutor(8) as pool:
        found = pool.map(lambda n: steerings.of(users[n % 5], "signed").steer(query).vector, range(60))
    for number, vector in enumerate(found):
        np.testing.assert_array_equal(vector, expected[number % 5])


async def test_what_steering_has_to_know_of_an_encoder_is_embedded_once_and_goes_with_it() -> None:
    encoder = HashEncoder()
    for number in range(2):
        QuerySteering(encoder, [f"I like number {number}.", *PREFERENCES]).steer("hotels")
        Steerings(encoder).of(PREFERENCES, "signed").score("hotels", ["a casino"])
        memory = EpicMemory(PREFERENCES, encoder=encoder, settings=Settings(verifier=KeepAll()))
        memory.add(["hotels with casinos"])
        memory.search("hotels")
        await memory.asearch("hotels")
    assert {encoder.texts[text] for text in SAMPLES} == {1}
    # Another one of the same name is another one.
    other = HashEncoder(fingerprint="v2")
    assert known_samples(encoder) is not None and known_samples(other) is None
    QuerySteering(other, PREFERENCES).steer("hotels")
    assert {other.texts[text] for text in SAMPLES} == {1}
    gone = ref(other)
    del other
    gc.collect()
    assert gone() is None


# asynchronously


class OnlyAsync(HashEncoder):
    """An encoder that must not be asked synchronously."""

    def encode(self, texts: Sequence[str]) -> FloatArray:
        raise AssertionError(f"encoded synchronously: {list(texts)}")


@modes
async def test_steering_asynchronously_never_encodes_synchronously(mode: Mode) -> None:
    encoder = OnlyAsync()
    steering = await arun(Steerings(encoder).steering(PREFERENCES, mode))
    # It is ready for queries that are encoded already.
    query, casino = encoder.vector("hotels with casinos"), np.stack([encoder.vector("a casino")])
    steering.steer_vector(query, candidates=casino)
    steering.score_texts(query, ["a casino"], casino)


async def test_what_preferences_borrow_is_never_encoded_synchronously_in_asynchronous_calls() -> None:
    encoder = OnlyAsync()
    encoder.borrow = True
    memory = EpicMemory(encoder=encoder, settings=Settings(verifier=KeepAll()))
    for preference in PREFERENCES[:2]:
        await memory.preferences.aadd(preference)
    await memory.aadd(["hotels with casinos", "quiet mountain trails"])
    (lent,) = borrowed([Preference(text=HOTELS)])
    assert lent is not None and {*lent.follows, *lent.breaks} <= encoder.texts.keys()
    assert [one.kept async for one in memory.ajudge(["hotels with casinos"])] == [True]
    await memory.preferences.aadd(TRAINS)
    await memory.preferences.areplace(PREFERENCES[1], "I love mountains.")
    assert (await memory.asearch("hotels with casinos"))[0].item.text == "hotels with casinos"


async def test_a_memory_embedded_anew_while_it_asks_is_searched_with_the_new_encoder() -> None:
    class Meanwhile(HashEncoder):
        async def aencode(self, texts: Sequence[str]) -> FloatArray:
            found = await super().aencode(texts)
            if list(texts) == SAMPLES:
                memory.file.reencode(HashEncoder(512, name="other"))
            return found

    memory = EpicMemory(["I love red wine."], encoder=Meanwhile(), settings=Settings(verifier=KeepAll()))
    memory.add(["a red wine", "blue sky"])
    found = await memory.asearch("which red wine")
    assert found[0].item.text == "a red wine"
    assert found.vector.shape == (512,)
