"""Streams of answers: several calls at once, and batches of their results that are committed as they come.

A batch ends when it is large enough or 0.05 s have passed since it began: the answers of a slow model are committed at
once, and those of a fast one in few commits. It also ends on a failure or an interruption; the answers received before
are then handed out first, and the interruption is raised after that.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass, field
from types import AsyncGeneratorType, GeneratorType
from typing import Any, Generic, TypeVar

from epic_memory.errors import VerifierError
from epic_memory.runtime.effects import Effect, StoppedError
from epic_memory.types.validation import writable

T = TypeVar("T")
R = TypeVar("R")

# How many results a worker may be ahead of what takes them: an interrupted build has not paid for all the others.
_AHEAD = 8
LARGEST_BATCH = 256
_MOMENT = 0.05


def completed(function: Callable[[T, threading.Event | None], R], inputs: Sequence[T], workers: int) -> Iterator[R]:
    """Yield the results of a function over inputs, in the order in which they are ready.

    With one worker everything happens in this thread, and the function gets None with each input. With more workers it
    gets an event, which is set on an interruption. A function that checks the event between its steps, waits on it
    instead of sleeping and raises `StoppedError` ends with the step it is in. The threads are daemons: none keeps the
    interpreter from ending.

    Raises:
        Exception: whatever the function raises.
    """
    if workers <= 1 or len(inputs) <= 1:
        for value in inputs:
            yield function(value, None)
        return
    waiting: queue.SimpleQueue[T] = queue.SimpleQueue()
    for value in inputs:
        waiting.put(value)
    ready: queue.SimpleQueue[tuple[bool, Any]] = queue.SimpleQueue()
    stopped, room = threading.Event(), threading.Semaphore(_AHEAD * workers)

    def work() -> None:
        while room.acquire() and not stopped.is_set():
            try:
                value = waiting.get_nowait()
            except queue.Empty:
                return
            try:
                ready.put((True, function(value, stopped)))
            except StoppedError:
                return
            except BaseException as error:
                stopped.set()
                ready.put((False, error))

    try:
        for _ in range(min(workers, len(inputs))):
            # The function sees the caller's context variables, as it would in a task.
            threading.Thread(target=copy_context().run, args=(work,), daemon=True, name="epic-lm").start()
        for _ in inputs:
            try:
                succeeded, result = ready.get()
                if not succeeded:
                    raise result
            except BaseException:
                # Results that are ready already are still yielded.
                stopped.set()
                while not ready.empty():
                    succeeded, result = ready.get()
                    if succeeded:
                        yield result
                raise
            yield result
            room.release()
    finally:
        stopped.set()
        room.release(workers)


async def acompleted(
    function: Callable[[T], Awaitable[R]], inputs: Sequence[T], workers: int
) -> AsyncGenerator[R, None]:
    """Yield results as `completed` does, from tasks of the running event loop; all have ended when this ends."""
    waiting = iter(inputs)
    ready: asyncio.Queue[tuple[bool, Any]] = asyncio.Queue()
    workers = max(workers, 1)
    room = asyncio.Semaphore(_AHEAD * workers)

    async def work() -> None:
        for value in waiting:
            await room.acquire()
            try:
                ready.put_nowait((True, await function(value)))
            except BaseException as error:
                # Also report a call that was cancelled by somebody else: the consumer is waiting for it.
                ready.put_nowait((False, error))
                if not isinstance(error, Exception):
                    raise

    tasks = [asyncio.create_task(work()) for _ in range(min(workers, len(inputs)))]
    try:
        for _ in inputs:
            try:
                succeeded, result = await ready.get()
                if not succeeded:
                    raise result
            except BaseException:
                # Results that are ready already are still yielded.
                for task in tasks:
                    task.cancel()
                while not ready.empty():
                    succeeded, result = ready.get_nowait()
                    if succeeded:
                        yield result
                raise
            yield result
            room.release()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@dataclass
class Batch(Generic[R]):
    """Some answers, each with the position of its question.

    Attributes:
        answers: Position and answer, in the order in which they came.
        last: Whether there will be no more.
        failure: Why some questions have no answer; only in the last batch, else None.
        interruption: The exception that interrupted the stream from outside, or None.
    """

    answers: list[tuple[int, R]] = field(default_factory=list)
    last: bool = False
    failure: str | None = None
    interruption: BaseException | None = None


class AnswerStream(Generic[R]):
    """Answers to a sequence of questions, each with its position, in the order in which they arrive.

    Args:
        source: What answers: an object with the methods `stream` and `astream`.
        asked: The questions, which are passed to them.
        check: Returns the answer to a question in its proper form, or raises VerifierError.
        name: Name of the source, for messages.
        size: Number of answers after which a batch ends.
    """

    def __init__(
        self, source: Any, asked: Sequence[Any], *, check: Callable[[Any, Any], R], name: str, size: int = LARGEST_BATCH
    ) -> None:
        self._open = set(range(len(asked)))
        self._source = source
        self._asked = asked
        self._check = check
        self._name = name
        self._size = max(1, size)
        self._running: Iterator[tuple[int, Any]] | None = None
        self._arunning: AsyncIterator[tuple[int, Any]] | None = None

    def next_batch(self) -> Batch[R]:
        """Return the next batch; what `check` refuses, or one answer too many, is a `VerifierError`."""
        batch, began = Batch[R](), time.perf_counter()
        try:
            with self._ending(batch, BaseException):
                self._running = self._running or self._source.stream(self._asked)
                while not self._full(batch, began):
                    self._take(batch, next(self._running, None))
        except BaseException:
            self.close()
            raise
        if batch.last or batch.interruption:
            self.close()
        return batch

    async def anext_batch(self) -> Batch[R]:
        """Return the next batch as `next_batch` does, without blocking the event loop."""
        batch, began = Batch[R](), time.perf_counter()
        try:
            with self._ending(batch, asyncio.CancelledError):
                self._arunning = self._arunning or self._source.astream(self._asked)
                while not self._full(batch, began):
                    self._take(batch, await anext(self._arunning, None))
        except BaseException:
            await self.aclose()
            raise
        if batch.last or batch.interruption:
            await self.aclose()
        return batch

    @contextmanager
    def _ending(self, batch: Batch[R], interruption: type[BaseException]) -> Iterator[None]:
        """End the batch where answering fails, and where it is interrupted after some answers."""
        try:
            yield
        except VerifierError:
            raise
        except Exception as error:
            batch.last = True
            batch.failure = writable(f"{type(error).__name__}: {error}")
        except interruption as stop:
            if not batch.answers:
                raise
            batch.interruption = stop

    def close(self) -> None:
        """Close the running iterator now instead of when it is garbage-collected."""
        if isinstance(self._running, GeneratorType):
            self._running.close()

    async def aclose(self) -> None:
        """Close the running asynchronous iterator, as `close` does."""
        if isinstance(self._arunning, AsyncGeneratorType):
            await self._arunning.aclose()

    def _full(self, batch: Batch[R], began: float) -> bool:
        if batch.last:
            return True
        many = len(batch.answers)
        if not self._open:
            return False  # the next step shows how the stream ends: well, or with an interruption
        return many >= self._size or (many > 0 and time.perf_counter() - began >= _MOMENT)

    def _take(self, batch: Batch[R], answered: tuple[int, Any] | None) -> None:
        """Take an answer with its position into the batch; None is the end of the stream."""
        if answered is None:
            batch.last = True
            batch.failure = f"{self._name} gave no verdict" if self._open else None
            return
        position, answer = answered
        if position not in self._open:
            raise VerifierError(f"{self._name} gave more answers than it was asked for.")
        batch.answers.append((position, self._check(self._asked[position], answer)))
        self._open.discard(position)


@dataclass
class NextBatch(Effect, Generic[R]):
    """An effect whose result is the next `Batch` of a stream."""

    stream: AnswerStream[R]
    part: str = "verification"

    def run(self, stopped: threading.Event | None) -> Batch[R]:
        """Wait for the batch."""
        return self.stream.next_batch()

    async def arun(self) -> Batch[R]:
        """Wait for the batch without blocking the event loop."""
        return await self.stream.anext_batch()

    def interruption(self, result: Batch[R]) -> BaseException | None:
        """Return the exception that interrupted the batch from outside, or None."""
        return result.interruption

    def close(self) -> None:
        """End the stream."""
        self.stream.close()

    async def aclose(self) -> None:
        """End the stream."""
        await self.stream.aclose()


def streamed(
    source: Any,
    given: Sequence[Any],
    kind: type[R] | tuple[type[R], ...],
    name: str,
    *,
    sound: Callable[[R], bool] = lambda _: True,
) -> AnswerStream[R]:
    """Return the stream of what a source's `stream` and `astream` yield for the values `given`.

    Args:
        source: An object with the methods `stream` and `astream`.
        given: The values to pass to them.
        kind: The type that every answer must have.
        name: Name of the source, for messages.
        sound: Tells whether an answer of that type is valid.
    """

    def checked(_: Any, answer: Any) -> R:
        if not isinstance(answer, kind):
            wanted = " or ".join(one.__name__ for one in (kind if isinstance(kind, tuple) else (kind,)))
            raise VerifierError(f"The {name} must yield {wanted} objects, not {type(answer).__name__}.")
        if not sound(answer):
            raise VerifierError(f"The {name} yielded an object of {type(answer).__name__} that does not hold texts.")
        return answer

    return AnswerStream(source, given, check=checked, name=name)
