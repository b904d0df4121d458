"""What a call of LangChain's retrievers takes: keyword arguments, and keys of the config."""

from __future__ import annotations

import inspect
import pickle
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("langchain_core", reason="needs the extra langchain")

from langchain_core.documents import Document
from langchain_core.load import dumpd, load
from langchain_core.vectorstores import InMemoryVectorStore
from pydantic import ValidationError

import epic_langchain as lc
from epic_graph import GraphMemory
from epic_memory import EpicMemory, Item, SearchOptions, Settings
from epic_memory.encoders.static import StaticEncoder
from epic_memory.errors import InvalidInputError, UnknownPreferenceError
from helpers import both, searching

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
STEW = Document(id="stew", page_content="A stew for a strict vegan diet.", metadata={"tags": ["a"]})
HOTEL = Document(id="hotel", page_content="Some hotels with casinos never close.", metadata={"tags": ["b"]})


def generous() -> StaticEncoder:
    """The embedded encoder, to which nothing is too far from a query."""
    encoder = StaticEncoder()
    encoder.relevant = -1.0
    return encoder


@pytest.fixture(scope="module")
def memory() -> EpicMemory:
    memory = EpicMemory(PREFERENCES, settings=Settings(tau=0.0), encoder=generous())
    memory.add(ITEMS)
    return memory


@pytest.fixture(params=["memory", "graph"])
def retriever(request: pytest.FixtureRequest, memory: EpicMemory) -> Any:
    if request.param == "memory":
        return lc.EpicRetriever(memory=memory, k=4)
    graph = GraphMemory(memory=memory)
    graph.update()
    return lc.EpicRetriever(memory=graph, k=4)


def ids(documents: list[Document]) -> set[str | None]:
    return {document.id for document in documents}


def in_config(options: dict[str, Any]) -> Any:
    return {"configurable": {f"epic_{name}": value for name, value in options.items()} | {"thread_id": "7"}}


@pytest.mark.parametrize(
    ("error", "what", "query", "options"),
    [
        (TypeError, "takes k=, filter=, namespace=, options=, preferences=, .* here; not 'top_k'", QUERY, {"top_k": 3}),
        *((InvalidInputError, "query", query, {}) for query in ("", "  ")),
        *((InvalidInputError, "k must be", QUERY, {"k": k}) for k in (0, -1)),
        *((InvalidInputError, "[Ff]ilter", QUERY, {"filter": wrong}) for wrong in ({"year": {"$near": 3}}, "year > 3")),
        (InvalidInputError, "paper", QUERY, {"steering": "on"}),
        (InvalidInputError, "stance_policy", QUERY, {"stance_policy": "some"}),
        (UnknownPreferenceError, "sea", QUERY, {"preferences": ["I love the sea."]}),
    ],
)
async def test_a_call_that_cannot_be_is_an_error(
    retriever: Any, error: type[Exception], what: str, query: str, options: dict[str, Any]
) -> None:
    with pytest.raises(error, match=what):
        await both(retriever, "invoke", query, **options)
    if error is not TypeError:
        with pytest.raises(error, match=what):
            await retriever.ainvoke(query, in_config(options))


@pytest.mark.parametrize(
    "options",
    [
        {"k": 2},
        {"filter": {"year": {"$gte": 2022}}},
        {"preferences": PREFERENCES[:1], "k": 9},
        {"steering": "off", "stance_policy": "any"},
        {"options": SearchOptions(stance_policy="only_supports")},
        {"min_score": None},
    ],
    ids=str,
)
async def test_options_are_the_retrievers_the_calls_or_the_configs(retriever: Any, options: dict[str, Any]) -> None:
    found = await both(retriever, "invoke", QUERY, **options)
    assert found == retriever.invoke(QUERY, in_config(options)) == await retriever.ainvoke(QUERY, in_config(options))
    if "filter" not in options:
        made = lc.EpicRetriever(**{"memory": retriever.memory, "k": 4, **searching(**options)})
        assert made.invoke(QUERY) == found
    assert len(retriever.invoke(QUERY)) == 4


async def test_options_in_the_config_hold_unless_the_call_says_otherwise(memory: EpicMemory) -> None:
    retriever = lc.EpicRetriever(memory=memory, k=4)
    config = in_config({"k": 2, "filter": {"kind": "hotel"}, "namespace": None})
    assert ids(retriever.invoke(QUERY, config)) <= {"casino", "hotel", "poker"}
    for options, count in (({}, 2), ({"k": 1}, 1), ({"k": 3}, 3), ({"k": 9, "filter": {"kind": "food"}}, 3)):
        found = retriever.invoke(QUERY, config, **options)
        assert len(found) == count and found == await retriever.ainvoke(QUERY, config, **options)
        assert found == retriever.with_config(config).invoke(QUERY, **options)
        assert found == retriever.bind(**options).invoke(QUERY, config)


