"""A `PropertyGraphIndex` behind `EpicTransform(annotate=False)`, and its vector context, steered."""

from __future__ import annotations

import copy
import json
import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers import settled

pytest.importorskip("llama_index.core", reason="needs the extra llamaindex")

from llama_index.core import PropertyGraphIndex, VectorStoreIndex
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.graph_stores import SimplePropertyGraphStore
from llama_index.core.graph_stores.types import (
    KG_NODES_KEY,
    KG_RELATIONS_KEY,
    EntityNode,
    LabelledNode,
    Relation,
)
from llama_index.core.indices.property_graph import (
    ImplicitPathExtractor,
    SimpleLLMPathExtractor,
    VectorContextRetriever,
)
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.schema import (
    BaseNode,
    Document,
    MetadataMode,
    NodeRelationship,
    NodeWithScore,
    QueryBundle,
    RelatedNodeInfo,
    TextNode,
    TransformComponent,
)
from llama_index.core.vector_stores import MetadataFilter, MetadataFilters, SimpleVectorStore, VectorStoreQuery

from epic_llamaindex import EpicEmbedding, EpicTransform, EpicVectorStore
from epic_llamaindex.property_graph import SteeredVectorContextRetriever
from epic_memory import EpicMemory, Preference, Stance
from epic_memory.errors import (
    DuplicatePreferenceError,
    InvalidInputError,
    MemoryClosedError,
)
from epic_memory.types import Decision, Verdict
from epic_memory.verification import LMVerifier
from helpers import Answering, HashEncoder, KeepAll, UndecidedAll, keep
from llamaindex_models import ScriptedEmbedding, ScriptedLLM
from scripted import Own, Script
from tables import table

AVOIDS = "I avoid hotels with casinos."
LIKES = "I love quiet hotels with a garden."
QUERY = "hotel and poker"
TEXTS = {
    "ace": "The Ace is a hotel with a casino and a poker room.",
    "steam": "Steam engines need water.",
    "bellmore": "The Bellmore is a quiet hotel with a garden.",
    "sky": "The sky was blue.",
    "carlton": "The Carlton is a hotel beside the park.",
}
TRIPLES = {
    "ace": ("Hotel with casino and poker", "is", "Ace"),
    "steam": ("Steam engines", "need", "Water"),
    "bellmore": ("Quiet hotel with a garden", "is", "Bellmore"),
    "sky": ("Sky", "was", "Blue"),
    "carlton": ("Carlton hotel", "stands beside", "Park"),
}
HOTELS = ["ace", "bellmore", "carlton"]
STANCES = {"Ace": Stance.CONFLICTS, "Bellmore": Stance.SUPPORTS, "Carlton": Stance.NEUTRAL}


class OnHotels(Answering):
    """Keeps what is about a hotel."""

    def __init__(self) -> None:
        super().__init__(self._said)

    def _said(self, candidate: Any) -> Verdict:
        found = [stance for name, stance in STANCES.items() if name in candidate.item.text]
        return keep(candidate, found[0]) if found else Verdict(decision=Decision.DISCARD, rationale="far")


def step(**options: Any) -> EpicTransform:
    given = {"preferences": [AVOIDS], "encoder": HashEncoder(), "llm": OnHotels(), "coarse": False, "annotate": False}
    return EpicTransform(**settled(**given | options))


def passages(names: Iterable[str] = TEXTS) -> list[TextNode]:
    """Passages of one document, each linked with the next."""
    nodes = [TextNode(id_=name, text=TEXTS[name], metadata={"title": "Guide"}) for name in names]
    for place, node in enumerate(nodes):
        node.relationships[NodeRelationship.SOURCE] = RelatedNodeInfo(node_id="guide", metadata={"title": "Guide"})
        if place:
            node.relationships[NodeRelationship.PREVIOUS] = RelatedNodeInfo(node_id=nodes[place - 1].node_id)
        if place + 1 < len(nodes):
            node.relationships[NodeRelationship.NEXT] = RelatedNodeInfo(node_id=nodes[place + 1].node_id)
    return nodes


