"""`langchain_core.indexing` over an `EpicVectorStore`: a source and a store kept in step, sync and async."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator
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

    def texts(self) -> set[str]:
        return {document.page_content for document in self.held}


@pytest.fixture(params=["sync", "async"])
def indexed(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Indexed]:
    place = tmp_path / "me.vectors" if request.param == "async" else None
    with EpicVectorStore(path=place, preferences=PREFERENCES) as store:
        yield Indexed(store, request.param)


def texts(documents: Iterable[Document]) -> set[str]:
    return {document.page_content for document in documents}


@pytest.mark.parametrize(
    ("cleanup", "batch_size"), [(None, 100), ("incremental", 2), ("full", 100), ("scoped_full", 2)]
)
async def test_a_second_run_adds_nothing(indexed: Indexed, cleanup: Any, batch_size: int) -> None:
    before = copy.deepcopy(SOURCE)
    assert await indexed.run(SOURCE, cleanup=cleanup, batch_size=batch_size) == (5, 0, 0, 0)
    held = indexed.held
    assert texts(held) == texts(SOURCE)
    # Known by what they are, not by the ids they came with.
    assert {"stew", "curry"}.isdisjoint(str(document.id) for document in held)
    assert await indexed.run(SOURCE, cleanup=cleanup, batch_size=batch_size) == (0, 0, 5, 0)
    assert indexed.held == held and before == SOURCE
    assert await indexed.run(SOURCE, cleanup=cleanup, batch_size=batch_size, force_update=True) == (0, 5, 0, 0)
    assert sorted(map(repr, indexed.held)) == sorted(map(repr, held))


def changed(document: Document, text: str = "", **metadata: Any) -> Document:
    return Document(page_content=text or document.page_content, metadata={**document.metadata, **metadata})


@pytest.mark.parametrize("cleanup", ["incremental", "full", "scoped_full"])
async def test_what_has_changed_is_replaced(indexed: Indexed, cleanup: Any) -> None:
    await indexed.run(SOURCE, cleanup=cleanup)
    anew = changed(SOURCE[0], "A vegan stew of squash, anew.")
    assert await indexed.run([anew, *SOURCE[1:]], cleanup=cleanup) == (1, 0, 4, 1)
    assert indexed.texts() == {anew.page_content} | texts(SOURCE[1:])
    # Other metadata is another document.
    assert await indexed.run([anew, changed(SOURCE[1], page=7), *SOURCE[2:]], cleanup=cleanup) == (1, 0, 4, 1)
    assert indexed.store.similarity_search("curry", filter={"page": 7})[0].page_content == SOURCE[1].page_content
    assert not indexed.store.similarity_search("curry", filter={"page": 2, "source": "cooking"})


async def test_what_has_gone_is_removed_as_the_cleanup_says(indexed: Indexed) -> None:
    await indexed.run(SOURCE, cleanup="full")
    assert await indexed.run(SOURCE[1:2], cleanup=None) == (0, 0, 1, 0)
    # Of the sources that were seen: cooking.
    assert await indexed.run(SOURCE[1:2], cleanup="incremental") == (0, 0, 1, 1)
    assert indexed.texts() == texts(SOURCE[1:])
    assert await indexed.run(SOURCE[2:3], cleanup="scoped_full") == (0, 0, 1, 1)
    assert indexed.texts() == texts([SOURCE[1], SOURCE[2], SOURCE[4]])
    assert await indexed.run(SOURCE[4:], cleanup="full") == (0, 0, 1, 2)
    assert indexed.texts() == texts(SOURCE[4:])
    assert await indexed.run([], cleanup="full") == (0, 0, 0, 1)
    assert indexed.held == []


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
