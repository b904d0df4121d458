"""Checks of what a component is given several of: documents, nodes, texts, ids."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

from epic_memory.errors import InvalidInputError

T = TypeVar("T")

# How to make what is wanted, by its name.
_HINTS = {
    "Documents": ": Document(page_content=...)",
    "nodes": ": TextNode(text=...)",
    "metadatas": ": give a mapping for each",
}


def several(given: Iterable[T], kind: type[T] | tuple[type[T], ...], what: str) -> Iterator[T]:
    """Return an iterator over several values, each of which is checked when it comes.

    Args:
        given: The values; one alone is refused at once.
        kind: What they have to be.
        what: Their name, such as "Documents".

    Raises:
        InvalidInputError: for anything but several values of this kind.
    """
    if isinstance(given, (str, bytes, Mapping)) or not isinstance(given, Iterable) or isinstance(given, kind):
        raise InvalidInputError(f"Give several {what} in a list, not {type(given).__name__}.")
    return (checked(one, kind, what) for one in given)


def checked(value: object, kind: type[T] | tuple[type[T], ...], what: str) -> T:
    """Return a value of this kind; `what` names several of them."""
    if not isinstance(value, kind):
        raise InvalidInputError(f"Expected {what}, found {type(value).__name__}{_HINTS.get(what, '')}.")
    return value
