"""`EpicGraphRetriever`: a graph memory in LangChain's chains."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from epic_memory import Settings
from helpers import settled

pytest.importorskip("langchain_core", reason="needs the extra langchain")

from langchain_core.documents import Document
from pydantic import ValidationError

from chat_models import ScriptedChat
from epic_graph.extraction import Extraction, PhraseExtractor, Unextracted
from epic_graph.extraction.lm import LMExtractor
from epic_graph.memory import GraphMemory
from epic_langchain import EpicDocumentTransformer, EpicEmbeddings, EpicRetriever, LangChainLM, SteeredRetriever
from epic_langchain.graph_retriever import EpicGraphRetriever
from epic_memory import EpicMemory, Filter, Item
from epic_memory.context import format_hit
from epic_memory.errors import InvalidInputError, StoreError, UnknownPreferenceError
from epic_memory.types import Stance
from helpers import HashEncoder, KeepAll, both, searching

VEGAN, SEA = "I follow a strict vegan diet.", "I love the sea."
ITEMS = [
    Item(id="birthday", text="Oscar turns forty on Friday.", metadata={"kind": "news", "year": 2024}),
    Item(id="nuts", text="Oscar cannot eat hazelnuts or butter.", metadata={"kind": "food", "year": 2020}),
    Item(id="brownies", text="Brownies need hazelnuts and much butter.", metadata={"kind": "food", "year": 2022}),
    Item(id="harbour", text="Ida lives at the harbour in Bergen.", metadata={"kind": "news", "year": 2023}),
    Item(id="train", text="A train leaves Bergen at noon.", metadata={"kind": "travel", "year": 2019}),
]
QUERY = "What can I bake for Oscar?"
OPTIONS = [
    {},
    {"k": 2},
    {"filter": Filter.eq("kind", "food")},
    {"filter": {"year": {"$gte": 2022}}},
    {"preferences": [SEA]},
    {"steering": "off"},
    {"stance_policy": "only_supports"},
]


def graph_of(items: Sequence[Item] = ITEMS, **options: Any) -> GraphMemory:
    stances = {"butter": Stance.CONFLICTS}
    graph = GraphMemory([VEGAN, SEA], **settled(verifier=KeepAll(stances), tau=-1.0, **options))
    graph.add(items)
    return graph


@pytest.fixture(scope="module")
def graph() -> Iterator[GraphMemory]:
    with graph_of() as graph:
        yield graph


@pytest.fixture
def retriever(graph: GraphMemory) -> EpicGraphRetriever:
    return EpicGraphRetriever(graph=graph, k=4)


def ids(found: Sequence[Any]) -> list[Any]:
    return [one.id for one in found]


# what is found


@pytest.mark.parametrize(
    ("guidance", "options"), [("text", OPTIONS[1]), *(("metadata", options) for options in OPTIONS)]
)
async def test_it_finds_what_the_graph_finds(graph: GraphMemory, guidance: Any, options: dict[str, Any]) -> None:
    retriever = EpicGraphRetriever(graph=graph, k=4, guidance=guidance)
    asked = {"k": 4, **options}
    asked["filter"] = Filter.ge("year", 2022) if isinstance(asked.get("filter"), dict) else asked.get("filter")
    hits = graph.search(QUERY, **searching(**asked))
    found = await both(retriever, "invoke", QUERY, **options)
    config: Any = {"configurable": {f"epic_{name}": value for name, value in options.items()} | {"thread_id": "7"}}
    assert found == retriever.invoke(QUERY, config)
    assert found == await retriever.ainvoke(QUERY, config)
    assert ids(found) == [hit.item.id for hit in hits] and hits
    assert [one.metadata["epic_score"] for one in found] == [hit.score for hit in hits]
    shown = [format_hit(n, hit) if guidance == "text" else hit.text for n, hit in enumerate(hits, start=1)]
    assert [one.page_content for one in found] == shown
    for one in found:
        own = next(item.metadata for item in ITEMS if item.id == one.id)
        assert {key: one.metadata[key] for key in own} == own and one.metadata["epic_instruction"]
        assert all(key.startswith("epic_") for key in one.metadata.keys() - own.keys())


async def test_another_users_namespace_is_not_passed_over(retriever: EpicGraphRetriever) -> None:
    own: Any = {"configurable": {"epic_namespace": retriever.graph.memory.namespace, "thread_id": "7"}}
    assert retriever.invoke("Oscar", own) == await retriever.ainvoke("Oscar", own) == retriever.invoke("Oscar")
    another: Any = {"configurable": {"epic_namespace": "bob"}}
    with pytest.raises(InvalidInputError, match="Make a retriever for 'bob'"):
        await both(retriever, "invoke", "Oscar", another)


async def test_calls_that_cannot_be_are_errors(retriever: EpicGraphRetriever) -> None:
    wrong: list[tuple[type[Exception], str, dict[str, Any]]] = [
        (InvalidInputError, " ", {}),
        (InvalidInputError, QUERY, {"k": 0}),
        (InvalidInputError, QUERY, {"filter": {"year": {"$near": 2020}}}),
        (InvalidInputError, QUERY, {"steering": "on"}),
        (InvalidInputError, QUERY, {"stance_policy": "some"}),
        (UnknownPreferenceError, QUERY, {"preferences": ["I collect stamps."]}),
        (TypeError, QUERY, {"top_k": 3}),
        (TypeError, QUERY, {"namespace": "ann"}),
    ]
    for error, query, options in wrong:
        with pytest.raises(error):
            await both(retriever, "invoke", query, **options)


async def test_nothing_blocks_the_event_loop() -> None:
    encoder = HashEncoder()
    graph = GraphMemory([VEGAN], encoder=encoder, settings=Settings(verifier=KeepAll(), tau=-1.0))
    retriever = EpicGraphRetriever(graph=graph)
    await retriever.aadd_documents([Document(id="a", page_content=ITEMS[0].text)])
    encoder.sync_threads.clear()
    await retriever.aadd_documents([Document(id="b", page_content=ITEMS[1].text)])
    assert len(await retriever.ainvoke(QUERY)) == 2
    assert encoder.sync_threads == set()


def test_traces_name_the_store(retriever: EpicGraphRetriever) -> None:
    params = retriever._get_ls_params()
    assert params["ls_vector_store_provider"] == "epic" and params["ls_retriever_name"] == "epicgraph"


# what is added


async def test_documents_are_offered_to_memory_and_graph() -> None:
    documents = [Document(id=item.id, page_content=item.text, metadata=dict(item.metadata)) for item in ITEMS]
    one, other = EpicGraphRetriever(graph=graph_of([])), EpicGraphRetriever(graph=graph_of([]))
    report, again = one.add_documents(documents), await other.aadd_documents(iter(documents))
    assert report.passages == again.passages == len(ITEMS) and report.entities == again.entities > 0
    assert report.memory.kept == again.memory.kept == len(ITEMS)
    assert one.graph.entities() == other.graph.entities()
    assert one.invoke(QUERY) == other.invoke(QUERY) == EpicGraphRetriever(graph=graph_of()).invoke(QUERY)
    for wrong in ("a text", [3], [Document(page_content="a", metadata={"a": object()})]):
        with pytest.raises(InvalidInputError):
            one.add_documents(wrong)  # type: ignore[arg-type]


class Failing:
    """Fails for passages about Oscar."""

    name = "failing"

    def stream(self, texts: Sequence[str]) -> Iterator[tuple[int, Extraction | Unextracted]]:
        for place, text in enumerate(texts):
            yield place, Unextracted("out of order") if "Oscar" in text else Extraction(("Bergen",))

    async def astream(self, texts: Sequence[str]) -> AsyncIterator[tuple[int, Extraction | Unextracted]]:
        for one in self.stream(texts):
            yield one


async def test_what_an_extractor_fails_for_is_found_by_its_text(caplog: pytest.LogCaptureFixture) -> None:
    documents = [Document(id=item.id, page_content=item.text) for item in ITEMS]
    memory = EpicMemory([VEGAN], settings=Settings(verifier=KeepAll(), tau=-1.0))
    retriever = EpicGraphRetriever(graph=memory, extractor=Failing(), k=5)
    with caplog.at_level(logging.WARNING, "epic_langchain.graph_retriever"):
        report = retriever.add_documents(documents)
        await retriever.aadd_documents([Document(id="more", page_content="Oscar sleeps.")])
    assert report.failed == 2 and "nuts" in report.failures
    assert caplog.text.count("out of order") == 2 and "graph.retry()" in caplog.text
    assert set(ids(retriever.invoke(QUERY))) >= {"birthday", "nuts"}


def reads(messages: Any) -> str:
    """What a model says of a passage, or about keeping one."""
    said = str(messages[-1].content)
    if "Oscar" in said:
        return json.dumps({"entities": ["Oscar"], "facts": [["Oscar", "is told of in", "the passage"]]})
    return json.dumps({"entities": ["Bergen"], "facts": []})


async def test_a_chat_model_reads_what_is_added() -> None:
    model = ScriptedChat(answers=reads)
    for extractor in (model, LangChainLM(model), LMExtractor(LangChainLM(model))):
        memory = EpicMemory([VEGAN], settings=Settings(verifier=KeepAll(), tau=-1.0))
        retriever = EpicGraphRetriever(graph=memory, extractor=extractor)
        model.seen.clear()
        retriever.add_documents([Document(id="a", page_content=ITEMS[0].text)])
        await retriever.aadd_documents([Document(id="b", page_content=ITEMS[4].text)])
        assert len(model.seen) == 2
        assert {"Oscar", "Bergen"} <= set(retriever.graph.entities())


# what it is made of


@pytest.mark.parametrize("named", [str, Path])
def test_a_graph_is_opened_by_the_name_of_its_file(tmp_path: Path, named: type) -> None:
    path = tmp_path / "me.epic"
    with GraphMemory.open(path, [VEGAN, SEA], settings=Settings(verifier=KeepAll(), tau=-1.0)) as graph:
        graph.add(ITEMS)
        expected = EpicGraphRetriever(graph=graph).invoke(QUERY)
    retriever = EpicGraphRetriever(graph=named(path))
    assert isinstance(retriever.graph, GraphMemory) and retriever.invoke(QUERY) == expected
    retriever.k = 2
    assert retriever.invoke(QUERY) == expected[:2]
    retriever.graph.close()


def test_a_memory_gets_a_graph() -> None:
    memory = EpicMemory([VEGAN, SEA], settings=Settings(verifier=KeepAll({"butter": Stance.CONFLICTS}), tau=-1.0))
    memory.add(ITEMS)
    retriever = EpicGraphRetriever(graph=memory)
    assert retriever.graph.memory is memory
    assert retriever.graph.update().passages == len(ITEMS)
    assert retriever.invoke(QUERY) == EpicGraphRetriever(graph=graph_of()).invoke(QUERY)


def test_arguments_that_cannot_be_are_errors(tmp_path: Path, graph: GraphMemory) -> None:
    wrong: list[dict[str, Any]] = [
        {},
        {"graph": 3},
        {"graph": None},
        {"graph": graph, "k": 0},
        {"graph": graph, "guidance": "both"},
        {"graph": graph, "embeddings": "all-minilm"},
        {"graph": graph, "embeddings": EpicEmbeddings(HashEncoder())},
        {"graph": graph.memory, "embeddings": EpicEmbeddings(HashEncoder())},
        {"graph": graph, "extractor": Failing()},
        {"graph": graph.memory, "extractor": "gpt"},
        {"graph": graph.memory, "extractor": Failing},
        {"graph": graph.memory, "extractor": ScriptedChat(answers=reads).with_retry()},
    ]
    for options in wrong:
        with pytest.raises(ValidationError):
            EpicGraphRetriever(**options)
    with pytest.raises(InvalidInputError, match="takes no search_kwargs="):
        EpicGraphRetriever(graph=graph, search_kwargs={"k": 3})  # type: ignore[call-arg]
    # What a graph has already, it can be given.
    EpicGraphRetriever(graph=graph, embeddings=EpicEmbeddings(), extractor=PhraseExtractor())
    with pytest.raises(StoreError, match="There is no memory at"):
        EpicGraphRetriever(graph=tmp_path / "me.epic")


class Keyed:
    """A model of the wrong kind, which shows its key."""

    def __repr__(self) -> str:
        return "Keyed(api_key='sk-1234')"


@pytest.mark.parametrize("name", ["graph", "embeddings", "extractor"])
def test_errors_show_no_keys(graph: GraphMemory, name: str) -> None:
    with pytest.raises(ValidationError, match="Keyed") as raised:
        EpicGraphRetriever(**{"graph": graph, name: Keyed()})
    assert "sk-1234" not in str(raised.value)


@pytest.mark.parametrize(
    ("kind", "where"),
    [(EpicRetriever, "memory"), (SteeredRetriever, "preferences"), (EpicDocumentTransformer, "preferences")],
)
def test_nor_do_those_of_what_stands_beside_it(kind: Any, where: str) -> None:
    with pytest.raises(ValidationError) as raised:
        kind(embeddings=Keyed(), **{where: [Keyed()]})
    assert "sk-1234" not in str(raised.value)


@pytest.mark.parametrize("name", ["graph", "embeddings", "extractor"])
def test_what_it_was_opened_with_stays(graph: GraphMemory, name: str) -> None:
    retriever = EpicGraphRetriever(graph=graph)
    before = getattr(retriever, name)
    with pytest.raises(ValidationError, match="frozen"):
        setattr(
            retriever, name, {"graph": GraphMemory(settings=Settings(coarse=False, fine=False))}.get(name, Failing())
        )
    assert getattr(retriever, name) is before


def test_a_file_is_not_opened_for_arguments_that_cannot_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "me.epic"
    GraphMemory.open(path, [VEGAN]).close()
    opened: list[Any] = []
    real = EpicMemory.open
    monkeypatch.setattr(EpicMemory, "open", lambda *a, **k: opened.append(a) or real(*a, **k))
    for options in ({"k": 0}, {"extractor": "gpt"}, {"kk": 3}, {"embeddings": 3}):
        with pytest.raises((ValidationError, InvalidInputError)):
            EpicGraphRetriever(graph=path, **options)  # type: ignore[arg-type]
    assert opened == []
    EpicGraphRetriever(graph=path).graph.close()
    assert len(opened) == 1
