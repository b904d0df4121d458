"""Arguments that a component does not take: the error says what it takes in their place."""

from __future__ import annotations

import re
from typing import Any

import pytest

pytest.importorskip("llama_index.core", reason="needs the extra llamaindex")

import epic_llamaindex as plugin
from epic_memory import EpicMemory
from epic_memory.errors import InvalidInputError

PLUGIN: Any = plugin
MEMORY = EpicMemory(["I avoid casinos."])


@pytest.mark.parametrize(
    ("kind", "given", "told"),
    [
        ("EpicRetriever", {"index": 1}, "takes no index=. from_defaults(index=...)"),
        ("EpicRetriever", {"persist_dir": "x"}, "takes no persist_dir=. Give memory=."),
        ("EpicRetriever", {"memory": MEMORY, "k": 3}, "takes no k=. Give similarity_top_k=."),
        (
            "EpicRetriever",
            {"memory": MEMORY, "similarity_cutoff": 0.3},
            "takes no similarity_cutoff=. Give options=SearchOptions(min_score=...).",
        ),
        (
            "EpicRetriever",
            {"memory": MEMORY, "steering": "off"},
            "takes no steering=. Give options=SearchOptions(steering",
        ),
        ("EpicGraphRetriever", {"graph": MEMORY, "top_k": 3}, "takes no top_k=. Give similarity_top_k=."),
        ("SteeredRetriever", {"index": 1}, "takes no index=. .*index.as_retriever()"),
        ("EpicVectorStore", {"persist_directory": "x"}, "takes no persist_directory=. Give path=."),
        ("EpicVectorStore", {"embedding_function": 1}, "takes no embedding_function=. Give embed_model=."),
        ("EpicMemoryBlock", {"memory": MEMORY, "min_score": 0.3}, "takes no min_score=. Give similarity_cutoff=."),
        ("EpicNodePostprocessor", {"model": 1}, "takes no model=. Give llm=."),
    ],
)
def test_an_argument_of_another_name_is_explained(kind: str, given: dict[str, Any], told: str) -> None:
    pattern = re.escape(told).replace(r"\.\*", ".*")
    for error in (InvalidInputError, TypeError):
        with pytest.raises(error, match=f"^{kind} {pattern}"):
            getattr(PLUGIN, kind)(**given)


@pytest.mark.parametrize(
    ("kind", "first"),
    [
        ("EpicMemoryBlock", "memory"),
        ("EpicNodePostprocessor", "preferences"),
        ("EpicTransform", "preferences"),
        ("EpicCompressor", "memory"),
        ("EpicReranker", "memory"),
    ],
)
def test_what_has_to_be_named_is_named(kind: str, first: str) -> None:
    told = re.escape(f"{kind} takes its arguments by name: {kind}({first}=...).")
    with pytest.raises(InvalidInputError, match=f"^{told}$"):
        getattr(PLUGIN, kind)(MEMORY)


@pytest.mark.parametrize("kind", ["EpicRetriever", "EpicGraphRetriever"])
@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("embedding_function", "Give embed_model=."),
        ("persist_dir", "Give path=."),
        ("model", "Give llm=."),
        ("k", "Give similarity_top_k=."),
        ("wibble", "It takes preferences=,"),
    ],
)
def test_an_argument_is_explained_where_a_memory_is_made(kind: str, name: str, told: str) -> None:
    with pytest.raises(InvalidInputError, match=f"^{kind}.from_defaults takes no {name}=. {told}") as caught:
        getattr(PLUGIN, kind).from_defaults(**{name: 1})
    assert isinstance(caught.value, TypeError)
