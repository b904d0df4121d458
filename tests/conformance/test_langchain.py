"""langchain-tests' suites, unmodified: embeddings, retrievers over each thing there is, and vector stores."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("langchain_tests", reason="needs langchain-tests")

from langchain_core.retrievers import BaseRetriever
from langchain_core.vectorstores import InMemoryVectorStore, VectorStore
from langchain_tests.integration_tests import EmbeddingsIntegrationTests, RetrieversIntegrationTests
from langchain_tests.integration_tests.vectorstores import VectorStoreIntegrationTests
from langchain_tests.unit_tests import EmbeddingsUnitTests

from epic_graph.memory import GraphMemory
from epic_langchain import EpicEmbeddings, EpicRetriever, EpicVectorStore
from epic_langchain.steered_retriever import SteeredRetriever
from epic_memory import EpicMemory, Settings
from helpers import HashEncoder

PREFERENCES = ["I follow a strict vegan diet.", "I avoid hotels with on-site casinos."]


class _Embeddings:
    @property
    def embeddings_class(self) -> type[EpicEmbeddings]:
        return EpicEmbeddings


class _OfAnotherEncoder(_Embeddings):
    @property
    def embedding_model_params(self) -> dict[str, Any]:
        return {"encoder": HashEncoder(64)}


class TestEmbeddings(_Embeddings, EmbeddingsUnitTests):
    pass


class TestEmbeddingsIntegration(_Embeddings, EmbeddingsIntegrationTests):
    pass


class TestEmbeddingsOfAnotherEncoder(_OfAnotherEncoder, EmbeddingsUnitTests):
    pass


class TestEmbeddingsOfAnotherEncoderIntegration(_OfAnotherEncoder, EmbeddingsIntegrationTests):
    pass


def memory() -> EpicMemory:
    memory = EpicMemory(PREFERENCES[:1], settings=Settings(tau=0.0))
    memory.add(f"A vegan dish for a vegan diet, number {number}." for number in range(8))
    return memory


def graph() -> GraphMemory:
    graph = GraphMemory(PREFERENCES[:1], settings=Settings(tau=0.0))
    graph.add(f"Oscar cooks a vegan dish for Ida's vegan diet, number {number}." for number in range(8))
    return graph


def others() -> InMemoryVectorStore:
    """A store that is not ours."""
    texts = [f"A vegan dish with meat beside it, number {number}." for number in range(8)]
    return InMemoryVectorStore.from_texts(texts, EpicEmbeddings())


class _Retriever(RetrieversIntegrationTests):
    made: Callable[[], Any] = staticmethod(memory)
    query = "Which vegan dish should I cook?"

    source: Any = None

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def _source(cls) -> None:
        cls.source = cls.made()

    @property
    def retriever_constructor(self) -> type[BaseRetriever]:
        return EpicRetriever

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return {"memory": self.source}

    @property
    def retriever_query_example(self) -> str:
        return self.query


class TestMemory(_Retriever):
    pass


class TestMemoryWithGuidanceInText(_Retriever):
    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return {**super().retriever_constructor_params, "guidance": "text"}


class TestGraph(_Retriever):
    made = staticmethod(graph)
    query = "What should Oscar cook?"


class TestGraphWithoutAKnownEntity(_Retriever):
    made = staticmethod(graph)
    # About what is held, or nothing would be relevant; it names nothing that the graph knows.
    query = "What could be cooked without meat?"

    def test_it_names_none(self) -> None:
        assert self.source.search(self.query).entities == []


class TestSteered(_Retriever):
    made = staticmethod(others)

    @property
    def retriever_constructor(self) -> type[BaseRetriever]:
        return SteeredRetriever

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return {"vectorstore": self.source, "preferences": PREFERENCES[:1]}


class TestVectorStoreInMemory(VectorStoreIntegrationTests):
    @pytest.fixture
    def vectorstore(self) -> Iterator[VectorStore]:
        with EpicVectorStore(self.get_embeddings()) as store:
            yield store


class TestVectorStoreInAFileWithPreferences(VectorStoreIntegrationTests):
    @pytest.fixture
    def vectorstore(self, tmp_path: Path) -> Iterator[VectorStore]:
        with EpicVectorStore(self.get_embeddings(), path=tmp_path / "me.vectors", preferences=PREFERENCES) as store:
            yield store
