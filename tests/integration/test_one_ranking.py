"""One ranking: memory, collection, stores and retrievers of both frameworks order the same texts alike, by verdicts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_core.vectorstores import InMemoryVectorStore
from llama_index.core import VectorStoreIndex
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

import epic_langchain
import epic_llamaindex
from epic_graph import GraphMemory
from epic_memory import EpicMemory, Item, SearchOptions, Settings
from epic_memory.types import Alignment, Candidate, Decision, Stance, Verdict
from epic_memory.verification.base import BaseVerifier

WOOL, TRAINS, VEGAN = "I'm allergic to wool.", "I avoid flying.", "I follow a strict vegan diet."
PREFERENCES = (WOOL, TRAINS, VEGAN)
JUMPERS = (
    "A jumper of merino wool, warm enough for the winter.",
    "A jumper of brushed cotton, warm enough for the winter.",
    "A jumper of recycled fleece, warm enough for the winter.",
    "A jumper of alpaca and silk, warm enough for the winter.",
    "A jumper of thick bamboo, warm enough for the winter.",
    "A jumper of cashmere, warm enough for the winter.",
)
OTHERS = (
    "The toaster is under guarantee until May.",
    "The night train to Vienna leaves at eight.",
    "The cheap flight to Vienna leaves at nine.",
    "A stew of beans and peppers for four.",
    "A stew of beef and onions for four.",
    "The choir sings on Thursday.",
)
TEXTS = JUMPERS + OTHERS
QUESTION = "Which jumper should I buy for the winter?"
# A memory holds what nobody judged in four bits a number, a store in ten.
NEARLY = 0.03

Verdicts = Mapping[tuple[str, str], Stance]
Find = Callable[[str, int], list[str]]
"""The texts that a question finds, best first."""


class Judge(BaseVerifier):
    """A verifier that knows the stance of each text to each preference."""

    name = "judge"

    def __init__(self, verdicts: Verdicts) -> None:
        self.verdicts = verdicts

    def verify(self, candidates: Sequence[Candidate]) -> Iterator[Verdict]:
        return map(self.verdict, candidates)

    async def averify(self, candidates: Sequence[Candidate]) -> AsyncIterator[Verdict]:
        for one in candidates:
            yield self.verdict(one)

    def verdict(self, candidate: Candidate) -> Verdict:
        text = candidate.item.text
        alignments = tuple(
            Alignment(preference_id=one.id, instruction=f"{one.text} {text}", stance=stance, confidence=0.9)
            for one in candidate.preferences
            if (stance := self.verdicts.get((text, one.text)))
        )
        decision = Decision.KEEP if alignments else Decision.DISCARD
        return Verdict(decision=decision, rationale="known", alignments=alignments, confidence=0.9)


def memory_of(verdicts: Verdicts) -> EpicMemory:
    memory = EpicMemory(PREFERENCES, settings=Settings(verifier=Judge(verdicts), tau=-1.0))
    memory.add([Item(id=text, text=text) for text in TEXTS])
    return memory


def of_searching(component: Any) -> Find:
    options = SearchOptions(min_score=None)
    return lambda question, k: [hit.item.text for hit in component.search(question, k, options=options)]


def of_retriever(retriever: Any) -> Find:
    """Of either framework, made anew for each number of results."""

    def find(question: str, k: int) -> list[str]:
        made = retriever(k)
        if hasattr(made, "invoke"):
            return [one.page_content for one in made.invoke(question)]
        return [one.text for one in made.retrieve(question)]

    return find


def of_langchain_retriever(memory: EpicMemory) -> Find:
    return of_retriever(lambda k: epic_langchain.EpicRetriever(memory=memory, k=k))


def of_llamaindex_retriever(memory: EpicMemory) -> Find:
    return of_retriever(lambda k: epic_llamaindex.EpicRetriever(memory, similarity_top_k=k))


def documents_of(verdicts: Verdicts) -> list[Document]:
    documents = [Document(id=text, page_content=text) for text in TEXTS]
    kept = epic_langchain.EpicDocumentTransformer(
        preferences=PREFERENCES, llm=Judge(verdicts), settings=Settings(tau=-1.0)
    ).transform_documents(documents)
    judged = {one.page_content: one for one in kept}
    return [judged.get(one.page_content, one) for one in documents]


def nodes_of(verdicts: Verdicts) -> list[TextNode]:
    nodes = [TextNode(id_=text, text=text) for text in TEXTS]
    kept = epic_llamaindex.EpicTransform(preferences=PREFERENCES, llm=Judge(verdicts), settings=Settings(tau=-1.0))(
        nodes
    )
    judged = {one.get_content(): one for one in kept}
    return [judged.get(one.text, one) for one in nodes]  # type: ignore[misc]


def of_langchain_store(verdicts: Verdicts) -> Find:
    store = epic_langchain.EpicVectorStore(preferences=PREFERENCES)
    store.add_documents(documents_of(verdicts))
    return lambda question, k: [one.page_content for one in store.similarity_search(question, k)]


def of_llamaindex_store(verdicts: Verdicts) -> Find:
    store = epic_llamaindex.EpicVectorStore(preferences=PREFERENCES)
    index = VectorStoreIndex.from_vector_store(store, embed_model=store.embed_model)
    index.insert_nodes(nodes_of(verdicts))
    return of_retriever(lambda k: index.as_retriever(similarity_top_k=k))


def of_langchain_steered(verdicts: Verdicts) -> Find:
    store = InMemoryVectorStore(epic_langchain.EpicEmbeddings())
    store.add_documents(documents_of(verdicts))
    return of_retriever(lambda k: epic_langchain.SteeredRetriever(vectorstore=store, preferences=PREFERENCES, k=k))


def of_llamaindex_steered(verdicts: Verdicts) -> Find:
    index = VectorStoreIndex(nodes_of(verdicts), embed_model=epic_llamaindex.EpicEmbedding())
    return of_retriever(lambda k: epic_llamaindex.SteeredRetriever(index.as_retriever(similarity_top_k=k), PREFERENCES))


def of_postprocessor(verdicts: Verdicts) -> Find:
    postprocessor = epic_llamaindex.EpicNodePostprocessor(
        preferences=PREFERENCES, llm=Judge(verdicts), settings=Settings(tau=-1.0)
    )
    nodes = [NodeWithScore(node=TextNode(id_=text, text=text), score=0.5) for text in TEXTS]
    return lambda question, k: [one.text for one in postprocessor.postprocess_nodes(nodes, QueryBundle(question))[:k]]


def of_graph(verdicts: Verdicts) -> Find:
    graph = GraphMemory(memory=EpicMemory(PREFERENCES, settings=Settings(verifier=Judge(verdicts), tau=-1.0)))
    graph.add([Item(id=text, text=text) for text in TEXTS])
    return of_searching(graph)


SURFACES: dict[str, Callable[[Verdicts], Find]] = {
    "memory": lambda verdicts: of_searching(memory_of(verdicts)),
    "LangChain's retriever": lambda verdicts: of_langchain_retriever(memory_of(verdicts)),
    "LangChain's store": of_langchain_store,
    "LlamaIndex's retriever": lambda verdicts: of_llamaindex_retriever(memory_of(verdicts)),
    "LlamaIndex's store": of_llamaindex_store,
    "LangChain, another store": of_langchain_steered,
    "LlamaIndex, another retriever": of_llamaindex_steered,
    "postprocessor": of_postprocessor,
    "graph": of_graph,
}
verdicts = st.dictionaries(
    st.tuples(st.sampled_from(TEXTS), st.sampled_from(PREFERENCES)), st.sampled_from(Stance), max_size=20
)


@given(verdicts)
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@pytest.mark.parametrize("surface", SURFACES)
def test_what_conflicts_stands_below_what_answers_as_well_and_does_not(surface: str, verdicts: Verdicts) -> None:
    found = SURFACES[surface](verdicts)(QUESTION, len(JUMPERS))
    jumpers = [text for text in found if text in JUMPERS]
    conflicts = [
        any(verdicts.get((text, preference)) is Stance.CONFLICTS for preference in PREFERENCES) for text in jumpers
    ]
    assert conflicts == sorted(conflicts)


@given(verdicts, st.sampled_from([QUESTION, "How could I get to Vienna?", "What shall I cook for four?"]))
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_memory_and_stores_give_the_same_order(verdicts: Verdicts, question: str) -> None:
    memory = memory_of(verdicts)
    scores = {
        hit.item.text: hit.score for hit in memory.search(question, len(TEXTS), options=SearchOptions(min_score=None))
    }
    for store in (of_langchain_store, of_llamaindex_store):
        found = store(verdicts)(question, 3)
        for place, text in enumerate(found):
            behind = {*TEXTS} - {*found[: place + 1]}
            assert max(scores[other] for other in behind) <= scores[text] + NEARLY
    for retriever in (of_langchain_retriever, of_llamaindex_retriever):
        assert retriever(memory)(question, 3) == [hit.item.text for hit in memory.search(question, 3)]


def test_judging_never_pushes_up_what_conflicts() -> None:
    pets = ("Betta fish are quiet pets that need little care.", "A guinea pig is a quiet pet that needs company.")
    no_fish = "I don't like fish as pets."
    judged = {(pets[0], no_fish): Stance.CONFLICTS, (pets[1], no_fish): Stance.SUPPORTS}
    kept = epic_langchain.EpicDocumentTransformer(
        preferences=[no_fish], llm=Judge(judged), settings=Settings(tau=-1.0)
    ).transform_documents([Document(page_content=text) for text in pets])
    store = epic_langchain.EpicVectorStore(preferences=[no_fish])
    store.add_documents(list(kept))
    found: list[Any] = store.similarity_search_with_score("What are some low-maintenance pets?", 2)
    assert [one.page_content for one, _ in found] == [pets[1], pets[0]]
