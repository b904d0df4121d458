"""How rows are written, what tells whether a row is as it was written, and what it means if it is not."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import Any

from epic_core.errors import DamagedError, InvalidInputError

# Shorter texts hardly get smaller; and what gains little had better stay readable.
_COMPRESSED_FROM = 200
_GAIN = 0.9


def checksum(*columns: Any) -> int:
    """A CRC-32 of columns as SQLite gives them back: text, bytes, whole numbers, floats, None."""
    return zlib.crc32(
        b"\x00".join([column if isinstance(column, bytes) else str(column).encode() for column in columns])
    )


def digest(*parts: str, size: int = 16) -> bytes:
    """A short hash of strings, each with its length: no two lists of strings are alike."""
    made = blake2b(digest_size=size)
    for part in parts:
        encoded = part.encode("utf-8", "replace")
        made.update(len(encoded).to_bytes(8, "little") + encoded)
    return made.digest()


def item_digest(item_id: str, text: str, metadata: str) -> bytes:
    """Eight bytes that tell one version of an item from another; metadata as JSON."""
    return digest(item_id, text, metadata, size=8)


def deflated(text: str) -> str | bytes:
    """A text as it is stored: itself, or where that is a tenth smaller compressed by zlib.

    In the `sqlite3` shell: `SELECT CAST(sqlar_uncompress(text, 1000000) AS TEXT) FROM items`.
    """
    encoded = text.encode()
    if len(encoded) < _COMPRESSED_FROM:
        return text
    compressed = zlib.compress(encoded, 9)
    return compressed if len(compressed) < _GAIN * len(encoded) else text


def inflated(stored: str | bytes) -> str:
    """The text of what `deflated` gave.

    Raises:
        ValueError: if it is nothing that `deflated` gives.
    """
    if isinstance(stored, str):
        return stored
    try:
        return zlib.decompress(stored).decode()
    except (zlib.error, TypeError) as error:
        raise ValueError(f"a text cannot be read ({error})") from None


def dumped_metadata(metadata: Mapping[str, Any], item_id: str) -> str:
    """Metadata as it is stored.

    Raises:
        InvalidInputError: if it is not JSON.
    """
    try:
        dumped = json.dumps(dict(metadata), ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":"))
        dumped.encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInputError(
            f"The metadata of item {item_id!r} is not JSON: {error}. Use strings, finite numbers, lists or mappings."
        ) from None
    return dumped


@contextmanager
def decoding(path: Path | None) -> Iterator[None]:
    """A file that holds what we never write is damaged."""
    try:
        yield
    except (ValueError, TypeError, AttributeError, RecursionError, OverflowError) as error:
        raise DamagedError(path, str(error)[:200]) from None
