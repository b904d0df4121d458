"""The embedded verifier: what it measures of a pair, what it keeps, and the stance it takes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from epic_memory import Preference
from epic_memory.encoders import Encoder, StaticEncoder, default_encoder
from epic_memory.encoders.base import embed
from epic_memory.errors import InvalidInputError
from epic_memory.types import Alignment, Candidate, Decision, Item, Stance, Verdict
from epic_memory.types.preferences import Aspects, Expansion
from epic_memory.verification import EmbeddedVerifier
from epic_memory.verification.base import checked_verdict
from epic_memory.verification.embedded import DEFAULT_THRESHOLD
from epic_memory.verification.features import (
    MEASURES,
    STANCE_MEASURES,
    SURE_MEASURES,
)
from helpers import HashEncoder
from hostile_chunks import CHUNKS
from labelled_sentences import labelled
from tables import table

WRITTEN = Path(__file__).parents[3] / "shared/tools/written"
DATA = (files("epic_memory") / "data" / "verifier.json").read_bytes()
PREFERENCES = ("I avoid hotels with casinos.", "I love quiet mountain trails.", "I don't eat pork.", "I am vegan.")
TEXTS = (
    "The Bellmore is a quiet hotel off the Strip without a casino.",
    "The Golden Ace is a hotel on the Strip with a large casino and slot machines.",
    "A quiet mountain trail leads through meadows. It ends at a lake. Bring water!",
    "Roast pork belly with bacon and ham is the dish of the house.",
    "The castle was built in 1532 by a bishop. It burned down twice.",
    "A vegan dinner of lentils, tofu and vegetables. Is it cheap? It is.",
)


@pytest.fixture(scope="module")
def encoder() -> StaticEncoder:
    return default_encoder()


def candidate(encoder: Encoder, text: str, *preferences: str | Preference) -> Candidate:
    asked = tuple(Preference.of(preference) for preference in preferences or PREFERENCES)
    own, near = embed(encoder, [text])[0], embed(encoder, [preference.text for preference in asked])
    return Candidate(
        item=Item(text=text),
        embedding=own,
        preferences=asked,
        similarities=tuple((near @ own).tolist()),
        preference_embeddings=near,
    )


def verdict(encoder: Encoder, text: str, *preferences: str | Preference, threshold: float = 0.0) -> Verdict:
    asked = candidate(encoder, text, *preferences)
    (found,) = EmbeddedVerifier(encoder, threshold=threshold).verify([asked])
    return checked_verdict(asked, found)


def alignment(encoder: Encoder, text: str, preference: str | Preference) -> Alignment:
    (found,) = verdict(encoder, text, preference).alignments
    return found


def stance(encoder: Encoder, text: str, preference: str | Preference) -> Stance:
    return alignment(encoder, text, preference).stance


SUPPORTS, CONFLICTS = Stance.SUPPORTS, Stance.CONFLICTS


@pytest.mark.parametrize(("preference", "text", "expected"), labelled("stance"))
def test_stance(encoder: StaticEncoder, preference: str, text: str, expected: str) -> None:
    assert stance(encoder, text, preference) == expected


LEFT_OUT = "This soup is made without milk, eggs or meat."


@pytest.mark.parametrize(
    ("preference", "text"),
    [
        *labelled("what_is_denied_is_never_held_against_a_text"),
        *((avoided, LEFT_OUT) for avoided in ("I avoid eggs.", "I don't eat meat.", "I avoid milk and eggs.")),
    ],
)
def test_what_is_denied_is_never_held_against_a_text(encoder: StaticEncoder, preference: str, text: str) -> None:
    assert stance(encoder, text, preference) is SUPPORTS


@pytest.mark.parametrize(("preference", "text", "wrong"), labelled("a_clear_case_is_never_inverted"))
def test_a_clear_case_is_never_inverted(encoder: StaticEncoder, preference: str, text: str, wrong: str) -> None:
    assert stance(encoder, text, preference) != wrong


@pytest.mark.parametrize(
    ("preference", "text"),
    table(__file__, "guidance_that_is_neutral_names_the_preference"),
    ids=["no side is likely", "not understood"],
)
def test_guidance_that_is_neutral_names_the_preference(encoder: StaticEncoder, preference: str, text: str) -> None:
    found = alignment(encoder, text, preference)
    assert found.stance is Stance.NEUTRAL
    advice = ("Check before recommending: the user said:", "Vor dem Empfehlen prüfen: Der Nutzer hat gesagt:")
    assert found.instruction.startswith(tuple(f'{each} "{preference}"' for each in advice))
    assert found.instruction.endswith(f'"{text}"')


def test_an_expansion_of_the_users_tells_the_side(encoder: StaticEncoder) -> None:
    near, far = ("slot machines", "roulette tables"), ("museum visits", "library mornings")
    for follows, breaks, wrong in ((far, near, SUPPORTS), (near, far, CONFLICTS)):
        expanded = Preference(text="I have views on holidays.", expansion=Expansion(follows=follows, breaks=breaks))
        assert stance(encoder, "Slot machines and roulette until dawn.", expanded) is not wrong


def test_edited_aspects_change_the_stance(encoder: StaticEncoder) -> None:
    text, views = "A cup of strong coffee, freshly brewed.", "I have views on coffee."
    likes = Preference(text=views, aspects=Aspects(liked=("coffee",)))
    avoids = Preference(text=views, aspects=Aspects(avoided=("coffee",)))
    verifier = EmbeddedVerifier(encoder, threshold=0.0)
    # The same text, hence the same id: what was learnt of one must not serve the other.
    for _ in range(2):
        for preference, expected in ((likes, SUPPORTS), (avoids, CONFLICTS)):
            (found,) = verifier.verify([candidate(encoder, text, preference)])
            assert found.alignments[0].stance is expected


@pytest.mark.parametrize(
    ("preference", "text", "advice", "quoted"), table(__file__, "instructions_say_what_to_do_and_quote_the_text")
)
def test_instructions_say_what_to_do_and_quote_the_text(
    encoder: StaticEncoder, preference: str, text: str, advice: str, quoted: str
) -> None:
    told = alignment(encoder, text, preference).instruction
    assert told.startswith(advice) and f'the user said: "{preference}"' in told and quoted in told


@pytest.mark.parametrize(("preference", "before", "deciding", "after"), labelled("the_sentence_that_decides_is_quoted"))
def test_the_sentence_that_decides_is_quoted(
    encoder: StaticEncoder, preference: str, before: str, deciding: str, after: str
) -> None:
    assert alignment(encoder, f"{before} {deciding} {after}", preference).instruction.endswith(f'"{deciding}"')


@pytest.mark.parametrize("name", ["plain_b.jsonl", "plain_c.jsonl"])
def test_plain_notes_get_their_stance_and_others_that_share_a_word_do_not(encoder: StaticEncoder, name: str) -> None:
    # Never fitted on.
    rows = [json.loads(line) for line in (WRITTEN / name).read_text(encoding="utf-8").splitlines()]
    verifier = EmbeddedVerifier(encoder)
    verdicts = verifier.verify([candidate(encoder, row["text"], row["preference"]) for row in rows])
    given = [
        (row["stance"], one.alignments[0].stance.value)
        for row, one in zip(rows, verdicts, strict=True)
        if one.alignments and one.alignments[0].stance in (SUPPORTS, CONFLICTS)
    ]
    right = sum(meant == found for meant, found in given)
    assert right >= 0.9 * len(given)
    assert right >= 0.5 * sum(row["stance"] != "unrelated" for row in rows)


@pytest.mark.parametrize(("preference", "text"), table(__file__, "what_only_shares_a_word_is_neutral"))
def test_what_only_shares_a_word_is_neutral(encoder: StaticEncoder, preference: str, text: str) -> None:
    assert stance(encoder, text, preference) is Stance.NEUTRAL


def test_relevant_pairs_are_kept_and_others_are_not(encoder: StaticEncoder) -> None:
    verdicts = list(EmbeddedVerifier(encoder).verify([candidate(encoder, text) for text in TEXTS]))
    kept = {(place, found.preference_id) for place, one in enumerate(verdicts) for found in one.alignments}
    names = [Preference.of(preference).id for preference in PREFERENCES]
    assert {(0, names[0]), (1, names[0]), (2, names[1]), (3, names[2]), (5, names[3])} <= kept
    assert not any(place == 4 for place, _ in kept)
    assert verdicts[4].decision is Decision.DISCARD
    sure, unsure = (alignment(encoder, TEXTS[place], PREFERENCES[0]).confidence for place in (1, 4))
    assert sure is not None and unsure is not None and sure > 0.5 and unsure < 0.2


def test_alignments_come_surest_first_and_the_verdict_is_as_sure_as_the_first(encoder: StaticEncoder) -> None:
    for text in TEXTS:
        found = verdict(encoder, text)
        sure = [one.confidence for one in found.alignments]
        assert sure == sorted(sure, reverse=True)
        assert found.decision is Decision.KEEP
        assert found.confidence == sure[0]
        none = verdict(encoder, text, threshold=1.0)
        assert none.decision is Decision.DISCARD
        assert none.confidence == pytest.approx(1.0 - sure[0])


@pytest.mark.parametrize("threshold", [-0.1, 1.1, float("nan")])
def test_a_threshold_that_is_no_confidence_is_an_error(threshold: float) -> None:
    with pytest.raises(InvalidInputError, match="threshold"):
        EmbeddedVerifier(HashEncoder(), threshold=threshold)


def test_the_name_tells_thresholds_apart() -> None:
    encoder = HashEncoder()
    thresholds = [0.0, 0.1, DEFAULT_THRESHOLD, 0.25, 0.5, 1.0]
    assert len({EmbeddedVerifier(encoder, threshold=threshold).name for threshold in thresholds}) == len(thresholds)
    assert EmbeddedVerifier(encoder).name == EmbeddedVerifier(encoder, threshold=DEFAULT_THRESHOLD).name


async def test_it_is_deterministic_and_independent_of_the_batch(encoder: StaticEncoder) -> None:
    asked = [candidate(encoder, text) for text in TEXTS]
    verifier, fresh = (EmbeddedVerifier(encoder, threshold=0.0) for _ in range(2))
    together = list(verifier.verify(asked))
    assert list(verifier.verify(asked)) == list(fresh.verify(asked)) == together
    assert [one async for one in fresh.averify(asked)] == together
    assert list(verifier.verify([])) == [one async for one in verifier.averify([])] == []
    many = list(verifier.verify(asked * 50))  # more than a block
    backwards = list(verifier.verify(asked[::-1]))[::-1]
    alone = [next(iter(EmbeddedVerifier(encoder, threshold=0.0).verify([one]))) for one in asked]
    for other in (many[: len(asked)], many[-len(asked) :], backwards, alone):
        same_as(other, together)


def same_as(verdicts: Sequence[Verdict], expected: Sequence[Verdict]) -> None:
    """But for the last bits: products of matrices of other shapes add up otherwise."""
    for one, other in zip(verdicts, expected, strict=True):
        assert one.decision is other.decision
        for here, there in zip(one.alignments, other.alignments, strict=True):
            assert replace(here, confidence=there.confidence) == there
            assert here.confidence == pytest.approx(there.confidence, abs=1e-4)


def test_what_it_says_of_one_preference_is_independent_of_the_others(encoder: StaticEncoder) -> None:
    for text in TEXTS:
        together = {found.preference_id: found for found in verdict(encoder, text).alignments}
        for preference in PREFERENCES:
            alone = alignment(encoder, text, preference)
            found = together[alone.preference_id]
            assert replace(found, confidence=alone.confidence) == alone
            assert found.confidence == pytest.approx(alone.confidence, abs=1e-4)


def test_preferences_are_encoded_once() -> None:
    encoder = HashEncoder()
    asked = [candidate(encoder, text) for text in TEXTS]
    encoder.texts.clear()
    verifier = EmbeddedVerifier(encoder)
    for _ in range(3):
        list(verifier.verify(asked))
    assert encoder.texts["pork"] == 1


LONG = ("word " * 10_000, "A hotel with a casino. " * 1_000, "casino" * 10_000)


@pytest.mark.parametrize("text", [*table(__file__, "odd_texts_are_judged"), *LONG], ids=lambda text: text[:20])
def test_odd_texts_are_judged_and_long_ones_quoted_in_short(encoder: StaticEncoder, text: str) -> None:
    found = verdict(encoder, text)
    assert len(found.alignments) == len(PREFERENCES)
    for one in found.alignments:
        assert one.confidence is not None and 0.0 <= one.confidence <= 1.0
        assert one.instruction.strip() and len(one.instruction) < 400
    if text not in LONG:
        assert verdict(encoder, text, threshold=DEFAULT_THRESHOLD).decision is Decision.DISCARD


def test_chunks_that_want_to_be_kept_are_no_more_likely_kept_for_it(encoder: StaticEncoder) -> None:
    assert len(CHUNKS) > 20
    asked = [candidate(encoder, text, "I love quiet mountain trails.") for text in CHUNKS.values()]
    assert {one.decision for one in EmbeddedVerifier(encoder, threshold=0.5).verify(asked)} == {Decision.DISCARD}


@given(text=st.text(min_size=1, max_size=80).filter(lambda text: bool(text.strip()) and "\x00" not in text))
def test_any_text_has_a_confidence(text: str) -> None:
    encoder = HashEncoder(64)
    text = text.encode("utf-8", "ignore").decode("utf-8")
    if text.strip():
        for one in verdict(encoder, text).alignments:
            assert one.confidence is not None and 0.0 <= one.confidence <= 1.0


# What it weighs.


def test_the_weights_are_small_and_of_known_measures() -> None:
    # With the lexicon, which steering uses, too.
    assert len(DATA) + len((files("epic_memory") / "data" / "lexicon.tsv.bz2").read_bytes()) <= 105_000
    shipped = json.loads(DATA)
    linear = {name for name in shipped if isinstance(shipped[name], dict) and "weights" in shipped[name]}
    of = {"relevance": MEASURES, "stance": STANCE_MEASURES, "sure": SURE_MEASURES, "sure_of_note": SURE_MEASURES}
    assert linear == {f"{name}_{what}" for name in ("static", "other") for what in of}
    for name in linear:
        weights = shipped[name]["weights"]
        assert weights
        assert set(weights) <= set(of[name.split("_", 1)[1]])
        assert np.isfinite([*weights.values(), shipped[name]["bias"]]).all()
    assert all(0 < count <= shipped["texts"] for count in shipped["counts"].values())


def test_another_encoder_has_weights_of_its_own() -> None:
    # The same embeddings under another name.
    plain, named = HashEncoder(), HashEncoder(name="epic-static-v1")
    one = verdict(plain, TEXTS[1], PREFERENCES[0]).confidence
    other = verdict(named, TEXTS[1], PREFERENCES[0]).confidence
    assert one != other
