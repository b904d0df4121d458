"""A pipeline whose preferences change takes up again what its docstore holds."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("llama_index.core", reason="needs the extra llamaindex")

from llama_index.core.ingestion import DocstoreStrategy, IngestionPipeline
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.schema import BaseNode, Document, TransformComponent
from llama_index.core.storage.docstore import SimpleDocumentStore
from llama_index.core.vector_stores import SimpleVectorStore, VectorStoreQuery
from llama_index.core.vector_stores.types import BasePydanticVectorStore

from epic_llamaindex import EpicEmbedding, EpicTransform, EpicVectorStore
from epic_memory.errors import InvalidInputError, LMUnavailableError, UndecidedError
from helpers import HashEncoder
from scripted import BOTH, TRAIN, WINE, Asked, Scripted, verifier_of

Reingest = Callable[..., Awaitable[list[BaseNode]]]
TEXTS = {
    "wine": "We drink red wine with the fish.",
    "train": "The night train leaves from platform nine.",
    "both": f"{BOTH}.",
    "engine": "Steam engines need water and coal.",
}
DOCUMENTS = [Document(id_=name, text=text, metadata={"title": name}) for name, text in TEXTS.items()]


class Marks(TransformComponent):
    """A step after the filter, which marks what it sees, as an extractor does."""

    def __call__(self, nodes: Any, **kwargs: Any) -> Any:
        for node in nodes:
            node.metadata["marked"] = True
        return nodes


@pytest.fixture(params=["reingest", "areingest"])
def again(request: pytest.FixtureRequest) -> Reingest:
    """Ingests anew with or without blocking the event loop."""

    async def ingested(keep: EpicTransform, pipeline: Any) -> list[BaseNode]:
        made = getattr(keep, request.param)(pipeline)
        return await made if request.param == "areingest" else made  # type: ignore[no-any-return]

    return ingested


def step(lm: Scripted | None = None, **options: Any) -> EpicTransform:
    lm = Scripted() if lm is None else lm
    return EpicTransform(**{"preferences": [WINE], "encoder": HashEncoder(), "llm": verifier_of(lm), **options})


def pipeline_of(keep: EpicTransform, store: BasePydanticVectorStore | None, **options: Any) -> IngestionPipeline:
    steps = [SentenceSplitter(), keep, Marks(), EpicEmbedding()]
    options = {"docstore": SimpleDocumentStore(), "docstore_strategy": DocstoreStrategy.UPSERTS_AND_DELETE, **options}
    return IngestionPipeline(transformations=steps, vector_store=store, **options)


def sources(store: BasePydanticVectorStore) -> list[str]:
    """The documents of which a store holds nodes, one for each node."""
    if isinstance(store, EpicVectorStore):
        return sorted(str(node.ref_doc_id) for node in store.get_nodes())
    assert isinstance(store, SimpleVectorStore)
    assert set(store.data.embedding_dict) == set(store.data.text_id_to_ref_doc_id)
    return sorted(store.data.text_id_to_ref_doc_id.values())


@pytest.mark.parametrize("make", [SimpleVectorStore, EpicVectorStore])
async def test_the_store_holds_what_the_new_preferences_want(make: Any, again: Reingest) -> None:
    store, keep = make(), step()
    pipeline = pipeline_of(keep, store)
    pipeline.run(documents=DOCUMENTS)
    assert sources(store) == ["both", "wine"]
    keep.preferences = [TRAIN]
    assert pipeline.run(documents=DOCUMENTS) == []
    found = await again(keep, pipeline)
    assert sorted(str(node.ref_doc_id) for node in found) == sources(store) == ["both", "train"]
    assert all(node.metadata["marked"] and node.embedding for node in found)
    query = VectorStoreQuery(query_embedding=EpicEmbedding().get_query_embedding("the train"), similarity_top_k=4)
    assert len(store.query(query).ids or ()) == 2
    # The same settings again change nothing, and the docstore goes on to skip what did not change.
    await again(keep, pipeline)
    assert sources(store) == ["both", "train"] and pipeline.run(documents=DOCUMENTS) == []


async def test_another_process_needs_nothing_but_the_docstore(again: Reingest, tmp_path: Path) -> None:
    store = EpicVectorStore(path=tmp_path / "notes.vectors")
    pipeline = pipeline_of(step(), store)
    pipeline.run(documents=DOCUMENTS)
    pipeline.run(documents=DOCUMENTS[1:])  # "wine" is deleted
    assert sources(store) == ["both"]
    pipeline.persist(str(tmp_path / "pipeline"))
    store.close()

    store = EpicVectorStore(path=tmp_path / "notes.vectors")
    keep = step(preferences=[WINE, TRAIN])
    pipeline = pipeline_of(keep, store, docstore=None)
    pipeline.load(str(tmp_path / "pipeline"))
    await again(keep, pipeline)
    assert sources(store) == ["both", "train"]
    store.close()


async def test_while_the_model_is_gone_the_store_stays_as_it_is(again: Reingest) -> None:
    lm = Scripted()
    store, keep = SimpleVectorStore(), step(lm)
    pipeline = pipeline_of(keep, store)
    pipeline.run(documents=DOCUMENTS)
    before = dict(store.data.embedding_dict)

    def gone(asked: Asked) -> None:
        raise LMUnavailableError("It is gone.")

    lm.hook = gone
    keep.preferences = [TRAIN]
    with pytest.raises(UndecidedError):
        await again(keep, pipeline)
    assert store.data.embedding_dict == before
    lm.hook = None
    await again(keep, pipeline)
    assert sources(store) == ["both", "train"]


async def test_without_a_vector_store_the_caller_has_the_nodes(again: Reingest) -> None:
    keep = step()
    pipeline = pipeline_of(keep, None, docstore_strategy=DocstoreStrategy.DUPLICATES_ONLY)
    pipeline.run(documents=DOCUMENTS)
    keep.preferences = [TRAIN]
    assert sorted(str(node.ref_doc_id) for node in await again(keep, pipeline)) == ["both", "train"]


async def test_what_cannot_be_ingested_anew(again: Reingest) -> None:
    keep = step()
    textless = pipeline_of(keep, SimpleVectorStore())
    textless.run(documents=DOCUMENTS, store_doc_text=False)
    for pipeline, said in (
        (pipeline_of(step(), None), "no step of that pipeline"),
        (pipeline_of(keep, None), "holds no documents"),
        (pipeline_of(keep, None, docstore=None), "has no docstore"),
        ([keep], "Give an IngestionPipeline, not list"),
        (textless, "store_doc_text=False"),
    ):
        with pytest.raises(InvalidInputError, match=said):
            await again(keep, pipeline)
