"""An ingestion and its searches, with ChatOllama deciding and OllamaEmbeddings embedding, over Ollama's protocol."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("langchain_ollama", reason="needs langchain-ollama")

from langchain_core.documents import Document
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_ollama import ChatOllama, OllamaEmbeddings

from epic_core import EpicMemory
from epic_core.errors import EncoderError, EncoderMismatchError
from epic_core.verification import LMVerifier
from epic_langchain import (
    EpicDocumentTransformer,
    EpicRetriever,
    EpicVectorStore,
    LangChainEncoder,
    LangChainLM,
    SteeredRetriever,
)
from helpers import HashEncoder
from lm_servers import LMServer

PREFERENCES = ["I follow a strict vegan diet.", "I avoid hotels with casinos."]
DOCUMENTS = [
    Document(id="stew", page_content="A strict vegan diet stew of beans.", metadata={"n": 1}),
    Document(id="casino", page_content="Some hotels with casinos never close.", metadata={"n": 2}),
    Document(id="hidden", page_content="Hotels with casinos, seen from outside.", metadata={"n": 3}),
    Document(id="steam", page_content="Steam engines lose heat.", metadata={"n": 4}),
]


def answer(request: dict[str, Any]) -> str:
    """Keeps what is not seen from outside, for the first preference that is shown; any other question is a chat."""
    asked = request["messages"][-1]["content"]
    if "<chunk" not in asked and "preference" not in asked.lower():
        return "Take the quiet one."
    if "outside" in asked:
        return json.dumps({"decision": "Discard", "rationale": "Nobody stays there.", "preferences": []})
    stance = "conflicts" if re.search(r"never close", asked) else "supports"
    stated = [{"preference": 1, "stance": stance, "instruction": f"When a place or a meal is chosen: {stance}."}]
    return json.dumps({"decision": "Keep", "rationale": "It is about it.", "preferences": stated})


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[LMServer]:
    encoder = HashEncoder(256)
    models = ["qwen3:4b", "nomic-embed-text"]
    with LMServer(answer, models=models, embed=lambda text: (3.0 * encoder.vector(text)).tolist()) as server:
        monkeypatch.setenv("OLLAMA_HOST", server.url)
        yield server


def models() -> tuple[ChatOllama, OllamaEmbeddings]:
    return ChatOllama(model="qwen3:4b", temperature=0), OllamaEmbeddings(model="nomic-embed-text")


async def test_an_ingestion_into_a_file_and_its_searches(server: LMServer, tmp_path: Path) -> None:
    llm, embeddings = models()
    keep = EpicDocumentTransformer(preferences=PREFERENCES, embeddings=embeddings, llm=llm)
    kept = keep.invoke(DOCUMENTS)
    assert [document.id for document in kept] == ["stew", "casino"]
    assert [document.metadata["epic_stance"] for document in kept] == ["supports", "conflicts"]
    assert (keep.report.seen, keep.report.passed, keep.report.kept, keep.report.discarded) == (4, 3, 2, 1)
    calls = server.calls
    assert calls == keep.report.usage.calls == 3
    assert await keep.ainvoke(DOCUMENTS) == kept
    assert server.calls == calls  # what was decided is not asked again

    path = tmp_path / "notes.vectors"
    with EpicVectorStore(embeddings, path=path, preferences=PREFERENCES) as store:
        await store.aadd_documents(kept)
        found = store.similarity_search_with_score("a place for a meal", k=2)
        assert found == await store.asimilarity_search_with_score("a place for a meal", k=2)
        assert {document.id for document, _ in found} == {"stew", "casino"}
    with EpicVectorStore(embeddings, path=path, preferences=PREFERENCES) as store:
        assert store.similarity_search_with_score("a place for a meal", k=2) == found
    with pytest.raises(EncoderMismatchError, match="nomic-embed-text"):
        EpicVectorStore(path=path)


async def test_a_memory_and_a_steered_store(server: LMServer) -> None:
    llm, embeddings = models()
    encoder, verifier = LangChainEncoder(embeddings), LMVerifier(LangChainLM(llm))
    memory = EpicMemory(PREFERENCES, encoder=encoder, verifier=verifier, aspects="parser")
    memory.add(document.page_content for document in DOCUMENTS)
    retriever = EpicRetriever(memory=memory, k=2)
    found = retriever.invoke("Which hotels with casinos?")
    assert found == await retriever.ainvoke("Which hotels with casinos?")
    assert "Some hotels with casinos never close." in [document.page_content for document in found]

    theirs = InMemoryVectorStore.from_documents(DOCUMENTS, embeddings)
    steered = SteeredRetriever(vectorstore=theirs, preferences=PREFERENCES, k=2)
    found = steered.invoke("a strict diet")
    assert found == await steered.ainvoke("a strict diet")
    assert found[0].id == "stew"
    assert found[0].metadata["epic_steered_by"] == PREFERENCES[0]


async def test_a_server_that_has_gone_loses_nothing(server: LMServer, tmp_path: Path) -> None:
    llm, embeddings = models()
    keep = EpicDocumentTransformer(preferences=PREFERENCES, llm=llm)  # embedded encoder: only the chat model is away
    store = EpicVectorStore(embeddings, path=tmp_path / "notes.vectors")
    store.add_documents(DOCUMENTS[:1])
    server.stop()
    assert keep.invoke(DOCUMENTS) == []
    undecided = keep.undecided
    assert undecided and set(keep.report.failures) == {document.id for document in undecided}
    with pytest.raises(EncoderError, match=r"[Oo]llama"):
        store.add_documents(DOCUMENTS[1:])
    with pytest.raises(EncoderError, match=r"[Oo]llama"):
        await store.asimilarity_search("anything")
    assert [document.id for document in store.get_by_ids(["stew", "casino"])] == ["stew"]
    server.start()
    assert [document.id for document in keep.invoke(undecided)]
    assert not keep.undecided
    store.add_documents(DOCUMENTS[1:])
    store.close()
