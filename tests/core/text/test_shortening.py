"""Less of a text: whole sentences, in order, and among them the one each instruction is about."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epic_memory.pipeline.eviction import shortened
from epic_memory.text.chunking import sentences
from tables import table

COMMON = ["lemon", "garden", "river", "window", "silent", "paper", "yellow", "market", "winter", "stone"]


@st.composite
def long_texts(draw: st.DrawFn) -> list[str]:
    """Sentences of common words, each with a word of its own by which an instruction can mean it."""
    count = draw(st.integers(3, 14))
    bodies = draw(st.lists(st.lists(st.sampled_from(COMMON), min_size=1, max_size=15), min_size=count, max_size=count))
    return [f"Topic{n}x {' '.join(body)}{'.!?'[n % 3]}" for n, body in enumerate(bodies)]


def kept_of(text: str, less: str) -> list[int]:
    """Which sentences of a text a shorter one has; it has nothing else."""
    parts, left, kept = sentences(text), less, []
    for number, part in enumerate(parts):
        if left.startswith(part) and (left == part or left[len(part)] == " "):
            kept.append(number)
            left = left[len(part) + 1 :]
    assert left == ""
    return kept


@given(parts=long_texts(), data=st.data())
def test_whole_sentences_stay_in_order_with_the_one_each_instruction_is_about(
    parts: list[str], data: st.DataObject
) -> None:
    text = " ".join(parts)
    wanted = data.draw(st.lists(st.integers(0, len(parts) - 1), min_size=1, max_size=3))
    less = shortened(text, [f'Look for this: "Topic{n}x"' for n in wanted])
    kept = kept_of(text, less)
    assert set(wanted) <= set(kept)
    # Beyond what the instructions need, no more than two fifths; a space between two sentences is not counted.
    needed = sum(len(parts[n]) for n in set(wanted))
    if less != text:
        assert len(less) <= max(0.4 * len(text), needed) + len(kept) - 1
    assert shortened(text, [f'Look for this: "Topic{n}x"' for n in wanted]) == less


@given(
    parts=long_texts(),
    instructions=st.lists(st.text(max_size=60), max_size=4),
    any_text=st.text(min_size=1, max_size=300),
)
def test_any_instructions_leave_some_whole_sentences_and_never_more_than_the_text(
    parts: list[str], instructions: list[str], any_text: str
) -> None:
    text = "  ".join(parts)
    less = shortened(text, instructions)
    for whole in (text, any_text):
        assert shortened(whole, instructions) == whole or 0 < len(shortened(whole, instructions)) < len(whole)
    if less != text:
        kept = kept_of(text, less)
        assert 1 <= len(kept) < len(parts)
        assert len(less) <= max(0.4 * len(text), len(instructions) * max(map(len, parts))) + len(kept) - 1


@pytest.mark.parametrize(("text", "instructions", "left"), table(__file__, "examples"))
def test_what_is_left_of_a_text(text: str, instructions: list[str], left: str) -> None:
    assert shortened(text, instructions) == left
