"""The LlamaIndex retriever: nodes with their guidance, the same sync and async."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from epic_memory import SearchOptions, Settings
from helpers import settled

pytest.importorskip("llama_index.core", reason="needs the extra llamaindex")

from llama_index.core import Document
from llama_index.core.indices.query.query_transform import HyDEQueryTransform
from llama_index.core.schema import (
    BaseNode,
    IndexNode,
    NodeRelationship,
    NodeWithScore,
    QueryBundle,
    RelatedNodeInfo,
    TextNode,
)

from epic_llamaindex import EpicRetriever
from epic_llamaindex.filters import SOURCE
from epic_memory import EpicMemory, Filter, Item
from epic_memory.errors import EncoderError, InvalidInputError, MemoryClosedError
from epic_memory.text.chunking import WordChunker
from epic_memory.types import FloatArray
from helpers import HashEncoder, KeepAll, UndecidedAll, both, searching
from llamaindex_models import ScriptedEmbedding, ScriptedLLM

PREFERENCES = ["I follow a strict vegan diet.", "I avoid hotels with casinos."]
ITEMS = [
    Item(id="stew", text="A vegan stew for a strict vegan diet.", metadata={"kind": "food", "year": 2020}),
    Item(id="curry", text="A vegan curry, good for any vegan diet.", metadata={"kind": "food", "year": 2024}),
    Item(id="casino", text="The hotels of the strip have casinos.", metadata={"kind": "hotel", "year": 2024}),
    Item(id="hotel", text="Quiet hotels without casinos in the old town.", metadata={"kind": "hotel", "year": 2019}),
    Item(id="poker", text="Hotels with casinos hold poker nights.", metadata={"kind": "hotel", "year": 2021}),
]
NODES = [
    TextNode(
        id_=item.id,
        text=item.text,
        metadata=dict(item.metadata),
        relationships={
            NodeRelationship.SOURCE: RelatedNodeInfo(node_id={"food": "menu"}.get(str(item.metadata["kind"]), "guide"))
        },
    )
    for item in ITEMS
]
QUERY = "Where should I stay, are there hotels with casinos?"
# All items are relevant to it.
BROAD = "Which hotels with casinos suit a vegan diet?"


class Failing(HashEncoder):
    """An encoder that can be switched off."""

    fails = False

    def _encode(self, texts: Sequence[str]) -> FloatArray:
        if self.fails:
            raise EncoderError("The model is down.")
        return super()._encode(texts)


@pytest.fixture(scope="module")
def memory() -> EpicMemory:
    memory = EpicMemory(PREFERENCES, settings=Settings(tau=0.0))
    memory.add(ITEMS)
    assert len(memory) >= 4
    return memory


@pytest.fixture
def retriever(memory: EpicMemory) -> EpicRetriever:
    return EpicRetriever(memory, similarity_top_k=3)


def made(nodes: Any = None, **options: Any) -> EpicRetriever:
    """A retriever of its own memory, which takes in whatever is judged."""
    return EpicRetriever.from_defaults(preferences=PREFERENCES, nodes=nodes, **settled(**{"tau": -1.0, **options}))


def keeping(**options: Any) -> EpicRetriever:
    """A retriever whose memory keeps everything."""
    return EpicRetriever(EpicMemory(PREFERENCES, **settled(**{"verifier": KeepAll(), "tau": -1.0, **options})))


def ids(nodes: list[NodeWithScore]) -> list[str]:
    return [node.node_id for node in nodes]


def own(node: NodeWithScore) -> dict[str, Any]:
    """The metadata that is not ours."""
    return {key: value for key, value in node.metadata.items() if not key.startswith("epic_")}


def test_how_many_can_be_changed(retriever: EpicRetriever) -> None:
    assert retriever.similarity_top_k == 3
    retriever.similarity_top_k = 1
    assert len(retriever.retrieve(QUERY)) == retriever.similarity_top_k == 1
    with pytest.raises(InvalidInputError, match=r"^similarity_top_k must be"):
        retriever.similarity_top_k = 0


def test_a_node_is_the_same_whatever_the_query_was() -> None:
    """Fusions of several queries know a node again by its hash."""
    texts = ["A vegan hotel.", "Vegan food in hotels without casinos.", "A casino with vegan food."]
    retriever = keeping()
    retriever.memory.add(texts)
    queries = ("a vegan stew", "hotels with casinos", "hotel", *PREFERENCES)
    hits = [hit for query in queries for hit in retriever.memory.search(query)]
    assert len({hit.entries[0].preference for hit in hits}) == 2
    assert len({node.node.hash for query in queries for node in retriever.retrieve(query)}) == len(texts)


async def test_without_guidance_nodes_are_as_they_were_added() -> None:
    """A fusion knows those of another retriever again, by their text and metadata in the order of its keys."""
    nodes = [
        TextNode(id_=str(n), text=item.text, metadata={"z": n, "a": {"d": [1, 2.5], "c": None}, "kind": "x"})
        for n, item in enumerate(ITEMS)
    ]
    nodes[0].relationships[NodeRelationship.SOURCE] = RelatedNodeInfo(node_id="book")
    by_id = {node.node_id: node for node in nodes}
    found = await both(made(nodes, tau=0.0, guidance="none"), "retrieve", BROAD)
    assert len(found) >= 4
    for one in found:
        before = by_id[one.node_id]
        assert (one.node.hash, str(one.metadata)) == (before.hash, str(before.metadata))
        assert one.node.ref_doc_id == before.ref_doc_id
    memory = EpicMemory(
        PREFERENCES, settings=Settings(fallback=lambda query, k: [Item(text="An engine.", metadata={"b": 1, "a": 2})])
    )
    (page,) = EpicRetriever(memory, guidance="none").retrieve("zebra xylophone quantum")
    assert (page.text, str(page.metadata)) == ("An engine.", "{'b': 1, 'a': 2}")


@pytest.mark.parametrize(("query", "what"), [(QueryBundle("  "), "query is empty"), (None, "not NoneType")])
async def test_a_query_that_cannot_be_is_an_error(retriever: Any, query: Any, what: str) -> None:
    with pytest.raises(InvalidInputError, match=what):
        await both(retriever, "_retrieve", query)


async def test_texts_to_embed_stand_behind_the_query(retriever: EpicRetriever) -> None:
    """As HyDE hands them down: an answer that a model has made up, and the query itself."""
    transform = HyDEQueryTransform(llm=ScriptedLLM(answers=["A vegan stew for a strict vegan diet."]))
    bundle = transform.run(QUERY)
    answer = next(text for text in bundle.custom_embedding_strs if text != QUERY)
    wanted = retriever.memory.search(f"{QUERY}\n{answer}", 3)
    plain, found = retriever.retrieve(QUERY), await both(retriever, "retrieve", bundle)
    assert [(node.node_id, node.score) for node in found] == [(hit.item.id, hit.score) for hit in wanted]
    assert [node.score for node in found] != [node.score for node in plain]
    assert retriever.retrieve(QueryBundle(QUERY, custom_embedding_strs=[QUERY, " "])) == plain
    # The query's own words count beside what is embedded.
    beside = retriever.retrieve(QueryBundle("poker", custom_embedding_strs=[QUERY, " "]))
    assert set(ids(beside)) == set(ids(plain)) and beside != plain
    for empty in ([], [" "]):
        with pytest.raises(InvalidInputError, match="custom_embedding_strs"):
            await both(retriever, "retrieve", QueryBundle(QUERY, custom_embedding_strs=empty))


# adding


async def test_nodes_that_are_added_come_out_with_their_ids_metadata_and_sources() -> None:
    nodes, by_id = copy.deepcopy(NODES), {node.node_id: node for node in NODES}
    one, other = (EpicRetriever(EpicMemory(PREFERENCES, settings=Settings(tau=0.0))) for _ in range(2))
    assert one.add_nodes(iter(nodes)).seen == (await other.aadd_nodes(nodes)).seen == len(NODES)
    assert nodes == NODES
    found = one.retrieve(QUERY)
    assert found == await other.aretrieve(QUERY)
    for node in found:
        before = by_id[node.node_id]
        assert (node.text, node.node.ref_doc_id, own(node)) == (before.text, before.ref_doc_id, before.metadata)


NOT_JSON = r"The metadata 'when' of node 'a' is not JSON \(.*\): give it as text, a date"


@pytest.mark.parametrize(
    ("nodes", "said"),
    [
        *((nodes, None) for nodes in ("text", NODES[0], [ITEMS[0]], [NODES[0], TextNode(text=" ")], None, [None])),
        *(
            ([NODES[0], TextNode(id_="a", text="A hotel.", metadata={"n": 1, "when": value})], NOT_JSON)
            for value in ({"at": [{1, 2}]}, float("nan"))
        ),
    ],
)
async def test_what_is_no_node_is_an_error_and_nothing_is_taken_in(nodes: Any, said: str | None) -> None:
    retriever = keeping()
    with pytest.raises(InvalidInputError, match=said) as raised:
        await both(retriever, "add_nodes", nodes)
    assert "\n" not in str(raised.value)
    assert len(retriever.memory) == 0


# replacing and deleting


def of(document: str, *texts: str, prefix: str = "") -> list[BaseNode]:
    """The nodes of a document."""
    source = {NodeRelationship.SOURCE: RelatedNodeInfo(node_id=document)}
    return [TextNode(id_=f"{prefix}{n}", text=text, relationships=source) for n, text in enumerate(texts)]


def held(retriever: EpicRetriever, **options: bool) -> set[str]:
    return {item.id for item in retriever.memory.items(**options)}


both_ways = pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])


@both_ways
async def test_a_source_document_can_be_deleted(asynchronous: bool) -> None:
    retriever = keeping()

    async def deleted(name: str) -> int:
        return await retriever.adelete_ref_doc(name) if asynchronous else retriever.delete_ref_doc(name)

    retriever.add_nodes([*NODES, Document(id_="alone", text="A hotel."), *of("alone", "The hotel.", prefix="of ")])
    retriever.memory.add([Item(id="menu", text="An item called as a document.", metadata={SOURCE: "other"})])
    retriever.memory.verifier = UndecidedAll()
    retriever.add_nodes(of("menu", "A vegan menu.", prefix="waits "))
    assert held(retriever, waiting=True) == {"waits 0"}
    left = held(retriever) - {"stew", "curry", "waits 0"}
    assert await deleted("menu") == 3
    assert (held(retriever), held(retriever, waiting=True)) == (left, set())
    assert await deleted("alone") == 2
    assert held(retriever) == left - {"alone", "of 0"}
    retriever.memory.verifier = KeepAll()
    assert retriever.add_nodes(NODES[:1]).kept == 1
    assert await deleted("alone") == await deleted("casino") == 0
    assert await deleted("other") == 1
    with pytest.raises(InvalidInputError, match="ref_doc_id"):
        await deleted(" ")


def test_what_the_memory_has_cut_up_is_deleted_with_its_node() -> None:
    retriever = keeping(chunker=WordChunker(max_words=4))
    own = TextNode(id_="own", text="One vegan stew. Two vegan stews.")
    retriever.add_nodes([own, *of("book", "A vegan curry. Another vegan curry.", prefix="n")])
    assert held(retriever) == {"own#0", "own#1", "n0#0", "n0#1"}
    retriever.add_nodes(of("book", "A vegan curry. A third vegan curry.", prefix="n"), upsert=True)
    assert held(retriever) == {"own#0", "own#1", "n0#0", "n0#1"}
    assert [retriever.delete_ref_doc(name) for name in ("own", "n0", "book")] == [2, 0, 2]
    assert held(retriever) == set()
    # Nodes that are called as pieces are none.
    nodes = [TextNode(id_=f"recipe#{n}", text=f"A vegan pie {n}.", metadata={"chunk": n}) for n in (1, 2)]
    retriever = made(nodes)
    assert retriever.delete_ref_doc("recipe#1") == 1 and held(retriever) == {"recipe#2"}


@both_ways
async def test_a_changed_document_takes_the_place_of_what_it_was(asynchronous: bool) -> None:
    retriever = keeping()
    retriever.add_nodes(
        [*of("a", "stew", "soup", prefix="a"), *of("b", "inn", prefix="b"), Document(id_="c", text="A casino.")]
    )
    retriever.memory.verifier = UndecidedAll()
    retriever.add_nodes([*of("a", "wait", prefix="wait a"), *of("b", "wait", prefix="wait b")])
    retriever.memory.verifier = KeepAll()
    then = [*of("a", "stew", prefix="a"), *of("a", "curry", prefix="new "), *of("c", "A part.", prefix="c")]
    report = (await retriever.aadd_nodes(then, upsert=True)) if asynchronous else retriever.add_nodes(then, upsert=True)
    assert (report.seen, report.duplicates) == (3, 1)
    assert held(retriever) == {"a0", "new 0", "b0", "wait b0", "c0"}
    assert held(retriever, waiting=True) == {"wait b0"}
    # Without, everything stays.
    retriever.add_nodes(of("b", "another inn", prefix="more b"))
    assert held(retriever) == {"a0", "new 0", "b0", "wait b0", "c0", "more b0"}


async def test_what_cannot_be_added_leaves_the_earlier_version() -> None:
    encoder = Failing()
    retriever = keeping(encoder=encoder)
    retriever.add_nodes(of("a", "stew", prefix="a"))
    encoder.fails = True
    with pytest.raises(EncoderError):
        await both(retriever, "add_nodes", of("a", "curry", prefix="new "), upsert=True)
    assert held(retriever) == {"a0"}


# memories and files


def test_it_closes_what_it_has_opened_itself(path: Path) -> None:
    with made(NODES, tau=0.0, path=path) as kept:
        wanted = kept.retrieve(QUERY)
    with EpicRetriever(path) as opened, made(NODES, tau=0.0) as in_ram:
        assert opened.retrieve(QUERY) == in_ram.retrieve(QUERY) == wanted
    for retriever in (kept, opened, in_ram):
        retriever.close()
        with pytest.raises(MemoryClosedError):
            retriever.retrieve(QUERY)
    with EpicMemory.open(path) as memory:
        with EpicRetriever(memory) as given:
            given.retrieve(QUERY)
        assert given.retrieve(QUERY) == wanted


# from_defaults


def test_from_defaults_asks_the_models_it_is_given(path: Path) -> None:
    model, llm = ScriptedEmbedding(), ScriptedLLM(answers=["no answer"])
    with made(NODES, embed_model=model, llm=llm, path=path) as retriever:
        assert model.documents and len(retriever.memory) == 0
        assert any(NODES[0].text in prompt for prompt in llm.prompts)
    options = SearchOptions(min_score=None)
    with EpicRetriever.from_defaults(path=path, embed_model=model, llm=KeepAll(), options=options) as again:
        again.memory.retry()
        assert len(again.retrieve(QUERY)) == 5


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"nodes": NODES, "documents": []}, "one of documents and nodes"),
        ({"documents": ["text"]}, "Expected nodes"),
        ({"documents": [Document(text="a")], "stance_policy": "none"}, "stance_policy"),
        ({"similarity_top_k": 0}, "similarity_top_k must be"),
        ({"tau": 2.0}, "tau"),
    ],
)
def test_from_defaults_refuses_what_cannot_be_and_leaves_nothing_open(
    path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], what: str
) -> None:
    opened: list[EpicMemory] = []
    original = EpicMemory.open

    def opening(*args: Any, **kwargs: Any) -> EpicMemory:
        opened.append(original(*args, **kwargs))
        return opened[-1]

    monkeypatch.setattr(EpicMemory, "open", opening)
    with pytest.raises(InvalidInputError, match=what):
        EpicRetriever.from_defaults(preferences=PREFERENCES, path=path, **settled(**searching(**options)))
    for memory in opened:
        with pytest.raises(MemoryClosedError):
            memory.search(QUERY)
    assert len(opened) == (what == "similarity_top_k must be")


def test_documents_are_split_and_stay_as_they_are() -> None:
    text = " ".join(f"The hotel number {n} has a casino and a garden." for n in range(150))
    documents = [Document(id_="guide", text=text, metadata={"kind": "hotel"}), Document(id_="menu", text="Vegan.")]
    before = copy.deepcopy(documents)
    memory = made(documents=iter(documents)).memory
    items = memory.items(Filter.eq(SOURCE, "guide"))
    assert len(items) > 1 and max(len(item.text) for item in items) < len(text)
    assert memory.items(Filter.eq(SOURCE, "menu"))[0].text == "Vegan."
    assert documents == before


def test_documents_that_are_given_again_take_the_place_of_themselves(path: Path) -> None:
    for text in ("A vegan soup.", "A vegan soup.", "A vegan soup, with lentils."):
        with EpicRetriever.from_defaults(
            preferences=PREFERENCES[:1], documents=[Document(id_="soup", text=text)], path=path
        ) as retriever:
            assert [found.node.get_content() for found in retriever.retrieve("A soup for dinner?")] == [text]


# objects


LEADS = [
    IndexNode(id_="n1", text="Everything about casinos in hotels.", index_id="casinos", metadata={"b": 1, "a": 2}),
    IndexNode(id_="n2", text="Everything about a vegan diet.", index_id="food"),
]


@pytest.mark.parametrize("guidance", ["metadata", "text", "none"])
async def test_index_nodes_stay_index_nodes(path: Path, guidance: Any) -> None:
    made([*LEADS, NODES[0]], path=path).close()
    with EpicRetriever(path, guidance=guidance) as retriever:
        found = await both(retriever, "retrieve", BROAD)
        leads = {node.node_id: node.node.index_id for node in found if isinstance(node.node, IndexNode)}
        assert leads == {"n1": "casinos", "n2": "food"}
        assert not any("epic_index_id" in node.metadata for node in found)
        if guidance == "none":
            assert {node.node.hash for node in found} == {node.hash for node in (*LEADS, NODES[0])}
    # What comes out can go in again.
    other = made([node.node for node in found])
    assert {getattr(node.node, "index_id", "") for node in other.retrieve(BROAD)} == {"casinos", "food", ""}


@pytest.mark.parametrize("how", ["object_map", "objects"])
async def test_what_an_index_node_leads_to_is_retrieved_from(how: str) -> None:
    below = made([TextNode(text="The vegan menu of a hotel.")])
    lead = LEADS[0].model_copy(update={"obj": below})
    options: dict[str, Any] = {
        "object_map": {"object_map": {"casinos": below}},
        "objects": {"objects": [lead]},
    }[how]
    assert await both(made(LEADS[:1], **options), "retrieve", QUERY) == below.retrieve(QUERY)
    assert lead.obj is below


@pytest.mark.parametrize("linked", [True, False], ids=["linked", "alone"])
def test_ones_own_metadata_is_ones_own_whatever_its_name(linked: bool) -> None:
    said = {"ref_doc_id": "mine", "doc_id": {"x": 1}, "page": 3}
    node = TextNode(id_="a", text="A quiet hotel without a casino.", metadata=said)
    if linked:
        node.relationships[NodeRelationship.SOURCE] = RelatedNodeInfo(node_id="file.md")
    retriever = EpicRetriever.from_defaults(preferences=["I avoid hotels with on-site casinos."], nodes=[node])
    for guidance in ("metadata", "text", "none"):
        (found,) = EpicRetriever(retriever.memory, guidance=guidance).retrieve("a hotel")
        assert own(found) == said and found.node.ref_doc_id == ("file.md" if linked else None)
    assert retriever.delete_ref_doc("file.md" if linked else "a") == 1
