"""Cache of `QuerySteering` for many users, each made on first use."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass

from epic_core.encoders.base import Encoder
from epic_core.runtime.batching import unique_preferences
from epic_core.runtime.effects import Effect
from epic_core.steering.query_steering import QuerySteering
from epic_core.types import Preference
from epic_core.types.modes import Mode


class Steerings:
    """A cache of `QuerySteering` for many users: preferences are encoded when they first steer, and then kept.

    Safe to use from several threads; preferences that first steer twice at the same time may be encoded twice.

    Args:
        encoder: Encodes preferences and their aspects.
        floor: As for `QuerySteering`.
        size: For how many users the encoded preferences are kept, those used last.
    """

    def __init__(self, encoder: Encoder, *, floor: float | None = None, size: int = 128) -> None:
        self.encoder = encoder
        self.floor = floor
        self.size = size
        self._made: OrderedDict[tuple[Mode, tuple[str | Preference, ...]], QuerySteering] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, preferences: tuple[str | Preference, ...], mode: Mode) -> QuerySteering:
        """Return steering by these preferences, ready for queries.

        Raises:
            InvalidInputError: for an invalid preference or mode, or a preference given twice.
        """
        found = self._find(preferences, mode)
        if found is None:
            found = QuerySteering(self.encoder, unique_preferences(preferences), mode, floor=self.floor)
            found.prepare()
            self._keep(preferences, found)
        return found

    async def aof(self, preferences: tuple[str | Preference, ...], mode: Mode) -> QuerySteering:
        """Return steering as `of` does, without blocking the event loop."""
        found = self._find(preferences, mode)
        if found is None:
            unique = unique_preferences(preferences)
            found = await QuerySteering.acreate(self.encoder, unique, mode, floor=self.floor)
            self._keep(preferences, found)
        return found

    def _find(self, preferences: tuple[str | Preference, ...], mode: Mode) -> QuerySteering | None:
        key = (mode, preferences)
        with self._lock:
            found = self._made.get(key)
            if found is not None:
                self._made.move_to_end(key)
            return found

    def _keep(self, preferences: tuple[str | Preference, ...], made: QuerySteering) -> None:
        with self._lock:
            self._made[made.mode, preferences] = made
            while len(self._made) > self.size:
                self._made.popitem(last=False)


@dataclass
class Steer(Effect):
    """An effect whose result is a `QuerySteering` by some preferences, ready for queries."""

    steerings: Steerings
    preferences: tuple[str | Preference, ...]
    mode: Mode
    part: str = "steering"

    def run(self, stopped: threading.Event | None) -> QuerySteering:
        """Return it from the cache, or make it."""
        return self.steerings.of(self.preferences, self.mode)

    async def arun(self) -> QuerySteering:
        """Return it from the cache, or make it without blocking the event loop."""
        return await self.steerings.aof(self.preferences, self.mode)
