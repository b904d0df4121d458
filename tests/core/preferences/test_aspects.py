"""Aspects: what a preference likes and what it avoids."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epic_memory.errors import InvalidInputError
from epic_memory.preferences.parser import english_aspects, firmness_of, parse_aspects
from labelled_aspects import LABELLED, labelled, measure
from tables import table

LINES = (Path(__file__).parent / "aspects.tsv").read_text(encoding="utf-8").splitlines()
SENTENCES = [tuple(line.split("\t")) for line in LINES if not line.startswith("#")]

REASONS = (
    " because it gives me headaches",
    ", because it gives me headaches",
    " since it makes me ill",
    " as I find it exhausting",
    " due to health reasons",
    ", it makes me ill",
)


def read(preference: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    aspects = parse_aspects(preference)
    return aspects.liked, aspects.avoided


def is_read(preference: str, liked: str, avoided: str) -> bool:
    """Tell whether the sides are those that are meant."""
    sides = read(preference)
    return all(
        bool(phrases) is bool(wanted)
        and wanted in " | ".join(phrases).casefold()
        and not (wanted and unwanted and wanted in " | ".join(other).casefold())
        for phrases, other, wanted, unwanted in ((*sides, liked, avoided), (*sides[::-1], avoided, liked))
    )


def test_preferences_are_read_as_they_are_meant() -> None:
    misread = [preference for preference, *sides in SENTENCES if not is_read(preference, *sides)]

    assert not misread


def test_case_apostrophes_and_white_space_do_not_matter() -> None:
    def folded(preference: str) -> list[list[str]]:
        return [[phrase.replace("’", "'").casefold() for phrase in side] for side in read(preference)]

    for preference, *_ in SENTENCES:
        plain = preference.replace("’", "'")
        spaced = f" {plain.lower()}\n".replace(" ", "  ")

        assert folded(plain.upper()) == folded(plain.replace("'", "’")) == folded(spaced) == folded(plain), preference


def test_a_reason_is_on_no_side() -> None:
    for preference in [preference for preference, *_ in SENTENCES if preference.startswith("I")]:
        for reason in REASONS:
            assert read(preference.rstrip(".") + reason + ".") == read(preference), preference + reason


@pytest.mark.parametrize(("preference", "liked", "avoided"), table(__file__, "lists"))
def test_lists_are_taken_apart_and_single_things_are_not(preference: str, liked: list[str], avoided: list[str]) -> None:
    assert read(preference) == (tuple(liked), tuple(avoided))


NOUNS = ("apples", "jazz", "trains", "old books", "window seats", "goat cheese", "chess", "salted caramel", "museums")


@given(st.lists(st.sampled_from(NOUNS), min_size=3, max_size=7, unique=True), st.sampled_from(["and", "or"]))
def test_lists_of_nouns_come_out_whole(nouns: list[str], conjunction: str) -> None:
    listed = f"{', '.join(nouns[:-1])} {conjunction} {nouns[-1]}"

    assert read(f"I avoid {listed}.") == ((), tuple(nouns))
    assert read(f"I love {listed}, since they calm me.") == (tuple(nouns), ())
    assert read(f"I prefer chestnuts over {listed}.") == (("chestnuts",), tuple(nouns))


@pytest.mark.parametrize(("preference", "scope"), table(__file__, "the_scope_is_read_and_is_on_no_side"))
def test_the_scope_is_read_and_is_on_no_side(preference: str, scope: str) -> None:
    aspects = parse_aspects(preference)

    assert aspects.scope == scope
    assert not scope or not any(scope in phrase for phrase in (*aspects.liked, *aspects.avoided))


@pytest.mark.parametrize(("preference", "firmness"), table(__file__, "how_firmly_it_is_held"))
def test_how_firmly_it_is_held(preference: str, firmness: float) -> None:
    assert firmness_of(preference) == parse_aspects(preference).firmness == firmness


@pytest.mark.parametrize("preference", ["🚆", "42", "Ramen", "Tangerine Dream"])
def test_what_no_pattern_reads_is_liked_as_a_whole(preference: str) -> None:
    aspects = parse_aspects(preference)

    assert aspects.avoided == ()
    assert aspects.liked[0] in preference


def test_nothing_has_no_sides() -> None:
    with pytest.raises(InvalidInputError):
        parse_aspects(" \n")


# Sentences of the words that preferences are made of, in no sensible order.
WORDS = st.lists(
    st.sampled_from(
        sorted({word for preference, *_ in SENTENCES for word in preference.split()} | {"-", "—", ";", ",", "when"})
    ),
    min_size=1,
    max_size=25,
).map(" ".join)


@given(st.text(min_size=1, max_size=200).filter(str.strip) | WORDS)
def test_any_text_has_a_side_unless_it_is_foreign(text: str) -> None:
    aspects = parse_aspects(text)
    phrases = (*aspects.liked, *aspects.avoided)
    assert bool(phrases) is aspects.understood
    assert all(phrase.strip() for phrase in phrases) and len({*phrases}) == len(phrases)


@given(WORDS)
def test_phrases_and_scopes_are_words_of_the_preference(text: str) -> None:
    aspects = parse_aspects(text)

    for phrase in (*aspects.liked, *aspects.avoided, aspects.scope):
        assert phrase in " ".join(text.split())


def seconds(text: str) -> float:
    """The least time that parsing took."""
    taken = []
    for _ in range(5):
        english_aspects.cache_clear()
        begun = time.process_time()
        parse_aspects(text)
        taken.append(time.process_time() - begun)
    return min(taken)


PIECES = "not |I avoid |without |over |a, |x|a-|and I hate x |when I |because |to |or "


@pytest.mark.parametrize("piece", PIECES.split("|"))
def test_the_time_grows_with_the_text_and_no_faster(piece: str) -> None:
    # Four times the text takes about four times as long; with backtracking it would be sixteen times or more.
    assert seconds((piece * 1000)[:1000]) < 10 * seconds((piece * 250)[:250]) + 0.005


# sentences that people labelled: tests/benchmarks/bench_aspects.py prints the figures

in_repository = pytest.mark.skipif(not LABELLED.exists(), reason="the labelled sentences are in the repository only")


@in_repository
def test_sides_firmness_and_scopes_are_read_about_as_well_as_they_were() -> None:
    measured = measure(labelled())
    assert measured.sentences >= 300
    assert measured.both.precision >= 0.88
    assert measured.both.recall >= 0.88
    assert measured.firmness_right / measured.sentences >= 0.80
    assert measured.scope.precision >= 0.80


@in_repository
def test_no_shape_is_read_badly() -> None:
    records = labelled()
    for shape in ("wiki", "rq", "eli5", "eval"):
        both = measure([record for record in records if record["shape"] == shape]).both
        assert min(both.precision, both.recall) >= 0.80, shape
