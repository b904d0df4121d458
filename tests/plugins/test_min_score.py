"""The least relevance of results: every retriever of both plugins takes it, and it means the same for each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("langchain_core", reason="needs the extra langchain")
pytest.importorskip("llama_index.core", reason="needs the extra llamaindex")

from langchain_core.vectorstores import InMemoryVectorStore
from llama_index.core import VectorStoreIndex
from llama_index.core.schema import TextNode
from pydantic import ValidationError

import epic_langchain as lc
import epic_llamaindex as li
from epic_memory import EpicMemory
from epic_memory.errors import InvalidInputError
from helpers import searching

CASINO = "I avoid hotels with casinos."
TEXTS = ["A vegan stew with lentils for dinner.", "The hotel has a casino downstairs.", "James Watt built engines."]
FITTING, SMALL_TALK, GENERAL = "What can I cook without meat?", "hi", "When were engines built by James Watt?"


def opened() -> EpicMemory:
    memory = EpicMemory([CASINO])
    memory.add(TEXTS)
    return memory


def index() -> Any:
    nodes = [TextNode(text=text) for text in TEXTS]
    return VectorStoreIndex(nodes, embed_model=li.EpicEmbedding()).as_retriever(similarity_top_k=3)


def store() -> InMemoryVectorStore:
    return InMemoryVectorStore.from_texts(TEXTS, lc.EpicEmbeddings())


MAKERS: dict[str, Callable[..., Any]] = {
    "lc retriever": lambda **options: lc.EpicRetriever(memory=opened(), **searching(**options)),
    "lc steered": lambda **options: lc.SteeredRetriever(vectorstore=store(), preferences=[CASINO], **options),
    "li retriever": lambda **options: li.EpicRetriever(opened(), **searching(**options)),
    "li steered": lambda **options: li.SteeredRetriever(index(), [CASINO], **options),
}


async def texts(retriever: Any, query: str, **options: Any) -> list[str]:
    if not hasattr(retriever, "invoke"):
        found = [one.node.get_content() for one in retriever.retrieve(query)]
        assert [one.node.get_content() for one in await retriever.aretrieve(query)] == found
        return found
    found = [document.page_content for document in retriever.invoke(query, **options)]
    in_config = {"configurable": {f"epic_{name}": value for name, value in options.items()}}
    assert [document.page_content for document in await retriever.ainvoke(query, in_config)] == found
    return found


@pytest.mark.parametrize(
    ("kind", "per_call"), [*((kind, False) for kind in MAKERS), *((kind, True) for kind in MAKERS if kind[:2] == "lc")]
)
async def test_the_least_relevance_leaves_out_what_is_further(kind: str, per_call: bool) -> None:
    made = MAKERS[kind](min_score=0.99)

    async def found(query: str, min_score: Any) -> list[str]:
        if per_call:
            return await texts(made, query, min_score=min_score)
        return await texts(MAKERS[kind](min_score=min_score), query)

    assert len(await found(FITTING, None)) > 1
    assert await found(SMALL_TALK, "auto") == []
    assert (await found(FITTING, "auto"))[0] == TEXTS[0]
    assert (await found(FITTING, "personal"))[0] == TEXTS[0]
    assert await found(GENERAL, "auto") == [TEXTS[2]]
    assert await found(GENERAL, "personal") == []
    assert await found(FITTING, 0.3) == [TEXTS[0]]
    assert await found(FITTING, 0.99) == []
    for wrong in (2, "all", True):
        with pytest.raises((InvalidInputError, ValidationError), match="min_score must be a cosine"):
            await found(FITTING, wrong)


@pytest.mark.parametrize("plugin", ["lc", "li"])
async def test_what_is_relevant_by_default(plugin: str) -> None:
    assert not await texts(MAKERS[f"{plugin} retriever"](), SMALL_TALK)
    assert await texts(MAKERS[f"{plugin} steered"](), SMALL_TALK)
