"""Origins of texts: who wrote what is taken in from files, and what of it is never kept."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from email.utils import getaddresses
from pathlib import PurePosixPath
from typing import Any, Literal, TypeAlias

from epic_learn.credentials import CREDENTIALS, redacted
from epic_memory.types import Item

Origin: TypeAlias = Literal["user", "other", "page", "assistant", "tool"]
"""Who wrote a text: the user, another person, a page or book, an assistant, or a tool."""

ORIGIN = "origin"
"""Key of the metadata of items that says who wrote them."""

_OWN = frozenset({".txt", ".md", ".markdown", ".enex", ".vcf", ".ics"})
_MAILS = frozenset({".eml", ".mbox"})
# An answer that quotes what it answers.
_QUOTED = re.compile(r"(?:^|\s)>\s")


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
    if suffix in _MAILS:
        senders = {address.casefold() for _, address in getaddresses([str(metadata.get("from", ""))])}
        # The name of a sender is whatever the sender likes: only the address tells.
        mine = {each.strip().casefold() for each in user if "@" in each}
        return "user" if senders and senders <= mine and not _QUOTED.search(item.text) else "other"
    return "user" if suffix in _OWN else "page"


def with_origin(items: Iterable[Item], user: Collection[str], kept_out: Counter[str]) -> Iterator[Item]:
    """Yield items with who wrote them, and without the sentences that say a password or the like, which are counted."""
    for item in items:
        text, count = redacted(item.text)
        if count:
            kept_out[CREDENTIALS] += count
        if text:
            metadata = {**item.metadata, ORIGIN: origin_of(item, user)}
            yield replace(item, text=text if count else item.text, metadata=metadata)
