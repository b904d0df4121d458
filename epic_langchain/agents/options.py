"""Options of the middleware, and of one call of an agent: namespace, number of items, filter, preferences."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from epic_langchain.agents.conversation_turns import Question
from epic_langchain.arguments import per_call
from epic_langchain.filters import filter_of
from epic_memory import EpicMemory, Filter, Preference
from epic_memory.errors import InvalidInputError
from epic_memory.types import checked_k
from epic_plugins.judging_memory import several_preferences

MemoryOf: TypeAlias = Callable[[str], EpicMemory]
"""Function from the namespace that a call gives to the user's memory; it caches and closes the memories it opens."""

Remembered: TypeAlias = Literal["user", "both"]
"""Whose words are offered to the memory: the user's only, or the assistant's too."""

OPTIONS = ("namespace", "k", "filter", "preferences")


@dataclass(frozen=True, kw_only=True)
class CallOptions:
    """The options of a call; `many` is true if the namespace selects the memory."""

    many: bool
    k: int
    namespace: str | None
    filter: Filter | None
    preferences: tuple[str | Preference, ...] | None

    def for_memory(self, memory: EpicMemory) -> dict[str, Any]:
        """Return the keyword arguments for a call of a retriever over a memory."""
        # A memory that the namespace selected may itself have a namespace of another name.
        own = self.many or self.namespace is None
        return {
            "namespace": memory.namespace if own else self.namespace,
            "k": self.k,
            "filter": self.filter,
            "preferences": self.preferences,
        }

    def key(self, question: Question) -> Hashable | None:
        """Return a key that identifies a turn and its options; None if nothing identifies them."""
        where = None if self.filter is None else self.filter.identity()
        # Without a message id, another turn could have the same question.
        if not question.id or (where is None and self.filter is not None):
            return None
        chosen: Hashable = None
        if self.preferences is not None:
            chosen = tuple((isinstance(one, str), one if isinstance(one, str) else one.id) for one in self.preferences)
        return question.id, question.text, self.namespace, self.k, where, chosen


def call_options(context: Any, *, k: int, many: bool) -> CallOptions:
    """Return the options in the runtime context, a mapping or an object, or else in the config of the running call.

    An object's methods are no options. `k` holds unless the call says it; `many` is as for `CallOptions`.
    """
    given = _given(context, OPTIONS)
    return CallOptions(
        many=many,
        k=checked_k(given.get("k", k)),
        namespace=given.get("namespace"),
        filter=filter_of(given.get("filter")),
        preferences=_checked_preferences(given.get("preferences")),
    )


def called_namespace(context: Any) -> str | None:
    """Return the namespace in the runtime context, or else in the config of the running call."""
    namespace: str | None = _given(context, ("namespace",)).get("namespace")
    return namespace


def _given(context: Any, names: Sequence[str]) -> dict[str, Any]:
    if not isinstance(context, Mapping):
        found = {name: getattr(context, name, None) for name in names}
        context = {name: value for name, value in found.items() if not callable(value)}
    given = per_call(None, {name: context[name] for name in names if context.get(name) is not None}, names)
    namespace = given.get("namespace")
    if namespace is not None and (not isinstance(namespace, str) or not namespace):
        raise InvalidInputError(f"namespace must be a text that is not empty, not {namespace!r}.")
    return given


def chosen_memory(memories: MemoryOf, namespace: str | None) -> EpicMemory:
    """Return the memory that the namespace of a call selects."""
    if namespace is None:
        raise InvalidInputError(
            "This agent serves many users. Say whose turn it is: invoke(..., context={'namespace': ...}) or"
            " config={'configurable': {'epic_namespace': ...}}."
        )
    try:
        memory = memories(namespace)
    except KeyError as error:
        raise InvalidInputError(
            f"There is no memory for the namespace {namespace!r}. Make one first, or give a function that does."
        ) from error
    if not isinstance(memory, EpicMemory):
        raise InvalidInputError(
            f"For the namespace {namespace!r} memory must return an EpicMemory, not {type(memory).__name__}."
        )
    return memory


def chosen_of(held: Sequence[Preference], asked: Sequence[str | Preference] | None) -> list[Preference]:
    """Return the preferences that a call selects by text, id or object; all of them if it selects none."""
    if asked is None:
        return list(held)
    wanted = {one if isinstance(one, str) else one.id for one in asked} | {Preference.of(one).id for one in asked}
    return [preference for preference in held if preference.id in wanted]


def _checked_preferences(preferences: Any) -> tuple[str | Preference, ...] | None:
    if preferences is None:
        return None
    # A run reads them at each call of the model: an iterator would be empty the second time.
    if isinstance(preferences, Iterator):
        raise InvalidInputError(f"preferences must be a list of texts, not {type(preferences).__name__}.")
    return several_preferences(preferences)


def checked_remember(remember: Any) -> Remembered | None:
    """Return whose words are remembered; None for nobody's."""
    if not isinstance(remember, bool) and remember not in ("user", "both"):
        raise InvalidInputError(f"remember must be 'user', 'both' or False, not {remember!r}.")
    return "both" if remember is True else remember or None
