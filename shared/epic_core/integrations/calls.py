"""Effect that calls a framework's component: by its synchronous method, or by its asynchronous one."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from typing import Any

from typing_extensions import override

from epic_core.runtime.effects import Effect


class Call(Effect):
    """A call of either of two functions that give the same result.

    Args:
        call: The function that is called in synchronous code.
        acall: The function that is called in asynchronous code.
        arguments: The arguments of both.
        explain: Raises an error that explains another one, if it can.
    """

    def __init__(
        self,
        call: Callable[..., Any],
        acall: Callable[..., Awaitable[Any]],
        *arguments: Any,
        explain: Callable[[Exception], None] = lambda _: None,
    ) -> None:
        self._call = call
        self._acall = acall
        self._arguments = arguments
        self._explain = explain

    @override
    def run(self, stopped: threading.Event | None) -> Any:
        try:
            return self._call(*self._arguments)
        except Exception as error:
            self._explain(error)
            raise

    @override
    async def arun(self) -> Any:
        try:
            return await self._acall(*self._arguments)
        except Exception as error:
            self._explain(error)
            raise
