"""The language model of both plugins: the same arguments mean the same as for `EpicMemory`, and give the same."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("langchain")
pytest.importorskip("llama_index.core")

from langchain.agents import create_agent
from langchain_core.documents import Document
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.schema import NodeWithScore, TextNode

from chat_models import ScriptedChat
from epic_langchain import EpicDocumentTransformer, EpicMemoryMiddleware
from epic_langchain import EpicRetriever as LangChainRetriever
from epic_llamaindex import EpicMemoryBlock, EpicNodePostprocessor, EpicTransform
from epic_llamaindex import EpicRetriever as LlamaIndexRetriever
from epic_memory import EpicMemory, Settings
from epic_memory.errors import EpicError
from helpers import settled
from llamaindex_models import ScriptedLLM
from lm_servers import LMServer
from minds import CHAT, Mind
from scripted import Own, instruction_for

SEA = "I like hotels near the sea."
TEXTS = [f"Hotel {number} is near the sea." for number in range(24)]
QUESTION = "Which hotel near the sea should I book?"


@pytest.fixture
def mind() -> Mind:
    return Mind()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A memory that holds texts which nobody has judged, and a preference that a model has read."""
    settings = Settings(on_demand="off", tau=1.0)
    with EpicMemory.open(tmp_path / "me.epic", [SEA], llm=Own(Mind()), settings=settings) as memory:
        memory.add(TEXTS)
    return tmp_path / "me.epic"


