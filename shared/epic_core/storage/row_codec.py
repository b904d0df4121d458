"""Codec of rows: compressed texts, and checksums that show whether a row is as it was written."""

from __future__ import annotations

import zlib
from typing import Any

# Shorter texts hardly get smaller, and texts that gain little had better stay readable.
_COMPRESSED_FROM = 200
_GAIN = 0.9
# Longer texts are stored uncompressed; no compressed text is longer.
_LARGEST = 2**26
_WINDOW = 2**15
# Phrases common in instructions and rationales. They are part of the file format and must not change.
_PHRASES = (
    " with the preference, in its nearest sentence; the user wants to avoid, prefers, is interested in; recommend"
    " cosine 0.3 Look for this, it suits a user who Take what suits Steer clear of this: a user who avoids Use this"
    " when the user asks about "
)


def checksum(*columns: Any) -> int:
    """Return a CRC-32 of columns as SQLite returns them, including their types: text, bytes, integers, floats, None."""
    return zlib.crc32(
        b"\x00".join(
            [
                b"b" + column
                if isinstance(column, bytes)
                else b"s" + column.encode()
                if isinstance(column, str)
                else repr(column).encode()
                for column in columns
            ]
        )
    )


def deflated(text: str) -> str | bytes:
    """Return a text as it is stored: compressed by zlib if that is a tenth smaller, else unchanged.

    In the `sqlite3` shell: `SELECT CAST(sqlar_uncompress(text, 1000000) AS TEXT) FROM items`.
    """
    encoded = text.encode()
    if not _COMPRESSED_FROM <= len(encoded) < _LARGEST:
        return text
    compressed = zlib.compress(encoded, 9)
    return compressed if len(compressed) < _GAIN * len(encoded) else text


def inflated(stored: str | bytes) -> str:
    """Return the text that `deflated` stored.

    Raises:
        ValueError: if `deflated` cannot have stored it.
    """
    if isinstance(stored, str):
        return stored
    try:
        return _unpacked(zlib.decompressobj(), stored)
    except (zlib.error, TypeError) as error:
        raise ValueError(f"a text cannot be read ({error})") from None


def deflated_by(text: str, *known: str) -> str | bytes:
    """Return a short text as it is stored next to longer ones: compressed by them if that is a tenth smaller.

    An instruction quotes its item and names its preference, so a few references to them replace most of it.
    """
    if not 0 < len(text) < _LARGEST // 4:
        return text
    packer = zlib.compressobj(9, zlib.DEFLATED, 15, 9, zlib.Z_DEFAULT_STRATEGY, _dictionary(known))
    compressed = packer.compress(text.encode()) + packer.flush()
    return compressed if len(compressed) < _GAIN * len(text.encode()) else text


def inflated_by(stored: str | bytes, *known: str) -> str:
    """Return the text that `deflated_by` stored with the same other texts.

    Raises:
        ValueError: if `deflated_by` cannot have stored it, or the other texts differ.
    """
    if isinstance(stored, str):
        return stored
    try:
        return _unpacked(zlib.decompressobj(15, zdict=_dictionary(known)), stored)
    except (zlib.error, TypeError) as error:
        raise ValueError(f"a text cannot be read ({error})") from None


def _unpacked(unpacker: Any, stored: bytes) -> str:
    # A few bytes in a malicious file could become gigabytes.
    text: bytes = unpacker.decompress(stored, _LARGEST)
    if not unpacker.eof or unpacker.unused_data:
        raise ValueError("a text is cut, or too long")
    return text.decode()


def _dictionary(known: tuple[str, ...]) -> bytes:
    return (_PHRASES + "\n".join(known)).encode()[-_WINDOW:]
