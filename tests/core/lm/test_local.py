"""The name "auto": which servers of this machine are asked, and which of their models is taken."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from epic_memory import EpicMemory
from epic_memory.errors import LMSetupError
from epic_memory.lm import Message, OllamaLM, OpenAICompatibleLM, lm_of
from epic_memory.lm import by_name as local
from helpers import HashEncoder
from lm_servers import LMServer

HELLO = [Message("user", "Hello?")]


def tag(name: str, size: str = "", **more: Any) -> dict[str, Any]:
    """An entry of Ollama's list, as its server 0.12 writes it."""
    return {"name": name, "model": name, "size": 1, "details": {"format": "gguf", "parameter_size": size}, **more}


@pytest.fixture
def silence(monkeypatch: pytest.MonkeyPatch) -> None:
    nobody = "http://127.0.0.1:9"
    monkeypatch.setattr(local, "OLLAMA", nobody)
    monkeypatch.setattr(local, "SERVERS", {"llama.cpp": f"{nobody}/v1"})
    monkeypatch.setenv("OLLAMA_HOST", nobody)


@pytest.fixture
def server(silence: None) -> Iterator[LMServer]:
    with LMServer(lambda request: "Yes.", models=["llama3:70b", "qwen3:4b", "nomic-embed-text"]) as server:
        yield server


def test_an_ollama_server_of_this_machine_is_found(server: LMServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OLLAMA_HOST", server.url)
    lm = lm_of("auto", timeout=7.0, api_key="sk-secret")
    assert isinstance(lm, OllamaLM) and (lm.name, lm.host) == ("ollama:qwen3:4b", server.url)
    assert lm.complete(HELLO).text == "Yes."
    assert not [request for request in server.requests if "Authorization" in request.headers]
    memory = EpicMemory(["I love tea."], encoder=HashEncoder(), llm="auto")
    assert "ollama:qwen3:4b" in memory.verifier.name


def test_a_server_of_openais_protocol_is_found(server: LMServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "SERVERS", {"LM Studio": f"{server.url}/none", "vLLM": server.base_url})
    lm = lm_of("auto")
    assert isinstance(lm, OpenAICompatibleLM) and (lm.name, lm.base_url) == ("openai:qwen3:4b", server.base_url)
    assert lm.complete(HELLO).text == "Yes."


def test_no_other_machine_is_asked(server: LMServer, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    listed = local._listed
    monkeypatch.setattr(local, "_listed", lambda url: asked.append(url) or listed(url))
    monkeypatch.setenv("OLLAMA_HOST", "https://ollama.example.com")
    monkeypatch.setattr(local, "OLLAMA", server.url)
    lm = lm_of("auto")
    assert isinstance(lm, OllamaLM) and lm.host == server.url
    assert asked == [f"{server.url}/api/tags"]


def test_it_says_who_was_asked_if_nothing_is_found(server: LMServer, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        LMSetupError,
        match=r"No answer from Ollama at http.*llama\.cpp at http.*ollama\.com.*ollama pull.*openai:MODEL@URL",
    ):
        lm_of("auto")
    server.models = ("nomic-embed-text", "gpt-oss:120b-cloud")
    monkeypatch.setenv("OLLAMA_HOST", server.url)
    with pytest.raises(LMSetupError, match=r"Ollama at http\S+: no model that converses.*No answer from llama\.cpp"):
        lm_of("auto")


@pytest.mark.parametrize(
    ("entries", "chosen"),
    [
        ([tag("a", "1.2B"), tag("b", "3.8B"), tag("c", "8.0B"), tag("d", "70.6B")], "b"),
        ([tag("smollm2:135m", "134.52M"), tag("llama3.2:1b", "1.2B"), tag("x:32b")], "llama3.2:1b"),
        ([tag("qwen3:0.6b", "751.63M"), tag("mixtral:8x7b", "46.7B")], "qwen3:0.6b"),
        ([tag("unknown"), tag("llama3:70b", "70.6B")], "llama3:70b"),
        ([tag("nomic-embed-text", "137M"), tag("bge-m3", "567M"), tag("llama3:8b-text", "8B"), tag("q-4b-base")], None),
        ([tag("gpt-oss:20b", "20.9B"), tag("kimi", "4B", remote_host="https://ollama.com:443")], "gpt-oss:20b"),
        ([tag("gpt-oss:120b-cloud", "116.8B"), tag("glm-4.6:cloud", "4B")], None),
        (
            [{"id": "text-embedding-nomic-v1.5"}, {"id": "qwen/Qwen2.5-3B-Instruct"}, {"id": "org7b/phi-4"}],
            1,
        ),
        ([{"id": "/models/some.gguf", "meta": {"n_params": 4_022_468_096}}, {"id": "gemma-3-12b-it"}], 0),
        ([{"id": 3}, "text", {}, {"id": "phi-4"}], 3),
        ([], None),
    ],
)
def test_the_model_nearest_to_four_billion_parameters_is_taken(
    entries: list[Mapping[str, Any]], chosen: str | int | None
) -> None:
    expected = entries[chosen]["id"] if isinstance(chosen, int) else chosen
    assert local._chosen(local._models(entries)) == expected


@pytest.mark.parametrize("body", [b"<html>", b"[]", b'{"data": 3}', b'{"error": "no"}'])
def test_what_lists_no_models_is_passed_over(body: bytes, silence: None, monkeypatch: pytest.MonkeyPatch) -> None:
    import httpx

    monkeypatch.setattr(httpx.Client, "get", lambda self, url: httpx.Response(200, content=body))
    with pytest.raises(LMSetupError, match="No answer"):
        lm_of("auto")
