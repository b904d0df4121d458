"""Workers for several calls at once, which yield each result as soon as it is ready."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextvars import copy_context
from typing import Any, TypeVar

from epic_memory.runtime.effects import StoppedError

T = TypeVar("T")
R = TypeVar("R")

# How many results a worker may be ahead of what takes them: an interrupted build has not paid for all the others.
_AHEAD = 8


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