def test_users_in_one_file_have_one_retriever(tmp_path: Path) -> None:
    path, encoder = tmp_path / "all.epic", generous()
    for user, items in (("ann", ITEMS[:3]), ("bob", ITEMS[3:])):
        with EpicMemory.open(path, PREFERENCES, settings=Settings(namespace=user, tau=0.0), encoder=encoder) as memory:
            memory.add(items)
    retriever = lc.EpicRetriever(memory=path, k=9, embeddings=encoder)
    configs: Any = [in_config({"namespace": user}) for user in ("ann", "bob", "eve")] * 5
    found = [ids(one) for one in retriever.batch([QUERY] * len(configs), configs)]
    assert found == [{"stew", "curry", "casino"}, {"hotel", "poker", "soup"}, set()] * 5
    # An option that is None is one that is not given.
    assert len(retriever.invoke(QUERY, configs[0], namespace=None)) == 3
    retriever.memory.close()


@pytest.mark.parametrize(
    ("name", "value"),
    [("k", 0), ("k", "3"), ("memory", "x.epic"), ("embeddings", None)],
)
def test_what_is_assigned_is_checked_and_what_it_was_opened_with_stays(retriever: Any, name: str, value: Any) -> None:
    before, wrong = getattr(retriever, name, None), AttributeError if not hasattr(retriever, name) else ValidationError
    with pytest.raises((wrong, ValidationError, ValueError)):
        setattr(retriever, name, value)
    assert getattr(retriever, name, None) is before
    retriever.k = 2
    assert len(retriever.invoke(QUERY)) == 2


def test_keys_of_others_in_the_config_are_left_to_them(retriever: Any) -> None:
    others: Any = {"configurable": {"namespace": "tenant-7", "mode": "fast", "steering": "wheel", "k": "all"}}
    assert retriever.invoke(QUERY, others) == retriever.invoke(QUERY) != []
    vectors = InMemoryVectorStore.from_documents([STEW], lc.EpicEmbeddings())
    assert lc.SteeredRetriever(vectorstore=vectors).invoke("vegan stew", in_config({"namespace": "ann"}))


@pytest.fixture(params=["memory", "steered", "transformer"])
def component(request: pytest.FixtureRequest, memory: EpicMemory) -> Any:
    if request.param == "memory":
        return lc.EpicRetriever(memory=memory)
    if request.param == "transformer":
        return lc.EpicDocumentTransformer(preferences=PREFERENCES)
    store = InMemoryVectorStore.from_documents([STEW, HOTEL], lc.EpicEmbeddings())
    return lc.SteeredRetriever(vectorstore=store, preferences=PREFERENCES)


@pytest.mark.parametrize(("key", "meant"), [("epic_namespaces", "epic_namespace"), ("epic_where", "epic_filter, ")])
async def test_a_key_of_ours_in_the_config_that_does_not_exist_is_refused(component: Any, key: str, meant: str) -> None:
    config, given = {"configurable": {key: "ann", "thread_id": "7"}}, QUERY
    with pytest.raises(InvalidInputError, match=f"There is no '{key}'.*{meant}"):
        await both(component, "invoke", [STEW] if isinstance(component, lc.EpicDocumentTransformer) else given, config)


# the documents that are found


@pytest.mark.parametrize("component", ["memory", "steered"], indirect=True)
@pytest.mark.filterwarnings("ignore:The function `load` is in beta")
def test_what_a_query_made_of_a_document_makes_it_no_other(component: Any) -> None:
    queries = [QUERY, "a hotel that never closes", "What is strictly vegan?"]
    found = [document for query in queries for document in component.invoke(query)]
    # As `MultiQueryRetriever` joins the documents of its queries: those that are equal to none before them.
    joined = [document for number, document in enumerate(found) if document not in found[:number]]
    assert len({document.id for document in found}) == len(joined) < len(found)
    assert len({str(document.metadata) for document in found}) > 1
    document = found[0]
    own = {key: value for key, value in document.metadata.items() if not key.startswith("epic_")}
    text = document.page_content
    assert document == (plain := Document(text, id=document.id, metadata=own)) and plain == document
    for other in (Document("x", id=document.id), Document(text, id=document.id, metadata={"year": 2}), Document(text)):
        assert document != other
    assert document != text
    # It is written and read as any document; earlier versions take no such argument, as they allow all.
    allowed = {"allowed_objects": "all"} if "allowed_objects" in inspect.signature(load).parameters else {}
    read = load(dumpd(document), **allowed)
    assert type(read) is Document and read.metadata == document.metadata and read == document
    assert pickle.loads(pickle.dumps(document)) == document
