"""Documents that searches return: what the query made of them does not make them others."""

from __future__ import annotations

import inspect
import pickle

import pytest
from langchain_core.documents import Document
from langchain_core.load import dumpd, load
from langchain_core.retrievers import BaseRetriever
from langchain_core.vectorstores import InMemoryVectorStore

from epic_langchain import EpicEmbeddings, EpicRetriever, SteeredRetriever
from epic_memory import EpicMemory, Settings

PREFERENCES = ["I avoid hotels with on-site casinos.", "I like gardens."]
TEXTS = ["The Bellmore is a quiet hotel with a garden, no casino.", "The Golden Ace is a hotel with a casino floor."]
QUERIES = ["Which hotel should I book?", "hotel with a garden", "Is there a casino in the hotel?"]


def retrievers() -> list[BaseRetriever]:
    memory = EpicMemory(PREFERENCES, settings=Settings(coarse=False))
    memory.add(TEXTS)
    store = InMemoryVectorStore(EpicEmbeddings())
    store.add_documents([Document(text, id=str(number)) for number, text in enumerate(TEXTS)])
    return [EpicRetriever(memory=memory), SteeredRetriever(vectorstore=store, preferences=PREFERENCES)]


def test_several_queries_find_each_document_once() -> None:
    """As `MultiQueryRetriever` joins the documents of its queries: those that are equal to none before them."""
    for retriever in retrievers():
        found = [document for query in QUERIES for document in retriever.invoke(query)]
        described = {str(document.metadata) for document in found}
        joined = [document for number, document in enumerate(found) if document not in found[:number]]
        assert sorted(document.page_content for document in joined) == sorted(TEXTS)
        assert len(found) > len(joined) and len(described) > 1


def test_documents_of_other_texts_or_metadata_are_others() -> None:
    document = retrievers()[0].invoke(QUERIES[0])[0]
    plain = Document(document.page_content, id=document.id)
    assert document == plain and plain == document
    assert document != Document("another text", id=document.id)
    assert document != Document(document.page_content, id=document.id, metadata={"year": 2026})
    assert document != Document(document.page_content, id="another") and document != document.page_content


@pytest.mark.filterwarnings("ignore:The function `load` is in beta")
def test_a_document_found_is_written_and_read_as_any_document() -> None:
    for retriever in retrievers():
        document = retriever.invoke(QUERIES[0])[0]
        # Earlier versions take no such argument: they allow all.
        allowed = {"allowed_objects": "all"} if "allowed_objects" in inspect.signature(load).parameters else {}
        read = load(dumpd(document), **allowed)
        assert type(read) is Document and read.metadata == document.metadata and read == document
        assert pickle.loads(pickle.dumps(document)) == document