@pytest.fixture(params=["of the core", "by name", "of LangChain", "of LlamaIndex"])
def llm(mind: Mind, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[Any]:
    """The model in each of its forms."""
    if request.param == "by name":
        with LMServer(lambda body: mind(body["messages"])) as server:
            monkeypatch.setenv("OLLAMA_HOST", server.url)
            yield "ollama:tiny"
    elif request.param == "of the core":
        yield Own(mind)
    else:
        yield ScriptedChat(answers=mind) if request.param == "of LangChain" else ScriptedLLM(answers=mind)


# what has read from a file that it opens


def by_langchain(path: Path, llm: Any, **options: Any) -> list[str]:
    retriever = LangChainRetriever(memory=str(path), llm=llm, **settled(**options))
    found = retriever.invoke(QUESTION)
    retriever.memory.close()
    return [document.metadata.get("epic_instruction", "") for document in found]


def by_llamaindex(path: Path, llm: Any, **options: Any) -> list[str]:
    with LlamaIndexRetriever.from_defaults(path=path, llm=llm, **settled(**options)) as retriever:
        return [node.metadata.get("epic_instruction", "") for node in retriever.retrieve(QUESTION)]


def by_core(path: Path, llm: Any, **options: Any) -> list[str]:
    with EpicMemory.open(path, llm=llm, **settled(**options)) as memory:
        return [hit.instructions[0] if hit.instructions else "" for hit in memory.search(QUESTION)]


RETRIEVERS = {"LangChain": by_langchain, "LlamaIndex": by_llamaindex}


@pytest.mark.parametrize("plugin", RETRIEVERS)
def test_a_retriever_has_judged_what_it_finds_as_the_core_has(
    plugin: str, llm: Any, mind: Mind, path: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy.epic"
    copy.write_bytes(path.read_bytes())
    found = RETRIEVERS[plugin](path, llm, on_demand=60.0)
    assert found == by_core(copy, Own(Mind()), on_demand=60.0) and any(found)
    assert set(mind.answered.values()) == {1}


# what judges without a file


def transformed(llm: Any, **options: Any) -> tuple[list[str], int]:
    keep = EpicDocumentTransformer(preferences=[SEA], llm=llm, settings=Settings(tau=-1.0, **options))
    kept = keep.invoke([Document(text) for text in TEXTS])
    return [document.metadata["epic_instruction"] for document in kept], len(keep.undecided)


def ingested(llm: Any, **options: Any) -> tuple[list[str], int]:
    keep = EpicTransform(preferences=[SEA], llm=llm, settings=Settings(tau=-1.0, **options), on_undecided="skip")
    kept = keep([TextNode(text=text) for text in TEXTS])
    return [node.metadata["epic_instruction"] for node in kept], len(keep.undecided)


JUDGING = {"LangChain": transformed, "LlamaIndex": ingested}


@pytest.mark.parametrize("plugin", JUDGING)
def test_ingestion_is_judged_by_the_model(plugin: str, llm: Any, mind: Mind) -> None:
    kept, undecided = JUDGING[plugin](llm)
    assert kept == [instruction_for(text, SEA) for text in TEXTS] and undecided == 0
    assert set(mind.answered.values()) == {1}


def postprocessed(llm: Any, **options: Any) -> tuple[list[str], int]:
    how = Settings(tau=-1.0, **options)
    nodes = [NodeWithScore(node=TextNode(text=text), score=1.0) for text in TEXTS]
    found = EpicNodePostprocessor(preferences=[SEA], llm=llm, settings=how).postprocess_nodes(nodes, query_str=QUESTION)
    kept = [one.metadata["epic_instruction"] for one in found if "epic_instruction" in one.metadata]
    return kept, len(found) - len(kept)


@pytest.mark.parametrize("judged", [transformed, ingested, postprocessed])
def test_what_judges_keeps_to_its_budget(judged: Any, mind: Mind) -> None:
    kept, undecided = judged(Own(mind), model_budget=1)
    assert mind.asked == 1
    assert undecided == len(TEXTS) - len(kept) > 0


@pytest.mark.parametrize("plugin", RETRIEVERS)
def test_a_retriever_keeps_to_its_budget(plugin: str, mind: Mind, path: Path) -> None:
    assert not any(RETRIEVERS[plugin](path, Own(mind), on_demand=60.0, model_budget=0))
    assert mind.asked == 0


# what remembers


def remembered_by_agent(memory: Any, llm: Any, **options: Any) -> Any:
    middleware = EpicMemoryMiddleware(memory, llm=llm, propose="auto", **settled(**options))
    agent = create_agent(ScriptedChat(answers=["Rice."]), middleware=[middleware])
    agent.invoke({"messages": [("user", CHAT[0][1])]})
    return middleware.memory


def remembered_by_chat(memory: Any, llm: Any, **options: Any) -> Any:
    block = EpicMemoryBlock(memory=memory, llm=llm, propose="auto", **settled(**options))
    asyncio.run(block.aput([ChatMessage(role="user", content=CHAT[0][1])], from_short_term_memory=True))
    return block.memory


REMEMBERING = {"LangChain": remembered_by_agent, "LlamaIndex": remembered_by_chat}


@pytest.mark.parametrize("plugin", REMEMBERING)
def test_a_file_is_opened_with_the_model_which_reads_what_is_said(
    plugin: str, llm: Any, mind: Mind, path: Path
) -> None:
    with REMEMBERING[plugin](str(path), llm, model_budget=50) as memory:
        assert memory.verifier.name.startswith("lm/")
        assert [each.text for each in memory.proposals] == ["I am a vegetarian."]
        assert "50 calls a day" in memory.stats().model_use
    assert "propose" in mind.kinds and set(mind.answered.values()) == {1}


@pytest.mark.parametrize("plugin", REMEMBERING)
def test_beside_an_open_memory_the_model_only_reads(plugin: str, mind: Mind, path: Path) -> None:
    options: list[dict[str, Any]] = [{"model_budget": 5}, {"on_demand": "off"}]
    with EpicMemory.open(path) as memory:
        assert REMEMBERING[plugin](memory, Own(mind)) is memory
        assert not memory.verifier.name.startswith("lm/") and mind.kinds == {"propose"}
        for option in options:
            with pytest.raises((EpicError, ValueError), match="The memory is open"):
                REMEMBERING[plugin](memory, Own(mind), **option)
