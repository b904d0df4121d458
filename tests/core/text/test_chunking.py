"""The chunkers: whole sentences, about 100 words; windows of a conversation that share turns."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epic_memory.errors import InvalidInputError
from epic_memory.text.chunking import WordChunker, count_words, sentences
from hostile_texts import ANY_TEXT
from tables import table


def sentence(words: int, name: str = "w") -> str:
    return " ".join([f"{name}{n}" for n in range(words)]) + "."


# documents


@given(st.lists(st.integers(1, 60), min_size=1, max_size=30), st.integers(1, 120))
def test_pieces_are_whole_sentences_in_order_and_as_long_as_the_limit_lets_them(lengths: list[int], limit: int) -> None:
    written = [sentence(length, f"s{n}x") for n, length in enumerate(lengths)]
    pieces = WordChunker(max_words=limit).chunks(" ".join(written))
    assert [s for piece in pieces for s in sentences(piece)] == written
    assert all(len(piece.split()) <= limit or len(sentences(piece)) == 1 for piece in pieces)
    for piece, following in pairwise(pieces):
        assert len(piece.split()) + len(sentences(following)[0].split()) > limit


@given(ANY_TEXT, st.integers(1, 30))
def test_pieces_hold_every_character_of_any_text_and_none_is_empty(text: str, limit: int) -> None:
    pieces = WordChunker(max_words=limit).chunks(text)
    assert "".join("".join(pieces).split()) == "".join(text.split())
    assert all(piece == piece.strip() != "" for piece in pieces)


@pytest.mark.parametrize(("text", "pieces"), table(__file__, "texts"), ids=range(5))
def test_texts_are_cut_into_pieces(text: str, pieces: list[str]) -> None:
    assert WordChunker().chunks(text) == pieces


@pytest.mark.parametrize(("text", "expected"), table(__file__, "sentences_end_where_a_reader_ends_them"))
def test_sentences_end_where_a_reader_ends_them(text: str, expected: list[str]) -> None:
    assert sentences(text) == expected
    assert WordChunker(max_words=1).chunks(text) == expected


@pytest.mark.parametrize(("text", "words"), [("", 0), ("two words", 2), ("你好你好", 2), ("one 你好 two", 3)])
def test_two_unspaced_characters_count_as_a_word(text: str, words: int) -> None:
    assert count_words(text) == words
    pieces = WordChunker().chunks("我喜欢坐火车去旅行。" * 60)
    assert len(pieces) > 1 and all(count_words(piece) <= 100 for piece in pieces)


@pytest.mark.parametrize("limit", [0, -1, "x", None, 1.5])
def test_a_piece_must_have_room_for_a_word(limit: Any) -> None:
    with pytest.raises(InvalidInputError, match="max_words"):
        WordChunker(max_words=limit)


@pytest.mark.parametrize("length", [1, 999, 1000, 1001, 2345, 100_001])
def test_a_text_without_sentence_ends_is_cut_between_words(length: int) -> None:
    text = " ".join(f"w{number}" for number in range(length))
    pieces = WordChunker().chunks(text)
    assert " ".join(pieces) == text
    assert len(pieces) == (1 if length <= 1000 else -(-length // 100))
    assert pieces == list(WordChunker().stream(text))
    assert WordChunker().chunks("x" * 2 * length) == ["x" * 2 * length]
