"""The words of a text and what they say: negations, and turns of a conversation."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epic_memory.text.stems import LONGEST_RUN, content_stems, stem, stems, words_of
from epic_memory.text.turns import Turns
from tables import table

# Letters, marks, negations and turns in any order: what the scope of a negation is made of.
PARTS = "nuts|cream|gluten|free|no|not|without|of|from|than|rather|instead|and|but|,|.|;|isn't|isn’t|x-y"
SENTENCES = st.lists(st.sampled_from(PARTS.split("|")), max_size=14).map(" ".join)


@given(text=SENTENCES | st.text(max_size=60))
def test_a_run_is_of_at_most_three_stems_and_holds_no_mark(text: str) -> None:
    words = words_of(text)
    for run in words.plain | words.negated:
        assert 1 <= len(run.split()) <= LONGEST_RUN and not re.search(r"[,;:.!?]", run)


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


@pytest.mark.parametrize("mark", table(__file__, "x"))
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
        assert words.plain and not words.negated
    assert words.plain == {"hotel", "ohne", "kasino", "hotel ohne", "ohne kasino", "hotel ohne kasino"}


# turns: which answers which question, whose they are, and of which month

QUESTION, ANSWER = "Do you have any cats?", "Two, Oscar and Bailey."


def turns_of(*said: tuple[int, str, dict[str, object]]) -> Turns:
    turns = Turns()
    for row, text, metadata in said:
        turns.add(row, text, metadata)
    return turns


def pairs(turns: Turns) -> list[tuple[int, int]]:
    found = turns.rows()
    return list(zip(found.answers.tolist(), found.questions.tolist(), strict=True))


@pytest.mark.parametrize(
    ("question", "answer", "answers"), table(__file__, "the_next_turn_of_a_source_answers_a_question")
)
def test_the_next_turn_of_a_source_answers_a_question(
    question: dict[str, object], answer: dict[str, object], answers: bool
) -> None:
    for said in ([(7, QUESTION, question), (9, ANSWER, answer)], [(9, ANSWER, answer), (7, QUESTION, question)]):
        assert pairs(turns_of(*said)) == [(9, 7)] * answers


def test_what_follows_no_question_answers_none() -> None:
    assert pairs(turns_of((1, ANSWER, {"turn": 1}), (2, QUESTION, {"turn": 2}))) == []


def test_a_removed_or_replaced_turn_leaves_no_answer_behind() -> None:
    turns = turns_of((1, QUESTION, {"turn": 1, "speaker": "Ann"}), (2, ANSWER, {"turn": 2, "speaker": "Bo"}))
    turns.add(3, "Three.", {"turn": 2})
    assert pairs(turns) == [(3, 1)]
    turns.remove([2, 2, 99])
    assert pairs(turns) == [(3, 1)] and [rows.tolist() for rows in turns.named("Bo?")] in ([], [[]])
    turns.remove([1])
    assert pairs(turns) == [] and turns.rows().turns.tolist() == [3]
    turns.add(3, "Three.", {})
    assert turns.rows().turns.tolist() == []


@pytest.mark.parametrize(("time", "query", "named"), table(__file__, "a_query_names_a_month_or_a_year"))
def test_a_query_names_a_month_or_a_year(time: str | None, query: str, named: bool) -> None:
    turns = turns_of((4, ANSWER, {"speaker": "Bo", "time": time}))
    assert [rows.tolist() for rows in turns.named(query)] == [[4]] * named


def test_a_query_names_a_speaker() -> None:
    turns = turns_of((1, QUESTION, {"speaker": "Ann Lee"}), (2, ANSWER, {"speaker": "Bo"}), (3, "Nice.", {}))
    assert [rows.tolist() for rows in turns.named("How many cats has Bo?")] == [[2]]
    assert [rows.tolist() for rows in turns.named("What is Ann's dog called?")] == [[1]]
    assert turns.named("Who has cats?") == []
    assert turns.rows().turns.tolist() == [1, 2]
