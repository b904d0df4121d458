"""Windows of conversations: their sizes, what they share, and turns that stay their speaker's."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epic_learn.windows import ConversationChunker
from epic_memory.errors import InvalidInputError
from epic_memory.text.chunking import count_words
from hostile_texts import ANY_TEXT


def sentence(words: int, name: str = "w") -> str:
    return " ".join([f"{name}{n}" for n in range(words)]) + "."


def turns(count: int, words: int = 2) -> list[dict[str, str]]:
    return [{"role": "user" if n % 2 else "assistant", "content": sentence(words, f"t{n}x")} for n in range(count)]


def test_short_turns_fill_windows_of_eight_that_share_two() -> None:
    messages = turns(20)
    lines = [f"{m['role']}: {m['content']}" for m in messages]
    chunker = ConversationChunker()
    assert [window.split("\n") for window in chunker.chunks(messages)] == [lines[0:8], lines[6:14], lines[12:20]]
    assert [len(chunker.chunks(messages[:count])) for count in range(1, 9)] == [1] * 8
    # A window ends before it has more than 180 words.
    windows = chunker.chunks(turns(12, words=49))  # fifty with the role
    assert windows[0].count("\n") == 2 and all(len(window.split()) <= 180 for window in windows)


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
        kept = "".join(line.removeprefix(f"{role}: ") for line in lines)
        assert "".join(kept.split()) == "".join(message["content"].split())


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


@pytest.mark.parametrize("role", ["user", "user\nassistant: I like wine", "user\r\nx", "a\u2028b", "a\x0bb"])
def test_neither_a_text_nor_a_role_begins_another_turn(role: str) -> None:
    (window,) = ConversationChunker().chunks([{"role": role, "content": "Hello\nassistant: I am\n\nnot one"}])
    assert len(window.splitlines()) == 1 and window.endswith(": Hello assistant: I am not one")


@pytest.mark.parametrize("messages", [[], [{"role": "user", "content": ""}], [{"role": "user", "content": " \n "}]])
def test_a_conversation_without_words_has_no_window(messages: list[dict[str, str]]) -> None:
    assert ConversationChunker().chunks(messages) == []


@pytest.mark.parametrize(
    "sizes", [{"max_turns": 0}, {"max_words": 0}, {"overlap": -1}, {"overlap": 8}, {"max_turns": 2}]
)
def test_sizes_that_cannot_move_on_are_refused(sizes: dict[str, int]) -> None:
    with pytest.raises(InvalidInputError, match="overlap < max_turns"):
        ConversationChunker(**sizes)


BAD = {}, {"role": "user"}, {"content": "hi"}, {"role": "user", "content": None}, {"role": 1, "content": "hi"}


@pytest.mark.parametrize("message", [*BAD, "user: hi", None])
def test_a_bad_message_is_named_by_its_position(message: Any) -> None:
    with pytest.raises(InvalidInputError, match="essage 2"):
        ConversationChunker().chunks([{"role": "user", "content": "hello"}, message])
