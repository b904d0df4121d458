"""Encoders and language models by their names, wherever one is taken."""

from __future__ import annotations

import gc
import itertools
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import pytest

from epic_apps.cli.main import main
from epic_graph import GraphMemory
from epic_memory import EpicMemory, Settings
from epic_memory.collection import Collection, Record
from epic_memory.encoders import OllamaEncoder, SentenceTransformerEncoder, by_name, default_encoder, encoder_of
from epic_memory.errors import EncoderError, EncoderMismatchError, InvalidInputError, MissingExtraError
from epic_memory.lm import OllamaLM, OpenAICompatibleLM, lm_of
from epic_memory.lm.by_name import NAMES as MODEL_NAMES
from epic_memory.types import FloatArray
from epic_memory.verification import EmbeddedVerifier, LMVerifier
from helpers import HashEncoder, KeepAll
from lm_servers import LMServer
from tables import table

WRONG = ["", " ", "tiny", "static/tiny", "ollama", "ollama/", "sentence-transformers/", "openai:tiny", "/", "a/b/c"]
MINILM = "sentence-transformers/all-MiniLM-L6-v2"


class Tensor:
    """As much of a tensor as a fingerprint takes."""

    shape = (1,)

    def __getattr__(self, name: str) -> Callable[[], Tensor]:
        return lambda: self

    def __getitem__(self, part: object) -> Tensor:
        return self

    def tobytes(self) -> bytes:
        return b"weights"

    def numpy(self) -> Tensor:
        return self


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
        return {"weights": Tensor()}


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


def test_another_name_is_an_error_that_lists_what_there_is() -> None:
    takes = (encoder_of, lambda name: EpicMemory(encoder=name), Collection)
    for wrong, take in itertools.product(WRONG, takes):
        with pytest.raises(InvalidInputError, match=r"There is no encoder .*static.*sentence-transformers/.*ollama/"):
            take(wrong)


@pytest.mark.parametrize("wrong", [3, HashEncoder, object(), b"static", ["static"]])
def test_what_is_no_encoder_is_an_error(wrong: Any) -> None:
    with pytest.raises(InvalidInputError, match=r"encoder must be an object .*static"):
        encoder_of(wrong)
    with pytest.raises(InvalidInputError, match=r"encoder must be an object"):
        EpicMemory(encoder=wrong)


def test_an_error_does_not_show_an_object() -> None:
    class Keyed:
        def __repr__(self) -> str:
            return "Keyed(key='sk-secret')"

    with pytest.raises(InvalidInputError) as caught:
        encoder_of(Keyed())  # type: ignore[arg-type]
    assert "sk-secret" not in str(caught.value) and "Keyed" in str(caught.value)


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


def test_a_memory_takes_names(tmp_path: Path) -> None:
    path = tmp_path / "me.epic"
    with EpicMemory.open(
        path, ["red wine"], encoder="static", settings=Settings(verifier=KeepAll(), tau=-1.0)
    ) as memory:
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


def test_a_collection_takes_names() -> None:
    collection = Collection(MINILM)
    collection.add([Record(id="a", text="red wine")])
    assert [match.record.id for match in collection.search("wine", 1)] == ["a"]
    assert Collection("static").encoder is default_encoder()


def test_the_command_line_takes_the_same_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    (tmp_path / "mine.txt").write_text("I love red wine.\n")
    (tmp_path / "notes.txt").write_text("A red wine from the valley.")
    build = ["build", "--preferences", str(tmp_path / "mine.txt"), "--out", str(tmp_path / "me.epic"), "--quiet"]

    assert main(["build", "--help"]) == 0
    assert by_name.NAMES in " ".join(capsys.readouterr().out.split())
    assert main([*build, "--encoder", "tiny", str(tmp_path / "notes.txt")]) == 2
    assert f"There is no encoder 'tiny'. Use {by_name.NAMES}." in capsys.readouterr().err
    assert not (tmp_path / "me.epic").exists()
    assert main([*build, "--encoder", MINILM, str(tmp_path / "notes.txt")]) == 0
    assert main(["stats", str(tmp_path / "me.epic"), "--encoder", MINILM]) == 0
    assert "sentence-transformers:all-MiniLM-L6-v2" in capsys.readouterr().out
    assert main(["reencode", str(tmp_path / "me.epic"), "--encoder", "static"]) == 0
    assert "epic-static-v1" in capsys.readouterr().out


# the plugins


def test_langchains_side_takes_names(tmp_path: Path) -> None:
    pytest.importorskip("langchain_core", reason="needs the extra langchain")
    import epic_langchain as lc

    assert lc.EpicEmbeddings("static").encoder is default_encoder()
    assert lc.EpicEmbeddings("ollama/tiny").encoder.name == "ollama:tiny"
    store = lc.EpicVectorStore(MINILM)
    store.add_texts(["red wine", "a blue sky"])
    steered = lc.SteeredRetriever(vectorstore=store, preferences=["I love red wine."], embeddings=MINILM, k=1)
    assert steered.invoke("wine")[0].page_content == "red wine"
    assert lc.EpicDocumentTransformer(preferences=["red wine"], embeddings="static").invoke(
        store.similarity_search("wine", 1)
    )
    EpicMemory.open(tmp_path / "me.epic", ["red wine"], encoder=MINILM).close()
    with lc.EpicRetriever(memory=tmp_path / "me.epic", embeddings=MINILM).memory as memory:
        assert memory.encoder is encoder_of(MINILM)
    for wrong in (lambda: lc.EpicEmbeddings("tiny"), lambda: lc.EpicVectorStore("notes.vectors")):
        with pytest.raises(InvalidInputError, match=r"static.*sentence-transformers/.*ollama/"):
            wrong()


