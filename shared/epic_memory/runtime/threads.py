"""Synchronous work for an event loop: run in a worker thread, and always waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


async def in_thread(function: Callable[..., T], *arguments: Any) -> T:
    """Call a function in a worker thread; when cancelled, wait for it to finish before raising CancelledError.

    Raises:
        RuntimeError: if the function raises StopIteration, which a future cannot carry.
    """
    work = asyncio.ensure_future(asyncio.to_thread(_guarded, function, *arguments))
    cancelled: asyncio.CancelledError | None = None
    while not work.done():
        try:
            await asyncio.wait([work])
        except asyncio.CancelledError as error:
            # The thread cannot be stopped; returning now would let it write unnoticed by the caller.
            cancelled = error
    if cancelled is not None:
        work.exception()
        raise cancelled
    return work.result()


def _guarded(function: Callable[..., T], *arguments: Any) -> T:
    try:
        return function(*arguments)
    except StopIteration as stop:
        raise RuntimeError(f"{function!r} raised StopIteration") from stop
