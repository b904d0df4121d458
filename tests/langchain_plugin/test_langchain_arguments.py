"""Arguments that a component does not take: the error says what it takes in their place."""

from __future__ import annotations

import re
from typing import Any

import pytest

pytest.importorskip("langchain", reason="needs the extra agents")

import epic_langchain as plugin
from epic_memory import EpicMemory
from epic_memory.errors import InvalidInputError

PLUGIN: Any = plugin
MEMORY = EpicMemory(["I avoid casinos."])


@pytest.mark.parametrize(
    ("kind", "given", "told"),
    [
        ("EpicRetriever", {"persist_directory": "x"}, "takes no persist_directory=. Give memory=."),
        ("EpicRetriever", {"memory": MEMORY, "top_k": 3}, "takes no top_k=. Give k=."),
        ("EpicRetriever", {"index": 1}, "takes no index=. .*SteeredRetriever(vectorstore=...)"),
        ("EpicGraphRetriever", {"memory": MEMORY}, "takes no memory=. Give graph=."),
        ("SteeredRetriever", {"embedding_function": 1}, "takes no embedding_function=. Give embeddings=."),
        ("EpicVectorStore", {"persist_directory": "x"}, "takes no persist_directory=. Give path=."),
        ("EpicVectorStore", {"embedding_function": 1}, "takes no embedding_function=. Give embedding=."),
        ("EpicVectorStore", {"index": 1}, "takes no index=. .*add_documents"),
        ("EpicVectorStore", {"preference": []}, "takes no preference=. Give preferences=."),
        ("EpicDocumentTransformer", {"model": 1}, "takes no model=. Give llm=."),
        ("EpicDocumentTransformer", {"index": 1}, "takes no index=. It takes .*preferences="),
        ("EpicStore", {"index": {"dims": 3}}, "takes no index=. .*embedding=.*fields="),
        ("EpicStore", {"embedding_function": 1}, "takes no embedding_function=. Give embedding=."),
        ("EpicMemoryMiddleware", {"memory": MEMORY, "wibble": 1}, "takes no wibble=. It takes memory=, k=,"),
    ],
)
def test_an_argument_of_another_name_is_explained(kind: str, given: dict[str, Any], told: str) -> None:
    pattern = re.escape(told).replace(r"\.\*", ".*")
    for error in (InvalidInputError, TypeError):
        with pytest.raises(error, match=f"^{kind} {pattern}"):
            getattr(PLUGIN, kind)(**given)


def test_so_it_is_where_a_store_is_filled_at_once() -> None:
    with pytest.raises(InvalidInputError, match=r"persist_directory=\. Give path=\."):
        PLUGIN.EpicVectorStore.from_texts(["a"], PLUGIN.EpicEmbeddings(), persist_directory="x")


@pytest.mark.parametrize(
    ("kind", "first"),
    [
        ("EpicRetriever", "memory"),
        ("EpicGraphRetriever", "graph"),
        ("SteeredRetriever", "vectorstore"),
        ("EpicDocumentTransformer", "preferences"),
        ("EpicCompressor", "memory"),
        ("EpicReranker", "memory"),
    ],
)
def test_what_has_to_be_named_is_named(kind: str, first: str) -> None:
    told = re.escape(f"{kind} takes its arguments by name: {kind}({first}=...).")
    with pytest.raises(InvalidInputError, match=f"^{told}$"):
        getattr(PLUGIN, kind)(MEMORY)


def test_a_component_takes_some_arguments_without_names() -> None:
    assert PLUGIN.EpicMemoryMiddleware(MEMORY).memory is MEMORY
    with pytest.raises(InvalidInputError, match=r"^EpicMemoryMiddleware .* by name, but for memory\.$"):
        PLUGIN.EpicMemoryMiddleware(MEMORY, 5)


def test_a_memory_is_no_file_of_a_store() -> None:
    with pytest.raises(InvalidInputError, match=r"EpicVectorStore\.from_memory\(memory\)"):
        PLUGIN.EpicVectorStore(MEMORY)
    for given in (lambda: PLUGIN.EpicStore(MEMORY), lambda: PLUGIN.EpicVectorStore(path=MEMORY)):
        with pytest.raises(InvalidInputError, match="name of a file, not EpicMemory"):
            given()