def test_the_agents_store_takes_names() -> None:
    pytest.importorskip("langgraph")
    from epic_langchain.agents import EpicStore

    store = EpicStore(embedding=MINILM)
    store.put(("me",), "a", {"text": "red wine"})
    assert [found.key for found in store.search(("me",), query="wine")] == ["a"]


def test_llamaindexs_side_takes_names(tmp_path: Path) -> None:
    pytest.importorskip("llama_index.core", reason="needs the extra llamaindex")
    from llama_index.core.schema import TextNode

    import epic_llamaindex as li

    assert li.EpicEmbedding("static").encoder is default_encoder()
    assert li.EpicEmbedding(MINILM).model_name == "sentence-transformers:all-MiniLM-L6-v2"
    assert li.EpicVectorStore(MINILM).embed_model.encoder is encoder_of(MINILM)
    (node,) = li.EpicTransform(preferences=["red wine"], embed_model="static")([TextNode(text="a red wine")])
    assert len(node.embedding) == default_encoder().dimension
    EpicMemory.open(tmp_path / "me.epic", ["red wine"], encoder=MINILM).close()
    with li.EpicRetriever(tmp_path / "me.epic", embed_model=MINILM).memory as memory:
        assert memory.encoder is encoder_of(MINILM)
    for wrong in (lambda: li.EpicEmbedding("tiny"), lambda: li.EpicVectorStore("a.vectors")):
        with pytest.raises(InvalidInputError, match=r"static.*sentence-transformers/.*ollama/"):
            wrong()


# language models


def test_a_language_model_is_made_by_its_name() -> None:
    ollama = lm_of("ollama:qwen3:4b", url="http://localhost:9", timeout=3.0, concurrency=2)
    assert isinstance(ollama, OllamaLM) and (ollama.name, ollama.concurrency) == ("ollama:qwen3:4b", 2)
    assert ollama.host == "http://localhost:9" and lm_of(ollama) is ollama
    openai = lm_of("openai:org/model", url="http://localhost:9/v1", api_key="sk-1")
    assert isinstance(openai, OpenAICompatibleLM) and openai.name == "openai:org/model"
    assert openai.base_url == "http://localhost:9/v1"


@pytest.mark.parametrize(
    "wrong",
    ["", "qwen3:4b", "ollama:", "ollama/tiny", "openai:", "llama.cpp:a.gguf", "anthropic:a", "static"],
)
def test_a_model_of_another_name_is_an_error_that_lists_what_there_is(wrong: str) -> None:
    for take in (lm_of, lambda name: EpicMemory(settings=Settings(verifier=name))):
        with pytest.raises(InvalidInputError, match=f"There is no model .*{re.escape(MODEL_NAMES)}"):
            take(wrong)


@pytest.mark.parametrize(("wrong", "hint"), table(__file__, "the_error_about_a_name_says_how_it_is_written"))
def test_the_error_about_a_name_says_how_it_is_written(wrong: str, hint: str) -> None:
    with pytest.raises(InvalidInputError, match=re.escape(hint) if ".*" not in hint else hint):
        lm_of(wrong)


def test_a_name_holds_the_address_of_the_server() -> None:
    openai = lm_of("openai:@cf/meta/llama@https://api.example.com/v1", api_key="sk-1")
    assert isinstance(openai, OpenAICompatibleLM)
    assert (openai.name, openai.base_url) == ("openai:@cf/meta/llama", "https://api.example.com/v1")
    ollama = lm_of("ollama:qwen3:4b@http://localhost:9")
    assert isinstance(ollama, OllamaLM) and (ollama.name, ollama.host) == ("ollama:qwen3:4b", "http://localhost:9")
    with pytest.raises(InvalidInputError, match="twice"):
        lm_of("openai:tiny@http://localhost:9/v1", url="http://localhost:8/v1")
    with pytest.raises(InvalidInputError, match="no address"):
        lm_of("auto", url="http://localhost:9")


def test_a_model_without_its_server_is_an_error() -> None:
    for take in (lm_of, lambda name: EpicMemory(settings=Settings(verifier=name))):
        with pytest.raises(InvalidInputError, match=r"openai:MODEL@http://localhost:8000/v1, or url=.*--llm-url"):
            take("openai:tiny")


@pytest.mark.parametrize("wrong", [3, OllamaLM, object()])
def test_what_is_no_language_model_is_an_error(wrong: Any) -> None:
    with pytest.raises(InvalidInputError, match=r"complete\(...\).*ollama:MODEL"):
        lm_of(wrong)


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
