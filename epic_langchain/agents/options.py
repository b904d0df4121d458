"""Options of one call of an agent: namespace, number of items, filter, preferences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from epic_core import EpicMemory, Filter, Preference
from epic_core.errors import InvalidInputError
from epic_langchain.retrievers import EpicRetriever

OPTIONS = ("namespace", "k", "filter", "preferences")


def checked_namespace(namespace: Any) -> str | None:
    """Check a namespace, or None, and return it.

    Raises:
        InvalidInputError: for anything else.
    """
    if namespace is not None and (not isinstance(namespace, str) or not namespace):
        raise InvalidInputError(f"namespace must be a text that is not empty, not {namespace!r}.")
    return None if namespace is None else str.__str__(namespace)


def checked_preferences(preferences: Any) -> tuple[str | Preference, ...] | None:
    """Check preferences, or None, and return them as a tuple.

    Raises:
        InvalidInputError: for anything else, an iterator included.
    """
    if preferences is None:
        return None
    several = [preferences] if isinstance(preferences, (str, Preference)) else preferences
    # A run reads them at each call of the model: an iterator would be empty the second time.
    if not isinstance(several, Iterable) or isinstance(several, Iterator):
        raise InvalidInputError(f"preferences must be a list of texts, not {type(preferences).__name__}.")
    chosen = tuple(several)
    for one in chosen:
        if not isinstance(one, (str, Preference)):
            raise InvalidInputError(f"A preference is a text or a Preference, not {type(one).__name__}.")
    return chosen


def attributes(context: Any) -> dict[str, Any]:
    """Return the options among an object's attributes; methods are left out."""
    found = {option: getattr(context, option, None) for option in OPTIONS}
    return {option: value for option, value in found.items() if not callable(value)}


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The options of a call; `many` is true if the namespace selected the memory."""

    many: bool
    k: int
    namespace: str | None
    filter: Filter | None
    preferences: tuple[str | Preference, ...] | None

    def retriever(self, memory: EpicMemory) -> EpicRetriever:
        """Return a retriever over a memory; unlike a plain search, it shows in traces."""
        return EpicRetriever(memory=memory, guidance="text")

    def options(self, memory: EpicMemory) -> dict[str, Any]:
        """Return the keyword arguments for the retriever's call."""
        # A memory that the namespace selected may itself have a namespace of another name.
        own = self.many or self.namespace is None
        return {
            "namespace": memory.namespace if own else self.namespace,
            "k": self.k,
            "filter": self.filter,
            "preferences": self.preferences,
        }


def chosen_of(held: Sequence[Preference], asked: Sequence[str | Preference] | None) -> list[Preference]:
    """Return the preferences that a call selects by text, id or object; all of them if it selects none."""
    if asked is None:
        return list(held)
    wanted = {one if isinstance(one, str) else one.id for one in asked} | {Preference.of(one).id for one in asked}
    return [preference for preference in held if preference.id in wanted]
