"""The LangChain retriever: documents with their guidance, the same sync and async."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("langchain_core", reason="needs the extra langchain")

from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda
from pydantic import ValidationError

from epic_core import EpicMemory, Filter, Item, SecondTier
from epic_core.errors import InvalidInputError, StoreError
from epic_langchain import EpicRetriever

PREFERENCES = ["I follow a strict vegan diet.", "I avoid hotels with casinos."]
ITEMS = [
    Item(id="stew", text="A vegan stew for a strict vegan diet.", metadata={"kind": "food", "year": 2020}),
    Item(id="curry", text="A vegan curry, good for any vegan diet.", metadata={"kind": "food", "year": 2024}),
    Item(id="casino", text="The hotels of the strip have casinos.", metadata={"kind": "hotel", "year": 2024}),
    Item(id="hotel", text="Quiet hotels without casinos in the old town.", metadata={"kind": "hotel", "year": 2019}),
    Item(id="poker", text="Hotels with casinos hold poker nights.", metadata={"kind": "hotel", "year": 2021}),
    Item(id="soup", text="Vegan soup fits a strict diet.", metadata={"kind": "food", "year": 2022}),
]
QUERY = "Where should I stay, are there hotels with casinos?"


@pytest.fixture(scope="module")
def memory() -> EpicMemory:
    memory = EpicMemory(PREFERENCES, fine=True, tau=0.0)
    memory.add(ITEMS)
    assert len(memory) >= 5
    return memory


@pytest.fixture
def retriever(memory: EpicMemory) -> EpicRetriever:
    return EpicRetriever(memory=memory, k=4)


def ids(documents: list[Document]) -> list[str | None]:
    return [document.id for document in documents]


def test_it_is_a_retriever(retriever: EpicRetriever) -> None:
    assert isinstance(retriever, BaseRetriever)


def test_invoke_gives_the_memorys_hits_in_order(retriever: EpicRetriever, memory: EpicMemory) -> None:
    documents = retriever.invoke(QUERY)
    hits = memory.search(QUERY, 4)
    assert all(isinstance(document, Document) for document in documents)
    assert ids(documents) == [hit.item.id for hit in hits]
    assert [document.page_content for document in documents] == [hit.item.text for hit in hits]
    assert [document.metadata["epic_score"] for document in documents] == [hit.score for hit in hits]


def test_documents_carry_flat_guidance_and_their_own_metadata(retriever: EpicRetriever) -> None:
    first = retriever.invoke(QUERY)[0]
    own = next(item.metadata for item in ITEMS if item.id == first.id)
    assert {key: first.metadata[key] for key in own} == own
    assert first.metadata["epic_preference"] == PREFERENCES[1]
    assert first.metadata["epic_stance"] in {"supports", "conflicts", "mixed", "neutral"}
    assert first.metadata["epic_instruction"] and first.metadata["epic_rationale"]
    assert first.metadata["epic_tier"] == "memory"
    assert all(key.startswith("epic_") for key in first.metadata.keys() - own.keys())
    assert all(type(value) in {str, int, float} for value in first.metadata.values())


async def test_sync_and_async_are_the_same(retriever: EpicRetriever) -> None:
    for options in ({}, {"k": 2}, {"filter": Filter.eq("kind", "food")}, {"namespace": "nobody"}):
        assert retriever.invoke(QUERY, **options) == await retriever.ainvoke(QUERY, **options)


@pytest.mark.parametrize("k", [1, 2, 5])
async def test_k_can_be_overridden_per_call(retriever: EpicRetriever, k: int) -> None:
    assert len(retriever.invoke(QUERY, k=k)) == len(await retriever.ainvoke(QUERY, k=k)) == k
    assert len(retriever.invoke(QUERY)) == 4


async def test_a_filter_is_part_of_the_search(retriever: EpicRetriever) -> None:
    condition = Filter.eq("kind", "food") & Filter.ge("year", 2022)
    for documents in (retriever.invoke(QUERY, filter=condition), await retriever.ainvoke(QUERY, filter=condition)):
        assert set(ids(documents)) == {"curry", "soup"}


async def test_another_namespace_can_be_asked(retriever: EpicRetriever) -> None:
    assert retriever.invoke(QUERY, namespace="nobody") == await retriever.ainvoke(QUERY, namespace="nobody") == []


def test_an_unknown_constructor_argument_is_an_error(memory: EpicMemory) -> None:
    with pytest.raises(ValidationError, match="search_kwargs"):
        EpicRetriever(memory=memory, search_kwargs={"k": 3})


def test_a_memory_is_needed(tmp_path: Path) -> None:
    with pytest.raises(ValidationError):
        EpicRetriever(memory=3)
    with pytest.raises(ValidationError):
        EpicRetriever()
    with pytest.raises(StoreError, match="There is no memory at"):
        EpicRetriever(memory=tmp_path / "me.epic")


@pytest.mark.parametrize("named", [str, Path])
def test_a_memory_is_opened_by_the_name_of_its_file(tmp_path: Path, named: type) -> None:
    path = tmp_path / "me.epic"
    with EpicMemory.open(path, PREFERENCES, tau=0.0) as memory:
        memory.add(ITEMS)
        expected = EpicRetriever(memory=memory).invoke(QUERY)
    retriever = EpicRetriever(memory=named(path))
    assert retriever.invoke(QUERY) == expected
    retriever.memory.close()


async def test_an_unknown_call_argument_is_an_error(retriever: EpicRetriever) -> None:
    with pytest.raises(TypeError, match="top_k"):
        retriever.invoke(QUERY, top_k=3)
    with pytest.raises(TypeError, match="top_k"):
        await retriever.ainvoke(QUERY, top_k=3)


@pytest.mark.parametrize(("query", "k"), [("", 3), ("  ", 3), (QUERY, 0), (QUERY, -1)])
async def test_bad_input_is_the_memorys_error(retriever: EpicRetriever, query: str, k: int) -> None:
    with pytest.raises(InvalidInputError):
        retriever.invoke(query, k=k)
    with pytest.raises(InvalidInputError):
        await retriever.ainvoke(query, k=k)


def test_it_composes_in_a_chain(retriever: EpicRetriever) -> None:
    chain = retriever | RunnableLambda(lambda documents: [document.id for document in documents])
    assert chain.invoke(QUERY) == ids(retriever.invoke(QUERY))
    assert chain.batch([QUERY, "a vegan stew"])[1] == ids(retriever.invoke("a vegan stew"))


def test_hits_of_a_fallback_have_no_guidance() -> None:
    memory = EpicMemory(PREFERENCES, fallback=lambda query, k: ["An engine needs oil."])
    (document,) = EpicRetriever(memory=memory).invoke("zebra xylophone quantum")
    assert document.page_content == "An engine needs oil."
    assert document.metadata == {"epic_score": 0.0, "epic_tier": "fallback"}


def test_hits_of_the_second_tier_say_so() -> None:
    memory = EpicMemory(PREFERENCES, tau=1.0, fallback=SecondTier(tau=-1.0))
    memory.add(ITEMS[:1])
    assert EpicRetriever(memory=memory).invoke("stew")[0].metadata["epic_tier"] == "second"


def test_items_are_not_changed_by_retrieving(retriever: EpicRetriever, memory: EpicMemory) -> None:
    retriever.invoke(QUERY)[0].metadata["kind"] = "changed"
    assert memory.search(QUERY)[0].item.metadata["kind"] != "changed"


def test_traces_name_the_store(retriever: EpicRetriever) -> None:
    assert retriever._get_ls_params()["ls_vector_store_provider"] == "epic"


def test_a_missing_package_names_the_extra() -> None:
    code = "import sys; sys.modules['langchain_core'] = None; import epic_langchain"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "pip install 'epic-memory[langchain]'" in done.stderr.splitlines()[-1]


def test_it_does_not_import_the_other_plugin() -> None:
    code = "import sys, epic_langchain; print([m for m in sys.modules if 'llama_index' in m or 'llamaindex' in m])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
