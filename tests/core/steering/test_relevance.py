"""Which preferences steer where no floor is given: by what a query asks for, and by what there is to choose from."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from weakref import ref

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from epic_memory import EpicMemory, Preference, QuerySteering, Settings
from epic_memory.encoders import StaticEncoder, default_encoder
from epic_memory.preferences.library import borrowed
from epic_memory.runtime.effects import arun
from epic_memory.steering.query_steering import SteeredQuery, Steerings
from epic_memory.steering.question_kind import question_kind
from epic_memory.steering.relevance import SAMPLES, known_samples
from epic_memory.steering.signed import Chosen
from epic_memory.types import FloatArray
from epic_memory.types.modes import Mode
from epic_memory.types.preferences import Expansion
from helpers import HashEncoder, KeepAll

PREFERENCES = ("I avoid hotels with casinos.", "I love quiet mountain trails.", "I prefer trains over flights.")
HOTELS, _, TRAINS = PREFERENCES
LODGINGS = [
    "The Golden Ace is a hotel on the Strip with a casino and slot machines.",
    "The Bellmore is a quiet hotel off the Strip, without a casino.",
    "The Oasis has rooms for families, a poker room and a pool.",
]
ENGINES = ["James Watt improved the steam engine.", "Newcomen built a pump for mines.", "The turbine came in 1884."]
# Expansions of every kind: with all parts, with one phrase of each, without questions, and borrowed or none.
WISHES: tuple[str | Preference, ...] = (
    Preference(
        text="I avoid casinos.",
        expansion=Expansion(
            questions=("Where should I stay in Las Vegas?", "Which resort suits me?", "What to do in Macau?"),
            follows=("a quiet guesthouse",),
            breaks=("slot machines", "poker rooms"),
        ),
    ),
    Preference(text="I love zorbs.", expansion=Expansion(questions=("Which zorb?",), breaks=("no zorb",))),
    Preference(text="I love fleems.", expansion=Expansion(follows=("a fleem", "red fleems"))),
    *PREFERENCES,
    "I prefer explanations that focus on evolution.",
    "I like plings.",
)
QUERIES = ("Which hotel should I book?", "Why did feathers evolve?", "zzz", "Where should I eat on a trail?")
seeds = st.integers(0, 2**32 - 1)


@pytest.fixture(scope="module")
def encoder() -> StaticEncoder:
    return default_encoder()


def names(steered: SteeredQuery) -> set[str]:
    return {chosen.preference.text for chosen in steered.preferences}


def asked(steering: QuerySteering, question: str) -> Chosen:
    """What a question of known kind is steered by."""
    return steering.choose(steering.encoder.encode([question])[0], kind=question_kind(question))


def units(seed: int, count: int, dimension: int) -> FloatArray:
    rows = np.random.default_rng(seed).normal(size=(count, dimension))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


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


# what it is made of


def test_an_expansion_makes_its_questions_near(encoder: StaticEncoder) -> None:
    expansion = Expansion(
        questions=("Where should I stay in Las Vegas?",), follows=("a quiet guesthouse",), breaks=("slot machines",)
    )
    for question in ("Where should we stay in Vegas?", "Where should I stay for two nights?"):
        query = encoder.encode([question])[0]
        (_, before), (_, after) = (
            QuerySteering(encoder, [Preference(text=HOTELS, expansion=one)]).choose(query).matters[0]
            for one in (None, expansion)
        )
        assert after > before


def test_an_expansion_speaks_for_what_follows_it_and_against_what_breaks_it(encoder: StaticEncoder) -> None:
    expansion = Expansion(follows=("museum visits", "library mornings"), breaks=("slot machines", "roulette tables"))
    texts = ["Mornings in the library, then a museum visit.", "Evenings of roulette tables and slot machines."]
    (with_it, without) = (
        QuerySteering(encoder, [Preference(text="I have views on holidays.", expansion=one)], floor=-1.0, borrow=False)
        for one in (expansion, None)
    )
    first, second = with_it.score("Where should I go on holiday?", texts)
    plain, other = without.score("Where should I go on holiday?", texts)
    assert first - second > plain - other + 0.05


# what a query asks for


@pytest.mark.parametrize(
    ("choice", "other"),
    [
        ("Which restaurants do you recommend?", "Who was the cook at that restaurant?"),
        ("Where should we eat tonight?", "When did we eat at Luigi's?"),
        ("Which dishes should I try?", "Thanks for the dish!"),
    ],
)
def test_a_preference_steers_who_chooses_more_than_who_recalls_or_chats(
    encoder: StaticEncoder, choice: str, other: str
) -> None:
    steering = QuerySteering(encoder, ["I love spicy food in small restaurants."])
    assert asked(steering, choice).strength > 0.6
    assert asked(steering, other).strength < 0.3


def test_what_names_nothing_is_steered_in_part_at_most(encoder: StaticEncoder) -> None:
    steering = QuerySteering(encoder, ["I prefer quiet places over crowded ones.", HOTELS, "I am vegetarian."])
    for query in ("Any suggestions?", "Which one should I choose?", "What do you think?", "Thanks!", ""):
        assert steering.steer(query).strength < 0.7


def test_a_fallback_is_asked_for_what_the_memory_does_not_know_however_it_is_steered() -> None:
    asked: list[str] = []
    texts = ["The Golden Ace is a Las Vegas hotel with a casino.", "The library garden is quiet and never crowded."]
    preferences = [HOTELS, "I prefer quiet places over crowded ones."]
    with EpicMemory(preferences, settings=Settings(fallback=lambda query, k: asked.append(query) or [])) as memory:
        memory.add(texts)
        for query in ("How do I repair a bicycle tyre?", "Which phone should I choose?"):
            memory.search(query)
            assert asked == [query]
            memory.search("Which hotel without a casino should I take?")
            assert asked == [query]
            asked.clear()


# what there is to choose from


@pytest.mark.parametrize("query", ["Something for two in May?", "素食"])
def test_candidates_bring_in_a_preference_that_the_query_does_not_name(encoder: StaticEncoder, query: str) -> None:
    steering, q = QuerySteering(encoder, PREFERENCES), encoder.encode([query])[0]
    assert HOTELS not in names(steering.steer_vector(q))
    assert HOTELS in names(steering.steer_vector(q, candidates=encoder.encode(LODGINGS)))
    assert not names(steering.steer_vector(q, candidates=encoder.encode(ENGINES)))


def test_candidates_that_are_about_something_else_weaken_a_preference(encoder: StaticEncoder) -> None:
    steering, q = QuerySteering(encoder, PREFERENCES), encoder.encode(["a hotel in Las Vegas"])[0]
    alone, among = steering.steer_vector(q), steering.steer_vector(q, candidates=encoder.encode(ENGINES))
    assert names(alone) == {HOTELS} and alone.strength > 0.9 and among.strength < 0.3
    trains = ["A night train to Rome leaves at ten.", "The flight to Rome takes two hours.", "A railway to Milan."]
    assert TRAINS in names(steering.steer_vector(q, candidates=encoder.encode(trains)))


# whatever the order


@given(seed=seeds, candidates=st.permutations(range(12)), count=st.integers(1, 12))
@pytest.mark.parametrize("floor", [None, -1.0])
def test_the_order_of_candidates_does_not_matter(
    floor: float | None, seed: int, candidates: list[int], count: int
) -> None:
    rows = units(seed, 16, 6)
    steering = QuerySteering(
        HashEncoder(6), ["I like zorbs.", "I like fleems.", "I avoid plings."], floor=floor, vectors=rows[1:4]
    )
    order = [place for place in candidates if place < count]
    one = steering.steer_vector(rows[0], candidates=rows[4 : 4 + count])
    assert_same(steering.steer_vector(rows[0], candidates=rows[4:][order]), one)


@given(order=st.permutations(range(len(WISHES))), query=st.sampled_from(QUERIES))
@pytest.mark.parametrize("floor", [None, -1.0])
def test_the_order_of_preferences_does_not_matter(floor: float | None, order: list[int], query: str) -> None:
    encoder = default_encoder()
    q = encoder.encode([query])[0]
    one, other = (
        QuerySteering(encoder, wishes, floor=floor) for wishes in (WISHES, [WISHES[place] for place in order])
    )
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

AXIS = np.eye(1, 4, dtype=np.float32)[0]
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
            steered = steering.steer_vector(query, candidates=candidates)
            assert steered.vector.dtype == np.float32
            assert np.linalg.norm(steered.vector) == pytest.approx(1.0, abs=1e-4)
            weights = [chosen.weight for chosen in steered.preferences]
            assert np.isfinite(steered.strength) and (not weights or sum(weights) == pytest.approx(1.0, abs=1e-5))
            assert np.isfinite(steering.score_texts(query, ["a casino"] * len(candidates), candidates)).all()


def matters_at(cosine: float, encoder: HashEncoder, *, candidates: bool = False) -> tuple[float, float]:
    """How much a preference of a given similarity to a query matters."""
    query = np.eye(1, encoder.dimension, dtype=np.float32)[0]
    wish = cosine * query + np.sqrt(1.0 - cosine**2) * np.roll(query, 1)
    steering = QuerySteering(encoder, ["I like zorbs."], vectors=wish[None].astype(np.float32))
    chosen = steering.choose(query, candidates=query[None] if candidates else None)
    ((_, chance),) = chosen.matters or ()
    return chance, chosen.strength


def test_what_is_as_much_nearer_with_another_encoder_is_as_relevant() -> None:
    low, high, bundled, shifted = HashEncoder(), HashEncoder(), HashEncoder(), HashEncoder()
    # All the similarities of one encoder lie higher by as much.
    high.floor = shifted.floor = low.floor + 0.2
    bundled.name = shifted.name = default_encoder().name
    for candidates in (False, True):
        chance, strength = matters_at(0.25, low, candidates=candidates)
        assert matters_at(0.45, high, candidates=candidates) == pytest.approx((chance, strength), abs=1e-4)
        assert matters_at(0.25, high, candidates=candidates) < (chance, strength)
        # The bundled encoder steers by weights of its own, whatever its floor.
        steered = [matters_at(0.25, one, candidates=candidates)[1] for one in (bundled, shifted)]
        assert steered[0] == steered[1] != pytest.approx(strength, abs=0.01)


# encoders


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


@pytest.mark.parametrize("mode", ["paper", "signed", "off"])
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
