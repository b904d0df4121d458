"""The words of a text: runs of stems, and which of them a negation reaches."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epic_memory.text.stems import LONGEST_RUN, content_stems, stem, stems, words_of
from tables import table

# Letters, marks, negations and turns in any order: what the scope of a negation is made of.
PARTS = "nuts|cream|gluten|free|no|not|without|of|from|than|rather|instead|and|but|,|.|;|isn't|isn’t|x-y"
SENTENCES = st.lists(st.sampled_from(PARTS.split("|")), max_size=14).map(" ".join)


def runs(text: str) -> set[str]:
    """All runs of up to three stems with no mark inside, found another way."""
    plain = text.lower().replace("’", "'").replace("n't", " not")
    found = set()
    for part in re.split(r"[,;:.!?]", plain):
        said = [stem(word) for word in re.findall(r"[^\W_]+", part)]
        for start in range(len(said)):
            for length in range(1, LONGEST_RUN + 1):
                found.add(" ".join(said[start : start + length]))
    return found


@given(text=SENTENCES | st.text(max_size=60))
def test_plain_and_negated_together_are_all_runs(text: str) -> None:
    words = words_of(text)
    assert words.plain | words.negated == runs(text)


@pytest.mark.parametrize(
    ("text", "plain", "negated"),
    [
        *table(__file__, "a_negation_reaches_what_it_denies"),
        ("rather spicy", [stem("spice")], []),
        ("not gluten-free", ["gluten"], []),
    ],
)
def test_a_negation_reaches_what_it_denies(text: str, plain: list[str], negated: list[str]) -> None:
    words = words_of(text)
    assert set(plain) <= words.plain - words.negated
    assert set(negated) <= words.negated - words.plain


@pytest.mark.parametrize("mark", [",", ";", ":", ".", "!", "?", " but", " and"])
def test_marks_and_turns_end_a_negation(mark: str) -> None:
    assert "cream" in words_of(f"without nuts{mark} cream").plain
    assert "cream" in words_of("without nuts or cream").negated


FORMS = """
berry berries|cake cakes|church churches|glass glasses|dish dishes|tomato tomatoes|child children|quick quickly
spicy spicier spiciest spice|swim swims swimming|smoke smokes smoked smoking|fly flight flights flying flew flies
person people|class classes|noise noisy|movie movies|drive drove driving|mouse mice|knife knives|box boxes|run running
hike hiking|bake baking
"""


@pytest.mark.parametrize("forms", FORMS.strip().replace("\n", "|").split("|"))
def test_forms_of_a_word_share_a_stem(forms: str) -> None:
    assert len(set(map(stem, forms.split()))) == 1


@pytest.mark.parametrize("word", ["bus", "tennis", "glass", "sing", "ring", "bed", "as", "is", "a", "素食", "été"])
def test_what_only_looks_like_an_ending_stays(word: str) -> None:
    assert stem(word) == word


@given(word=st.text(st.characters(categories=("Ll", "Lo", "Nd")), min_size=1, max_size=12))
def test_a_stem_is_never_empty_nor_longer(word: str) -> None:
    assert 0 < len(stem(word)) <= len(word) + 1


def test_content_stems_leave_out_what_says_nothing() -> None:
    assert content_stems("I would like the gluten-free cake with no nuts, please") == ["gluten", "cake", "nut", "pleas"]
    assert stems("The cakes of the gardens") == ["the", "cake", "of", "the", "garden"]


def test_texts_in_other_languages_have_words_and_no_negations() -> None:
    for text in ("素食餐厅没有赌场", "مطعم بدون كازينو", "Гостиница без казино", "Hotel ohne Kasino"):
        words = words_of(text)
        assert words.plain == runs(text)
        assert not words.negated
