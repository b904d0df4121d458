"""How unit vectors are kept in the file: ten bits a component, without a scale.

A vector's largest component is brought to level 511, the others are rounded to levels of that size; reading
normalises, so no scale is kept. 1.25 bytes a component instead of the 4 of float32. `tests/benchmarks/bench_codes.py`
compares this with other codes by their bytes and by what a search loses.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from epic_core.types import FloatArray

_LEVELS = 511
_ZERO = 512


def code_length(dimension: int) -> int:
    """Bytes of one code: five for each four components, begun or whole."""
    return 5 * -(-dimension // 4)


def packed(vectors: FloatArray) -> list[bytes]:
    """The codes of unit vectors `(n, d)`."""
    count, dimension = vectors.shape
    largest = np.abs(vectors).max(axis=1, keepdims=True, initial=0.0)
    largest[largest == 0.0] = 1.0
    levels = np.full((count, 4 * -(-dimension // 4)), _ZERO, dtype=np.uint16)
    levels[:, :dimension] = np.rint(vectors / largest * _LEVELS).astype(np.int16) + _ZERO
    fours = levels.reshape(count, code_length(dimension) // 5, 4)
    octets = np.empty((*fours.shape[:2], 5), dtype=np.uint8)
    octets[..., :4] = fours & 0xFF
    # The upper two bits of four levels share the fifth byte.
    octets[..., 4] = ((fours >> 8) << np.array([0, 2, 4, 6], dtype=np.uint16)).sum(axis=2)
    flat, length = octets.tobytes(), code_length(dimension)
    return [flat[start : start + length] for start in range(0, count * length, length)]


def unpacked(codes: Sequence[bytes], dimension: int) -> FloatArray:
    """The unit vectors `(n, d)` of codes.

    Raises:
        ValueError: for a code of another length.
    """
    length = code_length(dimension)
    if any(not isinstance(code, bytes) or len(code) != length for code in codes):
        raise ValueError(f"a vector has not the length {dimension}")
    octets = np.frombuffer(b"".join(codes), dtype=np.uint8).reshape(len(codes), length // 5, 5)
    upper = (octets[..., 4:] >> np.array([0, 2, 4, 6], dtype=np.uint8)) & 3
    levels = octets[..., :4].astype(np.float32) + 256.0 * upper.astype(np.float32) - _ZERO
    vectors = levels.reshape(len(codes), 4 * length // 5)[:, :dimension]
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    norms[norms == 0.0] = 1.0
    unit: FloatArray = np.ascontiguousarray(vectors / norms, dtype=np.float32)
    return unit


def rounded(vectors: FloatArray) -> FloatArray:
    """Vectors `(n, d)` as the file will give them back: what is searched before and after reopening is the same."""
    return unpacked(packed(vectors), vectors.shape[1]) if len(vectors) else vectors
