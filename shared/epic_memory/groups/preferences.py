"""Preferences of a memory: what they are, what changes them, and how they are read."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any, overload

from epic_memory.context import ALLOWANCE, those_that_matter
from epic_memory.errors import InvalidInputError, UnknownPreferenceError
from epic_memory.groups.live import Live
from epic_memory.pipeline.aspects import set_aspects, set_expansion
from epic_memory.pipeline.preferences import add_preference, remove_preference, replace_preference
from epic_memory.pipeline.reporting import areported, reported
from epic_memory.pipeline.search import preferences_by_weight
from epic_memory.pipeline.session import Session
from epic_memory.preferences.parser import aspects_of
from epic_memory.runtime.effects import arun, run
from epic_memory.types import Aspects, BuildReport, Expansion, Preference


class MemoryPreferences(Live[Preference]):
    """The user's preferences, in their order: a sequence, and what changes it.

        memory.preferences.add("I prefer slow travel by train.")
        print(len(memory.preferences), memory.preferences[0].text)

    What takes a preference takes its text, its id or a `Preference`; so does `in`.
    """

    def __init__(self, session: Session) -> None:
        self._session = session

    def _read(self) -> list[Preference]:
        with self._session.lock:
            return list(self._session.space().preferences)

    def __contains__(self, preference: object) -> bool:
        with suppress(UnknownPreferenceError, InvalidInputError), self._session.lock:
            return isinstance(preference, (str, Preference)) and self._session.space().find(preference) >= 0
        return False

    def add(self, preference: str | Preference, *, progress: bool = False) -> BuildReport:
        """Add a preference; items already held are matched with it too.

        Raises:
            DuplicatePreferenceError: if it is held already.
        """
        steps = partial(add_preference, self._session, Preference.of(preference))
        return reported(self._session, steps, progress=progress)

    async def aadd(self, preference: str | Preference, *, progress: bool = False) -> BuildReport:
        """As `add`, without blocking the event loop."""
        steps = partial(add_preference, self._session, Preference.of(preference))
        return await areported(self._session, steps, progress=progress)

    def remove(self, preference: str | Preference) -> BuildReport:
        """Remove a preference, its entries, and what was written for it.

        Items that no other preference holds are left in the light tier by their text alone; with `reserve=0` they go.

        Raises:
            UnknownPreferenceError: if it is not held.
        """
        return reported(self._session, partial(remove_preference, self._session, preference))

    async def aremove(self, preference: str | Preference) -> BuildReport:
        """As `remove`, without blocking the event loop."""
        return await areported(self._session, partial(remove_preference, self._session, preference))

    def replace(self, old: str | Preference, new: str | Preference, *, progress: bool = False) -> BuildReport:
        """Put a preference in another's place; the held items are matched with it, the old one's included.

        Raises:
            UnknownPreferenceError: if the old one is not held.
            DuplicatePreferenceError: if the new one is held already.
        """
        steps = partial(replace_preference, self._session, old, Preference.of(new))
        return reported(self._session, steps, progress=progress)

    async def areplace(self, old: str | Preference, new: str | Preference, *, progress: bool = False) -> BuildReport:
        """As `replace`, without blocking the event loop."""
        steps = partial(replace_preference, self._session, old, Preference.of(new))
        return await areported(self._session, steps, progress=progress)

    def for_(self, query: str, *, allowance: int = ALLOWANCE, namespace: str | None = None) -> list[Preference]:
        """Return the preferences that matter to a query, heaviest first, as many as fit into an allowance of tokens.

        They are those that `EpicMemory.context` opens with; what is held about the query's topic helps to tell. No
        model is called. For a prompt of one's own, or where nothing but the preferences is wanted.

        Args:
            query: Not empty.
            allowance: How many tokens they may take, about.
            namespace: Another user's memory in the same file.

        Raises:
            InvalidInputError: for an empty query.
        """
        return those_that_matter(run(preferences_by_weight(self._session, query, namespace)), allowance)

    async def afor_(self, query: str, *, allowance: int = ALLOWANCE, namespace: str | None = None) -> list[Preference]:
        """As `for_`, without blocking the event loop."""
        return those_that_matter(await arun(preferences_by_weight(self._session, query, namespace)), allowance)

    # what they like and avoid, and mean in practice

    @overload
    def aspects(self) -> dict[str, Aspects]: ...
    @overload
    def aspects(self, preference: str | Preference) -> Aspects: ...

    def aspects(self, preference: str | Preference | None = None) -> Aspects | dict[str, Aspects]:
        """Return what a preference likes, what it avoids, how firmly and where; `source` says who read it.

        Args:
            preference: The preference; without one, all: text to aspects.

        Raises:
            UnknownPreferenceError: if it is not held.
        """
        with self._session.lock:
            space = self._session.space()
            if preference is not None:
                return aspects_of(space.preferences[space.find(preference)])
            return {each.text: aspects_of(each) for each in space.preferences}

    def set_aspects(self, preference: str | Preference, aspects: Aspects | Mapping[str, Any] | None) -> BuildReport:
        """Say what a preference likes and avoids, from the next search on; what is held stays as it was judged.

        Args:
            preference: The preference.
            aspects: `Aspects`, or a mapping such as `{"avoided": ["hotels with casinos"], "firmness": 1.0}`; None has
                them read anew, by the model that reads for this memory or the parser.

        Raises:
            UnknownPreferenceError: if the preference is not held.
            InvalidInputError: for aspects that are none.
        """
        return reported(self._session, partial(set_aspects, self._session, preference, aspects))

    async def aset_aspects(
        self, preference: str | Preference, aspects: Aspects | Mapping[str, Any] | None
    ) -> BuildReport:
        """As `set_aspects`, without blocking the event loop."""
        return await areported(self._session, partial(set_aspects, self._session, preference, aspects))

    @overload
    def expansions(self) -> dict[str, Expansion | None]: ...
    @overload
    def expansions(self, preference: str | Preference) -> Expansion | None: ...

    def expansions(self, preference: str | Preference | None = None) -> Expansion | dict[str, Expansion | None] | None:
        """Return what is stored of what a preference means in practice; `source` says who wrote it.

        Args:
            preference: The preference; without one, all: text to expansion.

        Returns:
            None for a preference without an expansion of its own.

        Raises:
            UnknownPreferenceError: if it is not held.
        """
        with self._session.lock:
            space = self._session.space()
            if preference is not None:
                return space.preferences[space.find(preference)].expansion
            return {each.text: each.expansion for each in space.preferences}

    def set_expansion(
        self, preference: str | Preference, expansion: Expansion | Mapping[str, Any] | None
    ) -> BuildReport:
        """Say what a preference means in practice, from the next search on; what is held stays as it was judged.

        Args:
            preference: The preference.
            expansion: `Expansion`, or a mapping such as `{"follows": ["a slim novella"], "breaks": ["a trilogy"]}`;
                None has it written anew by the model that expands preferences for this memory, and removes it where
                there is none.

        Raises:
            UnknownPreferenceError: if the preference is not held.
            InvalidInputError: for an expansion that is none.
        """
        return reported(self._session, partial(set_expansion, self._session, preference, expansion))

    async def aset_expansion(
        self, preference: str | Preference, expansion: Expansion | Mapping[str, Any] | None
    ) -> BuildReport:
        """As `set_expansion`, without blocking the event loop."""
        return await areported(self._session, partial(set_expansion, self._session, preference, expansion))

    @property
    def unread(self) -> list[str]:
        """Return the texts of the preferences that a language model is still to read or to expand.

        The next change asks about them again.
        """
        with self._session.lock:
            space, marked = self._session.space(), self._session.store.preferences.unread(self._session.namespace)
            return [each.text for each in space.preferences if each.id in marked]