class Triples(TransformComponent):
    """Finds what it was told to find, and gives it the properties that the framework's extractors do."""

    triples: dict[str, list[tuple[str, str, str]]]

    def __call__(self, nodes: Sequence[BaseNode], **kwargs: Any) -> Sequence[BaseNode]:
        for node in nodes:
            entities = node.metadata.pop(KG_NODES_KEY, [])
            relations = node.metadata.pop(KG_RELATIONS_KEY, [])
            for subject, relation, other in self.triples[node.node_id]:
                two = [EntityNode(name=name, properties=dict(node.metadata)) for name in (subject, other)]
                entities += two
                relations.append(
                    Relation(label=relation, source_id=two[0].id, target_id=two[1].id, properties=dict(node.metadata))
                )
            node.metadata |= {KG_NODES_KEY: entities, KG_RELATIONS_KEY: relations}
        return nodes


class Searchable(SimplePropertyGraphStore):
    """A graph store that is searched by vector itself."""

    supports_vector_queries: bool = True

    def vector_query(self, query: VectorStoreQuery, **kwargs: Any) -> tuple[list[LabelledNode], list[float]]:
        wanted: dict[str, Any] = {}
        if query.filters is not None:
            wanted = {one.key: one.value for one in query.filters.filters}  # type: ignore[union-attr]
        held = [
            node
            for node in self.graph.nodes.values()
            if isinstance(node, EntityNode)
            and node.embedding is not None
            and all(node.properties.get(key) == value for key, value in wanted.items())
        ]
        scores = [float(np.dot(node.embedding or [], query.query_embedding or [])) for node in held]
        order = sorted(range(len(held)), key=scores.__getitem__, reverse=True)[: query.similarity_top_k]
        return [held[row] for row in order], [scores[row] for row in order]


VECTORS: dict[str, Callable[[], dict[str, Any]]] = {
    "searchable": lambda: {"property_graph_store": Searchable()},
    "default": dict,
    "vector store": lambda: {"vector_store": SimpleVectorStore()},
    "our vector store": lambda: {"vector_store": EpicVectorStore()},
}


def graph_of(nodes: Sequence[BaseNode], store: str = "default", **options: Any) -> PropertyGraphIndex:
    triples = Triples(triples={name: [triple] for name, triple in TRIPLES.items()})
    given: dict[str, Any] = {
        "kg_extractors": [ImplicitPathExtractor(), triples],
        "llm": ScriptedLLM(answers=[]),
        "embed_model": EpicEmbedding(),
        "property_graph_store": SimplePropertyGraphStore(),
        "use_async": False,
    }
    return PropertyGraphIndex(list(nodes), **given | VECTORS[store]() | options)


def graph(index: PropertyGraphIndex) -> Any:
    store: Any = index.property_graph_store
    return store.graph


@pytest.fixture
def kept() -> EpicTransform:
    return step()


@pytest.fixture(params=VECTORS)
def index(request: pytest.FixtureRequest, kept: EpicTransform) -> PropertyGraphIndex:
    return graph_of(kept(passages()), request.param)


def steered(index: PropertyGraphIndex, preferences: Any = None, **options: Any) -> SteeredVectorContextRetriever:
    return SteeredVectorContextRetriever.from_index(index, preferences, **options)


async def found(retriever: BaseRetriever, query: Any = QUERY) -> list[NodeWithScore]:
    """What a retriever finds, the same in either way."""
    nodes = retriever.retrieve(copy.deepcopy(query))
    assert told(await retriever.aretrieve(copy.deepcopy(query))) == told(nodes)
    return nodes


def ids(nodes: Sequence[NodeWithScore]) -> list[str]:
    return [node.node_id for node in nodes]


def told(nodes: Sequence[NodeWithScore]) -> list[tuple[str, float | None, Mapping[str, Any]]]:
    """What nodes say; those of facts have another id each time."""
    return [(node.text, node.score, node.metadata) for node in nodes]


