"""Vectors in ten bits a component, or four: what is read back is near what was written, and does not change."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from epic_memory.storage.codecs import packed, rounded, unpacked
from epic_memory.types import FloatArray

DIMENSIONS = st.integers(1, 70)
SEEDS = st.integers(0, 2**20)


def unit_vectors(count: int, dimension: int, seed: int) -> FloatArray:
    """Of several shapes: round, with a component that outweighs the others, and with many zeros."""
    generator = np.random.default_rng(seed)
    vectors = generator.normal(size=(count, dimension))
    vectors[1::3] *= generator.random((len(vectors[1::3]), dimension)) ** 8
    vectors[2::3] *= generator.random((len(vectors[2::3]), dimension)) < 0.3
    vectors[:, generator.integers(dimension)] += 1e-3
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


@given(count=st.integers(1, 9), dimension=DIMENSIONS, seed=SEEDS)
def test_what_is_read_is_a_unit_vector_within_half_a_level_of_what_was_written(
    count: int, dimension: int, seed: int
) -> None:
    vectors = unit_vectors(count, dimension, seed)
    read = unpacked(packed(vectors), dimension)
    assert read.shape == vectors.shape
    assert read.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(read, axis=1), 1.0, atol=1e-5)
    # Each component is off by at most half a level, the whole by their norm, and normalising at most doubles that.
    half_a_level = np.abs(vectors).max(axis=1) / 511 / 2
    assert (np.linalg.norm(read - vectors, axis=1) <= 2 * half_a_level * np.sqrt(dimension) + 1e-5).all()
    # The signs of what is larger than a level stay.
    clear = np.abs(vectors) > 2 * half_a_level[:, None]
    assert (np.sign(read) == np.sign(vectors))[clear].all()
    # A small code is a unit vector near what was written.
    read = unpacked(packed(vectors, small=True), dimension)
    assert (read.shape, read.dtype) == (vectors.shape, np.float32)
    np.testing.assert_allclose(np.linalg.norm(read, axis=1), 1.0, atol=1e-5)
    assert (read * vectors).sum(axis=1).min() > 0.9


@given(count=st.integers(1, 9), dimension=DIMENSIONS, seed=SEEDS)
def test_what_was_read_is_written_and_read_again_as_it_is(count: int, dimension: int, seed: int) -> None:
    codes = packed(unit_vectors(count, dimension, seed))
    read = unpacked(codes, dimension)
    assert packed(read) == codes
    assert rounded(read).tobytes() == unpacked(codes, dimension).tobytes() == read.tobytes()


@given(dimension=DIMENSIONS | st.sampled_from([256, 384, 768]), seed=SEEDS, small=st.booleans())
def test_a_vector_does_not_depend_on_those_it_is_read_or_written_with(dimension: int, seed: int, small: bool) -> None:
    vectors = unit_vectors(5, dimension, seed)
    codes = packed(vectors, small=small)
    assert [packed(vectors[row : row + 1], small=small)[0] for row in range(5)] == codes
    together = unpacked(codes, dimension)
    alone = np.concatenate([unpacked([code], dimension) for code in codes])
    assert together.tobytes() == alone.tobytes() == rounded(vectors, small=small).tobytes()


@pytest.mark.parametrize("small", [False, True])
@pytest.mark.parametrize("wrong", [b"", b"\x00", "short", "long", "text", "none"])
def test_a_code_of_another_length_or_kind_is_an_error(wrong: bytes | str, small: bool) -> None:
    right = packed(unit_vectors(2, 9, 1), small=small)
    code = {"short": right[0][:-1], "long": right[0] + b"\x00", "text": "a" * len(right[0]), "none": None}.get(
        wrong if isinstance(wrong, str) else "", wrong
    )
    with pytest.raises(ValueError, match="length"):
        unpacked([right[1], code], 9)  # type: ignore[list-item]


# small ones


def test_small_codes_are_the_same_everywhere() -> None:
    # What is in files must be read by later versions as it was written.
    (code,) = packed(np.eye(8, dtype=np.float32)[2:3], small=True)
    assert code.hex() == "55c97a44"
    (read,) = unpacked([bytes([0x10, 0x32, 0x54, 0xF6])], 8)
    np.testing.assert_allclose(read, [0.7808, -0.3256, -0.1477, 0.3434, 0.2022, 0.288, -0.0896, -0.1128], atol=1e-3)


@pytest.mark.parametrize("turn", [1, -1])
def test_codes_of_both_kinds_are_not_read_together(turn: int) -> None:
    vectors = unit_vectors(1, 9, 1)
    with pytest.raises(ValueError, match="length"):
        unpacked([packed(vectors)[0], packed(vectors, small=True)[0]][::turn], 9)
