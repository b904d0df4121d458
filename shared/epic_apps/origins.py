"""Origins of texts: who wrote what is taken in from files, and what of it is never kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from email.utils import getaddresses
from pathlib import PurePosixPath
from typing import Any

from epic_learn.credentials import CREDENTIALS, holds_credential, redacted
from epic_learn.origins import ORIGIN, Origin
from epic_memory.groups.never import MemoryNever
from epic_memory.types import Item

NEVER = "texts with metadata about a topic that is never kept"
"""Reason under which such texts are counted."""

# What says where a text comes from, and is needed to find it again.
_PLACES = frozenset({"source", ORIGIN})
_OWN = frozenset({".txt", ".md", ".markdown", ".enex", ".vcf", ".ics"})
_MAILS = frozenset({".eml", ".mbox"})


def origin_of(item: Item, user: Collection[str] = ()) -> Origin:
    """Say who wrote an item that was read from a file: the least trusted that it may be.

    Args:
        item: The item, with its `source`.
        user: Addresses of the user in mails; names among them tell nothing.
    """
    metadata = item.metadata
    given: Any = metadata.get(ORIGIN)
    if given in ("other", "page", "assistant", "tool"):
        origin: Origin = given
        return origin
    suffix = PurePosixPath(str(metadata.get("source", ""))).suffix.lower()
    if given == "user" and "turn" in metadata:  # of a chat log
        return "user"
    if suffix in _MAILS:
        senders = {address.casefold() for _, address in getaddresses([str(metadata.get("from", ""))])}
        # The name of a sender is whatever the sender likes: only the address tells.
        mine = {each.strip().casefold() for each in user if "@" in each}
        return "user" if senders and senders <= mine else "other"
    return "user" if suffix in _OWN else "page"


def attributed(item: Item) -> Item:
    """Return an item that was read from a file with who wrote it."""
    return replace(item, metadata={**item.metadata, ORIGIN: origin_of(item)})


def with_origin(
    items: Iterable[Item],
    user: Collection[str],
    kept_out: Counter[str],
    never: MemoryNever | None = None,
) -> Iterator[Item]:
    """Yield items with who wrote them, and without what says a password or the like in text and metadata.

    Args:
        items: The items, as they were read.
        user: Addresses of the user in mails.
        kept_out: Counts what is left out, by its reason.
        never: Topics of which nothing is kept, neither of a title and other metadata.
    """
    seen: set[str] = set()
    topics = never or None
    for item in items:
        text, count = redacted(item.text)
        dropped: list[str] = []
        metadata = {key: value if key in _PLACES else _cleaned(key, value, dropped)
                    for key, value in item.metadata.items()}  # fmt: skip
        metadata = {key: value for key, value in metadata.items() if key in _PLACES or value is not None}
        # Every piece of a text has its metadata, and a heading stands in the text as well: they are counted once.
        new = {each for each in dropped if each not in item.text} - seen
        seen |= new
        if count or new:
            kept_out[CREDENTIALS] += count + len(new)
        if not text:
            continue
        if topics is not None and (said := "\n\n".join(_said(metadata))) and topics.topic_of(said) is not None:
            kept_out[NEVER] += 1
            continue
        yield replace(item, text=text if count else item.text, metadata={**metadata, ORIGIN: origin_of(item, user)})


def _cleaned(key: str, value: Any, dropped: list[str]) -> Any:
    """Return a value of metadata without the sentences that say a credential, None if nothing is left of it."""
    if isinstance(value, Mapping):
        kept = {name: _cleaned(str(name), each, dropped) for name, each in value.items()}
        return {name: each for name, each in kept.items() if each is not None or value[name] is None} or None
    if isinstance(value, (list, tuple)):
        several = [_cleaned(key, each, dropped) for each in value]
        return [each for each in several if each is not None] or None
    if not isinstance(value, (str, int)) or isinstance(value, bool):
        return value
    if holds_credential(f"{key}: {value}") and not holds_credential(str(value)):
        dropped.append(str(value))
        return None
    text, count = redacted(str(value))
    dropped += [str(value)] * bool(count)
    return (text or None) if count else value


def _said(metadata: Mapping[str, Any]) -> Iterator[str]:
    """Yield the words of metadata, each with its key."""
    for key, value in metadata.items():
        if key in _PLACES:
            continue
        for each in value if isinstance(value, (list, tuple)) else [value]:
            if isinstance(each, Mapping):
                yield from _said(each)
            elif isinstance(each, str) and each.strip():
                yield f"{key}: {each}" if key not in ("title", "heading") else each
