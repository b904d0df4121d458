"""Pool of memories for a service: one file a user, opened on demand, closed when it is idle or others need the room."""

from __future__ import annotations

import asyncio
import re
import sys
import time
from ast import literal_eval
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar, copy_context
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

from typing_extensions import Self

from epic_memory import EpicMemory, Settings
from epic_memory.encoders import Encoder, encoder_of
from epic_memory.errors import InvalidInputError, StoreError
from epic_memory.runtime.effects import finished
from epic_memory.types import checked_k
from epic_memory.verification import Verifier
from epic_scale.entry import Entry
from epic_scale.lease import LeaseError
from epic_scale.opened import OpenMemories, seconds_of
from epic_scale.remote import root_of
from epic_scale.reports import Forgotten, PoolHealth, Visits
from epic_scale.roots import LocalRoot, hashed, name_of

_T = TypeVar("_T")
# Of this thread or task, the innermost first.
_turns: ContextVar[tuple[Entry, ...]] = ContextVar("epic-pool-turns", default=())
_STATE = re.compile(r"""state ('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*") """)
_FIRST_PAUSE, _LONGEST_PAUSE = 0.002, 0.1


class MemoryPool:
    """Memories of many users, a file for each. Use it in a `with`, or `close()` it.

        with MemoryPool("memories", max_open=500, idle="5 min") as pool:
            with pool.get(user_id) as memory:
                memory.facts.add("I moved to Lisbon.")
                print(memory.context("Where should I have dinner?"))

    The inner context says when a turn ends: no memory in use is closed. One process at a time writes a user's file;
    another one waits for the end of the turn. A file that does not exist is made, and one of an older version is
    migrated, with the first turn that writes. A memory's namespace is the user's id, so a file says whose it is. Safe
    to use from several threads; a process that is forked makes a pool of its own.

    Args:
        root: The folder of the files, made if it does not exist; or the address of any store that fsspec reaches, such
            as "s3://bucket/memories": a file is fetched for a turn, and written back at its end if it has changed,
            unless another machine was faster (`ConflictError`).
        max_open: How many memories are open at most, at least 1. A turn waits while all of them are in use.
        idle: After which time without a turn a memory is closed: seconds, or text like "5 min".
        wait: How long a turn waits for another process, or for room, likewise.
        encoder, llm: As for `EpicMemory`, one for all users. Without an encoder, a file that was made with one of those
            that come with the package keeps it.
        settings: Of each memory; or a function from a user's id to them, for limits of each user's own. The embedded
            verifier is made once for each encoder.
        storage_options: Of a store that fsspec reaches.
        key: Locks each file: a function from its name (`name_of` a user's id) to its key. `Settings(key=...)` of a
            user's own would lock it from `users`, `for_each` and `backup`, too.

    Raises:
        InvalidInputError: if an argument is invalid.
        StoreError: if the root cannot be used.
        MissingExtraError: for the address of a store without fsspec.
    """

    def __init__(
        self,
        root: str | Path,
        *,
        max_open: int = 500,
        idle: str | float = "5 min",
        wait: str | float = "30 s",
        encoder: Encoder | str | None = None,
        llm: Any = None,
        settings: Settings | Callable[[str], Settings] = Settings(),
        storage_options: dict[str, Any] | None = None,
        key: Callable[[str], str | bytes] | None = None,
    ) -> None:
        self._wait = seconds_of(wait, "wait")
        if not callable(settings) and not isinstance(settings, Settings):
            raise InvalidInputError("settings must be Settings(...), or a function from a user's id to them.")
        self._settings = settings
        self._key = key
        # Without one each file decides: `EpicMemory.open` shares those that come with the package.
        self._encoder = None if encoder is None else encoder_of(encoder)
        self._llm = llm
        self._verifiers: dict[tuple[int, str | None], Verifier] = {}
        self._threads = ThreadPoolExecutor(thread_name_prefix="epic-pool")
        most, seconds = checked_k(max_open, "max_open"), seconds_of(idle, "idle")
        self._root = root_of(root, storage_options)
        self._opened = OpenMemories(self._root, self._open_file, most, seconds)

    # turns

    @contextmanager
    def get(self, user_id: str, *, read_only: bool = False) -> Iterator[EpicMemory]:
        """Give the memory of a user for a turn, in a `with`.

        Args:
            user_id: Any text that is not blank.
            read_only: Whether the turn only reads: it waits for nobody, and nobody for it. The file has to exist.

        Raises:
            InvalidInputError: for an id that cannot be one.
            LeaseError: if another process used it for longer than `wait`, or all memories were in use.
            ConflictError: at the end, if another machine changed a memory of a remote root meanwhile.
            StoreError: if the file cannot be opened, or is only to be read and does not exist.
        """
        waiting = self._waiting()
        while (entry := self._opened.take(user_id, read_only)) is None:
            time.sleep(next(waiting))
        try:
            memory = self._opened.open(entry)
            try:
                with _inside(entry):
                    yield memory
            finally:
                if self._root.is_remote:  # a local file is in its place
                    with _heeding():
                        self._opened.save(entry)
        finally:
            if self._opened.end(entry):
                self._opened.close_leaving()

    @asynccontextmanager
    async def aget(self, user_id: str, *, read_only: bool = False) -> AsyncIterator[EpicMemory]:
        """As `get`, without blocking the event loop."""
        waiting = self._waiting()
        while (entry := self._opened.take(user_id, read_only)) is None:
            await asyncio.sleep(next(waiting))
        try:
            memory = await self._in_thread(self._opened.open, entry)
            try:
                with _inside(entry):
                    yield memory
            finally:
                if self._root.is_remote:
                    with _heeding():
                        await self._in_thread(self._opened.save, entry)
        finally:
            if self._opened.end(entry):
                await self._in_thread(self._opened.close_leaving)

    def put(self, memory: EpicMemory) -> None:
        """Make a user's file from a memory in RAM whose namespace is the user's id, whole or not at all.

        Raises:
            AlreadyThereError: if the user has a file.
            StoreError: if it cannot be written.
        """
        key = self._settings_of(memory.namespace).key
        self._root.put(name_of(memory.namespace), partial(memory.file.backup, key=key))

    def in_use(self, user_id: str) -> EpicMemory:
        """Return the memory of a user whose turn is under way: what middleware and tools for many users take.

            agent = create_agent(model, middleware=[EpicMemoryMiddleware(pool.in_use)])
            with pool.get(user_id):
                agent.invoke(..., context={"namespace": user_id})

        It is the memory of the innermost turn that this thread or task knows of, or else the one that only reads, if
        there are two.

        Raises:
            InvalidInputError: outside `with pool.get(user_id)`.
        """
        memory = self._opened.in_use(user_id, _turns.get())
        if memory is None:
            raise InvalidInputError("No turn of this user is under way. Begin it before: with pool.get(user_id): ...")
        return memory

    def _waiting(self) -> Iterator[float]:
        """Yield how long to wait before each further attempt, and count a turn that waits.

        Raises:
            LeaseError: if it has waited for too long.
        """
        begun, waited = time.monotonic(), 0.0
        self._opened.count("waited")
        while waited <= self._wait:
            yield min(_LONGEST_PAUSE, max(_FIRST_PAUSE, waited / 4))
            waited = time.monotonic() - begun
        self._opened.count("refused")
        raise LeaseError(
            f"This memory was in use by another process for {self._wait:g} seconds, or all memories of the"
            " pool were in use. Try again, or raise `wait` or `max_open`."
        )

    async def _in_thread(self, function: Callable[..., _T], *arguments: Any) -> _T:
        """Call a function in a thread of the pool's own: all of the event loop's may be waiting for this turn to end.

        When cancelled, wait for it to finish before raising CancelledError.
        """
        call = copy_context().run
        return await finished(asyncio.get_running_loop().run_in_executor(self._threads, call, function, *arguments))

    def _open_file(self, entry: Entry) -> EpicMemory:
        settings = self._settings_of(entry.user_id)
        settings = replace(
            settings,
            namespace=entry.user_id,
            must_exist=entry.read_only or settings.must_exist,
            read_only=entry.read_only or settings.read_only,
        )
        memory = EpicMemory.open(entry.path, encoder=self._encoder, llm=self._llm, settings=settings)
        # One that asks a model belongs to the memory, whose budget it keeps.
        if settings.verifier is None and self._llm is None:
            key = id(memory.encoder), settings.language
            memory.verifier = self._verifiers.setdefault(key, memory.verifier)
        return memory

    def _settings_of(self, user_id: str) -> Settings:
        settings = self._settings(user_id) if callable(self._settings) else self._settings
        return settings if self._key is None else replace(settings, key=partial(self._key, name_of(user_id)))

    def close_idle(self, idle: str | float | None = None) -> int:
        """Close what no turn has used for a time, and give its RAM back; return how many that were.

        It is called now and then by the pool itself.

        Args:
            idle: Default: the pool's.
        """
        return self._opened.close_idle(None if idle is None else seconds_of(idle, "idle"))

    def health(self) -> PoolHealth:
        """Return the pool's counters: numbers only."""
        return self._opened.health()

    # all users

    def has(self, user_id: str) -> bool:
        """Tell whether a user has a file."""
        return self._root.has(name_of(user_id))

    def users(self) -> Iterator[str]:
        """Yield the ids of the users whose memories hold something, rules included, in the order of the files' names.

        Raises:
            StoreError: after all others, naming the files that cannot be read.
        """
        unread: list[str] = []
        for name in self._root.names():
            try:
                found = self._users_of(name)
            except Exception:
                unread.append(name)
                continue
            yield from found
        if unread:
            raise StoreError(
                f"{len(unread)} file{'s' * (len(unread) > 1)} cannot be read: {', '.join(unread)}."
                " pool.for_each(function) says why."
            )

    def for_each(self, function: Callable[[EpicMemory], object], *, read_only: bool = False) -> Visits:
        """Call a function with the memory of each of `users()`, one after the other; an error does not stop it.

        Args:
            function: Is called in a turn of the user's.
            read_only: As for `get`.
        """
        visits = Visits()
        for name in self._root.names():
            users: list[str] = []
            with visits.reporting(name):
                users = self._users_of(name)
            for user in users:
                with visits.reporting(user):
                    with self.get(user, read_only=read_only) as memory:
                        function(memory)
                    visits.done += 1
        return visits

    def backup(self, folder: str | Path) -> Visits:
        """Copy all files into a folder, which is a root like the pool's own; none is damaged unnoticed.

        A file that is there is replaced. Users can go on: each copy is of the last committed state. What cannot be
        copied is reported by the file's name.
        """
        target, visits = LocalRoot(Path(folder)), Visits()
        for name in self._root.names():
            with visits.reporting(name), self._read(name) as memory:
                memory.file.backup(target.path(name), overwrite=True)
                visits.done += 1
        return visits

    def forget_user(self, user_id: str) -> Forgotten:
        """Remove everything of a user, once no turn uses it, and prove it.

        The local file is overwritten before it is gone; a remote root keeps an empty version in its place, so that no
        other machine brings it back. Copies made by `backup` are yours to remove.

        Raises:
            LeaseError: if a turn of the user lasted for longer than `wait`.
            StoreError: if something is left.
        """
        name, waiting = name_of(user_id), self._waiting()
        while (lease := self._opened.empty(name)) is None:
            time.sleep(next(waiting))
        try:
            removed, remaining = self._root.remove(name), self._root.remaining(name)
        finally:
            lease.release()
        if remaining:
            raise StoreError(f"{len(remaining)} files of this user are left: {', '.join(remaining)}.")
        return Forgotten(user=sha256(user_id.encode()).hexdigest(), removed=removed, time=time.time())

    def _users_of(self, name: str) -> list[str]:
        """Return whose the file of this name is, by what it holds: one user, or none if it holds nothing."""
        with self._read(name) as memory:
            session = memory._session
            with session.lock, session.store.reading():
                keys = list(session.store.meta())
            named = {literal_eval(one[1]) for one in map(_STATE.match, keys) if one}.union(memory.file.namespaces)
        # What a memory has besides its rows, such as its rules, is kept under the user's id.
        return [user for user in named.union(key.partition("/")[2] for key in keys) if hashed(user) == name]

    @contextmanager
    def _read(self, name: str) -> Iterator[EpicMemory]:
        """Open a file for itself, whoever's it is: no settings of a user's own are asked for."""
        key = None if self._key is None else partial(self._key, name)
        settings = Settings(namespace=name, must_exist=True, read_only=True, key=key)
        entry = self._root.entry(
            name, name, True, lambda entry: EpicMemory.open(entry.path, encoder=self._encoder, settings=settings)
        )
        try:
            yield entry.open()[0]
        finally:
            entry.close()

    # the end

    def close(self) -> None:
        """Close the pool and all memories that no turn uses; the others are closed as their turns end.

        A forked process closes nothing of the one that made the pool.
        """
        self._opened.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._in_thread(self.close)


@contextmanager
def _inside(entry: Entry) -> Iterator[None]:
    """Let `in_use` know that what follows is a turn of this entry."""
    before = _turns.get()
    _turns.set((entry, *before))
    try:
        yield
    finally:
        _turns.set(before)


@contextmanager
def _heeding() -> Iterator[None]:
    """Let through what ended a turn from outside, such as a cancellation, whatever saving the turn runs into."""
    error = sys.exc_info()[1]
    try:
        yield
    except StoreError as late:
        if error is None or isinstance(error, Exception):
            raise
        raise error from late
