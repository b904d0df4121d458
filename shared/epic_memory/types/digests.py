"""Digests of texts, and their width in the file."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from hashlib import blake2b

DIGEST_BYTES = 6


def digest(*parts: str, size: int = 16) -> bytes:
    """Return a short hash of strings; the length of each is hashed too, so that no two lists have the same input."""
    made = blake2b(digest_size=size)
    for part in parts:
        encoded = part.encode("utf-8", "replace")
        made.update(len(encoded).to_bytes(8, "little") + encoded)
    return made.digest()


def item_digest(item_id: str, text: str, metadata: str) -> bytes:
    """Return six bytes that identify one version of an item; metadata as JSON.

    The chance that one of ten thousand other items has the same digest is 4e-11.
    """
    return digest(item_id, text, metadata, size=DIGEST_BYTES)


def mark_of(salt: str, key: str, level: int) -> bytes:
    """Return the mark of something that was forgotten, for the first time or once more, or is there again."""
    return digest(salt, key, str(level), size=DIGEST_BYTES)


def level_of(marks: AbstractSet[bytes], salt: str, key: str) -> int:
    """Return how many marks something has: it is forgotten if the number is odd."""
    level = 0
    while mark_of(salt, key, level + 1) in marks:
        level += 1
    return level


def line_mark(marks: AbstractSet[bytes], salt: str, preference_id: str) -> bytes:
    """Return the mark of a preference as it is held now, which has another one when it is added again."""
    return mark_of(salt, f"from {preference_id}", level_of(marks, salt, f"preference {preference_id}"))
