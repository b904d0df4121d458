"""Worker that does one job after the other behind its caller, in a thread that keeps no program from ending."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from epic_memory.runtime.effects import Effect

Job: TypeAlias = Callable[[threading.Event], None]
"""Work that looks now and then whether it is to stop."""


class Background:
    """Jobs in a thread of their own, which begins with the first of them. A job's errors are its future's."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stopped = threading.Event()

    def submit(self, job: Job) -> Future[None]:
        """Have a job done after those that were submitted before; after `close` it is cancelled."""
        done: Future[None] = Future()
        with self._lock:
            if self._stopped.is_set():
                done.cancel()
                return done
            if self._thread is not None and not self._thread.is_alive():
                # In a process that was forked: what waits is done by the other one.
                self._jobs, self._thread = queue.SimpleQueue(), None
            self._jobs.put(partial(copy_context().run, self._do, job, done))
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, daemon=True, name="epic-background")
                self._thread.start()
        return done

    @property
    def waiting(self) -> int:
        """Number of jobs that have not begun."""
        return self._jobs.qsize()

    def close(self, seconds: float = 0.0) -> None:
        """Tell the job under way to stop, wait for it, but no longer than some seconds, and cancel the others."""
        with self._lock:
            self._stopped.set()
            self._jobs.put(None)
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(seconds)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()

    def _do(self, job: Job, done: Future[None]) -> None:
        if self._stopped.is_set():
            done.cancel()
        elif done.set_running_or_notify_cancel():
            try:
                job(self._stopped)
                done.set_result(None)
            except BaseException as error:
                done.set_exception(error)


@dataclass(frozen=True)
class WaitFor(Effect):
    """An effect that waits for a job, but no longer than some seconds; its result is whether the job was done well."""

    job: Future[None]
    seconds: float

    def run(self, stopped: threading.Event | None) -> bool:
        """Wait."""
        with suppress(FutureTimeout, TimeoutError, Exception):
            self.job.result(self.seconds)
        return self._is_done()

    async def arun(self) -> bool:
        """Wait without blocking the event loop."""
        if not self.job.cancelled():
            await asyncio.wait([asyncio.ensure_future(self._waiting())], timeout=self.seconds)
        return self._is_done()

    async def _waiting(self) -> None:
        with suppress(Exception):
            await asyncio.shield(asyncio.wrap_future(self.job))

    def _is_done(self) -> bool:
        return self.job.done() and not self.job.cancelled() and self.job.exception() is None
