"""Limits on a model's simultaneous calls, and one asynchronous client for the calls of an event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

from epic_core.errors import InvalidInputError

C = TypeVar("C")


class Gate:
    """A gate that lets at most `concurrency` calls through at once: of all threads, and of each event loop."""

    def __init__(self, concurrency: int) -> None:
        if not isinstance(concurrency, int) or isinstance(concurrency, bool) or concurrency < 1:
            raise InvalidInputError(f"concurrency must be a whole number of at least 1, not {concurrency!r}.")
        self.concurrency = concurrency
        self._threads = threading.BoundedSemaphore(concurrency)
        # A semaphore belongs to one loop, and a reference to it would keep that loop alive.
        self._loops = LoopClients(lambda: asyncio.Semaphore(concurrency))

    @contextmanager
    def enter(self) -> Iterator[None]:
        """Wait in this thread for a free place."""
        with self._threads:
            yield

    @asynccontextmanager
    async def aenter(self) -> AsyncIterator[None]:
        """Wait in this event loop for a free place."""
        async with self._loops.client() as gate, gate:
            yield


class LoopClients(Generic[C]):
    """One open client for each event loop, for as long as a call of that loop is running.

    A client belongs to the loop it was made in. Closing it after each call would cost a new connection for each call;
    leaving it open would leave sockets open when the loop ends.

    Args:
        make: Makes a client.
        close: Closes a client, if it needs closing.
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
