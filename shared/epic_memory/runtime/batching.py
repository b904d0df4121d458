"""Conversions of what users pass in: items into batches, preferences into objects."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from epic_memory.errors import DuplicatePreferenceError, InvalidInputError
from epic_memory.runtime.effects import in_thread
from epic_memory.types import Item, Preference
from epic_memory.types.metadata import dumped_metadata

Items: TypeAlias = str | Item | Iterable[str | Item]

_BATCH = 512
_MADE_ONCE = 8 * _BATCH
# Most seconds that the first item of a batch waits for the others.
_WAIT = 0.5


def coerced(items: Iterable[Any], first: int = 0) -> list[Item]:
    """Return the items as `Item`s.

    Raises:
        InvalidInputError: naming the position, counted from `first`, of a value that cannot be an item.
    """
    made = []
    for position, item in enumerate(items, start=first):
        try:
            coerced_item = Item.of(item)
            dumped_metadata(coerced_item.metadata, coerced_item.id)
            made.append(coerced_item)
        except InvalidInputError as error:
            raise InvalidInputError(f"Item {position}: {error}") from None
    return made


def batches(items: Any, size: int | None = None) -> Iterator[list[Item]]:
    """Yield the items of any iterable in batches of at most `size` (default 512), or of half a second if it is slow.

    A list or tuple is checked completely before its first batch.

    Raises:
        InvalidInputError: for a value that cannot be an item, naming its position.
    """
    if isinstance(items, (str, Item)):
        items = [items]
    if not isinstance(items, Iterable) or isinstance(items, (bytes, Mapping)):
        raise InvalidInputError(f"add takes texts or Items, not {type(items).__name__}.")
    size = _BATCH if size is None else size
    if isinstance(items, (list, tuple)):
        given, starts = tuple(items), range(0, len(items), size)
        if len(given) <= _MADE_ONCE:
            made = coerced(given)
            yield from (made[start : start + size] for start in starts)
            return
        for position, item in enumerate(given):
            # A million texts take far less memory than a million items, which are made for a batch.
            if not isinstance(item, str) or not item.isascii() or not item.strip() or "\x00" in item:
                coerced([item], position)
        yield from (coerced(given[start : start + size], start) for start in starts)
        return
    taken, began = 0, 0.0
    waiting: list[Any] = []
    for item in items:
        began = began if waiting else time.monotonic()
        waiting.append(item)
        if _complete(waiting, began, size):
            yield coerced(waiting, taken)
            taken += len(waiting)
            waiting = []
    if waiting:
        yield coerced(waiting, taken)


def _complete(waiting: Sequence[Any], began: float, size: int) -> bool:
    """Tell whether a batch is large enough, or its first item has waited half a second."""
    return len(waiting) >= size or time.monotonic() - began >= _WAIT


async def abatches(items: Any, size: int | None = None) -> AsyncIterator[list[Item]]:
    """Yield batches as `batches` does, also of an asynchronous iterable."""
    if not isinstance(items, AsyncIterable):
        synchronous = batches(items, size)
        # The iterator may read files, which would block the event loop.
        while batch := await in_thread(next, synchronous, []):
            yield batch
        return
    size = _BATCH if size is None else size
    taken, began = 0, 0.0
    waiting: list[Any] = []
    stream = items.__aiter__()
    coming: asyncio.Future[Any] | None = None
    try:
        while True:
            coming = coming or asyncio.ensure_future(stream.__anext__())
            left = None if not waiting else max(0.0, began + _WAIT - time.monotonic())
            done, _ = await asyncio.wait({coming}, timeout=left)
            if done:
                try:
                    item = coming.result()
                except StopAsyncIteration:
                    break
                finally:
                    coming = None
                began = began if waiting else time.monotonic()
                waiting.append(item)
            if not done or _complete(waiting, began, size):
                yield coerced(waiting, taken)
                taken += len(waiting)
                waiting = []
    finally:
        if coming is not None:
            coming.cancel()
    if waiting:
        yield coerced(waiting, taken)


def storable(text: str) -> str:
    """Return a text without the characters that a memory refuses, for callers that must not fail because of them."""
    return text.replace("\x00", "").encode("utf-8", "replace").decode()


def checked_part(name: str, part: object, method: str) -> None:
    """Raise an `InvalidInputError` for what cannot be a part: without the method, or a class or a text."""
    if isinstance(part, (type, str)) or not callable(getattr(part, method, None)):
        # The message does not show the object itself, because its repr may contain a key.
        found = part if isinstance(part, (type, str)) else f"an object of type {type(part).__name__}"
        raise InvalidInputError(
            f"{name} must be an object with a method {method}(...), not {found}. A model of LangChain or LlamaIndex"
            " goes in by an adapter, such as LangChainEncoder or LMVerifier(LangChainLM(...))."
        )


def unique_preferences(preferences: Iterable[str | Preference]) -> list[Preference]:
    """Return the preferences as objects.

    Raises:
        DuplicatePreferenceError: if one is given twice.
        InvalidInputError: for a value that cannot be a preference.
    """
    if isinstance(preferences, (str, Preference)):
        preferences = [preferences]
    if not isinstance(preferences, Iterable) or isinstance(preferences, Mapping):
        raise InvalidInputError(
            f"preferences must be several texts, such as a list, not {type(preferences).__name__}; [] is none."
        )
    unique: dict[str, Preference] = {}
    for preference in map(Preference.of, preferences):
        if preference.id in unique:
            raise DuplicatePreferenceError(f"The preference {preference.text!r} is given twice. Leave one out.")
        unique[preference.id] = preference
    return list(unique.values())
