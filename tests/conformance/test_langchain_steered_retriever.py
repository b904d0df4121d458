"""langchain-tests' suite for retrievers, unmodified, over a store that is not ours."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("langchain_tests", reason="needs langchain-tests")

from langchain_core.retrievers import BaseRetriever
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_tests.integration_tests import RetrieversIntegrationTests

from epic_langchain import EpicEmbeddings
from epic_langchain.steered_retriever import SteeredRetriever


@pytest.fixture(scope="module")
def store() -> InMemoryVectorStore:
    store = InMemoryVectorStore(EpicEmbeddings())
    store.add_texts([f"A vegan dish with meat beside it, number {number}." for number in range(8)])
    return store


class _Suite(RetrieversIntegrationTests):
    @pytest.fixture(autouse=True)
    def _store(self, store: InMemoryVectorStore) -> None:
        type(self).store = store

    @property
    def retriever_constructor(self) -> type[BaseRetriever]:
        return SteeredRetriever

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return {"vectorstore": self.store, "preferences": ["I follow a strict vegan diet."]}

    @property
    def retriever_query_example(self) -> str:
        return "Which vegan dish should I cook?"


class TestSigned(_Suite):
    pass


class TestFallback(_Suite):
    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return {
            "vectorstore": self.store,
            "preferences": ["I collect stamps."],
            "fallback": self.store.as_retriever(),
        }
