"""Streams of answers, in batches that are committed as they come.

A batch ends when it is large enough or a moment has passed since it began, so that what a slow model decided is
committed at once and what a fast one decides costs few commits; when something is wrong; or when the work is
interrupted: what was decided until then is handed out first, and the interruption after it.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from types import AsyncGeneratorType, GeneratorType
from typing import Any, Generic, TypeVar

from epic_core.errors import VerifierError
from epic_core.runtime.effects import Effect
from epic_core.types.validation import writable

R = TypeVar("R")

LARGEST_BATCH = 256
_MOMENT = 0.05


@dataclass
class Batch(Generic[R]):
    """Some answers, by the position of what was asked.

    Attributes:
        answers: Position and answer, in the order in which they came.
        last: Whether there will be no more.
        failure: Why the rest has no answer, if this is the last batch and some have none.
        interruption: What ended it from outside.
    """

    answers: list[tuple[int, R]] = field(default_factory=list)
    last: bool = False
    failure: str | None = None
    interruption: BaseException | None = None


class AnswerStream(Generic[R]):
    """The answers to a sequence of questions, each with its position, as somebody gives them.

    Args:
        count: How many questions there are.
        answers: Starts answering: positions and answers.
        aanswers: As `answers`, asynchronously.
        check: Makes an answer what it should be, or raises VerifierError.
        name: Of who answers.
        size: After so many answers a batch ends.
    """

    def __init__(
        self,
        count: int,
        *,
        answers: Callable[[], Iterator[tuple[int, Any]]],
        aanswers: Callable[[], AsyncIterator[tuple[int, Any]]],
        check: Callable[[int, Any], R],
        name: str,
        size: int = LARGEST_BATCH,
    ) -> None:
        self._open = set(range(count))
        self._start = answers
        self._astart = aanswers
        self._check = check
        self._name = name
        self._size = max(1, size)
        self._running: Iterator[tuple[int, Any]] | None = None
        self._arunning: AsyncIterator[tuple[int, Any]] | None = None

    def next_batch(self) -> Batch[R]:
        """Return the next batch."""
        batch: Batch[R] = Batch()
        began = time.perf_counter()
        try:
            if self._running is None:
                self._running = self._start()
            while not self._full(batch, began):
                try:
                    position, answer = next(self._running)
                except StopIteration:
                    self._end(batch)
                    break
                self._take(batch, position, answer)
        except VerifierError:
            self.close()
            raise
        except Exception as error:
            self._fail(batch, error)
        except BaseException as stop:
            if not batch.answers:
                self.close()
                raise
            batch.interruption = stop
        if batch.last or batch.interruption:
            self.close()
        return batch

    async def anext_batch(self) -> Batch[R]:
        """As `batch`, without blocking the event loop."""
        batch: Batch[R] = Batch()
        began = time.perf_counter()
        try:
            if self._arunning is None:
                self._arunning = self._astart()
            while not self._full(batch, began):
                try:
                    position, answer = await self._arunning.__anext__()
                except StopAsyncIteration:
                    self._end(batch)
                    break
                self._take(batch, position, answer)
        except VerifierError:
            await self.aclose()
            raise
        except Exception as error:
            self._fail(batch, error)
        except asyncio.CancelledError as stop:
            if not batch.answers:
                await self.aclose()
                raise
            batch.interruption = stop
        if batch.last or batch.interruption:
            await self.aclose()
        return batch

    def close(self) -> None:
        """Let go of what the answerer holds open, at once and not when it is collected."""
        if isinstance(self._running, GeneratorType):
            self._running.close()

    async def aclose(self) -> None:
        """As `close`."""
        if isinstance(self._arunning, AsyncGeneratorType):
            await self._arunning.aclose()

    def _full(self, batch: Batch[R], began: float) -> bool:
        many = len(batch.answers)
        if not self._open:
            return False  # how it ends is still to come: well, or with an interruption
        return many >= self._size or (many > 0 and time.perf_counter() - began >= _MOMENT)

    def _take(self, batch: Batch[R], position: int, answer: object) -> None:
        if position not in self._open:
            raise VerifierError(f"{self._name} gave more answers than it was asked for.")
        batch.answers.append((position, self._check(position, answer)))
        self._open.discard(position)

    def _end(self, batch: Batch[R]) -> None:
        batch.last = True
        batch.failure = f"{self._name} gave no verdict" if self._open else None

    def _fail(self, batch: Batch[R], error: Exception) -> None:
        batch.last = True
        batch.failure = writable(f"{type(error).__name__}: {error}")


@dataclass
class NextBatch(Effect, Generic[R]):
    """The next batch of a stream; its result is a `Batch`."""

    stream: AnswerStream[R]
    part: str = "verification"

    def run(self, stopped: threading.Event | None) -> Batch[R]:
        """Wait for the batch."""
        return self.stream.next_batch()

    async def arun(self) -> Batch[R]:
        """Wait for the batch without blocking the event loop."""
        return await self.stream.anext_batch()

    def interruption(self, result: Batch[R]) -> BaseException | None:
        """Return what ended the batch from outside."""
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
    """What `stream` and `astream` of a source yield for what they are given."""

    def checked(_: int, answer: Any) -> R:
        if not isinstance(answer, kind):
            wanted = " or ".join(one.__name__ for one in (kind if isinstance(kind, tuple) else (kind,)))
            raise VerifierError(f"The {name} must yield {wanted} objects, not {type(answer).__name__}.")
        if not sound(answer):
            raise VerifierError(f"The {name} yielded an object of {type(answer).__name__} that does not hold texts.")
        return answer

    return AnswerStream(
        len(given),
        answers=lambda: source.stream(given),
        aanswers=lambda: source.astream(given),
        check=checked,
        name=name,
    )
