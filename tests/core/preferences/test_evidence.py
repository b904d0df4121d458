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


def said(preference: Preference, text: str) -> dict[str, float]:
    """The features by words alone, of one text."""
    sides = one_side(preference)
    (found,) = features(sides, [words_of(text)], np.zeros((1, len(sides.vectors)), dtype=np.float32))
    return dict(zip(FEATURES, found.tolist(), strict=True))


def by_words(preference: Preference, *texts: str) -> list[float]:
    """The stance_scores by words alone."""
    sides = one_side(preference)
    cosines = np.zeros((len(texts), len(sides.vectors)), dtype=np.float32)
    nothing = np.zeros(len(texts), dtype=np.float32), np.zeros(len(sides.vectors), dtype=np.float32)
    return stance_scores(sides, [words_of(text) for text in texts], cosines, *nothing).tolist()


def leaning(encoder: Encoder, preference: str | Preference, query: str, texts: Sequence[str]) -> np.ndarray:
    """The stance_scores of texts under a preference."""
    sides = one_side(preference, encoder)
    vectors, q = encoder.encode(texts), encoder.encode([query])[0]
    return stance_scores(
        sides, [words_of(text) for text in texts], vectors @ sides.vectors.T, vectors @ q, sides.vectors @ q
    )


# Words of our own that no line of the lexicon has.
NEITHER = "a plain qwertz here"


@pytest.mark.parametrize(
    ("preference", "text", "sign"),
    [
        (liking("zorbs"), "a zorb here", 1),
        (liking("zorbs"), "without zorbs", -1),
        (avoiding("zorbs"), "a zorb here", -1),
        (avoiding("zorbs"), "without zorbs", 1),
    ],
)
def test_what_is_said_of_a_side_raises_or_lowers(preference: Preference, text: str, sign: int) -> None:
    said_of_it, neither = by_words(preference, text, NEITHER)
    assert sign * said_of_it > neither == 0.0


def test_a_phrase_that_denies_is_said_by_a_text_that_denies_it() -> None:
    preference = liking("gluten-free")
    assert said(preference, "a gluten-free cake")["liked_said"] == 1.0
    assert said(preference, "a cake without gluten")["liked_said"] == 1.0
    assert said(preference, "a cake without gluten")["liked_denied"] == 0.0
    assert said(preference, "a cake with gluten")["liked_said"] == 0.0
    assert said(preference, "a cake with gluten")["liked_denied"] == 1.0
    assert said(preference, "a cake")["liked_denied"] == 0.0


def test_opposites_stand_against_what_is_liked_and_for_what_is_avoided() -> None:
    assert said(avoiding("high zorb"), "a place of low zorb")["avoided_instead_said"] == 1.0
    assert said(liking("low zorb"), "a place of high zorb")["liked_instead_said"] == 1.0
    low, high = by_words(avoiding("high zorb"), "a place of low zorb", "a place of high zorb")
    assert low > high
    low, high = by_words(liking("low zorb"), "a place of low zorb", "a place of high zorb")
    assert low > high


def test_the_lexicon_knows_kinds_and_what_is_taken_instead() -> None:
    meat = said(avoiding("meat"), "a steak")
    assert meat["avoided_kinds_said"] >= 1.0
    assert meat["avoided_said"] == 0.0
    assert said(avoiding("meat"), "a dish of tofu")["avoided_instead_said"] >= 1.0
    assert said(liking("vegan"), "bacon with butter")["liked_instead_said"] >= 1.0
    steak, tofu = by_words(avoiding("meat"), "a steak", "a dish of tofu")
    assert tofu > steak


def test_a_denied_kind_is_not_said() -> None:
    found = said(avoiding("meat"), "a stew without steak")
    assert found["avoided_kinds_said"] == 0.0
    assert found["avoided_kinds_denied"] >= 1.0


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
