"""Open memories of a pool: how many there are, which of them leave, and who closes them; and the pool's counters."""

from __future__ import annotations

import ctypes
import gc
import logging
import os
import re
import threading
import time
import weakref
from collections import Counter, OrderedDict
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from epic_memory import EpicMemory
from epic_memory.errors import InvalidInputError, MemoryClosedError, StoreError
from epic_scale.entry import Entry
from epic_scale.lease import Lease, taken_lease
from epic_scale.metrics import publish
from epic_scale.remote import ConflictError
from epic_scale.reports import PoolHealth
from epic_scale.roots import LocalRoot, name_of

# Freed RAM goes back to the system after so many memories were closed.
_CLOSED_AT_ONCE = 64
_UNITS = {"ms": 0.001, "s": 1.0, "min": 60.0, "h": 3600.0}


class OpenMemories:
    """The open memories of a root: at most so many, and none that was idle for so many seconds."""

    def __init__(self, root: LocalRoot, open_file: Callable[[Entry], EpicMemory], most: int, idle: float) -> None:
        self._root, self._open_file, self._most, self._idle = root, open_file, most, idle
        self._process = os.getpid()
        self._entries: OrderedDict[tuple[str, bool], Entry] = OrderedDict()
        self._lock, self._closing = threading.Lock(), threading.Lock()
        self._leaving: list[Entry] = []
        self._counts: Counter[str] = Counter()
        self._trimmed = 0
        self._closed, self._wake = threading.Event(), threading.Event()
        this = weakref.ref(self)
        publish(self._counts, lambda: None if (there := this()) is None else there._gauges())
        threading.Thread(target=_sweep, args=(this, self._wake, idle), daemon=True, name="epic-pool").start()

    def count(self, name: str, more: int = 1) -> None:
        """Count what happened."""
        with self._lock:
            self._counts[name] += more

    def health(self) -> PoolHealth:
        """Return the counters: numbers only."""
        with self._lock:
            used = sum(bool(entry.turns) for entry in self._entries.values())
            return PoolHealth(open=len(self._entries), in_use=used, rss=resident_bytes(), **self._counts)

    def _gauges(self) -> PoolHealth | None:
        return None if self._closed.is_set() and not self._entries else self.health()

    # turns

    def take(self, user_id: str, read_only: bool) -> Entry | None:
        """Return a user's entry with one more turn; None if it has to be waited for."""
        key = name_of(user_id), read_only
        with self._lock:
            self.check_open()
            entry = self._entries.get(key)
            if entry is not None and entry.is_replaced():
                self._retire(key)
                entry = None
            if any(one.user_id == user_id and one.has_unsaved() for one in self._leaving):
                return None
            known = entry is not None
            entry = self._root.entry(user_id, *key, self._open_file) if entry is None else entry
            if entry.take_lease():
                if known or self._makes_room():
                    entry.turns += 1
                    self._entries[key] = entry
                    self._entries.move_to_end(key)
                    self._counts["turns"] += 1
                    return entry
                entry.release_lease()
        return None

    def open(self, entry: Entry) -> EpicMemory:
        """Return the memory of a turn."""
        memory, new = entry.open()
        self.count("opened", new)
        self.count("downloads", new and self._root.is_remote)
        return memory

    def save(self, entry: Entry) -> None:
        """Put what a turn wrote in its place.

        Raises:
            ConflictError: if another machine was faster.
        """
        if os.getpid() != self._process:
            return
        try:
            self.count("uploads", entry.save())
        except ConflictError:
            self.count("conflicts")
            raise

    def end(self, entry: Entry) -> bool:
        """End a turn, and return whether it has to call `close_leaving`, as the thread that does is gone."""
        with self._lock:
            entry.turns -= 1
            entry.used_at = time.monotonic()
            last = not entry.turns
            if last:
                entry.release_lease()
            # What could not be opened does not stay.
            if last and (entry.retired or entry.memory is None or self._closed.is_set()):
                self._leave(entry)
                key = name_of(entry.user_id), entry.read_only
                if self._entries.get(key) is entry:
                    del self._entries[key]
            return self._closed.is_set()

    def in_use(self, user_id: str, turns: tuple[Entry, ...]) -> EpicMemory | None:
        """Return the memory of a user whose turn is under way: of one of these turns, or else one that only reads."""
        name = name_of(user_id)
        with self._lock:
            known = [self._entries[key] for key in ((name, True), (name, False)) if key in self._entries]
            found = (entry.memory for entry in (*turns, *known) if entry in known and entry.turns)
            return next((memory for memory in found if memory is not None), None)

    # what leaves

    def _makes_room(self) -> bool:
        """Take out the entries used least recently until another one fits; return False if too many are in use."""
        count = len(self._entries) - self._most + 1
        unused = [key for key, entry in self._entries.items() if not entry.turns] if count > 0 else []
        for key in unused[:count]:
            self._retire(key)
        return len(self._entries) < self._most and len(self._leaving) < _CLOSED_AT_ONCE

    def _retire(self, key: tuple[str, bool]) -> None:
        """Take an entry out, to be closed soon, or when its turns end."""
        entry = self._entries.pop(key)
        entry.retired = True
        if not entry.turns:
            self._leave(entry)

    def _leave(self, entry: Entry) -> None:
        """Have an entry closed by the thread: a model that is being asked may take two seconds to end."""
        self._leaving.append(entry)
        self._counts["closed"] += 1
        self._wake.set()

    def close_leaving(self) -> None:
        """Close what was taken out; return when all of it is closed, also what another thread is closing."""
        with self._closing:
            with self._lock:
                leaving = [*self._leaving]
            for entry in leaving:
                try:
                    # Verdicts that came after the last turn. If another machine was faster, they are asked for again.
                    with suppress(StoreError):
                        self.save(entry)
                    entry.close()
                finally:
                    with self._lock:
                        self._leaving.remove(entry)

    def close_idle(self, seconds: float | None = None) -> int:
        """Close what no turn has used for a time, and give its RAM back; return how many that were."""
        now, seconds = time.monotonic(), self._idle if seconds is None else seconds
        with self._lock:
            keys = [key for key, one in self._entries.items() if not one.turns and now - one.used_at >= seconds]
            for key in keys:
                self._retire(key)
            closed = self._counts["closed"]
        self.close_leaving()
        # Not in a turn, as it takes a tenth of a second.
        if closed >= self._trimmed + (1 if keys else _CLOSED_AT_ONCE):
            self._trimmed = closed
            give_back()
        return len(keys)

    def empty(self, name: str) -> Lease | None:
        """Close a user's memory and return its lease; None if a turn uses it."""
        with self._lock:
            self.check_open()
            keys = [key for key in ((name, False), (name, True)) if key in self._entries]
            if any(self._entries[key].turns for key in keys):
                return None
            lease = taken_lease(self._root.path(name))
            for key in keys if lease is not None else ():
                self._retire(key)
        self.close_leaving()
        return lease

    def close(self) -> None:
        """Close all memories that no turn uses; the others are closed as their turns end."""
        if os.getpid() != self._process:
            return
        self._closed.set()
        self._wake.set()
        self.close_idle(0)
        if not self._entries:
            self._root.close()

    def check_open(self) -> None:
        """Raise a `MemoryClosedError` if it is closed, or another process's."""
        if self._closed.is_set() or os.getpid() != self._process:
            raise MemoryClosedError("This pool is closed, or another process's. Make another one.")


