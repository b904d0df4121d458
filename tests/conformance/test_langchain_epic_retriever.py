"""langchain-tests' suite for retrievers, unmodified, over a memory."""

from __future__ import annotations

from typing import Any

import pytest

from epic_memory import Settings

pytest.importorskip("langchain_tests", reason="needs langchain-tests")

from langchain_core.retrievers import BaseRetriever
from langchain_tests.integration_tests import RetrieversIntegrationTests

from epic_langchain import EpicRetriever
from epic_memory import EpicMemory


@pytest.fixture(scope="module")
def memory() -> EpicMemory:
    memory = EpicMemory(["I follow a strict vegan diet."], settings=Settings(tau=0.0))
    memory.add(f"A vegan dish for a vegan diet, number {number}." for number in range(8))
    return memory


class _Suite(RetrieversIntegrationTests):
    guidance = "metadata"

    @pytest.fixture(autouse=True)
    def _memory(self, memory: EpicMemory) -> None:
        type(self).memory = memory

    @property
    def retriever_constructor(self) -> type[BaseRetriever]:
        return EpicRetriever

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return {"memory": self.memory, "guidance": self.guidance}

    @property
    def retriever_query_example(self) -> str:
        return "What should I cook?"


class TestGuidanceInMetadata(_Suite):
    pass


class TestGuidanceInText(_Suite):
    guidance = "text"
