"""The name "auto": which servers of this machine are asked, and which of their models is taken."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import httpx
import pytest

from epic_memory import EpicMemory
from epic_memory.errors import LMSetupError
from epic_memory.lm import Message, OllamaLM, OpenAICompatibleLM, lm_of
from epic_memory.lm import by_name as local
from helpers import HashEncoder
from lm_servers import LMServer
from tables import table

HELLO = [Message("user", "Hello?")]


def listed_at(monkeypatch: pytest.MonkeyPatch, ollama: str = "", host: str = "", **servers: str) -> None:
    """Say where servers of this machine are; where none is named nobody answers."""
    nobody = "http://127.0.0.1:9"
    monkeypatch.setattr(local, "OLLAMA", ollama or nobody)
    monkeypatch.setattr(local, "SERVERS", servers or {"llama.cpp": f"{nobody}/v1"})
    monkeypatch.setenv("OLLAMA_HOST", host or nobody)


@pytest.fixture
def server() -> Iterator[LMServer]:
    with LMServer(lambda request: "Yes.", models=["llama3:70b", "qwen3:4b", "nomic-embed-text"]) as server:
        yield server


def test_a_server_of_this_machine_is_found(server: LMServer, monkeypatch: pytest.MonkeyPatch) -> None:
    listed_at(monkeypatch, host=server.url)
    lm = lm_of("auto", timeout=7.0, api_key="sk-secret")
    assert isinstance(lm, OllamaLM) and (lm.name, lm.host) == ("ollama:qwen3:4b", server.url)
    assert lm.complete(HELLO).text == "Yes."
    assert not [request for request in server.requests if "Authorization" in request.headers]
    memory = EpicMemory(["I love tea."], encoder=HashEncoder(), llm="auto")
    assert "ollama:qwen3:4b" in memory.verifier.name
    listed_at(monkeypatch, **{"LM Studio": f"{server.url}/none", "vLLM": server.base_url})
    openai = lm_of("auto")
    assert isinstance(openai, OpenAICompatibleLM)
    assert (openai.name, openai.base_url) == ("openai:qwen3:4b", server.base_url)
    assert openai.complete(HELLO).text == "Yes."


def test_no_other_machine_is_asked(server: LMServer, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    listed = local._listed
    monkeypatch.setattr(local, "_listed", lambda url: asked.append(url) or listed(url))
    listed_at(monkeypatch, ollama=server.url, host="https://ollama.example.com")
    lm = lm_of("auto")
    assert isinstance(lm, OllamaLM) and lm.host == server.url
    assert asked == [f"{server.url}/api/tags"]


def test_it_says_who_was_asked_if_nothing_is_found(server: LMServer, monkeypatch: pytest.MonkeyPatch) -> None:
    listed_at(monkeypatch)
    asked = r"No answer from Ollama at http.*llama\.cpp at http.*ollama\.com.*ollama pull.*openai:MODEL@URL"
    with pytest.raises(LMSetupError, match=asked):
        lm_of("auto")
    server.models = ("nomic-embed-text", "gpt-oss:120b-cloud")
    listed_at(monkeypatch, host=server.url)
    with pytest.raises(LMSetupError, match=r"Ollama at http\S+: no model that converses.*No answer from llama\.cpp"):
        lm_of("auto")


@pytest.mark.parametrize(
    ("entries", "chosen"), table(__file__, "the_model_nearest_to_four_billion_parameters_is_taken")
)
def test_the_model_nearest_to_four_billion_parameters_is_taken(
    entries: list[Mapping[str, Any]], chosen: str | int | None
) -> None:
    expected = entries[chosen]["id"] if isinstance(chosen, int) else chosen
    assert local._chosen(local._models(entries)) == expected


@pytest.mark.parametrize("body", [b"<html>", b"[]", b'{"data": 3}', b'{"error": "no"}'])
def test_what_lists_no_models_is_passed_over(body: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    listed_at(monkeypatch)
    monkeypatch.setattr(httpx.Client, "get", lambda self, url: httpx.Response(200, content=body))
    with pytest.raises(LMSetupError, match="No answer"):
        lm_of("auto")