def ours(node: NodeWithScore | BaseNode) -> dict[str, Any]:
    return {key: value for key, value in node.metadata.items() if key.startswith("epic_")}


# what gets into a graph


def extracting() -> ScriptedLLM:
    def answer(messages: Sequence[Any]) -> str:
        asked = messages[-1].content or ""
        (name,) = [name for name, text in TEXTS.items() if text in asked]
        return f"({', '.join(TRIPLES[name])})"

    return ScriptedLLM(answers=answer)


def a_splitter() -> SentenceSplitter:
    return SentenceSplitter(
        chunk_size=40, chunk_overlap=0, id_func=lambda place, document: f"{document.node_id}-{place}"
    )


@pytest.mark.parametrize("annotate", [False, True])
def test_nothing_of_ours_gets_into_the_graph(annotate: bool) -> None:
    """Also not what documents brought with them, which a splitter puts into the link to the source, too."""
    told = {} if annotate else {"epic_stance": "supports", "epic_instruction": "Say so."}
    documents = [
        Document(id_=name, text=f"{text} ", metadata={"title": "Guide", **told}) for name, text in TEXTS.items()
    ]
    llm, embedding = extracting(), ScriptedEmbedding()
    index = PropertyGraphIndex.from_documents(
        documents,
        transformations=[a_splitter(), step(annotate=annotate)],
        kg_extractors=[SimpleLLMPathExtractor(llm=llm), ImplicitPathExtractor()],
        property_graph_store=SimplePropertyGraphStore(),
        llm=llm,
        embed_model=embedding,
        use_async=False,
    )
    # Only what is kept costs a call.
    assert len(llm.prompts) == len(HOTELS)
    assert {node.id for node in graph(index).get_all_nodes()} >= {f"{name}-0" for name in HOTELS}
    assert len([one for one in graph(index).triplets if one[1] != "SOURCE"]) == len(HOTELS)
    vectors: Any = index.vector_store
    held = [graph(index).model_dump_json(), str(vectors.data.metadata_dict), *embedding.documents]
    assert any("epic_" in one for one in held) == annotate
    assert not any("epic_" in prompt for prompt in llm.prompts)
    assert {json.loads(one.properties["_node_content"])["metadata"]["title"] for one in chunks(index)} == {"Guide"}


def chunks(index: PropertyGraphIndex) -> list[Any]:
    return [node for node in graph(index).get_all_nodes() if not isinstance(node, EntityNode)]


# steering


@pytest.mark.parametrize(("include_text", "include_properties"), [(True, False), (False, True)])
async def test_off_is_the_frameworks_own(
    index: PropertyGraphIndex, include_text: bool, include_properties: bool
) -> None:
    options: Any = {"include_text": include_text, "include_properties": include_properties, "similarity_top_k": 2}
    plain = VectorContextRetriever(
        index.property_graph_store, embed_model=EpicEmbedding(), vector_store=index.vector_store, **options
    )
    off = steered(index, [AVOIDS, LIKES], steering="off", **options)
    for query in (QUERY, "a park", QueryBundle("trains", custom_embedding_strs=["a hotel", "water"])):
        wanted = plain.retrieve(copy.deepcopy(query))
        assert wanted and told(await found(off, query)) == told(wanted)


@pytest.mark.parametrize("include_text", [True, False])
async def test_a_query_is_steered(index: PropertyGraphIndex, include_text: bool) -> None:
    options: Any = {"similarity_top_k": 1, "include_text": include_text}
    (own,) = steered(index, [LIKES], steering="off", **options).retrieve(QUERY)
    assert "Ace" in own.text
    (node,) = await found(steered(index, [LIKES], **options))
    assert "Quiet hotel with a garden -> is -> Bellmore" in node.text
    assert (TEXTS["bellmore"] in node.text) == (node.node_id == "bellmore") == include_text
    assert type(node.score) is float
    assert ours(node) == {}


