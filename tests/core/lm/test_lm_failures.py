"""A memory whose items a language model verifies: answers that are none, what does not fit, and models that fail."""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from epic_memory import Item
from epic_memory.errors import LMError, LMSetupError, LMUnavailableError
from epic_memory.lm import Completion, Message
from epic_memory.verification import LMVerifier
from scripted import (
    DISCARDED,
    EXPECTED,
    ITEMS,
    KEPT,
    LONG,
    PASSED,
    SHORT,
    TEXTS,
    Add,
    Answer,
    Own,
    memory_with,
    nothing_lost,
    own_threads,
    pairs_of,
    patient,
    script,
    until,
    user_text,
)


@pytest.fixture(autouse=True)
def no_threads_left() -> Iterator[None]:
    """Tests here leave no thread of theirs behind."""
    yield
    until(lambda: own_threads() == 0)


@pytest.mark.parametrize("garbage", ["", "I think this is an interesting text.", "\x00\ud800", "the the " * 5000])
async def test_garbage_is_asked_about_once_more_and_then_waits(garbage: str, add: Add) -> None:
    lm = Own(lambda messages: garbage)
    memory = memory_with(patient(lm))
    report = await add(memory)

    assert (report.kept, report.discarded) == (0, 0)
    nothing_lost(memory, report, waiting=len(PASSED))
    assert len(lm.sent) == report.usage.calls == 2
    assert report.usage.retries == 1
    assert set(report.failures) == set(PASSED)
    assert all("could not be understood" in reason for reason in report.failures.values())
    shown = garbage.replace("\ud800", "?").replace("\x00", "")
    assert report.answers == (dict.fromkeys(PASSED, shown[:4000]) if shown else {})

    lm.answer = script()
    again = memory.retry()
    assert (again.kept, again.discarded) == (len(KEPT), len(DISCARDED))
    nothing_lost(memory, again, waiting=0)
    assert pairs_of(memory) == EXPECTED


def test_what_the_model_said_instead_is_shown() -> None:
    memory = memory_with(LMVerifier(Own(lambda messages: "Behalten, weil es passt.")))
    memory.add([Item(text=TEXTS["stew"], id="stew")])
    explanation = memory.explain("stew")
    assert explanation.entries == ()
    assert "could not be understood" in explanation.note and "Behalten, weil es passt." in explanation.note


# what does not fit


@pytest.mark.parametrize("batch_size", [1, 4])
async def test_a_chunk_that_does_not_fit_is_not_sent(batch_size: int, add: Add) -> None:
    said = script()
    memory = memory_with(LMVerifier(Own(said, context=512), batch_size=batch_size, prompt=SHORT, max_tokens=64))
    report = await add(memory, [*ITEMS[:2], LONG, *ITEMS[2:]])

    assert pairs_of(memory) == EXPECTED
    assert said.about(LONG.text) == [] == said.about(LONG.text.strip())
    nothing_lost(memory, report, waiting=1)
    reason = report.failures["long"]
    assert "too long" in reason and "512" in reason
    assert re.search(r"\b[89]\d\d tokens", reason)
    assert "WordChunker" in reason and "context=" in reason
    assert report.usage.calls == len(said.asked)


def test_a_chunk_that_did_not_fit_is_verified_by_a_model_with_more_room() -> None:
    said = script()
    memory = memory_with(LMVerifier(Own(said, context=512), prompt=SHORT, max_tokens=64))
    memory.add([LONG])
    memory.verifier = LMVerifier(Own(said, context=8192))

    again = memory.retry()
    nothing_lost(memory, again, waiting=0)
    assert again.discarded == 1


def test_a_context_too_small_for_anything_sends_nothing() -> None:
    lm = Own(script(), context=512)
    memory = memory_with(LMVerifier(lm))
    report = memory.add(ITEMS)

    assert lm.sent == []
    nothing_lost(memory, report, waiting=len(PASSED))
    assert all("512" in reason and "tokens" in reason for reason in report.failures.values())
    assert (report.usage.calls, report.usage.retries) == (0, 0)


# a model that fails


