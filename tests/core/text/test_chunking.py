"""The chunkers: whole sentences, about 100 words; windows of a conversation that share turns."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epic_memory.errors import InvalidInputError
from epic_memory.text.chunking import ConversationChunker, WordChunker, count_words, sentences
from tables import table

# Any text, and text that is rich in what the chunkers look at.
ANY_TEXT = st.text(max_size=400) | st.lists(
    st.sampled_from(
        ["word", "你好", "ไทย", "🚆", ".", "。", "!", "?", "…", '"', ")", " ", "  ", "\n", "\n\n", "\r\n", "。」"]
    ),
    max_size=120,
).map("".join)


def letters(*texts: str) -> str:
    """All that is no white space, in order."""
    return "".join("".join(texts).split())


def sentence(words: int, name: str = "w") -> str:
    return " ".join([f"{name}{n}" for n in range(words)]) + "."


def turns(count: int, words: int = 2) -> list[dict[str, str]]:
    return [{"role": "user" if n % 2 else "assistant", "content": sentence(words, f"t{n}x")} for n in range(count)]


# documents


@given(st.lists(st.integers(1, 60), min_size=1, max_size=30), st.integers(1, 120))
def test_pieces_are_whole_sentences_in_order_up_to_the_limit(lengths: list[int], limit: int) -> None:
    written = [sentence(length, f"s{n}x") for n, length in enumerate(lengths)]
    pieces = WordChunker(max_words=limit).chunks(" ".join(written))

    assert [s for piece in pieces for s in sentences(piece)] == written
    assert all(len(piece.split()) <= limit or len(sentences(piece)) == 1 for piece in pieces)


@given(st.lists(st.integers(1, 60), min_size=2, max_size=30), st.integers(1, 120))
def test_a_piece_ends_only_where_the_next_sentence_would_not_fit(lengths: list[int], limit: int) -> None:
    pieces = WordChunker(max_words=limit).chunks(" ".join(sentence(length) for length in lengths))

    for piece, following in pairwise(pieces):
        assert len(piece.split()) + len(sentences(following)[0].split()) > limit


@given(ANY_TEXT, st.integers(1, 30))
def test_pieces_hold_every_character_of_any_text_and_none_is_empty(text: str, limit: int) -> None:
    pieces = WordChunker(max_words=limit).chunks(text)

    assert letters(*pieces) == letters(text)
    assert all(piece == piece.strip() != "" for piece in pieces)


@given(st.lists(st.sampled_from(["one", "two.", "three!", "four?", '"five."', "six…", "\n\n", "\n"]), max_size=80))
def test_joining_the_pieces_gives_back_the_words(words: list[str]) -> None:
    text = " ".join(words)

    assert " ".join(WordChunker(max_words=7).chunks(text)).split() == text.split()


@pytest.mark.parametrize(("text", "pieces"), table(__file__, "texts"), ids=range(5))
def test_texts_are_cut_into_pieces(text: str, pieces: list[str]) -> None:
    assert WordChunker().chunks(text) == pieces


@pytest.mark.parametrize(("text", "expected"), table(__file__, "sentences_end_where_a_reader_ends_them"))
def test_sentences_end_where_a_reader_ends_them(text: str, expected: list[str]) -> None:
    assert sentences(text) == expected
    assert WordChunker(max_words=1).chunks(text) == expected


def test_scripts_without_spaces_are_cut_too() -> None:
    text = "我喜欢坐火车去旅行。" * 60
    pieces = WordChunker().chunks(text)

    assert len(pieces) > 1
    assert all(count_words(piece) <= 100 for piece in pieces)


@pytest.mark.parametrize(("text", "words"), [("", 0), ("two words", 2), ("你好你好", 2), ("one 你好 two", 3)])
def test_two_unspaced_characters_count_as_a_word(text: str, words: int) -> None:
    assert count_words(text) == words


@pytest.mark.parametrize("limit", [0, -1, "x", None, 1.5])
def test_a_piece_must_have_room_for_a_word(limit: Any) -> None:
    with pytest.raises(InvalidInputError, match="max_words"):
        WordChunker(max_words=limit)


# conversations


@pytest.mark.parametrize(("messages", "windows"), table(__file__, "conversations"), ids=range(7))
def test_conversations_are_cut_into_windows(messages: list[dict[str, str]], windows: list[str]) -> None:
    assert ConversationChunker().chunks(messages) == windows


@pytest.mark.parametrize("count", range(1, 9))
def test_a_short_conversation_is_one_window(count: int) -> None:
    assert len(ConversationChunker().chunks(turns(count))) == 1


def test_neighbours_share_two_turns_where_there_is_room() -> None:
    windows = [window.split("\n") for window in ConversationChunker().chunks(turns(30, words=20))]

    assert all(left[-2:] == right[:2] for left, right in pairwise(windows))


MESSAGES = st.lists(
    st.fixed_dictionaries({"role": st.sampled_from(["user", "assistant", "system", " "]), "content": ANY_TEXT}),
    max_size=25,
)
SIZES = st.integers(1, 10).flatmap(
    lambda most: st.fixed_dictionaries(
        {"max_turns": st.just(most), "max_words": st.integers(1, 200), "overlap": st.integers(0, most - 1)}
    )
)


@given(MESSAGES, SIZES)
def test_windows_keep_to_their_sizes_and_hold_every_turn(messages: list[dict[str, str]], sizes: dict[str, int]) -> None:
    windows = [window.split("\n") for window in ConversationChunker(**sizes).chunks(messages)]
    # Each message by itself, one turn a window: its turns, in order.
    alone = ConversationChunker(max_turns=1, max_words=sizes["max_words"], overlap=0)
    said = [alone.chunks([message]) for message in messages]

    assert all(1 <= len(window) <= sizes["max_turns"] for window in windows)
    assert all(len(window) == 1 or count_words("\n".join(window)) <= sizes["max_words"] for window in windows)
    assert {line for window in windows for line in window} == {line for lines in said for line in lines}
    for message, lines in zip(messages, said, strict=True):
        role = message["role"].strip() or "user"
        assert letters(*(line.removeprefix(f"{role}: ") for line in lines)) == letters(message["content"])


@given(st.integers(0, 60), st.integers(1, 90), SIZES)
def test_windows_move_on_and_keep_the_order(count: int, words: int, sizes: dict[str, int]) -> None:
    messages = turns(count, words)
    lines = [f"{m['role']}: {m['content']}" for m in messages]
    limited = {**sizes, "max_words": max(sizes["max_words"], words)}
    starts, ends = [], []
    for window in ConversationChunker(**limited).chunks(messages):
        inside = window.split("\n")
        starts.append(lines.index(inside[0]))
        ends.append(starts[-1] + len(inside))
        assert lines[starts[-1] : ends[-1]] == inside

    assert all(earlier < later for earlier, later in pairwise(starts))
    assert all(earlier < later for earlier, later in pairwise(ends))
    assert all(0 <= end - start <= limited["overlap"] for end, start in zip(ends, starts[1:], strict=False))
    assert (starts[:1], ends[-1:]) == (([0], [count]) if count else ([], []))


def test_an_iterator_of_messages_is_read_once() -> None:
    assert ConversationChunker().chunks(iter(turns(9))) == ConversationChunker().chunks(turns(9))


@pytest.mark.parametrize(
    "sizes",
    [{"max_turns": 0}, {"max_words": 0}, {"overlap": -1}, {"overlap": 8}, {"max_turns": 2}],
)
def test_sizes_that_cannot_move_on_are_refused(sizes: dict[str, int]) -> None:
    with pytest.raises(InvalidInputError, match="overlap < max_turns"):
        ConversationChunker(**sizes)


BAD = {}, {"role": "user"}, {"content": "hi"}, {"role": "user", "content": None}, {"role": 1, "content": "hi"}


@pytest.mark.parametrize("message", [*BAD, "user: hi", None])
def test_a_bad_message_is_named_by_its_position(message: Any) -> None:
    with pytest.raises(InvalidInputError, match="essage 2"):
        ConversationChunker().chunks([{"role": "user", "content": "hello"}, message])


@pytest.mark.parametrize("length", [1, 999, 1000, 1001, 2345, 100_001])
def test_a_text_without_sentence_ends_is_cut_between_words(length: int) -> None:
    text = " ".join(f"w{number}" for number in range(length))
    pieces = WordChunker().chunks(text)
    assert " ".join(pieces) == text
    assert len(pieces) == (1 if length <= 1000 else -(-length // 100))
    assert pieces == list(WordChunker().stream(text))


def test_one_word_of_any_length_is_a_piece() -> None:
    assert WordChunker().chunks("x" * 200_000) == ["x" * 200_000]