@pytest.mark.parametrize("name", ["default", "searchable"])
@pytest.mark.parametrize("mode", ["signed", "off"])
async def test_filters_that_nothing_satisfies_give_nothing(name: str, mode: str) -> None:
    index = graph_of(passages(), name)
    for title in ("Another", "Guide"):
        filters = MetadataFilters(filters=[MetadataFilter(key="title", value=title)])
        nodes = await found(steered(index, [AVOIDS], filters=filters, steering=mode))
        assert bool(nodes) == (title == "Guide")


@pytest.mark.parametrize("include_text", [True, False])
async def test_facts_that_are_far_from_the_query_can_be_left_out(include_text: bool) -> None:
    index = graph_of(passages())
    for min_score, some in ((-1.0, True), (0.99, False)):
        retriever = steered(index, [AVOIDS], min_score=min_score, include_text=include_text)
        assert bool(await found(retriever)) is some


async def test_the_event_loop_is_not_blocked() -> None:
    model, kept = ScriptedEmbedding(), step(encoder=ScriptedEmbedding())
    index = graph_of(kept(passages()), embed_model=model)
    retriever = steered(index, guidance=kept)
    for one in (model, kept.encoder):
        one.threads.clear()
    assert await retriever.aretrieve(QUERY)
    here = threading.get_ident()
    assert here not in model.threads | kept.encoder.threads
    assert retriever.retrieve(QUERY)
    assert here in model.threads


# guidance


@pytest.mark.parametrize("include_text", [True, False])
async def test_passages_have_the_guidance_back_that_the_graph_lacks(
    index: PropertyGraphIndex, kept: EpicTransform, include_text: bool
) -> None:
    wanted = {node.node_id: ours(node) for node in step(annotate=True)(passages())}
    nodes = await found(steered(index, guidance=kept, similarity_top_k=9, include_text=include_text))
    by = {node.node_id if include_text else str(node.node.ref_doc_id): node for node in nodes}
    assert set(by) == set(HOTELS)
    for name, node in by.items():
        assert ours(node) == wanted[name] and ours(node)["epic_preference"] == AVOIDS
        assert "epic_" not in node.node.get_content(MetadataMode.LLM) + node.node.get_content(MetadataMode.EMBED)


async def test_what_stands_against_a_preference_comes_last_and_more_is_fetched() -> None:
    numbers = [str(n) for n in range(6)]
    index = graph_of(
        [TextNode(id_=n, text=f"Hotel number {n}, a hotel like any other.") for n in numbers],
        kg_extractors=[Triples(triples={n: [(f"Hotel number {n}", "near", f"Pear {n}")] for n in numbers})],
    )
    options: Any = {"similarity_top_k": 2, "limit": 2}
    near = set(ids(steered(index, [AVOIDS], **options).retrieve("hotel")))
    assert len(near) == 2
    against = step(llm=KeepAll({f"number {n},": Stance.CONFLICTS for n in near}))
    nodes = await found(steered(index, guidance=against, **options), "hotel")
    assert len(nodes) == 2 and not near & set(ids(nodes))
    # As far as there is anything else.
    options |= {"similarity_top_k": 12, "limit": 9}
    every = ids(steered(index, guidance=against, **options).retrieve("hotel"))
    assert len(every) == 6 and set(every[-2:]) == near


@pytest.mark.parametrize("source", ["transform", "memory"])
async def test_a_model_is_not_asked_again_also_in_another_process(tmp_path: Path, source: str) -> None:
    said = Script({(TEXTS["ace"], AVOIDS): Stance.CONFLICTS, (TEXTS["bellmore"], AVOIDS): Stance.SUPPORTS})
    options: Any = {"verifier": LMVerifier(Own(said), batch_size=1), "tau": -1.0, "aspects": "parser"}
    with EpicMemory.open(tmp_path / "me.epic", [AVOIDS], **settled(**options)) as memory:
        keep = EpicTransform(memory=memory, annotate=False)
        index = graph_of(keep(passages()))
        asked = len(said.asked)
        assert asked == len(TEXTS)
        first = steered(index, guidance=keep if source == "transform" else memory, similarity_top_k=9).retrieve(QUERY)
        stances = {(one.node_id, one.metadata["epic_stance"]) for one in first}
        assert stances == {("ace", "conflicts"), ("bellmore", "supports")}
    with EpicMemory.open(tmp_path / "me.epic", **settled(**options)) as memory:
        guidance = EpicTransform(memory=memory, annotate=False) if source == "transform" else memory
        again = steered(index, guidance=guidance, similarity_top_k=9)
        assert told(await found(again)) == told(first)
    assert len(said.asked) == asked
    with pytest.raises(MemoryClosedError):
        again.retrieve(QUERY)


