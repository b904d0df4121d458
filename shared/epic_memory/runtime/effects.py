"""Effects: one algorithm, run synchronously or asynchronously.

An algorithm is written once, as a generator that yields effects: texts to embed, a batch of answers, a pause. An effect
can run itself in both ways. The loops `run` and `arun` execute the effects and send the results back, so that both ways
give the same result.
"""

from __future__ import annotations

import asyncio
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Generator
from functools import partial
from typing import Any, ClassVar, TypeAlias, TypeVar

from typing_extensions import override

R = TypeVar("R")
T = TypeVar("T")


async def in_thread(function: Callable[..., T], *arguments: Any) -> T:
    """Call a function in a worker thread; when cancelled, wait for it to finish before raising CancelledError.

    Raises:
        RuntimeError: if the function raises StopIteration, which a future cannot carry.
    """
    return await finished(asyncio.ensure_future(asyncio.to_thread(_guarded, function, *arguments)))


async def finished(work: asyncio.Future[T]) -> T:
    """Return the result of work in a thread; when cancelled, wait for it to finish before raising CancelledError."""
    cancelled: asyncio.CancelledError | None = None
    while not work.done():
        try:
            await asyncio.wait([work])
        except asyncio.CancelledError as error:
            # The thread cannot be stopped; returning now would let it write unnoticed by the caller.
            cancelled = error
    if cancelled is not None:
        raise cancelled from work.exception()
    return work.result()


def _guarded(function: Callable[..., T], *arguments: Any) -> T:
    try:
        return function(*arguments)
    except StopIteration as stop:
        raise RuntimeError(f"{function!r} raised StopIteration") from stop


class StoppedError(Exception):
    """Error raised in place of the next effect once the work is to end."""


class Effect(ABC):
    """A request of an algorithm to the outside.

    Attributes:
        part: The part of a report that its seconds count towards; empty for none.
        saves: Whether it still runs after an interruption or a stop, because it writes results reached before.
    """

    part: str = ""
    saves: ClassVar[bool] = False

    @abstractmethod
    def run(self, stopped: threading.Event | None) -> Any:
        """Execute it in this thread; return early from waiting once `stopped` is set."""

    @abstractmethod
    async def arun(self) -> Any:
        """Execute it without blocking the event loop."""

    def interruption(self, result: Any) -> BaseException | None:
        """Return the interruption that came with a result, or None; it is raised once the results have been written."""
        return None

    def close(self) -> None:
        """Close everything that it holds open."""
        return

    async def aclose(self) -> None:
        """Close as `close` does, without blocking the event loop."""
        return


Effects: TypeAlias = Generator[Effect, Any, R]
"""An algorithm: a generator that yields effects, is sent their results, and returns an R."""


class Clock:
    """A record of seconds by part, and the OpenTelemetry span of what is under way, if there is one."""

    def __init__(self) -> None:
        self.parts: dict[str, float] = {}
        self.span: Any = None

    def add(self, part: str, started: float) -> float:
        """Add the time since `started` to a part, and return the time now."""
        now = time.perf_counter()
        self.parts[part] = self.parts.get(part, 0.0) + now - started
        return now


def run(effects: Effects[R], clock: Clock | None = None, *, stopped: threading.Event | None = None) -> R:
    """Run an algorithm in this thread.

    Args:
        effects: The algorithm.
        clock: Records the seconds of the effects.
        stopped: Once it is set, no further effect begins but those that save results reached before.

    Raises:
        StoppedError: in place of an effect, once `stopped` is set.
    """
    result: Any = None
    effect: Effect | None = None
    interruption: BaseException | None = None
    try:
        while True:
            effect, result = _advance(effects, result)
            if interruption is not None and (effect is None or not effect.saves):
                # The results reached before the interruption have been written.
                raise interruption
            if effect is None:
                ended: R = result
                return ended
            if stopped is not None and stopped.is_set() and not effect.saves:
                raise StoppedError
            started = time.perf_counter()
            result = effect.run(stopped)
            interruption = effect.interruption(result) or interruption
            if clock is not None and effect.part:
                clock.add(effect.part, started)
    finally:
        effects.close()
        if effect is not None:
            effect.close()


async def arun(effects: Effects[R], clock: Clock | None = None, *, threaded: bool = True) -> R:
    """Run an algorithm without blocking the event loop.

    Args:
        effects: The algorithm.
        clock: Records the seconds of the effects.
        threaded: Whether the work between its effects takes long and therefore runs in a worker thread.
    """
    result: Any = None
    effect: Effect | None = None
    interruption: BaseException | None = None
    try:
        while True:
            effect, result = await in_thread(_advance, effects, result) if threaded else _advance(effects, result)
            if interruption is not None and (effect is None or not effect.saves):
                raise interruption
            if effect is None:
                ended: R = result
                return ended
            started = time.perf_counter()
            result = await effect.arun()
            interruption = effect.interruption(result) or interruption
            if clock is not None and effect.part:
                clock.add(effect.part, started)
    finally:
        effects.close()
        if effect is not None:
            await effect.aclose()


def _advance(effects: Effects[R], result: Any) -> tuple[Effect | None, Any]:
    # The end is returned as a value: a future cannot carry a StopIteration, and one raised by an encoder must not be
    # taken for the end.
    try:
        return effects.send(result), None
    except StopIteration as stop:
        return None, stop.value


class Call(Effect):
    """A call of either of two functions that give the same result.

    Args:
        call, acall: The functions that are called in synchronous and in asynchronous code.
        arguments, options: The arguments of both.
        part: As of `Effect`.
        explain: Raises an error that explains another one, if it can.
    """

    def __init__(
        self,
        call: Callable[..., Any],
        acall: Callable[..., Awaitable[Any]],
        *arguments: Any,
        part: str = "",
        explain: Callable[[Exception], None] = lambda _: None,
        **options: Any,
    ) -> None:
        self._call = partial(call, *arguments, **options)
        self._acall = partial(acall, *arguments, **options)
        self._explain = explain
        self.part = part

    @override
    def run(self, stopped: threading.Event | None) -> Any:
        """Call the synchronous function."""
        try:
            return self._call()
        except Exception as error:
            self._explain(error)
            raise

    @override
    async def arun(self) -> Any:
        """Call the asynchronous function."""
        try:
            return await self._acall()
        except Exception as error:
            self._explain(error)
            raise


class Attempt(Call):
    """A call whose error is its result, for what may fail without ending the algorithm."""

    @override
    def run(self, stopped: threading.Event | None) -> Any:
        """Call the synchronous function."""
        try:
            return super().run(stopped)
        except Exception as error:
            return error

    @override
    async def arun(self) -> Any:
        """Call the asynchronous function."""
        try:
            return await super().arun()
        except Exception as error:
            return error
