"""Encoders and language models by their names, wherever one is taken."""

from __future__ import annotations

import gc
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import pytest

from command_line import Epic, refused
from epic_graph import GraphMemory
from epic_memory import EpicMemory, Settings
from epic_memory.encoders import OllamaEncoder, SentenceTransformerEncoder, by_name, default_encoder, encoder_of
from epic_memory.errors import EncoderError, EncoderMismatchError, InvalidInputError, MissingExtraError
from epic_memory.lm import OllamaLM, OpenAICompatibleLM, lm_of
from epic_memory.lm.by_name import NAMES as MODEL_NAMES
from epic_memory.types import FloatArray
from epic_memory.verification import EmbeddedVerifier, LMVerifier
from epic_plugins.collection import Collection
from helpers import HashEncoder, KeepAll
from lm_servers import LMServer
from tables import table

WRONG = ["", " ", "tiny", "static/tiny", "ollama", "ollama/", "sentence-transformers/", "openai:tiny", "/", "a/b/c"]
MINILM = "sentence-transformers/all-MiniLM-L6-v2"


class FakeTransformer:
    """A sentence-transformers model that knows words."""

    made: ClassVar[list[str]] = []

    def __init__(self, name: str, device: str | None = None) -> None:
        if "nothing" in name:
            raise OSError("no such model")
        self.made.append(name)

    def encode(self, texts: Sequence[str], **_: Any) -> FloatArray:
        return HashEncoder(64).encode(texts)

    def state_dict(self) -> dict[str, Any]:
        return {}


