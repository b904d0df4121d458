"""The model of an MCP client, asked by sampling: the client decides, and may ask its user, whether it answers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import TimeoutError as FutureTimeout

from mcp.types import TextContent

from epic_apps.mcp_sdk import Caller, RefusedError
from epic_memory.errors import LMError, LMSetupError, LMUnavailableError
from epic_memory.lm import Completion, Message
from epic_memory.lm.base import SECONDS, Schema
from epic_memory.lm.failures import too_slow

_MOST_TOKENS = 1_000
# How much longer a thread waits for the event loop, which ends the call in time unless it has stopped itself.
_GRACE = 1.0


class ClientLM:
    """A language model that is the client's own. Make it on the event loop of the server.

    It is asked through the call that is being served, or through the last client that called. Answers are not held to
    a schema, as sampling knows none.

    Args:
        caller: The client.
        timeout: Seconds for an answer, which the client's user may have to allow.
    """

    def __init__(self, caller: Caller, timeout: float = SECONDS) -> None:
        self.name = f"client/{caller.client}"
        self.concurrency = 1
        self.context: int | None = None
        self.latest = caller
        self.timeout = timeout
        self._loop = asyncio.get_running_loop()

    async def acomplete(
        self, messages: Sequence[Message], *, schema: Schema | None = None, max_tokens: int | None = None
    ) -> Completion:
        """Return the client's answer.

        Raises:
            LMSetupError: if it refuses, as its user may.
            LMUnavailableError: if it does not answer in time.
        """
        system = "\n\n".join(message.content for message in messages if message.role == "system")
        turns = [(message.role, message.content) for message in messages if message.role != "system"]
        asked = (Caller.current() or self.latest).sample(turns, system=system, max_tokens=max_tokens or _MOST_TOKENS)
        try:
            result = await asyncio.wait_for(asked, self.timeout)
        except asyncio.TimeoutError:
            raise self._too_slow() from None
        except RefusedError as error:
            raise LMSetupError(f"The model of {self.name} was not asked: {error}") from None
        if not isinstance(result.content, TextContent):
            raise LMError(f"The model of {self.name} did not answer by a text.")
        return Completion(text=result.content.text, cut="maxTokens" in result.model_dump().values())

    def complete(
        self, messages: Sequence[Message], *, schema: Schema | None = None, max_tokens: int | None = None
    ) -> Completion:
        """Return the client's answer; call it in any thread but the server's own."""
        asked = self.acomplete(messages, schema=schema, max_tokens=max_tokens)
        try:
            return asyncio.run_coroutine_threadsafe(asked, self._loop).result(self.timeout + _GRACE)
        except FutureTimeout:
            raise self._too_slow() from None

    def _too_slow(self) -> LMUnavailableError:
        return too_slow(f"The model of {self.name}", self.timeout)
