"""The vector store under LlamaIndex's own index, storage context and ingestion pipeline."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from llama_index.core import Settings, StorageContext, VectorStoreIndex, load_index_from_storage
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.schema import Document, ImageNode, IndexNode, NodeWithScore
from llama_index.core.vector_stores import FilterOperator, MetadataFilter, MetadataFilters

from epic_llamaindex import EpicVectorStore
from helpers import both, method

TEXTS = {
    "stew": "A vegan stew of beans and lentils.",
    "steak": "A steak house with grilled beef and pork.",
    "train": "The night train to Vienna leaves at nine.",
    "garden": "Roses need sun and well drained soil.",
}
VEGAN = ["I follow a strict vegan diet."]
QUERY = "Where can I eat grilled food?"
WHOLE = [SentenceSplitter(chunk_size=1024)]


def documents(**changed: str) -> list[Document]:
    texts = {**TEXTS, **changed}
    return [Document(id_=name, text=text, metadata={"topic": name, "size": len(text)}) for name, text in texts.items()]


def found(nodes: Sequence[NodeWithScore]) -> list[str | None]:
    """The documents of nodes, best first."""
    return [one.node.ref_doc_id for one in nodes]


def topic(*names: str, operator: FilterOperator = FilterOperator.IN) -> MetadataFilters:
    return MetadataFilters(filters=[MetadataFilter(key="topic", value=list(names), operator=operator)])


@pytest.fixture(autouse=True)
def no_warning(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    # A model that was not given would be one behind a network.
    monkeypatch.setattr(type(Settings), "embed_model", property(lambda _: pytest.fail("Settings.embed_model was read")))
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        yield


@pytest.fixture
def store(tmp_path: Path) -> Iterator[EpicVectorStore]:
    with EpicVectorStore(path=tmp_path / "me.vectors") as made:
        yield made


def over(store: EpicVectorStore, **options: Any) -> VectorStoreIndex:
    return VectorStoreIndex.from_vector_store(store, embed_model=store.embed_model, transformations=WHOLE, **options)


def filled(store: EpicVectorStore) -> VectorStoreIndex:
    return VectorStoreIndex.from_documents(
        documents(),
        storage_context=StorageContext.from_defaults(vector_store=store),
        embed_model=store.embed_model,
        transformations=WHOLE,
    )


def test_an_index_is_filled_and_searched(store: EpicVectorStore) -> None:
    index = filled(store)
    best = index.as_retriever(similarity_top_k=4).retrieve("train to Vienna")
    assert found(best)[0] == "train" and sorted(map(str, found(best))) == sorted(TEXTS)
    assert best[0].node.metadata == {"topic": "train", "size": len(TEXTS["train"])}
    assert best[0].text == TEXTS["train"] and best[0].score is not None
    # The same by an index over what is there.
    again = over(store).as_retriever(similarity_top_k=4).retrieve("train to Vienna")
    assert [(one.node_id, one.score) for one in again] == [(one.node_id, one.score) for one in best]


@pytest.mark.parametrize("twin", [False, True], ids=["sync", "async"])
async def test_documents_are_inserted_found_and_deleted(store: EpicVectorStore, twin: bool) -> None:
    index = over(store)

    async def call(component: Any, name: str, *given: Any, **options: Any) -> Any:
        made = method(component, name, twin=twin)(*given, **options)
        return await made if twin else made

    def held() -> set[str | None]:
        return {node.ref_doc_id for node in store.get_nodes()}

    for document in documents():
        await call(index, "insert", document)
    long = Document(id_="long", text=" ".join(f"Sentence number {n} of this." for n in range(450)))
    await call(index, "insert", long)
    assert len(store.get_nodes()) > 5
    await call(index, "delete_ref_doc", "long", delete_from_docstore=True)
    assert held() == set(TEXTS)
    await call(index, "update_ref_doc", Document(id_="garden", text="Tulips flower in April."))
    nodes = store.get_nodes()
    assert len(nodes) == 4
    assert found(await call(index.as_retriever(), "retrieve", "tulips in April"))[0] == "garden"
    await call(index, "delete_nodes", [node.node_id for node in nodes if node.ref_doc_id == "steak"])
    assert held() == set(TEXTS) - {"steak"}
    retriever = index.as_retriever(similarity_top_k=2, filters=topic("train", "stew"))
    assert sorted(map(str, found(await both(retriever, "retrieve", "night train")))) == ["stew", "train"]


def test_index_nodes_and_images_beside_texts(store: EpicVectorStore) -> None:
    index = filled(store)
    inner = over(EpicVectorStore())
    inner.insert(Document(id_="inner", text="A table of the timetables of trains."))
    index.insert_nodes(
        [
            IndexNode(id_="tables", text="All timetables of trains.", index_id="tables", obj=inner.as_retriever()),
            ImageNode(id_="photo", text="A photograph of roses.", image_path="/photos/roses.png"),
        ]
    )
    # The retriever names the two in its query, and does not mean to search only these.
    nodes = index.as_retriever(similarity_top_k=9).retrieve("roses in the garden")
    assert len(nodes) == 6
    image = next(one.node for one in nodes if one.node_id == "photo")
    assert isinstance(image, ImageNode) and image.image_path == "/photos/roses.png"
    assert set(TEXTS) <= set(found(nodes))
    # An index node leads to what it stands for.
    texts = [one.text for one in index.as_retriever(similarity_top_k=1).retrieve("timetables of trains")]
    assert texts == ["A table of the timetables of trains."]
    index.delete_ref_doc("photo")
    assert len(index.as_retriever(similarity_top_k=9).retrieve("roses in the garden")) == 5


def test_what_was_persisted_is_loaded(store: EpicVectorStore, tmp_path: Path) -> None:
    index = filled(store)
    index.insert_nodes([ImageNode(id_="photo", text="A photograph of roses.", image_path="/photos/roses.png")])
    folder = tmp_path / "storage"
    for _ in range(2):
        index.storage_context.persist(persist_dir=folder)
    right = index.as_retriever(similarity_top_k=5).retrieve("night train")
    with EpicVectorStore.from_persist_dir(folder, preferences=VEGAN) as opened:
        context = StorageContext.from_defaults(persist_dir=str(folder), vector_store=opened)
        loaded = load_index_from_storage(context, embed_model=opened.embed_model, transformations=WHOLE)
        plain = loaded.as_retriever(similarity_top_k=5, vector_store_kwargs={"preferences": []})
        nodes = plain.retrieve("night train")
        assert [(one.node_id, one.score) for one in nodes] == [(one.node_id, one.score) for one in right]
        assert found(loaded.as_retriever(similarity_top_k=1).retrieve(QUERY)) == ["stew"]
        loaded.insert(Document(id_="new", text="A new document on whales."))
        loaded.storage_context.persist(persist_dir=folder)
    with EpicVectorStore.from_persist_dir(folder) as opened:
        assert len(opened.get_nodes()) == 6 and len(store.get_nodes()) == 5
