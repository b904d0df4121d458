"""What speaks for and against a preference in a text: features, their weights, and what is looked for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from epic_memory import Preference
from epic_memory.encoders import StaticEncoder, default_encoder
from epic_memory.encoders.base import Encoder
from epic_memory.preferences.evidence import (
    FEATURES,
    GROUPS,
    AspectEmbeddings,
    embed_aspects,
    embedding_aspects,
    features,
    stance_scores,
)
from epic_memory.runtime.effects import arun
from epic_memory.text.stems import words_of
from epic_memory.types.preferences import Aspects, Expansion
from helpers import HashEncoder


@pytest.fixture(scope="module")
def encoder() -> StaticEncoder:
    return default_encoder()


def liking(*liked: str) -> Preference:
    return Preference(text="A preference.", aspects=Aspects(liked=liked))


def avoiding(*avoided: str) -> Preference:
    return Preference(text="A preference.", aspects=Aspects(avoided=avoided))


def one_side(preference: str | Preference, encoder: Encoder | None = None) -> AspectEmbeddings:
    (sides,) = embed_aspects(encoder or HashEncoder(), [preference])
    return sides


def leaning(encoder: Encoder, preference: str | Preference, query: str, texts: Sequence[str]) -> np.ndarray:
    """The stance_scores of texts under a preference."""
    sides = one_side(preference, encoder)
    vectors, q = encoder.encode(texts), encoder.encode([query])[0]
    return stance_scores(
        sides, [words_of(text) for text in texts], vectors @ sides.vectors.T, vectors @ q, sides.vectors @ q
    )


@pytest.mark.parametrize(
    ("preference", "text", "expected"),
    [
        # A phrase that denies is said by a text that denies it.
        (liking("gluten-free"), "a gluten-free cake", {"liked_said": True}),
        (liking("gluten-free"), "a cake without gluten", {"liked_said": True, "liked_denied": False}),
        (liking("gluten-free"), "a cake with gluten", {"liked_said": False, "liked_denied": True}),
        (liking("gluten-free"), "a cake", {"liked_denied": False}),
        # Opposites stand against what is liked and for what is avoided.
        (avoiding("high zorb"), "a place of low zorb", {"avoided_instead_said": True}),
        (liking("low zorb"), "a place of high zorb", {"liked_instead_said": True}),
        # The lexicon knows kinds and what is taken instead.
        (avoiding("meat"), "a steak", {"avoided_kinds_said": True, "avoided_said": False}),
        (avoiding("meat"), "a dish of tofu", {"avoided_instead_said": True}),
        (liking("vegan"), "bacon with butter", {"liked_instead_said": True}),
        (avoiding("meat"), "a stew without steak", {"avoided_kinds_said": False, "avoided_kinds_denied": True}),
    ],
)
def test_what_words_say_of_a_preference(preference: Preference, text: str, expected: dict[str, bool]) -> None:
    sides = one_side(preference)
    (found,) = features(sides, [words_of(text)], np.zeros((1, len(sides.vectors)), dtype=np.float32))
    said = dict(zip(FEATURES, found.tolist(), strict=True))
    assert {name: said[name] >= 1.0 for name in expected} == expected
    assert all(said[name] == 0.0 for name, is_said in expected.items() if not is_said)


def assert_same(one: AspectEmbeddings, other: AspectEmbeddings) -> None:
    for name in ("aspects", "phrases", "kinds", "group_rows"):
        assert getattr(one, name) == getattr(other, name)
    for name in ("vectors", "questions", "expanded"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


async def test_several_preferences_are_encoded_in_one_call_and_keep_their_own_also_asynchronously() -> None:
    preferences = ["I prefer trains over flights.", "素食", expanding(), avoiding("casinos"), expanding("bundled")]
    encoder = HashEncoder()
    together = embed_aspects(encoder, preferences)
    assert encoder.calls == 1
    fake = HashEncoder()
    for here, there, preference in zip(
        together, await arun(embedding_aspects(fake, preferences)), preferences, strict=True
    ):
        assert_same(here, one_side(preference))
        assert_same(there, here)
    assert not fake.sync_threads
    assert embed_aspects(encoder, []) == await arun(embedding_aspects(fake, [])) == []


@given(
    texts=st.lists(st.text(max_size=40), max_size=6),
    liked=st.lists(st.sampled_from(["casino", "gluten-free", "🙂", "素食", "high noise", "the", "vegan"]), max_size=3),
    avoided=st.lists(
        st.sampled_from(["meat", "nut-free", "...", "long flights", "no", "wine"]), min_size=1, max_size=3
    ),
    seed=st.integers(0, 2**32 - 1),
)
def test_features_and_leanings_are_finite(texts: list[str], liked: list[str], avoided: list[str], seed: int) -> None:
    random = np.random.default_rng(seed)
    sides = one_side(Preference(text="p", aspects=Aspects(liked=tuple(liked), avoided=tuple(avoided))))
    unit = random.normal(size=(len(texts) + len(sides.vectors) + 1, 3))
    unit = (unit / np.linalg.norm(unit, axis=1, keepdims=True)).astype(np.float32)
    query, near, phrases = unit[0], unit[1 : len(texts) + 1], unit[len(texts) + 1 :]
    words = [words_of(text) for text in texts]
    found = features(sides, words, near @ phrases.T)
    assert found.shape == (len(texts), len(FEATURES))
    assert np.isfinite(found).all()
    assert (np.abs(found[:, : 2 + len(GROUPS)]) <= 1.0 + 1e-5).all()
    shares = found[:, 2 + len(GROUPS) : 6 + len(GROUPS)]
    assert ((shares >= 0.0) & (shares <= 1.0)).all()
    leans = stance_scores(sides, words, near @ phrases.T, near @ query, phrases @ query)
    assert leans.shape == (len(texts),)
    assert np.isfinite(leans).all()


def test_what_all_texts_share_with_the_query_does_not_lean() -> None:
    # A phrase that is the query's own direction tells no texts apart, however near they are to it.
    sides = one_side(liking("zorbs"))
    cosines = np.array([[0.9], [0.1]], dtype=np.float32)
    near, far = stance_scores(sides, [words_of("")] * 2, cosines, cosines[:, 0], np.ones(1, dtype=np.float32))
    assert near == pytest.approx(far, abs=1e-6)
    near, far = stance_scores(sides, [words_of("")] * 2, cosines, cosines[:, 0], np.zeros(1, dtype=np.float32))
    assert near > far


@pytest.mark.parametrize(
    ("preference", "query", "better", "worse"),
    [
        ("I avoid hotels with casinos.", "a hotel", "A quiet hotel without a casino.", "A hotel with a casino."),
        ("I need gluten-free food.", "a cake", "A gluten-free cake.", "A cake full of gluten."),
        ("I am vegan.", "dinner", "Tofu with lentils and vegetables.", "Steak with butter and cheese."),
        ("I prefer trains over flights.", "travel to Rome", "Take the night train.", "Take a flight."),
        ("I love spicy food.", "dinner", "A fiery curry with chili.", "A mild porridge, not spicy."),
        (avoiding("high noise"), "a place to work", "A desk with low noise.", "A desk with high noise."),
    ],
)
def test_evidence_tells_the_better_text(
    encoder: StaticEncoder, preference: str | Preference, query: str, better: str, worse: str
) -> None:
    above, below = leaning(encoder, preference, query, [better, worse])
    assert above > below + 0.5


# expansions

PHRASES = {"questions": ("Which zorb?",), "follows": ("a red zorb", "zorb parks"), "breaks": ("a fleem",)}


def expanding(source: str = "user") -> Preference:
    expansion = Expansion(**PHRASES, source=source)  # type: ignore[arg-type]
    return Preference(text="I love zorbs.", aspects=Aspects(liked=("zorbs",)), expansion=expansion)
