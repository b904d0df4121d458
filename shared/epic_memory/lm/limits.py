"""Limits on a model's simultaneous calls, and one asynchronous client for the calls of an event loop."""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

from epic_memory.errors import InvalidInputError
from epic_memory.lm.base import Completion, Message, Schema
from epic_memory.runtime.effects import Effects, arun, run
from epic_memory.types.validation import checked_whole

C = TypeVar("C")
R = TypeVar("R")


class LoopClients(Generic[C]):
    """One open client for each event loop, for as long as a call of that loop is running; `close` closes it.

    A client belongs to the loop it was made in. Closing it after each call would cost a new connection for each call;
    leaving it open would leave sockets open when the loop ends.
    """

    def __init__(self, make: Callable[[], C], close: Callable[[C], Awaitable[None]] | None = None) -> None:
        self._make = make
        self._close = close
        self._open: WeakKeyDictionary[asyncio.AbstractEventLoop, tuple[C, int]] = WeakKeyDictionary()
        self._lock = threading.Lock()

    @asynccontextmanager
    async def client(self) -> AsyncIterator[C]:
        """Return a context with the running loop's client, which is closed when its last user leaves. Uses may nest."""
        loop = asyncio.get_running_loop()
        with self._lock:
            client, users = self._open[loop] if loop in self._open else (self._make(), 0)
            self._open[loop] = client, users + 1
        try:
            yield client
        finally:
            with self._lock:
                _, users = self._open[loop]
                if users > 1:
                    self._open[loop] = client, users - 1
                else:
                    del self._open[loop]
            if users == 1 and self._close is not None:
                await self._close(client)


class LimitedLM(ABC):
    """Base of a language model that lets at most `concurrency` calls through at once: of all threads, and of each loop.

    Raises:
        InvalidInputError: for a concurrency below 1, or a context of less than 256 tokens.
    """

    def __init__(self, name: str, *, concurrency: int, context: int | None) -> None:
        if context is not None and (not isinstance(context, int) or isinstance(context, bool) or context < 256):
            raise InvalidInputError(f"context must be a whole number of tokens, at least 256, not {context!r}.")
        self.name = name
        self.concurrency = checked_whole(concurrency, "concurrency", 1)
        self.context = context
        self._threads = threading.BoundedSemaphore(concurrency)
        # A semaphore belongs to one loop, and a reference to it would keep that loop alive.
        self._loops = LoopClients(lambda: asyncio.Semaphore(concurrency))

    @abstractmethod
    def _completing(
        self, messages: Sequence[Message], schema: Schema | None, max_tokens: int | None
    ) -> Effects[Completion]:
        """Return the model's answer, in effects."""

    def session(self) -> AbstractAsyncContextManager[Any]:
        """Return a context that keeps the connections of the running event loop open between calls."""
        return nullcontext()

    def complete(
        self, messages: Sequence[Message], *, schema: Schema | None = None, max_tokens: int | None = None
    ) -> Completion:
        """Return the model's answer."""
        return self._run(self._completing(messages, schema, max_tokens))

    async def acomplete(
        self, messages: Sequence[Message], *, schema: Schema | None = None, max_tokens: int | None = None
    ) -> Completion:
        """Return an answer as `complete` does, without blocking the event loop."""
        return await self._arun(self._completing(messages, schema, max_tokens))

    def _run(self, call: Effects[R]) -> R:
        with self._threads:
            return run(call)

    async def _arun(self, call: Effects[R]) -> R:
        async with self._loops.client() as gate, gate, self.session():
            return await arun(call, threaded=False)
