"""The base of encoders that ask a framework's embedding model."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from epic_memory.encoders.base import aembed_query, embed_query
from epic_memory.errors import EncoderError
from epic_plugins.adapted_encoder import AdaptedEncoder
from helpers import Call, HashEncoder


class Framework(AdaptedEncoder):
    """Asks `embed` for documents and queries, and counts the calls."""

    def __init__(self, embed: Callable[[list[str]], Any], **options: Any) -> None:
        super().__init__("framework:tiny", **{"fingerprint": None, "tau": None, "floor": None, **options})
        self.embed, self.calls = embed, 0

    def _documents(self, texts: list[str]) -> object:
        self.calls += 1
        return self.embed(texts)

    async def _adocuments(self, texts: list[str]) -> object:
        return self._documents(texts)

    def _query(self, text: str) -> object:
        return self._documents([text])[0]  # type: ignore[index]

    async def _aquery(self, text: str) -> object:
        return self._query(text)


def lengths(texts: list[str]) -> list[list[float]]:
    return [[3.0 * len(text), 4.0 * len(text)] for text in texts]


async def test_embeddings_are_normalised(encode: Call, encode_query: Call) -> None:
    encoder = Framework(lengths)
    assert not encoder.calls
    made = await encode(encoder, ["a", "bcd"])
    assert made.dtype == np.float32
    np.testing.assert_allclose(made, [[0.6, 0.8]] * 2, rtol=1e-6)
    np.testing.assert_allclose(await encode_query(encoder, "ab"), [0.6, 0.8], rtol=1e-6)
    calls = encoder.calls
    assert encoder.dimension == 2 and (await encode(encoder, [])).shape == (0, 2) and encoder.calls == calls


@pytest.mark.parametrize(
    "embed",
    [
        lambda texts: [["a"], ["b"]],
        lambda texts: [*lengths(texts), [1.0, 0.0]],
        lambda texts: [[] for _ in texts],
        lambda texts: [1.0, 2.0],
        lambda texts: [[1.0], [1.0, 2.0]],
        lambda texts: None,
        lambda texts: [None for _ in texts],
        lambda texts: [[[1.0], [2.0]] for _ in texts],
        lambda texts: [[float("nan"), 1.0]] * len(texts),
        lambda texts: [[float("inf"), 1.0]] * len(texts),
        lambda texts: [[0.0, 0.0]] * len(texts),
        lambda texts: 1 / 0,
        lambda texts: lengths(texts)[1:],
    ],
)
async def test_wrong_embeddings_are_an_error_of_ours(embed: Callable[[list[str]], Any], encode: Call) -> None:
    with pytest.raises(EncoderError, match="framework:tiny"):
        await encode(Framework(embed), ["a", "b"])


@pytest.mark.parametrize("given", [None, [], ["a"], [[1.0], [2.0]], [0.0, 0.0], [float("nan"), 1.0]], ids=str)
async def test_a_wrong_embedding_of_a_query_is_one_too(given: Any, encode_query: Call) -> None:
    with pytest.raises(EncoderError, match="framework:tiny"):
        await encode_query(Framework(lambda texts: [given]), "a")


async def test_a_connection_of_an_ended_event_loop_is_tried_again() -> None:
    left = ["Event loop is closed"] * 3

    def embed(texts: list[str]) -> list[list[float]]:
        if left:
            raise RuntimeError(left.pop())
        return lengths(texts)

    encoder = Framework(embed)
    assert (await encoder.aencode(["a"])).shape == (1, 2) and encoder.calls == 4
    left.append("Event loop is closed")
    with pytest.raises(EncoderError, match="loop is closed"):
        encoder.encode(["a"])


def test_name_dimension_and_settings_make_the_fingerprint() -> None:
    made = {
        Framework(lengths).fingerprint,
        Framework(lengths, settings="short").fingerprint,
        Framework(lambda texts: [[1.0, 2.0, 3.0]] * len(texts)).fingerprint,
        Framework(lengths, fingerprint="own").fingerprint,
    }
    assert len(made) == 4 and "own" in made
    assert Framework(lengths).fingerprint in made


class Asymmetric(HashEncoder):
    """Embeds queries synchronously only, and as it is told."""

    def __init__(self, given: Any = None) -> None:
        super().__init__(2)
        self.given, self.threads = given, set[int]()

    def encode_query(self, text: str) -> Any:
        self.threads.add(threading.get_ident())
        return self.vector(f"query {text}") if self.given is None else self.given


async def test_an_encoder_may_embed_queries_synchronously_only_and_is_checked() -> None:
    encoder = Asymmetric()
    vector = await aembed_query(encoder, "wine")
    assert threading.get_ident() not in encoder.threads
    np.testing.assert_array_equal(vector, embed_query(encoder, "wine"))
    np.testing.assert_array_equal(vector, encoder.vector("query wine"))
    for given in ([0.0, 0.0], [1.0, float("nan")], [[1.0, 0.0]], [1.0], "none"):
        with pytest.raises(EncoderError):
            embed_query(Asymmetric(given), "wine")
        with pytest.raises(EncoderError):
            await aembed_query(Asymmetric(given), "wine")
