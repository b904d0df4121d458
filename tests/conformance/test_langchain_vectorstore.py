"""langchain-tests' suite for vector stores, unmodified, over every kind of store there is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("langchain_tests", reason="needs langchain-tests")

from langchain_core.vectorstores import VectorStore
from langchain_tests.integration_tests.vectorstores import VectorStoreIntegrationTests

from epic_langchain import EpicVectorStore

PREFERENCES = ["I follow a strict vegan diet.", "I avoid hotels with on-site casinos."]


class TestInMemory(VectorStoreIntegrationTests):
    @pytest.fixture
    def vectorstore(self) -> Iterator[VectorStore]:
        with EpicVectorStore(self.get_embeddings()) as store:
            yield store


class TestDurableWithPreferences(VectorStoreIntegrationTests):
    @pytest.fixture
    def vectorstore(self, tmp_path: Path) -> Iterator[VectorStore]:
        with EpicVectorStore(self.get_embeddings(), path=tmp_path / "me.vectors", preferences=PREFERENCES) as store:
            yield store
