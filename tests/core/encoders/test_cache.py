"""The vectors of texts that are kept: the encoder's own, those used last, the same in either way."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from epic_memory.encoders.cache import TextVectors
from helpers import HashEncoder

texts = st.lists(st.sampled_from(["hotel", "casino", "quiet", "train"]), min_size=1).map(" ".join)


@given(asked=st.lists(st.lists(texts, min_size=1, max_size=5), max_size=8), size=st.integers(1, 6))
def test_kept_vectors_are_the_encoders_own(asked: list[list[str]], size: int) -> None:
    encoder = HashEncoder(64)
    kept = TextVectors(encoder, size=size)
    for wanted in asked:
        np.testing.assert_array_equal(kept.of(wanted), np.stack([encoder.vector(text) for text in wanted]))
        assert len(kept) <= size


async def test_the_texts_used_last_are_kept_in_either_way() -> None:
    encoder = HashEncoder()
    kept = TextVectors(encoder, size=2)
    for text in ("a", "b", "a", "c"):
        kept.of([text])
    np.testing.assert_array_equal(await kept.aof(["a", "b"]), [encoder.vector("a"), encoder.vector("b")])
    assert dict(encoder.texts) == {"a": 1, "b": 2, "c": 1}


def test_several_threads_get_the_right_vectors() -> None:
    encoder = HashEncoder(64)
    kept = TextVectors(encoder, size=5)
    asked = [[f"text {n % 7}", f"text {n % 3}"] for n in range(300)]
    with ThreadPoolExecutor(8) as pool:
        for wanted, vectors in zip(asked, pool.map(kept.of, asked), strict=True):
            np.testing.assert_array_equal(vectors, [encoder.vector(text) for text in wanted])
