"""Cache of `QuerySteering` for many users, each made on first use."""

from __future__ import annotations

import threading
from collections import OrderedDict

from epic_core.encoders.base import Embed, Encoder
from epic_core.runtime.batching import unique_preferences
from epic_core.runtime.effects import Effects, arun, run
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
        return run(self.steering(preferences, mode))

    async def aof(self, preferences: tuple[str | Preference, ...], mode: Mode) -> QuerySteering:
        """Return steering as `of` does, without blocking the event loop."""
        return await arun(self.steering(preferences, mode), threaded=(mode, preferences) not in self._made)

    def steering(self, preferences: tuple[str | Preference, ...], mode: Mode) -> Effects[QuerySteering]:
        """Return steering as `of` does, in effects."""
        key = (mode, preferences)
        with self._lock:
            known = self._made.get(key)
            if known is not None:
                self._made.move_to_end(key)
                return known
        unique = unique_preferences(preferences)
        vectors = yield Embed(self.encoder, [preference.text for preference in unique], "steering")
        made = QuerySteering(self.encoder, unique, mode, floor=self.floor, vectors=vectors)
        yield from made.preparing()
        with self._lock:
            self._made[key] = made
            while len(self._made) > self.size:
                self._made.popitem(last=False)
        return made
