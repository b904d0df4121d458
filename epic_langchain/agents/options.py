"""What a call of an agent may bring with it: whose memory, which of it, and how much."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from epic_core import EpicMemory, Filter, Preference
from epic_core.errors import InvalidInputError
from epic_langchain.retrievers import EpicRetriever

OPTIONS = ("namespace", "k", "filter", "preferences")


def checked_namespace(namespace: Any) -> str | None:
    """A namespace, or None.

    Raises:
        InvalidInputError: for anything else.
    """
    if namespace is not None and (not isinstance(namespace, str) or not namespace):
        raise InvalidInputError(f"namespace must be a text that is not empty, not {namespace!r}.")
    return None if namespace is None else str.__str__(namespace)


def checked_preferences(preferences: Any) -> tuple[str | Preference, ...] | None:
    """Several preferences, or None.

    Raises:
        InvalidInputError: for anything else.
    """
    if preferences is None:
        return None
    several = [preferences] if isinstance(preferences, (str, Preference)) else preferences
    # A run reads them once for each call of the model: an iterator has them the first time only.
    if not isinstance(several, Iterable) or isinstance(several, Iterator):
        raise InvalidInputError(f"preferences must be a list of texts, not {type(preferences).__name__}.")
    chosen = tuple(several)
    for one in chosen:
        if not isinstance(one, (str, Preference)):
            raise InvalidInputError(f"A preference is a text or a Preference, not {type(one).__name__}.")
    return chosen


def attributes(context: Any) -> dict[str, Any]:
    """The options among an object's attributes. Its methods are none."""
    found = {option: getattr(context, option, None) for option in OPTIONS}
    return {option: value for option, value in found.items() if not callable(value)}


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The options of a call; `many` says that the namespace chose the memory."""

    many: bool
    k: int
    namespace: str | None
    filter: Filter | None
    preferences: tuple[str | Preference, ...] | None

    def retriever(self, memory: EpicMemory) -> EpicRetriever:
        """What asks a memory, and shows in traces."""
        return EpicRetriever(memory=memory, guidance="text")

    def options(self, memory: EpicMemory) -> dict[str, Any]:
        """What the retriever is called with."""
        # A memory that was chosen by the namespace can have another name for it.
        own = self.many or self.namespace is None
        return {
            "namespace": memory.namespace if own else self.namespace,
            "k": self.k,
            "filter": self.filter,
            "preferences": self.preferences,
        }


def chosen_of(held: Sequence[Preference], asked: Sequence[str | Preference] | None) -> list[Preference]:
    """Of the preferences held, those a call asks for by text, id or object; all if it does not ask."""
    if asked is None:
        return list(held)
    wanted = {one if isinstance(one, str) else one.id for one in asked} | {Preference.of(one).id for one in asked}
    return [preference for preference in held if preference.id in wanted]
