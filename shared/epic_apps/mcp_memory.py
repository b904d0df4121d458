"""Memories that an MCP server works on, and what an assistant may do with them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import anyio
import anyio.to_thread
from typing_extensions import Self, override

from epic_memory import EpicMemory, Settings
from epic_memory.encoders import Encoder
from epic_memory.errors import InvalidInputError
from epic_memory.text.chunking import WordChunker

if TYPE_CHECKING:
    from epic_scale import MemoryPool

Access: TypeAlias = Literal["read", "propose", "write"]
"""Rights of an assistant: only read; propose changes, which the user accepts elsewhere; or change the memory itself.
"""


class Memories(ABC):
    """Memories of users, as `memory_server` takes them.

    Args:
        own: The user that the server is started for.
        access: What an assistant may do.
        any_user: Whether a call may name another user by `user_id`: only for an assistant that is trusted with all.

    Raises:
        InvalidInputError: for an unknown access.
    """

    def __init__(self, own: str, *, access: Access, any_user: bool) -> None:
        if access not in get_args(Access):
            raise InvalidInputError(f"access must be one of {', '.join(get_args(Access))}, not {access!r}.")
        self.access = access
        self._user, self._any_user = own, any_user

    def of(self, user_id: str) -> AbstractAsyncContextManager[EpicMemory]:
        """Give the memory of a user, to be used inside an `async with`; of the server's own for an empty id.

        Raises:
            InvalidInputError: for another user than the server's own, unless any user may be named.
        """
        if user_id not in ("", self._user) and not self._any_user:
            raise InvalidInputError("This server works for one user. Leave user_id out.")
        return self._opened(user_id or self._user)

    @abstractmethod
    def _opened(self, user: str) -> AbstractAsyncContextManager[EpicMemory]:
        """Give the memory of a user."""


class UserMemory(Memories):
    """The memory of a file, and those of its other users. Use it in a `with`, or `close()` it.

    Args:
        path: The memory's file, which has to exist.
        access: What an assistant may do.
        any_user: Whether a call may name another user of the file by `user_id`.
        encoder, llm, settings: As for `EpicMemory.open`; the namespace is the user that the server is started for.

    Raises:
        InvalidInputError: for an unknown access, or a model whose answers could not be kept.
        StoreError: if there is no such file, or it is no memory.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        access: Access = "propose",
        any_user: bool = False,
        encoder: Encoder | str | None = None,
        llm: Any = None,
        settings: Settings = Settings(),
    ) -> None:
        super().__init__(settings.namespace, access=access, any_user=any_user)
        if access == "read" and llm is not None:
            raise InvalidInputError(
                "Nothing that a model says could be kept: llm is not for a memory that is only read."
            )
        self._place = Path(path).absolute()
        chunker = WordChunker() if settings.chunker is None else settings.chunker
        self._settings = replace(settings, must_exist=True, read_only=access == "read", chunker=chunker)
        self._encoder, self._llm = encoder, llm
        self._own = self._open(self._user)
        self._encoder = self._own.encoder

    def _open(self, namespace: str) -> EpicMemory:
        settings = replace(self._settings, namespace=namespace)
        return EpicMemory.open(self._place, encoder=self._encoder, llm=self._llm, settings=settings)

    @override
    @asynccontextmanager
    async def _opened(self, user: str) -> AsyncIterator[EpicMemory]:
        if user == self._user:
            yield self._own
            return
        known = await anyio.to_thread.run_sync(lambda: self._own.file.namespaces)
        if user not in known and self.access != "write":
            raise InvalidInputError("The memory has no such user.")
        memory = await anyio.to_thread.run_sync(partial(self._open, user))
        try:
            yield memory
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(memory.close)

    def close(self) -> None:
        """Close the file."""
        self._own.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


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
