"""What is read from the answers of language models: a verdict that was stated, or none."""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from answer_shapes import (
    ALONE,
    BATCH,
    BATCH_ANSWER,
    BATCH_ASKED,
    DECIDE,
    INSTRUCTION,
    KEEP_ONE,
    KEEP_TWO,
    ONE_PREFERENCE,
    PREFERENCES,
    REWRITE,
    SINGLE,
    UNREADABLE,
    XML_DISCARD,
    XML_KEEP,
    Kept,
)
from epic_core.lm.answers import UnreadableAnswer
from epic_core.lm.base import Token, probability
from epic_core.types import Decision
from epic_core.verification.answers import read_batch, read_decision, read_instruction, read_rewrite
from epic_core.verification.values import Answer


def verdict(answer: Answer) -> Kept | str:
    if answer.decision is not Decision.KEEP:
        assert not answer.relevant
        return str(answer.decision)
    return tuple((one.index + 1, str(one.stance), one.instruction) for one in answer.relevant)


def decided(text: str, preferences: tuple[str, ...], *, instructions: bool) -> Kept | str:
    try:
        return verdict(read_decision(text, preferences, instructions=instructions))
    except UnreadableAnswer:
        return UNREADABLE


def batch(text: str) -> dict[int, Kept | str]:
    answers = read_batch(text, PREFERENCES, BATCH_ASKED, instructions=True)
    return {place + 1: verdict(answer) for place, answer in answers.items()}


def instruction(text: str) -> tuple[str, str] | str:
    try:
        written = read_instruction(text)
    except UnreadableAnswer:
        return UNREADABLE
    return str(written.stance), written.instruction


def rewrite(text: str) -> str:
    try:
        return read_rewrite(text)
    except UnreadableAnswer:
        return UNREADABLE


@pytest.mark.parametrize(
    ("shapes", "read"),
    [
        (SINGLE, lambda text: decided(text, PREFERENCES, instructions=True)),
        (DECIDE, lambda text: decided(text, PREFERENCES, instructions=False)),
        (ALONE, lambda text: decided(text, ONE_PREFERENCE, instructions=False)),
        (BATCH, batch),
        (INSTRUCTION, instruction),
        (REWRITE, rewrite),
    ],
    ids=["single", "decide", "alone", "batch", "instruction", "rewrite"],
)
def test_what_was_stated_is_read_and_nothing_else(
    shapes: dict[str, tuple[str, Any]], read: Callable[[str], Any]
) -> None:
    misread = {shape: read(text) for shape, (text, expected) in shapes.items() if read(text) != expected}
    assert misread == {}


# whatever is answered


def check_sound(text: str) -> None:
    """Nothing but a verdict that was stated comes of a text, or `UnreadableAnswer`."""
    for instructions in (True, False):
        answers: list[Answer] = []
        try:
            answers.append(read_decision(text, PREFERENCES, instructions=instructions))
        except UnreadableAnswer as error:
            assert str(error)
        batch = read_batch(text, PREFERENCES, BATCH_ASKED, instructions=instructions)
        assert set(batch) <= set(range(len(BATCH_ASKED)))
        assert all(one.index in BATCH_ASKED[place] for place, answer in batch.items() for one in answer.relevant)
        for answer in [*answers, *batch.values()]:
            assert answer.decision in (Decision.KEEP, Decision.DISCARD)
            if answer.span is not None:
                assert text[slice(*answer.span)].casefold() == str(answer.decision).casefold()
            if answer.decision is Decision.KEEP:
                assert "keep" in text.casefold()
                assert answer.relevant
                assert {one.index for one in answer.relevant} <= set(range(len(PREFERENCES)))
                assert len({one.index for one in answer.relevant}) == len(answer.relevant)
                assert not instructions or all(one.instruction for one in answer.relevant)
            else:
                assert "discard" in text.casefold() or '"keep"' in text.casefold()
    for read in (read_instruction, read_rewrite):
        try:
            assert read(text)
        except UnreadableAnswer as error:
            assert str(error)


FRAGMENTS = [
    *(text for shapes in (SINGLE, DECIDE, ALONE, BATCH, INSTRUCTION, REWRITE) for text, _ in shapes.values()),
    *"{}[]\"':,\\\n`</>#*-12",
    *(
        "Keep",
        "Discard",
        "not ",
        " or ",
        '"decision": ',
        "decision: ",
        '"preferences": [',
        '"instruction": "',
        "```json\n",
    ),
    *("<think>", "</think>", "[THINK]", "[/THINK]", "◁think▷", "◁/think▷", "<|channel|>final<|message|>", "<|end|>"),
    *(
        "<decision>",
        "</decision>",
        "<preference>",
        "</preference>",
        "<relevant_preferences>",
        "<answer>",
        "\u2028",
        "\x00",
    ),
]
PIECES = st.one_of(
    st.sampled_from(FRAGMENTS).flatmap(
        lambda text: st.builds(lambda a, b: text[a:b], *[st.integers(0, len(text))] * 2)
    ),
    st.sampled_from(FRAGMENTS),
    st.text(max_size=12),
)


