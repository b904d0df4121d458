"""Codecs of what the file holds: compressed texts, checksums of rows, and unit vectors without a scale.

With ten bits, a vector's largest component becomes level 511 and the others are rounded to levels of the same size:
1.25 bytes a component instead of the 4 of float32. With four bits (`small=True`) the vector is first rotated, which
spreads large components over all others, and each component is rounded to one of 16 levels, the best ones for normally
distributed numbers: half a byte. Reading normalises, so no scale is stored; the length of a code tells which of the two
it is.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epic_memory.types import FloatArray

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

_LEVELS = 511
_ZERO = 512
# The step between 16 even levels with the least error for numbers with a standard deviation of one.
_STEP = 0.3352
_BLOCK = 1024
# Larger than the difference between sums in different orders.
_EDGE = 1e-9


def checksum(*columns: Any) -> int:
    """Return the `checksums` of one row."""
    return checksums([[column] for column in columns])[0]


def checksums(columns: Sequence[Sequence[Any]]) -> list[int]:
    """Return a CRC-32 of each of several rows, which are given as columns of the same length, as SQLite returns them.

    It includes the types of values: text, bytes, integers, floats, None.
    """
    forms, parts = list[bytes](), list[Sequence[Any]]()
    for column in columns:
        kinds = set(map(type, column))
        if kinds == {bytes}:
            forms.append(b"b%b")
            parts.append(column)
        elif kinds.isdisjoint((str, bytes)):
            forms.append(b"%a")
            parts.append(column)
        elif kinds == {str}:
            forms.append(b"s%b")
            parts.append(list(map(str.encode, column)))
        else:
            forms.append(b"%b")
            parts.append([_tagged(value) for value in column])
    form = b"\x00".join(forms)
    return [zlib.crc32(form % row) for row in zip(*parts, strict=True)]


def _tagged(value: Any) -> bytes:
    if type(value) is str:
        return b"s" + value.encode()
    return b"b" + value if type(value) is bytes else repr(value).encode()


def deflated(text: str) -> str | bytes:
    """Return a text as it is stored: compressed by zlib if that is a tenth smaller, else unchanged.

    In the `sqlite3` shell: `SELECT CAST(sqlar_uncompress(text, 1000000) AS TEXT) FROM items`.
    """
    encoded = text.encode()
    if not _COMPRESSED_FROM <= len(encoded) < _LARGEST:
        return text
    compressed = zlib.compress(encoded, 9)
    return compressed if len(compressed) < _GAIN * len(encoded) else text


def deflated_by(text: str, *known: str) -> str | bytes:
    """Return a short text as it is stored next to longer ones: compressed by them if that is a tenth smaller.

    An instruction quotes its item and names its preference, so a few references to them replace most of it.
    """
    if not 0 < len(text) < _LARGEST // 4:
        return text
    packer = zlib.compressobj(9, zlib.DEFLATED, 15, 9, zlib.Z_DEFAULT_STRATEGY, _dictionary(known))
    compressed = packer.compress(text.encode()) + packer.flush()
    return compressed if len(compressed) < _GAIN * len(text.encode()) else text


def inflated(stored: str | bytes, *known: str) -> str:
    """Return the text that `deflated` stored, or `deflated_by` with the same other texts.

    Raises:
        ValueError: if neither can have stored it, or the other texts differ.
    """
    if isinstance(stored, str):
        return stored
    unpacker = zlib.decompressobj(15, zdict=_dictionary(known)) if known else zlib.decompressobj()
    try:
        # A few bytes in a malicious file could become gigabytes.
        text = unpacker.decompress(stored, _LARGEST)
    except (zlib.error, TypeError) as error:
        raise ValueError(f"a text cannot be read ({error})") from None
    if not unpacker.eof or unpacker.unused_data:
        raise ValueError("a text is cut, or too long")
    return text.decode()


def _dictionary(known: tuple[str, ...]) -> bytes:
    return (_PHRASES + "\n".join(known)).encode()[-_WINDOW:]


def code_length(dimension: int, *, small: bool = False) -> int:
    """Return the bytes of a code: five for every four components or part of four; small: one for every two."""
    return -(-dimension // 2) if small else 5 * -(-dimension // 4)


def packed(vectors: FloatArray, *, small: bool = False) -> list[bytes]:
    """Return the codes of unit vectors `(n, d)`."""
    count, dimension = vectors.shape
    length = code_length(dimension, small=small)
    if small:
        levels = np.full((count, 2 * length), 8, dtype=np.uint8)
        # In float64 the same vector always gives the same levels, whatever other vectors are packed with it. _EDGE does
        # the same for values such as 0, which would be on the edge between two levels but for the order of a sum.
        steps = np.floor(vectors.astype(np.float64) @ _steps_of(dimension) + _EDGE)
        levels[:, :dimension] = np.clip(steps, -8, 7).astype(np.int8) + 8
        flat = (levels[:, ::2] | (levels[:, 1::2] << 4)).tobytes()
    else:
        largest = np.abs(vectors).max(axis=1, keepdims=True, initial=0.0)
        largest[largest == 0.0] = 1.0
        tens = np.full((count, 4 * -(-dimension // 4)), _ZERO, dtype=np.uint16)
        tens[:, :dimension] = np.rint(vectors / largest * _LEVELS).astype(np.int16) + _ZERO
        fours = tens.reshape(count, length // 5, 4)
        octets = np.empty((*fours.shape[:2], 5), dtype=np.uint8)
        octets[..., :4] = fours & 0xFF
        # The upper two bits of four levels share the fifth byte.
        octets[..., 4] = ((fours >> 8) << np.array([0, 2, 4, 6], dtype=np.uint16)).sum(axis=2)
        flat = octets.tobytes()
    return [flat[start : start + length] for start in range(0, count * length, length)]


@lru_cache(maxsize=8)
def _rotation(dimension: int) -> tuple[FloatArray, float]:
    """Return an orthogonal matrix `(d, d)`, the same on every machine, and the factor by which it lengthens.

    It is a cosine transform after fixed changes of sign, in integers small enough that no sum of their products with
    levels is rounded: the vector read from a code does not depend on the other codes read with it.
    """
    places = np.arange(dimension)
    waves = np.cos(np.pi / max(1, dimension) * (places[:, None] + 0.5) * places[None, :])
    waves /= np.linalg.norm(waves, axis=0, keepdims=True)
    signs = np.where((places * 2_654_435_761 >> 7) & 1, 1.0, -1.0)
    scale = max(1, (2**24 - 1) // (15 * max(1, dimension))) / float(np.abs(waves).max(initial=1e-6))
    rotation: FloatArray = np.ascontiguousarray(np.rint(scale * signs[:, None] * waves), dtype=np.float32)
    return rotation, scale


@lru_cache(maxsize=8)
def _steps_of(dimension: int) -> NDArray[np.float64]:
    """Return the rotation scaled for writing: how many steps each component becomes, shape `(d, d)`."""
    rotation, scale = _rotation(dimension)
    steps: NDArray[np.float64] = rotation * np.float64(np.sqrt(max(1, dimension)) / _STEP / scale)
    return steps


def is_small(codes: Sequence[bytes], dimension: int) -> bool:
    """Tell whether codes, all of one kind, have four bits a component, not ten; another length is a ValueError."""
    small = bool(codes) and isinstance(codes[0], bytes) and len(codes[0]) == code_length(dimension, small=True)
    if not set(map(type, codes)) <= {bytes} or not set(map(len, codes)) <= {code_length(dimension, small=small)}:
        raise ValueError(f"a vector has not the length {dimension}")
    return small


def unpacked(codes: Sequence[bytes], dimension: int) -> FloatArray:
    """Return the unit vectors `(n, d)` of codes, all of one kind; a code of another length is a ValueError."""
    small = is_small(codes, dimension)
    length = code_length(dimension, small=small)
    octets = np.frombuffer(b"".join(codes), dtype=np.uint8).reshape(len(codes), length)
    unit = np.empty((len(codes), dimension), dtype=np.float32)
    # In blocks that stay in the processor's cache.
    for start in range(0, len(codes), _BLOCK):
        block = octets[start : start + _BLOCK]
        vectors = _levels_of(block, small=small)[:, :dimension]
        if small:
            vectors = vectors @ _rotation(dimension)[0].T
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        norms[norms == 0.0] = 1.0
        np.divide(vectors, norms, out=unit[start : start + _BLOCK])
    return unit


def _levels_of(octets: NDArray[np.uint8], *, small: bool) -> FloatArray:
    """Return the levels of codes, around zero."""
    count, length = octets.shape
    if small:
        levels: FloatArray = np.empty((count, 2 * length), dtype=np.float32)
        levels[:, ::2], levels[:, 1::2] = octets & 15, octets >> 4
        levels -= np.float32(7.5)
        return levels
    fives = octets.reshape(count, length // 5, 5)
    upper = (fives[..., 4:] >> np.array([0, 2, 4, 6], dtype=np.uint8)) & 3
    whole = fives[..., :4] + (upper.astype(np.int16) << 8)
    around_zero: FloatArray = (whole.reshape(count, 4 * length // 5) - np.int16(_ZERO)).astype(np.float32)
    return around_zero


def rounded(vectors: FloatArray, *, small: bool = False) -> FloatArray:
    """Round vectors `(n, d)` as the file does, so that a search finds the same before and after reopening."""
    return unpacked(packed(vectors, small=small), vectors.shape[1]) if len(vectors) else vectors
