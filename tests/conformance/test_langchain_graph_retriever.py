"""graph-retriever's suite for adapters, unmodified, over each of ours; langchain-tests' for the retriever over them.

The suite asks for the animals that it names, without bringing them. Those here are our own, and embedded by a table:
how near each is to the suite's one query, "domesticated hunters", nearest first.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from epic_memory import Settings

pytest.importorskip("langchain_graph_retriever", reason="needs the extra graph-retriever")
pytest.importorskip("langchain_tests", reason="needs langchain-tests")

from graph_retriever.adapters import Adapter
from graph_retriever.testing.adapter_tests import AdapterComplianceSuite
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.retrievers import BaseRetriever
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_graph_retriever import GraphRetriever
from langchain_tests.integration_tests import RetrieversIntegrationTests

from epic_langchain import EpicVectorStore, LangChainEncoder
from epic_langchain.traversal import EpicGraphAdapter, SteeredGraphAdapter
from epic_memory import EpicMemory, Item
from helpers import KeepAll

PREFERENCE = "I collect stamps."

# id, type, legs, and what else there is to say
ANIMALS: list[tuple[str, str, int, dict[str, Any]]] = [
    ("cat", "mammal", 4, {"diet": "carnivorous", "keywords": ["hunting", "purring"]}),
    ("horse", "mammal", 4, {"diet": "herbivorous", "keywords": ["riding"]}),
    ("chicken", "bird", 2, {"keywords": ["eggs"]}),
    ("dog", "mammal", 4, {"diet": "omnivorous", "keywords": ["barking"]}),
    ("alpaca", "mammal", 4, {"keywords": ["wool"], "nested": {"a": 5}}),
    ("dingo", "mammal", 4, {"diet": "carnivorous"}),
    ("ferret", "mammal", 4, {"diet": "carnivorous"}),
    ("alligator", "reptile", 4, {"diet": "carnivorous", "nested": {"a": 5}}),
    ("crocodile", "reptile", 4, {}),
    ("chameleon", "reptile", 4, {"keywords": ["colours"]}),
    ("gecko", "reptile", 4, {}),
    ("komodo dragon", "reptile", 4, {}),
    ("iguana", "reptile", 4, {}),
    ("lizard", "reptile", 4, {}),
    ("cobra", "reptile", 0, {"keywords": ["venom"]}),
    ("crab", "crustacean", 10, {"keywords": ["pincers"]}),
    ("boar", "mammal", 4, {"diet": "omnivorous"}),
    ("chinchilla", "mammal", 4, {"keywords": ["fur", "andes"]}),
    ("antelope", "mammal", 4, {"keywords": ["horns"]}),
    ("barracuda", "fish", 0, {}),
    ("dolphin", "mammal", 0, {"keywords": ["sea"]}),
    ("eel", "fish", 0, {}),
    ("fish", "fish", 0, {"keywords": ["sea"]}),
    ("jellyfish", "cnidarian", 0, {"keywords": ["sea"]}),
    ("manatee", "mammal", 0, {}),
    ("narwhal", "mammal", 0, {}),
    ("aardvark", "mammal", 4, {"tags": [{"a": 5, "b": 7}, {"a": 1, "b": 2}]}),
    ("albatross", "bird", 2, {"tags": [{"a": 5, "b": 8}]}),
    ("ant", "insect", 6, {"nested": {"a": 6}}),
    ("anteater", "mammal", 4, {"nested": {"a": 7, "b": 5}}),
]
DOCUMENTS = [
    Document(id=name, page_content=f"One {name}.", metadata={"type": kind, "number_of_legs": legs, **more})
    for name, kind, legs, more in ANIMALS
]


class Table(Embeddings):
    """Each animal has an axis of its own, and is the less similar to the query, the later it comes."""

    model = "table"

    def embed_query(self, text: str) -> list[float]:
        vector = np.zeros(len(ANIMALS) + 2)
        place = next((n for n, (name, *_) in enumerate(ANIMALS) if f"One {name}." in text), None)
        if text == "domesticated hunters":
            vector[0] = 1.0
        elif place is None:
            vector[-1] = 1.0
        else:
            vector[0] = 0.95 - 0.03 * place
            vector[place + 1] = np.sqrt(1 - vector[0] ** 2)
        listed: list[float] = vector.tolist()
        return listed

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self.embed_query(text) for text in texts]


class TestInMemory(AdapterComplianceSuite):
    @pytest.fixture
    def adapter(self) -> Iterator[Adapter]:
        with EpicVectorStore(Table()) as store:
            store.add_documents(DOCUMENTS)
            yield EpicGraphAdapter(store)


class TestDurableWithPreferences(AdapterComplianceSuite):
    @pytest.fixture
    def adapter(self, tmp_path: Path) -> Iterator[Adapter]:
        with EpicVectorStore(Table(), path=tmp_path / "me.vectors", preferences=[PREFERENCE]) as store:
            store.add_documents(DOCUMENTS)
            yield EpicGraphAdapter(store)


class TestMemory(AdapterComplianceSuite):
    @pytest.fixture
    def adapter(self) -> Iterator[Adapter]:
        with EpicMemory(
            [PREFERENCE], encoder=LangChainEncoder(Table()), settings=Settings(verifier=KeepAll(), tau=-1.0)
        ) as memory:
            memory.add(Item(id=one.id or "", text=one.page_content, metadata=one.metadata) for one in DOCUMENTS)
            assert len(memory) == len(DOCUMENTS)
            yield EpicGraphAdapter(EpicVectorStore.from_memory(memory))


class TestSteered(AdapterComplianceSuite):
    @pytest.fixture
    def adapter(self) -> Adapter:
        store = InMemoryVectorStore(Table())
        store.add_documents(DOCUMENTS)
        return SteeredGraphAdapter(store, [PREFERENCE])


class _Retriever(RetrieversIntegrationTests):
    adapter: Adapter

    @property
    def retriever_constructor(self) -> type[BaseRetriever]:
        return GraphRetriever

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return {"store": self.adapter, "edges": [("type", "type")]}

    @property
    def retriever_query_example(self) -> str:
        return "domesticated hunters"


class TestRetriever(_Retriever):
    @pytest.fixture(autouse=True)
    def _adapter(self) -> Iterator[None]:
        with EpicVectorStore(Table()) as store:
            store.add_documents(DOCUMENTS)
            type(self).adapter = EpicGraphAdapter(store)
            yield


class TestSteeredRetriever(_Retriever):
    @pytest.fixture(autouse=True)
    def _adapter(self) -> None:
        store = InMemoryVectorStore(Table())
        store.add_documents(DOCUMENTS)
        type(self).adapter = SteeredGraphAdapter(store, [PREFERENCE])