def _sweep(this: weakref.ref[OpenMemories], wake: threading.Event, idle: float) -> None:
    """Close what is idle or was taken out, until the pool is closed or gone."""
    while True:
        wake.wait(min(max(idle / 4, 0.05), 30.0))
        wake.clear()
        memories = this()
        if memories is None or memories._closed.is_set():
            return
        try:
            memories.close_idle()
        except Exception:
            logging.getLogger(__name__).exception("A memory of a pool could not be closed.")
        del memories


def seconds_of(time: str | float, name: str) -> float:
    """Return a time in seconds; `name` is the argument's name, for the error.

    Raises:
        InvalidInputError: for anything but a number of seconds, not negative, or text like "300 ms", "5 min", "1 h".
    """
    match = re.fullmatch(
        rf"\s*(\d+(?:\.\d+)?)\s*({'|'.join(_UNITS)})\s*", time if isinstance(time, str) else f"{time:f} s"
    )
    if match is None or isinstance(time, bool):
        raise InvalidInputError(f'{name} must be a number of seconds or text like "5 min" or "300 ms", not {time!r}.')
    return float(match[1]) * _UNITS[match[2]]


def resident_bytes() -> int:
    """Return the bytes of RAM that this process has; 0 where the system does not say."""
    try:
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, AttributeError):
        return 0


def give_back() -> None:
    """Return freed RAM to the system, where its C library can do that."""
    gc.collect()
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return
    trim(0)