@given(st.text())
def test_of_any_text_comes_a_stated_verdict_or_none(text: str) -> None:
    check_sound(text)


@settings(max_examples=400, deadline=None)
@given(st.lists(PIECES, max_size=8))
@pytest.mark.slow
def test_of_pieces_of_answers_comes_a_stated_verdict_or_none(pieces: list[str]) -> None:
    check_sound("".join(pieces))


@settings(max_examples=400, deadline=None)
@given(
    st.sampled_from([KEEP_ONE, KEEP_TWO, XML_KEEP, XML_DISCARD, BATCH_ANSWER]),
    st.lists(st.tuples(st.integers(0, 600), st.integers(0, 20), PIECES), max_size=4),
)
@pytest.mark.slow
def test_of_an_answer_that_was_altered_comes_a_stated_verdict_or_none(
    text: str, changes: list[tuple[int, int, str]]
) -> None:
    for place, lost, put in changes:
        text = text[:place] + put + text[place + lost :]
    check_sound(text)


# answers that take long


HOSTILE = {
    "brackets": "[" * 20000,
    "objects": '{"a":' * 4000,
    "objects in lists": "[{" * 10000,
    "shallow objects": ('{"a":' * 200 + "1") * 19,
    "quotes": '{"' * 10000,
    "single quotes": "{'" * 10000,
    "escapes": '{"' + '\\"' * 10000,
    "thinking": "<think>" * 3000,
    "ends of thinking": "</think>" * 2500,
    "channels": "<|channel|>final<|message|>" * 800,
    "angle brackets": "<|" * 10000,
    "keys": '"decision":' * 1500,
    "labels": "decision:\n" * 2000,
    "words": "decision " * 2200,
    "keeps": "Keep " * 4000,
    "tags": "<decision>" * 2000,
    "decisions": "<decision>Keep" * 1400,
    "reasons": "<decision>Keep</decision><reason>" * 600,
    "preferences": "<decision>Keep<relevant_preferences>" + "<preference>" * 1600,
    "preferences and nothing": "<decision>Keep</decision><preference>" + "<a>" * 6000 + "</preference>",
    "attributes": "<decision " * 2000,
    "a gap": "<decision>Keep" + " " * 19000 + "x",
    "digits": "1" * 20000,
    "digits in an object": '{"decision": "Keep", "preferences": [' + "1" * 19000 + "]}",
    "commas": ", " * 9000,
    "commas in an object": '{"decision": "Keep", "preferences": "' + ", " * 9000 + '"}',
    "numbers": '{"decision": "Keep", "preferences": [' + "1," * 9000,
    "numbers in a text": '{"decision": "Keep", "preferences": "' + "1 " * 9000 + '"}',
    "answers": KEEP_ONE * 100,
    "sloppy answers": KEEP_ONE.replace('"', "'") * 100,
    "line ends": "\n" * 20000,
    "spaces": " " * 20000,
    "stars": "*" * 20000,
    "fences": "```\n{" * 3000,
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.slow
def test_no_answer_takes_long_to_read(name: str) -> None:
    begun = time.process_time()
    check_sound(HOSTILE[name][:20000])
    assert time.process_time() - begun < 10


LONG_PREFERENCES = tuple(f"I like number {number}, {'really ' * 800}" for number in range(32))
LISTED = {
    "as listed": [f"rreallyrea{number}" for number in range(1100)],
    "again and again": ["x"] * 4000,
    "parts": ["reallyreallyx"] * 1200,
    "numbered": [f"{number}. reallyx" for number in range(1000)],
}


@pytest.mark.parametrize("name", LISTED)
def test_many_listed_texts_are_read_fast(name: str) -> None:
    text = json.dumps({"decision": "Keep", "preferences": LISTED[name]})[:20000]
    several = '{"decision": "Keep", "preferences": "reallyreallyx"}' * 390
    for answer in (text, text[: text.rindex(",")] + "]}", several):
        begun = time.process_time()
        decided(answer, LONG_PREFERENCES, instructions=False)
        assert time.process_time() - begun < 2.0


@pytest.mark.parametrize("end", ["", ": ", "Discard, ", "if Discard, ", "the final answer is ", "so then ", "( * "])
def test_words_beside_an_answer_are_read_fast(end: str) -> None:
    begun = time.process_time()
    decided((KEEP_ONE + (end or "\n") * 20000)[:20000], PREFERENCES, instructions=True)
    decided(((end or "\n") * 20000)[:19000] + KEEP_ONE, PREFERENCES, instructions=True)
    assert time.process_time() - begun < 2.0


# when repairing fails


@pytest.mark.parametrize("error", [ValueError, RecursionError, MemoryError, KeyError, ImportError])
def test_whatever_repairing_raises_the_answer_is_unreadable(
    error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(text: str) -> None:
        raise error

    monkeypatch.setattr("json_repair.loads", fails)
    check_unrepaired()


def test_without_json_repair_a_sloppy_answer_is_unreadable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "json_repair", None)
    check_unrepaired()


def check_unrepaired() -> None:
    sloppy = KEEP_ONE.replace('"', "'")
    assert decided(KEEP_ONE, PREFERENCES, instructions=True) != UNREADABLE
    assert decided(sloppy, PREFERENCES, instructions=True) == UNREADABLE
    assert read_batch(f"[{sloppy}", PREFERENCES, BATCH_ASKED, instructions=True) == {}
    for read in (read_instruction, read_rewrite):
        with pytest.raises(UnreadableAnswer):
            read("{'instruction': 'Offer the rooms.', 'text': 'Rooms.'")


# how sure it is


def tokens(*given: tuple[str, float]) -> tuple[Token, ...]:
    return tuple(Token(text, logprob) for text, logprob in given)


THOUGHT = tokens(("<think>", -1.0), ("Keep", -5.0), ("?</think>\n\n", -1.0), ("Keep", -0.1), (".", -1.0))
PARTS = (("\ufffd", -3.0), ("\ufffd", -3.0), ('\n{"decision": "', -9.0))


@pytest.mark.parametrize(
    ("given", "text", "logprob"),
    [
        (tokens(('{"decision": "', -9.0), ("Keep", -0.1), ('"}', -9.0)), None, -0.1),
        (tokens(('{"decision": "', -9.0), ("Dis", -0.1), ("card", -0.2), ('"}', -9.0)), None, -0.3),
        (tokens(('{"decision":', -9.0), (' "Ke', -0.1), ('ep",', -0.2), (' "x": 1}', -9.0)), None, -0.3),
        (THOUGHT, None, -0.1),
        # The server kept the thinking to itself.
        (THOUGHT, "Keep.", -0.1),
        # Tokens that are parts of a character do not add up to the text.
        (tokens(*PARTS, ("Keep", -0.1), ('"}', -9.0)), '🌿\n{"decision": "Keep"}', -0.1),
        (tokens(*PARTS, ("KEEP", -0.1), ('"}', -9.0)), '🌿\n{"decision": "KEEP"}', -0.1),
        (tokens(("Keep?", -3.0), *PARTS, ("Keep", -0.1), ('"}', -9.0)), '🌿\n{"decision": "Keep"}', None),
        (None, '{"decision": "Keep"}', None),
        ((), '{"decision": "Keep"}', None),
        (tokens(("Keep", float("nan"))), "Keep", None),
    ],
    ids=[
        *("one token", "two tokens", "quotes and commas", "thinking", "thinking apart", "parts", "parts, capitals"),
        *("which of several", "no tokens", "empty", "not a number"),
    ],
)
def test_the_probability_is_that_of_the_tokens_of_the_decision(
    given: tuple[Token, ...] | None, text: str | None, logprob: float | None
) -> None:
    said = "".join(token.text for token in given or ()) if text is None else text
    span = read_decision(said, ONE_PREFERENCE, instructions=False).span
    expected = None if logprob is None else pytest.approx(math.exp(logprob))
    assert probability(given, said, span) == expected


def test_without_a_place_there_is_no_probability() -> None:
    assert probability(tokens(("Keep", -0.1)), "Keep", None) is None


def test_each_decision_of_a_batch_has_its_own_probability() -> None:
    given = tokens(
        ('[{"chunk": 1, "decision": "', -9.0),
        ("Discard", -0.1),
        ('"}, {"chunk": 2, "decision": "', -9.0),
        ("Dis", -0.5),
        ("card", -0.5),
        ('"}, {"chunk": 3, "decision": "', -9.0),
        ("Keep", -2.0),
        ('", "preferences": [1]}]', -9.0),
    )
    text = "".join(token.text for token in given)
    answers = read_batch(text, PREFERENCES, [(0,)] * 3, instructions=False)
    found = [probability(given, text, answers[place].span) for place in range(3)]
    assert found == [pytest.approx(0.9048, abs=1e-4), pytest.approx(0.3679, abs=1e-4), pytest.approx(0.1353, abs=1e-4)]


@given(
    st.lists(st.tuples(st.sampled_from(["Ke", "ep", "Keep", " ", '"', "\ufffd", ""]), st.floats()), max_size=8),
    st.data(),
)
def test_a_probability_is_between_0_and_1(given: list[tuple[str, float]], data: st.DataObject) -> None:
    text = data.draw(st.sampled_from(["".join(text for text, _ in given), "Keep", '"Keep"é']))
    begin = data.draw(st.integers(0, len(text)))
    found = probability(tokens(*given), text, (begin, data.draw(st.integers(begin, len(text)))))
    assert found is None or 0.0 <= found <= 1.0
