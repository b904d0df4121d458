"""`langchain_core.indexing` over an `EpicVectorStore`: a source and a store kept in step, sync and async."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("langchain_core", reason="needs the extra langchain")

from langchain_core.documents import Document
from langchain_core.indexing import InMemoryRecordManager, aindex, index

from epic_langchain import EpicDocumentTransformer, EpicVectorStore

PREFERENCES = ["I follow a strict vegan diet.", "I avoid hotels with casinos."]


def document(text: str, source: str, document_id: str | None = None, **metadata: Any) -> Document:
    return Document(id=document_id, page_content=text, metadata={"source": source, **metadata})


SOURCE = [
    document("A vegan stew for a strict vegan diet.", "cooking", "stew", page=1),
    document("A vegan curry, good for any vegan diet.", "cooking", "curry", page=2),
    document("The hotels of the strip have casinos.", "travel", "casino", page=1),
    document("Quiet hotels without casinos in the old town.", "travel", page=2),
    document("The treaty of 1648 ended a long war.", "history", deep={"a": [1]}),
]


class Indexed:
    """A store and the records of what is in it; `run` indexes, sync or async."""

    def __init__(self, store: EpicVectorStore, kind: str) -> None:
        self.store = store
        self.kind = kind
        self.manager = InMemoryRecordManager(namespace="notes")
        self.manager.create_schema()

    async def run(self, documents: Any, **options: Any) -> tuple[int, int, int, int]:
        """How many were added, updated, skipped and deleted."""
        options = {"source_id_key": "source", "key_encoder": "blake2b", **options}
        if self.kind == "sync":
            done = index(documents, self.manager, self.store, **options)
        else:
            done = await aindex(documents, self.manager, self.store, **options)
        return done["num_added"], done["num_updated"], done["num_skipped"], done["num_deleted"]

    @property
    def held(self) -> list[Document]:
        return self.store.similarity_search("anything", 99)


@pytest.fixture(params=["sync", "async"])
def indexed(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Indexed]:
    place = tmp_path / "me.vectors" if request.param == "async" else None
    with EpicVectorStore(path=place, preferences=PREFERENCES) as store:
        yield Indexed(store, request.param)


async def test_a_source_and_a_store_are_kept_in_step(indexed: Indexed) -> None:
    before = copy.deepcopy(SOURCE)
    assert await indexed.run(SOURCE, cleanup="incremental", batch_size=2) == (5, 0, 0, 0)
    held = indexed.held
    # Known by what they are, not by the ids they came with.
    assert {"stew", "curry"}.isdisjoint(str(document.id) for document in held)
    assert await indexed.run(SOURCE, cleanup="full") == (0, 0, 5, 0)
    assert indexed.held == held and before == SOURCE
    assert await indexed.run(SOURCE, cleanup="full", force_update=True) == (0, 5, 0, 0)
    anew = Document(page_content="A vegan stew of squash, anew.", metadata=SOURCE[0].metadata)
    assert await indexed.run([anew, *SOURCE[1:]], cleanup="full") == (1, 0, 4, 1)
    assert {document.page_content for document in indexed.held} == {one.page_content for one in [anew, *SOURCE[1:]]}
    assert await indexed.run([], cleanup="full") == (0, 0, 0, 5) and indexed.held == []


# what the transformer keeps


def keep(**options: Any) -> EpicDocumentTransformer:
    return EpicDocumentTransformer(preferences=PREFERENCES, **options)


WAYS: dict[str, Callable[[], list[Document]]] = {
    "whole": lambda: keep().invoke(SOURCE),
    "one by one": lambda: [kept for each in SOURCE for kept in keep().invoke([each])],
    "lazily": lambda: list(keep().lazy_transform(iter(SOURCE))),
    "in another order": lambda: keep().invoke(SOURCE[::-1]),
}


@pytest.mark.parametrize("way", WAYS)
async def test_what_the_transformer_keeps_is_skipped_the_second_time(indexed: Indexed, way: str) -> None:
    first = keep().invoke(SOURCE)
    assert len(first) >= 3
    assert await indexed.run(first, cleanup="full") == (len(first), 0, 0, 0)
    held = indexed.held
    assert await indexed.run(WAYS[way](), cleanup="full") == (0, 0, len(first), 0)
    assert indexed.held == held
    for each in first:
        found, score = indexed.store.similarity_search_with_score(each.page_content, 1, steering="off")[0]
        assert found.page_content == each.page_content and score == pytest.approx(1.0, abs=2e-3)
        assert found.metadata["epic_alignments"] == each.metadata["epic_alignments"]
