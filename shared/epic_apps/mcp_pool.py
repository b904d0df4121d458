"""Memories of many users for an MCP server: taken from a pool, for as long as a call lasts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import get_args

from typing_extensions import override

from epic_apps.mcp import Access, UserMemory
from epic_memory import EpicMemory
from epic_memory.errors import InvalidInputError
from epic_scale import MemoryPool


class PoolMemory(UserMemory):
    """The memories of a pool, as `memory_server` takes them.

    Args:
        pool: The pool; its settings decide how long notes are cut (`chunker`). The caller closes it.
        own: The user that the server is started for.
        access: What an assistant may do.
        any_user: Whether a call may name another user by `user_id`: only for an assistant that is trusted with all.

    Raises:
        InvalidInputError: for an unknown access.
    """

    def __init__(self, pool: MemoryPool, own: str, *, access: Access = "propose", any_user: bool = False) -> None:
        if access not in get_args(Access):
            raise InvalidInputError(f"access must be one of {', '.join(get_args(Access))}, not {access!r}.")
        self.access = access
        self.asks_client = False
        self._pool = pool
        self._own_user = own
        self._any_user = any_user

    @override
    @asynccontextmanager
    async def of(self, user_id: str) -> AsyncIterator[EpicMemory]:
        """Give the memory of a user, to be used inside an `async with`.

        Raises:
            InvalidInputError: for another user than the server's own, unless any user may be named.
        """
        user = user_id or self._own_user
        if user != self._own_user and not self._any_user:
            raise InvalidInputError("This server works for one user. Leave user_id out.")
        if self.access != "write" and not self._pool.has(user):
            raise InvalidInputError("The memory has no such user.")
        async with self._pool.aget(user, read_only=self.access == "read") as memory:
            yield memory

    @override
    def close(self) -> None:
        """Leave the pool open, which is the caller's."""
