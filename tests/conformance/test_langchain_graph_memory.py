"""langchain-tests' suite for retrievers, unmodified, over a graph memory."""

from __future__ import annotations

from typing import Any

import pytest

from epic_memory import Settings

pytest.importorskip("langchain_tests", reason="needs langchain-tests")

from langchain_core.retrievers import BaseRetriever
from langchain_tests.integration_tests import RetrieversIntegrationTests

from epic_graph.memory import GraphMemory
from epic_langchain import EpicRetriever


@pytest.fixture(scope="module")
def graph() -> GraphMemory:
    graph = GraphMemory(["I follow a strict vegan diet."], settings=Settings(tau=0.0))
    graph.add(f"Oscar cooks a vegan dish for Ida's vegan diet, number {number}." for number in range(8))
    return graph


class _Suite(RetrieversIntegrationTests):
    guidance = "metadata"
    query = "What should Oscar cook?"

    @pytest.fixture(autouse=True)
    def _graph(self, graph: GraphMemory) -> None:
        type(self).graph = graph

    @property
    def retriever_constructor(self) -> type[BaseRetriever]:
        return EpicRetriever

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return {"memory": self.graph, "guidance": self.guidance}

    @property
    def retriever_query_example(self) -> str:
        return self.query


class TestGuidanceInMetadata(_Suite):
    pass


class TestNoKnownEntity(_Suite):
    # About what is held, or nothing would be relevant; it names nothing that the graph knows.
    query = "What could be cooked without meat?"

    def test_it_names_none(self) -> None:
        assert self.graph.search(self.query).entities == []
