"""Digests of texts, and their width in the file."""

from __future__ import annotations

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