@pytest.fixture(autouse=True)
def transformers(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What was loaded of sentence-transformers."""
    module = ModuleType("sentence_transformers")
    module.SentenceTransformer = FakeTransformer  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "sentence_transformers", module)
    monkeypatch.setattr(FakeTransformer, "made", [])
    yield FakeTransformer.made
    by_name._loaded.clear()


# encoders


def test_an_encoder_is_made_by_its_name(transformers: list[str], tmp_path: Path) -> None:
    assert encoder_of(None) is encoder_of("static") is encoder_of(" static ") is default_encoder()
    own = HashEncoder()
    assert encoder_of(own) is own
    found = encoder_of(MINILM)
    assert isinstance(found, SentenceTransformerEncoder) and transformers == ["all-MiniLM-L6-v2"]
    assert found.name == "sentence-transformers:all-MiniLM-L6-v2" and found.languages == {"en"}
    assert encoder_of("sentence-transformers/intfloat/multilingual-e5-small").name.endswith(":multilingual-e5-small")
    folder = encoder_of(f"sentence-transformers/{tmp_path}")
    assert transformers[-1] == str(tmp_path) and folder.name == f"sentence-transformers:{tmp_path.name}"
    assert getattr(folder, "languages", 0) is None
    asked = encoder_of("ollama/nomic-embed-text:v1.5")
    assert isinstance(asked, OllamaEncoder) and asked.name == "ollama:nomic-embed-text:v1.5"


class Keyed:
    """An object that shows a key where it is shown."""

    def __repr__(self) -> str:
        return "Keyed(key='sk-secret')"


@pytest.mark.parametrize("take", [encoder_of, lambda name: EpicMemory(encoder=name), Collection])
def test_another_name_is_an_error_that_lists_what_there_is(take: Callable[[Any], object]) -> None:
    for wrong in WRONG:
        with pytest.raises(InvalidInputError, match=r"There is no encoder .*static.*sentence-transformers/.*ollama/"):
            take(wrong)
    for wrong in (3, HashEncoder, object(), b"static", ["static"], Keyed()):
        with pytest.raises(InvalidInputError, match=r"encoder must be an object .*static") as caught:
            take(wrong)
        assert "sk-secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("module", "name", "extra"),
    [("sentence_transformers", MINILM, "sentence-transformers"), ("ollama", "ollama/tiny", "all")],
)
def test_a_package_that_is_missing(monkeypatch: pytest.MonkeyPatch, module: str, name: str, extra: str) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=rf"epic-memory\[{extra}\]"):
        EpicMemory(encoder=name)


def test_a_model_that_cannot_be_loaded_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(EncoderError, match="Cannot load"):
        EpicMemory.open(tmp_path / "me.epic", ["red wine"], encoder="sentence-transformers/nothing")
    assert list(tmp_path.iterdir()) == []


def test_a_model_is_shared_as_long_as_somebody_has_it(transformers: list[str]) -> None:
    one, other = EpicMemory(encoder=MINILM), EpicMemory(encoder=MINILM)
    assert one.encoder is other.encoder and len(transformers) == 1
    del one, other
    gc.collect()
    assert len(by_name._loaded) == 0
    encoder_of(MINILM)
    assert len(transformers) == 2


def test_a_memory_takes_names(path: Path, tmp_path: Path) -> None:
    keeping = Settings(verifier=KeepAll(), tau=-1.0)
    with EpicMemory.open(path, ["red wine"], encoder="static", settings=keeping) as memory:
        memory.add(["a red wine"])
        assert memory.encoder is default_encoder()
        memory.file.export(tmp_path / "me.jsonl")
    with pytest.raises(EncoderMismatchError):
        EpicMemory.open(path, encoder=MINILM)
    with EpicMemory.open(path, encoder=MINILM, settings=Settings(reencode=True)) as memory:
        assert memory.encoder is encoder_of(MINILM)
        memory.file.reencode("static")
        assert memory.encoder is default_encoder()
        assert isinstance(memory.verifier, EmbeddedVerifier) and memory.verifier.encoder is memory.encoder
        with pytest.raises(InvalidInputError, match="There is no encoder 'tiny'"):
            memory.file.reencode("tiny")
        assert len(memory.search("wine")) == 1
    with EpicMemory.restore(tmp_path / "me.jsonl", tmp_path / "other.epic", encoder=MINILM) as memory:
        assert memory.encoder.name == "sentence-transformers:all-MiniLM-L6-v2" and len(memory) == 1
    with GraphMemory.open(tmp_path / "graph.epic", ["red wine"], encoder="static") as graph:
        assert graph.memory.encoder is default_encoder()
    assert Collection("static").encoder is default_encoder() and Collection(MINILM).encoder is encoder_of(MINILM)


def test_the_command_line_takes_the_same_names(epic: Epic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    mine, notes, me = (str(tmp_path / name) for name in ("mine.txt", "notes.txt", "me.epic"))
    Path(mine).write_text("I love red wine.\n")
    Path(notes).write_text("A red wine from the valley.")
    build = ("build", "--preferences", mine, "--out", me, "--quiet", notes, "--encoder")
    assert by_name.NAMES in " ".join(epic("build", "--help").out.split())
    refused(epic(*build, "tiny"), f"There is no encoder 'tiny'. Use {by_name.NAMES}.")
    assert not Path(me).exists()
    assert epic(*build, MINILM).code == 0
    assert "sentence-transformers:all-MiniLM-L6-v2" in epic("stats", me, "--encoder", MINILM).out
    assert "epic-static-v1" in epic("reencode", me, "--encoder", "static").out


# the plugins


@pytest.mark.parametrize(
    ("plugin", "argument", "embedding", "transform"),
    [
        ("epic_langchain", "embeddings", "EpicEmbeddings", "EpicDocumentTransformer"),
        ("epic_llamaindex", "embed_model", "EpicEmbedding", "EpicTransform"),
    ],
)
def test_a_plugin_takes_names(plugin: str, argument: str, embedding: str, transform: str, path: Path) -> None:
    module = pytest.importorskip(plugin)
    embed = getattr(module, embedding)
    assert embed("static").encoder is default_encoder() and embed(MINILM).encoder is encoder_of(MINILM)
    for component in (embed, module.EpicVectorStore):
        with pytest.raises(InvalidInputError, match=r"static.*sentence-transformers/.*ollama/"):
            component("tiny")
    module.EpicVectorStore(MINILM), getattr(module, transform)(preferences=["tea"], **{argument: MINILM})
    EpicMemory.open(path, ["red wine"], encoder=MINILM).close()
    with module.EpicRetriever(memory=path, **{argument: MINILM}).memory as memory:
        assert memory.encoder is encoder_of(MINILM)


# language models


def test_a_language_model_is_made_by_its_name() -> None:
    for name, url in (("ollama:qwen3:4b", "http://localhost:9"), ("ollama:qwen3:4b@http://localhost:9", None)):
        ollama = lm_of(name, url=url, timeout=3.0, concurrency=2)
        assert isinstance(ollama, OllamaLM) and (ollama.name, ollama.concurrency) == ("ollama:qwen3:4b", 2)
        assert ollama.host == "http://localhost:9" and lm_of(ollama) is ollama
    for model in ("org/model", "@cf/meta/llama"):
        for name, url in (
            (f"openai:{model}", "http://localhost:9/v1"),
            (f"openai:{model}@http://localhost:9/v1", None),
        ):
            openai = lm_of(name, url=url, api_key="sk-1")
            assert isinstance(openai, OpenAICompatibleLM) and openai.name == f"openai:{model}"
            assert openai.base_url == "http://localhost:9/v1"
    with pytest.raises(InvalidInputError, match="twice"):
        lm_of("openai:tiny@http://localhost:9/v1", url="http://localhost:8/v1")
    with pytest.raises(InvalidInputError, match="no address"):
        lm_of("auto", url="http://localhost:9")


NO_MODEL = f"There is no model .*{re.escape(MODEL_NAMES)}"
NO_SERVER = r"openai:MODEL@http://localhost:8000/v1, or url=.*--llm-url"


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        *((name, NO_MODEL) for name in ("", "qwen3:4b", "ollama:", "ollama/tiny", "openai:", "llama.cpp:a.gguf")),
        *((name, NO_MODEL) for name in ("anthropic:a", "static")),
        ("openai:tiny", NO_SERVER),
    ],
)
def test_a_model_of_another_name_is_an_error_that_lists_what_there_is(wrong: str, match: str) -> None:
    for take in (lm_of, lambda name: EpicMemory(settings=Settings(verifier=name))):
        with pytest.raises(InvalidInputError, match=match):
            take(wrong)


@pytest.mark.parametrize(("wrong", "hint"), table(__file__, "the_error_about_a_name_says_how_it_is_written"))
def test_the_error_about_a_name_says_how_it_is_written(wrong: str, hint: str) -> None:
    with pytest.raises(InvalidInputError, match=re.escape(hint) if ".*" not in hint else hint):
        lm_of(wrong)
    for other in (3, OllamaLM, object()):
        with pytest.raises(InvalidInputError, match=r"complete\(...\).*ollama:MODEL"):
            lm_of(other)  # type: ignore[arg-type]


def test_a_memory_takes_the_name_of_the_model_that_verifies(monkeypatch: pytest.MonkeyPatch) -> None:
    with LMServer(lambda request: '{"decision": "Discard", "rationale": "no"}', models=["tiny"]) as server:
        monkeypatch.setenv("OLLAMA_HOST", server.url)
        memory = EpicMemory(
            encoder=HashEncoder(), settings=Settings(verifier="ollama:tiny", aspects="parser", expansions="off")
        )
        assert isinstance(memory.verifier, LMVerifier) and "ollama:tiny" in memory.verifier.name
        memory.preferences.add("I love red wine.")
        assert memory.add(["I love red wine and bread."]).discarded == 1
        memory.verifier = EmbeddedVerifier(memory.encoder)
        memory.verifier = "ollama:tiny"
        assert isinstance(memory.verifier, LMVerifier)
