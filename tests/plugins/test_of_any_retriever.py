"""What both plugins make of any retriever's results: a learnt order; and the events they send."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import numpy as np
import pytest

pytest.importorskip("langchain_core", reason="needs the extra langchain")
pytest.importorskip("llama_index.core", reason="needs the extra llamaindex")

from langchain_core.callbacks import AsyncCallbackHandler, BaseCallbackHandler
from langchain_core.documents import Document
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from pydantic import ValidationError

import epic_langchain as lc
import epic_llamaindex as li
from epic_llamaindex.events import EpicEvent
from epic_memory import EpicMemory, Settings
from epic_rerank import LearnedReranker
from epic_rerank.features import NAMES
from helpers import HashEncoder, both, method
from llamaindex_models import heard

PLUGINS: dict[str, Any] = {"lc": lc, "li": li}


def given(plugin: str, texts: Sequence[str]) -> list[Any]:
    if plugin == "lc":
        return [Document(id=str(n), page_content=text, metadata={"source": "a"}) for n, text in enumerate(texts)]
    nodes = [TextNode(id_=str(n), text=text, metadata={"source": "a"}) for n, text in enumerate(texts)]
    return [NodeWithScore(node=node, score=0.5) for node in nodes]


def read(results: Sequence[Any]) -> list[tuple[str, str, dict[str, Any]]]:
    """The ids, texts and metadata of results of either plugin."""
    assert all(not isinstance(one, NodeWithScore) or one.score == 0.5 for one in results)
    return [
        (one.id, one.page_content, one.metadata)
        if isinstance(one, Document)
        else (one.node_id, one.text, one.node.metadata)
        for one in results
    ]


async def ranked(component: Any, results: Sequence[Any], query: str) -> tuple[list[str], list[Any]]:
    """The ids and the probabilities of what comes out of either way to call it; what was given stays as it is."""
    before = read(results)
    if isinstance(component, lc.EpicReranker):
        found = read(await both(component, "compress_documents", results, query))
    else:
        found = read(await both(component, "postprocess_nodes", results, QueryBundle(query)))
    assert read(results) == before
    return [one for one, _, _ in found], [metadata.get("epic_rank_probability") for _, _, metadata in found]


def plain_memory() -> EpicMemory:
    return EpicMemory(encoder=HashEncoder(), settings=Settings(coarse=False, fine=False))


# a learnt order

TEAS = ("A long note on tea, with much more to say about it than others have.", "Tea.", "", "Bread and tea.")


def liking_length(towards: float) -> LearnedReranker:
    """A reranker for which long texts come first, or last."""
    reranker = LearnedReranker()
    weights = reranker.weights
    for name in ("W1", "W2", "W3"):
        weights[name][:] = 0.0
    weights["W1"][NAMES.index("length"), 0] = weights["W2"][0, 0] = 1.0
    weights["w3"][0] = 100.0 * towards
    return reranker


@pytest.mark.parametrize("plugin", PLUGINS)
async def test_results_come_in_the_learnt_order(plugin: str) -> None:
    memory, kind, teas = plain_memory(), PLUGINS[plugin].EpicReranker, given(plugin, TEAS)
    assert (await ranked(kind(memory=memory, top_n=3), teas, "tea"))[0] == ["0", "1", "2"]
    for towards, order in ((1.0, ["0", "3", "1", "2"]), (-1.0, ["1", "3", "0", "2"])):
        reranker = kind(memory=memory, reranker=liking_length(towards), top_n=4)
        found, chances = await ranked(reranker, teas, "tea")
        assert found == order
        assert np.sum(chances) == pytest.approx(1.0) and chances == sorted(chances, reverse=True)
    assert (await ranked(reranker, teas, ""))[0] == ["0", "1", "2", "3"]
    assert (await ranked(reranker, [], "tea"))[0] == []
    with pytest.raises(ValidationError):
        kind(memory=memory, top_n=0)


def test_documents_may_be_what_no_memory_would_hold() -> None:
    reranker = lc.EpicReranker(memory=plain_memory(), reranker=liking_length(1.0))
    odd = [Document(page_content=text, metadata={"score": 10**400}) for text in ("Tea\x00", "Bread \ud800 and tea.")]
    found = list(reranker.compress_documents(odd, "te\x00a"))
    assert found == list(reranker.compress_documents(iter(odd), "te\x00a"))  # type: ignore[arg-type]
    assert {one.page_content for one in found} == {one.page_content for one in odd}


# events


class Sync(BaseCallbackHandler):
    """Remembers the custom events of LangChain's callbacks."""

    def __init__(self) -> None:
        self.events: dict[str, Any] = {}

    def on_custom_event(self, name: str, data: Any, *, run_id: UUID, **_: Any) -> None:
        self.events[name] = data


class Async(Sync, AsyncCallbackHandler):
    """The same, of asynchronous callbacks."""

    async def on_custom_event(self, name: str, data: Any, *, run_id: UUID, **_: Any) -> None:  # type: ignore[override]
        self.events[name] = data


PREFERENCES = ["I avoid hotels with casinos."]
HOTELS = ["The Golden Ace is a hotel with a casino.", "Steam engines."]


async def of_langchain(memory: EpicMemory, asynchronous: bool) -> tuple[Any, Any, int, int]:
    retriever, keep = lc.EpicRetriever(memory=memory, k=3), lc.EpicDocumentTransformer(preferences=PREFERENCES)
    documents, handler = [Document(text) for text in HOTELS], Async() if asynchronous else Sync()
    found = method(retriever, "invoke", twin=asynchronous)("Which hotel?", {"callbacks": [handler]}, k=2)
    kept = method(keep, "invoke", twin=asynchronous)(documents, {"callbacks": [handler]})
    if asynchronous:
        found, kept = await found, await kept
    list(keep.lazy_transform(documents))  # outside of a run there is nobody to tell
    return handler.events["epic.search"], handler.events["epic.judge"], len(found), len(kept)


async def of_llamaindex(memory: EpicMemory, asynchronous: bool) -> tuple[Any, Any, int, int]:
    retriever, keep = li.EpicRetriever(memory, similarity_top_k=2), li.EpicTransform(preferences=PREFERENCES)
    nodes = [TextNode(text=text) for text in HOTELS]
    with heard() as (events, _):
        if asynchronous:
            found, kept = await retriever.aretrieve("Which hotel?"), await keep.acall(nodes)
        else:
            found, kept = retriever.retrieve("Which hotel?"), keep(nodes)
    search, judge = (event for event in events if isinstance(event, EpicEvent))
    assert (search.class_name(), judge.class_name()) == ("EpicSearchEvent", "EpicJudgeEvent")
    return search.measures, judge.measures, len(found), len(kept)


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("searched", [of_langchain, of_llamaindex])
async def test_handlers_get_counts_and_seconds_and_never_texts(searched: Any, asynchronous: bool) -> None:
    memory = EpicMemory(PREFERENCES)
    memory.add(HOTELS)
    search, judge, found, kept = await searched(memory, asynchronous)
    assert (search["epic.k"], search["epic.hits"]) == (2, found) and search["epic.seconds.embedding"] > 0
    assert (judge["epic.seen"], judge["epic.kept"]) == (2, kept)
    assert all(isinstance(value, (int, float)) for event in (search, judge) for value in event.values())