async def test_preferences_are_those_of_the_transform_at_each_call(kept: EpicTransform) -> None:
    retriever = steered(graph_of(kept(passages())), guidance=kept)
    for preference in (AVOIDS, LIKES):
        kept.preferences = [preference]
        assert retriever.preferences == (preference,)
        assert {one.metadata["epic_preference"] for one in await found(retriever)} == {preference}


async def test_preferences_for_a_call_and_other_peoples_guidance() -> None:
    kept = step(preferences=[AVOIDS, LIKES])
    alice = steered(graph_of(kept(passages())), guidance=kept, similarity_top_k=9)
    bob = alice.with_preferences(["I collect stamps.", Preference(text=LIKES)])
    before, nodes = told(alice.retrieve(QUERY)), await found(bob)
    assert set(ids(nodes)) == set(HOTELS)
    assert {one.metadata["epic_preference"] for one in nodes} == {LIKES}
    assert AVOIDS not in str([node.model_dump() for node in nodes])
    carol = alice.with_preferences(["I collect stamps."])
    assert all(ours(node) == {} for node in carol.retrieve(QUERY))
    assert alice.with_preferences([]).retrieve(QUERY)
    assert told(alice.retrieve(QUERY)) == before and alice.preferences == (AVOIDS, LIKES)
    with pytest.raises(DuplicatePreferenceError):
        alice.with_preferences([LIKES, LIKES])


async def test_undecided_passages_have_no_guidance_and_are_told_of(caplog: pytest.LogCaptureFixture) -> None:
    index = graph_of(step()(passages()))
    retriever = steered(index, guidance=step(llm=UndecidedAll(), on_undecided="keep"))
    with caplog.at_level(logging.WARNING, logger="epic_llamaindex.property_graph"):
        nodes = await found(retriever)
    assert nodes and all(ours(node) == {} for node in nodes)
    assert caplog.text.count("no answer") == 2


async def test_a_memory_without_preferences_has_nothing_to_say() -> None:
    memory, index = EpicMemory(), graph_of(passages(HOTELS))
    retriever, plain = steered(index, guidance=memory), told(steered(index, [AVOIDS], steering="off").retrieve(QUERY))
    assert told(await found(retriever)) == plain
    assert told(await found(steered(index, guidance=EpicTransform(annotate=False)))) == plain
    memory.preferences.add(LIKES)
    assert retriever.preferences == (memory.preferences[0],)
    assert "bellmore" in ids(retriever.retrieve(QUERY))[:1]


# arguments


@pytest.mark.parametrize(
    ("options", "said"),
    table(__file__, "arguments_that_cannot_be"),
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_arguments_that_cannot_be(options: dict[str, Any], said: str) -> None:
    given: dict[str, Any] = {
        "graph_store": SimplePropertyGraphStore(),
        "preferences": [AVOIDS],
        "embed_model": EpicEmbedding(),
        "vector_store": SimpleVectorStore(),
    }
    SteeredVectorContextRetriever(**given)
    with pytest.raises(InvalidInputError, match=said):
        SteeredVectorContextRetriever(**{**given, **options})


def test_an_index_that_cannot_be_searched() -> None:
    plain: Any = VectorStoreIndex([], embed_model=EpicEmbedding())
    with pytest.raises(InvalidInputError, match="must be a PropertyGraphIndex, not VectorStoreIndex"):
        steered(plain, [AVOIDS])
    bare = graph_of(passages(), embed_kg_nodes=False)
    with pytest.raises(InvalidInputError, match="not embedded"):
        steered(bare, [AVOIDS])
