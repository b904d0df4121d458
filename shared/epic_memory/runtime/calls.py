"""Effect that calls a component, such as a client: by its synchronous method, or by its asynchronous one."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from typing_extensions import override

from epic_memory.runtime.effects import Effect


class Call(Effect):
    """A call of either of two functions that give the same result.

    Args:
        call, acall: The functions that are called in synchronous and in asynchronous code.
        arguments, options: The arguments of both.
        explain: Raises an error that explains another one, if it can.
    """

    def __init__(
        self,
        call: Callable[..., Any],
        acall: Callable[..., Awaitable[Any]],
        *arguments: Any,
        explain: Callable[[Exception], None] = lambda _: None,
        **options: Any,
    ) -> None:
        self._call = partial(call, *arguments, **options)
        self._acall = partial(acall, *arguments, **options)
        self._explain = explain

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
