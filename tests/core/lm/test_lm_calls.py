"""What calls language models: with patience, and several at once."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Sequence
from contextlib import aclosing
from typing import Any

import pytest

from epic_memory.errors import InvalidInputError, LMError, LMSetupError, LMUnavailableError
from epic_memory.lm import Completion, LanguageModel, Message
from epic_memory.lm.client import Complete, RetryPolicy, StructuredClient
from epic_memory.runtime.effects import arun, run
from epic_memory.runtime.streaming import acompleted, completed
from epic_memory.types import Usage
from epic_memory.verification import LMVerifier
from lm_servers import LMServer, Reply
from scripted import Own, candidate, model_of, own_threads, until

HELLO = [Message("system", "Be brief."), Message("user", "Is it so?")]
SCHEMA = {"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]}


# patience

DOWN = LMUnavailableError("no server")


def request_to(lm: LanguageModel) -> Complete:
    return Complete(lm=lm, messages=HELLO, schema=SCHEMA, max_tokens=50)


REQUEST = request_to(Own(lambda messages: ""))


def played(patience: RetryPolicy, *answers: object) -> tuple[list[float], Completion | LMError]:
    """The pauses made, and how it ends, if the attempts are answered so; the last answer is for all others."""
    calling, left, pauses = StructuredClient(REQUEST.lm, patience).answer(REQUEST, Usage()), list(answers), []
    try:
        step = next(calling)
        while True:
            if isinstance(step, Complete):
                step = calling.send(left.pop(0) if len(left) > 1 else left[0])
            else:
                pauses.append(step.seconds)
                step = calling.send(None)
    except StopIteration as stop:
        answer: Completion = stop.value
        return pauses, answer
    except LMError as error:
        return pauses, error


YES = Completion(text="Yes")


@pytest.mark.parametrize(
    ("settings", "answers", "pauses"),
    [
        ({"retries": 4, "backoff": 0.25}, [DOWN], [0.25, 0.5, 1.0, 2.0]),
        ({"retries": 0}, [DOWN], []),
        ({"backoff": 0.1}, [DOWN, DOWN, YES], [0.1, 0.2]),
        *(
            ({"retries": 2, "backoff": 0.5}, [LMUnavailableError("too many", retry_after=asked)], [waited, waited])
            for asked, waited in ((3.0, 3.0), (0.0, 0.5), (1000.0, 30.0), (float("inf"), 30.0))
        ),
        *(
            ({"retries": retries}, [LMUnavailableError("too slow", timed_out=True)], [0.5] * min(retries, 1))
            for retries in (0, 1, 3)
        ),
        ({}, [LMError("refused")], []),
        ({}, [LMSetupError("not pulled")], []),
    ],
)
def test_how_long_is_waited_before_it_is_tried_again(
    settings: dict[str, Any], answers: list[Completion | LMError], pauses: list[float]
) -> None:
    assert played(RetryPolicy(**settings), *answers) == (pauses, answers[-1])


@pytest.mark.parametrize(
    "settings",
    [{"retries": value} for value in (-1, 1.5, "3", True, None)]
    + [{"backoff": v} for v in (-0.1, 31, "1", None, math.nan, math.inf)],
)
def test_patience_that_cannot_be_is_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError, match=next(iter(settings))):
        RetryPolicy(**settings)


# patience with a server


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize(
    ("said", "named"),
    [
        (None, "NoneType, not a Completion"),
        ({"text": "Yes"}, "dict, not a Completion"),
        (Completion(text=None), "text of type NoneType"),  # type: ignore[arg-type]
    ],
)
async def test_what_is_no_completion_is_named(said: Any, named: str, is_async: bool) -> None:
    lm = Own(lambda messages: said)
    asking = StructuredClient(lm, RetryPolicy()).answer(request_to(lm), Usage())
    with pytest.raises(LMSetupError, match=named):
        await arun(asking, threaded=False) if is_async else run(asking)
    assert lm.sent == [(HELLO, SCHEMA, 50)]


async def test_waiting_between_attempts_can_be_cancelled(server: LMServer, kind: str) -> None:
    lm = model_of(server, kind)
    server.answer = lambda request: Reply(status=500)
    calling = StructuredClient(lm, RetryPolicy(backoff=30.0)).answer(request_to(lm), Usage())
    task = asyncio.create_task(arun(calling, threaded=False))
    await asyncio.to_thread(until, lambda: server.calls == 1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 60)


# workers


class Interrupted(Own):
    """A model whose first calls meet; then one is interrupted, and the others answer or fail."""

    def __init__(self, others: str | LMError) -> None:
        super().__init__(self.interrupted, concurrency=4)
        self.others = others
        self.over = threading.Event()
        self._together = threading.Barrier(4)

    def interrupted(self, messages: Sequence[Message]) -> str:
        if self._together.wait(60) == 0:
            raise KeyboardInterrupt
        assert isinstance(self.others, LMError) or self.over.wait(60)
        if isinstance(self.others, LMError):
            raise self.others
        return self.others


@pytest.mark.parametrize("others", ["Perhaps.", DOWN], ids=str)
def test_no_thread_calls_after_an_interruption(others: str | LMError) -> None:
    lm = Interrupted(others)
    verifier = LMVerifier(lm, batch_size=1, backoff=30.0)
    candidates = [candidate(f"A stew of beans, {number}.", "Vegan diet", "Beans") for number in range(8)]
    with pytest.raises(KeyboardInterrupt):
        list(verifier.stream(candidates))
    lm.over.set()
    until(lambda: own_threads() == 0)
    assert len(lm.sent) == 4


def test_closing_early_stops_the_threads() -> None:
    started, release = [], threading.Event()

    def work(value: int, _: object) -> int:
        started.append(value)
        assert value == 0 or release.wait(60)
        return value

    results = completed(work, range(100), 2)
    assert next(results) == 0
    results.close()  # type: ignore[attr-defined]
    release.set()
    until(lambda: own_threads() == 0)
    assert len(started) <= 3


async def test_closing_early_ends_the_tasks() -> None:
    started, cancelled = [], []

    async def work(value: int) -> int:
        started.append(value)
        try:
            await asyncio.sleep(0 if value == 0 else 60)
        except asyncio.CancelledError:
            cancelled.append(value)
            raise
        return value

    async with aclosing(acompleted(work, range(100), 3)) as results:  # type: ignore[type-var]
        assert [await results.__anext__()] == [0]
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert len(started) <= 4 and set(cancelled) == set(started) - {0}
