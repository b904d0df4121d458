"""The least relevance of documents: every retriever takes it, itself or per call, and it means the same for each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from helpers import searching

pytest.importorskip("langchain_core", reason="needs the extra langchain")

from langchain_core.documents import Document
from langchain_core.vectorstores import InMemoryVectorStore
from pydantic import ValidationError

from epic_langchain import EpicEmbeddings, EpicGraphRetriever, EpicRetriever, SteeredRetriever
from epic_memory import EpicMemory
from epic_memory.errors import InvalidInputError

CASINO = "I avoid hotels with casinos."
TEXTS = ["A vegan stew with lentils for dinner.", "The hotel has a casino downstairs.", "James Watt built engines."]
FITTING, SMALL_TALK = "What can I cook without meat?", "hi"


def opened() -> EpicMemory:
    memory = EpicMemory([CASINO])
    memory.add(TEXTS)
    return memory


def filled() -> InMemoryVectorStore:
    return InMemoryVectorStore.from_documents([Document(text) for text in TEXTS], EpicEmbeddings())


MAKERS: dict[str, Callable[..., Any]] = {
    "retriever": lambda **options: EpicRetriever(memory=opened(), **searching(**options)),
    "graph retriever": lambda **options: EpicGraphRetriever(graph=opened(), **searching(**options)),
    "steered": lambda **options: SteeredRetriever(vectorstore=filled(), preferences=[CASINO], **options),
}


async def texts(retriever: Any, query: str, **options: Any) -> list[str]:
    found = [document.page_content for document in retriever.invoke(query, **options)]
    in_config = {"configurable": {f"epic_{name}": value for name, value in options.items()}}
    assert [document.page_content for document in await retriever.ainvoke(query, in_config)] == found
    return found


@pytest.mark.parametrize("per_call", [False, True])
@pytest.mark.parametrize("kind", MAKERS)
async def test_the_least_relevance_leaves_out_what_is_further(kind: str, per_call: bool) -> None:
    made = MAKERS[kind](min_score=0.99)

    async def found(query: str, min_score: Any) -> list[str]:
        if per_call:
            return await texts(made, query, min_score=min_score)
        return await texts(MAKERS[kind](min_score=min_score), query)

    assert len(await found(FITTING, None)) > 1
    assert await found(SMALL_TALK, "auto") == []
    assert (await found(FITTING, "auto"))[0] == TEXTS[0]
    assert await found(FITTING, 0.3) == [TEXTS[0]]
    assert await found(FITTING, 0.99) == []
    for wrong in (2, "all", True):
        with pytest.raises((InvalidInputError, ValidationError), match="min_score must be a cosine"):
            await found(FITTING, wrong)


def test_what_is_relevant_by_default() -> None:
    assert not EpicRetriever(memory=opened()).invoke(SMALL_TALK)
    assert MAKERS["steered"]().invoke(SMALL_TALK)
