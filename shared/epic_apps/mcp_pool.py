"""Memories of many users for an MCP server: taken from a pool, for as long as a call lasts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from typing_extensions import override

from epic_apps.mcp_memory import Access, Memories
from epic_memory import EpicMemory
from epic_memory.errors import InvalidInputError
from epic_scale import MemoryPool


class PoolMemory(Memories):
    """The memories of a pool, which the caller closes.

    Args:
        pool: The pool; its settings decide how long notes are cut (`chunker`).
        own, access, any_user: As for `Memories`.
    """

    def __init__(self, pool: MemoryPool, own: str, *, access: Access = "propose", any_user: bool = False) -> None:
        super().__init__(own, access=access, any_user=any_user)
        self._pool = pool

    @override
    @asynccontextmanager
    async def _opened(self, user: str) -> AsyncIterator[EpicMemory]:
        if self.access != "write" and not self._pool.has(user):
            raise InvalidInputError("The memory has no such user.")
        async with self._pool.aget(user, read_only=self.access == "read") as memory:
            yield memory