class Failing:
    """Raises `error` for so many calls, then answers."""

    def __init__(self, error: BaseException, times: float, answer: Answer) -> None:
        self.error = error
        self.times = times
        self.answer = answer

    def __call__(self, messages: Sequence[Message]) -> str | Completion:
        if self.times > 0:
            self.times -= 1
            raise self.error
        return self.answer(messages)


AWAY = LMUnavailableError("broken pipe dream")
STRANGE = type("Strange", (Exception,), {})("out of memory, broken pipe dream")


@pytest.mark.parametrize("error", [AWAY, STRANGE])
async def test_a_model_that_fails_for_a_while_is_asked_again(error: Exception, add: Add) -> None:
    memory = memory_with(patient(Own(Failing(error, 3, script())), retries=3))
    report = await add(memory)

    assert pairs_of(memory) == EXPECTED
    assert report.usage.retries == 3
    nothing_lost(memory, report, waiting=0)


@pytest.mark.parametrize(("batch_size", "error"), [(1, AWAY), (8, STRANGE)])
async def test_a_model_that_fails_for_good_is_left_alone_after_two_calls(
    batch_size: int, error: Exception, add: Add
) -> None:
    lm = Own(Failing(error, math.inf, script()))
    memory = memory_with(patient(lm, batch_size=batch_size, retries=2))
    report = await add(memory)

    assert len(lm.sent) == report.usage.calls == 2 * 3
    assert report.usage.retries == 2 * 2 + (batch_size > 1)
    nothing_lost(memory, report, waiting=len(PASSED))
    assert all("broken pipe dream" in reason for reason in report.failures.values())

    # Another round begins with one attempt.
    memory.retry()
    assert len(lm.sent) == 7

    lm.answer.times = 0  # type: ignore[attr-defined]
    again = memory.retry()
    nothing_lost(memory, again, waiting=0)
    assert pairs_of(memory) == EXPECTED


def test_one_item_that_always_fails_does_not_stop_the_others() -> None:
    said = script()

    def answer(messages: Sequence[Message]) -> str:
        if TEXTS["stew"] in user_text(messages):
            raise OSError("no beans")
        return said(messages)

    memory = memory_with(patient(Own(answer), retries=2))
    report = memory.add(ITEMS)

    # Those that were asked about together with it are asked about by themselves.
    nothing_lost(memory, report, waiting=1)
    assert list(report.failures) == ["stew"]
    assert pairs_of(memory) == {pair: said for pair, said in EXPECTED.items() if pair[0] != "stew"}


async def test_what_the_user_has_to_change_is_asked_once(add: Add) -> None:
    lm = Own(Failing(LMSetupError("Pull it first."), math.inf, script()))
    memory = memory_with(patient(lm))
    report = await add(memory)

    assert len(lm.sent) == 1
    nothing_lost(memory, report, waiting=len(PASSED))
    assert set(report.failures.values()) == {"Pull it first."}


async def test_a_refused_request_is_not_asked_again_and_others_are(add: Add) -> None:
    said = script()

    def answer(messages: Sequence[Message]) -> str:
        if "casinos" in user_text(messages):
            raise LMError("I do not talk about that.")
        return said(messages)

    lm = Own(answer)
    memory = memory_with(patient(lm))
    report = await add(memory)

    assert set(report.failures) == {"palms", "fair"}
    assert len(lm.sent) == 1 + report.passed
    assert pairs_of(memory) == {pair: said for pair, said in EXPECTED.items() if pair[0] not in report.failures}


async def test_a_model_without_acomplete_is_called_in_a_thread() -> None:
    said = script()
    threads: set[int] = set()

    class Half:
        name = "half"
        concurrency = 1
        context = None

        def complete(self, messages: Sequence[Message], **settings: Any) -> Completion:
            threads.add(threading.get_ident())
            return Completion(text=said(messages))

    memory = memory_with(patient(Half(), retries=0))  # type: ignore[arg-type]
    await memory.aadd(ITEMS)

    assert pairs_of(memory) == EXPECTED
    assert threading.get_ident() not in threads
